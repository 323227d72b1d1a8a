"""Inverses, solutions and determinants of complex matrices."""

from __future__ import annotations

from padc.errors import Obstacle
from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import Complex, RealTensor, largest
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


@row("aten.linalg_det", "aten.det")
def split_determinant(call: ComplexCall) -> Complex:
    z = small(call)
    return determinant(z, [*range(z.real.shape[-1])], 0)


@row("aten.linalg_slogdet", "aten.slogdet")
def split_sign_and_logarithm(call: ComplexCall) -> list[Complex | RealTensor]:
    return [*sign_and_logarithm(small(call))]


@row("aten.logdet")
def split_logarithm(call: ComplexCall) -> Complex:
    sign, logarithm = sign_and_logarithm(small(call))
    # PyTorch adds a complex product of the logarithm: NaN where that is infinite.
    return Complex(logarithm, sign.angle() + logarithm * 0.0)


def small(call: ComplexCall) -> Complex:
    """The matrices; Obstacle if they are too large for their minors."""
    z = call.complex(call.op.schema.arguments[0].name)
    if not 0 < (size := z.real.shape[-1]) <= LARGEST_DETERMINANT:
        raise Obstacle(
            f"a determinant of a complex {size} x {size} matrix",
            f"padc has those of up to {LARGEST_DETERMINANT} rows",
        )
    return z


def sign_and_logarithm(z: Complex) -> tuple[Complex, RealTensor]:
    """
    The determinant divided by its size, and the logarithm of that size.

    Rows, then columns, are divided by their largest parts, so that no product of
    elements of other scales vanishes.
    """
    rank, added = z.real.rank, None
    for dim in (rank - 1, rank - 2):
        factor = scale_along(z, dim)
        z = each(z, lambda x, factor=factor: x / factor)
        logarithms = factor.unary("log")
        total = logarithms.call(
            "sum.dim_IntList",
            logarithms.shape[:-2],
            self=logarithms,
            dim=[rank - 2, rank - 1],
            keepdim=False,
        )
        added = total if added is None else added + total
    assert added is not None
    whole = determinant(z, [*range(z.real.shape[-1])], 0)
    size = whole.size()
    safe = size.equals(0.0).select(size.unary("ones_like"), size)
    return each(whole, lambda x: x / safe), size.unary("log") + added


def scale_along(z: Complex, dim: int) -> RealTensor:
    """The largest part along a dimension, which stays with size 1; 1 for zeros."""
    parts = largest(z)
    shape = [1 if i == dim else size for i, size in enumerate(parts.shape)]
    factor = parts.call("amax", shape, self=parts, dim=[dim], keepdim=True)
    return factor.equals(0.0).select(factor.unary("ones_like"), factor)


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
