"""
The algebra of pads: how pads of pads, of constants and of concatenations simplify.

Conditions in `padc.ir.padding` say when a rewrite is right. They are proved for all
sizes and amounts in test/ir/test_pad_algebra.py. A pattern evaluates them for each
dimension whose amounts are static; the rest of the pattern is bookkeeping.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.arith import ConstantOp, IndexCastOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.hints import isa

from padc.ir import padding
from padc.ir.padding import Amounts
from padc.ir.tcp.pads import (
    BorderPadOp,
    ExpandOp,
    PadOp,
    padded_type,
)
from padc.ir.tcp.tensors import (
    Amount,
    AnyTensor,
    agrees,
    fill_constant,
    fill_type,
)
from padc.ir.torch import (
    AtenOp,
    ConstantIntOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    LiteralOp,
    NotConstantError,
    ToBuiltinTensorOp,
    ToI64Op,
    VTensorType,
    aten_op,
    builtin_type,
    vtensor_type,
)
from padc.ir.weights import Weights, numpy_dtype

Expansion: TypeAlias = tuple[Amount, Amount, Amount]
"""Lower, upper and interior amount of a dimension."""
Fold: TypeAlias = Callable[[Amounts, Amounts], bool]
"""Whether two pads of a dimension are one, by `inner.then(outer)`."""

NOTHING: Expansion = (0, 0, 0)
LARGEST_CONSTANT = 1024
"""The largest number of elements of a constant that replaces a pad."""


# Amounts.


class StaticAmounts(RewritePattern):
    """`pad(x, [constant c]) -> pad(x, [c])`: constant amounts become static."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, ExpandOp)
        known = [known_expansion(expansion) for expansion in op.expansions]
        # The result keeps its type: users depend on it, and a cast would not help them.
        if known != op.expansions and agrees(
            op.result.type, padded_type(op.input_type, known)
        ):
            replace(rewriter, op, with_expansions(op, op.input, known))


def known_expansion(expansion: Expansion) -> Expansion:
    lower, upper, interior = map(known_amount, expansion)
    return lower, upper, interior


def known_amount(amount: Amount) -> Amount:
    """The integer that an amount is a constant of; otherwise the amount."""
    if isinstance(amount, int):
        return amount
    owner = amount.owner
    while isinstance(owner, IndexCastOp | ToI64Op):
        owner = owner.operands[0].owner
    if not isinstance(owner, ConstantOp | ConstantIntOp):
        return amount
    value = owner.value
    assert isinstance(value, IntegerAttr)
    # This number marks dynamic amounts.
    return amount if value.value.data == DYNAMIC_INDEX else value.value.data


class NoInterior(RewritePattern):
    """`pad(x, interior [n]) -> pad(x, interior [0])` if `x` has at most one element."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter, /) -> None:
        expansions = [
            (lower, upper, 0)
            if size != DYNAMIC_INDEX and padding.has_no_interior(size)
            else (lower, upper, interior)
            for size, (lower, upper, interior) in zip(
                op.input_type.get_shape(), op.expansions, strict=True
            )
        ]
        if expansions != op.expansions and agrees(
            op.result.type, padded_type(op.input_type, expansions)
        ):
            replace(rewriter, op, with_expansions(op, op.input, expansions))


def with_expansions(
    op: ExpandOp,
    input: SSAValue,
    expansions: Sequence[Expansion],
    fill: SSAValue | None = None,
) -> ExpandOp:
    """The same pad of `input` by other amounts, which give the same type."""
    lower, upper, interior = zip(*expansions, strict=True)
    if isinstance(op, PadOp):
        return PadOp(input, fill or op.fill, lower, upper, interior, op.result.type)
    assert isinstance(op, BorderPadOp)
    return type(op)(input, lower, upper, op.result.type)


def replace(rewriter: PatternRewriter, op: Operation, *new: Operation) -> None:
    """Replace an op by new ones with its source line."""
    for made in new:
        made.location = op.location
    rewriter.replace(op, new)


# Pads of pads.


class PadOfPad(RewritePattern):
    """
    `pad(pad(x, f, a), f, b) -> pad(x, f, a.then(b))`, if no pad undoes a crop.

    A pad that only crops shows no fill, so its fill may differ.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if not isinstance(inner, PadOp) or (fill := common_fill(inner, op)) is None:
            return
        folds = [
            partial(padding.constant_pads_fold, least=max(size, 0))
            for size in inner.input_type.get_shape()
        ]
        if (folded := folded_expansions(inner, op, folds)) is not None:
            replace(rewriter, op, with_expansions(op, inner.input, folded, fill))


def common_fill(inner: PadOp, outer: PadOp) -> SSAValue | None:
    """The fill of both; None if they differ and both are shown."""
    if same_scalar(inner.fill, outer.fill) or is_crop(inner):
        return outer.fill
    return inner.fill if is_crop(outer) else None


