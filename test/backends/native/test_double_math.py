# pyright: basic
"""Functions of float64 against mpmath's, in units of the last place, on all exponents."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from functions import Function
from xdsl.dialects import llvm
from xdsl.dialects.builtin import f64
from xdsl.ir import Block, Region

import padc
from padc.passes.buffers_to_llvm.double_math import FUNCTIONS, SMALL
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder
from padc.passes.buffers_to_llvm.vector_math import vector_function

EXACT: dict[str, tuple[Callable[[Any], Any], int]] = {
    "exp": (mpmath.exp, 2),
    "exp2": (lambda x: mpmath.power(2, x), 2),
    "log": (mpmath.log, 2),
    "log2": (lambda x: mpmath.log(x, 2), 2),
    "log10": (mpmath.log10, 2),
    "expm1": (mpmath.expm1, 4),
    "log1p": (mpmath.log1p, 4),
    "tanh": (mpmath.tanh, 4),
    "erf": (mpmath.erf, 4),
    "sin": (mpmath.sin, 4),
    "cos": (mpmath.cos, 4),
    "tan": (mpmath.tan, 4),
    "acos": (mpmath.acos, 4),
    "acosh": (mpmath.acosh, 4),
    "asin": (mpmath.asin, 4),
    "asinh": (mpmath.asinh, 4),
    "atan": (mpmath.atan, 4),
    "atanh": (mpmath.atanh, 4),
    "cosh": (mpmath.cosh, 4),
    "sinh": (mpmath.sinh, 4),
}
"""Each function, and its largest error in units of the last place."""
OF_TWO = "Atan2Op", "PowFOp", "RemFOp"
OF_POSITIVE = "log", "log2", "log10"
ANGLES = "sin", "cos", "tan"
NEAR_1 = "log1p", "expm1", "asinh", "atanh", "sinh"
"""Functions that are near to their argument, whose difference to 1 is computed."""
NUMPY = {f"a{name}": f"arc{name}" for name in "cos cosh sin sinh tan tanh".split()}
"""The names of functions in numpy, where they differ from PyTorch's."""
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 709.782712893384]
SPECIAL += [709.7827128933841, -745.1332191019411, -745.1332191019412, 1024.0, -1075.0]
SPECIAL += [5e-324, -5e-324, 2.2250738585072014e-308, 2.225073858507201e-308]
SPECIAL += [1.7976931348623157e308, -1.7976931348623157e308, 5.9, 5.93, 6.0, -6.0]
SPECIAL += [np.nextafter(1.0, 0), np.nextafter(1.0, 2), 2.0**0.5, 0.5**0.5, 20.0, 19.06]


def samples(count: int) -> np.ndarray:
    """Floats of every sign and exponent, special ones, and usual ones."""
    draw = np.random.default_rng(0)
    exponents = np.arange(4096, dtype=np.uint64) << np.uint64(52)
    floats = exponents | draw.integers(0, 2**52, 4096, dtype=np.uint64)
    usual = [draw.uniform(-a, a, count) for a in (0.1, 1, 2, 30, 800)]
    near = 1 + draw.uniform(-1, 1, count) * 2.0 ** draw.integers(-52, 0, count)
    return np.concatenate([floats.view(np.float64), SPECIAL, *usual, near])


