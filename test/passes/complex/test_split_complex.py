# pyright: basic
"""Complex tensors and Fourier transforms in a Core ML package, against PyTorch."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from functions import Function, Functions, Several, check_each, exportable
from torch import Tensor, fft, nn

import padc
from padc.errors import UnsupportedError


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def real(functions: Functions) -> Functions:
    """The functions with their complex results as real tensors."""

    def flat(function: Any) -> Any:
        def call(*inputs: Tensor) -> Tensor:
            y = function(*inputs)
            return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y

        return call

    return {name: flat(function) for name, function in functions.items()}


def check(
    functions: Functions, *inputs: Tensor, target: str = "iOS15", **tolerances: Any
) -> padc.Program:
    functions = exportable(real(functions), inputs)
    program = padc.convert(Several(functions), inputs, target=target)
    check_each(functions, program.run(*inputs), *inputs, **tolerances)
    return program


def pair(a: Tensor, b: Tensor) -> Tensor:
    return torch.complex(a, b)


# --- arithmetic -----------------------------------------------------------------------

ARITHMETIC: Functions = {
    "complex": pair,
    "polar": torch.polar,
    "real": lambda a, b: pair(a, b).real,
    "imag": lambda a, b: pair(a, b).imag,
    "conj": lambda a, b: pair(a, b).conj(),
    "conj of real": lambda a, b: a.conj() + b,
    "imag of conj": lambda a, b: pair(a, b).conj().imag,
    "abs": lambda a, b: pair(a, b).abs(),
    "power": lambda a, b: pair(a, b).abs() ** 2,
    "both": lambda a, b: pair(a, b).abs().square() + pair(a, b).abs(),
    "angle": lambda a, b: pair(a, b).angle(),
    "sgn": lambda a, b: torch.sgn(pair(a, b)),
    "neg": lambda a, b: -pair(a, b),
    "add": lambda a, b: pair(a, b) + pair(b, a),
    "add alpha": lambda a, b: torch.add(pair(a, b), pair(b, a), alpha=2),
    "add real": lambda a, b: pair(a, b) + a,
    "add to real": lambda a, b: a - pair(a, b),
    "add number": lambda a, b: pair(a, b) + 2,
    "add complex number": lambda a, b: pair(a, b) + (1 + 2j),
    "number minus": lambda a, b: 2 - pair(a, b),
    "mul": lambda a, b: pair(a, b) * pair(b, a),
    "mul real": lambda a, b: pair(a, b) * b,
    "mul number": lambda a, b: pair(a, b) * 3,
    "mul i": lambda a, b: a * 1j,
    "mul broadcasting": lambda a, b: pair(a, b)[:, :1] * pair(b, a)[0],
    "add broadcasting": lambda a, b: pair(a, b)[:1] + b,
    "div": lambda a, b: pair(a, b) / pair(b + 1, a),
    "div by real": lambda a, b: pair(a, b) / b,
    "div of real": lambda a, b: a / pair(b, a),
    "div by number": lambda a, b: pair(a, b) / 3,
    "reciprocal": lambda a, b: 1 / pair(a, b),
    "square": lambda a, b: pair(a, b) ** 2,
    "cube": lambda a, b: pair(a, b) ** 3,
    "minus third power": lambda a, b: pair(a, b) ** -3,
    "root": lambda a, b: pair(a, b) ** 0.5,
    "sqrt": lambda a, b: pair(a, b).sqrt(),
    "exp": lambda a, b: pair(a, b).exp(),
    "exp of i": lambda a, b: torch.exp(1j * a) + b,
    "log": lambda a, b: pair(a, b).log(),
    "sin": lambda a, b: pair(a, b).sin(),
    "cos": lambda a, b: pair(a, b).cos(),
    "sinh": lambda a, b: pair(a, b).sinh(),
    "cosh": lambda a, b: pair(a, b).cosh(),
    "norm": lambda a, b: torch.linalg.vector_norm(pair(a, b), dim=1),
    "eq": lambda a, b: pair(a, b) == pair(a, a),
    "constant": lambda a, b: pair(a, b) * torch.tensor([1 + 2j, 3 - 1j, 0, 1j, 2]),
    "to complex": lambda a, b: a.to(torch.complex64) * b,
    "zeros": lambda a, b: torch.zeros(4, 5, dtype=torch.complex64) + pair(a, b),
    "full": lambda a, b: torch.full((4, 5), 2.0, dtype=torch.complex64) * pair(a, b),
    "to real": lambda a, b: pair(a, b).real.to(torch.complex64).real,
}

MOVES: Functions = {
    "view": lambda a, b: pair(a, b).view(2, 10).reshape(5, 4),
    "permute": lambda a, b: pair(a, b).permute(1, 0).unsqueeze(0),
    "transpose": lambda a, b: pair(a, b).mT,
    "conjugate transpose": lambda a, b: pair(a, b).mH,
    "slice": lambda a, b: pair(a, b)[1:, ::2],
    "select": lambda a, b: pair(a, b)[1],
    "expand": lambda a, b: pair(a, b)[:1].expand(3, 5).contiguous(),
    "flip": lambda a, b: pair(a, b).flip(0).roll(1, 1),
    "cat": lambda a, b: torch.cat([pair(a, b), pair(b, a)], 1),
    "cat of real": lambda a, b: torch.cat([pair(a, b), b.to(torch.complex64)]),
    "stack": lambda a, b: torch.stack([pair(a, b), pair(b, a)], 1),
    "where": lambda a, b: torch.where(a > 0, pair(a, b), pair(b, a)),
    "where number": lambda a, b: torch.where(a > 0, pair(a, b), 1.0),
    "masked fill": lambda a, b: pair(a, b).masked_fill(a > 0, 2.0),
    "pad": lambda a, b: nn.functional.pad(pair(a, b), [1, 2]),
    "pad with number": lambda a, b: nn.functional.pad(pair(a, b), [1, 2], value=3.0),
    "chunk": lambda a, b: pair(a, b).chunk(2, 0)[1],
    "split": lambda a, b: pair(a, b).split([2, 3], 1)[1],
    "unbind": lambda a, b: a.to(torch.complex64).unbind(0)[1] + pair(a, b)[0],
    "index": lambda a, b: pair(a, b).index_select(0, torch.tensor([2, 0])),
    "sum": lambda a, b: pair(a, b).sum(1),
    "mean": lambda a, b: pair(a, b).mean(0),
    "matmul": lambda a, b: pair(a, b) @ pair(b, a).T,
    "matmul of itself": lambda a, b: torch.einsum("ij,ij->i", pair(a, b), pair(a, b)),
    "einsum": lambda a, b: torch.einsum("ij,kj,j->ik", pair(a, b), b, pair(a, b)[0]),
    "assignment": lambda a, b: assigned(pair(a, b)),
}


LAYERS = nn.ModuleList(
    [
        nn.Linear(5, 3, dtype=torch.cfloat),
        nn.Conv1d(4, 3, 2, dtype=torch.cfloat),
        nn.ConvTranspose1d(4, 3, 2, dtype=torch.cfloat),
    ]
).requires_grad_(False)

FUNCTIONS: Functions = {
    name: lambda a, b, function=getattr(torch, name): function(pair(a, b))
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atanh", "exp2", "expm1", "log10"),
        *("log1p", "log2", "rsqrt", "sigmoid", "tan", "tanh", "isfinite", "isnan"),
        *(
            "isinf",
            "logical_not",
            "nan_to_num",
            "prod",
            "var",
            "std",
            "any",
            "positive",
        ),
    )
} | {
    "silu": lambda a, b: nn.functional.silu(pair(a, b)),
    "complex power": lambda a, b: pair(a, b) ** pair(b, a),
    "power of 2": lambda a, b: 2 ** pair(a, b),
    "power of real": lambda a, b: a ** pair(a, b),
    "power i": lambda a, b: pair(a, b) ** 2j,
    "power i of real": lambda a, b: a**1j,
    "prod along": lambda a, b: pair(a, b).prod(1),
    "cumprod": lambda a, b: pair(a, b).cumprod(1),
    "std along": lambda a, b: torch.std(pair(a, b), 1, correction=0),
    "var_mean": lambda a, b: torch.var_mean(pair(a, b), 1)[0],
    "logaddexp": lambda a, b: torch.logaddexp(pair(a, b), pair(b, a)),
    "as floats": lambda a, b: pair(a, b).view(torch.float32),
    "of floats": lambda a, b: a[:, :4].contiguous().view(torch.complex64),
    "linear": lambda a, b: LAYERS[0](pair(a, b)),
    "conv1d": lambda a, b: LAYERS[1](pair(a, b)),
    "conv_transpose1d": lambda a, b: LAYERS[2](pair(a, b)[None]),
    "inverse": lambda a, b: torch.linalg.inv(pair(a, b)[:, :4]),
    "solution": lambda a, b: torch.linalg.solve(pair(a, b)[:, :4], pair(b, a)),
    "determinant": lambda a, b: torch.linalg.det(pair(a, b)[:3, :3]),
    "sign": lambda a, b: torch.linalg.slogdet(pair(a, b)[:3, :3])[0],
    "logarithm": lambda a, b: torch.slogdet(pair(a, b)[:2, :2] * 1e-30)[1],
    "logdet": lambda a, b: torch.logdet(pair(a, b)[None, :3, :3]),
    "determinant of a batch": lambda a, b: torch.det(pair(a, b)[None, :3, :3]),
}

DECOMPOSED: Functions = {
    "addmm": lambda a, b: torch.addmm(
        pair(a, b)[:, :4], pair(a, b), pair(b, a).T, alpha=2j, beta=1j
    ),
    "baddbmm": lambda a, b: torch.baddbmm(
        pair(a, b)[None, :, :4], pair(a, b)[None], pair(b, a).T[None], beta=0.5
    ),
    "outer": lambda a, b: torch.outer(pair(a, b)[0], pair(a, b)[1]),
    "vdot": lambda a, b: torch.vdot(pair(a, b)[0], pair(a, b)[1]),
    "kron": lambda a, b: torch.kron(pair(a, b), pair(b, a)),
    "lerp": lambda a, b: torch.lerp(pair(a, b), pair(b, a), pair(a, a)),
    "addcmul": lambda a, b: torch.addcmul(pair(a, b), pair(b, a), pair(a, a), value=2j),
    "cross": lambda a, b: torch.linalg.cross(pair(a, b)[:, :3], pair(b, a)[:, :3]),
    "diff": lambda a, b: torch.diff(pair(a, b), n=2),
    "isclose": lambda a, b: torch.isclose(pair(a, b), pair(a, b) + 1e-9),
    "matrix norm": lambda a, b: torch.linalg.matrix_norm(pair(a, b)),
    "block_diag": lambda a, b: torch.block_diag(pair(a, b), pair(b, a)),
    "logsumexp": lambda a, b: torch.logsumexp(pair(a, b), 1),
    "real too": lambda a, b: torch.outer(a[0], b[0]).diff(),
}

SWAP = torch.tensor([1, 0, 3, 2])
FIRST = torch.tensor([[0], [1]])

NUMBERS: Functions = {
    "full": lambda a, b: torch.full((4, 5), 1j) + pair(a, b),
    "full of a dtype": lambda a, b: torch.full((2,), 1 + 2j, dtype=torch.complex64),
    "full_like": lambda a, b: torch.full_like(pair(a, b), 1j),
    "full_like, real": lambda a, b: (
        torch.full_like(pair(a, b), 2, dtype=torch.float32) + a
    ),
    "new_full": lambda a, b: pair(a, b).new_full((2,), 2 - 1j),
    "fill": lambda a, b: torch.empty_like(pair(a, b)).fill_(1j),
    "fill by a tensor": lambda a, b: (pair(a, b) * 2).fill_(torch.tensor(1j)),
    "where": lambda a, b: torch.where(a > 0, pair(a, b), 1j),
    "where of numbers": lambda a, b: torch.where(a > 0, 1j, 2.0),
    "where of both": lambda a, b: torch.where(a > 0, a, pair(a, b)),
    "masked fill": lambda a, b: pair(a, b).masked_fill(a > 0, 1j),
    "pad": lambda a, b: torch.constant_pad_nd(pair(a, b), (1, 0), 1j),
    "scatter": lambda a, b: pair(a, b).scatter(1, FIRST, 2j),
    "index fill": lambda a, b: pair(a, b).index_fill(0, FIRST[0], 2 + 1j),
    "index fill by a tensor": lambda a, b: pair(a, b).index_fill(
        0, FIRST[0], torch.tensor(2 + 1j)
    ),
    "index copy": lambda a, b: pair(a, b).index_copy(0, SWAP, pair(b, a)),
    "index put": lambda a, b: pair(a, b).index_put((SWAP,), torch.tensor(1j)),
    "index add": lambda a, b: pair(a, b).index_add(0, SWAP, pair(b, a)),
    "index add, scaled": lambda a, b: pair(a, b).index_add(
        0, SWAP, pair(b, a), alpha=2
    ),
    "assignment": lambda a, b: numbered(pair(a, b)),
    "eq": lambda a, b: pair(a, b) == 1j,
    "eq, true": lambda a, b: pair(a * 0, b * 0 + 1) == 1j,
    "ne": lambda a, b: pair(a * 0, b * 0 + 1) != 1j,
    "eq of real": lambda a, b: a == pair(a, b * 0),
    "minus": lambda a, b: 1j - pair(a, b),
    "minus real": lambda a, b: 1j - a,
    "rsub": lambda a, b: torch.rsub(pair(a, b), pair(b, a), alpha=2j),
    "add": lambda a, b: pair(a, b).add(pair(b, a), alpha=2j),
    "add scaled number": lambda a, b: pair(a, b).add(3, alpha=1j),
    "div": lambda a, b: 2j / pair(a, b) + pair(a, b) / 2j,
    "to real": lambda a, b: a.clone().copy_(pair(b, a)),
    "of real": lambda a, b: pair(a, b).copy_(a[0]),
    "to bool": lambda a, b: pair(a * 0, b).to(torch.bool),
    "to bool, false": lambda a, b: pair(a * 0, b * 0).to(torch.bool),
    "to integer": lambda a, b: pair(a * 5, b).to(torch.int64),
    "sum, real": lambda a, b: pair(a, b).sum(1, dtype=torch.float32),
    "sum, complex": lambda a, b: a.sum(dtype=torch.complex64),
}


def numbered(z: Tensor) -> Tensor:
    y: Any = z.clone()  # the stubs know no assignment of complex numbers
    y[:, 1] = 0
    y[0, 0] = 1j
    y[1, 2] = z.real[0, 0]
    return y


def assigned(z: Tensor) -> Tensor:
    y = torch.zeros(4, 6, dtype=torch.complex64)
    y[1:3, :5] = z[:2]
    return y


@pytest.mark.parametrize(
    "functions",
    [ARITHMETIC, MOVES, NUMBERS, FUNCTIONS, DECOMPOSED],
    ids=["arithmetic", "moves", "numbers", "functions", "decomposed"],
)
def test_complex_tensors(functions: Functions) -> None:
    check(functions, torch.randn(4, 5), torch.randn(4, 5))


def test_extreme_values() -> None:
    """Squares would overflow, or vanish."""
    values = torch.tensor([0.0, -0.0, 1e-30, 3e30, 1.0, -2e38, math.inf])
    a, b = torch.meshgrid(values, values, indexing="ij")
    names = "abs", "real", "imag", "neg"

    check({name: ARITHMETIC[name] for name in names}, a, b, equal_nan=True)


def test_quotients_of_extreme_values() -> None:
    a = torch.tensor([1.0, -2.0, 1e30, 1e-30, 0.0])
    b = torch.tensor([2.0, 0.0, 2e30, 3e-30, 1.0])
    functions: Functions = {
        "large": lambda a, b: pair(b, a) / pair(a, b),
        "infinite": lambda a, b: 1 / pair(b / 0, a) + 1 / pair(a, b + math.inf),
        "root of infinite": lambda a, b: pair(a.abs() / 0, b).sqrt(),
        "root": lambda a, b: pair(b, a / 0).sqrt(),
        "root of 0": lambda a, b: pair(a * 0, b * 0).sqrt(),
        "root of negative": lambda a, b: pair(-b, a * 0).sqrt(),
        "by 0": lambda a, b: (pair(a, b) / pair(a * 0, b * 0)).real,
    }

    check(functions, a, b, equal_nan=True)


def test_functions_of_special_values() -> None:
    """On the axes, where cuts are, and next to the poles of atan and atanh."""
    values = torch.tensor([0.0, 1e-3, 0.5, 1.0, 2.0, -1e-3, -1.0, -2.0, 30.0, 200.0])
    a, b = (x.flatten() for x in torch.meshgrid(values, values, indexing="ij"))
    a, b = a[1:], b[1:]
    special = (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "expm1",
        "log1p",
        "tanh",
    )
    functions: Functions = {name: FUNCTIONS[name] for name in special} | {
        "sqrt": ARITHMETIC["sqrt"],
        "root": ARITHMETIC["root"],
        "exp": ARITHMETIC["exp"],
        "of 0": lambda a, b: pair(a * 0, b * 0) ** pair(a.abs() + 1, b),
        "isfinite": lambda a, b: torch.isfinite(pair(a, a / b)),
        "singular": lambda a, b: torch.logdet(pair(a * 0, b * 0)[:1, None]),
    }

    check(functions, a, b, equal_nan=True, atol=1e-5, rtol=1e-4)


def test_complex_tensors_of_varying_size() -> None:
    functions = real(
        {
            "outer": lambda a, b: torch.outer(pair(a, b)[:, 0], pair(a, b)[:, 1]),
            "times a size": lambda a, b: pair(a, b) * a.shape[0] + a.shape[0],
            "full": lambda a, b: torch.full((a.shape[0], 3), 1j) * pair(a, b),
            "tanh": lambda a, b: pair(a, b).tanh(),
        }
    )
    dim = torch.export.Dim("rows", min=2, max=9)
    x = torch.randn(2, 3), torch.randn(2, 3)
    program = padc.convert(
        Several(functions), x, dynamic_shapes=(({0: dim}, {0: dim}),)
    )

    x = torch.randn(4, 3), torch.randn(4, 3)
    check_each(functions, program.run(*x), *x, atol=1e-5, rtol=1e-5)


# --- transforms -----------------------------------------------------------------------

NORMS = "backward", "ortho", "forward"

TRANSFORMS: Functions = {
    f"{name} {norm}": lambda a, b, f=getattr(fft, name), norm=norm: f(
        pair(a, b), norm=norm
    )
    for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "irfft", "hfft")
    for norm in NORMS
} | {
    f"{name} of real {norm}": lambda a, b, f=getattr(fft, name), norm=norm: f(
        a + b, norm=norm
    )
    for name in ("rfft", "ihfft", "rfft2", "rfftn", "fft", "fft2", "ihfftn", "ihfft2")
    for norm in NORMS
}

SIZES: Functions = {
    "fft of real": lambda a, b: fft.fft(a, dim=1) + b,
    "padded": lambda a, b: fft.fft(pair(a, b), n=9),
    "cropped": lambda a, b: fft.ifft(pair(a, b), n=3, dim=0),
    "rfft padded": lambda a, b: fft.rfft(a, n=9) + b[..., :1],
    "irfft odd": lambda a, b: fft.irfft(pair(a, b), n=7),
    "irfft padded": lambda a, b: fft.irfft(pair(a, b), n=12, dim=1),
    "irfft of real": lambda a, b: fft.irfft(a) * b[0, 0, 0],
    "irfft2": lambda a, b: fft.irfft2(pair(a, b), s=(5, 9)),
    "irfftn": lambda a, b: fft.irfftn(pair(a, b), dim=(0, 2)),
    "hfft2": lambda a, b: fft.hfft2(pair(a, b), s=(4, 7)),
    "hfftn": lambda a, b: fft.hfftn(pair(a, b)),
    "fft2 of sizes": lambda a, b: fft.fft2(pair(a, b), s=(7, 2)),
    "fftn of sizes": lambda a, b: fft.fftn(pair(a, b), s=(7, 2)),
    "of a vector": lambda a, b: fft.fft(pair(a, b)[0, 0]),
    "real part": lambda a, b: fft.fft(a + b).real,
    "shift": lambda a, b: fft.fftshift(fft.fft2(pair(a, b))),
    "shift back": lambda a, b: fft.ifftshift(a + b, dim=(1, 2)),
    "own c2c": lambda a, b: torch.ops.aten._fft_c2c(pair(a, b), [1, 2], 1, False),
    "own r2c": lambda a, b: torch.ops.aten._fft_r2c(a + b, [0, 2], 2, True),
    "own r2c whole": lambda a, b: torch.ops.aten._fft_r2c(a + b, [1, 2], 0, False),
    "own c2r": lambda a, b: torch.ops.aten._fft_c2r(pair(a, b), [1, 2], 2, 8),
}


@pytest.mark.parametrize("functions", [TRANSFORMS, SIZES], ids=["norms", "sizes"])
def test_transforms(functions: Functions) -> None:
    check(functions, torch.randn(3, 4, 5), torch.randn(3, 4, 5), atol=1e-5, rtol=1e-5)


def test_the_phase_of_real_frequencies() -> None:
    """Their imaginary part is 0, not a rounded sine, which has either sign."""
    functions: Functions = {"phase": lambda x: fft.rfft(x)[:, [0, 4]].angle()}
    check(functions, torch.randn(16, 8))


@pytest.mark.parametrize("length", [1, 2, 1000, 1031, 2048, 2187, 6000])
def test_long_transforms(length: int) -> None:
    """The error grows as that of PyTorch's does, which is the arbiter in float64."""
    a, b = torch.randn(2, length), torch.randn(2, length)
    functions = real(
        {
            "fft": lambda a, b: fft.fft(pair(a, b)),
            "rfft": lambda a, b: fft.rfft(a + b),
            "irfft": lambda a, b: fft.irfft(pair(a, b), n=length) * length,
            "first": lambda a, b: fft.fft(a.T, dim=0, norm="ortho").T,
        }
    )
    program = padc.convert(Several(functions), (a, b))

    for result, function in zip(program.run(a, b), functions.values(), strict=True):
        expected = function(a.double(), b.double())
        error = (result - expected).abs().max() / expected.abs().max()
        assert error < 2e-6


