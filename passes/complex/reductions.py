"""Products, norms and variances of complex tensors."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.passes.complex.complex_call import ComplexCall, is_complex, row
from padc.passes.complex.numbers import Complex, RealTensor
from padc.passes.complex.transforms import each, joined, sliced


@row("aten.linalg_vector_norm")
def split_vector_norm(call: ComplexCall) -> RealTensor:
    """The norm of the sizes."""
    size = call.as_complex(call.op.arg("self")).size()
    return call.clone(lambda name, x: size)


VARIANCES = ("var", "var.dim", "var.correction")
DEVIATIONS = ("std", "std.dim", "std.correction")


@row(*(f"aten.{name}" for name in VARIANCES))
def split_variance(call: ComplexCall) -> RealTensor:
    """The sum of the variances of the parts."""
    z = call.complex("self")
    real, imag = (call.clone(lambda name, x: part) for part in (z.real, z.imaginary))
    return real + imag


@row(*(f"aten.{name}" for name in DEVIATIONS))
def split_deviation(call: ComplexCall) -> RealTensor:
    z = call.complex("self")
    real, imag = (call.clone(lambda name, x: part) for part in (z.real, z.imaginary))
    return Complex(real, imag).size()


@row("aten.prod", "aten.prod.dim_int")
def split_product_of_elements(call: ComplexCall) -> Complex:
    """The product of both halves, again and again."""
    z = scanned(call)
    if not call.has("dim"):
        count = math.prod(z.real.shape)
        z = each(z, lambda x: x.call("reshape", [count], self=x, shape=[count]))
    dim = call.integer("dim") % max(z.real.rank, 1) if call.has("dim") else 0
    if z.real.rank == 0:
        return z
    while (size := z.real.shape[dim]) > 1:
        half = size // 2
        product = part(z, dim, 0, half) * part(z, dim, half, 2 * half)
        z = (
            together(product, part(z, dim, 2 * half, size), dim)
            if size % 2
            else product
        )
    shape = call.result_type().get_shape()
    return each(z, lambda x: x.call("reshape", shape, self=x, shape=list(shape)))


@row("aten.cumprod")
def split_cumulative_product(call: ComplexCall) -> Complex:
    """Products of 2, 4, 8 and more elements that end at each position."""
    z = scanned(call)
    if z.real.rank == 0:
        return z
    dim = call.integer("dim") % z.real.rank
    size, step = z.real.shape[dim], 1
    while step < size:
        product = part(z, dim, step, size) * part(z, dim, 0, size - step)
        z = together(part(z, dim, 0, step), product, dim)
        step *= 2
    return z


def scanned(call: ComplexCall) -> Complex:
    """The operand of a product, whose sizes are known and not 0."""
    if not is_complex(call.op.results[0].type):
        raise Obstacle("a product of complex numbers with a real dtype", "take a part")
    z = call.complex("self")
    if DYNAMIC_INDEX in z.real.shape or 0 in z.real.shape:
        raise Obstacle(
            "a product of complex numbers whose size varies or is 0",
            "export with a fixed size",
        )
    return z


def part(z: Complex, dim: int, start: int, stop: int) -> Complex:
    return each(z, lambda x: sliced(x, dim, start, stop))


def together(a: Complex, b: Complex, dim: int) -> Complex:
    """The concatenation."""
    imag = None if a.imag is None else joined([a.imag, b.imaginary], dim)
    return Complex(joined([a.real, b.real], dim), imag)
