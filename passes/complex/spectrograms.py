"""
Short-time Fourier transforms, as convolutions.

A frame is a window of the signal, and a frequency the product of a frame and a kernel:
a cosine or sine, times the window function. The inverse is the transposed convolution,
divided by the sum of the squared window functions of all frames.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.weights import Array
from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import Complex, RealTensor
from padc.passes.complex.transforms import (
    check_length,
    from_half,
    full,
    half,
    joined,
    sliced,
)


def hop_of(call: ComplexCall) -> int:
    if call.has("hop_length"):
        return call.integer("hop_length")
    return call.integer("n_fft") // 4


def window_of(call: ComplexCall) -> Array:
    """The window function, with zeros around it up to the length of a frame."""
    length = call.integer("n_fft")
    size = call.integer("win_length") if call.has("win_length") else length
    if not call.has("window"):
        window = np.ones(size)
    elif (data := call.data("window")) is not None:
        window = data.astype(np.float64)
    else:
        raise Obstacle(
            "a window that is computed", "store the window in a buffer of the model"
        )
    left = (length - size) // 2
    return np.pad(window, (left, length - size - left))


def check_window(call: ComplexCall) -> None:
    """Raise Obstacle for a complex window function."""
    if call.has("window") and call.is_complex("window"):
        raise Obstacle("a complex window", "use a real one")


def key_of(call: ComplexCall, window: Array, *rest: object) -> tuple[object, ...]:
    """A key that is equal only for equal kernels of frames."""
    return (*rest, call.integer("n_fft"), call.boolean("normalized"), window.tobytes())


@row("aten.stft", "aten.stft.center")
def split_stft(call: ComplexCall) -> Complex | RealTensor:
    x, length = call.real("self"), call.integer("n_fft")
    if call.is_complex("self"):
        raise Obstacle("a transform of a complex signal", "transform its two parts")
    check_length(length)
    check_window(call)
    is_computed = call.has("window") and call.data("window") is None
    window = np.ones(length) if is_computed else window_of(call)
    hop = hop_of(call)
    whole = call.has("onesided") and not call.boolean("onesided")
    batch = [] if x.rank == 1 else [x.shape[0]]
    signal = x.call("unsqueeze", [*batch, 1, x.shape[-1]], self=x, dim=x.rank - 1)
    if "center" in call.op.schema.positions and call.boolean("center"):
        signal = centered(call, signal, length // 2)

    def kernel() -> Array:
        spectrum = (full if whole else half)(length, -1) * window[:, None]
        if call.boolean("normalized"):
            spectrum = spectrum / np.sqrt(length)
        return np.concatenate([spectrum.real, spectrum.imag], 1).T[:, None]

    weight = call.matrix(key_of(call, window, "stft", whole), kernel)
    if is_computed:
        weight = weight * padded_window(call, length)
    time = signal.shape[-1]
    count = time if time == DYNAMIC_INDEX else (time - length) // hop + 1
    y = signal.call(
        "conv1d",
        [*batch, weight.shape[0], count],
        input=signal,
        weight=weight,
        stride=[hop],
    )
    dim, size = len(batch), weight.shape[0] // 2
    z = Complex(sliced(y, dim, 0, size), sliced(y, dim, size, 2 * size))
    if call.has("return_complex") and call.boolean("return_complex"):
        return z
    parts = [z.real, z.imaginary]
    return y.call("stack", [*z.real.shape, 2], tensors=parts, dim=z.real.rank)


def padded_window(call: ComplexCall, length: int) -> RealTensor:
    """A computed window function, with zeros around it up to the length of a frame."""
    window = call.real("window")
    left = (length - window.shape[0]) // 2
    pad = [left, length - window.shape[0] - left]
    return window.call("constant_pad_nd", [length], self=window, pad=pad, value=0.0)


def centered(call: ComplexCall, signal: RealTensor, amount: int) -> RealTensor:
    """The signal, padded at both ends, so that each frame is centered at its time."""
    mode, shape = call.constant("pad_mode"), [*signal.shape]
    if shape[-1] != DYNAMIC_INDEX:
        shape[-1] += 2 * amount
    return signal.call("pad", shape, self=signal, pad=[amount, amount], mode=mode)


@row("aten.istft")
def split_istft(call: ComplexCall) -> RealTensor:
    if call.boolean("return_complex"):
        raise Obstacle("a complex signal", "leave return_complex=False")
    check_length(call.integer("n_fft"))
    check_window(call)
    spectrum, (start, stop) = half_spectrum(call), kept_range(call)
    signal = overlapped(spectrum, inverse_kernel(call), hop_of(call))
    y = sliced_to(signal, start, stop) / envelope(call, spectrum, start, stop)
    y = y.call("squeeze.dim", [*y.shape[:-2], y.shape[-1]], self=y, dim=y.rank - 2)
    wanted = call.result_type().get_shape()[-1]
    if y.shape[-1] in (wanted, DYNAMIC_INDEX):
        return y
    pad = [0, wanted - y.shape[-1]]
    return y.call(
        "constant_pad_nd", [*y.shape[:-1], wanted], self=y, pad=pad, value=0.0
    )


def half_spectrum(call: ComplexCall) -> RealTensor:
    """The real parts of the frequencies that a real signal has, then the imaginary."""
    z, size = call.complex("self"), call.integer("n_fft") // 2 + 1
    dim = z.real.rank - 2
    return joined([sliced(x, dim, 0, size) for x in (z.real, z.imaginary)], dim)


def kept_range(call: ComplexCall) -> tuple[int, int | None]:
    """The start and the end of the result in the sum of all frames."""
    start = call.integer("n_fft") // 2 if call.boolean("center") else 0
    if call.has("length"):
        return start, start + call.integer("length")
    return start, -start or None


def inverse_kernel(call: ComplexCall) -> RealTensor:
    """The frame that each real and each imaginary part adds to the signal."""
    window, length = window_of(call), call.integer("n_fft")

    def kernel() -> Array:
        signal = from_half(length, 1) * window
        signal = signal / (np.sqrt(length) if call.boolean("normalized") else length)
        return np.concatenate([signal.real, -signal.imag])[:, None]

    return call.matrix(key_of(call, window, "istft"), kernel)


def envelope(
    call: ComplexCall, spectrum: RealTensor, start: int, stop: int | None
) -> RealTensor:
    """The kept part of the sum of the squared window functions of all frames."""
    window, hop, count = window_of(call), hop_of(call), spectrum.shape[-1]
    if count == DYNAMIC_INDEX:
        if call.has("length"):
            raise Obstacle(
                "a signal of a given length from a spectrum whose length varies",
                "leave out length=, and crop the signal",
            )
        squares = call.matrix(
            key_of(call, window, "istft_squares"), lambda: (window**2)[None, None]
        )
        frames = sliced(spectrum, spectrum.rank - 2, 0, 1).unary("ones_like")
        return sliced_to(overlapped(frames, squares, hop), start, stop)
    total = sum_of_squares(window, hop, count)[start:stop]
    if np.abs(total).min() < 1e-11:
        raise Obstacle(
            "windows whose overlapping squares add up to 0 somewhere",
            "use a smaller hop_length, or another window",
        )
    key = key_of(call, window, "istft_envelope", hop, count, start, stop)
    return call.matrix(key, lambda: total)


def overlapped(x: RealTensor, weight: RealTensor, hop: int) -> RealTensor:
    """The sum of all frames, each `hop` after the one before."""
    count = x.shape[-1]
    length = weight.shape[-1]
    time = count if count == DYNAMIC_INDEX else (count - 1) * hop + length
    shape = [*x.shape[:-2], 1, time]
    return x.call("conv_transpose1d", shape, input=x, weight=weight, stride=[hop])


def sliced_to(x: RealTensor, start: int, stop: int | None) -> RealTensor:
    return x.like(x.build.slice(x.value, x.rank - 1, start, stop))


def sum_of_squares(window: Array, hop: int, count: int) -> Array:
    """The sum of the squared window functions of `count` frames."""
    total = np.zeros((count - 1) * hop + len(window))
    for frame in range(count):
        total[frame * hop :][: len(window)] += window**2
    return total
