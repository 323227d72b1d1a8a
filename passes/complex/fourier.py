"""
ATen's Fourier transforms, with their dimensions, lengths and scales.

`transforms` computes one of them along one dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from padc.errors import Obstacle
from padc.ir.torch import AtenOp
from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import Complex, RealTensor
from padc.passes.complex.transforms import (
    Sign,
    each,
    from_half_transform,
    half_transform,
    known_length,
    resized,
    transform,
)


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


def resized_input(
    call: ComplexCall, sign: Sign, default: Sequence[int]
) -> tuple[Complex, list[int], float]:
    """The input with the sizes that are given, the dimensions, and the scale."""
    z = call.complex("self")
    dims = dims_of(call, z.real.rank, default)
    lengths = lengths_of(call, z, dims)
    for dim, length in zip(dims, lengths):
        z = resized(z, dim, length)
    scale = scale_of(call, sign == 1, int(np.prod(lengths)))
    return z, dims, scale


def complex_transform(call: ComplexCall, sign: Sign, default: Sequence[int]) -> Complex:
    z, dims, scale = resized_input(call, sign, default)
    return transform_all(call, z, dims, sign, scale, is_real=is_only_real(call))


def transform_real(call: ComplexCall, sign: Sign, default: Sequence[int]) -> Complex:
    """The last dimension is halved."""
    z, dims, scale = resized_input(call, sign, default)
    *others, last = dims
    z = half_transform(call, z.real, last, sign, 1.0 if others else scale)
    return transform_all(call, z, others, sign, scale) if others else z


def transform_to_real(
    call: ComplexCall, sign: Sign, default: Sequence[int]
) -> RealTensor:
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


TRANSFORMS: Mapping[str, tuple[Callable[..., Complex | RealTensor], Sign]] = {
    "": (complex_transform, -1),
    "i": (complex_transform, 1),
    "r": (transform_real, -1),
    "ih": (transform_real, 1),
    "ir": (transform_to_real, 1),
    "h": (transform_to_real, -1),
}
"""How the transforms of ATen compute, by the prefix of their names."""

DIMS: Mapping[str, Sequence[int]] = {"fft": (-1,), "fft2": (-2, -1), "fftn": ()}
"""The dimensions of the transforms by default; () stands for all."""

for prefix, (lower, sign) in TRANSFORMS.items():
    for name, dims in DIMS.items():
        row(f"aten.fft_{prefix}{name}")(partial(lower, sign=sign, default=dims))


@row("aten.fft_fftshift", "aten.fft_ifftshift")
def split_shift(call: ComplexCall) -> Complex | RealTensor:
    """The half of the frequencies that is negative moves before the other, or back."""
    z = call.complex("self")
    dims = dims_of(call, z.real.rank, ())
    back = call.name == "aten.fft_ifftshift"
    shifts = [(known_length(z, dim) + back) // 2 for dim in dims]
    moved = each(z, lambda x: x.call("roll", self=x, shifts=shifts, dims=dims))
    return moved if call.is_complex("self") else moved.real


# --- PyTorch's own, without sizes -----------------------------------------------------


def own_scale(call: ComplexCall, count: int) -> float:
    """The scale for normalization 0, 1 or 2: 1, 1 / sqrt(count) or 1 / count."""
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
def split_c2r(call: ComplexCall) -> RealTensor:
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
