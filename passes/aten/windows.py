"""
Windows of as many elements as only the sizes say, in ATen's ops.

What adaptive pools and antialiasing combine: the windows along a dimension are gathered
side by side, each as long as the longest may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from padc.passes.aten.arithmetic import Arithmetic
from padc.passes.aten.builder import AtenBuilder, Integer


@dataclass(frozen=True)
class Windows:
    """Windows along one dimension."""

    starts: SSAValue
    """The position of each window's first element, as int64."""
    lengths: SSAValue
    """How many elements each has, as int64; at least one."""
    longest: Integer
    """No window has more."""

    def elements(self, build: AtenBuilder) -> SSAValue:
        """The numbers of all elements that a window may have."""
        return build.arange(0, self.longest)

    def gather(self, build: AtenBuilder, x: SSAValue, dim: int) -> SSAValue:
        """
        The windows along `dim` of `x`, `[before, windows, elements, after]`.

        One that is shorter than others repeats its last element.
        """
        of = Arithmetic(build, i64)
        last = build.unsqueeze(of.sub(self.lengths, 1), 1)
        places = of.binary("minimum", last, self.elements(build))
        places = of.add(places, build.unsqueeze(self.starts, 1))
        count, longest = (build.size(places, d) for d in range(2))
        leading, size, trailing = split(build, x, dim)
        before, after = (symbolic_product(build, each) for each in (leading, trailing))
        x = build.reshape(x, [before, size, after])
        x = build.index_select(x, 1, build.flatten(places, 0, 1))
        return build.reshape(x, [before, count, longest, after])

    def restore(
        self, build: AtenBuilder, y: SSAValue, x: SSAValue, dim: int
    ) -> SSAValue:
        """`[before, windows, after]` with the dimensions of `x`, windows for `dim`."""
        before, _, after = split(build, x, dim)
        return build.reshape(y, [*before, build.size(self.starts, 0), *after])


def area_windows(build: AtenBuilder, size: Integer, new_size: Integer) -> Windows:
    """The windows of an adaptive pool: `padc.ir.resampling.area_windows`."""
    of = Arithmetic(build, i64)

    def divided(numbers: SSAValue) -> SSAValue:
        by = of.integers([new_size])
        return of.binary("div.Tensor_mode", numbers, by, rounding_mode="floor")

    along = of.integers([size])
    firsts = of.mul(build.arange(0, new_size), along)
    starts = divided(firsts)
    # Rounded up, as one more than the rounded down of one less.
    ends = of.add(divided(of.sub(of.add(firsts, along), 1)), 1)
    # Less than one element is cut at either side.
    count = build.wrap(new_size)
    longest = (build.wrap(size) + (count - 1)) // count + 1
    return Windows(starts, of.sub(ends, starts), longest.value)


def split(
    build: AtenBuilder, x: SSAValue, dim: int
) -> tuple[list[Integer], Integer, list[Integer]]:
    """The sizes of `x` before, at and behind `dim`."""
    sizes = build.sizes(x)
    return sizes[:dim], sizes[dim], sizes[dim + 1 :]


def symbolic_product(build: AtenBuilder, sizes: Sequence[Integer]) -> Integer:
    return reduce(build.multiply, sizes, 1)
