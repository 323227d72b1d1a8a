"""Pads with a constant, and in the modes that repeat the tensor itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ComplexType,
    IntegerType,
    NoneAttr,
    Signedness,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from padc.errors import Obstacle
from padc.ir import padding, tcp
from padc.ir.element_types import LARGEST_FINITE, is_wide_unsigned
from padc.ir.padding import Amounts
from padc.ir.tcp import Amount, tensor_type
from padc.ir.tcp.pad_patterns import full_value
from padc.ir.torch import (
    AtenOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    ToBuiltinTensorOp,
    VTensorType,
)
from padc.passes.aten.builder import INT64_MAX, AtenBuilder
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, lowers


@lowers("aten.pad", "aten.constant_pad_nd")
def lower_pad(call: TcpCall) -> SSAValue:
    """`pad(x, [.., lo, hi]) -> tcp.pad`, or a pad in another mode."""
    mode = call.constant("mode") if call.name == "aten.pad" else "constant"
    assert isinstance(mode, str)
    value = call.constant("value")
    assert value is None or isinstance(value, int | float)
    if mode != "constant":
        if mode not in MODES:
            raise Obstacle(f"there is no mode '{mode}', but {', '.join(MODES)}")
        if value:
            raise Obstacle(f"mode '{mode}' takes no fill, got {value}")
        return border_pad(call, MODES[mode], "pad")
    x = call.tensor("self")
    type = tensor_type(x)
    lower, upper = expansions(call.amounts("pad"), type.get_num_dims())
    fill = call.insert(
        tcp.fill_constant(
            fill_value(0 if value is None else value, type.element_type),
            type.element_type,
        )
    )
    return call.insert_valid(
        tcp.PadOp(x, fill, lower, upper, result_type=call.result_type())
    )


MODES: dict[str, type[tcp.BorderPadOp]] = {
    "replicate": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "circular": tcp.CircularPadOp,
}
"""PyTorch's names of modes."""

KERNELS = {tcp.ReplicationPadOp, tcp.ReflectionPadOp}
"""The modes with kernels of their own in PyTorch, which refuse some tensors."""


@lowers(*(f"aten.replication_pad{rank}d" for rank in (1, 2, 3)))
def lower_replication_pad(call: TcpCall) -> SSAValue:
    return border_pad(call, tcp.ReplicationPadOp, "padding")


@lowers(*(f"aten.reflection_pad{rank}d" for rank in (1, 2, 3)))
def lower_reflection_pad(call: TcpCall) -> SSAValue:
    return border_pad(call, tcp.ReflectionPadOp, "padding")


@lowers("aten._pad_circular")
def lower_circular_pad(call: TcpCall) -> SSAValue:
    return border_pad(call, tcp.CircularPadOp, "pad")


PADS = {
    "aten.pad",
    "aten.constant_pad_nd",
    "aten._pad_circular",
    *(f"aten.replication_pad{rank}d" for rank in (1, 2, 3)),
    *(f"aten.reflection_pad{rank}d" for rank in (1, 2, 3)),
}
"""The ops that only pad."""


