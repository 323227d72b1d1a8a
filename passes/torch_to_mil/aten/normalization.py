"""Normalization: batch, layer, RMS, group and instance; of weights and of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, Float16Type, i32

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.element_types import LARGEST_FINITE, is_float, wide
from padc.passes.aten.formulas import default_epsilon, factor_and_summand
from padc.passes.aten.operand_checks import check_dim, check_rank
from padc.passes.torch_to_mil.aten.mil_call import Made, MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    product,
    reshape,
    size_of,
    sizes_of,
)
from padc.passes.torch_to_mil.aten.reductions import norm
from padc.passes.torch_to_mil.aten.tensor import Tensor, is_constant

EVAL = "call model.eval() before converting"


def in_wide(call: MilCall, name: str) -> Tensor:
    """A tensor in the type in which PyTorch computes: float32 for float16."""
    x = call.tensor(name)
    return x.to(wide(x.type))


def optional(call: MilCall, name: str, like: Tensor) -> Tensor | None:
    """An optional tensor, in the type of `like`."""
    return call.tensor(name).to(like.type) if call.has(name) else None


def affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """`y * weight + bias`."""
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


# --- statistics -----------------------------------------------------------------------


def mean_of(x: Tensor, dims: Sequence[int]) -> Tensor:
    """The mean along `dims`, which keep size 1."""
    shape = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
    return x.emit("reduce_mean", shape, x=x, axes=list(dims), keep_dims=True)


def moments(x: Tensor, dims: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The distance from the mean, the mean, and the variance, in two passes."""
    mean = mean_of(x, dims)
    centered = x - mean
    return centered, mean, mean_of(centered.unary("square"), dims)


def inverse_root(x: Tensor, eps: float) -> Tensor:
    """`1 / sqrt(x + eps)`."""
    return x.unary("rsqrt", epsilon=x.constant(eps).value)


def with_statistics(
    call: MilCall, y: Tensor, x: Tensor, dims: Sequence[int], sizes: Sequence[Size]
) -> list[Tensor]:
    """`y`, and if they are used, the mean and the inverse deviation of `x`."""
    if all(result.first_use is None for result in call.op.results[1:]):
        return [y]
    _, mean, variance = moments(x, dims)
    deviation = inverse_root(variance, call.number("eps"))
    return [y, reshape(mean, sizes), reshape(deviation, sizes)]


# --- batch ----------------------------------------------------------------------------


@lowers(
    "aten.batch_norm",
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit.no_stats",
    "aten._native_batch_norm_legit_no_training",
    "aten._native_batch_norm_legit_functional",
    "aten._batch_norm_no_update",
    "aten._batch_norm_with_update_functional",
)
def lower_batch_norm(call: MilCall) -> Sequence[Made | None]:
    has_statistics = call.has("running_mean")
    is_functional = call.name.endswith("_functional")
    trains = call.name == "aten._batch_norm_with_update_functional" or (
        "training" in call.op.schema.positions and call.boolean("training")
    )
    if trains or not has_statistics:
        if has_statistics and not is_functional:
            raise Obstacle(
                "it normalizes by the batch that it is given, and updates the running "
                "statistics, as in training",
                EVAL,
            )
        return by_batch(call)
    y = by_statistics(call)
    if not is_functional:
        return [y]
    return [y, None, None, *(call.tensor(f"running_{x}") for x in ("mean", "var"))]


def by_batch(call: MilCall) -> Sequence[Made | None]:
    """Normalized by the mean and variance of each channel of this batch."""
    x = in_wide(call, "input")
    check_dim(1, x.rank)
    weight, bias = (optional(call, name, x) for name in ("weight", "bias"))
    others = [dim for dim in range(x.rank) if dim != 1]
    is_plain = all(result.first_use is None for result in call.op.results[1:])
    # A batch of one is an instance. Core ML folds the formula if `x` is a constant.
    if is_plain and x.shape[0] == 1 and x.rank > 2 and not is_constant(x):
        return [instances(x, weight, bias, call.number("eps"))]
    centered, mean, variance = moments(x, others)
    deviation = inverse_root(variance, call.number("eps"))
    y = per_channel(centered * deviation, weight, bias)
    channels = [size_of(x, 1)]
    statistics: list[Made | None] = [reshape(x, channels) for x in (mean, deviation)]
    count = len(call.op.results)
    if count == 6:  # After the statistics, bytes that only a gradient needs.
        statistics.append(None)
    if count >= 5:
        statistics += updated(call, x, mean, variance)
    return [y, *statistics][:count]


