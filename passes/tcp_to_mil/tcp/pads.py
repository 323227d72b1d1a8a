"""Core ML's `pad`. `decompose-pads` rewrites the pads that it does not do."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.tcp_to_mil.cropping import crop
from padc.passes.tcp_to_mil.legality import can_pad_natively, fill_of
from padc.passes.tcp_to_mil.tcp.mil_lowering import lowers

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


@lowers(*tcp.BORDER_PADS)
def lower_border_pad(build: MilBuilder, op: tcp.BorderPadOp) -> SSAValue:
    """Pad natively, then crop."""
    amounts = static_amounts(op)
    if (mode := op.MIL_MODE) is None:
        raise Obstacle(f"Core ML has no {op.mode} pad", DECOMPOSE)
    for dim, amount in enumerate(amounts):
        if not can_pad_natively(op, dim, amount):
            raise Obstacle(
                f"Core ML cannot {mode} dimension {dim}: its pad takes floats, and the "
                "last two dimensions, by no more than they have",
                DECOMPOSE,
            )
    x = native_pad(build, op.input, [amount.added for amount in amounts], mode)
    return crop(build, x, amounts)


def native_pad(
    build: MilBuilder,
    x: SSAValue,
    amounts: Sequence[Amounts],
    mode: str,
    fill: float | int = 0,
) -> SSAValue:
    """Core ML's `pad` of the last dimensions, as few as are padded."""
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
