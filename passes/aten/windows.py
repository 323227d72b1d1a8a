"""
Windows whose lengths depend on sizes that only the program knows, in ATen's ops.

Adaptive pools and antialiasing combine the elements of windows. The windows along a
dimension are gathered next to each other, each as long as the longest may be.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from padc.ir import resampling
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.symbolic_tensor import SymbolicTensor


@dataclass(frozen=True)
class Windows:
    """Windows along one dimension."""

    starts: SymbolicTensor
    """The position of each window's first element, as int64."""
    lengths: SymbolicTensor
    """The number of elements of each, as int64; at least one."""
    longest: Integer
    """No window has more."""

    def elements(self) -> SymbolicTensor:
        """The numbers of all elements that a window may have."""
        build = self.starts.build
        return self.starts.like(build.arange(0, self.longest))

    def gather(self, build: AtenBuilder, x: SSAValue, dim: int) -> SSAValue:
        """
        The windows along `dim` of `x`, `[before, windows, elements, after]`.

        A window that is shorter than others repeats its last element.
        """
        last = (self.lengths - 1).unsqueeze(1)
        places = last.minimum(self.elements()) + self.starts.unsqueeze(1)
        count, longest = (build.size(places.value, d) for d in range(2))
        leading, size, trailing = split(build, x, dim)
        before, after = (build.product(each) for each in (leading, trailing))
        x = build.reshape(x, [before, size, after])
        x = build.index_select(x, 1, build.flatten(places.value, 0, 1))
        return build.reshape(x, [before, count, longest, after])

    def restore(
        self, build: AtenBuilder, y: SSAValue, x: SSAValue, dim: int
    ) -> SSAValue:
        """`[before, windows, after]` with the dimensions of `x`, windows for `dim`."""
        before, _, after = split(build, x, dim)
        return build.reshape(y, [*before, build.size(self.starts.value, 0), *after])


def adaptive_windows(build: AtenBuilder, size: Integer, new_size: Integer) -> Windows:
    """The windows of an adaptive pool."""
    sizes = build.wrap(size), build.wrap(new_size)
    j = SymbolicTensor(build.arange(0, new_size), build)
    starts, ends = resampling.area_window(j, *sizes)
    longest = resampling.longest_area(*sizes)
    return Windows(starts, ends - starts, longest.value)


def split(
    build: AtenBuilder, x: SSAValue, dim: int
) -> tuple[list[Integer], Integer, list[Integer]]:
    """The sizes of `x` before, at and after `dim`."""
    sizes = build.sizes(x)
    return sizes[:dim], sizes[dim], sizes[dim + 1 :]
