"""
Reductions: sums, means, variances, extremes and their indices, norms.

PyTorch sums 16-bit floats in float32, and booleans and integers in int64: rows convert
to `wide` types, and to int32, before they reduce.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i1, i32

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.passes.aten.promotion import promoted
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_sizes,
    broadcast_to,
    expand_dims,
    filled,
    positions,
    product,
    reshape,
    size_of,
    squeeze,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number

# --- building blocks ------------------------------------------------------------------


def reduce(name: str, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """`mil.reduce_<name>` along `dims`; without any, `x`."""
    if not dims:
        return x
    if 0 in x.shape:
        return reduced_empty(name, x, dims, keepdim)
    return x.emit(
        f"reduce_{name}",
        reduced_sizes(x.shape, dims, keepdim),
        x=x,
        axes=sorted(dims),
        keep_dims=keepdim,
    )


def reduced_sizes(
    shape: Sequence[int], dims: Sequence[int], keepdim: bool
) -> list[int]:
    kept = [1 if dim in dims else size for dim, size in enumerate(shape)]
    return kept if keepdim else [n for dim, n in enumerate(kept) if dim not in dims]


EMPTY = {
    **{"l1_norm": 0, "l2_norm": 0, "max": 0, "mean": math.nan, "min": 1},
    **{"prod": 1, "sum": 0},
}
"""Reductions of no elements; the extremes are those of booleans."""


def reduced_empty(name: str, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    shape = reduced_sizes(x.shape, dims, keepdim)
    if 0 in shape or DYNAMIC_INDEX in shape:
        raise Obstacle("it reduces a tensor without elements", "leave it out")
    return filled(x.constant(EMPTY[name]), shape)


def reduced_dims(call: MilCall, x: Tensor) -> list[int]:
    """The dimensions to reduce: all, if none is given; of rank 0, none."""
    return call.dims("dim", x.rank) if x.rank else []


def keeps(call: MilCall) -> bool:
    """Whether reduced dimensions stay, with size 1."""
    return call.has("keepdim") and call.boolean("keepdim")


def as_wide_result(call: MilCall, name: str = "self") -> Tensor:
    """An operand, converted to the type in which PyTorch computes the result."""
    return call.tensor(name).to(wide(call.result_element_type()))


def count(x: Tensor, dims: Sequence[int]) -> Size:
    """The number of elements that are reduced to one."""
    return product([size_of(x, dim) for dim in dims])


# --- sums and means -------------------------------------------------------------------


@lowers("aten.sum", "aten.sum.dim_IntList")
def lower_sum(call: MilCall) -> Tensor:
    x = as_number(as_wide_result(call))
    y = reduce("sum", x, reduced_dims(call, x), keeps(call))
    return y.wrapped(y)


@lowers("aten.prod", "aten.prod.dim_int")
def lower_product(call: MilCall) -> Tensor:
    """Along one dimension, PyTorch rounds each product of 16-bit floats."""
    type = call.result_element_type()
    type = type if call.name == "aten.prod.dim_int" else wide(type)
    x = as_number(call.tensor("self").to(type))
    y = reduce("prod", x, reduced_dims(call, x), keeps(call))
    return y.wrapped(y)


@lowers("aten.mean", "aten.mean.dim")
def lower_mean(call: MilCall) -> Tensor:
    x = as_wide_result(call)
    return reduce("mean", x, reduced_dims(call, x), keeps(call))


@lowers("aten.nansum")
def lower_sum_without_nan(call: MilCall) -> Tensor:
    x = as_number(without_nan(as_wide_result(call)))
    y = reduce("sum", x, reduced_dims(call, x), keeps(call))
    return y.wrapped(y)


@lowers("aten.nanmean")
def lower_mean_without_nan(call: MilCall) -> Tensor:
    x = as_wide_result(call)
    dims, keepdim = reduced_dims(call, x), keeps(call)
    total = reduce("sum", without_nan(x), dims, keepdim)
    return total / reduce("sum", x.equals(x).to(x.type), dims, keepdim)


def without_nan(x: Tensor) -> Tensor:
    """0 for each NaN."""
    return x.is_nan().select(0, x) if x.is_float else x


@lowers("aten.count_nonzero", "aten.count_nonzero.dim_IntList")
def lower_count(call: MilCall) -> Tensor:
    x = call.tensor("self").to(i1).to(i32)
    return reduce("sum", x, reduced_dims(call, x), False)


@lowers(*(f"aten.{op}{each}" for op in ("any", "all") for each in ("", ".dim")))
@lowers("aten.any.dims", "aten.all.dims")
def lower_any(call: MilCall) -> Tensor:
    """An empty list of dimensions reduces nothing; None reduces all."""
    x = call.tensor("self").to(i1).to(i32)
    dims = call.dims("dim", x.rank, empty=call.has("dim")) if x.rank else []
    name = "max" if call.name.startswith("aten.any") else "min"
    return reduce(name, x, dims, keeps(call)).to(i1)


# --- variances ------------------------------------------------------------------------


def variance_and_mean(
    x: Tensor, dims: Sequence[int], keepdim: bool, correction: float
) -> tuple[Tensor, Tensor]:
    """
    The mean square of the distances to the mean; and the mean, with `dims` kept.

    Two passes, since E(x^2) - E(x)^2 cancels. Means do not overflow in float16 where
    sums would. The correction replaces the divisor n by max(n - correction, 0).
    """
    mean = reduce("mean", x, dims, True)
    variance = reduce("mean", (x - mean).unary("square"), dims, keepdim)
    if not correction:
        return variance, mean
    number = count(x, dims)
    if isinstance(number, int):
        divisor = max(number - correction, 0)
        return variance * (number / divisor if divisor else math.inf), mean
    total = number.to(x.type)
    return variance * (total / (total - correction).maximum(0)), mean


def statistics(call: MilCall) -> tuple[Tensor, Tensor]:
    """Variance, or its square root, and mean."""
    x = as_wide_result(call)
    correction = 1.0
    if call.has("unbiased"):
        correction = float(call.boolean("unbiased"))
    elif call.has("correction"):
        correction = call.number("correction")
    dims, keepdim = reduced_dims(call, x), keeps(call)
    variance, mean = variance_and_mean(x, dims, keepdim, correction)
    if call.name.startswith("aten.std"):
        variance = variance.unary("sqrt")
    return variance, mean if keepdim else squeeze(mean, dims)


VARIANCES = ("", ".dim", ".correction")


@lowers(*(f"aten.{op}{each}" for op in ("var", "std") for each in VARIANCES))
def lower_variance(call: MilCall) -> Tensor:
    return statistics(call)[0]


@lowers(*(f"aten.{op}_mean{each}" for op in ("var", "std") for each in VARIANCES))
def lower_variance_and_mean(call: MilCall) -> list[Tensor]:
    return [*statistics(call)]


# --- extremes -------------------------------------------------------------------------


def extreme(x: Tensor, dims: Sequence[int], keepdim: bool, greatest: bool) -> Tensor:
    """
    The greatest or least elements.

    Core ML does not document what becomes of NaN; PyTorch returns NaN.
    """
    return reduce("max" if greatest else "min", as_number(x), dims, keepdim)


def is_greatest(call: MilCall) -> bool:
    return call.name.startswith(("aten.max", "aten.amax", "aten.argmax"))


@lowers("aten.amax", "aten.amin", "aten.max", "aten.min")
def lower_extreme(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return extreme(x, reduced_dims(call, x), keeps(call), is_greatest(call))


@lowers("aten.aminmax")
def lower_aminmax(call: MilCall) -> list[Tensor]:
    x = call.tensor("self")
    dims, keepdim = reduced_dims(call, x), keeps(call)
    return [extreme(x, dims, keepdim, greatest) for greatest in (False, True)]


def index_of_extreme(x: Tensor, dim: int, keepdim: bool, greatest: bool) -> Tensor:
    """
    The index of an extreme along `dim`; of the first one of several equal integers.

    Core ML's op returns any one of several equal elements. Floats that are equal
    extremes are rare, integers and booleans are not: for these, the greatest distance
    to the end is computed of elements that equal the extreme.
    """
    if not x.rank:
        return zero(x)
    shape = reduced_sizes(x.shape, [dim], keepdim)
    if x.is_float:
        name = "reduce_argmax" if greatest else "reduce_argmin"
        return x.emit(name, shape, i32, x=x, axis=dim, keep_dims=keepdim)
    x = as_number(x)
    found = x.equals(extreme(x, [dim], True, greatest)).to(i32)
    distance = found * positions(x, dim, from_end=True)
    last = reduce("max", distance, [dim], keepdim)
    size = size_of(x, dim)
    return size - last


def zero(x: Tensor) -> Tensor:
    """The only index into a tensor of rank 0."""
    return Tensor(x.build, x.build.constant(np.array(0, np.int32)), i32)


@lowers("aten.max.dim", "aten.min.dim")
def lower_extreme_along(call: MilCall) -> list[Tensor]:
    x = call.tensor("self")
    dim, keepdim, greatest = call.dim("dim", x.rank), keeps(call), is_greatest(call)
    return [
        extreme(x, reduced_dims(call, x), keepdim, greatest),
        index_of_extreme(x, dim, keepdim, greatest),
    ]


@lowers("aten.argmax", "aten.argmin")
def lower_index_of_extreme(call: MilCall) -> Tensor:
    x, greatest = call.tensor("self"), is_greatest(call)
    if call.has("dim"):
        return index_of_extreme(x, call.dim("dim", x.rank), keeps(call), greatest)
    index = index_of_extreme(flat(x), 0, False, greatest)
    return reshape(index, [1] * x.rank if keeps(call) else [])


def flat(x: Tensor) -> Tensor:
    """All elements in one dimension."""
    return x if x.rank < 2 else reshape(x, [count(x, range(x.rank))])


# --- norms ----------------------------------------------------------------------------


def norm(x: Tensor, order: float, dims: Sequence[int], keepdim: bool) -> Tensor:
    """The `order`-th root of the sum of |x|^order; of order 0, the number of x != 0."""
    if order == 0:
        return reduce("sum", x.differs(0).to(x.type), dims, keepdim)
    if not dims:
        return abs(x)
    if math.isinf(order):
        return extreme(abs(x), dims, keepdim, order > 0)
    if order in (1, 2):
        return reduce(f"l{int(order)}_norm", x, dims, keepdim)
    powers = abs(x).binary("pow", order)
    return reduce("sum", powers, dims, keepdim).binary("pow", 1 / order)


@lowers("aten.linalg_vector_norm", "aten.frobenius_norm.dim", "aten.norm.Scalar")
@lowers("aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype")
@lowers("aten.norm.ScalarOpt_dtype")
def lower_norm(call: MilCall) -> Tensor:
    x = as_wide_result(call)
    name = next((name for name in ("ord", "p") if call.has(name)), None)
    order = 2 if name is None else call.number(name)
    return norm(x, order, reduced_dims(call, x), keeps(call))


@lowers("aten.linalg_matrix_norm", "aten.linalg_matrix_norm.str_ord")
def lower_matrix_norm(call: MilCall) -> Tensor:
    x, keepdim = as_wide_result(call), keeps(call)
    dims, order = call.dims("dim", x.rank), call.constant("ord")
    if order == "fro":
        return norm(x, 2, dims, keepdim)
    if not isinstance(order, int | float) or abs(order) == 2:
        singular_values(order)
    added, compared = dims if abs(order) == 1 else reversed(dims)
    sums = reduce("l1_norm", x, [added], True)
    most = extreme(sums, [compared], True, order > 0)
    return most if keepdim else squeeze(most, dims)


@lowers("aten.nuclear_norm", "aten.nuclear_norm.dim")
def lower_nuclear_norm(call: MilCall) -> NoReturn:
    singular_values("nuc")


def singular_values(order: object) -> NoReturn:
    raise Obstacle(
        f"the norm of order {order!r} takes singular values, which Core ML cannot find",
        "use the Frobenius norm, or one of order 1 or inf",
    )


@lowers("aten.dist")
def lower_distance(call: MilCall) -> Tensor:
    type = wide(promoted(call))
    x = call.tensor("self").to(type) - call.tensor("other").to(type)
    order = call.number("p") if call.has("p") else 2
    return norm(x, order, range(x.rank), False)


@lowers("aten.cosine_similarity")
def lower_cosine_similarity(call: MilCall) -> Tensor:
    """Each step is rounded to the result type; `dim` is one of the broadcast shape."""
    type, eps = call.result_element_type(), call.number("eps")
    a, b = (call.tensor(name).to(type) for name in ("x1", "x2"))
    sizes = broadcast_sizes([a, b])
    rank = len(sizes)
    dims = [call.dim("dim", rank)] if rank else []

    def normalized(x: Tensor) -> Tensor:
        x = expand_dims(x, range(rank - x.rank))
        # The norm is computed after broadcasting: repeated elements count.
        x = broadcast_to(
            x, [sizes[d] if d in dims else x.shape[d] for d in range(rank)]
        )
        return x / norm(x.to(wide(type)), 2, dims, True).to(type).maximum(eps)

    products = normalized(a) * normalized(b)
    return reduce("sum", products.to(wide(type)), dims, False)
