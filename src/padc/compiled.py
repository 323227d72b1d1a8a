"""`padc.compile`: models to machine code, or to PyTorch where that is impossible."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch.export import ExportedProgram

from padc.backends.calls.input_check import InputCheck
from padc.backends.native import cache
from padc.backends.native.compile_model import compile_model
from padc.backends.native.loaded_program import LoadedProgram
from padc.backends.native.machine import machine_name
from padc.backends.native.stored_model import StoredModel
from padc.backends.native.thread_team import check_threads, one_thread_if_forked
from padc.common.garbage_collection import without_collection
from padc.common.source_hash import source_hash
from padc.compiled_model import CompiledModel
from padc.compiled_models.call_structure import CallStructure
from padc.compiled_models.eager_model import EagerModel
from padc.compiled_models.native_model import NativeModel
from padc.errors import UnsupportedError
from padc.frontends.torch_export import held_tensors, is_trusted
from padc.frontends.torch_export.fingerprint import fingerprint
from padc.frontends.torch_export.guards import GuardCheck, guards_of, limits_of
from padc.frontends.torch_export.input_strides import StridesCheck, input_strides
from padc.frontends.torch_export.pt2 import needs_checked_memory
from padc.ir import make_context
from padc.ir.main_function import value_names
from padc.ir.model_buffers import changed_names
from padc.ir.precisions import NativePrecision, native_precision
from padc.ir.weights import weights_of
from padc.models.exported import as_exported
from padc.warn import warn

VERSIONS = [version(name) for name in ("llvmlite", "torch", "xdsl")]
"""The versions of packages on which machine code depends."""
COMPILING = threading.Lock()
"""xDSL's linalg constructors mutate class state: one compilation at a time."""


def compile(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    threads: int | None = None,
    precision: NativePrecision = "default",
) -> CompiledModel:
    """
    Compile a model to machine code for the CPU of this computer.

    PyTorch runs the ops that cannot be compiled, up to the whole model: see
    `CompiledModel.report`. Machine code is kept on disk, in the folder `PADC_CACHE_DIR`
    if that is set (empty: nothing is kept), else in `~/.cache/padc`. With
    `PADC_CHECK=1`, it checks each load and store, which finds faults of padc, slowly; a
    warning names the ops that PyTorch runs, which are not checked.

    Args:
        model: A module, or what `torch.export.export` or `torch.export.load` returned.
            Its weights are copied, and buffers that it changes: the compiled model
            changes its own.
        example_inputs: For a module, a tuple of its arguments, to export it with.
            Tensors may have any shape and dtype; calls take the same ones.
        dynamic_shapes: For a module, the dimensions whose sizes may vary between calls,
            as `torch.export.export` takes them.
        threads: The most threads that a call uses, of PyTorch's own OpenMP runtime; the
            results do not depend on it. By default as many as
            `torch.get_num_threads()` says at the call. In a child after `os.fork`, it
            is one.
        precision: `"default"` computes 3x3 convolutions in float32 by Winograd's
            algorithm where that is faster, which changes a result by at most 2e-5 of
            the range of the results. `"strict"` adds up their products.

    Returns:
        The compiled model.

    Raises:
        UsageError: `example_inputs` or `dynamic_shapes` do not fit the model,
            `threads` is not a positive integer, or there is no such `precision`.
        UnsupportedError: `torch.export` cannot trace the model.

    Example:
        >>> import padc, torch
        >>> model = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect").eval()
        >>> batch = torch.export.Dim("batch", min=1, max=8)
        >>> x = torch.randn(2, 3, 8, 8)
        >>> compiled = padc.compile(model, (x,), dynamic_shapes=({0: batch},))
        >>> compiled(x[:1]).shape
        torch.Size([1, 4, 8, 8])
        >>> torch.allclose(compiled(x), model(x), atol=1e-5)
        True
    """
    check_threads(threads)
    strict = native_precision(precision) == "strict"
    with one_thread_if_forked():
        exported = as_exported("padc.compile", model, example_inputs, dynamic_shapes)
        try:
            return compile_exported(exported, threads, strict)
        except UnsupportedError as error:
            if is_checked():
                warn_unchecked("the whole model")
            return EagerModel(exported, error, GuardCheck(limits_of(exported)))


def compile_exported(
    exported: ExportedProgram, threads: int | None = None, strict: bool = False
) -> CompiledModel:
    """Like `compile`, but UnsupportedError if padc cannot import the program."""
    guards = GuardCheck(guards_of(exported))
    strides = StridesCheck(input_strides(exported))
    check = is_checked() or needs_checked_memory(exported)
    depends = [source_hash(), fingerprint(exported), machine_name(), *VERSIONS]
    options = ["checked" if check else "", "strict" if strict else ""]
    name = cache.key([*depends, *options])
    stored = stored_model(cache.read(name))
    if stored is None:
        with COMPILING, without_collection():
            stored, is_kept = compile_model(exported, check, strict)
        if is_kept:
            cache.write(name, stored.to_bytes())
    if is_checked() and (names := stored.program.ops_of_torch):
        warn_unchecked(", ".join(names))
    ctx, held = make_context(), held_tensors(exported)
    stored.bind(held, weights_of(ctx))
    function = stored.function(ctx)
    names, changed = value_names(function.arg_attrs), changed_names(function)
    return NativeModel(
        CallStructure(exported),
        LoadedProgram(ctx, stored.program, threads, is_trusted(exported.graph_module)),
        InputCheck(function),
        guards,
        strides,
        names[: len(names) - len(changed)],
        stored.outputs,
        [held[name].detach().clone() for name in changed],
    )


def is_checked() -> bool:
    """Whether machine code is to check its loads and stores."""
    return os.environ.get("PADC_CHECK", "") not in ("", "0")


def warn_unchecked(what: str) -> None:
    warn(f"PADC_CHECK does not check the memory of what PyTorch runs: {what}")


def stored_model(data: bytes | None) -> StoredModel | None:
    """The model in an entry of the cache; None if the entry cannot be read."""
    try:
        return None if data is None else StoredModel.from_bytes(data)
    except (ValueError, TypeError, LookupError, struct.error):
        return None
