# pyright: basic
"""Convolutions whose rows share what they load, since their windows overlap."""

from typing import Any

import torch
import torch.nn.functional as F
from functions import Function
from proofs import holds, ints, proves
from z3 import And

import padc
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.products.convolutions import Window

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 6, 20, 37), (6, 1, 3, 3), {"padding": 1}),
    ((1, 5, 14, 14), (5, 1, 5, 5), {"padding": 2}),
    ((1, 3, 16, 70), (3, 1, 7, 7), {"padding": 3}),
    ((1, 4, 17, 33), (4, 1, 3, 3), {"padding": 1, "stride": 2}),
    ((1, 4, 20, 33), (4, 1, 5, 3), {"stride": (2, 1)}),
    ((1, 4, 20, 33), (4, 1, 3, 3), {"dilation": 2}),
    ((1, 4, 21, 33), (4, 1, 5, 3), {"stride": (3, 1), "dilation": (2, 1)}),
    ((1, 4, 24, 33), (4, 1, 9, 9), {"padding": 4}),
    ((1, 4, 24, 33), (8, 1, 3, 3), {"padding": 1}),
    ((1, 4, 24, 33), (4, 1, 3, 1), {}),
    ((1, 4, 13, 9), (4, 1, 3, 3), {}),
    ((1, 3, 6, 8, 19), (3, 1, 3, 3, 3), {"padding": 1}),
]


def test_depthwise_convolutions():
    """Strides, dilations, long windows, tails of rows and columns."""

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results: list[torch.Tensor] = []
        for i, (shape, _, options) in enumerate(CASES):
            x, kernel = tensors[2 * i : 2 * i + 2]
            conv = F.conv3d if len(shape) == 5 else F.conv2d
            results.append(conv(x, kernel, groups=shape[1], **options))
        return results

    draw = torch.Generator().manual_seed(0)
    shapes = [shape for x, kernel, _ in CASES for shape in (x, kernel)]
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-14)):
        inputs = [torch.randn(s, generator=draw, dtype=dtype) for s in shapes]
        exact = function(*(x.double() for x in inputs))
        compiled = padc.compile(Function(function), tuple(inputs))

        assert compiled.is_native
        for actual, expected in zip(compiled(*inputs), exact, strict=True):
            error = (actual.double() - expected).abs().max() / expected.abs().max()
            assert error < tolerance


@proves("convert-buffers-to-llvm: rows of depthwise convolutions")
def test_each_row_and_tap_meet_once():
    """At a place that `multiply_windows` loads, by `Window.row_of`."""
    row, tap, place, rows, taps = ints("row tap place rows taps")
    inside = And(0 <= row, row < rows, 0 <= tap, tap < taps)
    for stride in (1, 2, 3):
        window = Window(Loop((0,), 3, (1, 1, 0), True), 3, stride)
        met = row * stride + tap
        is_row = And((place - tap) % stride == 0, (place - tap) / stride == row)

        assert holds(And(met >= 0, met < (rows - 1) * stride + taps), inside)
        assert holds(is_row == (place == met))
        assert [window.row_of(stride * 4 + n, n) for n in range(3)] == [4, 4, 4]
        assert window.row_of(1, 0) == (1 if stride == 1 else None)
