"""Pads that Core ML has; other passes make these, or other ops, of all others."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.passes.mil_builder import MilBuilder
from padc.passes.tcp_to_mil.legality import can_pad_natively, fill_of
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


@lowers(tcp.PadOp)
def lower_pad(build: MilBuilder, op: tcp.PadOp) -> SSAValue:
    """Crop, then pad natively."""
    amounts = static_amounts(op)
    if any(amount.interior for amount in amounts):
        raise Obstacle("Core ML inserts nothing between elements", DECOMPOSE)
    x = crop(build, op.input, amounts)
    added = [amount.added for amount in amounts]
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
    x = native_pad(build, op.input, [amount.added for amount in amounts], mode)
    return crop(build, x, amounts)


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
