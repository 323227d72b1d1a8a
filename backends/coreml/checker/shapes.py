# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""
The shapes that a program computes, without its values.

Each op is run by the evaluator on dataless arrays. Values that only depend on shapes
and constants, such as the argument of a reshape, are computed. If an op needs missing
data, its declared shape is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from padc.backends.coreml.checker.checked_op import Shape
from padc.backends.coreml.evaluator.execution import Block, Call, Execution
from padc.backends.coreml.evaluator.loading import load_program
from padc.backends.coreml.evaluator.package import Message, Package, element_count
from padc.backends.coreml.evaluator.values.dataless import (
    Dataless,
    NoDataError,
    is_dataless,
)
from padc.backends.coreml.evaluator.values.types import FP16, FP32, Array, TensorType
from padc.errors import InvalidProgramError, UnsupportedError

LARGE = 2**20
"""The largest number of elements of a value that is computed."""


class WeightShapes(Package):
    """A package whose large float weights only have shapes: their data is memory."""

    def _blob(self, name: str, offset: int, kind: TensorType) -> Array:
        if kind.dtype not in (FP16, FP32) or element_count(kind) < 4096:
            return super()._blob(name, offset, kind)
        self._blob_data(name, offset, kind)
        return Dataless([dim or 0 for dim in kind.shape], kind.dtype.held_as)


def load(package: Package, function: Message) -> Block:
    """The function, for `compute`; raises the errors of `load_program`."""
    try:
        return load_program(package, function, Execution(rounding=False))
    except InvalidProgramError as error:
        if not _needs_data(error):
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
            if isinstance(values.get(name), np.ndarray):
                yield name, values[name].shape


def _declared(call: Call) -> dict[str, Array]:
    """Outputs as they are declared, except those of unknown sizes."""
    declared: dict[str, Array] = {}
    for name, kind in call.outputs.items():
        if isinstance(kind, TensorType):
            sizes = [dim for dim in kind.shape if dim is not None]
            if len(sizes) == len(kind.shape):
                declared[name] = _empty(kind, sizes)
    return declared


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
    if not is_dataless(*(values[name] for name in used)):
        sizes = (it.shape for it in call.outputs.values() if isinstance(it, TensorType))
        if any(prod(dim or 1 for dim in shape) > LARGE for shape in sizes):
            return None
    try:
        return call.run(values, Execution(rounding=False))
    except UnsupportedError:
        return None
    except InvalidProgramError as error:
        if _needs_data(error):
            return None
        raise


def _empty(kind: TensorType, shape: Sequence[int]) -> Array:
    """A tensor without data; InvalidProgramError if its bytes overflow."""
    try:
        return Dataless(shape, kind.dtype.held_as)
    except ValueError as error:
        raise InvalidProgramError(f"{kind} of shape {shape} is too large") from error


def _needs_data(error: InvalidProgramError) -> bool:
    """Whether an op needs data, and the array has only a shape."""
    return isinstance(error.__cause__, NoDataError)