def test_a_batch_that_varies() -> None:
    functions = real(
        {
            "fft2": lambda x: fft.fft2(x),
            "rfft": lambda x: fft.irfft(fft.rfft(x, dim=1), dim=1),
            "first": lambda x: fft.fft(x, dim=2).abs(),
        }
    )
    dim = torch.export.Dim("batch", max=9)
    program = padc.convert(
        Several(functions), (torch.randn(2, 4, 6),), dynamic_shapes=(({0: dim},),)
    )

    x = torch.randn(5, 4, 6)
    check_each(functions, program.run(x), x, atol=1e-5, rtol=1e-5)


# --- spectrograms ---------------------------------------------------------------------


def spectrogram(x: Tensor, size: int = 64, **options: Any) -> Tensor:
    options.setdefault("window", torch.hann_window(options.get("win_length", size)))
    return torch.stft(x, size, **options, return_complex=True)


def round_trip(x: Tensor, **options: Any) -> Tensor:
    shared = {k: v for k, v in options.items() if k != "length"}
    y = spectrogram(x, **shared)
    shared.setdefault("window", torch.hann_window(options.get("win_length", 64)))
    shared.pop("pad_mode", None)
    return torch.istft(y, 64, **shared, length=options.get("length"))


SPECTRA: Functions = {
    "power": lambda x: spectrogram(x, hop_length=16).abs().pow(2),
    "magnitude": lambda x: spectrogram(x).abs(),
    "phase": lambda x: torch.view_as_real(spectrogram(x, hop_length=20)),
    "not centered": lambda x: spectrogram(x, center=False, hop_length=10),
    "constant padding": lambda x: spectrogram(x, pad_mode="constant"),
    "short window": lambda x: spectrogram(x, win_length=50, hop_length=16),
    "normalized": lambda x: spectrogram(x, normalized=True),
    "whole": lambda x: spectrogram(x, onesided=False),
    "odd": lambda x: spectrogram(x, 63, hop_length=21),
    "hamming": lambda x: spectrogram(x, window=torch.hamming_window(64)),
    "blackman": lambda x: spectrogram(x, window=torch.blackman_window(64, False)),
    "bartlett": lambda x: spectrogram(x, window=torch.bartlett_window(64)),
    "kaiser": lambda x: spectrogram(x, window=torch.kaiser_window(64, True, 8.0)),
    "no window": lambda x: torch.stft(x, 64, return_complex=True),
    "ones": lambda x: spectrogram(
        x, window=torch.ones(64, dtype=torch.float64).float()
    ),
    "computed": lambda x: spectrogram(x, window=x[0, :64]),
    "computed, short": lambda x: spectrogram(x, window=x[0, :49], win_length=49),
    "one signal": lambda x: spectrogram(x[0]),
    "inverse": lambda x: round_trip(x, hop_length=16),
    "inverse with length": lambda x: round_trip(x, hop_length=16, length=500),
    "inverse, longer": lambda x: round_trip(x, hop_length=16, length=540),
    "inverse, normalized": lambda x: round_trip(x, normalized=True, win_length=60),
    "inverse of one": lambda x: round_trip(x[0]),
    "windows": lambda x: x[:, :9] * torch.hann_window(9, periodic=False),
}


