"""
Factors of small matrices: LU with pivots, QR by reflections, and what uses them.

The steps, and so the signs and the order of pivots, are LAPACK's: getrf takes the first
of several largest elements, geqrf gives R a diagonal of the sign that avoids
cancellation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32

from padc.errors import Obstacle
from padc.passes.torch_to_mil.aten.contraction import matmul
from padc.passes.torch_to_mil.aten.matrices import (
    check_small,
    constant,
    element,
    identity,
    mask,
    rows_of,
    small,
    solve_triangle,
    square,
    triangle,
)
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_to,
    concat,
    expand_dims,
    reshape,
    sizes_of,
    slice_dim,
    squeeze,
)
from padc.passes.torch_to_mil.aten.permuting import transposed
from padc.passes.torch_to_mil.aten.tensor import Tensor

# --- LU -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lu:
    """
    The factors of `p @ l @ u`: `l` below the diagonal of one matrix, and `u` above.

    Step `i` exchanged row `i` and row `pivots[i]`, counted from 0.
    """

    rows: Sequence[Tensor]
    pivots: Sequence[Tensor]

    @staticmethod
    def of(x: Tensor) -> Lu:
        rows, pivots = rows_of(x), list[Tensor]()
        numbers = np.arange(x.shape[-1])
        for step in range(min(x.shape[-2:])):
            pivots.append(pivot := largest(rows, step))
            rows = exchanged(rows, step, pivot)
            top = element(rows[step], step)
            safe = top.equals(0).select(1, top)
            after, here = mask(x, numbers > step), mask(x, numbers == step)
            for i in range(step + 1, len(rows)):
                factor = element(rows[i], step) / safe
                rest = after.select(rows[i] - rows[step] * factor, rows[i])
                rows[i] = here.select(factor, rest)
        return Lu(rows, pivots)

    @property
    def matrix(self) -> Tensor:
        return concat(self.rows, self.rows[0].rank - 2)

    @property
    def numbers(self) -> Tensor:
        """LAPACK's pivots, which count from 1."""
        columns = [pivot + 1 for pivot in self.pivots]
        return squeeze(concat(columns, columns[0].rank - 1), [columns[0].rank - 2])

    @property
    def info(self) -> Tensor:
        """The first step whose pivot is 0, counted from 1; 0 if no pivot is 0."""
        tops = [element(self.rows[i], i).equals(0) for i in range(len(self.pivots))]
        return first_true(tops)


def first_true(conditions: Sequence[Tensor]) -> Tensor:
    """
    The number of the first condition that holds, counted from 1; 0 if none holds.

    The conditions have the shape `[..., 1, 1]`; the result does not have these two.
    """
    found = conditions[-1].to(i32) * len(conditions)
    for number, condition in reversed(list(enumerate(conditions[:-1], 1))):
        found = condition.select(number, found)
    return squeeze(found, [found.rank - 2, found.rank - 1])


def largest(rows: Sequence[Tensor], step: int) -> Tensor:
    """The first row from `step` on with the largest element in that column."""
    most = abs(element(rows[step], step))
    place = (most < 0).to(i32) + step
    for i in range(step + 1, len(rows)):
        size = abs(element(rows[i], step))
        is_larger = size > most
        place, most = is_larger.select(i, place), is_larger.select(size, most)
    return place


def exchanged(rows: Sequence[Tensor], step: int, pivot: Tensor) -> list[Tensor]:
    """Row `step` and row `pivot`, which is not above it, change places."""
    new = list(rows)
    for i in range(step + 1, len(rows)):
        is_pivot = pivot.equals(i)
        new[step] = is_pivot.select(rows[i], new[step])
        new[i] = is_pivot.select(rows[step], rows[i])
    return new


def pivots_of(call: MilCall, name: str) -> list[Tensor]:
    """LAPACK's pivots as columns, which count from 0."""
    x = call.tensor(name)
    x = expand_dims(x, [x.rank - 1]) - 1
    return [element(x, i) for i in range(x.shape[-1])]


def permuted(x: Tensor, pivots: Sequence[Tensor], *, back: bool = False) -> Tensor:
    """The rows of `x` exchanged as the pivots say, or exchanged back."""
    batch = [1] * (pivots[0].rank - x.rank)
    rows = rows_of(reshape(x, [*batch, *sizes_of(x)]) if batch else x)
    steps = list(enumerate(pivots))
    for step, pivot in reversed(steps) if back else steps:
        rows = exchanged(rows, step, pivot)
    return concat(equally_large(rows), rows[0].rank - 2)


def equally_large(rows: Sequence[Tensor]) -> list[Tensor]:
    """Rows repeated to the largest sizes that one of them has."""
    sizes: list[Size] = [max(each) for each in zip(*(row.shape for row in rows))]
    return [broadcast_to(row, sizes) for row in rows]


