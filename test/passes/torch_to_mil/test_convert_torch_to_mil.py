# pyright: basic
"""Ordinary ATen ops in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_cases import (
    ARITHMETIC,
    BINARY,
    BOOLEAN,
    CLOSE,
    DEGREES,
    EDGES,
    INTEGERS,
    POLYNOMIALS,
    SPECIAL,
    UNARY,
    WHOLE,
    only,
    without,
)
from functions import Function, Functions, Several, check_each
from mil_functions import check, size
from torch import Tensor

import padc
from padc.errors import PadcError, UnsupportedError
from padc.ir.torch import schema_of
from padc.passes.torch_to_mil.aten import LOWERINGS


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


FLOATS = torch.float32, torch.float16


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_one_tensor(dtype: torch.dtype) -> None:
    x = torch.randn(4, 33).to(dtype)
    x[0, :5] = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0]).to(dtype)
    x[1] *= 20

    check(without(UNARY, "float64 bfloat16"), x)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_inverse_hyperbolic_functions_of_large_numbers(precision: Any) -> None:
    numbers = [1.0, 2.0, 99.5, 100.5, 300.0, 5e3, 6e4]
    x = torch.tensor([*numbers, *(-n for n in numbers)])
    allowed: Any = {"rtol": 1e-2, "atol": 1e-2}
    if precision == "float32":
        x = torch.cat([x, torch.tensor([1e10, -1e10, 1e30, -1e30])])
        allowed = {}
    functions = only(UNARY, "asinh acosh")

    program = padc.convert(Several(functions), (x,), precision=precision)

    check_each(functions, program.run(x), x, equal_nan=True, **allowed)


def test_special_functions() -> None:
    """Not those whose formula only has ops of others: machine code tests all."""
    others = (
        "bessel_j0 bessel_j1 bessel_y0 erfc i0 i1e modified_bessel_k0 mvlgamma ndtr "
        "ndtri polygamma scaled_modified_bessel_k0 scaled_modified_bessel_k1 zeta_of_4"
    )
    x = torch.cat([EDGES, torch.randn(65) * 4])

    check(without(SPECIAL, others), x, dynamic=[{0: size(999)}])


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64], ids=str)
def test_special_functions_of_other_types(dtype: torch.dtype) -> None:
    names = "digamma erfinv i1e lgamma"
    if dtype == torch.float16:
        names += " frexp nextafter"

    check(only(SPECIAL, names), torch.cat([EDGES[3:-1], torch.randn(65) * 4]).to(dtype))


def test_polynomials() -> None:
    x = torch.cat([torch.tensor([0.0, 0.5, 1, -1]), torch.randn(20)])

    check(POLYNOMIALS, x[:, None], DEGREES)


def test_degrees_that_the_program_computes_are_refused() -> None:
    legendre = torch.special.legendre_polynomial_p

    with pytest.raises(UnsupportedError, match="a degree that the program computes"):
        check({"legendre": legendre}, torch.randn(3), torch.ones(3))


def test_multivariate_gamma_functions_of_many_terms_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"aten\.mvlgamma.*: 2000 terms"):
        check({"mvlgamma": lambda x: torch.mvlgamma(x, 2000)}, torch.ones(3) * 3000)


def test_integers_that_are_close() -> None:
    x = torch.tensor([1, 100000, 100000, 0, 2**31 - 1, -3, 2**24 + 1])
    y = torch.tensor([1, 100001, 100002, 0, -(2**31) + 5, -3, 2**24])

    check(CLOSE, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_two_tensors(dtype: torch.dtype) -> None:
    check(BINARY, torch.randn(3, 1, 5).to(dtype), torch.randn(4, 5).to(dtype))


def test_broadcasting_of_dynamic_sizes() -> None:
    dims = [{0: size(9), 1: size(9), 2: size(9)}, {0: size(9), 1: size(9)}]
    other = torch.randn(7, 3, 2), torch.randn(3, 2)

    check(
        only(BINARY, ARITHMETIC),
        torch.randn(3, 4, 5),
        torch.randn(4, 5),
        dynamic=dims,
        others=[other],
    )


# int64 is int32 before any row is asked.
@pytest.mark.parametrize(
    "dtype",
    [torch.int8, torch.uint8, pytest.param(torch.int64, marks=pytest.mark.slow)],
    ids=str,
)
def test_functions_of_integers(dtype: torch.dtype) -> None:
    least = 0 if dtype == torch.uint8 else -9

    check(
        WHOLE,
        torch.randint(least, 9, (3, 4)).to(dtype),
        torch.randint(1, 7, (3, 1)).to(dtype),
    )


def test_functions_of_booleans() -> None:
    functions = {name: WHOLE[name.replace("#", " ")] for name in BOOLEAN.split()}

    check(functions, torch.rand(3, 5) > 0.5, torch.rand(5) > 0.5)


def test_every_row_is_of_an_op_that_there_is() -> None:
    assert [name for name in LOWERINGS if schema_of(name) is None] == []


EXTREMES: Functions = {
    **{
        f"{name} {by}": lambda x, f=function, by=by: f(x, by)
        for name, function in (
            ("div trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
            ("fmod", torch.fmod),
        )
        for by in (3, -3, 7)
    },
    **{
        f"{name} {number}": lambda x, f=getattr(torch, name), number=number: f(
            x, number
        )
        for name in ("gt", "eq", "lt")
        for number in (-200, -1, 127, 300)
    },
    "mul": lambda x: x * 3 - 5,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_prelu(dtype: torch.dtype) -> None:
    """Core ML's prelu takes slopes of channels only for tensors of rank 4."""
    x = torch.randn(2, 6, 4, 5).to(dtype)
    x[0, :, 0] = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0]).to(dtype)
    slopes = torch.tensor([0.0, -1.5, 2.0, 0.25, 1.0, -0.0]).to(dtype)

    check(
        {
            "one slope": lambda x: F.prelu(x, slopes[3:4]),
            "one slope of rank 5": lambda x: F.prelu(x[:, None], slopes[3:4]),
            "many slopes": lambda x: F.prelu(x, slopes),
            "of rank 0": lambda x: F.prelu(x.sum(), slopes[:1]),
            "of rank 2": lambda x: F.prelu(x[:, :, 0, 3], slopes),
            "of rank 3": lambda x: F.prelu(x[..., 0], slopes),
            "of rank 5": lambda x: F.prelu(x[:, :, None], slopes),
            "computed": lambda x: F.prelu(x[..., 1:], x[0, :, 1, 0]),
        },
        x,
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_extreme_integers(dtype: torch.dtype) -> None:
    limits = torch.iinfo(torch.int32 if dtype == torch.int64 else dtype)
    x = torch.tensor([limits.min, limits.max, 0, 1, 7]).to(dtype)

    check(without(EXTREMES, "mul") if limits.bits == 32 else EXTREMES, x)


BEYOND_INT32: Functions = {
    f"{name} {number}": lambda x, f=getattr(torch, name), number=number: f(x, number)
    for name in ("gt", "ge", "lt", "le", "eq", "ne")
    for number in (2**31, -(2**31) - 1, 2**40, -(2**63))
} | {"clamp": lambda x: x.clamp(-(2**40), 2**31)}


def test_comparisons_with_numbers_beyond_int32() -> None:
    limits = torch.iinfo(torch.int32)

    check(
        BEYOND_INT32,
        torch.tensor([limits.min, -1, limits.max]),
        dynamic=[{0: size(9)}],
        others=[[torch.tensor([limits.max, 0])]],
    )


REFUSED_NUMBERS: Functions = {
    "masked_fill": lambda x: x.masked_fill(x > 0, 2**63 - 1),
    "where": lambda x: torch.where(x > 0, x, -(2**40)),
    "clamp": lambda x: x.clamp(min=2**31),
}


@pytest.mark.parametrize("name", REFUSED_NUMBERS)
def test_numbers_beyond_int32_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="does not fit Core ML's int32") as error:
        check({name: REFUSED_NUMBERS[name]}, torch.tensor([1, 2]))
    assert "torch.iinfo(torch.int32)" in str(error.value)


