"""From a module at the torch and tcp levels to a program that can be stored."""

from __future__ import annotations

import io

from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp
from xdsl.printer import Printer

from padc.backends.native.compile_part import compile_part
from padc.backends.native.lowered_program import lower_program
from padc.backends.native.partition import partition
from padc.backends.native.stored_program import StoredPart, StoredProgram
from padc.ir.torch import AtenOp, LiteralOp
from padc.ir.weights import weights_of


def compile_program(
    ctx: Context, module: ModuleOp, check: bool = False, strict: bool = False
) -> StoredProgram:
    """
    Compile function `main`; PyTorch will run the ops that cannot be compiled.

    With `check`, machine code checks its loads and stores; with `strict`, convolutions
    are sums of products, and not computed by tiles.
    """
    weights = weights_of(ctx)
    known = set(weights)
    lowered = lower_program(module)
    split = partition(module, lambda op: op not in lowered.problems)
    parts: list[StoredPart] = []
    for part in split.parts:
        ops = [
            op.schema.name if isinstance(op, AtenOp) else op.name
            for op in part.module.walk()
            if isinstance(op, AtenOp) or op.name.startswith("tcp.")
        ]
        if part.is_native:
            inputs, outputs = (
                [split.values[number] for number in numbers]
                for numbers in (part.inputs, part.outputs)
            )
            function = lowered.function(inputs, outputs)
            compiled = compile_part(ctx, function, check, strict)
            signature, code, read = compiled.signature, compiled.object_file, ()
        else:
            signature, code = None, text_of(part.module).encode()
            read = sorted(weights_read(part.module))
        parts.append(StoredPart(part.inputs, part.outputs, ops, signature, code, read))
    reasons = [str(problem) for problem in lowered.problems.values()]
    literals = {name: weights[name] for name in weights if name not in known}
    return StoredProgram(parts, split.inputs, split.outputs, reasons, literals)


def weights_read(module: ModuleOp) -> set[str]:
    """The names of the weights that the constants of a module are."""
    values = [op.value for op in module.walk() if isinstance(op, LiteralOp)]
    return {x.resource_handle.data for x in values if isinstance(x, DenseResourceAttr)}


def text_of(module: ModuleOp) -> str:
    """The module as MLIR text, without the data of its weights."""
    text = io.StringIO()
    Printer(text).print_op(module)
    return text.getvalue()