def updated(call: MilCall, x: Tensor, mean: Tensor, variance: Tensor) -> list[Tensor]:
    """The running statistics after this batch: the variance is the unbiased one."""
    sizes = [size for dim, size in enumerate(x.shape) if dim != 1]
    if DYNAMIC_INDEX in sizes:
        raise Obstacle("running statistics of a batch of dynamic size", EVAL)
    count, momentum = math.prod(sizes), call.number("momentum")
    unbiased = variance * (count / (count - 1) if count > 1 else math.nan)
    return [
        reshape(new, [size_of(x, 1)]) * momentum
        + call.tensor(name).to(x.type) * (1 - momentum)
        for name, new in (("running_mean", mean), ("running_var", unbiased))
    ]


def along_channels(x: Tensor | None, rank: int) -> Tensor | None:
    """One number for each channel, in the shape that broadcasts to `rank`."""
    if x is None:
        return None
    check_rank(x.rank, 1, "a per-channel parameter")
    return reshape(x, [x.shape[0], *[1] * (rank - 2)]) if rank > 2 else x


def by_statistics(call: MilCall) -> Tensor:
    """Normalized by given statistics: Core ML's batch_norm if it knows them."""
    x, eps = call.tensor("input"), call.number("eps")
    given = [call.optional(name) for name in ("weight", "bias")]
    statistics = [call.tensor(f"running_{name}") for name in ("mean", "var")]
    parameters = [each for each in (*statistics, *given) if each is not None]
    is_known = is_constant(*parameters) and 3 <= x.rank <= 5
    if not (is_known and takes(x, parameters)):
        x = x.to(wide(x.type))
    type = x.type if all(each.type == x.type for each in parameters) else wide(x.type)
    mean, variance, weight, bias = (
        each and each.to(type) for each in (*statistics, *given)
    )
    assert mean is not None and variance is not None
    if is_known:
        return channelwise(x, mean, variance, weight, bias, eps)
    parts = factor_and_summand(mean, inverse_root(variance, eps), weight, bias)
    return affine(x, *(along_channels(each, x.rank) for each in parts))


def takes(x: Tensor, parameters: Sequence[Tensor]) -> bool:
    """Whether Core ML's batch_norm of `x` takes parameters of these types."""
    if all(each.type == x.type for each in parameters):
        return True
    form = mil.OPS["batch_norm"].form(x.build.target)
    assert form is not None
    return form.inputs["mean"].variable != form.inputs["x"].variable


