# pyright: reportUnknownMemberType=false
"""Compiling a model to machine code of this computer: the public API."""

from __future__ import annotations

import abc
import gc
import threading
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, cast

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
)

from padc.backends.native import cache
from padc.backends.native.machine import machine_name
from padc.backends.native.model import StoredModel, compile_model
from padc.backends.native.program import LoadedProgram
from padc.backends.native.signature import begin_of
from padc.backends.native.sizes import InputCheck, value_names
from padc.errors import UnsupportedError, UsageError
from padc.frontends.fingerprint import fingerprint
from padc.frontends.torch_export import export_module, held_tensors
from padc.ir import make_context
from padc.ir.weights import Array, weights_of

COMPILING = threading.Lock()
"""What xDSL makes ops of linalg with, changes a class while it does."""


class CompiledModel(abc.ABC):
    """
    A model compiled by `padc.compile`: call it as the model is called.

    It takes tensors, or numpy arrays, which it reads where they are, and returns what
    the model does, in arrays if it was given nothing but arrays: float32 ones for
    bfloat16, which numpy has not. What it returns has no gradients. Threads may call it
    at the same time.
    """

    input_names: tuple[str, ...]
    """What `torch.export` calls the tensors that it takes."""
    output_names: tuple[str, ...]
    """The names of what it returns but for constants, as `padc.convert` has them."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        What the model computes of its arguments.

        Raises UsageError where they are not those that it was exported for.
        """

    @abc.abstractmethod
    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        """
        Write what the model computes to `outputs`: its tensors in order, contiguous.

        Raises UsageError where they, or the arguments, do not fit, or share memory.
        """

    @abc.abstractmethod
    def run_named(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """
        The model's outputs by `output_names`, for inputs by `input_names`.

        Raises UsageError where inputs are missing, too many or of another type.
        """

    @abc.abstractmethod
    def report(self) -> str:
        """Which ops were compiled, which PyTorch runs, and why."""

    @property
    @abc.abstractmethod
    def is_native(self) -> bool:
        """Whether PyTorch computes nothing of it."""


class NativeModel(CompiledModel):
    """A model of which there is machine code, if not for all its ops."""

    def __init__(
        self,
        exported: ExportedProgram,
        program: LoadedProgram,
        check: InputCheck,
        input_names: Sequence[str],
        output_names: Sequence[str],
    ):
        self._program = program
        self._check = check
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        in_spec, out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        assert in_spec is not None and out_spec is not None
        self._in_spec, self._out_spec = in_spec, out_spec
        signature = exported.graph_signature
        self._inputs = [
            spec.arg
            for spec in signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        ]
        positional, named = in_spec.children()
        self._is_flat = (
            not named.children()
            and all(child.is_leaf() for child in positional.children())
            and not any(isinstance(it, ConstantArgument) for it in self._inputs)
        )
        """Whether it takes tensors by position, and nothing else."""
        self._outputs = [
            spec.arg
            for spec in signature.output_specs
            if spec.kind == OutputKind.USER_OUTPUT
        ]
        self._returns_tensors = not any(
            isinstance(it, ConstantArgument) for it in self._outputs
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_flat and self._returns_tensors and not kwargs:
            tensors = self._program.run_directly(args)
            if tensors is not None:
                return self._unflatten(tensors)
        leaves = self._flatten(args, kwargs)
        results = iter(self._program(self._tensors(leaves)))
        as_arrays = are_arrays(leaves)
        outputs: list[Any] = []
        for output in self._outputs:
            if isinstance(output, ConstantArgument):
                outputs.append(output.value)
            else:
                result = next(results)
                outputs.append(as_array(result) if as_arrays else result)
        return self._unflatten(outputs)

    def _unflatten(self, outputs: Sequence[Any]) -> Any:
        if self._out_spec.is_leaf():
            return outputs[0]
        return pytree.tree_unflatten(outputs, self._out_spec)

    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        if self._is_flat and not kwargs and isinstance(outputs, (list, tuple)):
            if self._program.run_directly(args, outputs) is not None:
                return
        inputs = self._tensors(self._flatten(args, kwargs))
        targets = as_targets(outputs)
        check_apart(targets, inputs)
        self._program(inputs, targets)

    def run_named(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        check_names(inputs, self.input_names)
        tensors = [inputs[name] for name in self.input_names]
        self._check(tensors)
        return dict(zip(self.output_names, self._program(tensors), strict=True))

    def _flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        if self._is_flat and len(args) == len(self._inputs) and not kwargs:
            return list(args)
        try:
            return self._in_spec.flatten_up_to((args, dict(kwargs)))
        except ValueError as error:
            positional, named = self._in_spec.children()
            count, names = positional.num_children, cast(list[str], named.context)
            keywords = f", and {', '.join(names)} by name" if names else ""
            raise UsageError(
                f"the model was exported with other arguments: {error}",
                hint=f"it takes {count} arguments by position{keywords}",
            ) from error

    def _tensors(self, leaves: list[Any]) -> list[torch.Tensor]:
        if self._is_flat and all(map(is_tensor, leaves)):
            self._check(leaves)
            return leaves
        tensors: list[torch.Tensor] = []
        for leaf, argument in zip(leaves, self._inputs, strict=True):
            if isinstance(argument, ConstantArgument):
                if type(leaf) is not type(argument.value) or leaf != argument.value:
                    raise UsageError(
                        f"the model was exported with {argument.name} "
                        f"{argument.value!r}, got {describe(leaf)}"
                    )
                continue
            if isinstance(leaf, np.ndarray):
                leaf = as_tensor(f"the input '{argument.name}'", cast(Array, leaf))
            if not isinstance(leaf, torch.Tensor):
                raise UsageError(
                    f"the input '{argument.name}' is of type {type(leaf).__name__}",
                    hint="give a torch.Tensor or a numpy array",
                )
            tensors.append(leaf)
        self._check(tensors)
        return tensors

    def report(self) -> str:
        stored = self._program.stored
        lines: list[str] = []
        for part in stored.parts:
            counts = Counter(part.ops)
            listed = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
            where = "PyTorch" if part.signature is None else "compiled"
            memory = ""
            if part.signature is not None and part.signature.arena_bytes is not None:
                memory = f" (arena {part.signature.arena_bytes} bytes)"
            lines.append(f"{where}{memory}: {listed or 'nothing'}")
        return "\n".join([*lines, *(f"not compiled: {why}" for why in stored.reasons)])

    @property
    def is_native(self) -> bool:
        parts = self._program.stored.parts
        return all(part.signature is not None or not part.ops for part in parts)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def are_arrays(leaves: Sequence[Any]) -> bool:
    """Whether there are arrays among these arguments, and no tensors."""
    given: list[Any] = [x for x in leaves if isinstance(x, np.ndarray | torch.Tensor)]
    return bool(given) and all(isinstance(x, np.ndarray) for x in given)


def as_tensor(what: str, array: Array) -> torch.Tensor:
    """An array as a tensor, without a copy where PyTorch can look at its memory."""
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{what} is an array of dtype {array.dtype} and strides {array.strides}",
            hint="give one that torch.from_numpy takes",
        ) from error


def as_targets(outputs: Any) -> list[torch.Tensor]:
    """Outputs that are given, as tensors of the same memory."""
    if not isinstance(outputs, Sequence):
        raise UsageError(
            f"the outputs are of type {type(outputs).__name__}",
            hint="give a list of tensors",
        )
    return [as_target(i, output) for i, output in enumerate(cast(Any, outputs))]


def as_target(number: int, output: Any) -> torch.Tensor:
    """An output that is given: an array as a tensor of the same memory."""
    if isinstance(output, torch.Tensor) and output.layout is torch.strided:
        return output
    what = f"output {number}"
    if isinstance(output, torch.Tensor):
        raise UsageError(f"{what} is {output.layout}", hint="give torch.empty(shape)")
    if not isinstance(output, np.ndarray):
        raise UsageError(
            f"{what} is of type {type(output).__name__}",
            hint="give a torch.Tensor or a numpy array",
        )
    array = cast(Array, output)
    if not array.flags.writeable or not array.flags.c_contiguous:
        raise UsageError(
            f"{what} is not writable, or not contiguous", hint="give numpy.empty(shape)"
        )
    return as_tensor(what, array)


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor as an array of the same memory, if numpy has the dtype and layout."""
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return tensor.resolve_conj().resolve_neg().numpy()


def describe(value: Any) -> str:
    """The value of a number or a string; of others, the type."""
    plain = isinstance(value, int | float | str | None)
    return repr(value) if plain else type(value).__name__


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor's memory begins and ends; of what is not dense, nowhere."""
    if not (begin := begin_of(tensor)):
        return 0, 0
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return begin, begin + (last + 1) * tensor.element_size()


def check_apart(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> None:
    """Raise UsageError where an output shares memory with what is read or written."""
    taken = [("input", i, *span(x)) for i, x in enumerate(inputs)]
    for i, output in enumerate(outputs):
        begin, end = span(output)
        for kind, number, other_begin, other_end in taken:
            if begin < other_end and other_begin < end:
                raise UsageError(f"output {i} shares memory with {kind} {number}")
        taken.append(("output", i, begin, end))


def check_names(given: Mapping[str, Any], expected: Sequence[str]) -> None:
    """Raise UsageError unless there is one of each expected name, and no other."""
    missing = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        what = f"missing: {', '.join(missing)}" if missing else ""
        extra = f"unknown: {', '.join(unknown)}" if unknown else ""
        raise UsageError(
            f"inputs {'; '.join(filter(None, [what, extra]))}",
            hint=f"the model's inputs are {', '.join(expected) or 'none'}",
        )


def compile(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> CompiledModel:
    """
    Compile a model to machine code of this computer's CPU.

    `model` is a module, with the `example_inputs` to trace it with, or what
    `torch.export.export` or `torch.export.load` returned; `dynamic_shapes` is that of
    `torch.export.export`. What can't be compiled is run by PyTorch, up to the whole
    model: see `report`. Machine code is kept in a cache on disk, at `PADC_CACHE_DIR` if
    that is set; if it is empty, nothing is kept. The weights are copied.

    Raises UsageError for arguments that do not fit, UnsupportedError where
    torch.export cannot trace the model.
    """
    if isinstance(model, ExportedProgram):
        if example_inputs is not None or dynamic_shapes is not None:
            raise UsageError(
                "an exported program has its inputs and dynamic shapes already",
                hint="give example_inputs and dynamic_shapes with a module only",
            )
        exported = model
    else:
        if not isinstance(example_inputs, list | tuple):
            raise UsageError(
                "a module needs a tuple of example_inputs to be traced with",
                hint="padc.compile(model, (torch.randn(1, 3, 224, 224),))",
            )
        exported = export_module(
            model, tuple(example_inputs), dynamic_shapes=dynamic_shapes
        )
    try:
        return compile_exported(exported)
    except UnsupportedError as error:
        from padc.eager import EagerModel

        return EagerModel(exported, error)


def compile_exported(exported: ExportedProgram) -> CompiledModel:
    """The same; raises UnsupportedError where padc cannot import the program."""
    name = cache.key([fingerprint(exported), machine_name(), *VERSIONS])
    data = cache.read(name)
    if data is None:
        with COMPILING, without_collection():
            stored, is_kept = compile_model(exported)
        if is_kept:
            cache.write(name, stored.to_bytes())
    else:
        stored = StoredModel.from_bytes(data)
    ctx = make_context()
    stored.bind(held_tensors(exported), weights_of(ctx))
    function = stored.function(ctx)
    return NativeModel(
        exported,
        LoadedProgram(ctx, stored.program),
        InputCheck(function),
        value_names(function.arg_attrs),
        stored.outputs,
    )


@contextmanager
def without_collection() -> Generator[None]:
    """Keep Python from looking, again and again, through all that compiling makes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


VERSIONS = [version(name) for name in ("llvmlite", "torch", "xdsl")]
"""What else machine code depends on."""
