"""A compiled program: its parts, and how values go from one to the next."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer

from padc.backends import reference
from padc.backends.native.compilation import compile_module, not_native
from padc.backends.native.function import NativeFunction, Value, write_results
from padc.backends.native.machine import Code
from padc.backends.native.partition import partition
from padc.backends.native.signature import Signature
from padc.ir.torch import AtenOp
from padc.ir.weights import Array, Weights, weights_of


@dataclass(frozen=True)
class StoredPart:
    """A part of a program as it is kept: either machine code, or text for PyTorch."""

    inputs: Sequence[int]
    outputs: Sequence[int]
    ops: Sequence[str]
    """Which ops of the program it runs, by their names in it."""
    signature: Signature | None
    """None where PyTorch runs it."""
    code: bytes
    """An object file, or the text of a module."""


@dataclass(frozen=True)
class StoredProgram:
    """What is kept of a program: all but its weights."""

    parts: Sequence[StoredPart]
    inputs: Sequence[int]
    outputs: Sequence[int]
    reasons: Sequence[str]
    """Why some ops are run by PyTorch."""
    literals: Mapping[str, Array]
    """Constants that were written in the program, or computed when it was compiled."""

    def weight_names(self) -> set[str] | None:
        """The weights that machine code reads; None where PyTorch runs a part."""
        names: set[str] = set()
        for part in self.parts:
            if part.signature is None:
                return None
            names |= {each.weight for each in part.signature.parameters if each.weight}
        return names

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
    """`data` behind what JSON can express."""
    text = json.dumps(head).encode()
    return struct.pack("<q", len(text)) + text + data


def head_of(data: bytes) -> tuple[Any, int]:
    """The head that `with_head` wrote, and where the data behind it begins."""
    (length,) = struct.unpack_from("<q", data)
    return json.loads(data[8 : 8 + length]), 8 + length


def compile_program(ctx: Context, module: ModuleOp) -> StoredProgram:
    """Compile what can be of function `main` of a module at the level of tcp."""
    weights = weights_of(ctx)
    known = set(weights)
    problems = not_native(module)
    split = partition(module, lambda op: op not in problems)
    parts: list[StoredPart] = []
    for part in split.parts:
        ops = [
            op.schema.name if isinstance(op, AtenOp) else op.name
            for op in part.module.walk()
            if isinstance(op, AtenOp) or op.name.startswith("tcp.")
        ]
        if part.is_native:
            compiled = compile_module(ctx, part.module)
            signature, code = compiled.signature, compiled.object_file
        else:
            signature, code = None, text_of(part.module).encode()
        parts.append(StoredPart(part.inputs, part.outputs, ops, signature, code))
    reasons = [str(problem) for problem in problems.values()]
    literals = {name: weights[name] for name in weights if name not in known}
    return StoredProgram(parts, split.inputs, split.outputs, reasons, literals)


def text_of(module: ModuleOp) -> str:
    text = io.StringIO()
    Printer(text).print_op(module)
    return text.getvalue()


class TorchFunction:
    """A part that PyTorch runs, op by op."""

    def __init__(self, ctx: Context, text: str):
        self._module = Parser(ctx, text).parse_module()
        self._weights = weights_of(ctx)
        self._addresses = {array.ctypes.data for array in self._weights.values()}

    def __call__(self, inputs: Sequence[Value]) -> Sequence[Any]:
        with torch.no_grad():
            results = reference.run(self._module, *inputs, weights=self._weights)
        return [self._own(result) for result in results]

    def _own(self, result: Any) -> Any:
        """A result that may be written to: a copy of what is a weight's memory."""
        if isinstance(result, torch.Tensor) and result.layout == torch.strided:
            if result.untyped_storage().data_ptr() in self._addresses:
                return result.clone()
        return result


class LoadedProgram:
    """A program that can be called, any number of times at once."""

    def __init__(self, ctx: Context, stored: StoredProgram):
        weights: Weights = weights_of(ctx)
        weights.update(stored.literals)
        self.stored = stored
        self._functions = [load(ctx, part, weights) for part in stored.parts]
        self._only: NativeFunction | None = None
        """The one that is all of it, and takes and returns what this does."""
        if len(stored.parts) == 1:
            (part,), (function,) = stored.parts, self._functions
            is_all = list(part.inputs) == list(stored.inputs) and (
                list(part.outputs) == list(stored.outputs)
            )
            if isinstance(function, NativeFunction) and is_all:
                self._only = function

    def run_directly(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[torch.Tensor] | None:
        """Run if nothing has to be converted; if not, None, and nothing is done."""
        if self._only is None:
            return None
        return self._only.run_directly(inputs, outputs)

    def __call__(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor] | None = None,
    ) -> list[torch.Tensor]:
        """
        Run on tensors that were checked, and return new ones, or `outputs`.

        Raises UsageError where these are not what the program makes.
        """
        if self._only is not None:
            return self._only.run(inputs, outputs)
        values: dict[int, Any] = dict(zip(self.stored.inputs, inputs, strict=True))
        last = len(self._functions) - 1
        for i, (part, function) in enumerate(
            zip(self.stored.parts, self._functions, strict=True)
        ):
            taken = [values[number] for number in part.inputs]
            if (
                outputs is not None
                and i == last
                and isinstance(function, NativeFunction)
                and list(part.outputs) == list(self.stored.outputs)
            ):
                return function(taken, outputs)
            values.update(zip(part.outputs, function(taken), strict=True))
        results = [values[number] for number in self.stored.outputs]
        if outputs is None:
            return results
        write_results(results, outputs)
        return list(outputs)


def load(
    ctx: Context, part: StoredPart, weights: Mapping[str, Any]
) -> NativeFunction | TorchFunction:
    if part.signature is None:
        return TorchFunction(ctx, part.code.decode())
    code = Code(part.code, ["main", "main_sizes"])
    return NativeFunction(part.signature, code, weights)
