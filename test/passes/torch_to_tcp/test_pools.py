# pyright: basic, reportMissingTypeStubs=false
"""Pools end to end, by the reference and as Core ML packages, against PyTorch."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function, Functions, Several, check_each
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import padc
from padc.errors import UnsupportedError
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context, resampling
from padc.ir.weights import Weights
from padc.passes.torch_to_tcp.aten.adaptive_pools import even_windows, side_by_side
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.testing import compile_for_coreml, compile_for_oracle

BACKENDS = {"reference": compile_for_oracle, "coreml": compile_for_coreml}
NAN, INF = torch.nan, torch.inf


def exported(model: nn.Module, *xs: Tensor, dynamic: Any = None) -> ExportedProgram:
    return torch.export.export(model, xs, dynamic_shapes=dynamic, strict=False)


def check(
    functions: Callable[..., Any] | Functions,
    *xs: Tensor,
    dynamic: Any = None,
    others: Sequence[tuple[Tensor, ...]] = (),
    backends: Iterable[str] = BACKENDS,
) -> None:
    """All functions, exported together, give PyTorch's results, also for `others`."""
    named = functions if isinstance(functions, Mapping) else {"": functions}
    program = exported(Several(named), *xs, dynamic=dynamic)
    for backend in backends:
        compiled = BACKENDS[backend](program)
        for inputs in (xs, *others):
            check_each(named, compiled(*inputs), *inputs, equal_nan=True, note=backend)


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


@pytest.mark.parametrize("rank", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_max_pool_with_indices(rank: int):
    def pools(options: dict[str, Any]) -> Callable[[Tensor, Tensor], Any]:
        pool = getattr(F, f"max_pool{rank}d")
        return lambda *xs: [y for x in xs for y in pool(x, **options)]

    check(
        {k: pools({**window, "return_indices": True}) for k, window in WINDOWS.items()},
        halves(1, 2, *[4, 7, 5][:rank]),
        special(2, *[4, 7, 5][:rank]),
    )


def test_the_first_of_equals_and_the_last_nan_is_chosen():
    rows = torch.tensor([[2.0, 1, 2, 2], [1, NAN, 3, NAN], [-INF] * 4])

    check(
        {
            "of all": lambda x: F.max_pool1d(x, 4, return_indices=True),
            "padded": lambda x: F.max_pool1d(x, 2, 1, 1, return_indices=True),
        },
        rows,
    )


def test_a_window_of_padding_only_has_a_place_after_the_input():
    x = torch.tensor([[1.0, 2, 3, 4]])
    function = lambda x: F.max_pool1d(x, 2, 1, 1, 5, return_indices=True)  # noqa: E731
    assert function(x)[1].tolist() == [[4]]

    check(function, x)


def test_max_pool_of_each_dtype():
    dtypes = torch.float16, torch.int32, torch.int64, torch.int8, torch.uint8
    x = halves(1, 2, 7, 8).mul(2).to(torch.int64)

    def pools(x: Tensor) -> list[Tensor]:
        return [
            *F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
            F.max_pool2d(x, 2, 1, 1, 2),
        ]

    check(
        {str(t): lambda *xs, i=i: pools(xs[i]) for i, t in enumerate(dtypes)},
        *map(x.to, dtypes),
    )


def test_the_least_integers_are_as_large_as_padding():
    dtypes = torch.int32, torch.int16, torch.int8, torch.uint8

    def pool(x: Tensor) -> Any:
        return F.max_pool2d(x, 2, 1, 1, return_indices=True)

    check(
        {str(t): lambda *xs, i=i: pool(xs[i]) for i, t in enumerate(dtypes)},
        *(torch.full((1, 3, 4), torch.iinfo(t).min, dtype=t) for t in dtypes),
    )


def test_int64_below_every_int32_is_more_than_padding():
    x = torch.full((1, 3, 3), -(2**40))

    check(
        lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True),
        x,
        backends=["reference"],
    )


def test_indices_that_nothing_uses_are_not_computed():
    model = Function(lambda x: F.max_pool2d(x, 2, return_indices=True)[0])
    ep = exported(model, halves(1, 4, 4))
    module = import_exported_program(ep, Weights())

    ConvertTorchToTcpPass().apply(make_context(), module)

    assert "tcp.max_pool" in str(module)
    assert "arg_max" not in str(module)


def test_indices_of_dynamic_sizes_are_refused_for_core_ml():
    ep = exported(
        Function(lambda x: F.max_pool2d(x, 2, 1, return_indices=True)),
        halves(1, 4, 6),
        dynamic=(({2: Dim("w", min=3, max=9)},),),
    )

    with pytest.raises(UnsupportedError, match="positions in a tensor of dynamic size"):
        compile_for_coreml(ep)


def test_gradients_of_a_max_pool_are_added_up():
    x = halves(2, 3, 7, 8)
    y, indices = F.max_pool2d(x, 3, 1, 1, return_indices=True)

    check(
        lambda g, x, i: torch.ops.aten.max_pool2d_with_indices_backward(
            g, x, [3, 3], [1, 1], [1, 1], [1, 1], False, i
        ),
        *(torch.arange(y.numel()).reshape(y.shape).float(), x, indices),
    )


# Averages.


