"""
Discrete Fourier transforms, as products with matrices of cosines and sines.

The matrices are computed in float64, then rounded. A long transform becomes two short
ones (J. Cooley, J. Tukey, "An algorithm for the machine calculation of complex Fourier
series", Mathematics of Computation 19, 1965).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.torch import AtenOp
from padc.ir.weights import Array
from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import Complex, Real

Sign = Literal[-1, 1]
"""The sign of the exponent: -1 in a transform, 1 in its inverse."""

Spectra: TypeAlias = npt.NDArray[np.complex128]
"""A complex matrix."""

LONG = 1024
"""The length from which on a transform is split in two, if it can be."""

LONGEST = 4096
"""The longest transform that is one matrix."""


# --- matrices -------------------------------------------------------------------------


def roots(turns: Array, length: int, sign: Sign) -> Spectra:
    """exp(sign 2 pi i turns / length), for integers."""
    angles = (2 * np.pi / length) * (turns % length)
    return np.cos(angles) + 1j * sign * np.sin(angles)


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


def turned(x: Real, a: int, b: int) -> Real:
    """`x` with two dimensions exchanged."""
    shape = [*x.shape]
    shape[a], shape[b] = shape[b], shape[a]
    return x.call("transpose.int", shape, self=x, dim0=a, dim1=b)


def sliced(x: Real, dim: int, start: int, stop: int) -> Real:
    return x.like(x.build.slice(x.value, dim, start, stop))


def joined(parts: Sequence[Real], dim: int) -> Real:
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
        return np.block([rows] if z.imag is None else [rows, below])

    x = z.real if z.imag is None else joined([z.real, z.imag], dim)
    y = along(call, x, dim, (*key, is_real, z.imag is None), blocks)
    if is_real:
        return Complex(y)
    size = y.shape[dim] // 2
    return Complex(sliced(y, dim, 0, size), sliced(y, dim, size, 2 * size))


def along(
    call: ComplexCall,
    x: Real,
    dim: int,
    key: tuple[object, ...],
    matrix: Callable[[], Array],
) -> Real:
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
    """Two numbers with this product, as close as can be; None if it is prime."""
    for a in range(int(np.sqrt(length)), 1, -1):
        if length % a == 0:
            return a, length // a
    return None


def each(z: Complex, function: Callable[[Real], Real]) -> Complex:
    return Complex(function(z.real), None if z.imag is None else function(z.imag))


def split_up(x: Real, dim: int, a: int, b: int) -> Real:
    shape = [*x.shape[:dim], a, b, *x.shape[dim + 1 :]]
    return x.call("unflatten.int", shape, self=x, dim=dim, sizes=[a, b])


def flattened(x: Real, dim: int) -> Real:
    return x.like(x.build.flatten(x.value, dim, dim + 1))


def half_transform(
    call: ComplexCall, x: Real, dim: int, sign: Sign, scale: float
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
) -> Real:
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


def reversed_part(x: Real, dim: int, count: int) -> Real:
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

    def padded(x: Real) -> Real:
        shape = [*x.shape]
        shape[dim] = length
        pad = [0, 0] * (x.rank - dim - 1) + [0, length - size]
        return x.call("constant_pad_nd", shape, self=x, pad=pad, value=0.0)

    return each(z, padded)


# --- ATen's ops -----------------------------------------------------------------------


def scale_of(call: ComplexCall, is_inverse: bool, count: int) -> float:
    """The factor of a transform of `count` elements, by ATen's `norm`."""
    norm = call.constant("norm") if call.has("norm") else "backward"
    if norm == "ortho":
        return count**-0.5
    return 1 / count if (norm == "backward") == is_inverse else 1.0


def is_only_real(call: ComplexCall) -> bool:
    """Whether the real part alone of the result is used."""

    def is_real(op: object) -> bool:
        if not isinstance(op, AtenOp):
            return False
        if op.schema.name == "aten.view_as_real":
            users = [use.operation for use in op.results[0].uses]
            rank = len(call.result_type().get_shape())
            return all(
                isinstance(user, AtenOp)
                and user.schema.name == "aten.select.int"
                and user.constant("dim") in (rank, -1)
                and user.constant("index") in (0, -2)
                for user in users
            )
        return op.schema.name == "aten.real"

    return all(is_real(use.operation) for use in call.op.results[0].uses)


def dims_of(call: ComplexCall, rank: int, default: Sequence[int]) -> list[int]:
    """The dimensions of a transform, counted from 0."""
    if "dim" in call.op.schema.positions and call.has("dim"):
        return [dim % rank for dim in call.integers("dim")]
    if call.has("s") and not default:
        return list(range(rank - len(call.integers("s")), rank))
    return [dim % rank for dim in default or range(rank)]


def lengths_of(call: ComplexCall, z: Complex, dims: Sequence[int]) -> list[int]:
    """The size of each of these dimensions, as `n` or `s` give it."""
    name = "n" if "n" in call.op.schema.positions else "s"
    given = call.integers(name) if call.has(name) else [-1] * len(dims)
    return [
        known_length(z, dim) if length == -1 else length
        for dim, length in zip(dims, given, strict=True)
    ]


def transform_all(
    call: ComplexCall,
    z: Complex,
    dims: Sequence[int],
    sign: Sign,
    scale: float,
    *,
    is_real: bool = False,
) -> Complex:
    """The transform along each of `dims`; the last one has the scale."""
    for index, dim in enumerate(reversed(dims)):
        is_last = index == len(dims) - 1
        factor = scale if is_last else 1.0
        z = transform(call, z, dim, sign, factor, is_real=is_real and is_last)
    return z if dims else z.scaled(scale)


