# pyright: basic
"""
The computations that take most of the time of whole models.

Each is written in numpy, which says what it computes. Where PyTorch is installed and
the arrays are large, PyTorch computes the same, faster.
"""

import functools
import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from padc.backends.coreml.evaluator.values.dataless import Dataless, is_dataless, made
from padc.backends.coreml.evaluator.values.limits import allowed
from padc.backends.coreml.evaluator.values.types import Array

WORTH = 2**14
"""From how many elements on PyTorch computes a kernel, if it is installed."""


@functools.cache
def pytorch() -> Any | None:
    """The module `torch`; None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def faster(by: Callable[..., Any]) -> Callable[[Any], Callable[..., Array]]:
    """Compute a kernel by `by(torch, *arguments)` if the arguments are large."""

    def decorate(kernel: Callable[..., Array]) -> Callable[..., Array]:
        @functools.wraps(kernel)
        def run(*arguments: Any) -> Array:
            arrays = [each for each in arguments if isinstance(each, np.ndarray)]
            if sum(array.size for array in arrays) < WORTH or is_dataless(*arrays):
                return kernel(*arguments)
            if (torch := pytorch()) is None:
                return kernel(*arguments)
            with torch.inference_mode():
                tensors = [_as_tensor(torch, argument) for argument in arguments]
                return by(torch, *tensors).numpy()

        return run

    return decorate


def _as_tensor(torch: Any, argument: Any) -> Any:
    """An array as a tensor, which cannot be read-only or have negative strides."""
    if not isinstance(argument, np.ndarray):
        return argument
    if not argument.flags.writeable or min(argument.strides, default=0) < 0:
        argument = argument.copy()
    return torch.from_numpy(argument)


# --- elementwise ----------------------------------------------------------------------


@faster(lambda torch, x: x.to(torch.float16).to(torch.float32))
def rounded_to_fp16(x: Array) -> Array:
    """`x` rounded to the nearest value of float16, half to even."""
    return x.astype(np.float16).astype(np.float32)


@faster(lambda torch, x: torch.erf(x))
def erf(x: Array) -> Array:
    """The error function."""
    if is_dataless(x):
        return x
    values = map(math.erf, x.reshape(-1).tolist())
    return np.fromiter(values, x.dtype, x.size).reshape(x.shape)


@faster(lambda torch, x: torch.sigmoid(x))
def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


@faster(lambda torch, x, slope: torch.nn.functional.leaky_relu(x, slope))
def leaky_relu(x: Array, slope: float) -> Array:
    """x, or `slope * x` where it is negative."""
    return np.maximum(x, 0) + slope * np.minimum(x, 0)


@faster(lambda torch, x, y: torch.div(x, y, rounding_mode="floor"))
def floor_divide(x: Array, y: Array) -> Array:
    """x / y, rounded down. A float divided by 0 is infinite or NaN."""
    return np.floor_divide(x, y)


@faster(lambda torch, x, y: torch.remainder(x, y))
def remainder(x: Array, y: Array) -> Array:
    """x - y * floor(x / y), of the sign of y."""
    return np.remainder(x, y)


@faster(lambda torch, x, y: torch.pow(x, y))
def power(x: Array, y: Array) -> Array:
    """`x ** y` of floats; NaN for a finite negative `x` and a fraction `y`."""
    if y.size == 1 and not is_dataless(x, y) and y.item() == 0.5:
        # np.power computes a square root, which is NaN for -inf.
        return np.float_power(x, y).astype(x.dtype)
    return np.power(x, y)


@faster(
    lambda torch, x, *given: torch.nn.functional.batch_norm(x, *given[:4], eps=given[4])
)
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None,
    beta: Array | None,
    epsilon: float,
) -> Array:
    """`gamma * (x - mean) / sqrt(variance + epsilon) + beta`, per channel."""
    shape = (-1, *[1] * (x.ndim - 2))
    scale = 1 / np.sqrt(variance + epsilon)
    scale = scale if gamma is None else scale * gamma
    y = (x - mean.reshape(shape)) * scale.reshape(shape)
    return y if beta is None else y + beta.reshape(shape)


# --- along an axis --------------------------------------------------------------------


@faster(lambda torch, x, axes, keepdims: torch.sum(x, axes, keepdims))
def total(x: Array, axes: Sequence[int], keepdims: bool) -> Array:
    """The sum: of floats in float64, then rounded; of integers in int64."""
    dtype = np.float64 if x.dtype.kind == "f" else np.int64
    y: Any = np.sum(x, tuple(axes), dtype, keepdims=keepdims)
    return y.astype(x.dtype) if x.dtype.kind == "f" else y


@faster(lambda torch, x, axis: torch.softmax(x, axis))
def softmax(x: Array, axis: int) -> Array:
    """e^x divided by its sum along an axis."""
    # Subtracting the largest element keeps e^x finite.
    y = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return y / np.sum(y, axis, keepdims=True)


@faster(lambda torch, x, axis: torch.cumsum(x, axis))
def cumulative_sum(x: Array, axis: int) -> Array:
    """Sums of the elements up to each one: of floats in float64, then rounded."""
    if x.dtype.kind == "f":
        return np.cumsum(x, axis, dtype=np.float64).astype(x.dtype)
    return np.cumsum(x, axis, dtype=np.int64)


@faster(lambda torch, x, indices, axis: torch.gather(x, axis, indices))
def gather_along_axis(x: Array, indices: Array, axis: int) -> Array:
    """`x[..., indices[..., i, ...], ...]`, for indices of the same other dimensions."""
    return np.take_along_axis(x, indices, axis)


SCATTERS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _torch_scatter(
    torch: Any, data: Any, indices: Any, updates: Any, axis: int, mode: str
) -> Any:
    if mode == "update":
        return data.scatter(axis, indices, updates)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return data.scatter_reduce(axis, indices, updates, names[mode])


@faster(_torch_scatter)
def scatter_along_axis(
    data: Array, indices: Array, updates: Array, axis: int, mode: str
) -> Array:
    """`data` with updates at the indices along an axis; `mode` combines them."""
    if is_dataless(data, indices, updates):
        return Dataless(data.shape, data.dtype)
    y = data.copy()
    places: list[Any] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = indices
    if mode == "update":
        y[tuple(places)] = updates
    else:
        SCATTERS[mode].at(y, tuple(places), updates)
    return y


# --- products -------------------------------------------------------------------------


def product(x: Array, y: Array) -> Array:
    """The matrix product, with the leading dimensions broadcast."""
    if x.dtype.kind == "f":
        return np.matmul(_for_blas(x), _for_blas(y))
    return _integer_product(x, y)


@faster(lambda torch, x, y: torch.matmul(x, y))
def _integer_product(x: Array, y: Array) -> Array:
    return np.matmul(x, y)


def _for_blas(x: Array) -> Array:
    """`x`, copied unless its rows or its columns are contiguous in memory.

    numpy multiplies other matrices by itself, a hundred times slower than BLAS.
    """
    if is_dataless(x):
        return x
    if x.ndim < 2:
        return np.ascontiguousarray(x)
    (rows, columns), (down, across) = x.shape[-2:], x.strides[-2:]
    is_rows = across == x.itemsize and down >= columns * x.itemsize
    is_columns = down == x.itemsize and across >= rows * x.itemsize
    return x if is_rows or is_columns else np.ascontiguousarray(x)


# --- windows --------------------------------------------------------------------------

Padding = Sequence[tuple[int, int]]


def pad(x: Array, padding: Padding, value: float) -> Array:
    """`x` with its last dimensions padded, or cropped where negative."""
    if not any(map(any, padding)):
        return x
    pairs = [(0, 0)] * (x.ndim - len(padding)) + list(padding)
    sizes = [size + sum(pair) for size, pair in zip(x.shape, pairs, strict=True)]
    if min(sizes, default=0) < 0:
        raise ValueError(f"padding {list(padding)} of {list(x.shape)}")
    ends = [size - max(-after, 0) for size, (_, after) in zip(x.shape, pairs)]
    x = x[tuple(slice(max(-b, 0), end) for (b, _), end in zip(pairs, ends))]
    if list(x.shape) == sizes:
        return x
    if is_dataless(x):
        return made(sizes, x.dtype)
    y = np.full(allowed(*sizes), value, x.dtype)
    starts = [max(before, 0) for before, _ in pairs]
    y[tuple(slice(n, n + size) for n, size in zip(starts, x.shape))] = x
    return y


def window_counts(
    sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """How many windows there are along each dimension; ValueError if there are none."""
    if len(sizes) != len(extents) or len(sizes) != len(strides):
        raise ValueError(
            f"windows of {list(extents)} by {list(strides)} of {len(sizes)} dimensions"
        )
    if min((*extents, *strides), default=1) < 1:
        raise ValueError(f"windows of {list(extents)} by strides of {list(strides)}")
    if any(size < extent for size, extent in zip(sizes, extents, strict=True)):
        raise ValueError(f"windows of {list(extents)} in {list(sizes)} elements")
    return [(n - e) // s + 1 for n, e, s in zip(sizes, extents, strides, strict=True)]


def _torch_convolution(
    torch: Any,
    x: Any,
    weight: Any,
    bias: Any,
    strides: list[int],
    padding: Padding,
    dilations: list[int],
    groups: int,
) -> Any:
    built_in = [before for before, _ in padding]
    if any(before != after for before, after in padding):
        built_in = [0] * len(padding)
        # torch names the last dimension first.
        flat = [amount for pair in reversed(padding) for amount in pair]
        x = torch.nn.functional.pad(x, flat)
    zeros = [0] * len(padding)
    return torch.convolution(
        x, weight, bias, strides, built_in, dilations, False, zeros, groups
    )


@faster(_torch_convolution)
def _convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    strides: list[int],
    padding: Padding,
    dilations: list[int],
    groups: int,
) -> Array:
    x = pad(x, padding, 0.0)
    counts = _convolution_counts(
        x.shape[2:], weight, strides, [(0, 0)] * len(padding), dilations
    )
    batch, inputs, outputs = len(x), x.shape[1] // groups, len(weight) // groups
    by_place = weight.reshape(groups, outputs, inputs, *weight.shape[2:])
    by_place = np.moveaxis(by_place, (0, 1, 2), (-3, -2, -1)).copy()
    y = np.zeros((batch, groups, outputs, prod(counts)), x.dtype)
    for place in np.ndindex(*weight.shape[2:]):
        seen = x[(..., *_every(place, dilations, counts, strides))]
        y += product(by_place[place], seen.reshape(batch, groups, inputs, prod(counts)))
    y = y.reshape(batch, len(weight), *counts)
    return y if bias is None else y + bias.reshape(-1, *[1] * len(counts))


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    strides: list[int],
    padding: Padding,
    dilations: list[int],
    groups: int,
) -> Array:
    """The convolution of `x` [N, C, ...] with `weight` [F, C / groups, ...]."""
    _check_channels(x.shape[1], weight.shape[1] * groups, len(weight), groups, bias)
    counts = _convolution_counts(x.shape[2:], weight, strides, padding, dilations)
    allowed(
        *x.shape[:2], *(n + sum(p) for n, p in zip(x.shape[2:], padding, strict=True))
    )
    shape = allowed(len(x), len(weight), *counts)
    if is_dataless(x, weight, bias):
        return Dataless(shape, x.dtype)
    return _convolution(x, weight, bias, strides, padding, dilations, groups)


def _convolution_counts(
    sizes: Sequence[int],
    weight: Array,
    strides: list[int],
    padding: Padding,
    dilations: list[int],
) -> list[int]:
    if min((*dilations, *weight.shape[2:]), default=1) < 1:
        raise ValueError(f"a kernel of {list(weight.shape[2:])} dilated by {dilations}")
    extents = [
        (k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)
    ]
    padded = [size + sum(pair) for size, pair in zip(sizes, padding, strict=True)]
    return window_counts(padded, extents, strides)


def _check_channels(
    given: int, wanted: int, outputs: int, groups: int, bias: Array | None
) -> None:
    if groups < 1 or outputs % groups or given != wanted:
        raise ValueError(
            f"{given} channels in {groups} groups, for a weight of {wanted} input and "
            f"{outputs} output channels"
        )
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"a bias of {list(bias.shape)} for {outputs} channels")


def _every(
    place: Sequence[int],
    dilations: Sequence[int],
    counts: Sequence[int],
    strides: Sequence[int],
) -> list[slice]:
    """The elements that one tap of a kernel reads: every `stride`-th position."""
    return [
        slice(k * dilation, k * dilation + (count - 1) * stride + 1, stride)
        for k, dilation, count, stride in zip(
            place, dilations, counts, strides, strict=True
        )
    ]


@faster(
    lambda torch, x, weight, strides, dilations, groups: torch.convolution(
        x,
        weight,
        None,
        strides,
        [0] * len(strides),
        dilations,
        True,
        [0] * len(strides),
        groups,
    )
)
def _transposed_convolution(
    x: Array, weight: Array, strides: list[int], dilations: list[int], groups: int
) -> Array:
    batch, inputs, outputs = len(x), x.shape[1] // groups, weight.shape[1]
    sizes, kernel = x.shape[2:], weight.shape[2:]
    totals = transposed_sizes(sizes, kernel, strides, dilations)
    by_place = weight.reshape(groups, inputs, outputs, *kernel)
    by_place = np.moveaxis(by_place, (0, 1, 2), (-3, -1, -2)).copy()
    x = x.reshape(batch, groups, inputs, prod(sizes))
    y = np.zeros((batch, groups * outputs, *totals), x.dtype)
    for place in np.ndindex(*kernel):
        part = product(by_place[place], x)
        seen = (..., *_every(place, dilations, sizes, strides))
        y[seen] += part.reshape(batch, groups * outputs, *sizes)
    return y


def transposed_convolution(
    x: Array, weight: Array, strides: list[int], dilations: list[int], groups: int
) -> Array:
    """The adjoint of the convolution, for `weight` [C, F / groups, ...]."""
    outputs = weight.shape[1] * groups
    _check_channels(x.shape[1], len(weight), outputs, groups, None)
    if groups > 1 and x.shape[1] % groups:
        raise ValueError(f"{x.shape[1]} channels in {groups} groups")
    if min((*weight.shape[2:], *x.shape[2:], *strides, *dilations), default=1) < 1:
        raise ValueError(f"x {list(x.shape)}, weight {list(weight.shape)}")
    totals = transposed_sizes(x.shape[2:], weight.shape[2:], strides, dilations)
    shape = allowed(len(x), outputs, *totals)
    if is_dataless(x, weight):
        return Dataless(shape, x.dtype)
    return _transposed_convolution(x, weight, strides, dilations, groups)


def transposed_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """The sizes of a transposed convolution, nothing cropped."""
    return [
        (n - 1) * s + (k - 1) * d + 1
        for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]


def _torch_pool(name: str) -> Callable[..., Any]:
    def pool(torch: Any, x: Any, kernel: list[int], strides: list[int]) -> Any:
        compute = getattr(torch.nn.functional, f"{name}_pool{len(kernel)}d")
        return compute(x, kernel, strides)

    return pool


@faster(_torch_pool("max"))
def max_pool(x: Array, kernel: list[int], strides: list[int]) -> Array:
    """The largest element of each window over the dimensions after the second."""
    return _combined(x, kernel, strides, np.maximum)


@faster(_torch_pool("avg"))
def average_pool(x: Array, kernel: list[int], strides: list[int]) -> Array:
    """The mean of each window over the dimensions after the second."""
    return _combined(x, kernel, strides, np.add) / prod(kernel)


def _combined(
    x: Array, kernel: list[int], strides: list[int], combine: np.ufunc
) -> Array:
    """The elements of each window, combined along one dimension after the other."""
    counts = window_counts(x.shape[2:], kernel, strides)
    for axis, (size, count, stride) in enumerate(
        zip(kernel, counts, strides, strict=True), 2
    ):
        parts = [
            x[(slice(None),) * axis + (slice(k, k + (count - 1) * stride + 1, stride),)]
            for k in range(size)
        ]
        x = functools.reduce(combine, parts)
    return x