def test_an_average_of_integers_divides_towards_zero():
    def pool(divisor: int | None) -> Callable[[Tensor], Tensor]:
        return lambda x: F.avg_pool2d(x, 3, 2, 1, True, False, divisor_override=divisor)

    check(
        {str(divisor): pool(divisor) for divisor in (None, 4, -3)},
        halves(1, 2, 7, 8).mul(10).to(torch.int64),
    )


# Adaptive pools.


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_pools(rank: int):
    def pools(size: Any) -> Callable[[Tensor, Tensor], Any]:
        average = getattr(F, f"adaptive_avg_pool{rank}d")
        largest = getattr(F, f"adaptive_max_pool{rank}d")
        return lambda x, y: (
            average(x, size),
            *largest(y, size, return_indices=True),
        )

    sizes = [size[:rank] for size in ((1, 1, 1), (3, 7, 1), (4, 5, 3))]

    check(
        {str(size): pools(size if rank > 1 else size[0]) for size in sizes},
        halves(3, *[6, 7, 2][:rank]),
        special(1, 2, *[6, 7, 2][:rank]),
    )


def test_an_infinity_stays_in_its_windows():
    x = halves(1, 7, 8)
    x[0, 2, 3] = INF

    check(lambda x: F.adaptive_avg_pool2d(x, (3, 5)), x)


GLOBAL = {
    "avg": lambda x: F.adaptive_avg_pool2d(x, 1),
    "max": lambda x: F.adaptive_max_pool2d(x, 1),
    "arg max": lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True),
}


def test_global_pools_of_dynamic_sizes():
    sizes = {2: Dim("h", min=2, max=40), 3: Dim("w", min=2, max=40)}
    first, *others = (
        halves(2, 3, 5, 6),
        halves(2, 3, 9, 4),
        special(2, 3, 4, 7),
        torch.full((2, 3, 2, 2), -INF),
    )

    check(GLOBAL, first, dynamic=((sizes,),), others=[(x,) for x in others])


ADAPTIVE = {
    "avg": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "max": lambda x: F.adaptive_max_pool2d(x, (3, 7)),
    "arg max": lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True),
    "arg max, to one": lambda x: F.adaptive_max_pool2d(x, (1, 5), return_indices=True),
}


DIMS = [pytest.param(dims, marks=pytest.mark.slow) for dims in ((2, 3), (0, 1))]


@pytest.mark.parametrize("dims", [(0, 3), *DIMS])
def test_adaptive_pools_of_dynamic_sizes(dims: Any):
    sizes = {dim: Dim(f"n{dim}", min=2, max=40) for dim in dims}
    shape = {0: 5, 1: 6, 2: 7, 3: 8}
    samples = [shape, *(shape | dict(zip(dims, s)) for s in ((2, 3), (9, 4), (4, 19)))]
    first, *others = (fill(*s.values()) for s in samples for fill in (halves, special))

    check(ADAPTIVE, first, dynamic=((sizes,),), others=[(x,) for x in others])


def test_adaptive_pools_of_dynamic_volumes():
    def pools(x: Tensor) -> tuple[Tensor, ...]:
        largest, where = F.adaptive_max_pool3d(x, (2, 3, 1), return_indices=True)
        return F.adaptive_avg_pool3d(x, (2, 1, 3)), largest, where

    sizes = {dim: Dim(f"n{dim}", min=2, max=20) for dim in (1, 2, 3)}

    check(
        pools,
        halves(2, 5, 6, 7),
        dynamic=((sizes,),),
        others=[(special(2, 7, 2, 3),)],
    )


def test_adaptive_pools_of_a_dynamic_batch():
    def pools(x: Tensor) -> tuple[Tensor, ...]:
        largest, where = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        return F.adaptive_avg_pool2d(x, (3, 4)), largest, where

    batch = ({0: Dim("n", min=1, max=8)},)

    check(
        pools,
        halves(2, 3, 7, 8),
        dynamic=(batch,),
        others=[(special(5, 3, 7, 8),)],
    )


def test_adaptive_pools_to_nothing():
    x = halves(2, 3, 5)

    check(
        {
            "avg": lambda x: F.adaptive_avg_pool1d(x, 0),
            "max": lambda x: F.adaptive_max_pool1d(x, 0),
        },
        x,
        backends=["reference"],
    )


@given(st.integers(1, 60), st.integers(1, 60))
def test_even_windows_are_those_of_a_pool(size: int, new_size: int):
    windows = resampling.area_windows(size, new_size)

    lengths = {len(window) for window in windows}
    strides = {b.start - a.start for a, b in itertools.pairwise(windows)} or {1}
    is_even = len(lengths) == len(strides) == 1 and 0 not in strides
    expected = (min(lengths), min(strides)) if is_even else None
    assert even_windows(size, new_size) == expected


def test_huge_results_of_adaptive_pools():
    assert even_windows(4, 2**63 - 1) is None
    exported = torch.export.export(
        Function(lambda x: F.adaptive_max_pool1d(x, 2**21)), (torch.zeros(1, 1, 4),)
    )
    with pytest.raises(UnsupportedError, match="2097152 windows"):
        padc.convert(exported)


@given(st.integers(1, 60), st.integers(1, 60))
def test_windows_side_by_side_have_their_own_elements(size: int, new_size: int):
    windows = resampling.area_windows(size, new_size)

    row = side_by_side(windows)

    longest = len(row) // new_size
    parts = [row[i : i + longest] for i in range(0, len(row), longest)]
    assert [sorted(set(part)) for part in parts] == [list(w) for w in windows]
