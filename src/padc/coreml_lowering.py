# pyright: reportUnknownMemberType=false
"""
From an exported program to a program of coremltools, step by step.

coremltools takes seconds to load: functions import the files that need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from torch.export import ExportedProgram
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from padc.backends.coreml.numerics import Numerics
from padc.errors import InvalidProgramError, Obstacle, PadcError
from padc.frontends.torch_export.guarded_ranges import narrow_sizes, refused
from padc.frontends.torch_export.input_strides import check_row_major
from padc.ir.dominance import verify
from padc.ir.weights import Weights, weights_of
from padc.models.described_shapes import check_listed_shapes, listed_shapes
from padc.models.exported import Source, imported
from padc.models.listing import with_listed_shapes
from padc.passes import pipelines
from padc.warn import warn

if TYPE_CHECKING:
    from padc.backends.coreml.app.features import Features

Observer: TypeAlias = Callable[[str, ModuleOp | None, float], None]
"""Called after each step with its name, its module if any, and its seconds."""


def lowered(
    exported: Source,
    target: str,
    features: Features | None,
    passes: Sequence[ModulePass],
    steps: Steps,
) -> tuple[ModuleOp, Weights, Features | None]:
    """
    The program after `passes`, verified, and its own copy of the weights.

    The features list shapes of inputs, too, where the sizes that fit are no range.
    """
    from padc.backends.coreml.app.interface import check_features, check_interface

    if isinstance(exported, ExportedProgram):
        check_row_major(exported)
    ctx, module = imported(exported, pipelines.legal_for_mil())
    check_interface(module, target)
    check = partial(check_features, module, target)
    messages, features = set_sizes(module, exported, features, target, check)
    for message in messages:
        warn(message)
    weights = weights_of(ctx)
    # The program must not change when the model's weights do.
    for name, array in weights.items():
        weights[name] = array.copy()
    steps.end("import", module)
    pipelines.run_passes(ctx, module, passes, steps.end)
    verify_lowered(module)
    return module, weights, features


def emitter(
    exported: Source,
    target: str,
    features: Features | None,
    passes: Sequence[ModulePass],
) -> Callable[[Numerics], Any]:
    """
    A function that emits the program with the given numerics.

    Programs keep a call of this that is still to be made: the function that it returns
    holds all weights in float32.
    """
    module, weights, described = lowered(
        exported, target, features, passes, Steps(None)
    )
    return partial(emitted, module, weights, target, described)


def set_sizes(
    module: ModuleOp,
    exported: Source,
    features: Features | None,
    target: str,
    check: Callable[[Features], None] = lambda features: None,
) -> tuple[Sequence[str], Features | None]:
    """
    Narrow dynamic sizes to those for which the program is the model.

    Returns what guards exclude, as messages, and the features with the shapes of inputs
    whose sizes are no range. If the user lists shapes, the program has to be the model
    for these. `check` raises UsageError for features that do not fit.
    """
    messages: Sequence[str] = ()
    listed = None if features is None else listed_shapes(module, features)
    if listed is None and isinstance(exported, ExportedProgram):
        left = narrow_sizes(module, exported)
        messages = left.messages
        if left.values_with_gaps:
            try:
                features = with_listed_shapes(
                    module, features, left.values_with_gaps, target
                )
            except Obstacle as error:
                raise refused(exported, left.guards_with_gaps, error.message) from error
    if features is not None:
        check(features)
    if listed is not None:
        check_listed_shapes(module, exported, listed)
    return messages, features


def emitted(
    module: ModuleOp,
    weights: Weights,
    target: str,
    features: Features | None,
    numerics: Numerics,
    steps: Steps | None = None,
) -> Any:
    """The program as coremltools has it, after coremltools' passes."""
    from padc.backends.coreml.app.labels import add_classify
    from padc.backends.coreml.compress import compress
    from padc.backends.coreml.emit import emit
    from padc.backends.coreml.optimize import optimize

    steps = steps or Steps(None)
    pymil = emit(module, weights, target, features)
    steps.end("emit")
    optimize(pymil, numerics.precision, numerics.keep_float32)
    steps.end("optimize")
    if numerics.compression is not None:
        compress(pymil, numerics.compression, numerics.pretend)
        steps.end("compress")
    add_classify(pymil)
    return pymil


@dataclass
class Steps:
    """Calls an observer with the seconds that each step took."""

    observer: Observer | None
    since: float = field(default_factory=time.perf_counter)

    def end(self, name: str, module: ModuleOp | None = None) -> None:
        now = time.perf_counter()
        if self.observer is not None:
            self.observer(name, module, now - self.since)
        self.since = time.perf_counter()


def verify_lowered(module: ModuleOp) -> None:
    """Raise InvalidProgramError if the lowered program does not verify."""
    try:
        verify(module)
    except DiagnosticException as error:
        if isinstance(error, PadcError):
            raise
        raise InvalidProgramError(f"the lowered program is invalid: {error}") from error
