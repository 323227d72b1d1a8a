"""ATen ops that read or replace a regular part of a tensor."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i1

from padc.ir import mil
from padc.passes.aten.operand_checks import check_dim, check_index, check_source
from padc.passes.torch_to_mil.aten.indices import gathered, wrapped
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_to,
    concat,
    expand_dims,
    filled,
    reshape,
    size_of,
    sizes_of,
    transpose,
)
from padc.passes.torch_to_mil.aten.parts import (
    array,
    check_count,
    element,
    inner_bounds,
    part,
    slice_inputs,
    steps,
)
from padc.passes.torch_to_mil.aten.scattering import scattered
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number


def bounds(call: MilCall) -> tuple[Size, Size | None, int]:
    """The start, the end if there is one, and the step of a slice."""
    start = call.size("start") if call.has("start") else 0
    end = call.size("end") if call.has("end") else None
    return start, end, call.integer("step")


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def lower_slice(call: MilCall) -> Tensor:
    x = call.tensor("self")
    dim = call.dim("dim", x.rank)
    return part(x, dim, *bounds(call), call.result_shape()[dim])


@lowers("aten.narrow", "aten.narrow_copy")
def lower_narrow(call: MilCall) -> Tensor:
    x, start, length = call.tensor("self"), call.size("start"), call.size("length")
    dim = call.dim("dim", x.rank)
    start = from_start(x, dim, start)
    return part(x, dim, start, plus(start, length), 1, call.result_shape()[dim])


def plus(a: Size, b: Size) -> Size:
    return a + b


def from_start(x: Tensor, dim: int, index: Size) -> Size:
    """A position along `dim`, where one below 0 counts from the end."""
    if isinstance(index, int) and index >= 0:
        return index
    size = size_of(x, dim)
    return index + size if isinstance(index, int) else wrapped(index, size)


@lowers("aten.select.int", "aten.select_copy.int")
def lower_select(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return element(x, call.dim("dim", x.rank), call.size("index"))


# --- replacing a part -----------------------------------------------------------------


@lowers("aten.slice_scatter")
def lower_slice_scatter(call: MilCall) -> Tensor:
    x = call.tensor("self")
    check_dim(call.integer("dim"), x.rank)
    dim = call.dim("dim", x.rank)
    start, end, step = bounds(call)
    shape = [*x.shape]
    shape[dim] = count_of(shape[dim], start, end, step)
    check_source(call.shape("src"), shape)
    if call.is_empty("src"):
        return x
    source = call.tensor("src").to(call.result_element_type())
    return with_part(x, source, dim, start, end, step)


def count_of(size: int, start: Size, end: Size | None, step: int) -> int:
    """The number of elements of a slice, or DYNAMIC_INDEX."""
    known = isinstance(start, int) and isinstance(end, int | None)
    if not known or size == DYNAMIC_INDEX:
        return DYNAMIC_INDEX
    return len(range(*slice(start, end, step).indices(size)))


@lowers("aten.select_scatter")
def lower_select_scatter(call: MilCall) -> Tensor:
    x, index, source = call.tensor("self"), call.size("index"), call.tensor("src")
    check_dim(call.integer("dim"), x.rank)
    dim, shape = call.dim("dim", x.rank), [*x.shape]
    check_index(index, shape.pop(dim))
    check_source(source.shape, shape)
    source = expand_dims(source.to(call.result_element_type()), [dim])
    start = from_start(x, dim, index)
    return with_part(x, source, dim, start, plus(start, 1), 1)


def with_part(
    x: Tensor, source: Tensor, dim: int, start: Size, stop: Size | None, step: int
) -> Tensor:
    """`x`, where `source` replaces `x[start:stop:step]` along `dim`."""
    size = x.shape[dim]
    if step == 1 and 0 <= size == source.shape[dim]:
        return source
    if mil.OPS["slice_update"].form(x.build.target) is not None:
        return updated(x, source, dim, start, stop, step)
    if all(isinstance(bound, int | None) for bound in (start, stop)) and size >= 0:
        first, last, _ = slice(start, stop).indices(size)
        count = source.shape[dim]
        if step == 1:
            return spliced(x, source, dim, first, count)
        last = first + step * count
        return replaced(x, source, dim, steps(x, first, last, step))
    first = inside(x, dim, start)
    last = size_of(x, dim) if stop is None else inside(x, dim, stop)
    indices = steps(x, first, last, step, source.shape[dim])
    return replaced(x, source, dim, indices)


def updated(
    x: Tensor, source: Tensor, dim: int, start: Size, stop: Size | None, step: int
) -> Tensor:
    """`with_part` by Core ML's own op."""
    inputs = slice_inputs(x, dim, *inner_bounds(x, dim, start, stop), step)
    return x.emit("slice_update", x.shape, x=x, update=source, **inputs)


