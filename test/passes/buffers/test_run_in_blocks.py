# pyright: basic
"""Chains of products in blocks: attention, against PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from proofs import holds, ints, proves, quotient
from torch import Tensor, nn
from z3 import And, If

import padc
from padc.passes.buffers.run_in_blocks import Blocks, blocks_of

AUTO = torch.export.Dim.AUTO
HALVES = torch.float16, torch.bfloat16


class Attention(nn.Module):
    def __init__(self, is_causal: bool = False):
        super().__init__()
        self.is_causal = is_causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.is_causal)


def inputs(
    rows: int, keys: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(1, 2, n, 8, dtype=dtype) for n in (rows, keys, keys))
    return q, k, v


def arena(model: Any) -> int:
    (found,) = re.findall(r"arena (\d+) bytes", model.report())
    return int(found)


def check(
    model: nn.Module,
    inputs: Sequence[Any],
    others: Sequence[Sequence[Any]] = (),
    dynamic: Any = None,
) -> Any:
    """Compiled for one and two threads, the model gives PyTorch's results."""
    one, two = (
        padc.compile(model, tuple(inputs), dynamic_shapes=dynamic, threads=threads)
        for threads in (1, 2)
    )
    assert one.is_native, one.report()
    for each in (inputs, *others):
        actual, expected = one(*each), model(*each)
        assert torch.equal(actual, two(*each))
        if expected.dtype in HALVES:
            # PyTorch rounds more often.
            exact = model(*(x if x is None else x.double() for x in each))
            bound = 2 * torch.finfo(expected.dtype).eps * exact.abs().max()
            assert (actual.double() - exact).abs().max() <= bound
        else:
            torch.testing.assert_close(actual, expected)
    return one


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float16,
        pytest.param(torch.float64, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention(is_causal: bool, dtype: torch.dtype):
    torch.manual_seed(0)

    model = check(Attention(is_causal), (*inputs(301, 900, dtype), None))

    assert arena(model) < 2 * 301 * 900 * 4


def test_attention_with_masks():
    torch.manual_seed(0)
    qkv = inputs(301, 900)

    for mask in (torch.rand(301, 900) > 0.3, torch.randn(1, 2, 301, 900)):
        check(Attention(), (*qkv, mask))


def test_attention_of_dynamic_sizes():
    torch.manual_seed(0)
    sizes = ({2: AUTO}, {2: AUTO}, {2: AUTO}, {0: AUTO, 1: AUTO})
    shapes = (301, 900), (7, 5), (64, 64)
    all = [(*inputs(*each), torch.rand(each) > 0.3) for each in shapes]

    check(Attention(), all[0], all[1:], sizes)
    unmasked = [(*each[:3], None) for each in all]
    check(Attention(True), unmasked[0], unmasked[1:], (*sizes[:3], None))


def test_one_tensor_as_query_key_and_value():
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x)

    torch.manual_seed(0)
    model = check(Own(), [torch.randn(700, 8)])

    assert arena(model) < 700 * 700 * 4


@pytest.mark.parametrize("empty", range(4))
def test_products_without_elements(empty: int):
    class Products(nn.Module):
        def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
            return (a @ b).relu() @ c

    m, k, n, o = (0 if i == empty else size for i, size in enumerate((300, 8, 900, 8)))
    check(Products(), (torch.randn(m, k), torch.randn(k, n), torch.randn(n, o)))


def test_weights_that_each_block_reads_are_not_read_often():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(256, 1024)
            self.second = nn.Linear(1024, 256)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).relu())

    torch.manual_seed(0)
    model = check(Layers().eval(), [torch.randn(200, 256)])

    assert arena(model) >= 200 * 1024 * 4


def test_sizes_of_blocks():
    assert blocks_of([2, 64], 128) is None
    assert blocks_of([3, 100], 64) == Blocks(1, 50)
    assert blocks_of([12, 100], 400) == Blocks(0, 4)
    unknown: Any = object()
    assert blocks_of([unknown, 100], 400) == Blocks(0, 1)
    assert blocks_of([3, unknown], 400) == Blocks(1, 400)


@proves("run-in-blocks")
def test_blocks_have_each_row_once():
    count, row = ints("count row")
    for steps in (1, 2, 3, 17, 64):
        number = quotient(row, steps)
        left = count - number * steps
        size: Any = If(left < steps, left, steps)
        place = row - number * steps
        inside = And(0 <= row, row < count)
        assert holds(And(0 <= place, place < size, size <= steps), inside)
        assert holds(number < quotient(count + steps - 1, steps), inside)
