# pyright: reportUnknownMemberType=false
"""Calling machine code on PyTorch's tensors."""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from padc.backends.calls.output_tensors import check_outputs
from padc.backends.calls.parameters import (
    Parameter,
    direct_addresses,
    misfit,
    required_pointer,
)
from padc.backends.native.function_signature import Signature
from padc.backends.native.machine import Code
from padc.backends.native.thread_team import team
from padc.errors import UsageError, WrongResultError, first_line
from padc.ir.weights import Array, float32_of_bfloat16
from padc.ir.winograd import winograd
from padc.passes.buffers.live_ranges import ALIGNMENT, TOO_LARGE, aligned
from padc.passes.buffers_to_llvm.access_check import SCRATCH_BYTES

Value: TypeAlias = "torch.Tensor | int"
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Arena:
    """Memory for intermediate results."""

    memory: torch.Tensor
    address: int
    """The first address in it that is aligned."""
    bytes: int
    """The number of bytes from there on that may be used."""

    @staticmethod
    def within(memory: torch.Tensor) -> Arena:
        """The part of `memory`, a tensor of bytes, from an aligned address on."""
        first = required_pointer(memory)
        address = aligned(first)
        return Arena(memory, address, memory.numel() - (address - first))

    @staticmethod
    def of(size: int) -> Arena:
        """A new arena of at least `size` bytes."""
        bytes = size + ALIGNMENT
        try:
            memory = torch.empty(bytes, dtype=torch.uint8, device=CPU)
        except RuntimeError as error:
            raise out_of_memory(error) from error
        return Arena.within(memory)


