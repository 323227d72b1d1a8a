"""
Products of two tensors, summed over the dimensions that they share.

Dimensions have names, as in einsum. Core ML's matmul multiplies tensors of dimensions
(batch, row, sum) and (batch, sum, column), either of which may be transposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.ir.mil import MAX_RANK
from padc.passes.common.broadcast import broadcast
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    expand_dims,
    product,
    reshape,
    size_of,
    squeeze,
    transpose,
)
from padc.passes.torch_to_mil.aten.reductions import reduce
from padc.passes.torch_to_mil.aten.slicing import diagonal
from padc.passes.torch_to_mil.aten.tensor import Tensor


def matmul(
    a: Tensor, b: Tensor, *, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    """`torch.matmul`; of tensors of rank 2 and more, either may be transposed."""
    if a.rank == b.rank == 1:
        return dot(a, b)
    if a.rank == 1:
        y = matmul(expand_dims(a, [0]), b, transpose_y=transpose_y)
        return squeeze(y, [y.rank - 2])
    if b.rank == 1:
        y = matmul(a, expand_dims(b, [1]), transpose_x=transpose_x)
        return squeeze(y, [y.rank - 1])
    if 0 in (a.rank, b.rank):
        raise Obstacle("a product of matrices of which one has rank 0")
    rows = a.shape[-1 if transpose_x else -2]
    columns = b.shape[-2 if transpose_y else -1]
    shape = [*broadcast(a.shape[:-2], b.shape[:-2]), rows, columns]
    y = a.emit(
        "matmul", shape, x=a, y=b, transpose_x=transpose_x, transpose_y=transpose_y
    )
    return y.wrapped(y)


def dot(a: Tensor, b: Tensor, dim: int = 0) -> Tensor:
    """The sum of the products along a dimension, accumulated as in PyTorch."""
    type = wide(a.type)
    return total(a.to(type) * b.to(type), [dim]).to(a.type)


def total(x: Tensor, dims: Sequence[int]) -> Tensor:
    """The sum along dimensions, in the type of `x`."""
    y = reduce("sum", x, dims, False)
    return y.wrapped(y)


def contract(
    a: Tensor,
    a_names: Sequence[str],
    b: Tensor | None,
    b_names: Sequence[str],
    kept: Sequence[str],
) -> Tensor:
    """
    The product of `a` and `b`, summed over all names except `kept`, in their order.

    Without `b`, only the sums.
    """
    a, a_names = distinct(a, a_names)
    if b is None:
        a, a_names = without(a, a_names, {*kept})
        return ordered(a, a_names, kept)
    b, b_names = distinct(b, b_names)
    a, a_names, b, b_names = without_broadcasts(a, a_names, b, b_names)
    a, a_names = without(a, a_names, {*b_names, *kept})
    b, b_names = without(b, b_names, {*a_names, *kept})
    pair = Pair(a, a_names, b, b_names, kept)
    product = pair.elementwise() if pair.is_elementwise() else pair.matrices()
    return ordered(*product, kept)


def ordered(x: Tensor, names: Sequence[str], kept: Sequence[str]) -> Tensor:
    """`x` with its dimensions in the order of `kept`."""
    return transpose(x, [names.index(name) for name in kept])


def without(
    x: Tensor, names: Sequence[str], kept: set[str]
) -> tuple[Tensor, list[str]]:
    """`x` summed over all names except `kept`."""
    dims = [dim for dim, name in enumerate(names) if name not in kept]
    type = wide(x.type)
    y = total(x.to(type), dims).to(x.type) if dims else x
    return y, [name for name in names if name in kept]


def without_broadcasts(
    a: Tensor, a_names: Sequence[str], b: Tensor, b_names: Sequence[str]
) -> tuple[Tensor, Sequence[str], Tensor, Sequence[str]]:
    """Without the dimensions of size 1 that broadcast to a larger size."""

    def larger(other: Tensor, names: Sequence[str]) -> set[str]:
        return {n for n, size in zip(names, other.shape, strict=True) if size != 1}

    def dropped(
        x: Tensor, names: Sequence[str], others: set[str]
    ) -> tuple[Tensor, Sequence[str]]:
        dims = [
            dim
            for dim, name in enumerate(names)
            if x.shape[dim] == 1 and name in others
        ]
        rest = [name for dim, name in enumerate(names) if dim not in dims]
        return squeeze(x, dims), rest

    of_a, of_b = larger(a, a_names), larger(b, b_names)
    return *dropped(a, a_names, of_b), *dropped(b, b_names, of_a)


def distinct(x: Tensor, names: Sequence[str]) -> tuple[Tensor, Sequence[str]]:
    """The elements at equal positions of dimensions with equal names."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first, second = [dim for dim, each in enumerate(names) if each == name][:2]
            x = diagonal(x, 0, first, second, max(x.shape[first], x.shape[second]))
            others = [n for dim, n in enumerate(names) if dim not in (first, second)]
            names = [*others, name]
    return x, names


