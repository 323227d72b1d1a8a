# pyright: basic
"""Functions of float32 against float64, in units of the last place, on all exponents."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from functions import Function
from xdsl.dialects import llvm
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region

import padc
from padc.ir.arith import RemFOp
from padc.passes.buffers_to_llvm import vector_terms
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder
from padc.passes.buffers_to_llvm.vector_math import FUNCTIONS, vector_function

BOUNDS = {
    "exp": 2,
    "exp2": 2,
    "log": 2,
    "log2": 2,
    "log10": 2,
    "expm1": 4,
    "log1p": 4,
    "tanh": 4,
    "erf": 4,
    "sin": 4,
    "cos": 4,
    **dict.fromkeys("acos acosh asin asinh atan atanh cosh sinh tan".split(), 4),
}
"""The largest error of each function, in units of the last place."""
OF_TWO = "Atan2Op", "PowFOp", "RemFOp"
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 88.72283, -103.97]
SPECIAL += [1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, -3.4028235e38]


def samples(seed: int) -> torch.Tensor:
    """Floats of every sign and exponent, special ones, and usual ones."""
    draw = np.random.default_rng(seed)
    exponents = np.arange(512, dtype=np.uint32)[:, None] << 23
    mantissas = draw.integers(0, 2**23, (512, 150), dtype=np.uint32)
    floats = (exponents | mantissas).view(np.float32).ravel()
    ranges = 0.1, 1, 2, 30, 90, 150
    usual = np.concatenate([draw.uniform(-a, a, 30_000) for a in ranges])
    return torch.from_numpy(np.concatenate([floats, SPECIAL, usual]).astype(np.float32))


def ulps(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The number of floats from `expected`, rounded, to `actual`; 0 from NaN to NaN."""
    expected = expected.float()
    assert torch.equal(actual.isnan(), expected.isnan())
    zeros = expected == 0
    assert torch.equal(actual.signbit()[zeros], expected.signbit()[zeros])

    def place(x: torch.Tensor) -> torch.Tensor:
        bits = x.view(torch.int32).long()
        return torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    distance = (place(actual) - place(expected)).abs()
    return distance.masked_fill(expected.isnan(), 0)


@pytest.mark.parametrize("name", BOUNDS)
def test_functions_are_accurate_over_all_floats(name: str):
    x, function = samples(0), getattr(torch, name)

    actual = padc.compile(Function(function), (x,))(x)

    assert ulps(actual, function(x.double())).max() <= BOUNDS[name]


def test_erf_ends_at_1():
    x = torch.linspace(3, 5, 100_001)

    actual = padc.compile(Function(torch.erf), (x,))(x)

    assert actual.max() == 1
    assert (actual[x > 3.93] == 1).all()


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "erf"])
def test_functions_without_instructions_of_avx512(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vector_terms, "VECTOR_BYTES", 1 << 20)
    monkeypatch.setenv("PADC_CACHE_DIR", "")

    test_functions_are_accurate_over_all_floats(name)


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        (lambda x: (-abs(x)).exp(), 2),
        # e^-x / (e^-x + 1)
        (lambda x: torch.stack([-abs(x), torch.zeros_like(x)], 1).softmax(1), 4),
    ],
)
def test_powers_of_what_is_not_positive(
    function: Callable[[torch.Tensor], torch.Tensor], bound: int
):
    x = samples(6)

    actual = padc.compile(Function(function), (x,))(x)

    assert ulps(actual, function(x.double())).max() <= bound


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_small_angles_are_accurate(name: str):
    """Blocks of angles up to 2^20 have code of their own."""
    near = (torch.arange(200_000) * (torch.pi / 2)).float()
    x = torch.cat([samples(5), near, near.nextafter(torch.tensor(torch.inf)), -near])
    x = x[x.abs() <= 2**20]
    function = getattr(torch, name)

    actual = padc.compile(Function(function), (x,))(x)

    assert ulps(actual, function(x.double())).max() <= BOUNDS[name]


