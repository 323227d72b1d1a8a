"""The places that a strided view has in one dimension, and when two views share none.

Pure arithmetic: offsets and sizes may be symbolic integers too (the test proves the
functions with z3's), strides are integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class StridedRange:
    """The places `offset + i * stride` for each i from 0 up to `size`."""

    offset: int
    size: int | None
    """The number of places; None if it is unknown."""
    stride: int
    """How far neighbors are apart; at least 1."""

    def part(self, inner: StridedRange) -> StridedRange:
        """The range `inner` of the places in this range, as places of the whole."""
        offset = self.offset + inner.offset * self.stride
        return StridedRange(offset, inner.size, inner.stride * self.stride)

    def first_common(self, other: StridedRange) -> int:
        """
        The first place from `offset` on that `other` has if it is endless both ways.

        This is the least `i >= 0` with `offset + i * stride` equal to `other.offset`
        modulo `other.stride`. It exists if the greatest common divisor of both strides
        divides the difference of the offsets.
        """
        divisor = gcd(self.stride, other.stride)
        period = other.stride // divisor
        inverse = pow(self.stride // divisor, -1, period)
        steps = (other.offset - self.offset) // divisor * inverse % period
        return self.offset + steps * self.stride


def disjoint(a: StridedRange, b: StridedRange) -> bool:
    """
    Whether no place is in both ranges: exact if both sizes are known.

    A range of unknown size counts as endless. The later of both `first_common` is the
    first place in both endless ranges; it is in `a` and `b` if neither ends before it.
    """
    result = (b.offset - a.offset) % gcd(a.stride, b.stride) != 0
    for place in (a.first_common(b), b.first_common(a)):
        for x in (a, b):
            if x.size is not None:
                result |= place >= x.offset + x.size * x.stride
    return result
