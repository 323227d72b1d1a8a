# pyright: basic
"""What `convert-tcp-to-linalg` writes for convolutions and pools, proved by z3."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import z3
from proofs import choose, largest, proves, symbolic
from symbolic_run import (
    Array,
    SymbolicRun,
    argument,
    integers,
    is_computed,
    lowered,
    with_sizes,
)
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.ir import tcp
from padc.ir.tcp import ConvDimsAttr

LEAST = -(2**63)


@pytest.fixture(autouse=True)
def formulas_of_integers() -> Iterator[None]:
    with symbolic():
        yield


def windows(size: Any, kernel: int, stride: int, dilation: int) -> Any:
    """The number of windows that are within `size` elements."""
    return (size - dilation * (kernel - 1) - 1) / stride + 1


NHWC = ConvDimsAttr(
    (("b", 0, 1, "f"), (0, 1, "i", "o"), ("b", 0, 1, "f"))  # pyright: ignore
)
CONVOLUTIONS = {
    "2-D": (ConvDimsAttr.channels_first(2), 2, 3, 1, (2, 3), (1, 2), (2, 1)),
    "2-D with dilated columns": (
        *(ConvDimsAttr.channels_first(2), 1, 2, 1, (2, 2), (2, 1), (1, 3)),
    ),
    "1-D": (ConvDimsAttr.channels_first(1), 2, 2, 1, (3,), (2,), (2,)),
    "3-D": (ConvDimsAttr.channels_first(3), 1, 2, 1, (2, 1, 2), (1, 2, 1), (1, 1, 2)),
    "in two groups": (ConvDimsAttr.channels_first(2), 4, 6, 2, (2, 1), (2, 1), (1, 1)),
    "depthwise": (ConvDimsAttr.channels_first(2), 3, 3, 3, (2, 2), (1, 2), (1, 1)),
    "two results of each channel": (
        *(ConvDimsAttr.channels_first(1), 3, 6, 3, (2,), (1,), (2,)),
    ),
    "one result of each group": (
        *(ConvDimsAttr.channels_first(1), 4, 2, 2, (2,), (3,), (1,)),
    ),
    "channels last": (NHWC, 2, 3, 1, (2, 2), (2, 1), (1, 2)),
    "channels last, in two groups": (NHWC, 4, 4, 2, (1, 2), (1, 2), (1, 1)),
    "channels last, depthwise": (NHWC, 2, 2, 2, (2, 2), (1, 1), (1, 1)),
    "channels last, result with channels first": (
        *(ConvDimsAttr((*NHWC.data[:2], ("b", "f", 0, 1))), 2, 4, 2, (2, 2), (1, 2)),
        (1, 1),
    ),
    "one image": (*(ConvDimsAttr.channels_first(1, False), 2, 2, 1, (2,), (2,), (1,)),),
}
"""
Orders of dimensions, numbers of channels of the input and the result, and of groups,
and for each spatial dimension the sizes of the kernel, strides and dilations.
"""


@proves("convert-tcp-to-linalg: convolutions")
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, has_bias: bool):
    dims, inputs, outputs, groups, kernel, strides, dilations = CONVOLUTIONS[name]
    in_group = inputs // groups

    def shape(roles: Sequence[Any], known: Any) -> list[int]:
        return [known.get(role, DYNAMIC_INDEX) for role in roles]

    x_shape = shape(dims.input, {"f": inputs})
    taps = {"o": outputs, "i": in_group, **dict(enumerate(kernel))}
    k_shape = shape(dims.kernel, taps)
    type = integers(*shape(dims.result, {"f": outputs}))

    def make(x: Any, k: Any, bias: Any = None) -> Any:
        return tcp.ConvOp(x, k, bias, strides, dilations, groups, dims, type)

    arrays = [
        with_sizes(argument("x", len(x_shape)), x_shape),
        with_sizes(argument("k", len(k_shape)), k_shape),
    ]
    arrays += [with_sizes(argument("bias", 1), [outputs])] * has_bias
    types = [integers(*x_shape), integers(*k_shape), *[integers(outputs)] * has_bias]
    x, k = arrays[:2]
    run, (result,) = SymbolicRun.of(lowered(types, make), *arrays)
    sizes: dict[Any, Any] = {"f": outputs}
    for role, size in zip(dims.input, x.sizes, strict=True):
        if isinstance(role, int):
            steps = kernel[role], strides[role], dilations[role]
            sizes[role] = windows(size, *steps)
        elif role == "b":
            sizes[role] = size

    def element(places: Sequence[Any]) -> Any:
        at = dict(zip(dims.result, places, strict=True))
        group = at["f"] / (outputs // groups)
        total = arrays[2].at([at["f"]]) if has_bias else z3.IntVal(0)
        for channel, *taps in itertools.product(range(in_group), *map(range, kernel)):
            source: Any = {"b": at.get("b"), "f": group * in_group + channel}
            weight: Any = {"o": at["f"], "i": z3.IntVal(channel)}
            for role, tap in enumerate(taps):
                source[role] = at[role] * strides[role] + tap * dilations[role]
                weight[role] = z3.IntVal(tap)
            total += x.at([source[role] for role in dims.input]) * k.at(
                [weight[role] for role in dims.kernel]
            )
        return total

    given = z3.And(*(size >= 0 for size in x.sizes if not isinstance(size, int)))
    given = z3.And(given, *(size > 0 for role, size in sizes.items() if role != "b"))
    assert is_computed(
        run, result, [sizes[role] for role in dims.result], element, given
    )


POOLS: dict[str, Any] = {
    "rows": ((2,), (2,), (1,), (1,)),
    "columns": ((3,), (1,), (2,), (2,)),
    "images": ((2, 2), (2, 1), (1, 3), (1, 2)),
    "channels and columns": ((2, 3), (1, 3), (2, 1), (0, 2)),
}
"""The sizes of windows, strides, dilations, and the dimensions of a tensor of three."""


def sizes_after(x: Array, pool: Any) -> list[Any]:
    sizes = list(x.sizes)
    for kernel, stride, dilation, dim in zip(*pool, strict=True):
        sizes[dim] = windows(x.sizes[dim], kernel, stride, dilation)
    return sizes


def elements_of(x: Array, pool: Any, places: Sequence[Any]) -> Iterator[Any]:
    """The places of a window's elements."""
    kernel, strides, dilations, dims = pool
    for taps in itertools.product(*map(range, kernel)):
        source = list(places)
        for tap, stride, dilation, dim in zip(
            taps, strides, dilations, dims, strict=True
        ):
            source[dim] = places[dim] * stride + tap * dilation
        yield source


