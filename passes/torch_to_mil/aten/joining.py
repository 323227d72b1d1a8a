"""ATen ops that concatenate tensors, or split one into parts."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.ir.arithmetic import ceil_div
from padc.ir.torch import VTensorType
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_sizes,
    broadcast_to,
    concat,
    expand_dims,
    filled,
    reshape,
    size_of,
    sizes_of,
)
from padc.passes.torch_to_mil.aten.parts import cut, element, part, stack
from padc.passes.torch_to_mil.aten.tensor import Tensor


def tensors_of(call: MilCall, name: str = "tensors") -> list[Tensor]:
    """The tensors of a list that have elements, in the type of the result."""
    type = call.result_element_type()
    return [
        call.as_tensor(x).to(type)
        for x in call.elements(name)
        if isinstance(x.type, VTensorType) and 0 not in x.type.get_shape()
    ]


@lowers("aten.cat", "aten.concat", "aten.concatenate")
def lower_cat(call: MilCall) -> Tensor:
    """Empty tensors are left out, whatever rank they have."""
    rank = len(call.result_shape())
    return concat(tensors_of(call), call.dim("dim", rank))


@lowers("aten.stack")
def lower_stack(call: MilCall) -> Tensor:
    return stack(tensors_of(call), call.dim("dim", len(call.result_shape())))


@lowers("aten.hstack", "aten.vstack", "aten.row_stack", "aten.dstack")
@lowers("aten.column_stack")
def lower_stack_along(call: MilCall) -> Tensor:
    """Tensors get the rank that the dimension asks for, then they are joined there."""
    name = call.name.removeprefix("aten.")
    parts = [raised(x, name) for x in tensors_of(call)]
    dims = {"column_stack": 1, "dstack": 2, "hstack": min(1, parts[0].rank - 1)}
    return concat(parts, dims.get(name, 0))


def raised(x: Tensor, name: str) -> Tensor:
    """`x` with the dimensions that a stack adds to a number, vector or matrix."""
    added = {
        "column_stack": {0: [0, 1], 1: [1]},
        "dstack": {0: [0, 1, 2], 1: [0, 2], 2: [2]},
        "hstack": {0: [0]},
        "row_stack": {0: [0, 1], 1: [0]},
        "vstack": {0: [0, 1], 1: [0]},
    }
    return expand_dims(x, added[name].get(x.rank, []))


@lowers("aten.block_diag")
def lower_block_diag(call: MilCall) -> Tensor:
    """Each block has zeros on its left and right; a vector is a row."""
    blocks = [reshape(x, [*[1] * (2 - x.rank), *sizes_of(x)]) for x in tensors_of(call)]
    rows: list[Tensor] = []
    for index, block in enumerate(blocks):
        zeros = [
            filled(block.constant(0), [size_of(block, 0), size_of(other, 1)])
            for other in blocks
        ]
        zeros[index] = block
        rows.append(concat(zeros, 1))
    return concat(rows, 0)


@lowers("aten.meshgrid.indexing", "aten.meshgrid")
def lower_meshgrid(call: MilCall) -> list[list[Tensor]]:
    """With "xy", the first two dimensions are exchanged."""
    given = [reshape(x, [-1]) for x in call.tensors("tensors")]
    order = list(range(len(given)))
    if call.has("indexing") and call.constant("indexing") == "xy":
        order[:2] = reversed(order[:2])
    sizes = [size_of(given[order.index(dim)], 0) for dim in range(len(given))]
    return [
        [
            broadcast_to(
                expand_dims(x, [d for d in range(len(given)) if d != dim]), sizes
            )
            for x, dim in zip(given, order, strict=True)
        ]
    ]


@lowers("aten.broadcast_tensors")
def lower_broadcast_tensors(call: MilCall) -> list[list[Tensor]]:
    given = call.tensors("tensors")
    sizes = broadcast_sizes(given)
    return [[broadcast_to(x, sizes) for x in given]]


# --- splitting ------------------------------------------------------------------------


def counts_along(call: MilCall, dim: int) -> list[int]:
    """The sizes along `dim` of the parts that an op returns."""
    return [type.get_shape()[dim] for type in call.parts()]


def split_at(
    call: MilCall, x: Tensor, dim: int, bounds: Sequence[Size]
) -> list[list[Tensor]]:
    """The parts of `x` between `bounds`, and before the first and after the last."""
    counts = counts_along(call, dim)
    if not counts:
        return [[]]  # Nothing uses the parts.
    if DYNAMIC_INDEX not in counts and x.shape[dim] == sum(counts):
        return [cut(x, dim, counts)]
    ends = [*bounds[: len(counts) - 1], None]
    starts = [0, *bounds[: len(counts) - 1]]
    parts = zip(starts, ends, counts, strict=True)
    return [[part(x, dim, start, end, 1, count) for start, end, count in parts]]


@lowers("aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_copy.Tensor")
def lower_split(call: MilCall) -> list[list[Tensor]]:
    """Parts of one size; the last one may be smaller."""
    x, size = call.tensor("self"), call.size("split_size")
    dim = call.dim("dim", x.rank)
    parts = len(counts_along(call, dim))
    return split_at(call, x, dim, [size * i for i in range(1, parts)])


@lowers("aten.chunk", "aten.unsafe_chunk")
def lower_chunk(call: MilCall) -> list[list[Tensor]]:
    x, chunks = call.tensor("self"), call.integer("chunks")
    dim = call.dim("dim", x.rank)
    size, parts = size_of(x, dim), len(counts_along(call, dim))
    if isinstance(size, int):
        each: Size = ceil_div(size, chunks)
    else:
        each = (size + (chunks - 1)).binary("floor_div", chunks)
    return split_at(call, x, dim, [each * i for i in range(1, parts)])


@lowers("aten.split_with_sizes", "aten.split.sizes", "aten.unsafe_split_with_sizes")
@lowers("aten.split_with_sizes_copy")
def lower_split_with_sizes(call: MilCall) -> list[list[Tensor]]:
    x, sizes = call.tensor("self"), call.sizes(call.op.schema.arguments[1].name)
    bounds: list[Size] = []
    for size in sizes[:-1]:
        bounds.append(bounds[-1] + size if bounds else size)
    return split_at(call, x, call.dim("dim", x.rank), bounds)


@lowers("aten.tensor_split.sections")
def lower_tensor_split(call: MilCall) -> list[list[Tensor]]:
    """The first `size % sections` parts have one element more than the others."""
    x, sections = call.tensor("self"), call.integer("sections")
    return split_evenly(call, x, call.dim("dim", x.rank), sections)


def split_evenly(
    call: MilCall, x: Tensor, dim: int, sections: int
) -> list[list[Tensor]]:
    size, parts = size_of(x, dim), range(1, call.count_parts(sections))
    if isinstance(size, int):
        bounds: list[Size] = [
            i * (size // sections) + min(i, size % sections) for i in parts
        ]
    else:
        each, rest = size.binary("floor_div", sections), size.binary("mod", sections)
        bounds = [each * i + rest.minimum(i) for i in parts]
    return split_at(call, x, dim, bounds)


@lowers("aten.tensor_split.indices")
def lower_tensor_split_indices(call: MilCall) -> list[list[Tensor]]:
    """Indices are bounds of slices: parts may overlap, or leave elements out."""
    x, bounds = call.tensor("self"), call.sizes("indices")
    dim = call.dim("dim", x.rank)
    counts = counts_along(call, dim)
    ranges = zip([0, *bounds], [*bounds, None], counts, strict=True)
    return [[part(x, dim, start, end, 1, count) for start, end, count in ranges]]


@lowers("aten.hsplit.int", "aten.vsplit.int", "aten.dsplit.int")
def lower_split_of(call: MilCall) -> list[list[Tensor]]:
    x = call.tensor("self")
    dim = {"hsplit": min(1, x.rank - 1), "vsplit": 0, "dsplit": 2}[call.name[5:11]]
    return split_evenly(call, x, dim, call.integer("sections"))


@lowers("aten.unbind.int", "aten.unbind_copy.int")
def lower_unbind(call: MilCall) -> list[list[Tensor]]:
    x = call.tensor("self")
    dim = call.dim("dim", x.rank)
    return [[element(x, dim, index) for index in range(len(call.parts()))]]
