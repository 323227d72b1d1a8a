# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""
The shapes that a program computes, without its values.

Each op is run by the evaluator on PyTorch's meta tensors, which have shapes and no
data. Values that only depend on shapes and constants, such as the argument of a
reshape, are computed. If an op needs missing data, its declared shape is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any

import torch

from padc.backends.coreml.checker.checked_op import Shape
from padc.backends.coreml.evaluator.execution import Block, Call, Execution
from padc.backends.coreml.evaluator.loading import load_program
from padc.backends.coreml.evaluator.package import Message, Package, element_count
from padc.backends.coreml.evaluator.types import FP16, FP32, TensorType
from padc.errors import InvalidProgramError, PadcError, UnsupportedError

LARGE = 2**20
"""The largest number of elements of a value that is computed."""


class WeightShapes(Package):
    """A package whose large float weights only have shapes: their data is memory."""

    def _blob(self, name: str, offset: int, kind: TensorType) -> torch.Tensor:
        if kind.dtype not in (FP16, FP32) or element_count(kind) < 4096:
            return super()._blob(name, offset, kind)
        # Converting float16 to what it is held as would be slow.
        stored = replace(FP16, held_as=torch.float16) if kind.dtype is FP16 else FP32
        weight = super()._blob(name, offset, TensorType(stored, kind.shape))
        return torch.empty(weight.shape, dtype=kind.dtype.held_as, device="meta")


def load(package: Package, function: Message) -> Block:
    """The function, for `compute`; raises the errors of `load_program`."""
    try:
        return load_program(package, function, Execution(rounding=False))
    except InvalidProgramError as error:
        if not _is_about_meta(error):
            raise
        # A constexpr op needs the data of a weight.
        return load_program(Package(package.path), function, Execution(rounding=False))


def compute(
    program: Block, inputs: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, Shape | InvalidProgramError]]:
    """
    The shape of each value, for inputs of these shapes; or an error, if the op's result
    is not as declared, or the op cannot be run (then the error has a cause).
    Raises InvalidProgramError for an input that is too large for any memory.
    """
    values: dict[str, Any] = dict(program.constants)
    for name, shape in inputs.items():
        kind = program.inputs[name]
        assert isinstance(kind, TensorType)
        values[name] = _empty(kind, shape)
        yield name, shape
    for call in program.calls:
        try:
            results = _run(call, values)
            values |= _declared(call) if results is None else results
        except InvalidProgramError as error:
            yield next(iter(call.outputs), ""), error
            with suppress(InvalidProgramError):
                values |= _declared(call)
        for name in call.outputs:
            if isinstance(value := values.get(name), torch.Tensor):
                yield name, tuple(value.shape)


def _declared(call: Call) -> dict[str, torch.Tensor]:
    """Outputs as they are declared, except those of unknown sizes."""
    return {
        name: _empty(kind, [dim for dim in kind.shape if dim is not None])
        for name, kind in call.outputs.items()
        if isinstance(kind, TensorType) and None not in kind.shape
    }


def _run(call: Call, values: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The op's results; None if they depend on missing data."""
    used = {
        source
        for _, sources in call.variable.values()
        for source in sources
        if isinstance(source, str)
    }
    if call.blocks or not used <= values.keys():
        return None
    without_data = {
        name: value
        for name in used
        if isinstance(value := values[name], torch.Tensor) and value.is_meta
    }
    if not without_data:
        sizes = (it.shape for it in call.outputs.values() if isinstance(it, TensorType))
        if any(prod(dim or 1 for dim in shape) > LARGE for shape in sizes):
            return None
    attempts = [(call, values)]
    if without_data:
        # PyTorch does not mix operands with and without data.
        attempts.append((_strip_call(call), {n: _strip(values[n]) for n in used}))
    for attempt, given in attempts:
        try:
            return attempt.run(given, Execution(rounding=False))
        except UnsupportedError:
            return None
        except InvalidProgramError as error:
            if not _is_about_meta(error):
                raise
    return None


def _strip(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _strip_call(call: Call) -> Call:
    return replace(
        call,
        fixed={name: _strip(value) for name, value in call.fixed.items()},
        variable={
            name: (parameter, [_strip(source) for source in sources])
            for name, (parameter, sources) in call.variable.items()
        },
    )


def _empty(kind: TensorType, shape: Sequence[int]) -> torch.Tensor:
    """A tensor without data; InvalidProgramError if its bytes overflow."""
    try:
        return torch.empty(shape, dtype=kind.dtype.held_as, device="meta")
    except (RuntimeError, TypeError) as error:
        raise InvalidProgramError(f"{kind} of shape {shape} is too large") from error


def _is_about_meta(error: InvalidProgramError) -> bool:
    """Whether PyTorch raised it about a meta tensor; only its cause tells, since the
    message itself contains names of the program."""
    cause = error.__cause__
    while isinstance(cause, PadcError):
        cause = cause.__cause__
    return cause is not None and "meta" in str(cause).lower()
