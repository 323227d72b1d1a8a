# pyright: basic, reportMissingTypeStubs=false, reportPrivateUsage=false
"""
padc's lowerings in the registry of coremltools' converter of PyTorch models.

Every ATen op that padc lowers is registered, under the names that coremltools gives it.
What padc refuses goes to coremltools' own converter, except where that one is known to
be wrong without saying so.
"""

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops import in_place, reshapes, scalars
from padc.backends.coreml.torch_ops.arguments import (
    arguments_of,
    has_complex_tensors,
    has_wide_integers,
)
from padc.backends.coreml.torch_ops.complex_numbers import (
    replace_complex_numbers,
    with_complex_tensors,
)
from padc.backends.coreml.torch_ops.constants import (
    constant_converter,
    with_exact_values,
)
from padc.backends.coreml.torch_ops.expansions import expand
from padc.backends.coreml.torch_ops.exported_ranges import range_problems
from padc.backends.coreml.torch_ops.in_place import replace_writes
from padc.backends.coreml.torch_ops.initial_states import initial_problems
from padc.backends.coreml.torch_ops.lowering import MAY_BE_NUMBERS, lower_node
from padc.backends.coreml.torch_ops.overloads import MISFIT, overloads_named
from padc.backends.coreml.torch_ops.repairs import REPAIRS
from padc.backends.coreml.torch_ops.scalars import (
    ON_TENSORS_TOO,
    SCALARS,
    scalar_converter,
)
from padc.errors import Problem, UnsupportedError
from padc.frontends.torch_export.decompositions import decomposition
from padc.frontends.torch_export.nodes import is_composite, schema_name
from padc.ir.targets import TARGETS
from padc.passes import pipelines
from padc.passes.aten.refusals import TRAINING
from padc.warn import warn

with quiet():
    from coremltools.converters.mil.frontend.torch import internal_graph
    from coremltools.converters.mil.frontend.torch.converter import TorchConverter
    from coremltools.converters.mil.frontend.torch.torch_op_registry import (
        _TORCH_OPS_REGISTRY,
    )
    from coremltools.converters.mil.frontend.torch.utils import (
        TORCH_DTYPE_TO_NUM,
        TorchFrontend,
        sanitize_op_kind,
    )
    from coremltools.converters.mil.mil import Function
    from coremltools.converters.mil.mil.block import curr_block
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

Converter = Callable[[Any, Any], None]
"""Converts a node in a context, both of coremltools."""

WRONG = frozenset(
    """
    all any arange avg_pool1d avg_pool2d avg_pool3d constant_pad_nd full full_like
    new_full grid_sampler log_softmax _log_softmax masked_fill pad reflection_pad1d
    reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
    replication_pad3d scaled_dot_product_attention tril triu upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
    upsample_trilinear3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa
    """.split()
)
"""Ops that coremltools 9.0 silently converts to something else in some calls."""

DROPOUTS = frozenset(
    """
    alpha_dropout dropout feature_alpha_dropout feature_dropout native_dropout
    """.split()
)
KEPT = frozenset("alias copy detach contiguous lift_fresh_copy lift_fresh".split())
"""Ops that return their operand: coremltools converts those that it has to nothing."""


COMPLEX64 = 9
"""The number that TorchScript has for the type."""

TOO_OLD = Problem(
    "padc converts to ML programs only",
    hint='pass convert_to="mlprogram", and a target from iOS15 on',
)


