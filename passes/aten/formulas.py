"""
Formulas of ATen ops that are not elementwise, for every path.

Their operands are numbers of Python and numpy, or `Element`s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from padc.ir.arithmetic import Real, Whole, select
from padc.ir.element_types import wide
from padc.ir.weights import numpy_dtype


def factor_and_summand(
    mean: Real, inverse: Real, weight: Real | None = None, bias: Real | None = None
) -> tuple[Real, Real]:
    """A batch norm as `x * factor + summand`; `inverse` is that of the deviation."""
    factor = inverse if weight is None else inverse * weight
    shift = mean * factor
    return factor, -shift if bias is None else bias - shift


def default_epsilon(type: Attribute) -> float:
    """What an RMS norm of elements of `type` adds to the mean, if not told."""
    return float(np.finfo(numpy_dtype(wide(type))).eps)


def evenly_spaced(
    i: Whole,
    count: int,
    first: Real,
    last: Real,
    step: Real,
    real: Callable[[Whole], Any] = lambda x: x,
) -> Real:
    """Number `i` of `count`; PyTorch computes each half from its end."""
    low, high = first + step * real(i), last - step * real(count - 1 - i)
    return select(i < max(count // 2, 1), low, high)
