"""ATen ops that create tensors from numbers and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32, i32
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.element_types import is_float
from padc.ir.torch import NotConstantError, constant_value
from padc.passes.aten.formulas import evenly_spaced
from padc.passes.aten.refusals import INTEGERS
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers, scalar_type
from padc.passes.torch_to_mil.aten.movement import Size, broadcast_to, filled, sizes_of
from padc.passes.torch_to_mil.aten.parts import check_count, steps
from padc.passes.torch_to_mil.aten.reshaping import known_sizes
from padc.passes.torch_to_mil.aten.slicing import outline
from padc.passes.torch_to_mil.aten.tensor import Tensor


def number(call: MilCall, name: str) -> Tensor:
    """A number, constant or computed, in the result's type."""
    return number_of(call, call.op.arg(name))


def number_of(call: MilCall, value: SSAValue) -> Tensor:
    type = call.result_element_type()
    try:
        known = constant_value(value)
    except NotConstantError:
        return call.scalar(value).to(type)
    if not isinstance(known, int | float):
        raise Obstacle(f"the number {known!r}", "give a real number")
    return Tensor(call.build, np.float64(0), type).constant(known)


FILLS: Mapping[str, float | str] = {
    **dict.fromkeys(("empty.memory_format", "empty_permuted", "empty_strided"), 0),
    **dict.fromkeys(("new_empty", "new_empty_strided", "empty_like"), 0),
    **dict.fromkeys(("zeros", "new_zeros", "zeros_like", "zero"), 0),
    **dict.fromkeys(("ones", "new_ones", "ones_like"), 1),
    **dict.fromkeys(("full", "full_like", "new_full"), "fill_value"),
    "fill.Scalar": "value",
}
"""The number that each op fills with, or its argument."""

FINEST = 2**10
"""Computed steps are multiples of one by this, of which int32 has many."""


@lowers(*(f"aten.{name}" for name in FILLS))
def lower_full(call: MilCall) -> Tensor:
    value = FILLS[call.name.removeprefix("aten.")]
    if isinstance(value, str):
        x = number(call, value)
    else:
        zero = Tensor(call.build, np.float64(0), call.result_element_type())
        x = zero.constant(value)
    return filled(x, sizes_of_result(call))


def sizes_of_result(call: MilCall) -> list[Size]:
    """The sizes that an op is given, or those of its operand."""
    if DYNAMIC_INDEX not in call.result_shape():
        return list(call.result_shape())
    if "size" in call.op.schema.positions:
        return known_sizes(call, call.sizes("size"))
    return known_sizes(call, sizes_of(call.tensor("self")))


@lowers("aten.fill.Tensor")
def lower_fill(call: MilCall) -> Tensor:
    value = call.tensor("value").to(call.result_element_type())
    return broadcast_to(value, sizes_of_result(call))


@lowers("aten.scalar_tensor", "prim.NumToTensor.Scalar")
@lowers("aten.tensor.int", "aten.tensor.float", "aten.tensor.bool")
def lower_scalar_tensor(call: MilCall) -> Tensor:
    return number_of(call, call.op.operands[0])


# --- sequences ------------------------------------------------------------------------


@lowers("aten.arange", "aten.arange.start", "aten.arange.start_step")
@lowers("aten.range", "aten.range.step", "prims.iota")
def lower_arange(call: MilCall) -> Tensor:
    """PyTorch computes integers in int64, and floats in float64."""
    names = [n for n in ("start", "end", "step") if n in call.op.schema.positions]
    (count,) = call.result_shape()
    if count != DYNAMIC_INDEX:
        known = {name: constant_number(call, name) for name in names}
        if all(value is not None for value in known.values()):
            return sequence(call, known.get("start", 0), known.get("step", 1), count)
    return computed_sequence(call, names, count)


def constant_number(call: MilCall, name: str) -> Any:
    try:
        return call.constant(name)
    except NotConstantError:
        return None


def sequence(call: MilCall, start: float, step: float, count: int) -> Tensor:
    """`start + i * step`, a constant."""
    type = call.result_element_type()
    dtype = np.float64 if is_float(type) else np.int64
    numbers = dtype(start) + np.arange(count, dtype=dtype) * dtype(step)
    return constant(call, numbers)