def test_spectrograms() -> None:
    check(SPECTRA, torch.randn(2, 500), atol=1e-4, rtol=1e-5)


def test_an_inverse_of_varying_length() -> None:
    functions: Functions = {
        "istft": lambda x: torch.istft(
            torch.view_as_complex(x), 64, 16, window=torch.hann_window(64)
        )
    }
    frames = torch.export.Dim.AUTO(
        min=10, max=99
    )  # PyTorch 2.15 guards more than a name has
    program = padc.convert(
        Several(functions),
        (torch.randn(2, 33, 30, 2),),
        dynamic_shapes=(({2: frames},),),
    )

    x = torch.randn(2, 33, 50, 2)
    check_each(functions, program.run(x), x, atol=1e-5, rtol=1e-5)


# --- models ---------------------------------------------------------------------------


class GlobalFilter(nn.Module):
    """The layer of GFNet."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, 8, 2) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = fft.rfft2(x, dim=(1, 2), norm="ortho")
        x = x * torch.view_as_complex(self.weight)
        return fft.irfft2(x, s=(6, 6), dim=(1, 2), norm="ortho")


class RotaryEmbedding(nn.Module):
    """As of Llama's first code."""

    def __init__(self) -> None:
        super().__init__()
        self.factors: Tensor
        angles = torch.outer(torch.arange(7.0), torch.rand(4))
        self.register_buffer("factors", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 4, 2))
        return torch.view_as_real(pairs * self.factors).flatten(-2)


