"""From a module at the level of torch and tcp to machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.backend.llvm.convert import convert_module
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from padc.backends.native.machine import compile_object, vector_bytes
from padc.backends.native.signature import Signature, signature_of
from padc.errors import Problem
from padc.ir.torch import AtenOp
from padc.passes import pipelines
from padc.passes.to_linalg.convert_torch_to_linalg import (
    lower,
)


@dataclass(frozen=True)
class Compiled:
    """An object file, and what its function takes."""

    signature: Signature
    object_file: bytes


def compile_module(ctx: Context, module: ModuleOp) -> Compiled:
    """Compile function `main` of `module`, which this changes."""
    function = main(module)
    inputs = list(function.function_type.inputs)
    results = list(function.function_type.outputs)
    pipelines.run_passes(ctx, module, pipelines.to_buffers())
    signature = signature_of(main(module), inputs, results)
    pipelines.run_passes(ctx, module, pipelines.to_llvm(vector_bytes()))
    return Compiled(
        signature, compile_object(convert_module(module, fallback_target_triple=None))
    )


def main(module: ModuleOp) -> func.FuncOp:
    function = SymbolTable.lookup_symbol(module, "main")
    assert isinstance(function, func.FuncOp)
    return function


def not_native(module: ModuleOp) -> dict[Operation, Problem]:
    """The ATen ops of `module` that can't be compiled, each with the reason."""
    trial = module.clone()

    def calls(module: ModuleOp) -> Sequence[AtenOp]:
        return [op for op in module.walk() if isinstance(op, AtenOp)]

    found: dict[Operation, Problem] = {}
    for op, copy in zip(calls(module), calls(trial), strict=True):
        if (problem := lower(copy)) is not None:
            found[op] = problem
    return found
