"""From a module at the torch and tcp levels to one object file."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.backend.llvm.convert import convert_module
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.backends.native.function_signature import (
    Signature,
    accesses_of,
    signature_of,
)
from padc.backends.native.machine import compile_object, host
from padc.ir.main_function import main
from padc.passes import pipelines


@dataclass(frozen=True)
class CompiledPart:
    """An object file, and the parameters of the function in it."""

    signature: Signature
    object_file: bytes


def compile_part(
    ctx: Context, module: ModuleOp, check: bool = False, strict: bool = False
) -> CompiledPart:
    """
    Compile function `main` of `module`; `module` is lowered in place.

    With `check`, the code checks its loads and stores; with `strict`, convolutions are
    sums of products, and not computed by tiles.
    """
    function = main(module)
    inputs = list(function.function_type.inputs)
    results = list(function.function_type.outputs)
    pipelines.run_passes(ctx, module, pipelines.to_buffers(host().vector_bytes, strict))
    signature = signature_of(main(module), inputs, results)
    pipelines.run_passes(ctx, module, pipelines.to_llvm(host().vector_bytes, check))
    if check:
        signature = replace(signature, accesses=accesses_of(module))
    return CompiledPart(
        signature, compile_object(convert_module(module, fallback_target_triple=None))
    )
