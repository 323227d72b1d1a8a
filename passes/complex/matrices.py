"""Inverses, solutions and determinants of complex matrices."""

from __future__ import annotations

from padc.errors import Obstacle
from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import Complex, RealTensor
from padc.passes.complex.transforms import each, joined, sliced

LARGEST_DETERMINANT = 3
"""The most rows of a matrix whose determinant is written out."""


def block(z: Complex) -> RealTensor:
    """[[a, -b], [b, a]], whose products are those of a + bi."""
    a, b = z.real, z.imaginary
    last = a.rank - 1
    return joined([joined([a, -b], last), joined([b, a], last)], last - 1)


def halves(x: RealTensor, dim: int) -> Complex:
    """The complex tensor whose parts are the halves of `x` along `dim`."""
    size = x.shape[dim] // 2
    return Complex(sliced(x, dim, 0, size), sliced(x, dim, size, 2 * size))


@row("aten.linalg_inv")
def split_inverse(call: ComplexCall) -> Complex:
    x = block(call.complex("A"))
    inverse = x.call("linalg_inv", A=x)
    size = x.shape[-1] // 2
    return halves(sliced(inverse, x.rank - 1, 0, size), x.rank - 2)


@row("aten.linalg_solve")
def split_solution(call: ComplexCall) -> Complex:
    """The solution of the real system of twice the size, for matrices on the right."""
    a, b = call.complex("A"), call.complex("B")
    if a.real.rank != b.real.rank or not call.boolean("left"):
        raise Obstacle(
            "a complex system whose right side has other dimensions",
            "call torch.linalg.solve with matrices",
        )
    dim = b.real.rank - 2
    right = joined([b.real, b.imaginary], dim)
    shape = [*call.result_type().get_shape()]
    shape[dim] *= 2
    return halves(right.call("linalg_solve", shape, A=block(a), B=right), dim)


@row("aten.linalg_det")
def split_determinant(call: ComplexCall) -> Complex:
    z = call.complex("A")
    if not 0 < (size := z.real.shape[-1]) <= LARGEST_DETERMINANT:
        raise Obstacle(
            f"a determinant of a complex {size} x {size} matrix",
            f"padc has those of up to {LARGEST_DETERMINANT} rows",
        )
    return determinant(z, [*range(size)], 0)


def determinant(z: Complex, columns: list[int], row: int) -> Complex:
    """The determinant of the rows from `row` on, expanded along the first of them."""

    def element(column: int) -> Complex:
        return each(z, lambda x: selected(selected(x, row, x.rank - 2), column, -1))

    if len(columns) == 1:
        return element(columns[0])
    terms = [
        element(column) * determinant(z, [c for c in columns if c != column], row + 1)
        for column in columns
    ]
    total = terms[0]
    for index, term in enumerate(terms[1:]):
        total = total + term if index % 2 else total - term
    return total


def selected(x: RealTensor, index: int, dim: int) -> RealTensor:
    return x.like(x.build.select(x.value, dim % x.rank, index))
