"""
Whether PyTorch makes the ATen ops of a program as they are.

A program that was exported is made of such ops; one that was written as MLIR text may
have operands that PyTorch refuses, or declare results of other types. PyTorch computes
each op on tensors without data. Ops with sizes known only at run time, and those that
PyTorch cannot compute so, are not judged.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from padc.errors import InvalidProgramError, SourceLocation
from padc.ir.torch import AtenOp
from padc.ir.torch.calls import why_invalid

__all__ = ["check_aten_ops"]


def check_aten_ops(module: ModuleOp) -> None:
    """
    Compare the types of the results of ATen ops with those that PyTorch gives them.

    Args:
        module: A verified module at the torch level; ops of other levels are skipped.

    Raises:
        InvalidProgramError: PyTorch does not take the operands of an op, or a result
            has another dtype, rank or size.
    """
    for op in module.walk():
        if isinstance(op, AtenOp) and op.results and (reason := why_invalid(op)):
            raise InvalidProgramError(
                f"{op.schema.name}: {reason}",
                hint="correct the program",
                location=SourceLocation.of(op.location),
            )
