# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""Products of matrices, and attention."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, i1, i64
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.ir.tcp import Amount
from padc.passes.aten.einsum import parse_equation
from padc.passes.common.kernel_tiles import FEW_ROWS
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.tensor_shapes import collapse, expand, rank_of, unsqueeze
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, as_number, lowers
from padc.passes.to_linalg.aten.reductions import extreme
from padc.passes.to_linalg.aten.tensors import (
    Operand,
    converted,
    pointwise,
    spread,
    summed,
)
from padc.passes.to_linalg.build.numbers import Number, from_size


def multiply(
    build: LinalgBuilder,
    a: Operand,
    b: Operand,
    type: Attribute,
    init: Callable[[Sequence[Amount]], SSAValue] | None = None,
    *,
    transposed: bool = False,
) -> SSAValue:
    """
    `torch.matmul` computed in `type`; if `transposed`, `b`'s last two dimensions swap.

    Sums start from `init`, which takes the sizes of the result.
    """
    a, b = wide_factors(build, a, b, type, transposed)
    batch = max(a.rank - 2, b.rank - 2, 0)
    rows, columns = int(a.rank > 1), int(b.rank > 1)
    inner = batch + rows + columns
    a_dims = [*range(batch - max(a.rank - 2, 0), batch), *[batch] * rows, inner]
    b_dims = list(range(batch - max(b.rank - 2, 0), batch))
    pair = [inner, *[batch + rows] * columns]
    b_dims += reversed(pair) if transposed else pair
    factors = [a.along(*a_dims), b.along(*b_dims)]
    return summed(build, factors, [inner], False, type, Number.__mul__, init)


def wide_factors(
    build: LinalgBuilder, a: Operand, b: Operand, type: Attribute, transposed: bool
) -> Sequence[Operand]:
    """
    The factors in `type`, if they are large matrices: kernels are those of its floats.

    Products of few rows or columns take as long as their factors are read.
    """
    if a.type == type or a.rank < 2 or b.rank < 2:
        return a, b
    rows = a.shape[:-1] if b.rank == 2 else a.shape[-2:-1]
    columns = b.shape[-2 if transposed else -1]
    few = [math.prod(each) for each in (rows, [columns]) if DYNAMIC_INDEX not in each]
    if any(count < FEW_ROWS for count in few):
        return a, b
    return [Operand(converted(build, x, type), type) for x in (a, b)]


@lowers(
    "aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.linalg_matmul"
)
@lowers("aten.vdot", "aten.inner")
def lower_matmul(call: LinalgCall) -> SSAValue:
    names = [argument.name for argument in call.op.schema.arguments]
    a, b = call.operand(names[0]), call.operand(names[1])
    if call.name == "aten.inner" and not (a.rank == b.rank == 1):
        raise Obstacle("torch.inner of matrices", "use torch.matmul")
    result = call.result_element_type()
    type = wide(result)
    return converted(
        call.build, Operand(multiply(call.build, a, b, type), type), result
    )


@lowers("aten.linear")
def lower_linear(call: LinalgCall) -> SSAValue:
    x, weight, build = call.operand("input"), call.operand("weight"), call.build
    result = call.result_element_type()
    type, bias = wide(result), call.optional("bias")
    # PyTorch computes this in one op, or rounds the product before it adds the bias.
    is_one = x.rank in (2, 3) or type == result

    def init(sizes: Sequence[Amount]) -> SSAValue:
        assert bias is not None
        return spread(build, bias, type, sizes)

    start = init if bias is not None and is_one else None
    y = multiply(build, x, weight, type, start, transposed=weight.rank > 1)
    y = converted(build, Operand(y, type), result)
    if bias is None or is_one:
        return y
    inputs = [Operand(y, result), bias]
    return pointwise(build, inputs, result, lambda y, b: y.to(type) + b.to(type))


@lowers("aten.addmm", "aten.baddbmm", "aten.addmv")
def lower_addmm(call: LinalgCall) -> SSAValue:
    """`beta * self + alpha * (a @ b)`; `self` is not read if `beta` is 0."""
    _, first, second, *_ = (argument.name for argument in call.op.schema.arguments)
    x, a, b = call.operand("self"), call.operand(first), call.operand(second)
    build, result = call.build, call.result_element_type()
    type = wide(result)
    alpha, beta = (as_number(call.constant(name)) for name in ("alpha", "beta"))
    if alpha == 1 and beta == 1:
        y = multiply(build, a, b, type, lambda sizes: spread(build, x, type, sizes))
        return converted(build, Operand(y, type), result)
    y = Operand(multiply(build, a, b, type), type)

    def body(y: Number, *x: Number) -> Number:
        y = y * alpha
        return y + x[0].to(type) * beta if x else y

    return pointwise(build, [y, x] if beta else [y], result, body)


