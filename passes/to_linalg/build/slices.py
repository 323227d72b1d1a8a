"""Builders that take parts of a tensor, insert parts, concatenate and grow."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType
from xdsl.dialects.utils.dynamic_index_list import split_dynamic_index_list
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from padc.ir.tcp import Amount, tensor_type
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
    type_of,
)
from padc.passes.common.tensor_shapes import rank_of, same, squeeze


def part(
    build: LinalgBuilder,
    x: SSAValue,
    dim: int,
    start: Amount,
    size: Amount,
    step: Amount = 1,
) -> SSAValue:
    """The slice of `size` elements along `dim`, from `start` with stride `step`."""
    offsets: list[Amount] = [0] * rank_of(x)
    steps: list[Amount] = [1] * rank_of(x)
    sizes = build.sizes(x)
    if start == 0 and step == 1 and same(size, sizes[dim]):
        return x
    offsets[dim], sizes[dim], steps[dim] = start, size, step
    return build.slice(x, offsets, sizes, steps)


def selected(build: LinalgBuilder, x: SSAValue, dim: int, index: Amount) -> SSAValue:
    """The elements at `index` of dimension `dim`, without that dimension."""
    return squeeze(build, part(build, x, dim, index, 1), [dim])


def cut(
    build: LinalgBuilder, x: SSAValue, dim: int, sizes: Sequence[Amount]
) -> list[SSAValue]:
    """Consecutive slices of these sizes along `dim`."""
    parts: list[SSAValue] = []
    start: Amount = 0
    for size in sizes:
        parts.append(part(build, x, dim, start, size))
        start = build.add(start, size)
    return parts


def with_part(
    build: LinalgBuilder,
    x: SSAValue,
    rows: SSAValue,
    dim: int,
    start: Amount,
    step: Amount,
) -> SSAValue:
    """Insert `rows` into `x` along `dim`, from `start` with stride `step`."""
    offsets: list[Amount] = [0] * rank_of(x)
    steps: list[Amount] = [1] * rank_of(x)
    offsets[dim], steps[dim] = start, step
    return build.insert_slice(rows, x, offsets, build.sizes(rows), steps)


def concat(build: LinalgBuilder, parts: Sequence[SSAValue], dim: int) -> SSAValue:
    """Concatenate tensors along `dim`."""
    if len(parts) == 1:
        return parts[0]
    shapes = [tensor_type(x).get_shape() for x in parts]
    # Parts agree in other dimensions: a size is static if it is so in any of them.
    shape = [max(known) for known in zip(*shapes, strict=True)]
    sizes = [each[dim] for each in shapes]
    shape[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
    type = TensorType(element_type(parts[0]), shape)
    return build.insert(tensor.ConcatOp(parts, dim, type))


def position(build: LinalgBuilder, index: Amount, size: Amount) -> Amount:
    """
    The position of an element, where a negative index counts from the end.

    A computed index is clamped to the dimension, as indices in tensors are; it is 0 if
    the dimension is empty.
    """
    place = from_start(build, index, size)
    if isinstance(index, int):
        return place
    return build.maximum(build.minimum(place, build.sub(size, 1)), 0)


def from_start(build: LinalgBuilder, index: Amount, size: Amount) -> Amount:
    """An index as PyTorch takes it, which counts from the end if it is negative."""
    if isinstance(index, int):
        return index if index >= 0 else build.add(size, index)
    is_negative = build.insert(arith.CmpiOp(index, build.index(0), "slt"))
    from_end = build.index(build.add(index, size))
    return build.insert(arith.SelectOp(is_negative, from_end, index))


def bounded(build: LinalgBuilder, index: Amount, size: Amount) -> Amount:
    """The start or end of a Python slice, from 0 to `size`."""
    if isinstance(index, int) and index == 0:
        return 0
    index = from_start(build, index, size)
    if not (isinstance(index, int) and index >= 0):
        index = build.maximum(index, 0)
    return build.minimum(index, size)


def grow(
    build: LinalgBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
) -> SSAValue:
    """`x` and the fill around it."""
    if all(amount == 0 for amount in (*lower, *upper)):
        return x
    sizes = build.padded(lower, build.sizes(x), upper)
    if 0 in tensor_type(x).get_shape():
        return build.filled(sizes, fill)
    block = Block(arg_types=[IndexType()] * len(lower))
    Builder(InsertPoint.at_end(block)).insert(tensor.YieldOp(fill))
    static_lower, dynamic_lower = split_dynamic_index_list(lower, DYNAMIC_INDEX)
    static_upper, dynamic_upper = split_dynamic_index_list(upper, DYNAMIC_INDEX)
    return build.insert(
        tensor.PadOp(
            x,
            dynamic_lower,
            dynamic_upper,
            Region(block),
            static_lower,
            static_upper,
            type_of(sizes, element_type(x)),
        )
    )