def is_crop(op: ExpandOp) -> bool:
    """Whether the pad has static amounts and shows elements of its input only."""
    amounts = op.static_amounts
    return amounts is not None and all(map(padding.is_crop, amounts))


def same_scalar(a: SSAValue, b: SSAValue) -> bool:
    """Whether two scalars are known to be equal, bit for bit."""
    if a is b:
        return True
    match a.owner, b.owner:
        case ConstantOp() as left, ConstantOp() as right:
            # As text, because 0.0 == -0.0 and nan != nan.
            return str(left.value) == str(right.value)
        case _:
            return False


class CropByBorderPad(RewritePattern):
    """`replicate(x, a) -> pad(x, a)`, in any mode, if no amount is positive."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, BorderPadOp)
        if not is_crop(op):
            return
        fill = fill_constant(0, op.input_type.element_type)
        lower, upper = op.lower_expansion, op.upper_expansion
        pad = PadOp(op.input, fill.result, lower, upper, None, op.result.type)
        replace(rewriter, op, fill, pad)


class BorderPadOfBorderPad(RewritePattern):
    """`replicate(replicate(x, a), b) -> replicate(x, a + b)`; one may be a crop."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, ExpandOp)
        if not isinstance(inner := op.input.owner, ExpandOp):
            return
        pads = (inner, op)
        borders = [pad for pad in pads if isinstance(pad, BorderPadOp)]
        crops = [pad for pad in pads if isinstance(pad, PadOp)]
        if len({type(pad) for pad in borders}) != 1 or not all(map(is_crop, crops)):
            return
        mode = type(borders[0])
        folded = folded_expansions(inner, op, [mode.folds] * len(op.expansions))
        if folded is None:
            return
        lower, upper, _ = zip(*folded, strict=True)
        replace(rewriter, op, mode(inner.input, lower, upper, op.result.type))


def folded_expansions(
    inner: ExpandOp, outer: ExpandOp, folds: Sequence[Fold]
) -> list[Expansion] | None:
    """The amounts of the one pad; None if any dimension does not fold."""
    folded: list[Expansion] = []
    for a, b, fold in zip(inner.expansions, outer.expansions, folds, strict=True):
        expansion = folded_expansion(a, b, fold)
        if expansion is None:
            return None
        folded.append(expansion)
    # An inner pad with other users stays. Then padding its result is cheaper than
    # padding the input again, but not cheaper than cropping the input.
    if inner.result.has_one_use() or all(
        (amounts := static_amounts(expansion)) is not None and padding.is_crop(amounts)
        for expansion in folded
    ):
        return folded
    return None


def folded_expansion(a: Expansion, b: Expansion, fold: Fold) -> Expansion | None:
    if a == NOTHING:
        return b
    if b == NOTHING:
        return a
    inner, outer = static_amounts(a), static_amounts(b)
    if inner is None or outer is None or not fold(inner, outer):
        return None
    total = inner.then(outer)
    amounts = total.lower, total.upper, total.interior
    return amounts if all(abs(each) < 2**63 for each in amounts) else None  # i64


def static_amounts(expansion: Expansion) -> Amounts | None:
    """The amounts of a dimension as integers; None if one is dynamic."""
    match expansion:
        case (int() as lower, int() as upper, int() as interior):
            return Amounts(lower, upper, interior)
        case _:
            return None


# Pads of constants.


class PadOfNothing(RewritePattern):
    """`pad(x, f, a) -> literal f` if the pad shows no element of `x`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter, /) -> None:
        fill, amounts, shape = (
            scalar(op.fill),
            op.static_amounts,
            op.result.type.get_shape(),
        )
        if fill is None or amounts is None or not is_small(shape):
            return
        if any(
            size != DYNAMIC_INDEX and padding.is_all_fill(size, amount)
            for size, amount in zip(op.input_type.get_shape(), amounts, strict=True)
        ):
            array = np.broadcast_to(bits(fill, op.input_type.element_type), shape)
            replace_by_literal(op, vtensor_type(op.result.type), array, rewriter)


class PadOfLiteral(RewritePattern):
    """`pad(literal) -> literal`, in any mode, if the result is small."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, ExpandOp)
        if (
            not isinstance(cast_op := op.input.owner, ToBuiltinTensorOp)
            or not isinstance(literal := cast_op.operand.owner, LiteralOp)
            or not isinstance(value := literal.value, DenseIntOrFPElementsAttr)
        ):
            return
        amounts = op.static_amounts
        if amounts is None or not is_small(op.result.type.get_shape()):
            return
        array = Weights().array(value)
        if isinstance(op, PadOp):
            fill = scalar(op.fill)
            if fill is None:
                return
            array = padded(array, amounts, bits(fill, op.input_type.element_type))
        else:
            assert isinstance(op, BorderPadOp)
            for dim, amount in enumerate(amounts):
                array = array.take(source_indices(op, array.shape[dim], amount), dim)
        replace_by_literal(op, literal.result.type, array, rewriter)


