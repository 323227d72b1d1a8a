"""
The kernels of all ops.

The table is in `registry`; every other file has the name of one in coremltools'
documentation.

Importing this package fills the table that `find` searches. The formulas are those of
an oracle, independent of padc's passes on purpose: each is written from the
documentation.
"""

from padc.backends.coreml.evaluator.ops import (
    activation,
    classify,
    constexpr,
    control_flow,
    conv,
    elementwise,
    image_resizing,
    linear,
    normalization,
    pool,
    quantization,
    random,
    recurrent,
    reduction,
    scatter_gather,
    tensor_operation,
    tensor_transformation,
)
from padc.backends.coreml.evaluator.ops.registry import (
    OPS,
    AnyValue,
    Bool,
    Float,
    Int,
    Kernel,
    Number,
    Op,
    UnknownValueError,
    find,
)

__all__ = [
    "OPS",
    "AnyValue",
    "Bool",
    "Float",
    "Int",
    "Kernel",
    "Number",
    "Op",
    "UnknownValueError",
    "activation",
    "classify",
    "constexpr",
    "control_flow",
    "conv",
    "elementwise",
    "find",
    "image_resizing",
    "linear",
    "normalization",
    "pool",
    "quantization",
    "random",
    "recurrent",
    "reduction",
    "scatter_gather",
    "tensor_operation",
    "tensor_transformation",
]
