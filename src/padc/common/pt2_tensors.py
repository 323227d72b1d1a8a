"""
Tensors whose bytes are members of a `.pt2` file, as JSON in the file describes them.

The descriptions are checked against the members before any of these is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from padc.common.archive import Archive, UnsafeError

CONFIGS = {
    "data/weights/": "model_weights_config.json",
    "data/constants/": "model_constants_config.json",
}
"""The member that describes the tensors of a folder."""
ITEM_SIZES = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2,
    28: 2, 29: 1, 30: 1, 31: 1, 32: 1, 33: 1, 34: 4, 35: 8,
}  # fmt: skip
"""Bytes of an element, by the number that `torch._export.serde` gives its dtype."""
MOST_DIMENSIONS = 64
"""Of a tensor in PyTorch."""
MOST_TEXT = 2**27
"""Bytes of JSON that are read."""
MOST_EXPANDED = 2**30
"""Bytes of a tensor that is larger than its storage, since strides are 0."""
LEAST_VALUES, BYTES_OF_VALUE = 2**19, 10
"""Values in JSON: so many, or one for so many bytes. PyTorch's have 15 and more."""


class StoredTensor:
    """
    What a file says of a tensor, a view of the bytes of a blob.

    Raises UnsafeError for what has no plain bytes, and for sizes that no tensor has.
    """

    def __init__(self, name: str, folder: str, meta: Mapping[str, Any]):
        self.name = name
        path: str = meta["path_name"]
        self.blob = folder + path
        if meta["use_pickle"]:
            raise UnsafeError(f"the tensor {name} is pickled, in {path}")
        if (tensor := meta["tensor_meta"]) is None:
            raise UnsafeError(f"{name} is no tensor, but an object, in {path}")
        self.dtype: int = tensor["dtype"]
        """The number that `torch._export.serde` gives it."""
        if self.dtype not in ITEM_SIZES:
            raise ValueError(f"the tensor {name} has an unknown dtype, {self.dtype}")
        self.shape = [int(size["as_int"]) for size in tensor["sizes"]]
        self.strides = [int(stride["as_int"]) for stride in tensor["strides"]]
        self.offset = int(tensor["storage_offset"]["as_int"])
        self.is_parameter: bool = meta["is_param"]
        self.requires_grad: bool = tensor["requires_grad"]
        self.device: str = tensor["device"]["type"]
        if self.device == "meta":
            raise ValueError(f"the tensor {name} is on the meta device, without data")
        check_sizes(name, self.offset, self.shape, self.strides)

    @property
    def end(self) -> int:
        """The bytes of the blob up to the tensor's last element."""
        item_size = ITEM_SIZES[self.dtype]
        return end_of(item_size, self.offset, self.shape, self.strides)


def described_tensors(archive: Archive, folder: str) -> list[StoredTensor]:
    """
    The tensors that the members of a folder hold.

    Raises UnsafeError if one of these members is larger than its tensors, and
    ValueError if it is smaller.
    """
    config: Any = read_json(archive, folder + CONFIGS[folder])
    tensors = [
        StoredTensor(name, folder, meta) for name, meta in config["config"].items()
    ]
    users: dict[str, list[StoredTensor]] = {}
    for tensor in tensors:
        users.setdefault(tensor.blob, []).append(tensor)
    for blob, some in users.items():
        check_blob(archive, blob, some)
    return tensors


def check_blob(archive: Archive, blob: str, tensors: Sequence[StoredTensor]) -> None:
    """Raise UnsafeError for a blob larger than its tensors, ValueError if smaller."""
    size = archive.size(blob)
    last = max(tensors, key=lambda tensor: tensor.end)
    if size < last.end:
        raise ValueError(
            f"the tensor {last.name} needs {last.end} bytes, {blob} has {size}"
        )
    if size > last.end:
        raise UnsafeError(
            f"{blob} has {size} bytes, more than the {last.end} of the tensor "
            f"{last.name} (a view of a larger tensor is saved with all of it: clone() "
            "it before the export)"
        )
    for tensor in tensors:
        expanded = math.prod(tensor.shape) * ITEM_SIZES[tensor.dtype]
        check_expanded(tensor.name, expanded, size)


def check_sizes(
    name: str, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> None:
    """Raise UnsafeError for numbers no tensor has, ValueError for missing strides."""
    if len(shape) != len(strides):
        raise ValueError(
            f"the tensor {name} has {len(shape)} sizes and {len(strides)} strides"
        )
    if len(shape) > MOST_DIMENSIONS:
        raise UnsafeError(f"the tensor {name} has {len(shape)} dimensions")
    numbers = offset, *shape, *strides
    if min(numbers) < 0:
        raise UnsafeError(f"the tensor {name} has a negative size")
    if max(numbers) >= 2**63:
        raise UnsafeError(f"the tensor {name} has a size of more than 63 bits")


def end_of(
    item_size: int, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> int:
    """The bytes of a storage up to a tensor's last element."""
    if 0 in shape:
        return 0
    steps = zip(shape, strides, strict=True)
    last = offset + sum((size - 1) * stride for size, stride in steps)
    return (last + 1) * item_size


def check_expanded(name: str, expanded: int, stored: int) -> None:
    """Raise UnsafeError if a tensor is huge, and its storage is small."""
    if expanded > max(stored, MOST_EXPANDED):
        raise UnsafeError(f"{name} has {stored} bytes that become {expanded}")


def read_json(archive: Archive, name: str) -> Any:
    """A member that is JSON, with values of ordinary length: short ones take memory."""
    text = archive.read(name, MOST_TEXT)
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > max(LEAST_VALUES, len(text) // BYTES_OF_VALUE):
        raise UnsafeError(
            f"its member {name} has {values} values, too many for its size"
        )
    return json.loads(text)