@proves("convert-tcp-to-linalg: pools")
@pytest.mark.parametrize("name", POOLS)
def test_max_pools(name: str):
    pool, x, type = POOLS[name], argument("x", 3), integers(*[DYNAMIC_INDEX] * 3)
    run, (result,) = SymbolicRun.of(
        lowered([type], lambda x: tcp.MaxPoolOp(x, *pool, result_type=type)), x
    )

    def element(places: Sequence[Any]) -> Any:
        value: Any = z3.IntVal(LEAST)
        for source in elements_of(x, pool, places):
            value = largest(x.at(source), value)
        return value

    sizes = sizes_after(x, pool)
    assert is_computed(
        run, result, sizes, element, z3.And(*(size > 0 for size in sizes))
    )


@proves("convert-tcp-to-linalg: pools")
@pytest.mark.parametrize("uncounted", [None, (0, 1), (2, 0), (1, 1)])
@pytest.mark.parametrize("name", POOLS)
def test_average_pools(name: str, uncounted: tuple[int, int] | None):
    pool, x, type = POOLS[name], argument("x", 3), integers(*[DYNAMIC_INDEX] * 3)
    dims = pool[-1]
    options: dict[str, Any] = {}
    if uncounted is not None:
        lower, upper = ([amount] * len(dims) for amount in uncounted)
        options = {"uncounted_lower": lower, "uncounted_upper": upper}
    run, (result,) = SymbolicRun.of(
        lowered([type], lambda x: tcp.AvgPoolOp(x, *pool, result_type=type, **options)),
        x,
    )

    def counts(source: Sequence[Any]) -> Any:
        lower, upper = uncounted or (0, 0)
        return z3.And(
            *(
                z3.And(source[dim] >= lower, source[dim] < x.sizes[dim] - upper)
                for dim in dims
            )
        )

    def element(places: Sequence[Any]) -> Any:
        total: Any = z3.IntVal(0)
        count: Any = z3.IntVal(0)
        for source in elements_of(x, pool, places):
            total += x.at(source)
            count += choose(counts(source), z3.IntVal(1), z3.IntVal(0))
        count = largest(count, z3.IntVal(1)) if uncounted else math.prod(pool[0])
        return choose(total < 0, -(-total / count), total / count)

    sizes = sizes_after(x, pool)
    assert is_computed(
        run, result, sizes, element, z3.And(*(size > 0 for size in sizes))
    )