def channelwise(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """
    Core ML's batch_norm, with all parameters.

    Without weight and bias it would become a subtraction and a division, which do not
    fuse with a convolution.
    """
    # A constant of the parameters' type.
    shape, number = mean.shape, mean.constant
    return x.emit(
        "batch_norm",
        x.shape,
        x=x,
        mean=mean,
        variance=variance,
        gamma=np.full(shape, number(1).value) if weight is None else weight,
        beta=np.full(shape, number(0).value) if bias is None else bias,
        epsilon=number(eps).value,
    )


# --- layer and RMS --------------------------------------------------------------------


@lowers("aten.layer_norm", "aten.native_layer_norm")
def lower_layer_norm(call: MilCall) -> list[Tensor]:
    x = in_wide(call, "input")
    dims = normalized_dims(call, x)
    weight, bias = (optional(call, name, x) for name in ("weight", "bias"))
    y = layers(x, dims, weight, bias, call.number("eps"))
    sizes = [1 if dim in dims else size_of(x, dim) for dim in range(x.rank)]
    return with_statistics(call, y, x, dims, sizes)


def normalized_dims(call: MilCall, x: Tensor) -> list[int]:
    return list(range(x.rank - len(call.elements("normalized_shape")), x.rank))


def layers(
    x: Tensor,
    dims: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Core ML's layer_norm, with a weight and a bias that it knows."""
    fused = is_constant(weight, bias)
    y = x.emit(
        "layer_norm",
        x.shape,
        x=x,
        axes=list(dims),
        gamma=weight if fused else None,
        beta=bias if fused else None,
        epsilon=x.constant(eps).value,
    )
    return y if fused else affine(y, weight, bias)


@lowers("aten.rms_norm")
def lower_rms_norm(call: MilCall) -> Tensor:
    """
    `x / sqrt(mean(x^2) + eps) * weight`.

    `x` and `sqrt(|eps|)` are divided by the larger of them first: then squares neither
    overflow nor vanish if the program is converted to float16. Beyond float16 they are
    divided by its largest number, so that infinity makes NaN of itself only.
    """
    x = in_wide(call, "input")
    dims = normalized_dims(call, x)
    sizes = [x.shape[dim] for dim in dims]
    if DYNAMIC_INDEX in sizes:
        raise Obstacle("a normalized shape of dynamic size", "give it static sizes")
    default = default_epsilon(call.result_element_type())
    eps = call.number("eps") if call.has("eps") else default
    root_n = math.sqrt(math.prod(sizes))
    root = x.constant(math.sqrt(abs(eps)) * root_n)
    shape = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
    reduced = {"axes": dims, "keep_dims": True}
    most = abs(x).emit("reduce_max", shape, x=abs(x), **reduced).binary("maximum", root)
    most = most.binary("minimum", LARGEST_FINITE[Float16Type])
    scaled = x / most
    squares = scaled.emit("reduce_sum_square", shape, x=scaled, **reduced)
    added = (root / most).unary("square")
    total = squares - added if eps < 0 else squares + added
    factor = inverse_root(total, -0.0)
    weight = optional(call, "weight", x)
    # The sums are means times n.
    weight = x.constant(root_n) if weight is None else weight * root_n
    return scaled * factor * weight


# --- group and instance ---------------------------------------------------------------


@lowers("aten.group_norm", "aten.native_group_norm")
def lower_group_norm(call: MilCall) -> list[Tensor]:
    """Each group of channels is a layer of its own."""
    x = in_wide(call, "input")
    is_native = call.name == "aten.native_group_norm"
    groups, channels = call.integer("group" if is_native else "num_groups"), x.shape[1]
    weight, bias = (optional(call, name, x) for name in ("weight", "bias"))
    eps = call.number("eps")
    n = size_of(x, 0)
    is_dynamic = channels == DYNAMIC_INDEX
    each = -1 if is_dynamic else product([channels // groups, *sizes_of(x)[2:]])
    if groups == channels and 3 <= x.rank <= 4:
        y = instances(x, weight, bias, eps)
    elif groups == 1:
        y = per_channel(layers(x, range(1, x.rank), None, None, eps), weight, bias)
    else:
        y = layers(reshape(x, [n, groups, each]), [2], None, None, eps)
        y = per_channel(restored(y, x), weight, bias)
    if all(result.first_use is None for result in call.op.results[1:]):
        return [y]
    return with_statistics(call, y, reshape(x, [n, groups, each]), [2], [n, groups])


def restored(y: Tensor, x: Tensor) -> Tensor:
    """`y`, which is `x` reshaped, in the shape of `x`."""
    if x.shape.count(DYNAMIC_INDEX) < 2:
        return reshape(y, list(x.shape))
    sizes = x.emit("shape", [x.rank], i32, x=x)
    return y.emit("reshape", x.shape, x=y, shape=sizes)


def per_channel(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """`x * weight + bias`, with numbers for each channel: a batch_norm if known."""
    if weight is None or bias is None or not is_constant(weight, bias) or x.rank < 3:
        return affine(x, *(along_channels(each, x.rank) for each in (weight, bias)))
    mean, variance = (
        x.like(x.build.constant(np.full(weight.shape, x.constant(value).value)))
        for value in (0, 1)
    )
    return channelwise(x, mean, variance, weight, bias, 0.0)


@lowers("aten.instance_norm")
def lower_instance_norm(call: MilCall) -> Tensor:
    if not call.boolean("use_input_stats"):
        return by_statistics(call)
    if call.has("running_mean"):
        raise Obstacle("it updates the running statistics, as in training", EVAL)
    x = in_wide(call, "input")
    weight, bias = (optional(call, name, x) for name in ("weight", "bias"))
    return instances(x, weight, bias, call.number("eps"))


def instances(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Core ML's instance_norm, which takes tensors of rank 3 and 4."""
    if x.rank == 5:
        sizes = sizes_of(x)
        y = reshape(x, [*sizes[:3], product(sizes[3:])])
        return restored(instances(y, weight, bias, eps), x)
    fused = is_constant(weight, bias) and (weight is None) == (bias is None)
    y = x.emit(
        "instance_norm",
        x.shape,
        x=x,
        gamma=weight if fused else None,
        beta=bias if fused else None,
        epsilon=x.constant(eps).value,
    )
    return y if fused else per_channel(y, weight, bias)


# --- weights and rows -----------------------------------------------------------------


@lowers("aten._weight_norm", "aten._weight_norm_interface")
def lower_weight_norm(call: MilCall) -> list[Tensor]:
    """`v * (g / norm)`: the norm of each slice along `dim`; if that is -1, of all."""
    given, scale = (call.tensor(name).type for name in ("v", "g"))
    if given != scale or not is_float(given):
        raise Obstacle(f"v is {given} and g {scale}", "give both one type of floats")
    v, g = in_wide(call, "v"), in_wide(call, "g")
    dim = call.integer("dim")
    length = norm(v, 2, [d for d in range(v.rank) if d != dim], True)
    return [v * (g / length), length][: len(call.op.results)]


@lowers("aten.renorm")
def lower_renorm(call: MilCall) -> Tensor:
    """Slices whose norm is above `maxnorm` are scaled to it."""
    x = in_wide(call, "self")
    dim, most = call.dim("dim", x.rank), call.number("maxnorm")
    others = [d for d in range(x.rank) if d != dim]
    length = norm(x, call.number("p"), others, True)
    return x * (length > most).select(most / (length + 1e-7), 1.0)