def test_blocks_of_small_and_large_angles():
    x = torch.linspace(-9, 9, 5000)
    x[[1024, 2047, 4999]] = torch.tensor([1e30, torch.inf, torch.nan])
    numbers = torch.arange(5120).view(128, 40) * 8192.0

    def function(x: torch.Tensor, numbers: torch.Tensor) -> list[torch.Tensor]:
        # Angles that are given, computed, and in the place of the result.
        inner = torch.sin(torch.floor(torch.cos(numbers)) * 2.0**100)
        return [torch.sin(x), inner, torch.cos(numbers @ torch.eye(40).to(numbers))]

    actual = padc.compile(Function(function), (x, numbers), threads=1)(x, numbers)

    for each, expected in zip(actual, function(x.double(), numbers.double())):
        assert ulps(each, expected).max() <= 4


def test_powers_are_accurate_over_all_floats():
    x = samples(1)
    draw = torch.Generator().manual_seed(0)
    special = torch.tensor([*SPECIAL, 2**24, 2**24 + 2, 3.0, -3.0, 7.0, 1e10])
    pairs = torch.cartesian_prod(special, special)
    near = torch.rand(50_000, generator=draw) * 4, torch.randn(50_000, generator=draw)
    base = torch.cat([x, x.abs(), pairs[:, 0], near[0]])
    other = samples(2)
    exponent = torch.cat([other, other.clamp(-20, 20), pairs[:, 1], near[1] * 30])

    actual = padc.compile(Function(torch.pow), (base, exponent))(base, exponent)

    assert ulps(actual, base.double() ** exponent.double()).max() <= 4


def test_angles_of_vectors_are_accurate_over_all_floats():
    special = torch.tensor(SPECIAL)
    pairs = torch.cartesian_prod(special, special)
    usual = torch.randn(2, 50_000, generator=torch.Generator().manual_seed(0))
    y = torch.cat([samples(7), pairs[:, 0], usual[0]])
    x = torch.cat([samples(8), pairs[:, 1], usual[1]])

    actual = padc.compile(Function(torch.atan2), (y, x))(y, x)

    assert ulps(actual, torch.atan2(y.double(), x.double())).max() <= 4


@pytest.mark.parametrize("function", [torch.sigmoid, torch.erf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
):
    x = samples(3).to(dtype)
    expected = function(x.float()).to(dtype)

    actual = padc.compile(Function(function), (x,))(x)

    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        actual, expected, rtol=eps, atol=eps * 1e-3, equal_nan=True
    )


def test_the_sigmoid_is_accurate_over_all_floats():
    x = samples(4)

    actual = padc.compile(Function(torch.sigmoid), (x,))(x)

    assert ulps(actual, x.double().sigmoid()).max() <= 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_remainders_are_exact(dtype: torch.dtype):
    special = torch.tensor([*SPECIAL, 7.0, 0.3, 5e-7]).to(dtype)
    pairs = torch.cartesian_prod(special, special)
    near = torch.arange(-3000, 3000).to(dtype) * 0.1
    draw = torch.Generator().manual_seed(0)
    divisors = torch.rand(60_000, generator=draw).to(dtype)
    usual = torch.randn(60_000, generator=draw).to(dtype) * 100
    # Blocks of large quotients, multiples of divisors, and small quotients.
    x = torch.cat([samples(9).to(dtype), pairs[:, 0], near, near, usual])
    y = torch.cat([samples(10).to(dtype), pairs[:, 1], near * 0 + 0.1, -near, divisors])

    actual = padc.compile(Function(torch.fmod), (x, y))(x, y)

    # PyTorch's vectors of floats give NaN where a quotient overflows.
    with np.errstate(invalid="ignore"):
        exact = np.fmod(x.double().numpy(), y.double().numpy())
    expected = torch.from_numpy(exact).to(dtype)
    assert torch.equal(actual.isnan(), expected.isnan())
    actual, expected = (each.nan_to_num(0.5) for each in (actual, expected))
    assert torch.equal(actual, expected)
    assert torch.equal(actual.signbit(), expected.signbit())


@pytest.mark.parametrize("of_small", [False, True])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_have_neither_calls_nor_branches(kind: type, of_small: bool):
    region = Region(Block(arg_types=[f32, f32]))
    build = LlvmBuilder(region, region.block)
    build.large_arguments = [] if of_small else None
    args = region.block.args[: 2 if kind.__name__ in OF_TWO else 1]

    found = vector_function(build, kind(*args), args)

    # A large remainder takes a loop.
    assert (found is None) == (kind is RemFOp and not of_small)
    assert len(region.blocks) == 1
    assert not any(isinstance(op, llvm.CallOp) for op in region.walk())
