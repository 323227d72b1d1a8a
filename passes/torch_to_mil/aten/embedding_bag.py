"""Bags of embeddings: sums, means and maxima of rows of a table."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i32

from padc.errors import Obstacle
from padc.passes.torch_to_mil.aten.indices import count_true, gathered, index_of
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import Size, expand_dims, filled, positions
from padc.passes.torch_to_mil.aten.scattering import Mode, scattered
from padc.passes.torch_to_mil.aten.tensor import Tensor

SUM, MEAN, MAX = range(3)
"""PyTorch's numbers of the modes."""


@lowers("aten.embedding_bag", "aten.embedding_bag.padding_idx", "aten._embedding_bag")
@lowers("aten._embedding_bag_forward_only")
def lower_embedding_bag(call: MilCall) -> list[Tensor]:
    """An empty bag is 0. Rows at `padding_idx` do not count."""
    table, index = call.tensor("weight"), index_of(call, call.op.arg("indices"))
    mode, bags = call.integer("mode"), bag_of_each(call)
    (size,) = [call.result_shape()[0]]
    if DYNAMIC_INDEX in (size, *index.shape):
        raise Obstacle("a number of bags or indices that varies", "make it constant")
    rows = gathered(table, index, 0)
    counted = rows.constant(1)
    padding = padding_index(call, table)
    if padding is not None:
        is_counted = call.tensor("indices").differs(padding)
        counted = is_counted.to(rows.type)
        neutral = -math.inf if mode == MAX else 0
        rows = expand_dims(is_counted, [1]).select(rows, neutral)
    if call.has("per_sample_weights"):
        rows = rows * expand_dims(call.tensor("per_sample_weights"), [1])
    width = table.shape[1]
    if mode == SUM:
        return [joined(rows, bags, [size, width], 0, "add")]
    ones = filled(counted, [index.shape[0], 1]) if padding is None else counted
    ones = ones if padding is None else expand_dims(ones, [1])
    counts = joined(ones, bags, [size, 1], 0, "add")
    if mode == MEAN:
        sums = joined(rows, bags, [size, width], 0, "add")
        return [sums / counts.maximum(1)]
    largest = joined(rows, bags, [size, width], -math.inf, "max")
    return [counts.equals(0).select(largest.constant(0), largest)]


def joined(
    rows: Tensor, bags: Tensor, sizes: list[Size], start: float, mode: Mode
) -> Tensor:
    """The rows of each bag, joined with `start`."""
    return scattered(filled(rows.constant(start), sizes), bags, rows, 0, mode)


def bag_of_each(call: MilCall) -> Tensor:
    """The bag of each index: the last that begins before or there."""
    index, offsets = call.tensor("indices"), call.tensor("offsets")
    if (array := call.known_array(call.op.arg("offsets"))) is not None:
        place = np.arange(index.shape[0])
        bags = np.searchsorted(array, place, side="right") - 1
        return call.constant_tensor(bags, i32)
    place = expand_dims(positions(index, 0), [1])
    return count_true(place >= offsets) - 1


def padding_index(call: MilCall, table: Tensor) -> int | None:
    if not call.has("padding_idx"):
        return None
    index = call.integer("padding_idx")
    if not call.name.endswith(".padding_idx") and index < 0:
        return None
    return index % table.shape[0]
