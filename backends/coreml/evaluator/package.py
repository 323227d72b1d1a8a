# pyright: basic, reportMissingTypeStubs=false
"""
A saved `.mlpackage`: its manifest, its protobuf and its weight files.

    Model.mlpackage/
      Manifest.json                    names the root model
      Data/com.apple.CoreML/
        model.mlmodel                  protobuf: mlmodel/format/Model.proto, MIL.proto
        weights/weight.bin             mlmodel/src/MILBlob/Blob/StorageFormat.hpp

Formats: github.com/apple/coremltools, the files named above.
"""

import json
import os
import struct
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from padc.backends.coreml.evaluator.messages import DecodeError, Message, model_class
from padc.backends.coreml.evaluator.values.types import (
    BOOL,
    DTYPES,
    FP32,
    INT64,
    Array,
    DictionaryType,
    Dtype,
    ListType,
    StateType,
    StringType,
    TensorType,
    ValueType,
    packed_size,
    unpack,
)
from padc.common.paths import path_of
from padc.errors import (
    InvalidProgramError,
    Problem,
    UnsupportedError,
    UsageError,
)

Constant = Array | str | list[str] | list[int]

STORAGE_HEADER = struct.Struct("<II56x")  # count, version
BLOB_METADATA = struct.Struct("<IIQQ40x")  # sentinel, type, size in bytes, offset
SENTINEL = 0xDEADBEEF
ALIGNMENT = 64


