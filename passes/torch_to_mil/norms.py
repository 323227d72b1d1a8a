"""Vector norms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from padc.passes.torch_to_mil.tensor import Tensor


def vector_norm(
    x: Tensor, order: float, dims: Sequence[int], *, keepdim: bool = False
) -> Tensor:
    """The norm along `dims`: `sum(|x|^p)^(1/p)`, and its limits for 0 and infinity."""
    kept = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
    rest = [size for dim, size in enumerate(x.shape) if dim not in dims]
    shape = kept if keepdim else rest

    def reduced(name: str, x: Tensor) -> Tensor:
        return x.emit(name, shape, x=x, axes=list(dims), keep_dims=keepdim)

    if order == math.inf:
        return reduced("reduce_max", abs(x))
    if order == -math.inf:
        return reduced("reduce_min", abs(x))
    if order == 0:
        return reduced("reduce_sum", x.differs(0).to(x.type))
    if order == 1:
        return reduced("reduce_l1_norm", x)
    if order == 2:
        return reduced("reduce_l2_norm", x)
    power = abs(x).binary("pow", order)
    return reduced("reduce_sum", power).binary("pow", 1 / order)
