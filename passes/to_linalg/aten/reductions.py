# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""Reductions: sums, means, norms, softmax, extremes and their indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from padc.ir.element_types import wide
from padc.ir.tcp import Amount
from padc.passes.aten.operand_checks import check_not_empty
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.tensor_shapes import product, reshape, squeeze
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, as_number, lowers
from padc.passes.to_linalg.aten.tensors import (
    Operand,
    broadcast,
    converted,
    pointwise,
    reduce,
    spread,
    summed,
)
from padc.passes.to_linalg.build.numbers import Number, from_size, limits


def keeps(call: LinalgCall) -> bool:
    """Whether reduced dimensions stay, with size 1."""
    names = [argument.name for argument in call.op.schema.arguments]
    return "keepdim" in names and call.boolean("keepdim")


def reduced_dims(call: LinalgCall, rank: int) -> list[int]:
    names = [argument.name for argument in call.op.schema.arguments]
    return call.dims("dim", rank) if "dim" in names else list(range(rank))


def count(build: LinalgBuilder, x: Operand, dims: Sequence[int]) -> Amount:
    """The number of elements that are reduced to one."""
    return product(build, [build.size(x.tensor, dim) for dim in dims])


def mean_of(
    build: LinalgBuilder,
    x: Operand,
    dims: Sequence[int],
    keepdim: bool,
    type: Attribute,
) -> SSAValue:
    sum = summed(build, [x], dims, keepdim, wide(type))
    number = count(build, x, dims)
    return pointwise(
        build,
        [Operand(sum, wide(type))],
        type,
        lambda x: x / from_size(x.build, number, x.type),
    )


def variance_of(
    build: LinalgBuilder,
    x: Operand,
    dims: Sequence[int],
    keepdim: bool,
    type: Attribute,
    correction: float,
    step: Attribute | None = None,
) -> tuple[SSAValue, SSAValue]:
    """
    The variance, and the mean with dimensions kept, in `type`.

    The sum of squares and the quotient are rounded to `step`.
    """
    mean = mean_of(build, x, dims, True, type)

    def square(x: Number, mean: Number) -> Number:
        return (x - mean) * (x - mean)

    sum = summed(build, [x, Operand(mean, type)], dims, keepdim, type, square)
    number = count(build, x, dims)

    def divided(sum: Number) -> Number:
        divisor = from_size(sum.build, number, sum.type)
        if correction:
            divisor = (divisor - correction).maximum(0)
        return stepped(stepped(sum, step or type) / divisor, step or type)

    return pointwise(build, [Operand(sum, type)], type, divided), mean


@lowers("aten.sum", "aten.sum.dim_IntList", "aten.prod", "aten.prod.dim_int")
def lower_sum(call: LinalgCall) -> SSAValue:
    x, result = call.operand("self"), call.result_element_type()
    dims, type = reduced_dims(call, x.rank), wide(result)
    if call.name == "aten.prod.dim_int":
        # In f16 and bf16, PyTorch rounds each product.
        type = result
    if call.name.startswith("aten.sum"):
        total = summed(call.build, [x], dims, keeps(call), type)
    else:
        (total,) = reduce(
            call.build,
            [x],
            dims,
            keeps(call),
            [(1, type)],
            lambda so_far, x: [so_far[0] * x[0].to(type)],
        )
    return converted(call.build, Operand(total, type), result)


@lowers("aten.mean", "aten.mean.dim")
def lower_mean(call: LinalgCall) -> SSAValue:
    x = call.operand("self")
    dims = reduced_dims(call, x.rank)
    return mean_of(call.build, x, dims, keeps(call), call.result_element_type())


def statistics(call: LinalgCall) -> tuple[SSAValue, SSAValue]:
    """Variance and mean, the latter with dimensions kept."""
    x, names = call.operand("self"), [a.name for a in call.op.schema.arguments]
    if "unbiased" in names:
        correction = float(call.boolean("unbiased"))
    else:
        has = call.has("correction")
        correction = as_number(call.constant("correction")) if has else 1
    dims, type = reduced_dims(call, x.rank), wide(call.result_element_type())
    return variance_of(call.build, x, dims, keeps(call), type, correction)


