# pyright: basic
"""
How far results may be from those of eager mode.

A program is run again with noise on what its calls take and return: as much as an op may
round differently. What the noise does to an output is what rounding may do to it, and no
more: where a large number is subtracted again, the noise of it stays; where a sigmoid
takes it, none does. Values that an output does not depend on have no effect on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from differential.program import Call, Link, Program, Ref, mapped, resolved
from torch import Tensor

NOISE: Mapping[torch.dtype, float] = {
    torch.float64: 2.0**-50,
    torch.float32: 2.0**-21,
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
}
"""The largest relative error of an element that is rounded a few times."""
TRIALS = 4
FACTOR = 2
"""How many times the largest effect of the trials is allowed."""
LEAST: Mapping[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.float32: 1e-9,
    torch.float16: 1e-6,
    torch.bfloat16: 1e-6,
}
"""
An error allowed everywhere: of numbers that underflow, and, in halves, of sums in float32
that should be 0.
"""
CORE_ML = "coreml", "oldest", "newest", "convert"
"""The paths to packages, which have no float64."""
TILED = "native", "checked", "compile", "pt2"
"""Those that may compute convolutions by Winograd's algorithm."""
WINOGRAD = 1e-5
"""Half of the error that docs/native.md states, in parts of the range of the result."""
NORMS = "layer_norm", "group_norm"
INACCURATE = *NORMS, "sigmoid", "silu"
"""Ops of which PyTorch rounds some results more than usual, or to 0."""
BICUBIC = 2
LARGEST_TERM = 12
"""Of a weight at a distance of 1 to 2: 0.75 times (8 x), where x is 2."""


def allowed(program: Program, run: int, path: str) -> list[tuple[float, Tensor]]:
    """
    For each output, the error allowed, and which elements are compared.

    Those that the noise makes infinite, or finite, are not.
    """
    generator = torch.Generator().manual_seed(0)
    right = program.values(run)
    trials = [noisy(program, run, path, generator) for _ in range(TRIALS)]
    found: list[tuple[float, Tensor]] = []
    for number in program.outputs:
        value = right[number]
        if not value.is_floating_point():
            found.append((0, torch.ones_like(value, dtype=torch.bool)))
            continue
        others = [trial[number].double() for trial in trials]
        wide = value.double()
        kept = torch.ones_like(value, dtype=torch.bool)
        for other in others:
            kept &= other.isfinite() == wide.isfinite()
            kept &= other.isnan() == wide.isnan()
        finite = wide.isfinite() & kept
        most = max((largest(o[finite] - wide[finite]) for o in others), default=0.0)
        floor = noise_of(value.dtype, path) * largest(wide[finite])
        found.append((FACTOR * max(most, floor) + LEAST[value.dtype], kept))
    return found


def largest(x: Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0


def noise_of(dtype: torch.dtype, path: str) -> float:
    if path in CORE_ML and dtype == torch.float64:
        return NOISE[torch.float32]
    return NOISE[dtype]


def is_tiled(call: Call, values: Sequence[Tensor]) -> bool:
    """Whether a call is a convolution that Winograd's algorithm may compute."""
    if "aten.convolution" not in str(call.target):
        return False
    weight = values[call.args[1].number]
    return weight.dtype == torch.float32 and weight.shape[2:] == (3, 3)


def rounded_means(call: Call, x: Tensor) -> Tensor:
    """For each element of a norm's result, the scaled mean that is subtracted."""
    if not x.numel():
        return x.double()
    size, eps = call.args[1], call.args[-2]
    groups = x.shape[0] * size if isinstance(size, int) else x.numel() // prod(size)
    rows = x.double().reshape(groups, -1)
    variances = rows.var(1, correction=0, keepdim=True)
    means = rows.abs().mean(1, True) / (variances + eps).sqrt()
    return means.expand(rows.shape).reshape(x.shape)


def own_error(call: Call, values: Sequence[Tensor]) -> Tensor:
    """
    How far each element of a call's result is from what float64 gives.

    PyTorch adds up the squares of a channel one by one where channels are last in memory,
    and computes 1 / (1 + exp(90)) as 0, since exp(90) is infinite.
    """
    operands = resolved(call.args, values)
    wide = [x.double() if isinstance(x, Tensor) else x for x in operands]
    return (call.target(*wide) - call.target(*operands).double()).abs()


def noisy(
    program: Program, run: int, path: str, generator: torch.Generator
) -> list[Tensor]:
    """The values of a run with noise on the operands and results of floats."""

    def changed(x: Tensor, error: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        # No noise on infinite elements: inf - inf is NaN.
        error = error.where(x.isfinite(), 0)
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return (x + noise * noise_of(x.dtype, path) * error).to(x.dtype)

    def operands(call: Call) -> Any:
        grid = call.args[1] if "grid_sampler" in str(call.target) else None

        def operand(link: Link) -> Any:
            x = values[link.number]
            if not isinstance(link, Ref):
                return x.shape[link.dim]
            # A place is counted from the border, which is at -1.
            return changed(x, x.double().abs() + (1 if link is grid else 0))

        return mapped(call.args, operand)

    def computed(call: Call) -> Tensor:
        x = call.target(*operands(call))
        error = x.double().abs()
        if "upsample" in str(call.target):
            # Its places are rounded as well, to parts of the size of its input.
            image = values[call.args[0].number]
            error += max(image.shape[2:]) * largest(image)
        if "grid_sampler_2d" in str(call.target) and call.args[2] == BICUBIC:
            # Terms of the polynomials are larger than the weight. PyTorch rounds each.
            image = values[call.args[0].number]
            error += LARGEST_TERM * largest(image) if x.itemsize == 2 else 0
        if path in TILED and is_tiled(call, values):
            error += 2 * WINOGRAD * largest(x) / noise_of(x.dtype, path)
        if any(norm in str(call.target) for norm in NORMS):
            error += rounded_means(call, values[call.args[0].number])
        if any(name in str(call.target) for name in INACCURATE):
            error += own_error(call, right) / noise_of(x.dtype, path)
        return changed(x, error)

    right = program.values(run)
    count = len(program.inputs)
    values = list(right[:count])
    for exact, call in zip(right[count:], program.calls, strict=True):
        if exact.is_floating_point():
            values.append(computed(call))
        else:
            # What is compared or rounded to integers is exact, if not by chance.
            values.append(exact)
    return values
