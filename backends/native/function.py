# pyright: reportUnknownMemberType=false
"""A compiled function, called on PyTorch's tensors."""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from padc.backends.native.machine import Code
from padc.backends.native.signature import Parameter, Signature, begin_of
from padc.errors import UsageError
from padc.ir.weights import Array

Value: TypeAlias = "torch.Tensor | int"
ALIGNMENT = 64
CPU = torch.device("cpu")


class NativeFunction:
    """
    Machine code and its weights.

    Any number of threads may call it at once; each call has its own arena, of those
    that are left from earlier calls, and no call holds Python's lock while it runs.
    """

    def __init__(
        self, signature: Signature, code: Code, weights: Mapping[str, Array]
    ) -> None:
        self.signature = signature
        self._code = code
        self._inputs = [p for p in signature.parameters if p.kind == "input"]
        self._results = [p for p in signature.parameters if p.kind == "result"]
        # Row-major, which views of what PyTorch holds need not be.
        self._weights = [
            np.ascontiguousarray(weights[p.weight])
            for p in signature.parameters
            if p.weight is not None
        ]
        self._addresses = [weight.ctypes.data for weight in self._weights]
        self._arenas: deque[torch.Tensor] = deque()
        call = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        self._run = call(code.address("main"))
        self._sizes = call(code.address("main_sizes"))
        self._sizes_count = 1 + sum(len(p.dynamic) for p in self._results)
        self._static_shapes = [p.shape for p in self._results]
        self._is_static = signature.arena_bytes is not None and self._sizes_count == 1
        self._is_direct = self._is_static and all(
            p.dtype is not None and not p.dynamic for p in self._inputs
        )
        """Whether it takes nothing but tensors, and all that it handles is static."""

    def __call__(
        self, inputs: Sequence[Value], outputs: Sequence[torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        """
        Run on `inputs`, tensors of any layout, and return new tensors, or `outputs`.

        Raises UsageError unless inputs and outputs are what the function takes; the
        outputs must be contiguous, and share no memory with the inputs.
        """
        for i, (parameter, value) in enumerate(zip(self._inputs, inputs, strict=True)):
            if parameter.dtype is not None and not parameter.fits(value):
                raise misfit(f"input {i}", parameter, value)
        return self.run(inputs, outputs)

    def run(
        self, inputs: Sequence[Value], outputs: Sequence[torch.Tensor] | None
    ) -> list[torch.Tensor]:
        """The same, where `inputs` were checked: others may be read out of bounds."""
        table: list[int] = []
        # What is passed by address lives until the call is over.
        alive: list[torch.Tensor] = []
        for parameter, value in zip(self._inputs, inputs, strict=True):
            if parameter.dtype is None:
                table.append(int(value))
                continue
            assert isinstance(value, torch.Tensor)
            if value.is_neg() or not value.is_contiguous():
                value = value.resolve_neg().contiguous()
            alive.append(value)
            table.append(address_of(value))
            if parameter.dynamic:
                table += [value.shape[dim] for dim in parameter.dynamic]
        table += self._addresses
        arena_bytes, shapes = self._shapes(table)
        if outputs is None:
            outputs = self._new(shapes)
        else:
            check_outputs(outputs, self._results, shapes)
        for parameter, output, shape in zip(
            self._results, outputs, shapes, strict=True
        ):
            table.append(address_of(output))
            if parameter.dynamic:
                table += [shape[dim] for dim in parameter.dynamic]
        self._run_on(table, arena_bytes)
        return list(outputs)

    def run_directly(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None
    ) -> Sequence[torch.Tensor] | None:
        """
        Run if all that is given can be used as it is; if not, None, and nothing done.

        A kernel that went through more memory than the caches hold leaves none of
        Python's in them; so this touches as little as it can.
        """
        if not self._is_direct or len(inputs) != len(self._inputs):
            return None
        table: list[int] = []
        for parameter, value in zip(self._inputs, inputs, strict=True):
            if not (address := parameter.address_in(value)):
                return None
            table.append(address)
        if outputs is None:
            outputs = self._new(self._static_shapes)
            table += self._addresses
            table += [address_of(output) for output in outputs]
        else:
            if len(outputs) != len(self._results):
                return None
            taken = [
                (at, at + p.bytes) for at, p in zip(table, self._inputs, strict=True)
            ]
            table += self._addresses
            for parameter, output in zip(self._results, outputs, strict=True):
                if not (begin := parameter.address_in(output)):
                    return None
                end = begin + parameter.bytes
                if any(begin < other_end and other < end for other, other_end in taken):
                    return None
                taken.append((begin, end))
                table.append(begin)
        assert self.signature.arena_bytes is not None
        self._run_on(table, self.signature.arena_bytes)
        return outputs

    def _new(self, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Results of these shapes, without contents."""
        return [
            torch.empty(shape, dtype=parameter.torch_dtype, device=CPU)
            for shape, parameter in zip(shapes, self._results, strict=True)
        ]

    def _run_on(self, table: list[int], arena_bytes: int) -> None:
        """Run on what `table` holds, and an arena."""
        arena = self._arena(arena_bytes)
        aligned = -(-address_of(arena) // ALIGNMENT) * ALIGNMENT
        self._run(packed([*table, aligned, arena_bytes]))
        self._arenas.append(arena)

    def _shapes(self, table: list[int]) -> tuple[int, Sequence[Sequence[int]]]:
        """How large the arena and the results are, for the inputs in `table`."""
        if self._is_static:
            assert self.signature.arena_bytes is not None
            return self.signature.arena_bytes, self._static_shapes
        sizes = array("q", bytes(8 * self._sizes_count))
        self._sizes(packed([*table, sizes.buffer_info()[0], self._sizes_count]))
        arena_bytes, *dynamic = sizes
        known = iter(dynamic)
        return arena_bytes, [
            [next(known) if size < 0 else size for size in p.shape]
            for p in self._results
        ]

    def _arena(self, bytes: int) -> torch.Tensor:
        """Memory of at least so many bytes, and some to align it."""
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = None
        if arena is None or arena.numel() < bytes + ALIGNMENT:
            arena = torch.empty(bytes + ALIGNMENT, dtype=torch.uint8, device=CPU)
        return arena


def packed(table: Sequence[int]) -> bytes:
    """Integers as machine code reads them."""
    return struct.pack(f"{len(table)}q", *table)


def address_of(tensor: torch.Tensor) -> int:
    """Where its elements are; UsageError for tensors that have sizes only."""
    address = begin_of(tensor)
    if not address and tensor.numel():
        raise UsageError("a tensor without data", hint="give one that holds numbers")
    return address


def misfit(what: str, parameter: Parameter, value: Any) -> UsageError:
    """Why `parameter.fits(value)` does not hold; `value` is called `what`."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        return UsageError(f"{what} is a nested tensor", hint="give one after the other")
    if not parameter.has_type(value):
        sizes = ["?" if size < 0 else str(size) for size in parameter.shape]
        got = (
            f"{value.dtype} of shape {list(value.shape)}"
            if isinstance(value, torch.Tensor)
            else type(value).__name__
        )
        expected = f"torch.{parameter.dtype} of shape [{', '.join(sizes)}]"
        return UsageError(f"{what} is {expected}, got {got}")
    if not value.is_cpu:
        return UsageError(f"{what} is on {value.device}", hint="call .cpu() on it")
    return UsageError(f"{what} is {value.layout}", hint="call .to_dense() on it")


def check_outputs(
    outputs: Sequence[torch.Tensor],
    results: Sequence[Parameter],
    shapes: Sequence[Sequence[int]],
) -> None:
    if len(outputs) != len(results):
        raise UsageError(f"there are {len(results)} outputs, got {len(outputs)}")
    for i, (output, parameter, shape) in enumerate(
        zip(outputs, results, shapes, strict=True)
    ):
        if parameter.dynamic:
            parameter = Parameter("result", parameter.dtype, tuple(shape))
        if not parameter.fits(output):
            raise misfit(f"output {i}", parameter, output)
        if output.is_neg() or not output.is_contiguous():
            what = "a negated view" if output.is_neg() else "not contiguous"
            raise UsageError(f"output {i} is {what}", hint="give torch.empty(shape)")


def write_results(
    results: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> None:
    """Copy to `outputs`; UsageError where these are not like `results`."""
    expected = [
        Parameter("result", str(x.dtype).removeprefix("torch."), tuple(x.shape))
        for x in results
    ]
    check_outputs(outputs, expected, [x.shape for x in results])
    with torch.no_grad():
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result.to_dense())
