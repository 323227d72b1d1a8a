"""Windows of spectra, which are constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from padc.ir.weights import Array
from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import RealTensor


def cosines(*factors: float) -> Callable[[Array], Array]:
    """A sum of cosines of 0, 1, 2 ... turns, with alternating signs."""

    def window(x: Array) -> Array:
        terms = (
            (-1) ** turns * factor * np.cos(2 * np.pi * turns * x)
            for turns, factor in enumerate(factors)
        )
        return np.sum([*terms], axis=0)

    return window


def window_of(
    call: ComplexCall, values: Callable[[Array], Array], *factors: float
) -> RealTensor:
    """A window: `values` at positions from 0 to 1; `factors` identify `values`."""
    length = call.integer("window_length")
    positions = call.op.schema.positions
    periodic = call.boolean("periodic") if "periodic" in positions else True
    name = call.name.split(".")[1]

    def window() -> Array:
        if length == 1:
            return np.ones(1)
        return values(np.arange(length) / (length if periodic else length - 1))

    return call.matrix((name, length, periodic, *factors), window)


@row("aten.hann_window", "aten.hann_window.periodic")
def split_hann(call: ComplexCall) -> RealTensor:
    return window_of(call, cosines(0.5, 0.5))


@row(
    *("aten.hamming_window", "aten.hamming_window.periodic"),
    *("aten.hamming_window.periodic_alpha", "aten.hamming_window.periodic_alpha_beta"),
)
def split_hamming(call: ComplexCall) -> RealTensor:
    positions = call.op.schema.positions
    alpha = call.number("alpha") if "alpha" in positions else 0.54
    beta = call.number("beta") if "beta" in positions else 0.46
    return window_of(call, cosines(alpha, beta), alpha, beta)


@row("aten.blackman_window", "aten.blackman_window.periodic")
def split_blackman(call: ComplexCall) -> RealTensor:
    return window_of(call, cosines(0.42, 0.5, 0.08))


@row("aten.bartlett_window", "aten.bartlett_window.periodic")
def split_bartlett(call: ComplexCall) -> RealTensor:
    return window_of(call, lambda x: 1 - np.abs(2 * x - 1))


@row(
    *("aten.kaiser_window", "aten.kaiser_window.periodic", "aten.kaiser_window.beta"),
)
def split_kaiser(call: ComplexCall) -> RealTensor:
    beta = call.number("beta") if "beta" in call.op.schema.positions else 12.0

    def values(x: Array) -> Array:
        root = np.sqrt(np.maximum(1 - (2 * x - 1) ** 2, 0))
        return np.i0(beta * root) / np.i0(beta)

    return window_of(call, values, beta)