class Package:
    """An opened package: `spec` is its `Model` message."""

    def __init__(self, path: Path | str):
        """
        Read `path`.

        Raises UsageError if there is no folder, InvalidProgramError if the manifest or
        the protobuf is damaged.
        """
        self.path = path_of(path)
        if not self.path.is_dir():
            what = "it is no folder" if self.path.exists() else "no such folder"
            raise UsageError(f"{self.path} is not an .mlpackage: {what}")
        self._model_file = self._find_model()
        self._weights: dict[str, Path] = {}
        self.spec: Message = model_class()()
        try:
            self.spec.ParseFromString(self._model_file.read_bytes())
        except (DecodeError, OSError) as error:
            raise InvalidProgramError(f"{self._model_file}: {error}") from error

    def check_kind(self) -> None:
        """
        Check that this is an ML program.

        Raises UnsupportedError if it is another kind of model, InvalidProgramError if
        it is not a model.
        """
        kind = self.spec.WhichOneof("Type")
        if kind is None:
            raise InvalidProgramError(f"{self._model_file} holds no model")
        if kind != "mlProgram":
            what = f"{self.path} holds a model of type {kind}, not an mlProgram"
            raise UnsupportedError([Problem(what)])

    def _find_model(self) -> Path:
        manifest = self.path / "Manifest.json"
        if not manifest.is_file():
            raise InvalidProgramError(
                f"{self.path} is not an .mlpackage: it has no Manifest.json, which "
                "names the file of its model",
                hint="name the folder that `padc convert` or coremltools' save wrote; "
                "for a compiled .mlmodelc, name the package that it was compiled from",
            )
        try:
            content = json.loads(manifest.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidProgramError(f"{manifest} is not JSON: {error}") from error
        try:
            root = content["itemInfoEntries"][content["rootModelIdentifier"]]["path"]
        except (LookupError, TypeError):
            root = None
        if not isinstance(root, str):
            raise InvalidProgramError(
                f"{manifest} does not name the package's model: no path at "
                "itemInfoEntries[rootModelIdentifier].path"
            )
        return self._inside(self.path / "Data", root)

    def _inside(self, folder: Path, relative: str) -> Path:
        try:
            file = (folder / relative).resolve()
            if file.is_relative_to(self.path.resolve()) and file.is_file():
                return file
        except (OSError, ValueError):
            pass
        raise InvalidProgramError(f"{self.path}: no file {relative!r} in the package")

    def constant(self, value: Message) -> Constant:
        """
        The tensor or text in a `Value` message, in the dtype of `Dtype.held_as`.

        Raises InvalidProgramError if its data do not match its type.
        """
        if value.type.WhichOneof("type") == "tupleType":
            raise _unsupported("a constant tuple")
        kind = value_type(value.type)
        match value.WhichOneof("value"):
            case "immediateValue":
                content = value.immediateValue
                form = content.WhichOneof("value")
                if form == "list":
                    return self._labels(content.list.values)
                if form != "tensor" or not isinstance(kind, TensorType | StringType):
                    raise InvalidProgramError(
                        f"a constant {kind} has a value of the form {form}"
                    )
                return _immediate(content.tensor, kind)
            case "blobFileValue":
                blob = value.blobFileValue
                if not isinstance(kind, TensorType):
                    raise InvalidProgramError(f"a weight file cannot hold a {kind}")
                return self._blob(blob.fileName, blob.offset, kind)
            case _:
                raise InvalidProgramError(f"a constant {kind} has no value")

    def _labels(self, values: list[Message]) -> list[str] | list[int]:
        items = [self.constant(item) for item in values]
        strings = [item for item in items if isinstance(item, str)]
        if len(strings) == len(items):
            return strings
        numbers = [
            int(item.item())
            for item in items
            if isinstance(item, np.ndarray)
            and item.size == 1
            and item.dtype == np.int64
        ]
        if len(numbers) == len(items):
            return numbers
        raise _unsupported("a constant list of anything but strings or int64")

    def _blob(self, name: str, offset: int, kind: TensorType) -> Array:
        return _tensor(self._blob_data(name, offset, kind), element_count(kind), kind)

    def _blob_data(self, name: str, offset: int, kind: TensorType) -> memoryview:
        """The bytes of a constant of this kind in a weight file."""
        where = f"{name} at {offset}"
        try:
            with self._weight_file(name).open("rb") as stream:
                return _read_blob(stream, where, offset, kind)
        except (OSError, MemoryError) as error:
            raise InvalidProgramError(f"{where}: {error or 'too large'}") from error

    def _weight_file(self, name: str) -> Path:
        """The path of a weight file, after checking its header."""
        if (known := self._weights.get(name)) is not None:
            return known
        relative = name.removeprefix("@model_path/")
        file = self._inside(self._model_file.parent, relative)
        with file.open("rb") as stream:
            header = stream.read(STORAGE_HEADER.size)
        if len(header) < STORAGE_HEADER.size:
            raise InvalidProgramError(f"{name}: shorter than its header")
        _, version = STORAGE_HEADER.unpack(header)
        if version != 2:
            raise InvalidProgramError(f"{name}: version {version} is not 2")
        self._weights[name] = file
        return file


def _read_blob(
    stream: BufferedReader, where: str, offset: int, kind: TensorType
) -> memoryview:
    """
    The bytes of a constant of this kind, in writable memory.

    They are read, not mapped: reading from a mapped file that has become shorter ends
    the process.
    """
    length = os.fstat(stream.fileno()).st_size
    if offset % ALIGNMENT or offset + BLOB_METADATA.size > length:
        raise InvalidProgramError(
            f"{where}: the offset must be a multiple of {ALIGNMENT} inside the file's "
            f"{length} bytes"
        )
    metadata = _read(stream, where, offset, BLOB_METADATA.size)
    sentinel, code, size, start = BLOB_METADATA.unpack(metadata)
    if sentinel != SENTINEL:
        raise InvalidProgramError(
            f"{where}: expected the sentinel {SENTINEL:#x}, got {sentinel:#x}"
        )
    expected = packed_size(element_count(kind), kind.dtype)
    if code != kind.dtype.blob_code or size != expected:
        raise InvalidProgramError(
            f"{where}: {kind} needs {expected} bytes of type "
            f"{kind.dtype.blob_code}, the file has {size} of type {code}"
        )
    if start % ALIGNMENT or start + size > length:
        raise InvalidProgramError(
            f"{where}: {size} bytes at {start} are not in the file's {length}"
        )
    return _read(stream, where, start, size)


def _read(stream: BufferedReader, where: str, start: int, size: int) -> memoryview:
    data = np.empty(size, np.uint8).data
    stream.seek(start)
    if stream.readinto(data) != size:
        raise InvalidProgramError(f"{where}: the file became shorter while it was read")
    return data


def value_type(message: Message) -> ValueType:
    """
    The type in a `ValueType` message.

    Raises UnsupportedError for tuples and unknown dtypes.
    """
    match message.WhichOneof("type"):
        case "tensorType":
            tensor = message.tensorType
            if tensor.dataType == 2:
                return StringType()
            if (dtype := DTYPES.get(tensor.dataType)) is None:
                raise _unsupported(f"a tensor of dtype {_dtype_name(tensor)}")
            if any(dim.unknown.variadic for dim in tensor.dimensions):
                return TensorType(dtype, (), any_rank=True)
            dims = tuple(
                dim.constant.size if dim.WhichOneof("dimension") == "constant" else None
                for dim in tensor.dimensions
            )
            if tensor.rank != len(dims):
                raise InvalidProgramError(
                    f"a tensor of rank {tensor.rank} has {len(dims)} dimensions"
                )
            return TensorType(dtype, dims)
        case "listType" if message.listType.type.tensorType.dataType == 2:
            return StringType()
        case "listType":
            element = value_type(message.listType.type)
            if not isinstance(element, TensorType):
                raise _unsupported(f"a list of {element}")
            return ListType(element)
        case "stateType":
            wrapped = value_type(message.stateType.wrappedType)
            if not isinstance(wrapped, TensorType):
                raise _unsupported(f"a state of {wrapped}")
            return StateType(wrapped)
        case "dictionaryType":
            return DictionaryType()
        case other:
            raise _unsupported(f"a value of {other or 'no type'}")


def element_count(kind: TensorType) -> int:
    """The number of elements of a constant."""
    dims = [dim for dim in kind.shape if dim is not None]
    if len(dims) != len(kind.shape) or kind.any_rank:
        raise InvalidProgramError(f"a constant {kind} has an unknown dimension")
    return prod(dims)


def _dtype_name(tensor: Message) -> str:
    field = tensor.DESCRIPTOR.fields_by_name["dataType"]
    known = field.enum_type.values_by_number.get(tensor.dataType)
    return known.name if known is not None else f"number {tensor.dataType}"


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError([Problem(f"Core ML evaluator: {what}")])


def _immediate(tensor: Message, kind: TensorType | StringType) -> Array | str:
    form = tensor.WhichOneof("value")
    values: Any = getattr(tensor, form).values if form else []
    if isinstance(kind, StringType):
        if form != "strings" or len(values) != 1:
            raise InvalidProgramError(f"a constant string has {len(values)} {form}")
        return values[0]
    count = element_count(kind)
    if form == "bytes":
        if len(values) != packed_size(count, kind.dtype):
            raise InvalidProgramError(f"a constant {kind} has {len(values)} bytes")
        return _tensor(values, count, kind)
    accepts = {
        "floats": {FP32},
        "bools": {BOOL},
        "ints": _ints(),
        "longInts": {INT64},
    }
    if form not in accepts or kind.dtype not in accepts[form] or len(values) != count:
        raise InvalidProgramError(f"a constant {kind} has {len(values)} {form}")
    listed = np.array(values, np.float32 if form == "floats" else np.int64)
    data = listed.astype(kind.dtype.storage)
    if form == "ints" and not np.array_equal(data, listed):
        raise InvalidProgramError(f"a constant {kind} has a value out of its range")
    return _tensor(data.tobytes(), count, kind)


def _ints() -> set[Dtype]:
    return {dtype for dtype in DTYPES.values() if not dtype.is_float} - {BOOL}


def _tensor(data: bytes | memoryview, count: int, kind: TensorType) -> Array:
    shape = [dim for dim in kind.shape if dim is not None]
    if count == 0:
        try:
            return np.empty(shape, kind.dtype.held_as)
        except (ValueError, TypeError, MemoryError) as error:
            raise InvalidProgramError(f"a constant {kind}: {error}") from error
    if kind.dtype is FP32 and isinstance(data, memoryview):
        return np.frombuffer(data, np.float32).reshape(shape)
    if kind.dtype.bits < 8:
        values = unpack(data, count, kind.dtype)
    else:
        values = np.frombuffer(data, kind.dtype.storage)
    return values.astype(kind.dtype.held_as).reshape(shape)
