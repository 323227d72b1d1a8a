# pyright: basic
"""Copies that transpose: whole blocks, and what is left of rows and columns."""

import pytest
import torch
from functions import Function

import padc

SAME_WIDTHS = [
    pytest.param(dtype, marks=pytest.mark.slow) for dtype in (torch.int32, torch.int64)
]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, *SAME_WIDTHS]
SHAPES = [(16, 16), (8, 100), (17, 31), (64, 1), (3, 40, 57), (2, 3, 33, 16), (0, 32)]


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Different numbers, some of them NaN with different bits."""
    x = torch.arange(torch.Size(shape).numel()).to(dtype).view(shape)
    if x.numel() > 2 and dtype == torch.float32:
        x.view(torch.int32).flatten()[:2] = torch.tensor([0x7F800001, 0x7FC00005])
    elif x.numel() > 2 and dtype.itemsize == 2:
        x.view(torch.int16).flatten()[:2] = torch.tensor([0x7F81, 0x7FC5])
    return x


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(*(x.flatten().clone().view(torch.uint8) for x in (a, b)))


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed(dtype: torch.dtype, check: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PADC_CHECK", check)
    inputs = tuple(numbers(shape, dtype) for shape in SHAPES)
    model = Function(lambda *args: [x.mT.contiguous() for x in args])

    for threads in (1, 2):
        results = padc.compile(model, inputs, threads=threads)(*inputs)
        for x, result in zip(inputs, results, strict=True):
            assert same_bits(result, x.mT.contiguous()), (x.shape, threads)


def test_sizes_that_are_dynamic():
    dims = {0: torch.export.Dim("m", max=200), 1: torch.export.Dim("n", max=200)}
    model = Function(lambda x: x.mT.contiguous())
    compiled = padc.compile(model, (torch.ones(20, 30),), dynamic_shapes=((dims,),))

    for shape in ((16, 16), (2, 100), (100, 2), (33, 47), (48, 64), (15, 17)):
        x = numbers(shape, torch.float32)
        assert same_bits(compiled(x), x.mT.contiguous()), shape


def test_many_outer_dimensions_and_threads():
    x = torch.randn(4, 3, 60, 70)
    model = Function(lambda x: x.permute(3, 0, 2, 1).contiguous() + 0)
    other = Function(lambda x: x.permute(0, 3, 2, 1).contiguous())

    for each in (model, other):
        assert torch.equal(padc.compile(each, (x,), threads=2)(x), each(x))
