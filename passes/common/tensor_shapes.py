"""Builders that change a tensor's shape, or the order of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerAttr,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.errors import Obstacle
from padc.ir.tcp import Amount, tensor_type
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
    type_of,
)


def rank_of(x: SSAValue) -> int:
    return tensor_type(x).get_num_dims()


def product(build: LinalgBuilder, sizes: Sequence[Amount]) -> Amount:
    """The number of elements of a tensor of `sizes`."""
    total: Amount = 1
    for size in sizes:
        total = build.mul(total, size)
    return total


def same(a: Amount, b: Amount) -> bool:
    """Whether two sizes are known to be equal."""
    return a == b or (
        isinstance(a, SSAValue) and isinstance(b, SSAValue) and origin(a) == origin(b)
    )


def origin(size: SSAValue) -> object:
    """A key of the computation of `size`: equal keys mean equal sizes."""
    match size.owner:
        case arith.IndexCastOp(input=number) if isinstance(
            number.owner, arith.IndexCastOp
        ):
            return origin(number.owner.input)
        case tensor.DimOp(source=x, index=SSAValue(owner=arith.ConstantOp() as dim)):
            while isinstance(x.owner, tensor.CastOp | UnrealizedConversionCastOp):
                x = x.owner.operands[0]
            return x, dim.value
        case _:
            return size


def reassociation(
    groups: Sequence[Sequence[int]],
) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr(ArrayAttr(IntegerAttr(i, i64) for i in group) for group in groups)


def collapse(build: LinalgBuilder, x: SSAValue, first: int, count: int) -> SSAValue:
    """Merge dimensions `first` to `first + count - 1` into one."""
    shape = list(tensor_type(x).get_shape())
    joined = shape[first : first + count]
    size = DYNAMIC_INDEX if DYNAMIC_INDEX in joined else math.prod(joined)
    groups = [[i] for i in range(len(shape))]
    groups[first : first + count] = [list(range(first, first + count))]
    shape[first : first + count] = [size]
    return build.insert(
        tensor.CollapseShapeOp(
            operands=[x],
            result_types=[TensorType(element_type(x), shape)],
            properties={"reassociation": reassociation(groups)},
        )
    )


def expand(
    build: LinalgBuilder, x: SSAValue, dim: int, sizes: Sequence[Amount]
) -> SSAValue:
    """Split dimension `dim` into dimensions of `sizes`."""
    full = build.sizes(x)
    full[dim : dim + 1] = sizes
    groups = [[i] for i in range(dim)]
    groups.append(list(range(dim, dim + len(sizes))))
    groups += [[i] for i in range(dim + len(sizes), len(full))]
    type = type_of(full, element_type(x))
    # If all of `sizes` are static, tensor.expand_shape needs a static operand too.
    split = list(tensor_type(x).get_shape())
    parts = type.get_shape()[dim : dim + len(sizes)]
    split[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in parts else math.prod(parts)
    x = build.cast(x, TensorType(element_type(x), split))
    dynamic = [size for size in full if isinstance(size, SSAValue)]
    return build.insert(
        tensor.ExpandShapeOp(
            x, dynamic, reassociation(groups), list(type.get_shape()), type
        )
    )


def reshape(build: LinalgBuilder, x: SSAValue, sizes: Sequence[Amount]) -> SSAValue:
    """Reshape `x` to `sizes`, keeping the order of its elements."""
    old, new = build.sizes(x), list(sizes)
    if len(old) == len(new) and all(map(same, old, new)):
        return x
    if 0 in new:
        return build.empty(new, element_type(x))
    if not old:
        return indexed(build, x, [], new)
    if not new:
        return build.insert(
            tensor.CollapseShapeOp(
                operands=[x],
                result_types=[TensorType(element_type(x), [])],
                properties={"reassociation": ArrayAttr([])},
            )
        )
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter - 1 and same(old[first], new[first]):
        first += 1
    last = 0
    while last < shorter - 1 - first and same(old[-1 - last], new[-1 - last]):
        last += 1
    if (count := len(old) - first - last) > 1:
        x = collapse(build, x, first, count)
    middle = new[first : len(new) - last]
    return expand(build, x, first, middle) if len(middle) > 1 else x


def unsqueeze(build: LinalgBuilder, x: SSAValue, dim: int) -> SSAValue:
    """Insert a dimension of size 1 before dimension `dim`."""
    sizes = build.sizes(x)
    return reshape(build, x, [*sizes[:dim], 1, *sizes[dim:]])


def squeeze(build: LinalgBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """Drop `dims`, which have size 1."""
    sizes = build.sizes(x)
    return reshape(
        build, x, [size for dim, size in enumerate(sizes) if dim not in dims]
    )


def permute(build: LinalgBuilder, x: SSAValue, order: Sequence[int]) -> SSAValue:
    """Dimension i of the result is dimension `order[i]` of `x`."""
    sizes = build.sizes(x)
    if sorted(order) != list(range(len(sizes))):
        raise Obstacle(f"{list(order)} does not have each of {len(sizes)} dims once")
    if list(order) == sorted(order):
        return x
    moved = [dim for dim in order if sizes[dim] != 1]
    if moved == sorted(moved):
        return reshape(build, x, [sizes[dim] for dim in order])
    exprs = [AffineExpr.dimension(list(order).index(dim)) for dim in range(len(order))]
    return indexed(build, x, exprs, [sizes[dim] for dim in order])


def dims(count: int) -> list[AffineExpr]:
    """The indices of a nest of `count` loops."""
    return [AffineExpr.dimension(dim) for dim in range(count)]


def indexed(
    build: LinalgBuilder,
    x: SSAValue,
    exprs: Sequence[AffineExpr],
    sizes: Sequence[Amount],
) -> SSAValue:
    """A new tensor of `sizes`; its elements are those of `x` at `exprs`."""
    return build.compute(
        sizes, element_type(x), lambda inner, args: args[0], [(x, exprs)]
    )