def is_small(shape: Sequence[int]) -> bool:
    """Whether a pad may become a constant of this shape."""
    # With dynamic sizes, -2**63 each, the product is negative or huge.
    return 0 < math.prod(shape) <= LARGEST_CONSTANT


def scalar(value: SSAValue) -> FloatAttr | IntegerAttr | None:
    """The number if the value is a constant."""
    if isinstance(value.owner, ConstantOp):
        attribute = value.owner.value
        if isinstance(attribute, FloatAttr | IntegerAttr):
            return attribute
    return None


def bits(number: FloatAttr | IntegerAttr, element_type: Attribute) -> npt.NDArray[Any]:
    """A number as a numpy array of rank 0, in the dtype of weights."""
    type = cast(Any, TensorType(fill_type(element_type), []))
    data = DenseIntOrFPElementsAttr.from_list(type, [number.value.data]).data.data
    return np.frombuffer(data, numpy_dtype(element_type)).reshape(())


def padded(
    array: npt.NDArray[Any], amounts: Sequence[Amounts], fill: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """`tcp.pad` of an array."""
    for dim, (size, amount) in enumerate(zip(array.shape, amounts, strict=True)):
        lower, upper, interior = amount.lower, amount.upper, amount.interior
        places: Any = padding.place(cast(Any, np.arange(int(size))), amount)
        new_size = padding.padded_size(size, lower, upper, interior)
        kept = (places >= 0) & (places < new_size)
        result = np.full(
            (*array.shape[:dim], new_size, *array.shape[dim + 1 :]), fill, array.dtype
        )
        result[(slice(None),) * dim + (places[kept],)] = array.compress(kept, dim)
        array = result
    return array


def source_indices(op: BorderPadOp, size: int, amounts: Amounts) -> list[int]:
    """The position in the input that each position of the result shows."""
    lower, upper = amounts.lower, amounts.upper
    positions = range(padding.padded_size(size, lower, upper))
    return [op.source_index(j, size, lower, upper) for j in positions]


def replace_by_literal(
    op: ExpandOp, like: VTensorType, array: npt.NDArray[Any], rewriter: PatternRewriter
) -> None:
    """Replace a pad by a constant with the element type of `like`."""
    type = cast(Any, TensorType(like.element_type, array.shape))
    value = DenseIntOrFPElementsAttr(type, BytesAttr(array.tobytes()))
    literal = LiteralOp(value)
    replace(rewriter, op, literal, ToBuiltinTensorOp(literal.result))


class PadOfFull(RewritePattern):
    """
    `pad(full(n, f), f, a) -> full(n + a, f)`; for crops and other modes, of any `f`.

    `full` stands for every ATen op that fills a tensor of given sizes.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, ExpandOp)
        if (
            not isinstance(cast_op := op.input.owner, ToBuiltinTensorOp)
            or not isinstance(full := cast_op.operand.owner, AtenOp)
            or (value := full_value(full.results[0])) is None
            or "size" not in full.schema.positions
            or not isinstance(sizes := full.arg("size").owner, ListConstructOp)
        ):
            return
        if isinstance(op, PadOp) and not is_crop(op):
            if str(scalar(op.fill)) != str(value):
                return
        shape = op.result.type.get_shape()
        elements = list(sizes.elements)
        new: list[Operation] = []
        for dim, (size, expansion) in enumerate(zip(shape, op.expansions, strict=True)):
            if expansion == NOTHING:
                continue
            if size == DYNAMIC_INDEX:
                return
            new.append(ConstantIntOp(size))
            elements[dim] = new[-1].results[0]
        new.append(ListConstructOp(elements, sizes.result.type.element_type))
        operands = list(full.operands)
        operands[full.schema.positions["size"]] = new[-1].results[0]
        type = full.results[0].type
        assert isinstance(type, VTensorType)
        type = VTensorType.get(type.element_type, tuple(shape))
        new.append(aten_op(full.schema.name, operands, [type]))
        replace(rewriter, op, *new, ToBuiltinTensorOp(new[-1].results[0]))


FULL = re.compile(r"aten\.(?:new_)?(full|ones|zeros)(?:_like)?")


def full_value(tensor: SSAValue) -> FloatAttr | IntegerAttr | None:
    """The value of all elements of a tensor of torch; None if unknown."""
    op, type = tensor.owner, tensor.type
    assert isinstance(type, VTensorType)
    if not isinstance(op, AtenOp):
        return None
    if (kind := FULL.fullmatch(op.schema.name)) is None:
        return None
    try:
        value = op.constant("fill_value") if kind[1] == "full" else kind[1] == "ones"
    except NotConstantError:
        return None
    element_type = fill_type(type.element_type)
    if element_type == i1:
        value = int(bool(value))
    if isinstance(element_type, AnyFloat):
        assert isinstance(value, int | float)
        return FloatAttr(float(value), element_type)
    if isa(element_type, IntegerType[int, Signedness]) and isinstance(value, int):
        return IntegerAttr(value, element_type, truncate_bits=True)
    return None


# Concatenations of pads.


class ConcatOfPads(RewritePattern):
    """
    `cat([pad(x, f, a), pad(y, f, b)]) -> pad(cat([x, y]), f, ...)`.

    `a` and `b` agree except along the concatenated dimension, where nothing is added
    between `x` and `y`. The pattern starts from the first pad.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter, /) -> None:
        if (cat := concatenation_of(op)) is None:
            return
        pads = padded_parts(cat)
        result = cat.results[0].type
        assert isinstance(result, VTensorType)
        if pads is None or pads[0] is not op:
            return
        rank, element_type = op.input_type.get_num_dims(), op.input_type.element_type
        if not all(
            pad.input_type.get_num_dims() == rank
            and pad.input_type.element_type == element_type
            and same_scalar(pad.fill, op.fill)
            for pad in pads
        ):
            return
        dim = cat.constant("dim")
        assert isinstance(dim, int)
        expansions = concatenated_expansions(pads, dim % rank)
        joined = concatenated_type(pads, dim % rank)
        if expansions is None or not agrees(
            builtin_type(result), padded_type(joined, expansions)
        ):
            return
        lower, upper, interior = zip(*expansions, strict=True)
        inputs = [FromBuiltinTensorOp(pad.input) for pad in pads]
        any_tensor = VTensorType(NoneAttr(), NoneAttr())
        parts = ListConstructOp([x.result for x in inputs], any_tensor)
        operands = [parts.result, cat.arg("dim")]
        whole = aten_op(cat.schema.name, operands, [vtensor_type(joined)])
        x = ToBuiltinTensorOp(whole.results[0])
        pad = PadOp(x.result, op.fill, lower, upper, interior, builtin_type(result))
        back = FromBuiltinTensorOp(pad.result)
        replace(rewriter, cat, *inputs, parts, whole, x, pad, back)


