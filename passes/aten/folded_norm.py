"""
The weights of a folded batch norm, and how they are computed.

Models with the same program share machine code; each computes its folded weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from padc.ir.weights import Array, Weights
from padc.passes.aten.formulas import factor_and_summand


@dataclass(frozen=True)
class FoldedNorm:
    """The names of a folded kernel and bias, and of the weights they replace."""

    weight: str
    bias: str
    conv_weight: str
    conv_bias: str | None
    norm_weight: str | None
    norm_bias: str | None
    mean: str
    variance: str
    eps: float
    groups: int
    outputs: int
    """The kernel's dimension of output features."""
    inputs: int
    transposed: bool

    @property
    def names(self) -> Sequence[str]:
        """The weights that it computes."""
        return [self.weight, self.bias]

    def apply(self, weights: Weights) -> None:
        """Compute both in float64, and store them in the kernel's type."""

        def given(name: str | None, default: float) -> Array | float:
            return default if name is None else weights[name].astype(np.float64)

        kernel = weights[self.conv_weight]
        factor, summand = factor_and_summand(
            given(self.mean, 0.0),
            1 / np.sqrt(given(self.variance, 1.0) + self.eps),
            given(self.norm_weight, 1.0),
            given(self.norm_bias, 0.0),
        )
        summand = summand + given(self.conv_bias, 0.0) * factor
        weights[self.weight] = (kernel * self.factors(kernel, factor)).astype(
            kernel.dtype
        )
        weights[self.bias] = summand.astype(kernel.dtype)

    def factors(self, kernel: Array, factor: Array) -> Array:
        """The factor of each element of the kernel: that of its output feature."""
        shape = [1] * kernel.ndim
        if not self.transposed:
            shape[self.outputs] = -1
            return factor.reshape(shape)
        # Each group of input features has its own output features.
        each = kernel.shape[self.inputs] // self.groups
        by_input = np.repeat(factor.reshape(self.groups, -1), each, axis=0)
        shape[self.inputs], shape[self.outputs] = by_input.shape
        return (by_input if self.inputs < self.outputs else by_input.T).reshape(shape)