def spliced(x: Tensor, source: Tensor, dim: int, start: int, count: int) -> Tensor:
    """`cat([x[:start], source, x[start + count:]])`, without empty parts."""
    rest = x.shape[dim] - start - count
    parts = [source]
    if start:
        parts.insert(0, part(x, dim, 0, start, 1, start))
    if rest:
        parts.append(part(x, dim, start + count, None, 1, rest))
    return concat(parts, dim)


def replaced(x: Tensor, source: Tensor, dim: int, indices: Tensor) -> Tensor:
    """`x`, where `source` replaces the elements at `indices` along `dim`."""
    written = scattered(as_number(x), indices, as_number(source), dim, "update")
    return written.to(x.type)


def inside(x: Tensor, dim: int, position: Size) -> Size:
    """A bound of a slice, counted from the start, and moved inside of `x`."""
    if isinstance(position, int) and position == 0:
        return 0
    size = size_of(x, dim)
    if isinstance(position, int) and isinstance(size, int):
        return slice(position, None).indices(size)[0]
    if isinstance(position, int) and position < 0:
        assert isinstance(size, Tensor)
        return (size + max(position, -(2**31))).maximum(0)
    if isinstance(position, int):
        assert isinstance(size, Tensor)
        return size.minimum(min(position, 2**31 - 1))
    return wrapped(position, size).maximum(0).minimum(size)


# --- diagonals and triangles ----------------------------------------------------------


@lowers("aten.diagonal", "aten.diagonal_copy", "aten.linalg_diagonal")
def lower_diagonal(call: MilCall) -> Tensor:
    first = call.op.schema.arguments[0].name
    x = call.tensor(first)
    dims = call.dim("dim1", x.rank), call.dim("dim2", x.rank)
    return diagonal(x, call.integer("offset"), *dims, call.result_shape()[-1])


def diagonal(x: Tensor, offset: int, row: int, column: int, count: int) -> Tensor:
    """A diagonal of the matrices along two dimensions, as the last dimension."""
    x = transpose(
        x, [*(d for d in range(x.rank) if d not in (row, column)), row, column]
    )
    width = size_of(x, x.rank - 1)
    flat = reshape(x, [*sizes_of(x)[:-2], -1])
    indices = diagonal_indices(x, offset, width, count)
    if isinstance(indices, range):
        stop = indices[-1] + 1
        return part(flat, flat.rank - 1, indices.start, stop, indices.step, count)
    return gathered(flat, indices, flat.rank - 1)


def diagonal_indices(x: Tensor, offset: int, width: Size, count: int) -> range | Tensor:
    """The steps of a diagonal in a flattened matrix."""
    if isinstance(width, int) and count >= 0:
        start = max(offset, -offset * width)
        return range(start, start + count * (width + 1), width + 1)
    height = size_of(x, x.rank - 2)
    start = offset if offset >= 0 else width * -offset
    rows, columns = height + min(offset, 0), width - max(offset, 0)
    if isinstance(rows, int):
        rows, columns = columns, rows
    if isinstance(rows, Tensor):
        rows = rows.minimum(columns)
    return steps(x, start, start + rows * (width + 1), width + 1, count)


def outline(x: Tensor, rows: Size, columns: Size, keep: str, diagonal: Size) -> Tensor:
    """
    A matrix of booleans: true on the given side of a diagonal, or on it.

    `keep` is "le", "ge" or "eq", and compares columns - rows with `diagonal`.
    """
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(diagonal, int):
        check_count(rows * columns)
        distance = np.arange(columns) - np.arange(rows)[:, None]
        compare = {"eq": np.equal, "ge": np.greater_equal, "le": np.less_equal}[keep]
        mask = compare(distance, diagonal)
        return Tensor(x.build, x.build.constant(np.asarray(mask)), i1)
    row = steps(x, 0, rows, 1, rows if isinstance(rows, int) else DYNAMIC_INDEX)
    column = steps(
        x, 0, columns, 1, columns if isinstance(columns, int) else DYNAMIC_INDEX
    )
    distance = expand_dims(column, [0]) - expand_dims(row, [1])
    return distance.compare(diagonal, keep)