class FourierMixing(nn.Module):
    """The layer of FNet."""

    def forward(self, x: Tensor) -> Tensor:
        return fft.fft(fft.fft(x, dim=-1), dim=-2).real


MODELS = {
    "global filter": (GlobalFilter(), (2, 6, 6, 8)),
    "rotary embedding": (RotaryEmbedding(), (2, 7, 8)),
    "fourier mixing": (FourierMixing(), (2, 12, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    model, shape = MODELS[name]
    x = torch.randn(shape)

    (result,) = padc.convert(model, (x,)).run(x)

    torch.testing.assert_close(result, model(x), atol=1e-5, rtol=1e-5)


def test_the_real_part_alone_is_one_product_for_each_dimension() -> None:
    text = padc.convert(FourierMixing(), (torch.randn(2, 12, 16),)).mlir()

    assert len(re.findall(r"(aten|mil)\.matmul", text)) == 2


# --- refusals -------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "output": (fft.fft, (4, 5), r"Core ML has no complex64"),
    "function": (
        lambda x: (x * 1j).put(SWAP, x * 1j).imag,
        (4,),
        r"aten\.put.*no complex form",
    ),
    "factor": (
        lambda x: (x * 1j).index_add(0, SWAP, x * 1j, alpha=2j).imag,
        (4,),
        "alpha is complex",
    ),
    "prime": (lambda x: fft.fft(x).abs(), (8209,), "too large a factor"),
    "long": (
        lambda x: fft.fft(x, 2**40).abs(),
        (9,),
        "a Fourier transform of 1099511627776 elements",
    ),
    "window": (
        lambda x: torch.istft(x[:128].view(1, 32, 4) * 1j, 62, window=x[:62]),
        (500,),
        "a window that is computed",
    ),
    "complex window": (
        lambda x: spectrogram(x, window=torch.ones(64) * 1j, onesided=False).abs(),
        (500,),
        "a complex window",
    ),
    "complex window, computed": (
        lambda x: spectrogram(x, window=x[:64] * 1j, onesided=False).abs(),
        (500,),
        "a complex window",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, shape, message = REFUSED[name]

    with pytest.raises(UnsupportedError, match=message):
        padc.convert(Function(function), (torch.randn(shape),))


def test_a_dynamic_length_is_refused() -> None:
    dims = ({0: torch.export.Dim("length", min=4, max=99)},)

    with pytest.raises(UnsupportedError, match="whose size varies"):
        padc.convert(
            Function(lambda x: fft.fft(x).abs()),
            (torch.randn(30),),
            dynamic_shapes=(dims,),
        )


def test_complex_inputs_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"complex64\[4\]"):
        padc.convert(Function(torch.abs), (torch.randn(4, dtype=torch.complex64),))


def test_real_operands_of_any_dtype() -> None:
    functions = real(
        {
            "shift": lambda x: fft.fftshift(x),
            "fft": lambda x: fft.fft(x),
            "rfft": lambda x: fft.rfft(x > 3),
            "conj": lambda x: x.conj() + torch.real(x),
            "angle": lambda x: torch.angle(x - 4),
            "angles": lambda x: torch.angle(
                torch.tensor([-0.0, math.nan, -2.0, 1.0]) * x[:, :1]
            ),
        }
    )
    x = torch.randint(1, 9, (4, 5))

    results = padc.convert(Several(functions), (x,)).run(x)
    check_each(functions, results, x, equal_nan=True)
