"""The element types of MIL, and the numpy dtypes that hold them.

The evaluator computes with four kinds of array: every float type is held
as float32, bool as bool, uint32 and int64 (only labels are) as int64, and every
other integer type as int32.
The program keeps the type of each value; results are rounded to it.

Codes are those of `DataType` in mlmodel/format/MIL.proto and of `BlobDataType` in
mlmodel/src/MILBlob/Blob/BlobDataType.hpp (github.com/apple/coremltools).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Dtype:
    """An element type of MIL."""

    name: str
    mil_code: int
    blob_code: int | None
    """Its code in a weight file; None if weight files cannot hold it."""
    storage: npt.DTypeLike
    """The numpy dtype of an element; below 8 bits, of an unpacked element."""
    bits: int
    held_as: np.dtype[Any]

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.held_as.kind == "f"


_BOOL, _FLOAT = np.dtype(np.bool_), np.dtype(np.float32)
_INT, _LONG = np.dtype(np.int32), np.dtype(np.int64)

BOOL = Dtype("bool", 1, None, np.bool_, 8, _BOOL)
FP16 = Dtype("fp16", 10, 1, np.float16, 16, _FLOAT)
FP32 = Dtype("fp32", 11, 2, np.float32, 32, _FLOAT)
INT8 = Dtype("int8", 21, 4, np.int8, 8, _INT)
INT16 = Dtype("int16", 22, 6, np.int16, 16, _INT)
INT32 = Dtype("int32", 23, 14, np.int32, 32, _INT)
INT64 = Dtype("int64", 24, None, np.int64, 64, _LONG)
INT4 = Dtype("int4", 25, 8, np.int8, 4, _INT)
UINT8 = Dtype("uint8", 31, 3, np.uint8, 8, _INT)
UINT16 = Dtype("uint16", 32, 7, np.uint16, 16, _INT)
UINT32 = Dtype("uint32", 33, 15, np.uint32, 32, _LONG)
UINT4 = Dtype("uint4", 35, 11, np.uint8, 4, _INT)
UINT2 = Dtype("uint2", 36, 10, np.uint8, 2, _INT)
UINT1 = Dtype("uint1", 37, 9, np.uint8, 1, _INT)
UINT6 = Dtype("uint6", 38, 13, np.uint8, 6, _INT)
UINT3 = Dtype("uint3", 39, 12, np.uint8, 3, _INT)

DTYPES = {
    dtype.mil_code: dtype
    for dtype in (
        *(BOOL, FP16, FP32, INT4, INT8, INT16, INT32, INT64),
        *(UINT1, UINT2, UINT3, UINT4, UINT6, UINT8, UINT16, UINT32),
    )
}


@dataclass(frozen=True)
class TensorType:
    """`tensor<shape, dtype>`; an unknown dimension is None."""

    dtype: Dtype
    shape: tuple[int | None, ...]
    any_rank: bool = False
    """Whether the type leaves the shape open; `shape` is () then."""

    def __str__(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"tensor<[{'...' if self.any_rank else dims}], {self.dtype}>"

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this type may have `shape`."""
        return self.any_rank or (
            len(shape) == len(self.shape)
            and all(
                dim in (None, size) for dim, size in zip(self.shape, shape, strict=True)
            )
        )


@dataclass(frozen=True)
class StringType:
    """A scalar string, or a list of them."""

    def __str__(self) -> str:
        return "str"


@dataclass(frozen=True)
class ListType:
    """A list of tensors of one type, or of labels."""

    element: TensorType

    def __str__(self) -> str:
        return f"list of {self.element}"


@dataclass(frozen=True)
class StateType:
    """A tensor that outlives a prediction."""

    tensor: TensorType

    def __str__(self) -> str:
        return f"state of {self.tensor}"


@dataclass(frozen=True)
class DictionaryType:
    """A float for each label."""

    def __str__(self) -> str:
        return "dictionary"


ValueType = TensorType | StringType | ListType | StateType | DictionaryType


@dataclass(frozen=True)
class TensorList:
    """A list of tensors; None is a tensor of unknown shape that is not written yet."""

    items: tuple[Array | None, ...]
    grows: bool
    empty: Array | None
    """An element before it is written."""


@dataclass
class StateCell:
    """The tensor of a state."""

    tensor: Array


Value = Array | str | int | dict[Any, float] | TensorList | StateCell
"""A value of a program at run time."""


def unpack(data: bytes | memoryview, count: int, dtype: Dtype) -> Array:
    """
    `count` elements of `dtype`, below 8 bits, from the bytes that pack them.

    Elements follow one another bit by bit, least significant bit first (iOS16
    `constexpr_lut_to_dense`).
    """
    bits = np.unpackbits(
        np.frombuffer(data, np.uint8), count=count * dtype.bits, bitorder="little"
    )
    values = np.packbits(bits.reshape(count, dtype.bits), axis=1, bitorder="little")
    values = values.reshape(count).view(dtype.storage)
    return (values ^ 8) - 8 if dtype is INT4 else values


def packed_size(count: int, dtype: Dtype) -> int:
    """The number of bytes of `count` packed elements of `dtype`."""
    return -(-count * dtype.bits // 8)