def permutation(like: Tensor, count: int, pivots: Sequence[Tensor]) -> Tensor:
    """The matrix `p` of `p @ l @ u`, for matrices of `count` rows."""
    return transposed(permuted(constant(like, np.eye(count)), pivots))


def check_pivots(call: MilCall) -> None:
    if "pivot" in call.op.schema.positions and not call.boolean("pivot"):
        raise Obstacle(
            "it has pivot=False, which PyTorch computes on GPUs only",
            "leave pivot=True, the default",
        )


@lowers("aten._lu_with_info", "aten.linalg_lu_factor", "aten.linalg_lu_factor_ex")
def lower_lu_factor(call: MilCall) -> list[Tensor]:
    check_pivots(call)
    lu = Lu.of(small(call, call.op.schema.arguments[0].name))
    return [lu.matrix, lu.numbers, lu.info][: len(call.op.results)]


@lowers("aten.linalg_lu")
def lower_lu(call: MilCall) -> list[Tensor]:
    check_pivots(call)
    x = small(call, "A")
    lu = Lu.of(x)
    p = permutation(x, x.shape[-2], lu.pivots)
    return [p, *triangles(lu.matrix)]


def triangles(x: Tensor) -> list[Tensor]:
    """The factors `l` and `u`, which one matrix holds."""
    count, rank = min(x.shape[-2:]), x.rank
    lower = slice_dim(x, rank - 1, 0, count)
    upper = slice_dim(x, rank - 2, 0, count)
    return [triangle(lower, upper=False, unit=True), triangle(upper, upper=True)]


@lowers("aten.lu_unpack")
def lower_lu_unpack(call: MilCall) -> list[Tensor]:
    if not (call.boolean("unpack_data") and call.boolean("unpack_pivots")):
        raise Obstacle(
            "the factors that it does not unpack are empty tensors", "unpack all"
        )
    x = small(call, "LU_data")
    p = permutation(x, x.shape[-2], pivots_of(call, "LU_pivots"))
    return [p, *triangles(x)]


@lowers("aten.linalg_lu_solve", "aten.lu_solve")
def lower_lu_solve(call: MilCall) -> Tensor:
    """
    The solution of `a @ x = b`; with `adjoint`, of `a.mT @ x = b`.

    If not `left`, of `x @ a = b`, which is `a.mT @ x.mT = b.mT`.
    """
    is_old = call.name == "aten.lu_solve"
    lu = square(call, "LU_data" if is_old else "LU")
    pivots = pivots_of(call, "LU_pivots" if is_old else "pivots")
    b = call.tensor("self" if is_old else "B")
    left = is_old or call.boolean("left")
    adjoint = not is_old and call.boolean("adjoint")
    if left:
        return lu_solved(lu, pivots, b, adjoint)
    return transposed(lu_solved(lu, pivots, transposed(b), not adjoint))


def lu_solved(lu: Tensor, pivots: Sequence[Tensor], b: Tensor, adjoint: bool) -> Tensor:
    if not adjoint:
        y = solve_triangle(lu, permuted(b, pivots), upper=False, unit=True)
        return solve_triangle(lu, y, upper=True)
    y = solve_triangle(transposed(lu), b, upper=False)
    y = solve_triangle(transposed(lu), y, upper=True, unit=True)
    return permuted(y, pivots, back=True)


# --- Cholesky and triangles -----------------------------------------------------------


@lowers("aten.triangular_solve")
def lower_triangular_solve(call: MilCall) -> list[Tensor]:
    a, b = square(call, "A"), call.tensor("self")
    upper, unit = call.boolean("upper"), call.boolean("unitriangular")
    if is_turned := call.boolean("transpose"):
        upper = not upper
    x = solve_triangle(transposed(a) if is_turned else a, b, upper=upper, unit=unit)
    batch = sizes_of(x)[:-2]
    return [x, broadcast_to(a, [*batch, *sizes_of(a)[-2:]])]


def cholesky_solved(a: Tensor, b: Tensor, upper: bool) -> Tensor:
    """`x` with `l @ l.mT @ x = b`, for the triangle `l`, or its transposed one."""
    lower = transposed(a) if upper else a
    y = solve_triangle(lower, b, upper=False)
    return solve_triangle(transposed(lower), y, upper=True)


@lowers("aten.cholesky_solve")
def lower_cholesky_solve(call: MilCall) -> Tensor:
    a = square(call, "input2")
    return cholesky_solved(a, call.tensor("self"), call.boolean("upper"))


@lowers("aten.cholesky_inverse")
def lower_cholesky_inverse(call: MilCall) -> Tensor:
    a = square(call, "self")
    return cholesky_solved(a, identity(a), call.boolean("upper"))


