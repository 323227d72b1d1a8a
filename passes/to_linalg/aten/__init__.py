"""Lowerings of ordinary ATen ops to linalg, by family."""

from padc.passes.to_linalg.aten import (
    creation,
    cumulative,
    elementwise,
    indexing,
    joining,
    normalization,
    permuting,
    products,
    reductions,
    repeating,
    reshaping,
    sizes,
    slicing,
    splitting,
)
from padc.passes.to_linalg.aten.linalg_call import LOWERINGS, LinalgCall

__all__ = [
    "LOWERINGS",
    "LinalgCall",
    "creation",
    "cumulative",
    "elementwise",
    "indexing",
    "joining",
    "normalization",
    "permuting",
    "products",
    "reductions",
    "repeating",
    "reshaping",
    "sizes",
    "slicing",
    "splitting",
]