VARIANCES = ("", ".dim", ".correction")


@lowers(*(f"aten.{op}{each}" for op in ("var", "std") for each in VARIANCES))
def lower_variance(call: LinalgCall) -> SSAValue:
    return deviation(call, statistics(call)[0])


def deviation(call: LinalgCall, variance: SSAValue) -> SSAValue:
    """The square root of the variance if `call` is a `std`, else the variance."""
    x = Operand(variance, wide(call.result_element_type()))
    if "std" not in call.name:
        return call.as_result(x)
    result = call.result_element_type()
    return pointwise(call.build, [x], result, lambda x: x.apply("sqrt"))


@lowers(*(f"aten.{op}_mean{each}" for op in ("var", "std") for each in VARIANCES))
def lower_variance_and_mean(call: LinalgCall) -> list[SSAValue]:
    variance, mean = statistics(call)
    first = deviation(call, variance)
    mean = call.as_result(Operand(mean, wide(call.result_element_type())), 1)
    return [first, reshape(call.build, mean, call.build.sizes(first))]


@lowers("aten.any", "aten.any.dim", "aten.any.dims", "aten.all", "aten.all.dim")
@lowers("aten.all.dims")
def lower_any(call: LinalgCall) -> SSAValue:
    x, is_any = call.operand("self"), call.name.startswith("aten.any")

    def body(so_far: Sequence[Number], x: Sequence[Number]) -> list[Number]:
        (old,), (new,) = so_far, x
        return [old | new.to(i1) if is_any else old & new.to(i1)]

    dims = reduced_dims(call, x.rank)
    (found,) = reduce(call.build, [x], dims, keeps(call), [(not is_any, i1)], body)
    return call.as_result(Operand(found, i1))


def extreme(
    build: LinalgBuilder, x: Operand, dims: Sequence[int], keepdim: bool, greatest: bool
) -> SSAValue:
    """The extreme; NaN if any element is NaN."""
    least, most = limits(x.type)
    choose = Number.maximum if greatest else Number.minimum
    (found,) = reduce(
        build,
        [x],
        dims,
        keepdim,
        [(least if greatest else most, x.type)],
        lambda so_far, x: [choose(so_far[0], x[0])],
    )
    return found


@lowers("aten.amax", "aten.amin", "aten.max", "aten.min")
def lower_extreme(call: LinalgCall) -> SSAValue:
    x = call.operand("self")
    greatest = call.name.startswith(("aten.amax", "aten.max"))
    dims = reduced_dims(call, x.rank)
    check_not_empty([x.shape[dim] for dim in dims])
    return extreme(call.build, x, dims, keeps(call), greatest)


@lowers("aten.aminmax")
def lower_aminmax(call: LinalgCall) -> list[SSAValue]:
    x = call.operand("self")
    dims = reduced_dims(call, x.rank)
    check_not_empty([x.shape[dim] for dim in dims])
    return [
        extreme(call.build, x, dims, keeps(call), greatest)
        for greatest in (False, True)
    ]


def extreme_and_index(
    build: LinalgBuilder, x: Operand, dims: Sequence[int], keepdim: bool, greatest: bool
) -> list[SSAValue]:
    """The extreme along one dimension, and the index of its first occurrence."""
    if dims and dims[0] == x.rank - 1:
        return extreme_and_index_of_rows(build, x, keepdim, greatest)
    least, most = limits(x.type)

    def body(so_far: Sequence[Number], x: Sequence[Number]) -> list[Number]:
        (best, where), (new,) = so_far, x
        index = (
            from_size(new.build, new.build.loop_index(dims[0]), i64)
            if dims
            else where.constant(0)
        )
        better = new > best if greatest else new < best
        if new.is_float:
            better = better | (new.is_nan() & ~best.is_nan())
            better = better & ~best.is_nan()
        return [better.select(new, best), better.select(index, where)]

    starts = [(least if greatest else most, x.type), (0.0, i64)]
    return reduce(build, [x], dims, keepdim, starts, body)


