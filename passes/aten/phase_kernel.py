"""
The kernel of one phase of a transposed convolution, as a weight of its own.

It is computed from the kernel when weights are bound, not when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from padc.ir.weights import Weights


@dataclass(frozen=True)
class PhaseKernel:
    """A phase of a kernel: the names of both, and which taps it has."""

    weight: str
    kernel: str
    order: Sequence[int]
    """The dimensions of the kernel: input and output features, then spatial ones."""
    groups: int
    taps: Sequence[tuple[int, int]]
    """For each spatial dimension, the first tap, and the distance to the next one."""

    @property
    def names(self) -> Sequence[str]:
        """The weights that it computes."""
        return [self.weight]

    def apply(self, weights: Weights) -> None:
        """Pick the taps, last one first; the output features of all groups lead."""
        kernel = weights[self.kernel].transpose(self.order)
        picked = tuple(slice(first, None, step) for first, step in self.taps)
        kernel = kernel[:, :, *picked]
        kernel = kernel[:, :, *[slice(None, None, -1)] * len(self.taps)]
        inputs, outputs, *window = kernel.shape
        each = inputs // self.groups
        kernel = kernel.reshape(self.groups, each, outputs, *window).swapaxes(1, 2)
        shape = [self.groups * outputs, each, *window]
        weights[self.weight] = kernel.reshape(shape).copy()
