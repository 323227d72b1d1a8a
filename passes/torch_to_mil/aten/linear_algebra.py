"""
Linear algebra of small square matrices: inverse, determinant, solution, Cholesky.

Gaussian elimination is unrolled: a step for each column exchanges the first row with
that of the largest element, by selects, and subtracts multiples of it from the others.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.passes.common.broadcast import broadcast
from padc.passes.torch_to_mil.aten.contraction import matmul
from padc.passes.torch_to_mil.aten.factorizations import Lu, first_true
from padc.passes.torch_to_mil.aten.matrices import (
    check_small,
    element,
    identity,
    rows_of,
    solve_triangle,
    square,
)
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    broadcast_to,
    concat,
    expand_dims,
    product,
    reshape,
    sizes_of,
    slice_dim,
    squeeze,
)
from padc.passes.torch_to_mil.aten.permuting import transposed
from padc.passes.torch_to_mil.aten.tensor import Tensor


@dataclass(frozen=True)
class Elimination:
    """Rows whose first columns are an upper triangle, with the pivots as diagonal."""

    rows: Sequence[Tensor]
    pivots: Sequence[Tensor]
    is_odd: Tensor
    """Whether the number of exchanges is odd."""


def eliminate(x: Tensor, size: int) -> Elimination:
    """Gaussian elimination with partial pivoting of the first `size` columns."""
    rows, is_odd = rows_of(x), x.boolean(False)
    for column in range(size):
        # The first row with the largest element comes first.
        for i in range(column + 1, size):
            first, other = rows[column], rows[i]
            is_larger = abs(element(other, column)) > abs(element(first, column))
            rows[column] = is_larger.select(other, first)
            rows[i] = is_larger.select(first, other)
            is_odd = is_larger ^ is_odd
        pivot = element(rows[column], column)
        safe = pivot.equals(0).select(1, pivot)
        for i in range(column + 1, size):
            factor = element(rows[i], column) / safe
            rows[i] = rows[i] - rows[column] * factor
    return Elimination(rows, [element(rows[i], i) for i in range(size)], is_odd)


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solution of `a @ x = b`, for matrices `b`; infinite if `a` is singular."""
    size = a.shape[-1]
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    if batch != list(a.shape[:-2]) or batch != list(b.shape[:-2]):
        if DYNAMIC_INDEX in batch:
            raise Obstacle("batches of dynamic size that broadcast", "repeat one")
        a = broadcast_to(a, [*batch, *a.shape[-2:]])
        b = broadcast_to(b, [*batch, *b.shape[-2:]])
    both = concat([a, b], a.rank - 1)
    rows = list(eliminate(both, size).rows)
    solution: list[Tensor] = []
    for i in reversed(range(size)):
        y = slice_dim(rows[i], both.rank - 1, size, None)
        for j, x in zip(range(i + 1, size), solution, strict=True):
            y = y - x * element(rows[i], j)
        solution.insert(0, y / element(rows[i], i))
    return concat(solution, both.rank - 2)


def inverse(x: Tensor) -> Tensor:
    """The inverse of matrices; by the adjugate of those of 1 and 2 rows."""
    size = x.shape[-1]
    if size == 1:
        return 1 / x
    if size == 2:
        (a, b), (c, d) = ([element(row, i) for i in (0, 1)] for row in rows_of(x))
        top, bottom = concat([d, -b], x.rank - 1), concat([-c, a], x.rank - 1)
        return concat([top, bottom], x.rank - 2) / (a * d - b * c)
    return solve(x, identity(x))


def determinant(x: Tensor) -> Tensor:
    """The determinants of matrices."""
    done = eliminate(x, x.shape[-1])
    value = functools.reduce(lambda a, b: a * b, done.pivots)
    return squeeze(signed(done.is_odd, value), [x.rank - 2, x.rank - 1])


def signed(is_odd: Tensor, x: Tensor) -> Tensor:
    """`-x` where `is_odd`."""
    return is_odd.select(-x, x)


def slogdet(x: Tensor) -> list[Tensor]:
    """The sign of the determinants, and the logarithm of their size."""
    done = eliminate(x, x.shape[-1])
    signs = [pivot.unary("sign") for pivot in done.pivots]
    logarithms = [abs(pivot).apply("log") for pivot in done.pivots]
    sign = signed(done.is_odd, functools.reduce(lambda a, b: a * b, signs))
    logarithm = functools.reduce(lambda a, b: a + b, logarithms)
    return [squeeze(each, [x.rank - 2, x.rank - 1]) for each in (sign, logarithm)]


def singularity(call: MilCall, x: Tensor) -> list[Tensor]:
    """The results after the first: `info`, the first pivot of `x` that is 0, or 0."""
    used = [r for r in zip(call.op.schema.returns, call.op.results) if r[1].first_use]
    if any(returned.name in ("LU", "pivots") for returned, _ in used):
        raise Obstacle(
            "its factors are used, which in PyTorch depend on the order of memory",
            "use torch.linalg.lu_factor",
        )
    if all(returned.name != "info" for returned, _ in used):
        return []
    return [Lu.of(x).info] * (len(call.op.results) - 1)


@lowers("aten.linalg_inv", "aten.inverse", "aten.linalg_inv_ex")
def lower_inverse(call: MilCall) -> list[Tensor]:
    name = call.op.schema.arguments[0].name
    x = square(call, name)
    return [inverse(x), *singularity(call, x)]


