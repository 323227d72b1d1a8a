"""Histograms: the number, or the weight, of the elements in each of several ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32

from padc.errors import Obstacle
from padc.passes.aten.formulas import evenly_spaced
from padc.passes.torch_to_mil.aten.indices import flattened
from padc.passes.torch_to_mil.aten.matrices import constant
from padc.passes.torch_to_mil.aten.mil_call import Made, MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    expand_dims,
    reshape,
)
from padc.passes.torch_to_mil.aten.parts import check_count, element, part
from padc.passes.torch_to_mil.aten.reductions import flat, reduce
from padc.passes.torch_to_mil.aten.searching import places
from padc.passes.torch_to_mil.aten.tensor import Tensor


def counted(index: Tensor, counts: Tensor, size: int) -> Tensor:
    """The sum of the counts at each of `size` positions."""
    none = constant(counts, np.zeros(size))
    return none.emit(
        "scatter", [size], data=none, indices=index, updates=counts, axis=0, mode="add"
    )


@lowers("aten.histc")
def lower_histogram(call: MilCall) -> Tensor:
    """
    The number of elements in each of `bins` ranges of equal length.

    The last range includes its upper end. Elements outside of [min, max] do not count,
    nor does NaN. If min equals max, the range is that of the data, extended by 1 at
    both ends if all elements are equal.
    """
    x, bins = flat(call.tensor("self")), call.integer("bins")
    x = x if x.rank else expand_dims(x, [0])
    low, high = bounds(call, x)
    inside = (x >= low) & (x <= high)
    position = (x - low) * bins / (high - low)
    index = inside.select(position, 0).to(i32).minimum(bins - 1)
    return counted(index, inside.to(x.type), bins)


def bounds(call: MilCall, x: Tensor) -> tuple[Tensor, Tensor]:
    low, high = call.number("min"), call.number("max")
    if low != high:
        return x.constant(low), x.constant(high)
    least, most = reduce("min", x, [0], False), reduce("max", x, [0], False)
    same = least.equals(most).to(x.type)
    return least - same, most + same


# --- with edges -----------------------------------------------------------------------


@lowers("aten.histogram.bin_ct", "aten.histogram.bins_tensor")
def lower_histogram_with_edges(call: MilCall) -> list[Tensor]:
    x = flattened(call.tensor("self"))
    if call.is_tensor("bins"):
        edges = call.tensor("bins")
    else:
        edges = bin_edges(call, x, call.integer("bins"), 0)
    return [histogram(call, [x], [edges]), edges]


@lowers("aten.histogramdd", "aten.histogramdd.int_bins")
@lowers("aten.histogramdd.TensorList_bins")
def lower_joint_histogram(call: MilCall) -> Sequence[Made]:
    """The joint histogram of the columns of `self`, each of which has its own edges."""
    columns, edges = columns_and_edges(call)
    return [histogram(call, columns, edges), edges]


@lowers("aten._histogramdd_bin_edges")
def lower_edges(call: MilCall) -> Sequence[Made]:
    return [columns_and_edges(call)[1]]


@lowers("aten._histogramdd_from_bin_cts", "aten._histogramdd_from_bin_tensors")
def lower_counts(call: MilCall) -> Tensor:
    return histogram(call, *columns_and_edges(call))


def columns_and_edges(call: MilCall) -> tuple[list[Tensor], list[Tensor]]:
    x = call.tensor("self")
    dim = x.rank - 1
    columns = [flattened(element(x, dim, i)) for i in range(x.shape[dim])]
    if call.name.endswith(("TensorList_bins", "from_bin_tensors")):
        return columns, call.tensors("bins")
    if call.name.endswith("int_bins"):
        counts = [call.integer("bins")] * len(columns)
    else:
        counts = call.integers("bins")
        if len(counts) != len(columns):
            raise Obstacle(
                f"{len(counts)} numbers of bins for {len(columns)} columns",
                "give one for each",
            )
    edges = [
        bin_edges(call, column, count, place)
        for place, (column, count) in enumerate(zip(columns, counts, strict=True))
    ]
    return columns, edges


def bin_edges(call: MilCall, x: Tensor, bins: int, place: int) -> Tensor:
    """
    The edges of `bins` ranges of equal length, from the least to the greatest element.

    If both are equal, they are moved apart to a distance of 1.
    """
    check_count(bins + 1)
    if not x.is_float:
        raise Obstacle("a histogram of integers", "convert them to floats")
    if call.has("range"):
        low, high = numbers(call, "range")[2 * place : 2 * place + 2]
        if low == high:
            low, high = low - 0.5, high + 0.5
        first, last = x.constant(low), x.constant(high)
    else:
        least, most = (reduce(name, x, [0], False) for name in ("min", "max"))
        apart = least.equals(most).to(x.type) * 0.5
        first, last = least - apart, most + apart
    i = Tensor(x.build, x.build.constant(np.arange(bins + 1, dtype=np.int32)), i32)
    step = (last - first) / bins
    return evenly_spaced(i, bins + 1, first, last, step, lambda n: n.to(x.type))


def numbers(call: MilCall, name: str) -> list[float]:
    """A list of known numbers."""
    values = call.constant(name)
    assert isinstance(values, list)
    return [float(x) for x in values if isinstance(x, int | float)]


def histogram(
    call: MilCall, columns: Sequence[Tensor], edges: Sequence[Tensor]
) -> Tensor:
    """
    The weight of the elements in each cell. The last cell includes its upper edge.

    With `density`, it is divided by the sum of all weights and by the cell's size.
    """
    shape = [each.shape[0] - 1 for each in edges]
    if min(shape, default=0) < 1:
        raise Obstacle("a dimension without bins", "give two edges or more")
    like = columns[0]
    inside, index = like.equals(like), None
    for x, limits, bins in zip(columns, edges, shape, strict=True):
        inside = inside & (x >= element(limits, 0, 0)) & (x <= element(limits, 0, bins))
        place = (places(x, limits, True) - 1).maximum(0).minimum(bins - 1)
        index = place if index is None else index * bins + place
    assert index is not None
    weight = inside.to(like.type)
    if call.has("weight"):
        weight = inside.select(flattened(call.tensor("weight").to(like.type)), 0)
    made = reshape(counted(index, weight, math.prod(shape)), list(shape))
    return divided(made, edges) if call.boolean("density") else made


def divided(x: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """A histogram, divided by its sum and by the size of each cell."""
    x = x / reduce("sum", x, list(range(x.rank)), False)
    for dim, limits in enumerate(edges):
        bins = limits.shape[0] - 1
        lengths = part(limits, 0, 1, None, 1, bins) - part(limits, 0, 0, -1, 1, bins)
        others = [d for d in range(x.rank) if d != dim]
        x = x / expand_dims(lengths, others)
    return x