def register(name: str, dims: Sequence[int]) -> None:
    """Register `fft_<name>`, `fft_i<name>` and those of real tensors."""

    @row(f"aten.fft_{name}")
    def split_fft(call: ComplexCall) -> Complex:
        return complex_transform(call, -1, dims)

    @row(f"aten.fft_i{name}")
    def split_ifft(call: ComplexCall) -> Complex:
        return complex_transform(call, 1, dims)

    @row(f"aten.fft_r{name}")
    def split_rfft(call: ComplexCall) -> Complex:
        return transform_real(call, -1, dims)

    @row(f"aten.fft_ih{name}")
    def split_ihfft(call: ComplexCall) -> Complex:
        return transform_real(call, 1, dims)

    @row(f"aten.fft_ir{name}")
    def split_irfft(call: ComplexCall) -> Real:
        return transform_to_real(call, 1, dims)

    @row(f"aten.fft_h{name}")
    def split_hfft(call: ComplexCall) -> Real:
        return transform_to_real(call, -1, dims)


def complex_transform(call: ComplexCall, sign: Sign, default: Sequence[int]) -> Complex:
    z = call.complex("self")
    dims = dims_of(call, z.real.rank, default)
    lengths = lengths_of(call, z, dims)
    for dim, length in zip(dims, lengths):
        z = resized(z, dim, length)
    scale = scale_of(call, sign == 1, int(np.prod(lengths)))
    return transform_all(call, z, dims, sign, scale, is_real=is_only_real(call))


def transform_real(call: ComplexCall, sign: Sign, default: Sequence[int]) -> Complex:
    """The last dimension is halved."""
    z = call.complex("self")
    dims = dims_of(call, z.real.rank, default)
    lengths = lengths_of(call, z, dims)
    for dim, length in zip(dims, lengths):
        z = resized(z, dim, length)
    scale = scale_of(call, sign == 1, int(np.prod(lengths)))
    *others, last = dims
    z = half_transform(call, z.real, last, sign, 1.0 if others else scale)
    return transform_all(call, z, others, sign, scale) if others else z


def transform_to_real(call: ComplexCall, sign: Sign, default: Sequence[int]) -> Real:
    """The last dimension is half of the spectrum of a real signal."""
    z = call.complex("self")
    dims = dims_of(call, z.real.rank, default)
    name = "n" if "n" in call.op.schema.positions else "s"
    last_is_given = call.has(name) and call.integers(name)[-1] != -1
    lengths = lengths_of(call, z, dims)
    if not last_is_given:
        lengths[-1] = 2 * (lengths[-1] - 1)
    if lengths[-1] < 1:
        raise Obstacle("a signal without elements", "give the size n")
    *others, last = dims
    for dim, length in zip(others, lengths):
        z = resized(z, dim, length)
    if others:
        z = transform_all(call, z, others, sign, 1.0)
    scale = scale_of(call, sign == 1, int(np.prod(lengths)))
    return from_half_transform(call, z, last, lengths[-1], sign, scale)


register("fft", (-1,))
register("fft2", (-2, -1))
register("fftn", ())


@row("aten.fft_fftshift", "aten.fft_ifftshift")
def split_shift(call: ComplexCall) -> Complex | Real:
    """The half of the frequencies that is negative moves before the other, or back."""
    z = call.complex("self")
    dims = dims_of(call, z.real.rank, ())
    back = call.name == "aten.fft_ifftshift"
    shifts = [(known_length(z, dim) + back) // 2 for dim in dims]
    moved = each(z, lambda x: x.call("roll", self=x, shifts=shifts, dims=dims))
    return moved if call.is_complex("self") else moved.real


# --- PyTorch's own, without sizes -----------------------------------------------------


def own_scale(call: ComplexCall, count: int) -> float:
    """The factor by the number of a normalization: none, by root of n, by n."""
    return count ** (-call.integer("normalization") / 2)


@row("aten._fft_c2c")
def split_c2c(call: ComplexCall) -> Complex:
    z, dims = call.complex("self"), own_dims(call)
    scale = own_scale(call, int(np.prod([known_length(z, dim) for dim in dims])))
    sign = -1 if call.boolean("forward") else 1
    return transform_all(call, z, dims, sign, scale, is_real=is_only_real(call))


@row("aten._fft_r2c")
def split_r2c(call: ComplexCall) -> Complex:
    z, dims = call.complex("self"), own_dims(call)
    scale = own_scale(call, int(np.prod([known_length(z, dim) for dim in dims])))
    if not call.boolean("onesided"):
        return transform_all(call, z, dims, -1, scale)
    *others, last = dims
    z = half_transform(call, z.real, last, -1, 1.0 if others else scale)
    return transform_all(call, z, others, -1, scale) if others else z


@row("aten._fft_c2r")
def split_c2r(call: ComplexCall) -> Real:
    z, dims = call.complex("self"), own_dims(call)
    *others, last = dims
    length = call.integer("last_dim_size")
    count = int(np.prod([known_length(z, dim) for dim in others])) * length
    if others:
        z = transform_all(call, z, others, 1, 1.0)
    return from_half_transform(call, z, last, length, 1, own_scale(call, count))


def own_dims(call: ComplexCall) -> list[int]:
    x = call.as_complex(call.op.arg("self")).real
    return [dim % x.rank for dim in call.integers("dim")]