@lowers("aten.linalg_tensorinv")
def lower_tensor_inverse(call: MilCall) -> Tensor:
    """The inverse of the matrix of the first `ind` dimensions by the others."""
    x, ind = call.tensor("self"), call.integer("ind")
    sizes = sizes_of(x)
    rows, columns = product(sizes[:ind]), product(sizes[ind:])
    matrix = reshape(x, [rows, columns])
    check_small(matrix, matrix.shape[0])
    return reshape(inverse(matrix), [*sizes[ind:], *sizes[:ind]])


@lowers("aten.linalg_det", "aten.det", "aten._linalg_det")
def lower_determinant(call: MilCall) -> list[Tensor]:
    x = square(call, call.op.schema.arguments[0].name)
    return [determinant(x), *singularity(call, x)]


@lowers("aten.linalg_slogdet", "aten.slogdet", "aten._linalg_slogdet")
def lower_slogdet(call: MilCall) -> list[Tensor]:
    x = square(call, call.op.schema.arguments[0].name)
    return [*slogdet(x), *singularity(call, x)]


@lowers("aten.logdet")
def lower_logdet(call: MilCall) -> Tensor:
    """The logarithm of the determinant; NaN if that is negative."""
    sign, logarithm = slogdet(square(call, "self"))
    return (sign < 0).select(float("nan"), logarithm)


@lowers("aten.linalg_solve", "aten.linalg_solve_ex", "aten._linalg_solve_ex")
def lower_solve(call: MilCall) -> list[Tensor]:
    a, b = square(call, "A"), call.tensor("B")
    b = b.to(a.type)
    # PyTorch takes B for vectors if its shape is that of A without the last dimension.
    is_vector = b.rank == 1 or b.shape == a.shape[:-1]
    if is_vector:
        b = expand_dims(b, [b.rank])
    if call.boolean("left"):
        x = solve(a, b)
    else:
        x = transposed(solve(transposed(a), b if is_vector else transposed(b)))
        x = transposed(x) if is_vector else x
    if is_vector:
        x = squeeze(x, [x.rank - 1])
    return [x, *singularity(call, a)]


@lowers("aten.linalg_solve_triangular")
def lower_solve_triangular(call: MilCall) -> Tensor:
    a, b = square(call, "self"), call.tensor("B")
    b, upper = b.to(a.type), call.boolean("upper")
    unit = call.boolean("unitriangular")
    if call.boolean("left"):
        return solve_triangle(a, b, upper=upper, unit=unit)
    x = solve_triangle(transposed(a), transposed(b), upper=not upper, unit=unit)
    return transposed(x)


@lowers("aten.linalg_cholesky", "aten.cholesky", "aten.linalg_cholesky_ex")
def lower_cholesky(call: MilCall) -> list[Tensor]:
    """The lower triangle `l` with `x = l @ l.mT`, computed column by column."""
    x = square(call, "self")
    x = transposed(x) if call.boolean("upper") else x
    size, rows = x.shape[-1], rows_of(x)
    done: list[list[Tensor]] = [[] for _ in range(size)]
    failures: list[Tensor] = []
    for j in range(size):
        for i in range(j, size):
            y = element(rows[i], j)
            for a, b in zip(done[i][:j], done[j][:j], strict=True):
                y = y - a * b
            if i == j:
                failures.append(~(y > 0))
            done[i].append(y.unary("sqrt") if i == j else y / done[j][j])
    zero = done[0][0] * 0
    full = [concat([*row, *[zero] * (size - len(row))], x.rank - 1) for row in done]
    y = concat(full, x.rank - 2)
    y = transposed(y) if call.boolean("upper") else y
    return [y, first_true(failures)][: len(call.op.results)]


@lowers("aten.linalg_cross", "aten.cross")
def lower_cross(call: MilCall) -> Tensor:
    """Without `dim`, along the first dimension of size 3."""
    type = call.result_element_type()
    a, b = (call.tensor(name).to(type) for name in ("self", "other"))
    rank = max(a.rank, b.rank)
    a, b = (expand_dims(x, range(rank - x.rank)) for x in (a, b))
    dim = call.dim("dim", rank) if call.has("dim") else list(a.shape).index(3)

    def rolled(x: Tensor, by: int) -> Tensor:
        """Component i of the result is component `i + by` of `x`."""
        indices = np.roll(np.arange(3, dtype=np.int32), -by)
        return x.emit("gather", x.shape, x=x, indices=indices, axis=dim)

    return rolled(a, 1) * rolled(b, 2) - rolled(a, 2) * rolled(b, 1)


@lowers("aten.linalg_matrix_power", "aten.matrix_power")
def lower_matrix_power(call: MilCall) -> Tensor:
    """By squaring; a negative power is that of the inverse."""
    x, power = call.tensor("self"), call.integer("n")
    type = wide(call.result_element_type())
    x = x.to(type)
    if power == 0:
        return identity(x)
    if power < 0:
        x, power = inverse(square(call, "self")), -power
    result: Tensor | None = None
    while power > 1:
        if power % 2:
            result = x if result is None else matmul(result, x)
        x, power = matmul(x, x), power // 2
    return x if result is None else matmul(result, x)
