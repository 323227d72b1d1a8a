# pyright: basic
"""Reductions and softmax in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_cases import REDUCTIONS, STATISTICS, only
from functions import Functions, flat
from mil_functions import check, size

FLOATS = torch.float32, torch.float16
INTEGERS = torch.uint8, torch.int32, torch.int64, torch.bool


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


SUMS: Functions = {
    "count_nonzero": lambda x: torch.count_nonzero(x.round()),
    "count_nonzero 1": lambda x: torch.count_nonzero(x.round(), 1),
    "nansum": lambda x: x.nansum(),
    "nansum 1": lambda x: x.nansum(1),
    "nanmean": lambda x: x.nanmean(),
    "nanmean kept": lambda x: x.nanmean(1, True),
    "sum of int32": lambda x: x.sum(1, dtype=torch.int32),
    "prod in float32": lambda x: x.prod(1, dtype=torch.float32),
    "mean in float32": lambda x: x.mean((0, 1), dtype=torch.float32),
    "any of none": lambda x: torch.any(x, ()),
    "all of none": lambda x: torch.all(x > 0, ()),
    "aminmax all": lambda x: torch.aminmax(x),
    "var_mean kept": lambda x: torch.var_mean(x, 1, keepdim=True),
    "std_mean": lambda x: torch.std_mean(x),
    "std 2.5": lambda x: torch.std(x, 1, correction=2.5),
    "var of too few": lambda x: torch.var(x, 1, correction=99),
    "var of one": lambda x: torch.var(x[:1], 0),
}

NORMS: Functions = {
    **{
        f"norm {order}": lambda x, order=order: torch.linalg.vector_norm(x, order, 1)
        for order in (0, 1, 2, 3, 0.5, -1, math.inf, -math.inf)
    },
    **{
        f"matrix norm {order}": lambda x, order=order, keep=keep: (
            torch.linalg.matrix_norm(x, order, (0, 2), keep)
        )
        for order, keep in [
            *((1, False), (-1, True), (math.inf, False), (-math.inf, True)),
            ("fro", False),
        ]
    },
    "norm all": lambda x: x.norm(),
    "norm all 0": lambda x: x.norm(0),
    "norm of dtype": lambda x: x.norm(2, [1], False, dtype=torch.float32),
    "frobenius": lambda x: torch.norm(x, "fro", (0, 1)),
    "dist": lambda x: torch.dist(x, x[0] + 1, 3),
    "dist inf": lambda x: torch.dist(x, x + 1, math.inf),
}

SOFTMAXES: Functions = {
    "softmin": lambda x: F.softmin(x, 1),
    "softmax in float32": lambda x: x.softmax(1, dtype=torch.float32),
    "log_softmax in float32": lambda x: x.log_softmax(1, dtype=torch.float32),
    "logsumexp kept": lambda x: x.logsumexp(1, True),
    "_safe_softmax": lambda x: torch.ops.aten._safe_softmax(x, 1),
    "cross_entropy": lambda x: -x.log_softmax(1)[:, :1],
}


def functions(dtype: torch.dtype) -> Functions:
    """What is tested of each type, of three dimensions."""
    if dtype.is_floating_point:
        exact = {
            k: f
            for k, f in REDUCTIONS.items()
            if dtype == torch.float32 or not k.startswith("prod ")
        }
        return {
            **exact,
            **SUMS,
            **STATISTICS,
            **NORMS,
            **SOFTMAXES,
        }
    lacking = ["mean", "var", "std"]
    lacking += ["argmax", "argmin"] if dtype == torch.bool else []
    whole = {k: f for k, f in REDUCTIONS.items() if k.split()[0] not in lacking}
    return {
        **whole,
        "any of none": SUMS["any of none"],
        "all of none": SUMS["all of none"],
        "count_nonzero": lambda x: torch.count_nonzero(x, (0, 1)),
    }


def named(functions: Functions) -> Functions:
    """Without what is computed in float64, which Core ML lacks."""
    return {k: f for k, f in functions.items() if "float64" not in k}


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=str)
def test_reductions(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 5) * 2
    x = x.abs() if dtype == torch.uint8 else x

    check(named(functions(dtype)), x.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_that_are_not_finite(dtype: torch.dtype) -> None:
    """Rows of minus infinity only, and with infinity, NaN and large numbers."""
    x = torch.randn(6, 7)
    x[0] = -math.inf
    x[1, 2] = math.inf
    x[2, 3] = math.nan
    x[3] *= 1e4
    x[4, 1:] = -math.inf
    x[5] = 0
    names = (
        "sum mean amax amin max min argmax prod nansum nanmean logsumexp softmax "
        "log_softmax"
    )
    each: dict[str, Callable[..., Any]] = {
        name: lambda x, name=name: getattr(torch, name)(x, 1) for name in names.split()
    }
    each["norm"] = lambda x: torch.linalg.vector_norm(x, dim=1)
    each["_safe_softmax"] = SOFTMAXES["_safe_softmax"]

    check(each, x.to(dtype))


def test_reductions_of_constants() -> None:
    c = torch.randn(3, 4, 5)
    each: Functions = {
        k: lambda x, f=f: [y + x.to(y.dtype) for y in flat(f(c))]
        for k, f in named({**REDUCTIONS, **STATISTICS, **NORMS}).items()
        if not k.startswith(("any", "all"))
    }

    check(each, torch.zeros(1))


def test_products_in_float16() -> None:
    """Of numbers whose products are exact: the order of rounding is not specified."""
    x = (torch.randint(-1, 2, (3, 4, 5)) * 2.0).half()

    check({k: f for k, f in REDUCTIONS.items() if k.startswith("prod")}, x)


def test_log_softmax_is_exact_where_softmax_is_zero() -> None:
    x = torch.tensor([[0.0, -120.0, -1000.0]])

    check({"log_softmax": lambda x: x.log_softmax(1)}, x, rtol=0, atol=1e-4)


def test_variance_of_numbers_far_from_zero() -> None:
    x = torch.randn(4, 50) + 4096

    check({"var": lambda x: x.var(1), "std": lambda x: x.std()}, x)


@pytest.mark.parametrize("dtype", (torch.float32, torch.int64, torch.bool), ids=str)
def test_rank_zero(dtype: torch.dtype) -> None:
    names = "sum prod amax amin max min any all count_nonzero"
    names += "" if dtype == torch.bool else " argmax argmin"
    each: dict[str, Callable[..., Any]] = {n: getattr(torch, n) for n in names.split()}
    each["max 0"] = lambda x: x.max(0)
    each["any 0"] = lambda x: x.any(0)
    if dtype.is_floating_point:
        for name in "mean var norm nansum nanmean aminmax".split():
            each[name] = getattr(torch, name)
        for name in "softmax log_softmax logsumexp".split():
            each[name] = lambda x, name=name: getattr(torch, name)(x, 0)

    check(each, torch.tensor(3.0).to(dtype))


@pytest.mark.parametrize("dtype", (torch.int64, torch.bool), ids=str)
def test_the_first_of_equal_extremes(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (6, 9))
    x[0], x[1] = 0, 1
    each: Functions = {
        "argmax": lambda x: x.long().argmax(1),
        "argmin": lambda x: x.long().argmin(0, True),
        "max": lambda x: x.max(1),
        "argmax all": lambda x: x.int().argmax(),
    }

    check(each, x.to(dtype))


OF_NOTHING: Functions = {
    **{
        f"{name} {dim}": lambda x, f=f, dim=dim: f(x[:, :0], dim)
        for name, f in {
            "any": torch.any,
            "all": torch.all,
            "all of booleans": lambda x, dim: torch.all(x > 0, dim, keepdim=True),
            "sum": torch.sum,
            "nansum": torch.nansum,
            "nanmean": torch.nanmean,
            "logsumexp": torch.logsumexp,
            "count_nonzero": torch.count_nonzero,
        }.items()
        for dim in (1, (0, 1))
    },
    **{
        f"norm {order}": lambda x, order=order: torch.linalg.vector_norm(
            x[:, :0], order, 1
        )
        for order in (0, 1, 2, 3)
    },
    "prod": lambda x: x[:, :0].prod(1),
    "product of matrices": lambda x: x[:, :0] @ torch.zeros(0, 2),
    "linear": lambda x: F.linear(x[:, :0], torch.zeros(2, 0), torch.ones(2)),
    "maximum after nothing": lambda x: torch.cat([x[:, :0], x], 1).amax(1),
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_sums_and_products_of_narrow_types_wrap(dtype: torch.dtype) -> None:
    most = torch.iinfo(dtype).max
    x = torch.tensor([[most, 3, most], [most - 50, 7, 120]], dtype=dtype)

    functions: Functions = {
        "sum": lambda x: x.sum(dtype=dtype),
        "sum of rows": lambda x: x.sum(1, dtype=dtype),
        "nansum": lambda x: x.nansum(1, dtype=dtype),
        "prod": lambda x: x.prod(dtype=dtype),
        "prod of rows": lambda x: x.prod(1, dtype=dtype),
        "cumsum": lambda x: x.cumsum(1, dtype=dtype),
        "cumprod": lambda x: x.cumprod(1, dtype=dtype),
    }

    check(functions, x)


def test_reductions_of_nothing() -> None:
    check(OF_NOTHING, torch.randn(3, 4))


def test_dynamic_sizes() -> None:
    """The number of elements, by which means and variances divide, varies."""
    chosen = {
        **only(REDUCTIONS, "sum mean amax argmax argmin prod var std any max aminmax"),
        **only(STATISTICS, "var_mean logsumexp norm softmax log_softmax"),
        "var two": lambda x: x.var((0, 2), correction=2.5),
        "argmax of integers": lambda x: x.long().argmax(1),
        "argmax of all integers": lambda x: x.long().argmax(),
        "argmax kept": lambda x: x.argmax(keepdim=True),
    }

    check(
        chosen,
        torch.randn(3, 4, 5),
        dynamic=[{0: size(9), 1: size(9), 2: size(9)}],
        others=[[torch.randn(5, 7, 2)]],
    )
