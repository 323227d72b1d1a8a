"""PyTorch's numbers of dtypes, which ATen's arguments of type `ScalarType` are."""

from collections.abc import Mapping

DTYPE_NUMBERS: Mapping[str, int] = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}
"""By the names of dtypes: c10/core/ScalarType.h."""

LAST_DTYPE_NUMBER = 44
"""float8_e8m0fnu's, which all versions from 2.8 on have."""