def extreme_and_index_of_rows(
    build: LinalgBuilder, x: Operand, keepdim: bool, greatest: bool
) -> list[SSAValue]:
    """
    The same along the last dimension: first the extreme, then where it is.

    Unlike one loop for both, each of the two is computed by vectors.
    """
    last = x.rank - 1
    best = extreme(build, x, [last], True, greatest)
    type = i32 if 0 <= x.shape[last] < 2**31 else i64
    _, none = limits(type)

    def body(so_far: Sequence[Number], x: Sequence[Number]) -> list[Number]:
        new, best = x
        index = from_size(new.build, new.build.loop_index(last), type)
        found = new.equals(best)
        if new.is_float:
            found = found | (new.is_nan() & best.is_nan())
        return [so_far[0].minimum(found.select(index, none))]

    inputs = [x, Operand(best, x.type)]
    (where,) = reduce(build, inputs, [last], keepdim, [(none, type)], body)
    where = converted(build, Operand(where, type), i64)
    return [best if keepdim else squeeze(build, best, [last]), where]


@lowers("aten.max.dim", "aten.min.dim")
def lower_extreme_along(call: LinalgCall) -> list[SSAValue]:
    x = call.operand("self")
    greatest = call.name == "aten.max.dim"
    dims = call.dims("dim", x.rank)
    return extreme_and_index(call.build, x, dims, keeps(call), greatest)


@lowers("aten.argmax", "aten.argmin")
def lower_index_of_extreme(call: LinalgCall) -> SSAValue:
    x, build = call.operand("self"), call.build
    greatest = call.name == "aten.argmax"
    if call.has("dim") or not x.rank:
        dims = call.dims("dim", x.rank)
        return extreme_and_index(build, x, dims, keeps(call), greatest)[1]
    row = reshape(build, x.tensor, [product(build, build.sizes(x.tensor))])
    row = Operand(row, x.type)
    _, index = extreme_and_index(build, row, [0], False, greatest)
    return reshape(build, index, [1] * x.rank if keeps(call) else [])


@lowers("aten.logsumexp", "aten.special_logsumexp")
def lower_logsumexp(call: LinalgCall) -> SSAValue:
    x, build, result = call.operand("self"), call.build, call.result_element_type()
    dims, type = call.dims("dim", x.rank), wide(result)
    number = Operand(converted(build, x, type), type)
    most = extreme(build, number, dims, True, True)

    def finite(x: Number) -> Number:
        return abs(x).equals(math.inf).select(0, x)

    shift = Operand(pointwise(build, [Operand(most, type)], type, finite), type)

    def power(x: Number, shift: Number) -> Number:
        return stepped(stepped(x - shift, result).apply("exp"), result)

    sum = summed(build, [number, shift], dims, keeps(call), type, power)
    flat = Operand(reshape(build, shift.tensor, build.sizes(sum)), type)

    def logarithm(sum: Number, shift: Number) -> Number:
        return stepped(stepped(sum, result).apply("log"), result) + shift

    return pointwise(build, [Operand(sum, type), flat], result, logarithm)


def stepped(x: Number, type: Attribute) -> Number:
    """`x` rounded to `type`, as PyTorch stores it between ops."""
    return x.to(type).to(x.type)


