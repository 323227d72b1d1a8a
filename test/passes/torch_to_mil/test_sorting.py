# pyright: basic
"""Cumulative ops and sorts in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import Function, Functions
from mil_functions import check, size
from torch import Tensor

import padc
from padc.errors import UnsupportedError

DTYPES = (
    torch.float32,
    torch.float16,
    torch.int64,
    pytest.param(torch.uint8, marks=pytest.mark.slow),
    torch.bool,
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


CUMULATIVE: Functions = {
    "cumsum": lambda x: x.cumsum(0),
    "cumsum last": lambda x: x.cumsum(-1),
    "cumsum in float32": lambda x: x.cumsum(1, dtype=torch.float32),
    "cumprod": lambda x: x.cumprod(0, dtype=torch.float32),
    "cumprod of many": lambda x: x.cumprod(1, dtype=torch.float32),
    "cummax": lambda x: torch.cummax(x, 0),
    "cummax of many": lambda x: torch.cummax(x, 1),
    "cummin of many": lambda x: torch.cummin(x, -1),
}

LOGARITHMS: Functions = {
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "logcumsumexp of many": lambda x: x.logcumsumexp(1),
}

SORTS: Functions = {
    "sort": lambda x: x.sort(1).values,
    "sort descending": lambda x: x.sort(0, True).values,
    "stable sort": lambda x: x.sort(stable=True, dim=1),
    "stable descending sort": lambda x: x.sort(stable=True, descending=True),
    "stable argsort": lambda x: x.argsort(stable=True, dim=1),
    "msort": lambda x: torch.msort(x),
    "topk": lambda x: x.topk(3, 1).values,
    "least": lambda x: x.topk(2, 0, largest=False).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "kthvalue kept": lambda x: x.kthvalue(3, 0, True).values,
    "median": lambda x: x.median(),
    "median 1": lambda x: x.median(1).values,
    "nanmedian": lambda x: x.nanmedian(),
    "nanmedian kept": lambda x: x.nanmedian(1, True).values,
}

INDICES: Functions = {
    "sort": lambda x: x.sort(1),
    "argsort": lambda x: x.argsort(0, True),
    "topk": lambda x: x.topk(4),
    "kthvalue": lambda x: x.kthvalue(2, 1),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(0),
    "mode": lambda x: x.round().mode(1).values,
}


def of_type(dtype: torch.dtype) -> Functions:
    if dtype == torch.bool:
        lacking = "kthvalue", "median", "nanmedian", "topk", "least"
        sorts = {k: f for k, f in SORTS.items() if k.split()[0] not in lacking}
        return {**CUMULATIVE, **sorts}
    floats = LOGARITHMS if dtype.is_floating_point else {}
    return {**CUMULATIVE, **SORTS, **floats}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_of_which_some_are_equal(dtype: torch.dtype) -> None:
    x = torch.randint(0, 3, (3, 20, 4))

    check(of_type(dtype), x.to(dtype))


def test_numbers_that_differ() -> None:
    x = torch.randperm(240).reshape(3, 20, 4) / 7 - 9

    check({**CUMULATIVE, **LOGARITHMS, **SORTS, **INDICES}, x)


def test_numbers_that_are_not_finite() -> None:
    x = torch.randn(4, 20)
    x[0, 3:5] = math.nan
    x[1] = -math.inf
    x[2, ::3] = math.inf
    x[3] = math.nan
    chosen = {**CUMULATIVE, **LOGARITHMS, **SORTS, "median index": INDICES["median"]}

    check(chosen, x)


QUANTILES: Functions = {
    **{
        f"{name} {way}": lambda x, f=getattr(torch, name), way=way: f(
            x, 0.3, 1, interpolation=way
        )
        for name in ("quantile", "nanquantile")
        for way in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "quantile of all": lambda x: x.quantile(0.7),
    "quantile kept": lambda x: x.quantile(0.7, keepdim=True),
    "quantiles": lambda x: x.quantile(torch.tensor([0.0, 0.3, 1.0]), 0, True),
    "nanquantiles": lambda x: x.nanquantile(torch.tensor([0.1, 0.6]), 1),
    "quantiles of all": lambda x: x.quantile(torch.tensor([0.1, 0.6]), keepdim=True),
    "quantile by a tensor": lambda x: x.quantile(torch.tensor(0.9), 1),
}


def test_quantiles() -> None:
    x = torch.randn(4, 9, 3)
    x[0, :3, 0] = math.nan
    x[1, :, 1] = math.nan

    check(QUANTILES, x)


def test_histograms() -> None:
    x = torch.randn(5, 40)
    x[0, :3] = torch.tensor([2.0, -2.0, 3.0])
    each: Functions = {
        "between": lambda x: torch.histc(x, 10, -2, 2),
        "of all": lambda x: torch.histc(x, 7),
        "of equal ones": lambda x: torch.histc(x * 0 + 3, 4),
        "of NaN": lambda x: torch.histc(x / x.round(), 4, -1, 1),
    }

    check(each, x)


def test_rank_zero() -> None:
    names = "cumsum cumprod cummax cummin logcumsumexp sort argsort median nanmedian"
    each: Functions = {
        **{n: lambda x, n=n: getattr(torch, n)(x, 0) for n in names.split()},
        "topk": lambda x: x.topk(1),
        "mode": lambda x: x.mode(),
        "msort": lambda x: torch.msort(x),
        "median of all": lambda x: x.median(),
        "quantile": lambda x: x.quantile(0.3, 0, True),
    }

    check(each, torch.tensor(3.0))


def test_dynamic_sizes() -> None:
    each: Functions = {
        **{k: CUMULATIVE[k] for k in ("cumsum", "cumsum last", "cummax of many")},
        **{k: SORTS[k] for k in ("stable sort", "median", "median 1", "nanmedian")},
        **{k: INDICES[k] for k in ("sort", "argsort")},
        "topk": lambda x: x.topk(2, 0),
        "quantile": QUANTILES["quantile linear"],
        "quantiles": QUANTILES["quantiles"],
        "nanquantile": QUANTILES["nanquantile linear"],
    }

    check(
        each,
        torch.randn(3, 12, 4),
        dynamic=[{0: size(9), 2: size(9)}],
        others=[[torch.randn(7, 12, 2)]],
    )


def test_stable_sorts_of_many_elements() -> None:
    """More than the square root of 2**31: a value's number times the length is more."""

    def positions(x: Tensor) -> Tensor:
        return x.argsort(dim=1, stable=True)

    def elements(size: int) -> Tensor:
        return (torch.arange(2.0 * size) * 7919 % 46343).view(2, size)

    x = elements(50000)
    check({"static": positions}, x)
    check(
        {"dynamic": positions},
        elements(10),
        dynamic=[{1: size(1000000)}],
        others=[[x], [elements(200000)], [torch.zeros(2, 3)]],
    )


def test_scan_along_a_dynamic_dimension_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"dimension 1 varies(.|\n)*fixed size"):
        padc.convert(
            Function(lambda x: x.cumprod(1)),
            (torch.randn(3, 4),),
            dynamic_shapes=(({1: size(9)},),),
        )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.topk(0).values, "no elements"),
        (
            lambda x: x.repeat(30).sort(dim=0, stable=True),
            r"stable sort of 1500000(.|\n)*stable=True",
        ),
        (lambda x: torch.linalg.matrix_norm(x.view(5, -1), "nuc"), "singular values"),
        (lambda x: torch.linalg.matrix_norm(x.view(5, -1), 2), "singular values"),
        (lambda x: x.view(1, 1, 1, 1, -1).mode(), "rank 5"),
    ],
    ids=lambda argument: argument if isinstance(argument, str) else "",
)
def test_refusals(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        padc.convert(Function(function), (torch.randn(50000),))