def concatenation_of(op: PadOp) -> AtenOp | None:
    """The `aten.cat`, along a constant dimension, that is the only user of a pad."""
    user: Operation = op
    for expected in (FromBuiltinTensorOp, ListConstructOp, AtenOp):
        use = user.results[0].get_user_of_unique_use()
        if not isinstance(use, expected):
            return None
        user = use
    assert isinstance(user, AtenOp)
    is_cat = user.schema.name == "aten.cat" and user.is_constant("dim")
    return user if is_cat else None


def padded_parts(cat: AtenOp) -> list[PadOp] | None:
    """The concatenated pads; None if a part is not a pad or has other users."""
    parts = cat.arg("tensors").owner
    assert isinstance(parts, ListConstructOp)
    pads: list[PadOp] = []
    for part in parts.elements:
        if not isinstance(part.owner, FromBuiltinTensorOp):
            return None
        pad = part.owner.operand.owner
        if not isinstance(pad, PadOp) or concatenation_of(pad) is not cat:
            return None
        pads.append(pad)
    return pads


def concatenated_expansions(pads: Sequence[PadOp], dim: int) -> list[Expansion] | None:
    """The amounts of one pad of the concatenation; None if no one pad does it."""
    expansions = list(pads[0].expansions)
    total = static_amounts(expansions[dim])
    for pad in pads[1:]:
        along = static_amounts(pad.expansions[dim])
        others = [d for d in range(len(expansions)) if d != dim]
        if (
            total is None
            or along is None
            or not padding.concatenated_pads_fold(total, along)
            or any(pad.expansions[d] != expansions[d] for d in others)
        ):
            return None
        total = Amounts(total.lower, along.upper)
    if total is None:
        return None
    expansions[dim] = (total.lower, total.upper, total.interior)
    return expansions


def concatenated_type(pads: Sequence[PadOp], dim: int) -> AnyTensor:
    """The type of the concatenation of the pads' inputs along `dim`."""
    shapes = [pad.input_type.get_shape() for pad in pads]
    # A size that is static in one part holds for all; DYNAMIC_INDEX is negative.
    shape = [max(sizes) for sizes in zip(*shapes, strict=True)]
    sizes = [shape[dim] for shape in shapes]
    shape[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
    return TensorType(pads[0].input_type.element_type, shape)
