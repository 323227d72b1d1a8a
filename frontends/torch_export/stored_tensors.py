# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""
Tensors whose bytes are members of a `.pt2` file, which describes them in JSON.

The description is checked against the member before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._export.serde import serialize

from padc.common.archive import Archive, UnsafeError

MOST_EXPANDED = 2**30
"""Bytes of a tensor that is larger than its storage, since strides are 0."""


def read_blobs(
    archive: Archive, folder: str, config: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The tensors that a file with their sizes describes, each a view of a blob."""
    views = {name: View(name, meta) for name, meta in config.items()}
    used: dict[str, list[View]] = {}
    for view in views.values():
        used.setdefault(folder + view.blob, []).append(view)
    for blob, users in used.items():
        check_blob(archive, blob, users)
    storages = {blob: read_blob(archive, blob) for blob in used}
    return {name: view.of(storages[folder + view.blob]) for name, view in views.items()}


class View:
    """A tensor whose bytes are in a blob."""

    def __init__(self, name: str, meta: Mapping[str, Any]):
        self.name = name
        self.blob: str = meta["path_name"]
        if meta["use_pickle"]:
            raise UnsafeError(f"the tensor {name} is pickled, in {self.blob}")
        if (tensor := meta["tensor_meta"]) is None:
            raise UnsafeError(f"{name} is no tensor, but an object, in {self.blob}")
        self.dtype = serialize._SERIALIZE_TO_TORCH_DTYPE[tensor["dtype"]]
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
        """The bytes of the storage up to the tensor's last element."""
        return end_of(self.dtype, self.offset, self.shape, self.strides)

    def of(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """The tensor, as a view of its storage."""
        tensor = view_of(storage, self.dtype, self.offset, self.shape, self.strides)
        tensor = tensor.to(self.device)
        if self.is_parameter:
            return torch.nn.Parameter(tensor, requires_grad=self.requires_grad)
        return tensor.requires_grad_(self.requires_grad)


def check_blob(archive: Archive, blob: str, views: list[View]) -> None:
    """Raise UnsafeError unless a blob has the size of the tensors in it."""
    size = archive.size(blob)
    name, end = max(((view.name, view.end) for view in views), key=lambda each: each[1])
    if size < end:
        raise ValueError(f"the tensor {name} needs {end} bytes, {blob} has {size}")
    if size > end:
        raise UnsafeError(
            f"{blob} has {size} bytes, more than the {end} of the tensor {name} (a "
            "view of a larger tensor is saved with all of it: clone() it before the "
            "export)"
        )
    for view in views:
        check_expanded(view.name, math.prod(view.shape) * view.dtype.itemsize, size)


def check_sizes(
    name: str, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> None:
    """Raise UnsafeError if a number is negative, ValueError if strides are missing."""
    if len(shape) != len(strides):
        raise ValueError(
            f"the tensor {name} has {len(shape)} sizes and {len(strides)} strides"
        )
    if min([0, offset, *shape, *strides]) < 0:
        raise UnsafeError(f"the tensor {name} has a negative size")


def end_of(
    dtype: torch.dtype, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> int:
    """The bytes of a storage up to a tensor's last element."""
    if 0 in shape:
        return 0
    steps = zip(shape, strides, strict=True)
    last = offset + sum((size - 1) * stride for size, stride in steps)
    return (last + 1) * dtype.itemsize


def view_of(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
) -> torch.Tensor:
    """A tensor whose elements are in a storage; it must not reach beyond its end."""
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)


def check_expanded(name: str, expanded: int, stored: int) -> None:
    """Raise UnsafeError if a tensor is huge, and its storage is small."""
    if expanded > max(stored, MOST_EXPANDED):
        raise UnsafeError(f"{name} has {stored} bytes that become {expanded}")


def read_blob(archive: Archive, blob: str) -> torch.UntypedStorage:
    """A member, as the storage of tensors."""
    content = torch.empty(archive.size(blob), dtype=torch.uint8)
    archive.read_into(blob, content.numpy())
    return content.untyped_storage()
