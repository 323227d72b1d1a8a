"""A compiled program as bytes: its parts and constants, without its weights."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from padc.backends.native.function_signature import Signature
from padc.ir.weights import Array


@dataclass(frozen=True)
class StoredPart:
    """A part of a program: machine code, or the text of a module for PyTorch to run."""

    inputs: Sequence[int]
    """The numbers of the values that it takes."""
    outputs: Sequence[int]
    """The numbers of the values that it computes."""
    ops: Sequence[str]
    """The names of the torch and tcp ops that it runs."""
    signature: Signature | None
    """None for parts that PyTorch runs."""
    code: bytes
    """An object file, or the text of a module."""
    torch_weights: Sequence[str] = ()
    """The names of the weights that PyTorch reads; the signature has those of code."""


@dataclass(frozen=True)
class StoredProgram:
    """All of a program except its weights; its values have numbers."""

    parts: Sequence[StoredPart]
    inputs: Sequence[int]
    outputs: Sequence[int]
    reasons: Sequence[str]
    """Why PyTorch runs some ops, one text for each."""
    literals: Mapping[str, Array]
    """The constants of the program, and those computed when it was compiled."""

    def weights_read(self) -> Mapping[str, bool]:
        """
        The weights that are read, and whether any part reads them as they are.

        Machine code has packed forms of the others.
        """
        found: dict[str, bool] = {}
        for part in self.parts:
            found.update(dict.fromkeys(part.torch_weights, True))
            for each in part.signature.parameters if part.signature else ():
                if (name := each.weight) is not None:
                    found[name] = found.get(name, False) or each.split is None
        return found

    @property
    def ops_of_torch(self) -> list[str]:
        """The names of the ops that PyTorch runs."""
        parts = [part for part in self.parts if part.signature is None]
        return sorted({name for part in parts for name in part.ops})

    @property
    def is_native(self) -> bool:
        """Whether machine code computes all ops, and PyTorch none."""
        return not self.ops_of_torch

    def report(self) -> str:
        """A line for each part, with its ops, and one for each op not compiled."""
        lines: list[str] = []
        for part in self.parts:
            counts = Counter(part.ops)
            listed = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
            where = "PyTorch" if part.signature is None else "compiled"
            memory = ""
            if part.signature is not None and part.signature.arena_bytes is not None:
                memory = f" (arena {part.signature.arena_bytes} bytes)"
            lines.append(f"{where}{memory}: {listed or 'nothing'}")
        return "\n".join([*lines, *(f"not compiled: {why}" for why in self.reasons)])

    def to_bytes(self) -> bytes:
        head = {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "reasons": self.reasons,
            "literals": {
                name: [array.dtype.str, array.shape]
                for name, array in self.literals.items()
            },
            "parts": [
                {
                    "inputs": part.inputs,
                    "outputs": part.outputs,
                    "ops": part.ops,
                    "signature": part.signature and part.signature.to_json(),
                    "bytes": len(part.code),
                    "torch_weights": part.torch_weights,
                }
                for part in self.parts
            ],
        }
        data = [part.code for part in self.parts]
        data += [array.tobytes() for array in self.literals.values()]
        return with_head(head, b"".join(data))

    @staticmethod
    def from_bytes(data: bytes) -> StoredProgram:
        head, at = head_of(data)
        parts: list[StoredPart] = []
        for part in head["parts"]:
            signature = part["signature"]
            parts.append(
                StoredPart(
                    part["inputs"],
                    part["outputs"],
                    part["ops"],
                    None if signature is None else Signature.from_json(signature),
                    data[at : at + part["bytes"]],
                    part["torch_weights"],
                )
            )
            at += part["bytes"]
        literals: dict[str, Array] = {}
        for name, (dtype, shape) in head["literals"].items():
            count = math.prod(shape)
            array = (
                np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
            )
            literals[name] = array.reshape(shape)
            at += array.nbytes
        return StoredProgram(
            parts, head["inputs"], head["outputs"], head["reasons"], literals
        )


def with_head(head: Any, data: bytes) -> bytes:
    """`head` as JSON with its length in front, then `data`."""
    text = json.dumps(head).encode()
    return struct.pack("<q", len(text)) + text + data


def head_of(data: bytes) -> tuple[Any, int]:
    """The head that `with_head` wrote, and the offset of the data after it."""
    (length,) = struct.unpack_from("<q", data)
    return json.loads(data[8 : 8 + length]), 8 + length
