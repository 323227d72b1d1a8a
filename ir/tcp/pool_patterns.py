"""
Pools of pads: taps that meet nothing but fill are dropped.

`padc.ir.padding.needed_taps` says which these are. It is proved for all sizes and
amounts in test/ir/test_pad_algebra.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from padc.ir import padding
from padc.ir.element_types import least_value
from padc.ir.tcp.pad_patterns import replace, scalar
from padc.ir.tcp.pads import PadOp
from padc.ir.tcp.pools import ArgMaxPoolOp, AvgPoolOp, MaxPoolOp, PoolOp


@dataclass(frozen=True)
class Window:
    """A pool, and the pad of its input, along one dimension."""

    size: int
    lower: int
    upper: int
    windows: int
    kernel: int
    stride: int
    dilation: int
    uncounted_lower: int = 0
    uncounted_upper: int = 0

    def smaller(self, counts: bool) -> Window:
        """Without the taps that meet only fill; with `counts`, if it is uncounted."""
        padded = padding.padded_size(self.size, self.lower, self.upper)
        start = max(self.lower, 0)
        end = min(self.lower + self.size, padded)
        if counts:
            start = min(start, self.uncounted_lower)
            end = max(end, padded - self.uncounted_upper)
        if not 0 <= start < end <= padded:
            return self
        needed = padding.needed_taps(
            start, end, self.windows, self.kernel, self.stride, self.dilation
        )
        if needed.count == self.kernel:
            return self
        lower = self.lower - needed.below
        above = padded - needed.below - needed.size
        return Window(
            self.size,
            lower,
            self.upper - above,
            self.windows,
            needed.count,
            self.stride,
            self.dilation,
            self.uncounted_lower - needed.below if counts else 0,
            self.uncounted_upper - above if counts else 0,
        )


class PoolOfPad(RewritePattern):
    """
    `pool(pad(x, f, a), k) -> pool(pad(x, f, b), l)`, if the taps of `k` that are not in
    `l` meet only fill, in all windows.

    The fill is one that does not change the result: 0 in sums, the least value for the
    largest. Windows that are larger than their input become as large as that.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, PoolOp)
        pad = op.input.owner
        if not isinstance(pad, PadOp) or not is_neutral(op, pad.fill):
            return
        if (windows := static_windows(op, pad)) is None:
            return
        divisor = common_divisor(op)
        counts = not isinstance(op, MaxPoolOp) and divisor is None
        smaller = [window.smaller(counts) for window in windows]
        if smaller == windows:
            return
        padded = repadded(op, pad, smaller)
        replace(rewriter, op, padded, with_windows(op, padded.result, smaller, divisor))


def is_neutral(op: PoolOp, fill: SSAValue) -> bool:
    """Whether elements of the value `fill` do not change the results of the pool."""
    number = scalar(fill)
    is_sum = isinstance(op, AvgPoolOp)
    neutral = 0 if is_sum else least_value(op.input_type.element_type)
    return number is not None and number.value.data == neutral


def static_windows(op: PoolOp, pad: PadOp) -> list[Window] | None:
    """The windows along `dims`; None if they are not all static, or do not all fit."""
    dims = op.dims.get_values()
    sizes, results = pad.input_type.get_shape(), op.result.type.get_shape()
    windows: list[Window] = []
    for i, dim in enumerate(dims):
        lower, upper, interior = pad.expansions[dim]
        if not isinstance(lower, int) or not isinstance(upper, int) or interior != 0:
            return None
        if sizes[dim] == DYNAMIC_INDEX:
            return None
        uncounted = op.uncounted[i] if isinstance(op, AvgPoolOp | ArgMaxPoolOp) else ()
        windows.append(
            Window(
                sizes[dim],
                lower,
                upper,
                results[dim],
                op.kernel.get_values()[i],
                op.strides.get_values()[i],
                op.dilations.get_values()[i],
                *uncounted,
            )
        )
    return windows


def common_divisor(op: PoolOp) -> int | None:
    """The divisor of all sums of a static average pool, if there is only one."""
    if not isinstance(op, AvgPoolOp):
        return None
    if op.divisor is not None:
        return op.divisor.value.data
    counts = op.counts()
    assert counts is not None
    if any(len(set(along)) != 1 for along in counts):
        return None
    return math.prod(along[0] for along in counts)


def repadded(op: PoolOp, pad: PadOp, windows: Sequence[Window]) -> PadOp:
    """The pad with the amounts of these windows."""
    lower, upper, interior = map(list, zip(*pad.expansions, strict=True))
    for dim, window in zip(op.dims.get_values(), windows, strict=True):
        lower[dim], upper[dim] = window.lower, window.upper
    return PadOp(pad.input, pad.fill, lower, upper, interior)


def with_windows(
    op: PoolOp, x: SSAValue, windows: Sequence[Window], divisor: int | None
) -> PoolOp:
    """The pool of `x` with the kernels of these windows."""
    kernel = [window.kernel for window in windows]
    strides, dilations = op.strides.get_values(), op.dilations.get_values()
    pool = (x, kernel, strides, dilations, op.dims.get_values(), op.result.type)
    if isinstance(op, MaxPoolOp):
        return MaxPoolOp(*pool)
    lower = [window.uncounted_lower for window in windows]
    upper = [window.uncounted_upper for window in windows]
    if isinstance(op, ArgMaxPoolOp):
        return ArgMaxPoolOp(*pool, uncounted_lower=lower, uncounted_upper=upper)
    if divisor is None:
        return AvgPoolOp(*pool, uncounted_lower=lower, uncounted_upper=upper)
    is_mean = divisor == math.prod(kernel)
    return AvgPoolOp(*pool, divisor=None if is_mean else divisor)
