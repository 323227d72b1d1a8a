# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""Normalization: batch, layer, RMS, group and instance."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import bf16
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.ir.tcp import Amount
from padc.passes.aten.formulas import default_epsilon, factor_and_summand
from padc.passes.aten.operand_checks import check_dim
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.tensor_shapes import expand, product, reshape
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.aten.reductions import variance_of
from padc.passes.to_linalg.aten.tensors import Operand, converted, pointwise, summed
from padc.passes.to_linalg.build.numbers import Number, from_size


def real(call: LinalgCall, name: str) -> float:
    value = call.constant(name)
    if not isinstance(value, int | float):
        raise Obstacle(f"{name} {value}", "give a number")
    return value


def inverse_deviation(
    build: LinalgBuilder, variance: Operand, eps: float, type: Attribute
) -> SSAValue:
    return pointwise(build, [variance], type, lambda x: inverse_root(x.to(type), eps))


def inverse_root(x: Number, eps: float) -> Number:
    """`1 / sqrt(x + eps)`."""
    return 1 / (x + eps).apply("sqrt")


def scaled(
    build: LinalgBuilder,
    x: Operand,
    mean: Operand,
    factor: Operand,
    weight: Operand | None,
    bias: Operand | None,
    result: Attribute,
) -> SSAValue:
    """`(x - mean) * factor * weight + bias`."""
    type = wide(result)

    def body(*numbers: Number) -> Number:
        given = iter(number.to(type) for number in numbers)
        y = (next(given) - next(given)) * next(given)
        if weight is not None:
            y = y * next(given)
        return y if bias is None else y + next(given)

    optional = [each for each in (weight, bias) if each is not None]
    return pointwise(build, [x, mean, factor, *optional], result, body)


def normalized(
    build: LinalgBuilder,
    x: Operand,
    dims: Sequence[int],
    eps: float,
    weight: Operand | None,
    bias: Operand | None,
    result: Attribute,
    kept: Attribute | None = None,
) -> list[Operand]:
    """
    The normalized tensor, the mean and the inverse deviation along `dims`.

    The statistics keep `dims` with size 1. They are rounded to the type `kept` before
    they are applied; if that is bf16, PyTorch also rounds the steps of the variance.
    """
    type = wide(result)
    step = kept if kept == bf16 else None
    variance, average = variance_of(build, x, dims, True, type, 0, step)
    deviation = inverse_deviation(build, Operand(variance, type), eps, type)
    kept = kept or type
    mean, factor = (
        Operand(converted(build, Operand(each, type), kept), kept)
        for each in (average, deviation)
    )
    y = scaled(build, x, mean, factor, weight, bias, result)
    return [Operand(y, result), mean, factor]


def batch_norm(call: LinalgCall) -> list[SSAValue]:
    """
    Normalize with the batch's statistics in training, otherwise with the given ones.

    Given statistics become one factor and one summand for each channel.
    """
    x, build = call.operand("input"), call.build
    check_dim(1, x.rank)
    result = call.result_element_type()
    type = wide(result)
    weight, bias = call.optional("weight"), call.optional("bias")
    eps = real(call, "eps")
    names = [argument.name for argument in call.op.schema.arguments]
    has_statistics = "running_mean" in names and call.has("running_mean")
    if not has_statistics or ("training" in names and call.boolean("training")):
        others = [dim for dim in range(x.rank) if dim != 1]
        results = by_batch(build, x, others, eps, weight, bias, result)
        return with_statistics(call, results, [build.size(x.tensor, 1)])
    mean, variance = call.operand("running_mean"), call.operand("running_var")
    if any(result.first_use is not None for result in call.op.results[1:]):
        raise Obstacle("statistics of a batch that are not used", "leave them out")
    factor, summand = batch_norm_factors(build, mean, variance, weight, bias, eps, type)

    def body(x: Number, factor: Number, summand: Number) -> Number:
        return x.to(type) * factor + summand

    return [pointwise(build, [x, factor.along(1), summand.along(1)], result, body)]


@lowers(
    "aten.batch_norm",
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit_no_training",
    "aten._native_batch_norm_legit.no_stats",
)
def lower_batch_norm(call: LinalgCall) -> list[SSAValue]:
    return batch_norm(call)


