# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""Tensors whose bytes are members of a `.pt2` file, read after they are checked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._export.serde import serialize

from padc.common.archive import Archive
from padc.common.pt2_tensors import StoredTensor, described_tensors


def read_tensors(archive: Archive, folder: str) -> dict[str, torch.Tensor]:
    """The tensors of a folder by name, each a view of its blob."""
    described = described_tensors(archive, folder)
    storages = {
        blob: read_blob(archive, blob)
        for blob in dict.fromkeys(each.blob for each in described)
    }
    return {each.name: tensor_of(each, storages[each.blob]) for each in described}


def tensor_of(stored: StoredTensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """The tensor, as a view of its storage."""
    dtype = serialize._SERIALIZE_TO_TORCH_DTYPE[stored.dtype]
    tensor = view_of(storage, dtype, stored.offset, stored.shape, stored.strides)
    tensor = tensor.to(stored.device)
    if stored.is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=stored.requires_grad)
    return tensor.requires_grad_(stored.requires_grad)


def view_of(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
) -> torch.Tensor:
    """A tensor whose elements are in a storage; it must not reach beyond its end."""
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)


def read_blob(archive: Archive, blob: str) -> torch.UntypedStorage:
    """A member, as the storage of tensors."""
    content = torch.empty(archive.size(blob), dtype=torch.uint8)
    archive.read_into(blob, content.numpy())
    return content.untyped_storage()
