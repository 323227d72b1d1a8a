"""`padc.compile`: models to machine code, or to PyTorch where that is impossible."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch
from torch.export import ExportedProgram

from padc.backends.native import cache
from padc.backends.native.compile_model import compile_model
from padc.backends.native.input_check import InputCheck
from padc.backends.native.loaded_program import LoadedProgram
from padc.backends.native.machine import machine_name
from padc.backends.native.main_function import value_names
from padc.backends.native.stored_model import StoredModel
from padc.compiled_model import CompiledModel
from padc.eager_model import EagerModel
from padc.errors import UnsupportedError
from padc.exported import as_exported
from padc.frontends.fingerprint import fingerprint
from padc.frontends.torch_export import held_tensors
from padc.ir import make_context
from padc.ir.weights import weights_of
from padc.native_model import NativeModel
from padc.source_hash import source_hash

VERSIONS = [version(name) for name in ("llvmlite", "torch", "xdsl")]
"""The versions of packages on which machine code depends."""
COMPILING = threading.Lock()
"""xDSL's linalg constructors mutate class state: one compilation at a time."""


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
    exported = as_exported("padc.compile", model, example_inputs, dynamic_shapes)
    try:
        return compile_exported(exported)
    except UnsupportedError as error:
        return EagerModel(exported, error)


def compile_exported(exported: ExportedProgram) -> CompiledModel:
    """The same; raises UnsupportedError where padc cannot import the program."""
    name = cache.key([source_hash(), fingerprint(exported), machine_name(), *VERSIONS])
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
