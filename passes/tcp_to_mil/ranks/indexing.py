"""Tensors indexed by tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.tcp import tensor_type
from padc.ir.torch import NoneType
from padc.passes.aten.builder import Argument, Integer
from padc.passes.aten.refusals import SIZES
from padc.passes.tcp_to_mil.ranks.along import axes_of
from padc.passes.tcp_to_mil.ranks.carrier import Carrier, shape_of
from padc.passes.tcp_to_mil.ranks.elementwise import broadcast
from padc.passes.tcp_to_mil.ranks.grouping import Groups, apart, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import RankCall, product_in_type, rewrites
from padc.passes.tcp_to_mil.ranks.repeats import expanded


@rewrites("aten.index.Tensor", "aten._unsafe_index.Tensor")
def rewrite_index(call: RankCall) -> SSAValue:
    """
    The op on vectors of indices.

    `x[.., i, j]` has the elements `x[.., i.flatten(), j.flatten()]` if both indices
    are expanded to one shape. It is `x[.., i.flatten(), :][.., j.flatten()]` if they
    broadcast in different dimensions, those of `i` before those of `j`.
    """
    x, given = call.carrier("self"), indices_of(call)
    if any(map(is_mask, given.values())):
        raise Obstacle(*SIZES)
    rank = max(index.rank for index in given.values())
    indices = {dim: index.aligned(rank) for dim, index in given.items()}
    sizes = broadcast([index.sizes for index in indices.values()])
    dims = list(indices)
    rest = [size for dim, size in enumerate(x.sizes) if dim not in indices]
    at = dims[0] if is_block(dims) else 0
    result = [*rest[:at], *sizes, *rest[at:]]
    if is_block(dims) and is_outer(list(indices.values())):
        for dim, index in indices.items():
            x = indexed(call, x, {dim: flattened(call, index)})
    else:
        vectors = {
            dim: flattened(call, expanded(call.build, index, sizes))
            for dim, index in indices.items()
        }
        x = indexed(call, x, vectors)
    return call.view(x.value, result)


def indices_of(call: RankCall) -> dict[int, Carrier]:
    """The indices, by the first dimension that each indexes."""
    found: dict[int, Carrier] = {}
    dim = 0
    for index in call.elements("indices"):
        if isinstance(index.type, NoneType):
            dim += 1
        else:
            found[dim] = call.build.carrier(index)
            dim += found[dim].rank if is_mask(found[dim]) else 1
    return found


def is_mask(index: Carrier) -> bool:
    return tensor_type(index.value).element_type == i1


@rewrites("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def rewrite_index_put(call: RankCall) -> SSAValue:
    """The op along one dimension: the indexed one, or those of a mask, merged."""
    x, given, values = call.carrier("self"), indices_of(call), call.carrier("values")
    if len(given) != 1:
        raise Obstacle(
            "it has several indices, and Core ML's tensors have rank "
            f"{mil.MAX_RANK} at most",
            "join dimensions before the assignment",
        )
    ((first, index),) = given.items()
    dims = range(first, first + (index.rank if is_mask(index) else 1))
    if not values.is_single and is_mask(index):
        raise Obstacle(
            "it assigns different values by a mask, and Core ML's tensors have rank "
            f"{mil.MAX_RANK} at most",
            "use torch.where(mask, a, b), which assigns by position",
        )
    groups = grouped(apart(x.sizes, dims))
    value = call.build.merged(x, groups)
    (axis,) = axes_of(groups, [first])
    vector = flattened(call, index)
    indices: list[Argument] = [*[None] * axis, vector.value]
    arguments: dict[str, Argument] = {"self": value, "indices": indices}
    if values.is_single:
        arguments["values"] = call.build.merged(values, ((),))
    else:
        sizes = [*x.sizes[:first], *index.sizes, *x.sizes[first + 1 :]]
        whole = expanded(call.build, values, sizes)
        between = apart(sizes, range(first, first + index.rank))
        arguments["values"] = call.build.merged(whole, grouped(between))
    (y,) = call.again(shape_of(value), **arguments)
    return call.view(y, x.sizes, groups)


def is_outer(indices: Sequence[Carrier]) -> bool:
    """Whether each index has dimensions of its own, in the order of the indices."""
    dims = [[d for d, size in enumerate(x.sizes) if size != 1] for x in indices]
    flat = list(chain.from_iterable(dims))
    return flat == sorted(set(flat))


def flattened(call: RankCall, index: Carrier) -> Carrier:
    """An index as a vector."""
    size = call.build.product(index.sizes)
    return Carrier(call.build.flat(index), [size], ((0,),))


def indexed(call: RankCall, x: Carrier, vectors: Mapping[int, Carrier]) -> Carrier:
    """`x` indexed by vectors, in place of adjacent dimensions or before the others."""
    required = index_groups(x, vectors)
    groups = call.build.choose(required, [x])
    axes = axes_of(groups, vectors)
    if is_block(axes) != is_block(sorted(vectors)):
        # A dimension of size 1 is between them.
        groups, axes = required, axes_of(required, vectors)
    indices: list[Argument] = [None] * (1 + max(axes))
    for axis, dim in zip(axes, sorted(vectors), strict=True):
        indices[axis] = vectors[dim].value
    count = next(iter(vectors.values())).sizes[0]
    kept: list[list[Integer]] = [
        [x.sizes[dim] for dim in group]
        for i, group in enumerate(groups)
        if i not in axes
    ]
    kept.insert(axes[0] if is_block(axes) else 0, [count])
    (value,) = call.again(
        [product_in_type(sizes) for sizes in kept],
        self=call.build.merged(x, groups),
        indices=indices,
    )
    if len(vectors) > 1:
        return Carrier(value, [], None)
    after = [count if dim in vectors else size for dim, size in enumerate(x.sizes)]
    return Carrier(value, after, groups)


def is_block(dims: Sequence[int]) -> bool:
    """Whether dimensions are next to each other."""
    return list(dims) == list(range(dims[0], dims[-1] + 1))


def index_groups(x: Carrier, vectors: Mapping[int, Carrier]) -> Groups:
    """Each indexed dimension alone; those between two of them stay, even of size 1."""
    first, last = min(vectors), max(vectors)
    return grouped(
        [
            dim + 1
            if dim in vectors
            else None
            if size == 1 and not first < dim < last
            else 0
            for dim, size in enumerate(x.sizes)
        ]
    )
