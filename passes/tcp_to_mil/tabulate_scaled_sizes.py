"""
Rewrite sizes that are computed in floats, in integers.

PyTorch computes `int(size * 1.5)` in float64, which Core ML lacks. An expression of one
size becomes a product and a quotient, if these are equal for all sizes up to the
largest; otherwise a lookup in a table:

    Int(1.5 * Float(n))     n * 3 // 2
    Int(0.7 * Float(n))     table[n]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineSymExpr
from xdsl.passes import ModulePass

from padc.ir.arithmetic import COMPUTED as COMPUTED_WHOLES
from padc.ir.torch import (
    AtenOp,
    BindSymbolicShapeOp,
    IntType,
    NotConstantError,
    SymbolicIntOp,
    constant_value,
)
from padc.passes.aten.builder import INTEGER_OPS, LARGEST_SIZE, AtenBuilder
from padc.passes.aten.symbolic_tensor import SymbolicTensor, integers
from padc.passes.common.lowering import lower_all

MOST_TABLED = 2**20
"""Sizes with a bound below this are tabled up to it, others to `LARGEST_SIZE`."""
SIZE = "aten.size.int"
TO_INTEGER: Mapping[str, Callable[[float], int]] = {
    "aten.Int.float": math.trunc,
    "aten.Int.Scalar": math.trunc,
    "aten.ceil.float": math.ceil,
    "aten.floor.float": math.floor,
}
BINARY: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "remainder": lambda a, b: a % b,
}
NEGATED: Callable[[float], float] = lambda a: -a  # noqa: E731
COMPUTED: Mapping[str, Callable[..., Any]] = {
    **{
        f"aten.{name}.{types}": BINARY[name]
        for name in ("add", "sub", "mul")
        for types in ("float", "float_int", "int_float")
    },
    **{name: COMPUTED_WHOLES[operation] for operation, name in INTEGER_OPS.items()},
    **TO_INTEGER,
    "aten.Float.Scalar": float,
    "aten.div.float": BINARY["div"],
    "aten.div.int": BINARY["div"],
    "aten.neg.float": NEGATED,
    "aten.neg.int": NEGATED,
    "aten.remainder.int": BINARY["remainder"],
}
"""How ATen ops on numbers are evaluated here, by the names of their schemas."""


@dataclass(frozen=True)
class TabulateScaledSizesPass(ModulePass):
    """Rewrite sizes that are computed in floats, in integers."""

    name = "tabulate-scaled-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_all(op, AtenOp, tabulated)


def tabulated(op: AtenOp) -> SSAValue | None:
    """A conversion to an integer, looked up by the one size that it depends on."""
    if op.schema.name not in TO_INTEGER:
        return None
    (result,) = op.results
    sizes = sizes_of(result)
    if len(sizes) != 1 or not is_size(size := sizes.pop()):
        return None
    count = largest(size) + 1
    values = values_of(result, {size: list(range(count))}, count)
    return looked_up(AtenBuilder(op), size, values)


def sizes_of(value: SSAValue) -> set[SSAValue]:
    """The integers that `value` is computed from, by ops of `COMPUTED`."""
    if is_known(value):
        return set()
    if isinstance(op := value.owner, AtenOp) and op.schema.name in COMPUTED:
        return {size for operand in op.operands for size in sizes_of(operand)}
    return {value}


def is_size(value: SSAValue) -> bool:
    return isinstance(value.owner, AtenOp) and value.owner.schema.name == SIZE


def is_known(value: SSAValue) -> bool:
    try:
        constant_value(value)
    except NotConstantError:
        return False
    return True


def largest(size: SSAValue) -> int:
    """The upper bound of an argument's size; `LARGEST_SIZE` for other values."""
    op = size.owner
    assert isinstance(op, AtenOp)
    x, dim = op.arg("self"), op.constant("dim")
    for use in x.uses:
        if isinstance(bind := use.operation, BindSymbolicShapeOp):
            assert isinstance(dim, int)
            expression = bind.shape_expressions.data.results[dim]
            if isinstance(expression, AffineSymExpr):
                symbol = bind.shape_symbols[expression.position].owner
                assert isinstance(symbol, SymbolicIntOp)
                bound = symbol.max_val.value.data
                return bound if bound < MOST_TABLED else LARGEST_SIZE
    return LARGEST_SIZE


def values_of(
    value: SSAValue, known: dict[SSAValue, list[Any]], count: int
) -> list[Any]:
    """The value for each of `count` sizes."""
    if value not in known:
        if isinstance(op := value.owner, AtenOp):
            operands = [values_of(operand, known, count) for operand in op.operands]
            compute = COMPUTED[op.schema.name]
            known[value] = [defined(compute, args) for args in zip(*operands)]
        else:
            known[value] = [constant_value(value)] * count
    return known[value]


def defined(compute: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The result, or 0 where it is undefined and PyTorch would raise."""
    try:
        return compute(*operands)
    except ZeroDivisionError:
        return 0


def looked_up(build: AtenBuilder, size: SSAValue, values: Sequence[int]) -> SSAValue:
    """Build `values[size]`."""
    if (ratio := ratio_of(values)) is not None:
        quotient = build.wrap(size) * ratio.numerator // ratio.denominator
        return build.operand(quotient.value, "int")
    place = integers(build, [size])
    assert isinstance(place, SymbolicTensor)
    found = build.index_select(build.literal(values), 0, place.value)
    return build.emit("aten.Int.Tensor", IntType(), {"a": found})


def ratio_of(values: Sequence[int]) -> Fraction | None:
    """
    The ratio of integers that gives `values` for 0, 1, 2.., rounded down; or None.

    If there is one, it is the largest ratio of a value and its size. There may be none:
    PyTorch multiplies in float64, where 100 * 0.29 is less than 29.
    """
    sizes, scaled = np.arange(len(values)), np.array(values)
    i = 1 + np.argmax(scaled[1:] / sizes[1:])
    ratio = Fraction(int(scaled[i]), int(sizes[i]))
    again = sizes * ratio.numerator // ratio.denominator
    fits = ratio.numerator * len(values) < 2**31
    return ratio if fits and np.array_equal(scaled, again) else None