@lowers("aten.linalg_vector_norm", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
@lowers("aten.frobenius_norm.dim", "aten.norm.ScalarOpt_dim_dtype")
def lower_norm(call: LinalgCall) -> SSAValue:
    x, build, result = call.operand("self"), call.build, call.result_element_type()
    name = next((n for n in ("ord", "p") if n in call.op.schema.positions), None)
    order = as_number(call.constant(name)) if name and call.has(name) else 2.0
    dims, type = reduced_dims(call, x.rank), wide(result)
    if math.isinf(order):
        sizes = pointwise(build, [x], type, lambda x: abs(x.to(type)))
        greatest = order > 0
        found = extreme(build, Operand(sizes, type), dims, keeps(call), greatest)
        return call.as_result(Operand(found, type))
    term, root = norm_parts(order)
    sum = summed(build, [x], dims, keeps(call), type, term)
    return pointwise(build, [Operand(sum, type)], result, root)


def norm_parts(
    order: float,
) -> tuple[Callable[[Number], Number], Callable[[Number], Number]]:
    """The summand of a norm, and the function of the sum."""
    match order:
        case 0:
            return lambda x: x.differs(0).to(x.type), lambda sum: sum
        case 1:
            return Number.__abs__, lambda sum: sum
        case 2:
            return lambda x: x * x, lambda sum: sum.apply("sqrt")
        case _:
            return (
                lambda x: abs(x).apply("pow", order),
                lambda sum: sum.apply("pow", 1 / order),
            )


@lowers("aten.cosine_similarity")
def lower_cosine_similarity(call: LinalgCall) -> SSAValue:
    a, b, build = call.operand("x1"), call.operand("x2"), call.build
    result, rank = call.result_element_type(), max(a.rank, b.rank)
    type, dims = wide(result), call.dims("dim", rank)
    eps = as_number(call.constant("eps"))

    def norm(x: Operand) -> Operand:
        sum = summed(build, [x], dims, True, type, lambda x: x * x)
        root = pointwise(
            build,
            [Operand(sum, type)],
            result,
            lambda sum: sum.apply("sqrt").to(result).maximum(eps),
        )
        return Operand(root, result)

    # `dim` counts the dimensions of the broadcast shape.
    sizes, _ = broadcast(build, [a, b])
    a, b = (Operand(spread(build, x, result, sizes), result) for x in (a, b))

    def term(a: Number, b: Number, first: Number, second: Number) -> Number:
        # Each step is rounded to the result type.
        ratios = [stepped(x / y, result) for x, y in ((a, first), (b, second))]
        return stepped(ratios[0] * ratios[1], result)

    y = summed(build, [a, b, norm(a), norm(b)], dims, False, type, term)
    return call.as_result(Operand(y, type))


SOFTMAX = ("softmax.int", "_softmax", "special_softmax", "_safe_softmax")
LOG_SOFTMAX = ("log_softmax.int", "_log_softmax", "special_log_softmax")


@lowers(*(f"aten.{name}" for name in (*SOFTMAX, *LOG_SOFTMAX)))
def lower_softmax(call: LinalgCall) -> SSAValue:
    x, result = call.operand("self"), call.result_element_type()
    name = call.name
    if name in ("aten.softmax.int", "aten.log_softmax.int"):
        # The input is converted to the dtype argument.
        x = Operand(call.as_result(x), result)
    dims = call.dims("dim", x.rank)
    return softmax(
        call.build,
        x,
        dims,
        result,
        is_log="log" in name,
        is_safe=name == "aten._safe_softmax",
    )


def softmax(
    build: LinalgBuilder,
    x: Operand,
    dims: Sequence[int],
    result: Attribute,
    *,
    is_log: bool = False,
    is_safe: bool = False,
) -> SSAValue:
    """Softmax or its logarithm; if `is_safe`, 0 where all are minus infinity."""
    type = wide(result)
    most = Operand(extreme(build, x, dims, True, True), x.type)

    def shifted(x: Number, most: Number) -> Number:
        return x.to(type) - most.to(type)

    if is_log:
        sum = summed(
            build,
            [x, most],
            dims,
            True,
            type,
            lambda x, most: shifted(x, most).decay(),
        )
        # Along the last dimension, PyTorch rounds the sum and its logarithm.
        step = result if list(dims) == [x.rank - 1] else type

        def logarithm(x: Number, most: Number, sum: Number) -> Number:
            log = stepped(stepped(sum, step).apply("log"), step)
            return shifted(x, most) - log

        return pointwise(build, [x, most, Operand(sum, type)], result, logarithm)

    def exponential(x: Number, most: Number) -> Number:
        power = shifted(x, most).decay()
        if not is_safe:
            return power
        return most.equals(-math.inf).select(0, power)

    powers = Operand(pointwise(build, [x, most], type, exponential), type)
    sum = Operand(summed(build, [powers], dims, True, type), type)

    def inverse(sum: Number) -> Number:
        return 1 / (sum.equals(0).select(1, sum) if is_safe else sum)

    # One quotient for each sum: a CPU multiplies several times as fast as it divides.
    inverses = Operand(pointwise(build, [sum], type, inverse), type)
    return pointwise(build, [powers, inverses], result, lambda x, y: x * y)
