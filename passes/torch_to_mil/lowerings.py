"""How each ATen op is lowered to Core ML's, by family."""

from padc.passes.torch_to_mil import (
    attention,
    cumulative,
    distances,
    elementwise,
    gathering,
    linalg,
    masks,
    normalization,
    products,
    quantiles,
    recurrent,
    reductions,
    scattering,
    sizes,
    softmax,
    sorting,
)
from padc.passes.torch_to_mil.mil_call import LOWERINGS

__all__ = [
    "LOWERINGS",
    "attention",
    "cumulative",
    "distances",
    "elementwise",
    "gathering",
    "linalg",
    "masks",
    "normalization",
    "products",
    "quantiles",
    "recurrent",
    "reductions",
    "scattering",
    "sizes",
    "softmax",
    "sorting",
]
