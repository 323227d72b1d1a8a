"""Pads that Core ML has; other passes make these, or other ops, of all others."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, FloatAttr, IntegerAttr
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.passes.mil_builder import MilBuilder
from padc.passes.tcp_to_mil.table import lowers

DECOMPOSE = "run decompose-pads before"


def static_amounts(op: tcp.ExpandOp) -> list[Amounts]:
    amounts = op.static_amounts
    if amounts is None:
        raise Obstacle(
            "the amounts are computed; Core ML pads by constants only",
            f"{DECOMPOSE}; it takes what ops of ATen compute",
        )
    return amounts


def fill_of(op: tcp.PadOp) -> float | int:
    """The constant that a pad fills with."""
    owner = op.fill.owner
    if not isinstance(owner, ConstantOp):
        raise Obstacle(
            "the fill is computed; Core ML fills with constants only",
            "make it a number",
        )
    assert isinstance(owner.value, FloatAttr | IntegerAttr)
    fill = owner.value.value.data
    pools = (tcp.MaxPoolOp, tcp.ArgMaxPoolOp)
    if fill == -(2**63) and all(isinstance(u.operation, pools) for u in op.result.uses):
        # Only as the least int64 there is, which in Core ML is an int32.
        return -(2**31)
    return fill


@lowers(tcp.PadOp)
def lower_pad(build: MilBuilder, op: tcp.PadOp) -> SSAValue:
    """Crop, then pad natively."""
    amounts = static_amounts(op)
    if any(amount.interior for amount in amounts):
        raise Obstacle("Core ML inserts nothing between elements", DECOMPOSE)
    x = crop(build, op.input, amounts)
    added = [positive(amount) for amount in amounts]
    if all(amount == Amounts(0, 0) for amount in added):
        return x
    if not isinstance(op.input_type.element_type, AnyFloat):
        raise Obstacle("Core ML pads floats only", DECOMPOSE)
    return native_pad(build, x, added, "constant", fill_of(op))


@lowers(tcp.ReplicationPadOp)
def lower_replication_pad(build: MilBuilder, op: tcp.ReplicationPadOp) -> SSAValue:
    return border_pad(build, op, "replicate")


@lowers(tcp.ReflectionPadOp)
def lower_reflection_pad(build: MilBuilder, op: tcp.ReflectionPadOp) -> SSAValue:
    return border_pad(build, op, "reflect")


@lowers(tcp.CircularPadOp)
def lower_circular_pad(build: MilBuilder, op: tcp.CircularPadOp) -> SSAValue:
    static_amounts(op)
    raise Obstacle("Core ML has no circular pad", DECOMPOSE)


def border_pad(build: MilBuilder, op: tcp.BorderPadOp, mode: str) -> SSAValue:
    """Pad natively, then crop."""
    amounts = static_amounts(op)
    for dim, amount in enumerate(amounts):
        if not can_pad_natively(op, dim, amount):
            raise Obstacle(
                f"Core ML cannot {mode} dimension {dim}: its pad takes floats, and the "
                "last two dimensions, by no more than they have",
                DECOMPOSE,
            )
    x = native_pad(build, op.input, list(map(positive, amounts)), mode)
    return crop(build, x, amounts)


def can_pad_natively(op: tcp.BorderPadOp, dim: int, amount: Amounts) -> bool:
    """
    Whether Core ML has what the op does to this dimension: a crop, or a pad.

    The runtime refuses modes other than constant off the last two dimensions
    (https://github.com/apple/coremltools/issues/2701); `pad` takes floats.
    """
    if positive(amount) == Amounts(0, 0) and not isinstance(op, tcp.CircularPadOp):
        return True
    is_last = dim >= op.input_type.get_num_dims() - 2
    is_float = isinstance(op.input_type.element_type, AnyFloat)
    return is_last and is_float and is_within(op, dim, amount)


def is_within(op: tcp.BorderPadOp, dim: int, amount: Amounts) -> bool:
    """
    Whether Core ML's `pad` has the mode of the op, and reaches that far in it.

    It replicates at most as much as there is (its documentation in coremltools).
    """
    size = op.input_type.get_shape()[dim]
    most = max(amount.lower, amount.upper, 0)
    return isinstance(op, tcp.ReflectionPadOp) or (
        isinstance(op, tcp.ReplicationPadOp)
        and (most == 0 or (size != DYNAMIC_INDEX and most <= size))
    )


def positive(amount: Amounts) -> Amounts:
    """What is added, without what is cropped."""
    return Amounts(max(amount.lower, 0), max(amount.upper, 0))


def crop(build: MilBuilder, x: SSAValue, amounts: Sequence[Amounts]) -> SSAValue:
    """Slice off what negative amounts crop."""
    for dim, amount in enumerate(amounts):
        lower, upper = max(-amount.lower, 0), max(-amount.upper, 0)
        if lower or upper:
            x = build.slice(x, dim, lower, -upper if upper else None)
    return x


def native_pad(
    build: MilBuilder,
    x: SSAValue,
    amounts: Sequence[Amounts],
    mode: str,
    fill: float | int = 0,
) -> SSAValue:
    """Core ML's own `pad`, of no more of the last dimensions than needed."""
    padded = [i for i, a in enumerate(amounts) if (a.lower, a.upper) != (0, 0)]
    if not padded:
        return x
    type = tensor_type(x)
    expansions = [(a.lower, a.upper, 0) for a in amounts]
    return build.emit(
        "pad",
        type,
        tcp.padded_type(type, expansions).get_shape(),
        x=x,
        pad=[n for a in amounts[padded[0] :] for n in (a.lower, a.upper)],
        mode=mode,
        constant_val=float(fill),
    )
