"""How each ATen op is lowered to Core ML's, by family."""

from padc.passes.torch_to_mil import (
    elementwise,
    recurrent,
    reductions,
    sizes,
    softmax,
)
from padc.passes.torch_to_mil.mil_call import LOWERINGS

__all__ = [
    "LOWERINGS",
    "elementwise",
    "recurrent",
    "reductions",
    "sizes",
    "softmax",
]