def border_pad(call: TcpCall, op_type: type[tcp.BorderPadOp], amounts: str) -> SSAValue:
    x = call.tensor("self")
    type = tensor_type(x)
    rank, sides = type.get_num_dims(), call.amounts(amounts)
    lower, upper = expansions(sides, rank)
    if rank - len(sides) // 2 not in (1, 2):
        raise Obstacle(
            f"{len(sides)} amounts for {rank} dimensions; expected two for each "
            "except batch and channels, or except channels"
        )
    if op_type in KERNELS:
        if type.element_type == i1:
            raise Obstacle("of bool; it takes numbers only")
        if is_wide_unsigned(type.element_type):
            raise Obstacle(
                f"of {type.element_type}; it takes int8 to int64, uint8 and floats"
            )
        if 0 in type.get_shape()[rank - len(sides) // 2 - 1 :]:
            raise Obstacle("of a tensor that is empty, except for the batch")
        if all(
            size == 0 for size in call.result_type().get_shape()[-len(sides) // 2 :]
        ):
            raise Obstacle("it leaves nothing of any dimension that it pads")
    return call.insert_valid(op_type(x, lower, upper, call.result_type()))


def expansions(
    amounts: Sequence[Amount], rank: int
) -> tuple[list[Amount], list[Amount]]:
    """PyTorch's flat list, last dimension first, as the amounts of all dimensions."""
    if len(amounts) % 2 or len(amounts) > 2 * rank:
        raise Obstacle(
            f"{len(amounts)} amounts for {rank} dimensions; expected two for each, "
            "or for some"
        )
    lower: list[Amount] = [0] * rank
    upper: list[Amount] = [0] * rank
    for i in range(len(amounts) // 2):
        lower[rank - 1 - i], upper[rank - 1 - i] = amounts[2 * i : 2 * i + 2]
    return lower, upper


@lowers("aten.slice.Tensor", "aten.narrow")
def lower_slice(call: TcpCall) -> SSAValue | None:
    """
    `slice(pad(x))` and `pad(slice(x))`: the slice is a `tcp.pad` that crops.

    The algebra of pads can then join the two. Other slices stay, and so do those with
    steps or dynamic bounds. A slice of the whole tensor is dropped.
    """
    op, type = call.op, call.op.arg("self").type
    if not isinstance(type, VTensorType) or isinstance(type.shape, NoneAttr):
        return None
    if isinstance(type.element_type, ComplexType | NoneAttr):
        return None
    if not all(op.is_constant(name) for name in op.schema.positions if name != "self"):
        return None
    shape, dim = list(type.get_shape()), call.constant("dim")
    assert isinstance(dim, int)
    if not -len(shape) <= dim < len(shape):
        raise Obstacle(f"there is no dimension {dim}")
    amounts = amounts_of(call, shape[dim])
    if amounts == Amounts(0, 0) and op.results[0].type == type:
        return call.tensor("self")
    if amounts is None or not is_next_to_pad(op):
        return None
    lower, upper = [0] * len(shape), [0] * len(shape)
    lower[dim], upper[dim] = amounts.lower, amounts.upper
    x = call.tensor("self")
    fill = call.insert(tcp.fill_constant(0, tensor_type(x).element_type))
    return call.insert(tcp.PadOp(x, fill, lower, upper, result_type=call.result_type()))


@lowers("aten.alias")
def lower_alias(call: TcpCall) -> SSAValue | None:
    """`alias(x) -> x`: torch.export writes a slice of the whole tensor so."""
    same = call.op.results[0].type == call.op.arg("self").type
    return call.tensor("self") if same else None


def amounts_of(call: TcpCall, size: int) -> Amounts | None:
    """The amounts of the static pad that equals a slice; None if no pad does."""
    start = call.constant("start") or 0
    assert isinstance(start, int)
    if call.name == "aten.narrow":
        length = call.constant("length")
        assert isinstance(length, int)
        step, end = 1, start + length
        # A negative start counts from the end; the range may reach the end.
        end = end if start >= 0 or end < 0 else INT64_MAX
    else:
        step, end = call.constant("step"), call.constant("end")
        end = INT64_MAX if end is None else end
        assert isinstance(end, int)
    if step != 1:
        return None
    if size == DYNAMIC_INDEX:
        return Amounts(0, 0) if start == 0 and end == INT64_MAX else None
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    return padding.sliced_amounts(size, start, end)


def is_next_to_pad(op: AtenOp) -> bool:
    """Whether a slice reads a pad's result, or a pad reads the slice."""
    source = op.arg("self").owner
    return (
        isinstance(source, FromBuiltinTensorOp)
        and isinstance(source.operand.owner, tcp.ExpandOp)
    ) or any(
        isinstance(use.operation, AtenOp) and use.operation.schema.name in PADS
        for use in op.results[0].uses
    )


@lowers("aten.cat")
def lower_concatenation(call: TcpCall) -> SSAValue | None:
    """
    `cat([full(n, f), x, full(m, f)]) -> tcp.pad(x, f, [n], [m])`, of floats.

    For other dtypes it stays: their pads would become concatenations again.
    """
    parts, result = call.op.arg("tensors").owner, call.op.results[0].type
    if not isinstance(parts, ListConstructOp) or not call.op.is_constant("dim"):
        return None
    types = [part.type for part in parts.elements]
    dim, rank = call.constant("dim"), rank_of(result)
    assert isinstance(dim, int) and isinstance(result, VTensorType)
    is_in_range = -rank <= dim < rank
    is_float = isinstance(result.element_type, AnyFloat)
    if (
        not is_in_range
        or not is_float
        or not all(
            isinstance(type, VTensorType)
            and type.element_type == result.element_type
            and rank_of(type) == rank
            for type in types
        )
    ):
        return None
    sizes = [t.get_shape()[dim] for t in types if isinstance(t, VTensorType)]
    blocks = [
        None if size == DYNAMIC_INDEX else full_value(part)
        for part, size in zip(parts.elements, sizes, strict=True)
    ]
    fill = blocks[0] or blocks[-1]
    is_fill = [str(block) == str(fill) for block in blocks]
    if fill is None or all(is_fill):
        return None
    first, last = is_fill.index(False), len(blocks) - is_fill[::-1].index(False)
    kept = [call.insert(ToBuiltinTensorOp(part)) for part in parts.elements[first:last]]
    x = AtenBuilder(call.op).cat(kept, dim % rank)
    lower, upper = [0] * rank, [0] * rank
    lower[dim], upper[dim] = sum(sizes[:first]), sum(sizes[last:])
    value = call.insert(ConstantOp(fill))
    return call.insert(
        tcp.PadOp(x, value, lower, upper, result_type=call.result_type())
    )


def rank_of(type: Attribute) -> int:
    """The rank of a tensor of torch; -1 if it is unknown."""
    if not isinstance(type, VTensorType) or isinstance(type.shape, NoneAttr):
        return -1
    return len(type.get_shape())


def fill_value(value: float | int, element_type: Attribute) -> float | int:
    """
    The fill for `value`, converted as PyTorch does: an integer is a bit pattern.

    Integer types truncate the value; as a bool, any value except 0 is true. Raises
    Obstacle for a value that PyTorch refuses as out of range: `overflows` of
    c10/util/overflows.h, which lets negative integers wrap around to unsigned ones.
    PyTorch 2.15 truncates before it compares, so it takes 255.5 for uint8; here this is
    refused as before.
    """
    if element_type == i1:
        return int(bool(value))
    if isa(element_type, IntegerType[int, Signedness]):
        bits = element_type.width.data
        unsigned = element_type.signedness.data == Signedness.UNSIGNED
        most = 2**bits - 1 if unsigned else 2 ** (bits - 1) - 1
        least = -most - 1
        if unsigned:
            least = -most if isinstance(value, int) else 0
        if not least <= value <= most:
            raise Obstacle(f"fill {value} does not fit {element_type}")
        return int(value) % 2**bits
    largest = LARGEST_FINITE.get(type(element_type), math.inf)
    if math.isfinite(value) and abs(value) > largest:
        raise Obstacle(f"fill {value} does not fit {element_type}")
    return value