def exact(name: str, x: float) -> float:
    """The float that is nearest to a function of `x`."""
    function, _ = EXACT[name]
    with np.errstate(all="ignore"):
        if name == "erf":
            near = np.float64(math.erf(x))
        else:
            near = getattr(np, NUMPY.get(name, name))(x)
    # numpy is right where the result is one of these, or x one of those; the sines of
    # large angles are those of C.
    is_special = not np.isfinite(near) or near in (-1, 0, 1) or x in (-np.inf, np.inf)
    if is_special or (name in ANGLES and abs(x) > SMALL):
        return near
    # Of the smallest arguments, the difference to 1 has a thousand bits.
    is_tiny = name in NEAR_1 and abs(x) < 1e-9
    with mpmath.workprec(2300 if is_tiny else 150):
        return float(function(mpmath.mpf(float(x))))


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The number of floats between; 0 from NaN to NaN."""
    assert (np.isnan(actual) == np.isnan(expected)).all()
    assert (np.isinf(actual) == np.isinf(expected)).all()
    zeros = expected == 0
    assert (np.signbit(actual)[zeros] == np.signbit(expected)[zeros]).all()

    def place(x: np.ndarray) -> np.ndarray:
        bits = x.view(np.int64)
        return np.where(bits < 0, np.int64(-(2**63) + 1) - bits, bits).astype(object)

    return np.where(np.isnan(expected), 0, abs(place(actual) - place(expected)))


@pytest.mark.parametrize("name", EXACT)
def test_functions_are_accurate_over_all_floats(name: str):
    x = samples(1500)
    if name in OF_POSITIVE:
        x = np.concatenate([abs(x), [-1.0, -0.0, -np.inf]])
    expected = np.array([exact(name, each) for each in x])

    tensor = torch.from_numpy(x)
    actual = padc.compile(Function(getattr(torch, name)), (tensor,))(tensor)

    _, bound = EXACT[name]
    found = ulps(actual.numpy(), expected)
    assert found.max() <= bound, (x[found.argmax()], found.max())


def test_constants_do_not_depend_on_the_callers_decimal_context():
    module = "padc.passes.buffers_to_llvm.double_math"
    code = f"import decimal; decimal.getcontext().prec = 6; import {module} as m; "
    code += "print(m.split(m.HALF_LN2), m.half_pi(), m.exp_coefficients())"
    code += "; print(m.interpolated(m.erfcx_at, -0.05, 0.05, 5))"

    outputs = [
        subprocess.check_output([sys.executable, "-c", each], text=True)
        for each in (code, code.replace("prec = 6", "prec = 90"))
    ]

    assert outputs[0] == outputs[1]


def test_hyperbolic_tangents_of_tiny_numbers():
    x = torch.logspace(-300, -9, 10_000, dtype=torch.float64)

    assert torch.equal(padc.compile(Function(torch.tanh), (x,))(x), x)


@pytest.mark.parametrize(("name", "bound"), [("sin", 2), ("cos", 2), ("tan", 4)])
def test_small_angles_are_accurate(name: str, bound: int):
    """Also next to multiples of pi / 2; such blocks have code of their own."""
    numbers = np.arange(1, 41)[:, None]
    counts = (2.0 ** (numbers - 1) * np.linspace(1, 2, 150)).round().ravel()
    near = np.concatenate([counts, -counts]) * (np.pi / 2)
    # Floats that are closest to multiples of pi / 2, by its continued fraction.
    closest = [6381956970095103 * 2.0**-k for k in range(13, 60)]
    steps = [np.nextafter(near, side) for side in (-np.inf, np.inf)]
    x = np.concatenate([samples(1500), near, *steps, closest, [SMALL, -SMALL]])
    x = x[abs(x) <= SMALL]
    expected = np.array([exact(name, each) for each in x])

    tensor = torch.from_numpy(x)
    actual = padc.compile(Function(getattr(torch, name)), (tensor,))(tensor)

    assert ulps(actual.numpy(), expected).max() <= bound


def exact_power(x: float, y: float) -> float:
    """The float that is nearest to `x` to the power of `y`."""
    near = torch.pow(*torch.tensor([x, y], dtype=torch.float64)).item()
    if not np.isfinite(near) or near in (-1, 0, 1):
        return near
    with mpmath.workprec(200):
        return float(mpmath.power(x, y))


def test_powers_are_accurate_over_all_floats():
    draw, count = np.random.default_rng(1), 1500
    special = [*SPECIAL, 3.0, -3.0, 7.0, 1e10, 2.0**53, 2.0**53 + 2, 2.0**52 + 1]
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    sizes = draw.uniform(0.5, 1, count) * 2.0 ** draw.integers(-52, -1, count)
    near_1 = 1 + draw.choice([-1, 1], count) * sizes
    large = np.exp(draw.uniform(-700, 700, count))
    floats = abs(samples(0))
    x = [pairs[0], draw.uniform(-4, 4, count), floats, near_1, large]
    y = [
        pairs[1],
        draw.integers(-40, 40, count),
        draw.permutation(samples(0)),
        *(draw.uniform(-745, 710, count) / np.log(each) for each in (near_1, large)),
    ]
    base, exponent = (torch.from_numpy(np.concatenate(each)) for each in (x, y))
    expected = np.array(
        [exact_power(*each) for each in zip(base.tolist(), exponent.tolist())]
    )

    actual = padc.compile(Function(torch.pow), (base, exponent))(base, exponent)

    assert ulps(actual.numpy(), expected).max() <= 2


def test_angles_of_vectors_are_accurate_over_all_floats():
    draw = np.random.default_rng(2)
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    y = np.concatenate([pairs[0], samples(500), draw.normal(size=1500)])
    x = np.concatenate([pairs[1], draw.permutation(samples(500)), np.ones(1500)])
    with np.errstate(all="ignore"):
        near = np.arctan2(y, x)
    expected = near.copy()
    with mpmath.workprec(150):
        for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (y != 0)):
            expected[i] = float(mpmath.atan2(y[i], x[i]))

    inputs = torch.from_numpy(y), torch.from_numpy(x)
    actual = padc.compile(Function(torch.atan2), inputs)(*inputs)

    assert ulps(actual.numpy(), expected).max() <= 4


def test_softmax_of_two():
    """e^-x / (e^-x + 1)."""
    x = torch.from_numpy(samples(1500))
    x = -abs(x[x.isfinite()])

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x, torch.zeros_like(x)], 1).softmax(1)

    actual = padc.compile(Function(function), (x,))(x)

    torch.testing.assert_close(actual, function(x), rtol=1e-15, atol=1e-320)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_have_neither_calls_nor_branches(kind: type):
    region = Region(Block(arg_types=[f64, f64]))
    build = LlvmBuilder(region, region.block)
    build.large_arguments = []
    args = region.block.args[: 2 if kind.__name__ in OF_TWO else 1]

    assert vector_function(build, kind(*args), args) is not None

    assert len(region.blocks) == 1
    assert not any(isinstance(op, llvm.CallOp) for op in region.walk())
