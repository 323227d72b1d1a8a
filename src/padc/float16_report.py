# pyright: reportUnknownMemberType=false
"""What float16 costs in accuracy, which ops that comes from, and what to keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

from padc.frontends.torch_export import module_of
from padc.models.exported import Source
from padc.models.lower_precision import LowerPrecision
from padc.models.mlir_model import MlirModel
from padc.verification import TOLERANCES, Comparison, EagerCalls, compare

__all__ = ["Float16Report"]

Trial = Callable[[tuple[str, ...]], Sequence[Comparison]]
"""Compares a float16 program that keeps these in float32 with PyTorch."""


@dataclass(frozen=True)
class Float16Report:
    """
    What float16 costs a model in accuracy; `Program.float16_report` makes it.

    All errors are compared with PyTorch in float32, in parts of the range of the
    expected output. `str()` of it is a table.

    Example:
        >>> import padc, torch
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))
        >>> report = padc.convert(model, (torch.randn(2, 8),)).float16_report()
        >>> report.error < report.bound, report.is_like_pytorch
        (True, True)
        >>> report.recommended, report.advice
        ((), 'float16 is within 0.01 of the range: nothing to keep')
        >>> sorted(report.kept)
        ['matmuls', 'softmax']
    """

    bound: float
    """The error that `verify` allows for float16."""
    outputs: tuple[Comparison, ...]
    """The outputs of the program whose ops are all float16, except those that padc
    always keeps in float32, and those that the program was converted to keep."""
    kept: Mapping[str, float]
    """For each kind of ops that the program has, the largest error if these, too, are
    in float32: the lower, the more of the error comes from them."""
    recommended: tuple[str, ...]
    """What to keep in float32, as `keep_float32` of `padc.convert` takes it."""
    recommended_error: float
    """The largest error then."""
    pytorch: Mapping[str, float | None]
    """The largest errors of PyTorch's own runs of the model with every op in "float16"
    and in "bfloat16"; None if PyTorch cannot run it so."""

    @property
    def error(self) -> float:
        """The largest error of an output."""
        return largest(self.outputs)

    @property
    def is_like_pytorch(self) -> bool:
        """Whether PyTorch's own float16 is as far from float32, or half as far."""
        own = self.pytorch["float16"]
        return own is not None and (own >= self.error / 2 or math.isnan(own))

    def __str__(self) -> str:
        lines = [
            f"{described(each.name)} in float16: max error {each.max_error:.2e}, "
            f"{each.relative_error:.2e} of its range"
            for each in self.outputs
        ]
        for dtype, error in self.pytorch.items():
            text = (
                "it cannot run this" if error is None else f"{error:.2e} of the range"
            )
            lines.append(f"PyTorch itself, every op in {dtype}: {text}")
        if self.kept:
            width = max(map(len, self.kept))
            lines.append("error of the range if these are kept in float32:")
            for name, error in sorted(self.kept.items(), key=lambda item: item[1]):
                lines.append(f"  {name:{width}} {error:.2e}")
        lines.append(self.advice)
        return "\n".join(lines)

    @property
    def advice(self) -> str:
        """A recommendation in one line."""
        if self.error <= self.bound:
            return f"float16 is within {self.bound:g} of the range: nothing to keep"
        advice = f"float16 is off by more than {self.bound:g} of the range"
        if self.is_like_pytorch:
            advice += ", as PyTorch's own float16 is"
        if self.recommended_error > self.bound:
            return f'{advice}: use precision="float32"'
        return (
            f"{advice}: keep_float32={list(self.recommended)} brings it to "
            f"{self.recommended_error:.2e}"
        )


def described(name: str) -> str:
    return name if name.startswith("buffer ") else f"output '{name}'"


def largest(comparisons: Sequence[Comparison]) -> float:
    return max((each.relative_error for each in comparisons), default=0.0)


def report_of(
    trial: Trial,
    kinds: Sequence[str],
    pytorch: Callable[[], Mapping[str, float | None]],
) -> Float16Report:
    """
    The report of a program that has ops of these kinds.

    The trials come first: they check the inputs.
    """
    bound = TOLERANCES["float16"]
    outputs = tuple(trial(()))
    kept = {kind: largest(trial((kind,))) for kind in kinds}
    errors: dict[tuple[str, ...], float] = {(): largest(outputs)}
    errors.update(((kind,), error) for kind, error in kept.items())

    def error_of(names: tuple[str, ...]) -> float:
        if names not in errors:
            errors[names] = largest(trial(names))
        return errors[names]

    recommended = chosen(error_of, sorted(kinds, key=kept.__getitem__), bound)
    return Float16Report(
        bound, outputs, kept, recommended, error_of(recommended), pytorch()
    )


def chosen(
    error_of: Callable[[tuple[str, ...]], float], names: Sequence[str], bound: float
) -> tuple[str, ...]:
    """
    Few of the names whose error is at most `bound`, or all of them.

    The first names that are enough together, without those that are not needed. One
    alone may not help: a phase that is summed in float32 needs a sine in float32, too.
    """
    found: tuple[str, ...] = ()
    for name in names:
        if error_of(found) <= bound:
            break
        found = (*found, name)
    if error_of(found) > bound:
        return found
    for name in found[:-1]:
        fewer = tuple(each for each in found if each != name)
        if error_of(fewer) <= bound:
            found = fewer
    return found


def pytorch_errors(
    model: torch.nn.Module | ExportedProgram,
    exported: Source,
    inputs: Sequence[Sequence[torch.Tensor]],
) -> dict[str, float | None]:
    """The largest error of PyTorch's own runs in lower precisions."""
    return {
        str(dtype).removeprefix("torch."): pytorch_error(model, exported, inputs, dtype)
        for dtype in (torch.float16, torch.bfloat16)
    }


def pytorch_error(
    model: torch.nn.Module | ExportedProgram,
    exported: Source,
    inputs: Sequence[Sequence[torch.Tensor]],
    dtype: torch.dtype,
) -> float | None:
    """The largest error of PyTorch in this dtype; None if it cannot run the model."""
    if isinstance(exported, MlirModel):
        return None
    module = module_of(model) if isinstance(model, ExportedProgram) else model
    expected = calls(module, exported, inputs)
    lower = [
        [x.to(dtype) if x.is_floating_point() else x for x in sample]
        for sample in inputs
    ]
    try:
        with LowerPrecision(dtype):
            actual = calls(module, exported, lower)
    except Exception:  # PyTorch raises exceptions of any kind for ops that it lacks.
        return None
    pairs = zip(actual, expected, strict=True)
    return largest([compare("", is_, should) for is_, should in pairs])


def calls(
    module: torch.nn.Module,
    exported: Source,
    inputs: Sequence[Sequence[torch.Tensor]],
) -> list[torch.Tensor]:
    """The outputs for all samples, one after the other."""
    eager = EagerCalls(module, {})
    return [
        output
        for sample in inputs
        for output in eager(exported.example_inputs or (tuple(sample), {}), sample)
    ]
