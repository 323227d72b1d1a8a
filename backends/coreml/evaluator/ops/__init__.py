"""What each op computes, in tables by theme.

Importing this package fills the table that `find` looks in.
"""

from padc.backends.coreml.evaluator.ops import (
    activation,
    constexpr,
    conv,
    elementwise,
    image_resizing,
    linear,
    normalization,
    pool,
    quantization,
    reduction,
    scatter_gather,
    tensor_operation,
    tensor_transformation,
)
from padc.backends.coreml.evaluator.ops.registry import (
    OPS,
    Bool,
    Float,
    Int,
    Kernel,
    Number,
    UnknownValueError,
    find,
)

__all__ = [
    "OPS",
    "Bool",
    "Float",
    "Int",
    "Kernel",
    "Number",
    "UnknownValueError",
    "activation",
    "constexpr",
    "conv",
    "elementwise",
    "find",
    "image_resizing",
    "linear",
    "normalization",
    "pool",
    "quantization",
    "reduction",
    "scatter_gather",
    "tensor_operation",
    "tensor_transformation",
]