@dataclass(frozen=True)
class Pair:
    """Two factors, whose dimensions have distinct names; all single ones are kept."""

    a: Tensor
    a_names: Sequence[str]
    b: Tensor
    b_names: Sequence[str]
    kept: Sequence[str]

    @property
    def batch(self) -> list[str]:
        return [n for n in self.a_names if n in self.b_names and n in self.kept]

    @property
    def summed(self) -> list[str]:
        return [n for n in self.a_names if n in self.b_names and n not in self.kept]

    @property
    def rows(self) -> list[str]:
        return [n for n in self.a_names if n not in self.b_names]

    @property
    def columns(self) -> list[str]:
        return [n for n in self.b_names if n not in self.a_names]

    def is_elementwise(self) -> bool:
        return not self.summed and len(self.kept) <= MAX_RANK

    def elementwise(self) -> tuple[Tensor, Sequence[str]]:
        """A product without sums, by broadcasting."""

        def aligned(x: Tensor, names: Sequence[str]) -> Tensor:
            order = [name for name in self.kept if name in names]
            x = ordered(x, names, order)
            first = self.kept.index(order[0]) if order else len(self.kept)
            missing = [
                dim for dim, name in enumerate(self.kept[first:]) if name not in names
            ]
            return expand_dims(x, missing) if order else x

        return aligned(self.a, self.a_names) * aligned(self.b, self.b_names), self.kept

    def sizes(self) -> Mapping[str, Size]:
        result = {n: size_of(self.b, dim) for dim, n in enumerate(self.b_names)}
        for dim, name in enumerate(self.a_names):
            if not isinstance(result.get(name), int):
                result[name] = size_of(self.a, dim)
        return result

    def matrices(self) -> tuple[Tensor, Sequence[str]]:
        """A product by matmul, with the operands in the order that moves less."""
        batch, rows, columns = self.batch, self.rows, self.columns
        # The result may be (batch, columns, rows): then the operands swap.
        after = [n for n in self.kept if n not in batch]
        if after and columns and rows and after == [*columns, *rows]:
            swapped = Pair(self.b, self.b_names, self.a, self.a_names, self.kept)
            return swapped.product()
        return self.product()

    def product(self) -> tuple[Tensor, Sequence[str]]:
        batch = [n for n in self.kept if n in self.batch]
        # The order of the factor that is in place already.
        summed = self.summed
        rows = [n for n in self.kept if n in self.rows]
        columns = [n for n in self.kept if n in self.columns]
        sizes = self.sizes()
        merged = len(batch) > MAX_RANK - 2
        first = [batch] if merged else [[name] for name in batch]
        # Without a batch, the rows need not become one dimension.
        left = [[n] for n in rows] if not batch and rows else [rows]
        right = [columns]
        a, transpose_x = matrix(self.a, self.a_names, first, left, summed, sizes)
        b, transpose_y = matrix(self.b, self.b_names, first, right, summed, sizes)
        y = matmul(a, b, transpose_x=transpose_x, transpose_y=not transpose_y)
        shape = [sizes[name] for name in (*batch, *rows, *columns)]
        is_shaped = not merged and (left != [rows] or len(rows) == 1)
        if not (is_shaped and len(columns) == 1):
            y = reshape(y, shape)
        return y, [*batch, *rows, *columns]


def matrix(
    x: Tensor,
    names: Sequence[str],
    batch: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    summed: Sequence[str],
    sizes: Mapping[str, Size],
) -> tuple[Tensor, bool]:
    """
    `x` with the dimensions (batch, rows, sum), each of them one or more of `names`.

    Also returns whether rows and sum are swapped, because `x` has them in that order.
    """
    groups = [*batch, *rows, summed]
    swapped = [*batch, summed, *rows]
    is_swapped = len(rows) == 1 and flat(swapped) == list(names)
    groups = swapped if is_swapped else groups
    x = transpose(x, [names.index(name) for name in flat(groups)])
    if any(len(group) != 1 for group in groups):
        x = reshape(x, [product([sizes[name] for name in group]) for group in groups])
    return x, is_swapped


def flat(groups: Sequence[Sequence[str]]) -> list[str]:
    return [name for group in groups for name in group]