@lowers("aten.tril", "aten.triu")
def lower_triangle(call: MilCall) -> Tensor:
    """Selected, not multiplied: elements outside may be infinite."""
    x, limit = call.tensor("self"), call.size("diagonal")
    is_lower = call.name == "aten.tril"
    if (
        not x.is_float
        and isinstance(limit, int)
        and (limit >= 0 if is_lower else limit <= 0)
    ):
        bound = {"upper": limit} if is_lower else {"lower": -limit}
        return x.emit("band_part", x.shape, x=x, **bound)
    sizes = size_of(x, x.rank - 2), size_of(x, x.rank - 1)
    mask = outline(x, *sizes, "le" if is_lower else "ge", limit)
    if (known := array(x)) is not None and (kept := array(mask)) is not None:
        return x.like(x.build.constant(np.where(kept, known, known.dtype.type(0))))
    return mask.select(x, 0)


@lowers("aten.diag")
def lower_diag(call: MilCall) -> Tensor:
    x, offset = call.tensor("self"), call.integer("diagonal")
    if x.rank == 1:
        return embedded(x, offset)
    return diagonal(x, offset, 0, 1, call.result_shape()[0])


@lowers("aten.diagflat")
def lower_diagflat(call: MilCall) -> Tensor:
    return embedded(reshape(call.tensor("self"), [-1]), call.integer("offset"))


@lowers("aten.diag_embed")
def lower_diag_embed(call: MilCall) -> Tensor:
    x = embedded(call.tensor("self"), call.integer("offset"))
    first, second = (call.dim(name, x.rank) for name in ("dim1", "dim2"))
    rest = iter(range(x.rank - 2))
    last = {first: x.rank - 2, second: x.rank - 1}
    return transpose(x, [last[d] if d in last else next(rest) for d in range(x.rank)])


def embedded(x: Tensor, offset: int) -> Tensor:
    """Matrices whose diagonals are the rows of `x`, and zero elsewhere."""
    if offset:
        *batch, _ = sizes_of(x)
        zeros = filled(x.constant(0), [*batch, abs(offset)])
        x = concat([x, zeros] if offset > 0 else [zeros, x], x.rank - 1)
    size = size_of(x, x.rank - 1)
    mask = outline(x, size, size, "eq", offset)
    rows = broadcast_to(expand_dims(x, [x.rank]), [*sizes_of(x), size])
    return mask.select(rows, 0)


@lowers("aten.diagonal_scatter")
def lower_diagonal_scatter(call: MilCall) -> Tensor:
    x, offset = call.tensor("self"), call.integer("offset")
    if call.is_empty("src"):
        return x
    source = call.tensor("src").to(call.result_element_type())
    dims = call.dim("dim1", x.rank), call.dim("dim2", x.rank)
    order = [*(d for d in range(x.rank) if d not in dims), *dims]
    moved = transpose(x, order)
    flat = reshape(moved, [*sizes_of(moved)[:-2], -1])
    width, count = size_of(moved, x.rank - 1), source.shape[-1]
    indices = diagonal_indices(moved, offset, width, count)
    if isinstance(indices, range):
        indices = steps(x, indices.start, indices.stop, indices.step)
    made = reshape(replaced(flat, source, flat.rank - 1, indices), sizes_of(moved))
    return transpose(made, [order.index(d) for d in range(x.rank)])


# --- windows --------------------------------------------------------------------------


@lowers("aten.unfold", "aten.unfold_copy")
def lower_unfold(call: MilCall) -> Tensor:
    """Windows along a dimension; the new last dimension runs along each window."""
    x, size, step = call.tensor("self"), call.integer("size"), call.integer("step")
    if not x.rank:
        return expand_dims(x, [0])
    dim, type = call.dim("dimension", x.rank), x.type
    x = x.in_int32() if type == i1 else x
    *shape, last = call.result_shape()
    shape.insert(dim + 1, last)
    # A step beyond the end is never taken.
    step = min(step, x.shape[dim]) if x.shape[dim] >= 0 else step
    x = x.emit("sliding_windows", shape, x=x, axis=dim, size=size, stride=step).to(type)
    return transpose(x, [*(d for d in range(x.rank) if d != dim + 1), dim + 1])
