"""
Discrete Fourier transforms, as products with matrices of cosines and sines.

The matrices are computed in float64, then rounded. A long transform becomes two short
ones (J. Cooley, J. Tukey, "An algorithm for the machine calculation of complex Fourier
series", Mathematics of Computation 19, 1965).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.weights import Array
from padc.passes.complex.complex_call import ComplexCall
from padc.passes.complex.numbers import Complex, RealTensor

Sign = Literal[-1, 1]
"""The sign of the exponent: -1 in a transform, 1 in its inverse."""

Spectra: TypeAlias = npt.NDArray[np.complex128]
"""A complex matrix."""

LONG = 1024
"""The length from which on a transform is split in two, if it can be."""

LONGEST = 4096
"""The longest transform that is one matrix."""

MOST = 2**32
"""The longest transform; factors of larger numbers take long to find."""


ROUNDING = 1e-14
"""A sine or cosine that is smaller is 0."""


# --- matrices -------------------------------------------------------------------------


def roots(turns: Array, length: int, sign: Sign) -> Spectra:
    """exp(sign 2 pi i turns / length), for integers."""
    angles = (2 * np.pi / length) * (turns % length)
    cosines, sines = np.cos(angles), sign * np.sin(angles)
    # Exact zeros: an imaginary part that is 0 has the sign that PyTorch gives it.
    for x in cosines, sines:
        x[np.abs(x) < ROUNDING] = 0.0
    return cosines + 1j * sines


def full(length: int, sign: Sign) -> Spectra:
    """All frequencies of a signal."""
    steps = np.arange(length)
    return roots(np.outer(steps, steps), length, sign)


def half(length: int, sign: Sign) -> Spectra:
    """The frequencies of a real signal, without those that are conjugates."""
    return full(length, sign)[:, : length // 2 + 1]


def from_half(length: int, sign: Sign) -> Spectra:
    """From these to the signal, which is the real part of the result."""
    matrix = full(length, sign)[: length // 2 + 1]
    twice = slice(1, (length + 1) // 2)
    matrix[twice] *= 2
    return matrix


# --- products -------------------------------------------------------------------------


def turned(x: RealTensor, a: int, b: int) -> RealTensor:
    """`x` with two dimensions exchanged."""
    shape = [*x.shape]
    shape[a], shape[b] = shape[b], shape[a]
    return x.call("transpose.int", shape, self=x, dim0=a, dim1=b)


def sliced(x: RealTensor, dim: int, start: int, stop: int) -> RealTensor:
    return x.like(x.build.slice(x.value, dim, start, stop))


def joined(parts: Sequence[RealTensor], dim: int) -> RealTensor:
    return parts[0].like(parts[0].build.cat([part.value for part in parts], dim))


def times(
    call: ComplexCall,
    z: Complex,
    dim: int,
    key: tuple[object, ...],
    matrix: Callable[[], Spectra],
    *,
    is_real: bool = False,
) -> Complex:
    """
    `z` along `dim` times a complex matrix; only the real part of it if `is_real`.

    Both parts are computed by one real matrix.
    """

    def blocks() -> Array:
        w = matrix()
        rows = [w.real] if is_real else [w.real, w.imag]
        below = [-w.imag] if is_real else [-w.imag, w.real]
        # -0.0 + 0.0 is 0.0.
        return np.block([rows] if z.imag is None else [rows, below]) + 0.0

    x = z.real if z.imag is None else joined([z.real, z.imag], dim)
    y = along(call, x, dim, (*key, is_real, z.imag is None), blocks)
    if is_real:
        return Complex(y)
    size = y.shape[dim] // 2
    return Complex(sliced(y, dim, 0, size), sliced(y, dim, size, 2 * size))


def along(
    call: ComplexCall,
    x: RealTensor,
    dim: int,
    key: tuple[object, ...],
    matrix: Callable[[], Array],
) -> RealTensor:
    """`x` along `dim` times a constant matrix [old size, new size]."""
    last = x.rank - 1
    if x.rank == 1:
        row = x.call("unsqueeze", [1, *x.shape], self=x, dim=0)
        made = along(call, row, 1, key, matrix)
        return x.call("select.int", made.shape[1:], self=made, dim=0, index=0)
    if dim == last - 1:
        left = call.matrix((*key, "left"), lambda: matrix().T)
        shape = [*x.shape[:dim], left.shape[0], x.shape[-1]]
        return x.call("matmul", shape, self=left, other=x)
    if dim == last:
        right = call.matrix(key, matrix)
        shape = [*x.shape[:-1], right.shape[1]]
        return x.call("matmul", shape, self=x, other=right)
    return turned(along(call, turned(x, dim, last), last, key, matrix), dim, last)


# --- transforms -----------------------------------------------------------------------


def transform(
    call: ComplexCall,
    z: Complex,
    dim: int,
    sign: Sign,
    scale: float = 1.0,
    *,
    is_real: bool = False,
) -> Complex:
    """All frequencies of `z` along `dim`, times `scale`."""
    length = known_length(z, dim)
    if length <= LONG or (parts := factors(length)) is None:
        check_length(length)
        key = ("dft", length, sign, scale)
        return times(
            call, z, dim, key, lambda: full(length, sign) * scale, is_real=is_real
        )
    # x[b j + k] with j < a and k < b; the result is y[l + a m] with l < a and m < b.
    a, b = parts
    z = transform(call, each(z, lambda x: split_up(x, dim, a, b)), dim, sign)

    def twiddles() -> Spectra:
        return roots(np.outer(np.arange(a), np.arange(b)), length, sign)

    ones = [1] * (z.real.rank - dim - 2)
    key = ("dft_twiddles", a, b, sign, len(ones))
    z = z * Complex(
        call.matrix((*key, "real"), lambda: twiddles().real.reshape(a, b, *ones)),
        call.matrix((*key, "imag"), lambda: twiddles().imag.reshape(a, b, *ones)),
    )
    z = transform(call, z, dim + 1, sign, scale, is_real=is_real)
    return each(z, lambda x: flattened(turned(x, dim, dim + 1), dim))


def factors(length: int) -> tuple[int, int] | None:
    """Two factors of a number, as close as possible; None for a prime."""
    if length > MOST:
        raise Obstacle(
            f"a Fourier transform of {length} elements",
            f"transform at most {MOST} elements",
        )
    for a in range(math.isqrt(length), 1, -1):
        if length % a == 0:
            return a, length // a
    return None


def each(z: Complex, function: Callable[[RealTensor], RealTensor]) -> Complex:
    return Complex(function(z.real), None if z.imag is None else function(z.imag))


def split_up(x: RealTensor, dim: int, a: int, b: int) -> RealTensor:
    shape = [*x.shape[:dim], a, b, *x.shape[dim + 1 :]]
    return x.call("unflatten.int", shape, self=x, dim=dim, sizes=[a, b])


def flattened(x: RealTensor, dim: int) -> RealTensor:
    return x.like(x.build.flatten(x.value, dim, dim + 1))


def half_transform(
    call: ComplexCall, x: RealTensor, dim: int, sign: Sign, scale: float
) -> Complex:
    """The frequencies of a real signal, without those that are conjugates."""
    z = Complex(x)
    length = known_length(z, dim)
    if length > LONG and factors(length) is not None:
        whole = transform(call, z, dim, sign, scale)
        return each(whole, lambda x: sliced(x, dim, 0, length // 2 + 1))
    check_length(length)
    key = ("dft_half", length, sign, scale)
    return times(call, z, dim, key, lambda: half(length, sign) * scale)


def from_half_transform(
    call: ComplexCall, z: Complex, dim: int, length: int, sign: Sign, scale: float
) -> RealTensor:
    """The real signal of `length` with these frequencies."""
    z = resized(z, dim, length // 2 + 1)
    if length > LONG and factors(length) is not None:
        count = (length - 1) // 2
        rest = each(z.conj(), lambda x: reversed_part(x, dim, count))
        parts = zip((z.real, z.imaginary), (rest.real, rest.imaginary))
        whole = Complex(*(joined(pair, dim) for pair in parts))
        return transform(call, whole, dim, sign, scale, is_real=True).real
    check_length(length)
    key = ("dft_from_half", length, sign, scale)

    def matrix() -> Spectra:
        return from_half(length, sign) * scale

    return times(call, z, dim, key, matrix, is_real=True).real


def reversed_part(x: RealTensor, dim: int, count: int) -> RealTensor:
    """Elements `count` to 1, in this order."""
    part = sliced(x, dim, 1, count + 1)
    return part.like(part.build.flip(part.value, [dim]))


def known_length(z: Complex, dim: int) -> int:
    if (length := z.real.shape[dim]) == DYNAMIC_INDEX:
        raise Obstacle(
            f"a Fourier transform along dimension {dim}, whose size varies",
            "export with a fixed size of that dimension",
        )
    return length


def check_length(length: int) -> None:
    if length > LONGEST:
        raise Obstacle(
            f"a Fourier transform of {length} elements, which has too large a factor",
            f"pad to a product of numbers up to {LONGEST}",
        )


def resized(z: Complex, dim: int, length: int) -> Complex:
    """Cropped or padded with zeros at the end of `dim`."""
    size = known_length(z, dim)
    if size >= length:
        return each(z, lambda x: sliced(x, dim, 0, length))

    def padded(x: RealTensor) -> RealTensor:
        shape = [*x.shape]
        shape[dim] = length
        pad = [0, 0] * (x.rank - dim - 1) + [0, length - size]
        return x.call("constant_pad_nd", shape, self=x, pad=pad, value=0.0)

    return each(z, padded)
