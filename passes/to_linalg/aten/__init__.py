"""How ordinary ATen ops are written in upstream's tensor ops, by family."""

from padc.passes.to_linalg.aten import (
    elementwise,
    indexing,
    normalization,
    products,
    reductions,
    shapes,
    sizes,
)
from padc.passes.to_linalg.aten.call import LOWERINGS, LinalgCall

__all__ = [
    "LOWERINGS",
    "LinalgCall",
    "elementwise",
    "indexing",
    "normalization",
    "products",
    "reductions",
    "shapes",
    "sizes",
]