def by_batch(
    build: LinalgBuilder,
    x: Operand,
    dims: Sequence[int],
    eps: float,
    weight: Operand | None,
    bias: Operand | None,
    result: Attribute,
) -> list[Operand]:
    """`normalized`, with weights by channel; statistics have the type of `weight`."""
    kept = result if weight is None else weight.type
    weight, bias = weight and weight.along(1), bias and bias.along(1)
    return normalized(build, x, dims, eps, weight, bias, result, kept)


def with_statistics(
    call: LinalgCall, outputs: Sequence[Operand], shape: Sequence[Amount] | None = None
) -> list[SSAValue]:
    """The results that the op has; statistics are reshaped to `shape` if given."""
    y, *statistics = outputs
    results = [y.tensor]
    for i, each in enumerate(statistics[: len(call.op.results) - 1], 1):
        x = each.tensor if shape is None else reshape(call.build, each.tensor, shape)
        results.append(call.as_result(Operand(x, each.type), i))
    return results


def batch_norm_factors(
    build: LinalgBuilder,
    mean: Operand,
    variance: Operand,
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
    type: Attribute,
) -> tuple[Operand, Operand]:
    """The factor and the summand of each channel."""
    named = {"weight": weight, "bias": bias}
    optional = {name: x for name, x in named.items() if x is not None}

    def part(index: int) -> Operand:
        def body(mean: Number, variance: Number, *others: Number) -> Number:
            inverse = inverse_root(variance.to(type), eps)
            given = dict(zip(optional, (x.to(type) for x in others), strict=True))
            return factor_and_summand(mean.to(type), inverse, **given)[index]

        inputs = [mean, variance, *optional.values()]
        return Operand(pointwise(build, inputs, type, body), type)

    return part(0), part(1)


@lowers("aten.layer_norm", "aten.native_layer_norm")
def lower_layer_norm(call: LinalgCall) -> list[SSAValue]:
    x = call.operand("input")
    count = len(call.amounts("normalized_shape"))
    results = normalized(
        call.build,
        x,
        list(range(x.rank - count, x.rank)),
        real(call, "eps"),
        call.optional("weight"),
        call.optional("bias"),
        call.result_element_type(),
    )
    return with_statistics(call, results)


@lowers("aten.rms_norm")
def lower_rms_norm(call: LinalgCall) -> SSAValue:
    x, build, result = call.operand("input"), call.build, call.result_element_type()
    type = wide(result)
    rank = len(call.amounts("normalized_shape"))
    dims = list(range(x.rank - rank, x.rank))
    sum = summed(build, [x], dims, True, type, lambda x: x * x)
    number = product(build, [build.size(x.tensor, dim) for dim in dims])
    eps = real(call, "eps") if call.has("eps") else default_epsilon(result)

    def body(x: Number, sum: Number, *weight: Number) -> Number:
        mean = sum / from_size(sum.build, number, type)
        y = x.to(type) * inverse_root(mean, eps)
        return y * weight[0].to(type) if weight else y

    weight = call.optional("weight")
    return pointwise(
        build, [x, Operand(sum, type), *([weight] if weight else [])], result, body
    )


@lowers("aten.group_norm", "aten.native_group_norm")
def lower_group_norm(call: LinalgCall) -> list[SSAValue]:
    """Split channels into groups, normalize each group, merge the groups."""
    x, build = call.operand("input"), call.build
    is_native = call.name == "aten.native_group_norm"
    groups = call.integer("group" if is_native else "num_groups")
    sizes = build.sizes(x.tensor)
    each = build.floordiv(sizes[1], groups)
    grouped = Operand(expand(build, x.tensor, 1, [groups, each]), x.type)

    def channels(name: str) -> Operand | None:
        if (given := call.optional(name)) is None:
            return None
        pair = expand(build, given.tensor, 0, [groups, each])
        return Operand(pair, given.type).along(1, 2)

    y, *statistics = normalized(
        build,
        grouped,
        list(range(2, grouped.rank)),
        real(call, "eps"),
        channels("weight"),
        channels("bias"),
        call.result_element_type(),
    )
    y = Operand(reshape(build, y.tensor, sizes), y.type)
    return with_statistics(call, [y, *statistics], [sizes[0], groups])


@lowers("aten.instance_norm")
def lower_instance_norm(call: LinalgCall) -> list[SSAValue]:
    if not call.boolean("use_input_stats"):
        return batch_norm(call)
    x = call.operand("input")
    results = by_batch(
        call.build,
        x,
        list(range(2, x.rank)),
        real(call, "eps"),
        call.optional("weight"),
        call.optional("bias"),
        call.result_element_type(),
    )
    return with_statistics(call, results)