def test_bounds_that_are_not_numbers() -> None:
    if not torch.zeros(1).clamp(max=math.nan).isnan().all():
        pytest.skip(f"PyTorch {torch.__version__} ignores a bound that is NaN")
    check({"clamp": lambda x: x.clamp(max=math.nan)}, torch.randn(3))


def test_an_element_as_an_index() -> None:
    check({"select": lambda x, i: x[i]}, torch.randn(3, 4), torch.tensor(1))


INFINITE: Functions = {
    "rounded": lambda x: x.log2().round().int(),
    "of many steps": lambda x: (
        # Not near an integer: logarithms of CPUs differ in the last bit.
        (((x.log() / 2 + 1) * 3 - 1) / 2).exp().log() * 2 + 0.5
    ).long(),
    "divided": lambda x: (5 / x).flip(0).flip(0).to(torch.int16),
    "of negative numbers": lambda x: (x - 1).sqrt().long(),
    "reshaped": lambda x: x.log().view(2, 2).long().view(4),
}


def test_infinities_as_integers_that_are_not_selected() -> None:
    def selected(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: torch.where(x < 1, 3, function(x)).int()

    check(
        {name: selected(function) for name, function in INFINITE.items()},
        torch.tensor([0.0, 1, 2, 50]),
    )


def test_halves_as_integers_that_are_not_selected() -> None:
    def selected(x: Tensor) -> Tensor:
        return torch.where(x > 0, (8 / x).long(), 0)

    check({"half": selected}, torch.tensor([0.0, 1, -0.0, 4]).half())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.log().int(),
        lambda x: torch.where(x > -1, (5e9 - x).long(), 0) % 7,
    ],
)
def test_integers_beyond_int32_are_refused(
    function: Callable[[Tensor], Tensor],
) -> None:
    program = padc.convert(Function(function), (torch.full((2,), 4.9e9),))

    with pytest.raises(UnsupportedError, match="outside of int32"):
        program.run(torch.tensor([0.0, 1]))


def test_integers_of_the_logarithm_of_zero_are_not_selected() -> None:
    """T5's buckets of positions."""

    def buckets(x: Tensor) -> Tensor:
        places = torch.arange(x.shape[0])
        far = 8 + ((places.float() / 8).log() * 3).to(torch.long)
        return torch.where(places < 8, places, far.clamp(max=15))

    x = torch.ones(20)
    sizes = ({0: torch.export.Dim("n", min=2, max=64)},)
    program = padc.convert(Function(buckets), (x,), dynamic_shapes=(sizes,))

    for each in (x, torch.ones(50)):
        assert torch.equal(program.run(each)[0].long(), buckets(each))


def test_what_pytorch_refuses_when_it_runs() -> None:
    # PyTorch 2.14 refuses it when the program is exported.
    with pytest.raises(PadcError, match="alpha cannot be 0"):
        padc.convert(Function(lambda x: torch.celu(x, 0.0)), (torch.ones(2),))