# --- QR -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reflections:
    """`h_1 @ h_2 @ ...` with `h = 1 - tau * v @ v.mT`: geqrf's form of Q, and R."""

    r: Tensor
    vectors: Sequence[Tensor]
    factors: Sequence[Tensor]

    @staticmethod
    def of(x: Tensor) -> Reflections:
        """Source: LAPACK's geqr2 and larfg."""
        rows, columns = x.shape[-2:]
        numbers = np.arange(rows).reshape(-1, 1)
        vectors, factors = list[Tensor](), list[Tensor]()
        for j in range(min(rows, columns)):
            column = element(x, j)
            first = slice_dim(column, x.rank - 2, j, j + 1)
            rest = mask(x, numbers > j).select(column, 0)
            below = norm(rest)
            length = norm(mask(x, numbers >= j).select(column, 0))
            # There is nothing to reflect if all below the diagonal is 0.
            is_done = below.equals(0)
            beta = is_done.select(first, (first < 0).select(length, -length))
            safe = is_done.select(1, beta)
            tau = is_done.select(0, (safe - first) / safe)
            vector = rest / is_done.select(1, first - beta)
            vector = vector + constant(x, numbers == j)
            x = reflected(x, vector, tau)
            own = np.arange(columns) == j
            x = mask(x, (numbers > j) & own).select(0, x)
            x = mask(x, (numbers == j) & own).select(beta, x)
            vectors.append(vector)
            factors.append(tau)
        return Reflections(x, vectors, factors)

    def product(self, columns: int) -> Tensor:
        """The first columns of the product of the reflections."""
        eye = constant(self.r, np.eye(self.r.shape[-2], columns))
        return self.times(eye)

    def times(self, x: Tensor, *, transpose: bool = False) -> Tensor:
        """The product of the reflections, or its transposed, and `x`."""
        steps = list(zip(self.vectors, self.factors, strict=True))
        for vector, tau in steps if transpose else reversed(steps):
            x = reflected(x, vector, tau)
        return x


def norm(x: Tensor) -> Tensor:
    """The length of columns, by their largest element, so that no square overflows."""
    shape = [*x.shape[:-2], 1, x.shape[-1]]
    given = {"axes": [x.rank - 2], "keep_dims": True}
    most = abs(x).emit("reduce_max", shape, x=abs(x), **given)
    safe = most.equals(0).select(1, most)
    return (x / safe).emit("reduce_l2_norm", shape, x=x / safe, **given) * most


def reflected(x: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """`x - tau * v @ (v.mT @ x)`."""
    return x - vector * tau * matmul(vector, x, transpose_x=True)


@lowers("aten.linalg_qr", "aten.qr")
def lower_qr(call: MilCall) -> list[Tensor]:
    if call.name == "aten.qr":
        mode = "reduced" if call.boolean("some") else "complete"
    else:
        mode = str(call.constant("mode"))
    x = small(call, call.op.schema.arguments[0].name)
    rows, columns = x.shape[-2:]
    done = Reflections.of(x)
    if mode == "complete":
        return [done.product(rows), done.r]
    r = slice_dim(done.r, x.rank - 2, 0, min(rows, columns))
    if mode == "r":
        raise Obstacle(
            "it has mode='r', for which Q is an empty tensor", "use mode='reduced'"
        )
    return [done.product(min(rows, columns)), r]


@lowers("aten.geqrf")
def lower_geqrf(call: MilCall) -> list[Tensor]:
    x = small(call, "self")
    done = Reflections.of(x)
    rows, columns = x.shape[-2:]
    vectors = concat(done.vectors, x.rank - 1)
    if missing := columns - len(done.vectors):
        zeros = slice_dim(x, x.rank - 1, 0, missing) * 0
        vectors = concat([vectors, zeros], x.rank - 1)
    below = mask(x, np.tril(np.ones((rows, columns)), -1))
    factors = squeeze(concat(done.factors, x.rank - 1), [x.rank - 2])
    return [below.select(vectors, done.r), factors]


def given_reflections(call: MilCall) -> Reflections:
    """Vectors, which begin with a 1 on the diagonal, and factors, one for each."""
    first, second = (argument.name for argument in call.op.schema.arguments[:2])
    x, tau = call.tensor(first), call.tensor(second)
    count = tau.shape[-1]
    check_small(x, count)
    if not count:
        raise Obstacle("no reflections", "leave it out")
    x = slice_dim(x, x.rank - 1, 0, count)
    vectors = triangle(x, upper=False, unit=True)
    factors = expand_dims(tau, [tau.rank - 1])
    return Reflections(
        x,
        [element(vectors, i) for i in range(count)],
        [element(factors, i) for i in range(count)],
    )


@lowers("aten.linalg_householder_product", "aten.orgqr")
def lower_householder_product(call: MilCall) -> Tensor:
    return given_reflections(call).product(call.result_shape()[-1])


@lowers("aten.ormqr")
def lower_ormqr(call: MilCall) -> Tensor:
    """`q @ x`; from the right, the transposed of `q.mT @ x.mT`."""
    given, x = given_reflections(call), call.tensor("input3")
    transpose = call.boolean("transpose")
    if call.boolean("left"):
        return given.times(x, transpose=transpose)
    return transposed(given.times(transposed(x), transpose=not transpose))
