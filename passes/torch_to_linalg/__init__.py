"""How ordinary ATen ops are written in upstream's tensor ops, by family."""

from padc.passes.torch_to_linalg import (
    elementwise,
    indexing,
    normalization,
    products,
    reductions,
    shapes,
    sizes,
)
from padc.passes.torch_to_linalg.call import LOWERINGS, LinalgCall

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
