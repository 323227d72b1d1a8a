"""PyTorch's numbers of dtypes, layouts and memory formats, which ATen's ops take."""

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

LAST_NUMBERS: Mapping[str, tuple[str, int]] = {
    "ScalarType": ("dtype", 44),
    "Layout": ("layout", 7),
    "MemoryFormat": ("memory format", 3),
}
"""
What arguments of these types are, and the last number of each.

They are those of float8_e8m0fnu, jagged and channels_last_3d, which all versions of
PyTorch from 2.8 on have.
"""
