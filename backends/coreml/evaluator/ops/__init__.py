"""
The kernels of all ops.

The table is in `registry`; every other file has the name of one in coremltools'
documentation.

Importing this package fills the table that `find` searches. The formulas are those of
an oracle, independent of padc's passes on purpose: each is written from the
documentation.
"""

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
from padc.common.families import import_families

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
    "find",
]

import_families(__name__, __path__)