@dataclass(frozen=True)
class Operator:
    """A converter of the nodes of one kind: padc's, then coremltools'."""

    kind: str
    original: Converter | None

    def __call__(self, context: Any, node: Any) -> None:
        function = enclosing_function()
        target = target_of(function)
        try:
            if target is None:
                raise UnsupportedError([TOO_OLD])
            made = lower_node(context, node, function, target, self.is_only_padcs)
        except UnsupportedError as error:
            return self.convert_by_coremltools(context, node, error)
        add_results(context, node, made)

    def convert_by_coremltools(
        self, context: Any, node: Any, error: UnsupportedError
    ) -> None:
        """Convert by coremltools' own converter, or raise `error`."""
        # coremltools would take the nearest integers of int32.
        if self.original is None or has_wide_integers(context, node):
            raise error
        if not is_too_old(error) and (self.is_only_padcs or is_in_training(error)):
            raise error
        # coremltools would leave out a complex `alpha`.
        is_misfit = message_of(error).endswith(MISFIT)
        if is_misfit and has_complex_tensors(context, node):
            raise error
        try:
            self.original(context, node)
        except Exception as failure:
            if is_too_old(error) or message_of(error).endswith(MAY_BE_NUMBERS):
                raise
            raise error from failure

    @property
    def is_only_padcs(self) -> bool:
        """Whether coremltools has no converter, or one that is wrong for some calls."""
        return self.original is None or self.kind.partition(".")[0] in WRONG


def is_too_old(error: UnsupportedError) -> bool:
    return error.problems == [TOO_OLD]


def is_in_training(error: UnsupportedError) -> bool:
    """Whether padc refuses an op for the random numbers that it draws in training."""
    return message_of(error).endswith(TRAINING[0])


def message_of(error: UnsupportedError) -> str:
    return error.problems[0].message


def enclosing_function() -> Any:
    """The function that coremltools is building."""
    block = curr_block()
    while not isinstance(block, Function):
        block = block.outer_op.enclosing_block
    return block


def target_of(function: Any) -> str | None:
    """The Core ML version of a function; None before ML programs."""
    version = function.opset_version
    name = "" if version is None else version.name
    return name if name in TARGETS else None


def add_results(context: Any, node: Any, made: Any) -> None:
    """Hand the results of a node to coremltools."""
    is_scripted = context.frontend == TorchFrontend.TORCHSCRIPT
    if is_scripted and isinstance(made, tuple) and len(node.outputs) > 1:
        for var, name in zip(made, node.outputs, strict=True):
            if var is not None:
                context.add(var, torch_name=name)
    else:
        context.add(made, torch_name=node.name)


def convert_same(context: Any, node: Any) -> None:
    """Convert a node that returns its first operand."""
    (x, *_), _ = arguments_of(context, node)
    context.add(x, torch_name=node.name)


def dropout_converter(original: Converter | None) -> Converter:
    """The converter of an idle dropout; coremltools makes nothing of others, too."""

    def convert(context: Any, node: Any) -> None:
        (_, *rest), named = arguments_of(context, node)
        options = [*rest, *named.values()]
        if any(each is True for each in options) and 0.0 not in options:
            reason, hint = TRAINING
            raise UnsupportedError([Problem(f"{node.kind}: {reason}", None, hint)])
        (original or convert_same)(context, node)

    return convert


@functools.cache
def kinds() -> Sequence[str]:
    """The names in coremltools' registry of the ops that padc lowers."""
    legal = pipelines.legal_for_mil()
    found: set[str] = set()
    for name in aten_names():
        # Once for the namespace, then for the underscores of `__and__`.
        kind = sanitize_op_kind(sanitize_op_kind(name))
        if kind.endswith("_") or kind in KEPT | DROPOUTS:
            continue
        for op in overloads_named(kind):
            listed = schema_name(op)
            if listed in legal or is_composite(op) or decomposition(op) is not None:
                found.add(kind)
                found.add(sanitize_op_kind(listed))
    return sorted(found)


def aten_names() -> set[str]:
    """
    The names of ATen's ops, without their overloads.

    `dir(torch.ops.aten)` lists only those that something has used.
    """
    names = [name.split(".")[0] for name in torch._C._dispatch_get_all_op_names()]
    return {name for name in names if name.startswith("aten::")}


