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
from padc.passes.complex.numbers import Complex, Real
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
    else:
        data = call.data("window")
        if data is None:
            raise Obstacle(
                "a window that is computed", "store the window in a buffer of the model"
            )
        window = data.astype(np.float64)
    if np.iscomplexobj(window):
        raise Obstacle("a complex window", "use a real one")
    left = (length - size) // 2
    return np.pad(window, (left, length - size - left))


def key_of(call: ComplexCall, window: Array, *rest: object) -> tuple[object, ...]:
    """A key that is equal only for equal kernels of frames."""
    return (*rest, call.integer("n_fft"), call.boolean("normalized"), window.tobytes())


@row("aten.stft", "aten.stft.center")
def split_stft(call: ComplexCall) -> Complex | Real:
    x, length = call.real("self"), call.integer("n_fft")
    if call.is_complex("self"):
        raise Obstacle("a transform of a complex signal", "transform its two parts")
    check_length(length)
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


def padded_window(call: ComplexCall, length: int) -> Real:
    """A computed window function, with zeros around it up to the length of a frame."""
    window = call.real("window")
    left = (length - window.shape[0]) // 2
    pad = [left, length - window.shape[0] - left]
    return window.call("constant_pad_nd", [length], self=window, pad=pad, value=0.0)


def centered(call: ComplexCall, signal: Real, amount: int) -> Real:
    """The signal with padding at both ends, so that frames are centered at times."""
    mode, shape = call.constant("pad_mode"), [*signal.shape]
    if shape[-1] != DYNAMIC_INDEX:
        shape[-1] += 2 * amount
    return signal.call("pad", shape, self=signal, pad=[amount, amount], mode=mode)


@row("aten.istft")
def split_istft(call: ComplexCall) -> Real:
    if call.boolean("return_complex"):
        raise Obstacle("a complex signal", "leave return_complex=False")
    z, length = call.complex("self"), call.integer("n_fft")
    check_length(length)
    window, hop = window_of(call), hop_of(call)
    batch, count = len(z.real.shape) - 2, z.real.shape[-1]
    size = length // 2 + 1
    parts = [sliced(x, batch, 0, size) for x in (z.real, z.imaginary)]

    def kernel() -> Array:
        signal = from_half(length, 1) * window
        signal = signal / (np.sqrt(length) if call.boolean("normalized") else length)
        return np.concatenate([signal.real, -signal.imag])[:, None]

    x = joined(parts, batch)
    weight = call.matrix(key_of(call, window, "istft"), kernel)
    y = overlapped(x, weight, hop)
    start = length // 2 if call.boolean("center") else 0
    stop: int | None = -start or None
    if call.has("length"):
        stop = start + call.integer("length")
    if count == DYNAMIC_INDEX:
        squares = call.matrix(
            key_of(call, window, "istft_squares"), lambda: (window**2)[None, None]
        )
        frames = x.call(
            "slice.Tensor",
            [*x.shape[:batch], 1, count],
            self=x,
            dim=batch,
            start=0,
            end=1,
        )
        frames = frames.unary("ones_like")
        envelope = overlapped(frames, squares, hop)
        if call.has("length"):
            raise Obstacle(
                "a signal of a given length from a spectrum whose length varies",
                "leave out length=, and crop the signal",
            )
        y = sliced_to(y, start, stop) / sliced_to(envelope, start, stop)
    else:
        total = envelope_of(window, hop, count)[start:stop]
        if np.abs(total).min() < 1e-11:
            raise Obstacle(
                "windows whose overlapping squares add up to 0 somewhere",
                "use a smaller hop_length, or another window",
            )
        key = key_of(call, window, "istft_envelope", hop, count, start, stop)
        y = sliced_to(y, start, stop) / call.matrix(key, lambda: total)
    y = y.call("squeeze.dim", [*y.shape[:-2], y.shape[-1]], self=y, dim=y.rank - 2)
    wanted = call.result_type().get_shape()[-1]
    if y.shape[-1] not in (wanted, DYNAMIC_INDEX):
        pad = [0, wanted - y.shape[-1]]
        y = y.call(
            "constant_pad_nd", [*y.shape[:-1], wanted], self=y, pad=pad, value=0.0
        )
    return y


def overlapped(x: Real, weight: Real, hop: int) -> Real:
    """The sum of all frames, each `hop` after the one before."""
    count = x.shape[-1]
    length = weight.shape[-1]
    time = count if count == DYNAMIC_INDEX else (count - 1) * hop + length
    shape = [*x.shape[:-2], 1, time]
    return x.call("conv_transpose1d", shape, input=x, weight=weight, stride=[hop])


def sliced_to(x: Real, start: int, stop: int | None) -> Real:
    return x.like(x.build.slice(x.value, x.rank - 1, start, stop))


def envelope_of(window: Array, hop: int, count: int) -> Array:
    """The sum of the squared window functions of all frames."""
    total = np.zeros((count - 1) * hop + len(window))
    for frame in range(count):
        total[frame * hop :][: len(window)] += window**2
    return total
