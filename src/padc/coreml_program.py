# pyright: reportUnknownMemberType=false
"""Converting a model to Core ML, and what comes of it: the public API."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException

from padc.backends.coreml import resolve_precision
from padc.backends.coreml.checker import Finding, check
from padc.errors import InvalidProgramError, PadcError, resolve
from padc.exported import as_exported
from padc.ir.dominance import verify
from padc.ir.mil import resolve_target
from padc.ir.weights import weights_of
from padc.passes import pipelines
from padc.passes.tcp_to_mil.decompose_grid_sample import (
    GridSamplePolicy,
    resolve_grid_sample_policy,
)
from padc.passes.tcp_to_mil.decompose_pads import (
    PadPolicy,
    resolve_pad_policy,
)
from padc.verification import (
    Comparison,
    run_package,
    sample_inputs,
    tensor_outputs,
    verify_package,
)

Precision: TypeAlias = Literal["float32", "float16"]
Stage: TypeAlias = Literal["torch", "tcp", "mil"]
Observer: TypeAlias = Callable[[str, ModuleOp | None, float], None]
"""Told of each step that ends: its name, the module if it has one, its seconds."""


@dataclass
class Program:
    """A model converted to Core ML; made by `convert`."""

    model: torch.nn.Module | ExportedProgram
    """What was converted."""
    exported: ExportedProgram
    """The model's export."""
    target: str
    """The oldest system that the program is for: iOS15 and so on."""
    precision: Precision
    """What floats are computed in; inputs and outputs keep their dtypes."""
    pad_policy: PadPolicy
    """Which pads are Core ML's own: those that it has, as many as can be, or few."""
    grid_sample_policy: GridSamplePolicy
    """Which grid samples are Core ML's own: exact ones, all, or none."""
    _pymil: Any = field(repr=False)

    @property
    def operation_count(self) -> int:
        """How many ops the Core ML program has, not counting its constants."""
        operations = self._pymil.functions["main"].operations
        return sum(operation.op_type != "const" for operation in operations)

    def save(self, path: str | Path) -> None:
        """
        Write a `.mlpackage`, in place of one that is there.

        Raises UsageError where that can't be done; what was there then still is.
        """
        from padc.backends.coreml.save import save_package

        save_package(self._pymil, path)

    def mlir(self, stage: Stage = "mil") -> str:
        """The program's text after a stage: torch, tcp or mil; without weights."""
        resolve("stage", stage, get_args(Stage))
        ctx, module = pipelines.import_program(self.exported)
        if stage != "torch":
            pipelines.run_passes(ctx, module, pipelines.to_tcp())
        if stage == "mil":
            to_mil = pipelines.to_mil(
                self.target, self.pad_policy, self.grid_sample_policy
            )
            pipelines.run_passes(ctx, module, to_mil)
        text = io.StringIO()
        Printer(text).print_op(module)
        return text.getvalue() + "\n"

    def run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """
        Save the program to a temporary package, and run that, on this machine.

        Takes and returns tensors as the model does: in its order, and of its dtypes,
        though the package has int32 and floats for some (see `run_package`).
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            self.save(path)
            outputs = run_package(path, inputs)
        return tuple(
            # Core ML has no rank 0 at its borders.
            output.to(like.dtype).reshape(output.shape if like.dim() else ())
            for output, like in zip(outputs, tensor_outputs(self.exported), strict=True)
        )

    def check(self) -> list[Finding]:
        """What in the saved package would break a rule of Core ML; see `padc check`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            self.save(path)
            return check(path, self.target)

    def verify(
        self, inputs: Sequence[Sequence[torch.Tensor]] | None = None
    ) -> list[Comparison]:
        """
        Compare with PyTorch eager: for each of `inputs`, a run of the saved package.

        Without `inputs`, on two: the example inputs, and random ones like them, both
        of their shapes: give others to verify other sizes of dynamic dimensions.
        Raises WrongResultError where an output is off by more than `TOLERANCES` of
        `padc.verification` for the precision.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            self.save(path)
            return verify_package(
                self.model,
                self.exported,
                path,
                sample_inputs(self.exported) if inputs is None else inputs,
                self.precision,
            )


def convert(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str = "iOS17",
    precision: Precision = "float32",
    pad_policy: PadPolicy = "auto",
    grid_sample_policy: GridSamplePolicy = "auto",
    dynamic_shapes: Any = None,
    verify: bool = False,
    observer: Observer | None = None,
) -> Program:
    """
    Convert a model to a Core ML program.

    `model` is a module, with the `example_inputs` to trace it with, or what
    `torch.export.export` or `torch.export.load` returned. `target` is the oldest
    system to run on, iOS15 to iOS18, iOS26 or "newest". `dynamic_shapes` is that of
    `torch.export.export`; each dynamic dimension needs a `max`. `pad_policy` is
    which pads are Core ML's own, "auto", "native" or "decompose": see
    `padc.passes.tcp_to_mil.decompose_pads`. With `verify`, the program is run and
    compared with the model before it is returned.

    Raises UsageError for arguments that do not fit, UnsupportedError with everything
    that can't be converted, WrongResultError where `verify` finds a difference.
    """
    target = resolve_target(target)
    resolve_precision(precision)
    resolve_pad_policy(pad_policy)
    resolve_grid_sample_policy(grid_sample_policy)
    steps = _Steps(observer)
    exported = as_exported("padc.convert", model, example_inputs, dynamic_shapes)
    if exported is not model:
        steps.end("export")
    ctx, module = pipelines.import_program(exported)
    weights = weights_of(ctx)
    # The program must not change when the model's weights do.
    for name, array in weights.items():
        weights[name] = array.copy()
    steps.end("import", module)
    to_mil = pipelines.to_mil(target, pad_policy, grid_sample_policy)
    pipelines.run_passes(ctx, module, [*pipelines.to_tcp(), *to_mil], steps.end)
    verify_lowered(module)

    from padc.backends.coreml.emit import emit
    from padc.backends.coreml.save import optimize

    pymil = emit(module, weights, target)
    steps.end("emit")
    optimize(pymil, precision)
    steps.end("optimize")
    program = Program(
        model, exported, target, precision, pad_policy, grid_sample_policy, pymil
    )
    if verify:
        program.verify()
        steps.end("verify")
    return program


@dataclass
class _Steps:
    """Tells an observer how long each step took."""

    observer: Observer | None
    since: float = field(default_factory=time.perf_counter)

    def end(self, name: str, module: ModuleOp | None = None) -> None:
        now = time.perf_counter()
        if self.observer is not None:
            self.observer(name, module, now - self.since)
        self.since = time.perf_counter()


def verify_lowered(module: ModuleOp) -> None:
    """Raise InvalidProgramError where the lowered program is invalid."""
    try:
        verify(module)
    except DiagnosticException as error:
        if isinstance(error, PadcError):
            raise
        raise InvalidProgramError(f"the lowered program is invalid: {error}") from error
