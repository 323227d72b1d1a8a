"""
Indices: constant or computed positions of elements of a tensor.

Core ML's gathers and scatters take positions from 0 on: from iOS17 a negative one is
out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, overload

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    Signedness,
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir import mil, mil_types
from padc.ir.tcp import tensor_type
from padc.ir.torch import VTensorType
from padc.ir.weights import Array
from padc.passes.aten.operand_checks import check_dim
from padc.passes.common.broadcast import broadcast
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.torch_to_mil.aten.mil_call import MilCall
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_to,
    product,
    reshape,
    size_of,
    sizes_of,
    static,
    transpose,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number

Index: TypeAlias = "Tensor | Array"
"""Computed positions, a tensor of int32, or constant ones, an array of int32."""

MASK = (
    "a mask that is computed, on which the size of the result depends",
    "use torch.where(mask, a, b)",
)


def index_of(call: MilCall, x: SSAValue) -> Index:
    """A tensor of positions as an Index."""
    array = call.known_array(x)
    return call.as_tensor(x) if array is None else array.astype(np.int32)


@overload
def wrapped(index: Tensor, size: Size) -> Tensor: ...
@overload
def wrapped(index: Index, size: Size) -> Index: ...
def wrapped(index: Index, size: Size) -> Index:
    """Positions of a dimension of `size` elements; negative ones count from its end."""
    if isinstance(index, Tensor):
        if is_natural(index.ssa):
            return index
        return (index < 0).select(index + size, index)
    if isinstance(size, int):
        check_range(index, -size, size)
        return np.where(index < 0, index + size, index).astype(np.int32)
    if not index.size or index.min() >= 0:
        return index
    from_end = np.where(index < 0, 1, 0).astype(np.int32)
    return as_tensor(size.build, from_end) * size + as_tensor(size.build, index)


def check_range(index: Array, low: int, high: int) -> None:
    outside = index[(index < low) | (index >= high)]
    if outside.size:
        raise Obstacle(
            f"the index {outside.flat[0]}, out of range for {high} elements",
            "PyTorch refuses it too",
        )


def as_tensor(build: MilBuilder, index: Index) -> Tensor:
    """Positions as a tensor."""
    if isinstance(index, Tensor):
        return index
    return Tensor(build, build.constant(index.astype(np.int32)), i32)


def flat(index: Index) -> Index:
    """Positions as a vector."""
    return flattened(index) if isinstance(index, Tensor) else index.reshape(-1)


# --- elements of a tensor -------------------------------------------------------------


def gathered(x: Tensor, index: Index, axis: int) -> Tensor:
    """The parts of `x` along `axis` at each position of `index`."""
    shape = [*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]]
    given = as_number(x)
    return given.emit("gather", shape, x=given, indices=index, axis=axis).to(x.type)


def gathered_along(x: Tensor, index: Index, axis: int) -> Tensor:
    """One element of `x` along `axis` for each position; other sizes are equal."""
    return x.emit("gather_along_axis", index.shape, x=x, indices=index, axis=axis)


def flattened(x: Tensor) -> Tensor:
    """The elements of `x` as a vector."""
    return x if x.rank == 1 else reshape(x, [product(sizes_of(x))])


def count_true(x: Tensor) -> Tensor:
    """The number of elements along the last dimension that are true."""
    dim = x.rank - 1
    x = x.to(i32)
    return x.emit("reduce_sum", x.shape[:-1], x=x, axes=[dim], keep_dims=False)


# --- several dimensions ---------------------------------------------------------------


def given_indices(call: MilCall, x: Tensor, *, wrap: bool = True) -> dict[int, Index]:
    """
    The tensors in `indices`, by the dimension of `x` that they index.

    A constant mask is the positions of its true elements. Positions count from 0.
    """
    result: dict[int, Index] = {}
    dim = 0
    for value in call.elements("indices"):
        if not isinstance(value.type, VTensorType):
            dim += 1
            continue
        positions = [index_of(call, value)]
        if is_mask(value):
            if (mask := call.known_array(value)) is None:
                raise Obstacle(*MASK)
            check_mask(mask, x, dim)
            positions = [each.astype(np.int32) for each in np.nonzero(mask)]
        for index in positions:
            check_dim(dim, x.rank)
            result[dim] = wrapped(index, size_of(x, dim)) if wrap else index
            dim += 1
    return result


def is_mask(value: SSAValue) -> bool:
    """Whether an index is a tensor of booleans, or of bytes, which count as such."""
    byte = IntegerType(8, Signedness.UNSIGNED)
    return isinstance(value.type, VTensorType) and value.type.element_type in (i1, byte)


def check_mask(mask: Array, x: Tensor, dim: int) -> None:
    known = zip(x.shape[dim : dim + mask.ndim], mask.shape)
    if not mask.ndim or any(a not in (b, DYNAMIC_INDEX) for a, b in known):
        raise Obstacle(
            f"a mask of shape {list(mask.shape)} at dimension {dim} of {list(x.shape)}",
            "give a mask with the sizes of the dimensions that it indexes",
        )


@dataclass(frozen=True)
class Indexed:
    """
    A tensor, some of whose adjacent dimensions are indexed.

    `x` is the tensor with these dimensions moved together, by `perm`. They begin at
    `first`. The shapes of the indices broadcast to `sizes`.
    """

    x: Tensor
    perm: Sequence[int]
    first: int
    indices: Sequence[Index]
    sizes: Sequence[Size]

    @staticmethod
    def of(x: Tensor, given: Mapping[int, Index]) -> Indexed:
        """`x` with indices by dimension; unless adjacent, these move to the front."""
        if not (dims := sorted(given)):
            raise Obstacle("an index without tensors", "give one at least")
        first = dims[0] if dims[-1] - dims[0] < len(dims) else 0
        others = [dim for dim in range(x.rank) if dim not in given]
        perm = [*others[:first], *dims, *others[first:]]
        indices = [given[dim] for dim in dims]
        return Indexed(transpose(x, perm), perm, first, indices, common_sizes(indices))

    @property
    def last(self) -> int:
        """The dimension after those that are indexed."""
        return self.first + len(self.indices)

    @property
    def rest(self) -> tuple[list[Size], list[Size]]:
        """The sizes before and after the dimensions that are indexed."""
        sizes = sizes_of(self.x)
        return sizes[: self.first], sizes[self.last :]

    @property
    def result_sizes(self) -> list[Size]:
        """The sizes of the selected elements."""
        before, after = self.rest
        return [*before, *self.sizes, *after]

    @property
    def is_grid(self) -> bool:
        """Whether each index varies along a dimension of its own, in their order."""
        count = len(self.indices)
        return len(self.sizes) == count and all(
            varies_along(index.shape, dim, count)
            for dim, index in enumerate(self.indices)
        )

    @property
    def is_leading(self) -> bool:
        """Whether the first dimensions are indexed, and indices can be stacked."""
        return self.first == 0 and (
            len(self.sizes) < mil.MAX_RANK
            or not any(isinstance(index, Tensor) for index in self.indices)
        )

    def stacked(self) -> Index:
        """The positions along each dimension, side by side in a last dimension."""
        if arrays := known_arrays(self.indices):
            return np.stack(np.broadcast_arrays(*arrays), -1)
        build = self.x.build
        parts = [
            broadcast_to(as_tensor(build, index), self.sizes) for index in self.indices
        ]
        shape = [*static(self.sizes), len(parts)]
        return parts[0].emit("stack", shape, values=parts, axis=len(self.sizes))

    def linear(self) -> Index:
        """The positions in the indexed dimensions as one."""
        result: Index = self.indices[0]
        for dim, index in enumerate(self.indices[1:], self.first + 1):
            size = size_of(self.x, dim)
            if isinstance(size, int) and (arrays := known_arrays([result, index])):
                result = (arrays[0] * size + arrays[1]).astype(np.int32)
            else:
                build = self.x.build
                result = as_tensor(build, result) * size + as_tensor(build, index)
        return result

    def joined(self) -> Tensor:
        """`x` with the indexed dimensions as one."""
        if len(self.indices) == 1:
            return self.x
        before, after = self.rest
        sizes = sizes_of(self.x)[self.first : self.last]
        return reshape(self.x, [*before, product(sizes), *after])


def varies_along(shape: Sequence[int], dim: int, rank: int) -> bool:
    """Whether all sizes are 1, except that of dimension `dim` of `rank`."""
    before = rank - len(shape)
    return all(size == 1 or before + d == dim for d, size in enumerate(shape))


def known_arrays(indices: Sequence[Index]) -> list[Array]:
    """The indices as arrays; empty unless all are constant."""
    arrays = [index for index in indices if not isinstance(index, Tensor)]
    return arrays if len(arrays) == len(indices) else []


def common_sizes(indices: Sequence[Index]) -> list[Size]:
    """The sizes to which the indices broadcast."""
    shape: list[int] = []
    for index in indices:
        shape = broadcast(shape, index.shape)
    sizes: list[Size] = list(shape)
    for dim, size in enumerate(shape):
        if size != DYNAMIC_INDEX:
            continue
        for index in indices:
            own = dim - len(shape) + len(index.shape)
            if own >= 0 and index.shape[own] == DYNAMIC_INDEX:
                assert isinstance(index, Tensor)
                sizes[dim] = size_of(index, own)
                break
    return sizes


# --- what is never negative -----------------------------------------------------------

NATURAL = "argsort non_zero one_hot reduce_argmax reduce_argmin shape".split()
"""Ops whose result, an integer, is never negative."""

OPERANDS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("add", "floor_div", "minimum", "mul"), ("x", "y")),
    **dict.fromkeys(("concat", "stack"), ("values",)),
    **dict.fromkeys(("cast", "cumsum", "reduce_max", "reduce_min"), ("x",)),
    **dict.fromkeys(("reduce_sum", "reverse", "slice_by_index", "tile"), ("x",)),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "transpose"), ("x",)),
    **dict.fromkeys(("gather", "gather_along_axis", "gather_nd"), ("x",)),
    "mod": ("y",),
    "range_1d": ("start", "step"),
    "select": ("a", "b"),
    "slice_by_size": ("x",),
}
"""Ops whose result is not negative if these inputs are not."""


def is_natural(value: SSAValue, depth: int = 20) -> bool:
    """Whether no element of a tensor of int32 is negative, as far as its ops tell."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return is_natural_constant(owner.value)
    if depth == 0 or not isinstance(owner, mil.MilOp):
        return False
    name = owner.name.removeprefix("mil.")
    if name in NATURAL or (name == "topk" and value is owner.outputs[1]):
        return True
    if name == "cast" and tensor_type(owner.arguments[0]).element_type == i1:
        return True
    natural = {
        input: all(is_natural(each, depth - 1) for each in values)
        for input, values in owner.ssa_inputs().items()
    }
    for input, attribute in owner.constants.data.items():
        natural[input] = is_natural_constant(attribute)
    if name == "maximum":
        return natural["x"] or natural["y"]
    operands = OPERANDS.get(name, ())
    return bool(operands) and all(natural[input] for input in operands)


def is_natural_constant(attribute: Attribute) -> bool:
    constant: object = mil_types.constant_of(attribute)
    if isinstance(constant, np.ndarray | np.generic | int):
        return bool(np.all(np.asarray(constant) >= 0))
    return False
