"""From a module at the level of torch and tcp to machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.backend.llvm.convert import convert_module
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import (
    CommonSubexpressionElimination,
)

from padc.backends.native.machine import compile_object, vector_bytes
from padc.backends.native.signature import Signature, signature_of
from padc.errors import Problem
from padc.ir.torch import AtenOp
from padc.passes.buffers.bufferize_tcp import BufferizeTcpPass
from padc.passes.buffers.fill_border_only import FillBorderOnlyPass
from padc.passes.buffers.pad_into_producer import PadIntoProducerPass
from padc.passes.buffers.plan_buffers import PlanBuffersPass
from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import ConvertBuffersToLlvmPass
from padc.passes.to_linalg.convert_torch_to_linalg import (
    ConvertTorchToLinalgPass,
    lower,
)


def buffer_passes() -> list[ModulePass]:
    """The passes from torch and tcp to planned buffers."""
    return [
        ConvertTorchToLinalgPass(),
        BufferizeTcpPass(),
        CanonicalizePass(),
        CommonSubexpressionElimination(),
        PadIntoProducerPass(),
        FillBorderOnlyPass(),
        CanonicalizePass(),
        PlanBuffersPass(),
        CanonicalizePass(),
        CommonSubexpressionElimination(),
    ]


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
    for each in buffer_passes():
        each.apply(ctx, module)
    signature = signature_of(main(module), inputs, results)
    ConvertBuffersToLlvmPass(vector_bytes()).apply(ctx, module)
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