def constant(call: MilCall, numbers: npt.NDArray[Any]) -> Tensor:
    """Numbers in the result's type."""
    type = call.result_element_type()
    if not is_float(type):
        for least in (numbers.min(), numbers.max()):
            Tensor(call.build, np.int32(0), i32).constant(least)
    return call.constant_tensor(numbers, type)


def computed_sequence(call: MilCall, names: Sequence[str], count: int) -> Tensor:
    """A sequence whose bounds or length are computed, counted in integers."""
    known = {name: constant_number(call, name) for name in names}
    type = call.result_element_type()
    scale = common_denominator(known.values())
    if scale > 1 and not is_float(type):
        raise Obstacle("a computed number of fractional steps", "convert it: dtype")
    given: dict[str, Size] = {"start": 0, "step": scale}
    for name, value in known.items():
        if value is None and scalar_type(call.op.arg(name)) == f32:
            raise Obstacle(
                f"a computed float as its '{name}'", "compute integers: n // 2"
            )
        whole = call.size(name) * scale if value is None else int(value * scale)
        given[name] = whole
    if "length" in call.op.schema.positions:
        given["end"] = call.size("length") * given["step"] + given["start"]
    like = Tensor(call.build, np.int32(0), i32)
    numbers = steps(like, given["start"], given["end"], given["step"], count)
    return (numbers if scale == 1 else numbers.to(f32) / scale).to(type)


def common_denominator(numbers: Iterable[float | None]) -> int:
    """The least integer whose products with the numbers that are known are integers."""
    fractions = (Fraction(number) for number in numbers if number is not None)
    scale = math.lcm(*(fraction.denominator for fraction in fractions))
    if scale > FINEST:
        raise Obstacle(
            "a computed number of steps, or a start, that float64 rounds",
            f"use multiples of 1/{FINEST}, or divide whole steps: arange(n) / 10",
        )
    return scale


@lowers("aten.linspace")
def lower_linspace(call: MilCall) -> Tensor:
    if None in [constant_number(call, name) for name in ("start", "end")]:
        return between_computed_ends(call)
    return constant(call, spaced(call))


def between_computed_ends(call: MilCall) -> Tensor:
    """Floats from `start` to `end`, of which the program computes one at least."""
    type, count = call.result_element_type(), call.integer("steps")
    if not is_float(type):
        raise Obstacle(*INTEGERS)
    first, last = (number(call, name).to(f32) for name in ("start", "end"))
    i = call.constant_tensor(np.arange(count), i32)
    step = (last - first) / max(count - 1, 1)
    return evenly_spaced(i, count, first, last, step, lambda n: n.to(f32)).to(type)


@lowers("aten.logspace")
def lower_logspace(call: MilCall) -> Tensor:
    return constant(call, np.power(call.number("base"), spaced(call)))


def spaced(call: MilCall) -> npt.NDArray[np.float64]:
    """
    Numbers from `start` to `end`.

    PyTorch rounds integers' products and sums together, to float64.
    """
    first, last = call.number("start"), call.number("end")
    count = call.integer("steps")
    check_count(count)
    exact: type[float | Fraction] = float
    if not is_float(call.result_element_type()):
        first, last, exact = math.trunc(first), math.trunc(last), Fraction
    step = exact((last - first) / max(count - 1, 1))
    numbers = [evenly_spaced(i, count, first, last, step) for i in range(count)]
    return np.array(numbers, np.float64)


@lowers("aten.eye", "aten.eye.m")
def lower_eye(call: MilCall) -> Tensor:
    rows = call.size("n")
    columns = call.size("m") if "m" in call.op.schema.positions else rows
    like = Tensor(call.build, np.int32(0), i32)
    return outline(like, rows, columns, "eq", 0).to(call.result_element_type())


@lowers("aten.tril_indices", "aten.triu_indices")
def lower_triangle_indices(call: MilCall) -> Tensor:
    rows, columns, offset = (call.integer(name) for name in ("row", "col", "offset"))
    # Imported here: `padc-opt --help` must not load it. numpy builds the whole matrix.
    import torch

    check_count(rows * columns)
    is_lower = call.name == "aten.tril_indices"
    places = torch.tril_indices if is_lower else torch.triu_indices
    return constant(call, places(rows, columns, offset).numpy())