@lowers("aten.outer", "aten.ger")
def lower_outer(call: LinalgCall) -> SSAValue:
    names = [argument.name for argument in call.op.schema.arguments]
    a, b = call.operand(names[0]).along(0), call.operand(names[1]).along(1)
    result = call.result_element_type()
    type = wide(result)
    return pointwise(call.build, [a, b], result, lambda a, b: a.to(type) * b.to(type))


@lowers("aten.einsum")
def lower_einsum(call: LinalgCall) -> SSAValue:
    """Multiply the operands and sum over all letters missing in the result."""
    build, result = call.build, call.result_element_type()
    inputs, equation = call.operands("tensors"), str(call.constant("equation"))
    letters, kept = parse_equation(equation, [x.rank for x in inputs])
    terms_left = list(zip(inputs, letters, strict=True))
    while len(terms_left) > 2:
        # PyTorch too multiplies two operands at a time, from the left.
        first, second, *others = terms_left
        needed = {x for _, each in others for x in each} | set(kept)
        here = [x for x in dict.fromkeys([*first[1], *second[1]]) if x in needed]
        product = sum_of_products(build, [first, second], here, result)
        terms_left = [(Operand(product, result), here), *others]
    return sum_of_products(build, terms_left, kept, result)


def sum_of_products(
    build: LinalgBuilder,
    terms: Sequence[tuple[Operand, Sequence[str]]],
    kept: Sequence[str],
    result: Attribute,
) -> SSAValue:
    """The product of tensors, summed over all letters except `kept`."""
    rest = sorted({x for _, letters in terms for x in letters} - set(kept))
    order, type = [*kept, *rest], wide(result)
    y = summed(
        build,
        [x.along(*map(order.index, letters)) for x, letters in terms],
        list(range(len(kept), len(order))),
        False,
        type,
        lambda *numbers: functools.reduce(Number.__mul__, numbers),
    )
    return converted(build, Operand(y, type), result)


@lowers("aten.scaled_dot_product_attention")
def lower_attention(call: LinalgCall) -> SSAValue | None:
    query, key, value = (call.operand(name) for name in ("query", "key", "value"))
    mask = call.optional("attn_mask")
    if as_number(call.constant("dropout_p")):
        return None
    if not call.boolean("enable_gqa"):
        return attention(call, query, key, value, mask)
    build, all = call.build, (query, key, value)
    if min(x.rank for x in all) < 3:
        return None
    heads, groups, others = (x.shape[-3] for x in all)
    if DYNAMIC_INDEX in (heads, groups) or not groups or groups != others:
        return None
    sizes = [groups, heads // groups]

    def grouped(x: Operand) -> Operand:
        """`x` with a dimension of groups of heads, and one of the heads of a group."""
        own = x.rank - 3
        if own < 0:
            return x
        if x.shape[own] == heads:
            return Operand(expand(build, x.tensor, own, sizes), x.type)
        # One head, or a key or value for each group, that all heads of it share.
        return Operand(unsqueeze(build, x.tensor, own + 1), x.type)

    mask = None if mask is None else grouped(mask)
    y = attention(call, grouped(query), grouped(key), grouped(value), mask)
    return collapse(build, y, rank_of(y) - 4, 2)


def attention(
    call: LinalgCall, query: Operand, key: Operand, value: Operand, mask: Operand | None
) -> SSAValue:
    """Attention whose operands broadcast to each other."""
    build, result = call.build, call.result_element_type()
    type = wide(result)
    features = build.size(query.tensor, query.rank - 1)
    given = as_number(call.constant("scale")) if call.has("scale") else None
    scores = Operand(multiply(build, query, key, type, transposed=True), type)
    is_causal = call.boolean("is_causal")

    def masked(score: Number, *mask: Number) -> Number:
        if given is None:
            root = from_size(score.build, features, type).apply("sqrt")
            score = score / root
        else:
            score = score * given
        if is_causal:
            row, column = (
                from_size(score.build, score.build.loop_index(dim), i64)
                for dim in (scores.rank - 2, scores.rank - 1)
            )
            score = (column <= row).select(score, -math.inf)
        for each in mask:
            if each.type == i1:
                score = each.select(score, -math.inf)
            else:
                score = score + each.to(type)
        return score

    inputs = [scores, *([] if mask is None else [mask])]
    scores = Operand(pointwise(build, inputs, type, masked), type)
    last = [scores.rank - 1]
    most = Operand(extreme(build, scores, last, True, True), type)

    def exponential(score: Number, most: Number) -> Number:
        # A row whose keys are all masked has weights 0.
        return most.equals(-math.inf).select(0, (score - most).decay())

    # f16 and bf16 weights are rounded for the product, but not for their sum.
    powers = pointwise(build, [scores, most], type, exponential)
    sum = Operand(summed(build, [Operand(powers, type)], last, True, type), type)
    weights = Operand(converted(build, Operand(powers, type), result), result)
    y = Operand(multiply(build, weights, value, type), type)

    def quotient(y: Number, sum: Number) -> Number:
        return y / sum.equals(0).select(1, sum)

    return pointwise(build, [y, sum], result, quotient)
