"""
Compilers in the form that conformance drivers call: an exported program to a function.

Each takes a `torch.export.ExportedProgram` and returns a callable on its tensors. What
can't be compiled raises `padc.errors.UnsupportedError`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.utils._pytree as pytree

from padc.backends.reference import run
from padc.coreml_program import convert
from padc.errors import Problem, UnsupportedError
from padc.ir.dominance import verify
from padc.ir.weights import weights_of
from padc.passes import pipelines

Compiled = Callable[..., tuple[torch.Tensor, ...]]


def compile_for_oracle(program: torch.export.ExportedProgram) -> Compiled:
    """Import, make padding explicit, and interpret what comes out."""
    ctx, module = pipelines.import_program(program)
    pipelines.run_passes(ctx, module, pipelines.to_reference())
    verify(module)
    return lambda *inputs: run(module, *inputs, weights=weights_of(ctx))


def compile_for_coreml(program: torch.export.ExportedProgram) -> Compiled:
    """Convert, save a package, and run that with the evaluator."""
    return convert(program).run


def compile_for_native(program: torch.export.ExportedProgram) -> Compiled:
    """Compile to machine code, all of it, and run that."""
    # Which needs llvmlite.
    from padc.compiled import compile_exported

    compiled = compile_exported(program)
    if not compiled.is_native:
        raise UnsupportedError([Problem(compiled.report())])
    return lambda *inputs: tuple(pytree.tree_leaves(compiled(*inputs)))