@contextmanager
def registered() -> Generator[None]:
    """
    Register padc's operators and repairs; restore what was there afterwards.

    What the user has registered stays, whether it was there before or came later.
    """
    registry, passes = _TORCH_OPS_REGISTRY.name_to_func_mapping, PASS_REGISTRY.passes
    repaired = {name: repair(passes[name]) for name, repair in REPAIRS.items()}
    with (
        replaced(registry, converters(registry)),
        replaced(passes, repaired),
        replaced(TORCH_DTYPE_TO_NUM, {torch.complex64: COMPLEX64}),
        wrapped(internal_graph, "_expand_and_optimize_ir", simplified),
        wrapped(TorchConverter, "__init__", checked),
        wrapped(TorchConverter, "_add_const", with_exact_values),
    ):
        yield


def converters(registry: Mapping[str, Converter]) -> Mapping[str, Converter]:
    """padc's converters, by their names in coremltools' registry."""

    def on_numbers(table: Mapping[str, Callable[..., Any]]) -> dict[str, Converter]:
        return {
            kind: scalar_converter(build, registry.get(kind))
            for kind, build in table.items()
        }

    originals = {**registry, **on_numbers(ON_TENSORS_TOO), **reshapes.CONVERTERS}
    return {
        **{kind: Operator(kind, originals.get(kind)) for kind in kinds()},
        **on_numbers(SCALARS),
        **{kind: dropout_converter(registry.get(kind)) for kind in DROPOUTS},
        **{kind: convert_same for kind in KEPT - registry.keys()},
        "constant": constant_converter(registry["constant"]),
        **in_place.CONVERTERS,
        **scalars.CONVERTERS,
    }


def checked(make: Callable[..., None]) -> Callable[..., None]:
    """coremltools' constructor of a converter, which looks at its model, too."""

    @functools.wraps(make)
    def made(converter: Any, loaded_model: Any, *args: Any, **options: Any) -> None:
        is_exported = isinstance(loaded_model, ExportedProgram)
        if is_exported:
            loaded_model = with_complex_tensors(loaded_model)
        make(converter, loaded_model, *args, **options)
        problems = [*initial_problems(converter)]
        if is_exported:
            problems += range_problems(converter, loaded_model)
        for problem in problems:
            warn(problem)

    return made


@contextmanager
def replaced(table: dict[Any, Any], entries: Mapping[Any, Any]) -> Generator[None]:
    """Replace entries of a table that are coremltools' own, and restore them."""
    ours = {name: x for name, x in entries.items() if not is_users(table.get(name))}
    before = {name: table[name] for name in ours if name in table}
    table.update(ours)
    try:
        yield
    finally:
        for name, entry in ours.items():
            if table.get(name) is not entry:
                continue  # The user has replaced it.
            del table[name]
            if name in before:
                table[name] = before[name]


@contextmanager
def wrapped(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> Generator[None]:
    """Wrap a function of coremltools, and restore it unless it was replaced."""
    before = getattr(owner, name)
    ours = wrapper(before)
    setattr(owner, name, ours)
    try:
        yield
    finally:
        if getattr(owner, name) is ours:
            setattr(owner, name, before)


def is_users(entry: Any) -> bool:
    """Whether an entry of coremltools' registries is not coremltools' own."""
    module = getattr(entry, "__module__", None)
    return entry is not None and not str(module).startswith("coremltools.")


def simplified(graph_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """
    coremltools' function that makes a graph of a TorchScript model.

    The graph has no writes in place, and no ops that stand for several others.
    """

    def simplified_graph_of(torchscript: Any) -> Any:
        graph, parameters, buffers = graph_of(torchscript)
        replace_complex_numbers(graph)
        registry = _TORCH_OPS_REGISTRY.name_to_func_mapping
        expand(graph, {kind for kind, entry in registry.items() if is_users(entry)})
        replace_writes(graph, parameters)
        return graph, parameters, buffers

    return simplified_graph_of
