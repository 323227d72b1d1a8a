"""
The buffers that a package changes, as its metadata describes them.

The key is `padc.buffers`, the value JSON: a list of
`{"buffer": "layers.0.cache", "input": "layers_0_cache", "output": "layers_0_cache_out",
"dtype": "float32", "shape": [1, 8], "data": "AAAAAA=="}`. The data are the value at
export, base64 of little-endian bytes: of one element, if all are equal. A state has
`{"buffer": "cache", "state": "cache"}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padc.backends.coreml.evaluator.metadata_keys import BUFFERS, reading_metadata

if TYPE_CHECKING:
    from padc.ir.weights import Array


@dataclass(frozen=True)
class BufferFeature:
    """A buffer that a package changes."""

    buffer: str
    """Its name in the model."""
    input: str
    """The name of the input or state."""
    output: str | None = None
    """The name of the output that has the new value; None for a state."""
    initial: Array | None = None
    """The value when the model was exported; None for a state."""


def to_json(buffers: Sequence[BufferFeature]) -> str:
    """The text for a package's metadata."""
    return json.dumps([entry_of(each) for each in buffers])


def entry_of(feature: BufferFeature) -> dict[str, Any]:
    if feature.output is None or feature.initial is None:
        return {"buffer": feature.buffer, "state": feature.input}
    array = feature.initial
    data, size = array.tobytes(), array.itemsize
    if data == data[:size] * array.size:
        data = data[:size]
    return {
        "buffer": feature.buffer,
        "input": feature.input,
        "output": feature.output,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "data": base64.b64encode(data).decode(),
    }


def buffers_in(metadata: Mapping[str, str]) -> list[BufferFeature]:
    """The buffers in a package's metadata; InvalidProgramError if it is damaged."""
    with reading_metadata(BUFFERS):
        return [feature_of(each) for each in json.loads(metadata.get(BUFFERS, "[]"))]


def feature_of(entry: Mapping[str, Any]) -> BufferFeature:
    if "state" in entry:
        return BufferFeature(str(entry["buffer"]), str(entry["state"]))
    dtype, shape = np.dtype(str(entry["dtype"])), tuple(map(int, entry["shape"]))
    if dtype.kind not in "biuf":
        raise ValueError(f"the dtype {dtype}")
    data = np.frombuffer(base64.b64decode(entry["data"], validate=True), dtype)
    # A view: the shape may be far larger than the package.
    value = np.broadcast_to(data[0], shape) if data.size == 1 else data.reshape(shape)
    return BufferFeature(
        str(entry["buffer"]), str(entry["input"]), str(entry["output"]), value
    )