class NativeFunction:
    """
    Machine code and its weights.

    Any number of threads may call it at once. Each call takes an arena that an earlier
    call left, or a new one, and releases Python's lock while machine code runs.
    """

    def __init__(
        self,
        signature: Signature,
        code: Code,
        weights: Mapping[str, Array],
        threads: int | None = None,
    ) -> None:
        """A call uses up to `threads` threads; None: as many as PyTorch uses."""
        self.signature = signature
        self._code = code
        self._threads = threads
        self._inputs = [p for p in signature.parameters if p.kind == "input"]
        self._results = [p for p in signature.parameters if p.kind == "result"]
        # Machine code reads weights row-major; views of a model's tensors may not be.
        self._weights = [
            laid_out(weights[p.weight], p)
            for p in signature.parameters
            if p.weight is not None
        ]
        self._addresses = [weight.ctypes.data for weight in self._weights]
        self._arenas: deque[Arena] = deque()
        call = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
        self._run = call(code.address("main"))
        self._sizes = call(code.address("main_sizes"))
        self._sizes_count = 1 + sum(len(p.dynamic) for p in self._results)
        self._static_shapes = [p.shape for p in self._results]
        self._is_static = signature.arena_bytes is not None and self._sizes_count == 1
        self._is_direct = (
            self._is_static
            and signature.accesses is None
            and all(p.dtype is not None and not p.dynamic for p in self._inputs)
        )
        """Whether it takes tensors only, of static sizes, and no access is checked."""
        direct = [*self._inputs, *self._results] if self._is_direct else []
        self._direct_types = [(p.torch_dtype, p.shape) for p in direct]
        self._pairs = [
            (i, direct[i].bytes, j, direct[j].bytes)
            for i in range(len(self._inputs), len(direct))
            for j in range(i)
        ]
        """Each result and what must not overlap it, by their places in a call."""
        words = 4 + len(direct) + len(self._addresses)
        self._pack = struct.Struct(f"{words}q").pack
        """Packs the table of a direct call."""

    def __call__(
        self, inputs: Sequence[Value], outputs: Sequence[torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        """
        Run on `inputs`, tensors of any layout, and return new tensors, or `outputs`.

        Raises UsageError unless inputs and outputs fit their parameters. The outputs
        must be contiguous and share no memory with the inputs.
        """
        for i, (parameter, value) in enumerate(zip(self._inputs, inputs, strict=True)):
            if parameter.dtype is not None and not parameter.fits(value):
                raise misfit(f"input {i}", parameter, value)
        return self.run(inputs, outputs)

    def run(
        self, inputs: Sequence[Value], outputs: Sequence[torch.Tensor] | None
    ) -> list[torch.Tensor]:
        """The same for inputs that were checked; others may be read out of bounds."""
        table: list[int] = []
        # Keeps the contiguous copies until the call is over.
        alive: list[torch.Tensor] = []
        for parameter, value in zip(self._inputs, inputs, strict=True):
            if parameter.dtype is None:
                table.append(int(value))
                continue
            assert isinstance(value, torch.Tensor)
            if value.is_neg() or not value.is_contiguous():
                value = value.resolve_neg().contiguous()
            alive.append(value)
            table.append(required_pointer(value))
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
            table.append(required_pointer(output))
            if parameter.dynamic:
                table += [shape[dim] for dim in parameter.dynamic]
        self._run_on(table, arena_bytes)
        return list(outputs)

    def run_directly(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[torch.Tensor] | None:
        """
        Run if all tensors can be used as they are; else do nothing and return None.

        A kernel that reads more memory than the caches hold evicts Python's data from
        them. So this path touches as little of Python as it can, and calls few of its
        functions.
        """
        count = len(self._inputs)
        if not self._is_direct or len(inputs) != count:
            return None
        if outputs is None:
            used = direct_addresses(inputs, self._direct_types)
            if used is None:
                return None
            outputs = self._new(self._static_shapes)
            used += map(required_pointer, outputs)
        else:
            if len(outputs) != len(self._results):
                return None
            used = direct_addresses((*inputs, *outputs), self._direct_types)
            if used is None:
                return None
            for output in outputs:
                if output.requires_grad:
                    return None
            for i, i_bytes, j, j_bytes in self._pairs:
                if -i_bytes < used[i] - used[j] < j_bytes:
                    return None
        used[count:count] = self._addresses
        if not (arena_bytes := self.signature.arena_bytes):
            self._run(self._pack(*team(self._threads), *used, 0, 0))
            return outputs
        arena = self._take_arena(arena_bytes)
        used += arena.address, arena_bytes
        self._run(self._pack(*team(self._threads), *used))
        self._arenas.append(arena)
        return outputs

    def _new(self, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Uninitialized results of these shapes."""
        try:
            return [
                torch.empty(shape, dtype=parameter.torch_dtype, device=CPU)
                for shape, parameter in zip(shapes, self._results, strict=True)
            ]
        except RuntimeError as error:
            raise out_of_memory(error) from error

    def _run_on(self, table: list[int], arena_bytes: int) -> None:
        """Run on the arguments in `table` and an arena."""
        arena = self._take_arena(arena_bytes)
        self._call(self._run, [*table, arena.address, arena_bytes])
        self._arenas.append(arena)

    def _call(self, function: Callable[[bytes], None], table: list[int]) -> None:
        """Call machine code; WrongResultError if a check of it fails."""
        threads, start = self._team()
        if (accesses := self.signature.accesses) is None:
            return function(packed([threads, start, *table]))
        status = array("q", bytes(8 + SCRATCH_BYTES))
        function(packed([threads, start, status.buffer_info()[0], *table]))
        if status[0]:
            number, writes = divmod(status[0], 2)
            access = accesses[number - 1]
            raise WrongResultError(
                f"the machine code of {access.name} "
                f"{'writes' if writes else 'reads'} outside of its buffer",
                location=access.location,
                hint="this is a fault of padc: please report it, with the model",
            )

    def _team(self) -> tuple[int, int]:
        """The number of threads of a call, and the address that starts them."""
        return team(self._threads)

    def _shapes(self, table: list[int]) -> tuple[int, Sequence[Sequence[int]]]:
        """The bytes of the arena and the shapes of the results, for these inputs."""
        if self._is_static:
            assert self.signature.arena_bytes is not None
            return self.signature.arena_bytes, self._static_shapes
        sizes = array("q", bytes(8 * self._sizes_count))
        self._call(self._sizes, [*table, sizes.buffer_info()[0], self._sizes_count])
        arena_bytes, *dynamic = sizes
        if (least := min(sizes)) < 0:
            raise UsageError(f"for these inputs, a size would be {least}")
        if (most := max(sizes)) >= TOO_LARGE:
            raise UsageError(f"for these inputs, a size would be {most} or more")
        known = iter(dynamic)
        return arena_bytes, [
            [next(known) if size < 0 else size for size in p.shape]
            for p in self._results
        ]

    def _take_arena(self, size: int) -> Arena:
        """An arena of at least `size` bytes."""
        try:
            arena = self._arenas.pop()
        except IndexError:
            return Arena.of(size)
        return arena if arena.bytes >= size else Arena.of(size)


def out_of_memory(error: RuntimeError) -> UsageError:
    """The error for a tensor that PyTorch could not allocate."""
    reason = first_line(error)
    return UsageError(f"there is not enough memory for these inputs: {reason}")


def packed(table: Sequence[int]) -> bytes:
    """Integers as the array of 64-bit words that machine code reads."""
    return struct.pack(f"{len(table)}q", *table)


def laid_out(weight: Array, parameter: Parameter) -> Array:
    """
    A weight in the layout that machine code reads.

    A packed form has memory of its own: the weight may be the model's, which the model
    may change later (see `StoredModel.bind`).
    """
    if parameter.narrow == "bfloat16":
        weight = float32_of_bfloat16(weight)
    elif parameter.narrow is not None:
        weight = weight.astype(np.float32)
    if parameter.split is None:
        return np.ascontiguousarray(weight)
    weight = weight.reshape(parameter.split).transpose(parameter.order)
    if parameter.tile is None:
        return np.array(weight, order="C")
    return np.ascontiguousarray(winograd(parameter.tile).transformed(weight))
