# pyright: basic, reportMissingTypeStubs=false
"""Pools all the way, by the reference and as Core ML packages, against PyTorch."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.export import Dim

from padc.errors import UnsupportedError
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context, resampling
from padc.ir.weights import Weights
from padc.passes.torch_to_tcp.adaptive_pools import even_windows, side_by_side
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.testing import compile_for_coreml, compile_for_oracle

BACKENDS = {"reference": compile_for_oracle, "coreml": compile_for_coreml}
both = pytest.mark.parametrize("backend", BACKENDS)
NAN, INF = torch.nan, torch.inf


def exported(function: Callable[..., Any], *xs: Tensor, dynamic: Any = None):
    return torch.export.export(
        Function(function), xs, dynamic_shapes=dynamic, strict=False
    )


def tensors(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def check(backend: str, function: Callable[..., Any], *xs: Tensor) -> None:
    """The compiled function's results are PyTorch's."""
    compiled = BACKENDS[backend](exported(function, *xs))
    for actual, expected in zip(compiled(*xs), tensors(function(*xs)), strict=True):
        torch.testing.assert_close(actual, expected, equal_nan=True)


def halves(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of which many are equal."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-4, 5, shape, generator=generator).div(2).to(dtype)


def special(*shape: int) -> Tensor:
    """With NaNs, and with windows of nothing but -inf."""
    x = halves(*shape)
    return x.masked_fill(x > 1, NAN).masked_fill(x < 0, -INF)


# Where the largest is.

WINDOWS = {
    "strided": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dilated": {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": 3},
    "ceil": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    "plain": {"kernel_size": 2},
}


@both
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_max_pool_with_indices(backend: str, window: str, rank: int):
    pool = getattr(F, f"max_pool{rank}d")

    check(
        backend,
        lambda x, y: (
            *pool(x, **WINDOWS[window], return_indices=True),
            *pool(y, **WINDOWS[window], return_indices=True),
        ),
        halves(1, 2, *[4, 7, 5][:rank]),
        special(2, *[4, 7, 5][:rank]),
    )


@both
def test_the_first_of_equals_and_the_last_nan_is_chosen(backend: str):
    rows = torch.tensor([[2.0, 1, 2, 2], [1, NAN, 3, NAN], [-INF] * 4])

    check(backend, lambda x: F.max_pool1d(x, 4, return_indices=True), rows)
    check(backend, lambda x: F.max_pool1d(x, 2, 1, 1, return_indices=True), rows)


@both
def test_a_window_of_nothing_but_padding_has_a_place_behind_the_input(backend: str):
    x = torch.tensor([[1.0, 2, 3, 4]])
    function = lambda x: F.max_pool1d(x, 2, 1, 1, 5, return_indices=True)  # noqa: E731
    assert function(x)[1].tolist() == [[4]]

    check(backend, function, x)


@both
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.int32, torch.int64, torch.int8, torch.uint8], ids=str
)
def test_max_pool_of_each_dtype(backend: str, dtype: torch.dtype):
    x = halves(1, 2, 7, 8).mul(2).to(torch.int64).to(dtype)

    check(
        backend,
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
        x,
    )
    check(backend, lambda x: F.max_pool2d(x, 2, 1, 1, 2), x)


@both
@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.int16, torch.int8, torch.uint8], ids=str
)
def test_the_least_integers_are_as_large_as_padding(backend: str, dtype: torch.dtype):
    x = torch.full((1, 3, 4), torch.iinfo(dtype).min, dtype=dtype)

    check(backend, lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True), x)


def test_int64_below_every_int32_is_more_than_padding():
    x = torch.full((1, 3, 3), -(2**40))

    check("reference", lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True), x)


def test_indices_that_nothing_uses_are_not_computed():
    ep = exported(lambda x: F.max_pool2d(x, 2, return_indices=True)[0], halves(1, 4, 4))
    module = import_exported_program(ep, Weights())

    ConvertTorchToTcpPass().apply(make_context(), module)

    assert "tcp.max_pool" in str(module)
    assert "arg_max" not in str(module)


def test_indices_of_dynamic_sizes_are_refused_for_core_ml():
    ep = exported(
        lambda x: F.max_pool2d(x, 2, 1, return_indices=True),
        halves(1, 4, 6),
        dynamic=(({2: Dim("w", min=3, max=9)},),),
    )

    with pytest.raises(UnsupportedError, match="positions in a tensor of dynamic size"):
        compile_for_coreml(ep)


@both
def test_gradients_of_a_max_pool_are_added_up(backend: str):
    x = halves(2, 3, 7, 8)
    y, indices = F.max_pool2d(x, 3, 1, 1, return_indices=True)

    check(
        backend,
        lambda g, x, i: torch.ops.aten.max_pool2d_with_indices_backward(
            g, x, [3, 3], [1, 1], [1, 1], [1, 1], False, i
        ),
        *(torch.arange(y.numel()).reshape(y.shape).float(), x, indices),
    )


# Averages.


@both
@pytest.mark.parametrize("divisor", [None, 4, -3])
def test_an_average_of_integers_divides_towards_zero(backend: str, divisor: int | None):
    x = halves(1, 2, 7, 8).mul(10).to(torch.int64)

    check(
        backend,
        lambda x: F.avg_pool2d(x, 3, 2, 1, True, False, divisor_override=divisor),
        x,
    )


# Adaptive pools.


@both
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 7, 1), (4, 5, 3)], ids=str)
def test_adaptive_pools(backend: str, rank: int, sizes: tuple[int, ...]):
    average = getattr(F, f"adaptive_avg_pool{rank}d")
    largest = getattr(F, f"adaptive_max_pool{rank}d")
    size = sizes[:rank] if rank > 1 else sizes[0]

    check(
        backend,
        lambda x, y: (average(x, size), *largest(y, size, return_indices=True)),
        halves(3, *[6, 7, 2][:rank]),
        special(1, 2, *[6, 7, 2][:rank]),
    )


@both
def test_an_infinity_stays_in_its_windows(backend: str):
    x = halves(1, 7, 8)
    x[0, 2, 3] = INF

    check(backend, lambda x: F.adaptive_avg_pool2d(x, (3, 5)), x)


GLOBAL = {
    "avg": lambda x: F.adaptive_avg_pool2d(x, 1),
    "max": lambda x: F.adaptive_max_pool2d(x, 1),
    "arg max": lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True),
}


@both
@pytest.mark.parametrize("name", GLOBAL)
def test_global_pools_of_dynamic_sizes(backend: str, name: str):
    sizes = {2: Dim("h", min=2, max=40), 3: Dim("w", min=2, max=40)}
    xs = halves(2, 3, 5, 6), halves(2, 3, 9, 4), special(2, 3, 4, 7)
    xs = *xs, torch.full((2, 3, 2, 2), -INF)

    compiled = BACKENDS[backend](exported(GLOBAL[name], xs[0], dynamic=((sizes,),)))

    for x in xs:
        for actual, expected in zip(compiled(x), tensors(GLOBAL[name](x)), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)


ADAPTIVE = {
    "avg": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "max": lambda x: F.adaptive_max_pool2d(x, (3, 7)),
    "arg max": lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True),
    "arg max, to one": lambda x: F.adaptive_max_pool2d(x, (1, 5), return_indices=True),
}


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("dims", [(2, 3), (0, 1), (0, 3)])
def test_adaptive_pools_of_dynamic_sizes(name: str, dims: Any):
    sizes = {dim: Dim(f"n{dim}", min=2, max=40) for dim in dims}
    shape = {0: 5, 1: 6, 2: 7, 3: 8}
    samples = [shape, *(shape | dict(zip(dims, s)) for s in ((2, 3), (9, 4), (4, 19)))]
    xs = [fill(*s.values()) for s in samples for fill in (halves, special)]

    ep = exported(ADAPTIVE[name], xs[0], dynamic=((sizes,),))

    for compile in BACKENDS.values():
        compiled = compile(ep)
        for x in xs:
            expected = tensors(ADAPTIVE[name](x))
            for actual, one in zip(compiled(x), expected, strict=True):
                torch.testing.assert_close(actual, one, equal_nan=True)


@both
def test_adaptive_pools_of_dynamic_volumes(backend: str):
    def pools(x: Tensor) -> tuple[Tensor, ...]:
        largest, where = F.adaptive_max_pool3d(x, (2, 3, 1), return_indices=True)
        return F.adaptive_avg_pool3d(x, (2, 1, 3)), largest, where

    sizes = {dim: Dim(f"n{dim}", min=2, max=20) for dim in (1, 2, 3)}
    xs = halves(2, 5, 6, 7), special(2, 7, 2, 3)
    compiled = BACKENDS[backend](exported(pools, xs[0], dynamic=((sizes,),)))

    for x in xs:
        for actual, expected in zip(compiled(x), pools(x), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)


@both
def test_adaptive_pools_of_a_dynamic_batch(backend: str):
    xs = halves(2, 3, 7, 8), special(5, 3, 7, 8)

    def pools(x: Tensor):
        largest, where = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        return F.adaptive_avg_pool2d(x, (3, 4)), largest, where

    batch = ({0: Dim("n", min=1, max=8)},)
    compiled = BACKENDS[backend](exported(pools, xs[0], dynamic=(batch,)))

    for x in xs:
        for actual, expected in zip(compiled(x), pools(x), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)


def test_adaptive_pools_to_nothing():
    x = halves(2, 3, 5)

    check("reference", lambda x: F.adaptive_avg_pool1d(x, 0), x)
    check("reference", lambda x: F.adaptive_max_pool1d(x, 0), x)


@given(st.integers(1, 60), st.integers(1, 60))
def test_even_windows_are_those_of_a_pool(size: int, new_size: int):
    windows = resampling.area_windows(size, new_size)

    if (pool := even_windows(size, new_size)) is not None:
        kernel, stride = pool
        assert windows == [
            range(i, i + kernel) for i in range(0, size - kernel + 1, stride)
        ]
    elif new_size > 1:
        lengths = {len(window) for window in windows}
        gaps = {b.start - a.start for a, b in itertools.pairwise(windows)}
        assert max(len(lengths), len(gaps)) > 1 or gaps == {0}


@given(st.integers(1, 60), st.integers(1, 60))
def test_windows_side_by_side_have_their_own_elements(size: int, new_size: int):
    windows = resampling.area_windows(size, new_size)

    row = side_by_side(windows)

    longest = len(row) // new_size
    parts = [row[i : i + longest] for i in range(0, len(row), longest)]
    assert [sorted(set(part)) for part in parts] == [list(w) for w in windows]
