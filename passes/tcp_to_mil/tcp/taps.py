"""Windows as slices: one for each position in the kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.ir import padding
from padc.ir.tcp import tensor_type
from padc.passes.common.mil_builder import MilBuilder


def tap_offsets(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The positions in a kernel, in order."""
    return itertools.product(*map(range, kernel))


def window_taps(
    build: MilBuilder,
    x: SSAValue,
    dims: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[SSAValue]:
    """For each position in the kernel, the element of every window there."""
    result: list[SSAValue] = []
    for offsets in tap_offsets(kernel):
        tap = x
        for dim, offset, extent, stride, dilation in zip(
            dims, offsets, kernel, strides, dilations, strict=True
        ):
            size = tensor_type(tap).get_shape()[dim]
            if size == DYNAMIC_INDEX:
                stop = (offset - extent + 1) * dilation or None
            else:
                count = padding.conv_output_size(size, extent, stride, dilation)
                stop = offset * dilation + (count - 1) * stride + 1
            tap = build.slice(tap, dim, offset * dilation, stop, stride)
        result.append(tap)
    return result
