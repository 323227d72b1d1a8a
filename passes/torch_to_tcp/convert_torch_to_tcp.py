"""
Make padding explicit: ATen's convolutions, pads, pools and upsampling become `tcp`.

Afterwards no convolution and no pool has padding: a pad stands before it. Ops that
`tcp` has nothing for stay as they are, and so do those that give what a `tcp` op
does not.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle, Problem, UnsupportedError
from padc.ir.torch import (
    AtenOp,
    FromBuiltinTensorOp,
    NotConstantError,
)
from padc.passes.aten.call import problem
from padc.passes.torch_to_tcp.lowerings import LOWERINGS, Lowered


def lower(op: AtenOp) -> Problem | None:
    """Replace `op` where there is a lowering, or say why that can't be done."""
    lowering = LOWERINGS.get(op.schema.name)
    if lowering is None:
        return None
    call = Lowered(op, Builder(InsertPoint.before(op)))
    try:
        result = lowering(call)
    except Obstacle as error:
        return problem(op, error.message, error.hint)
    except NotConstantError as error:
        return problem(
            op, f"an argument that is computed: {error}", "make it a constant"
        )
    except (ValueError, VerifyException) as error:
        return problem(op, str(error), None)
    if result is not None:
        results = [result] if isinstance(result, SSAValue) else result
        for old, new in zip(op.results, results):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(call.insert(FromBuiltinTensorOp(new)))
        op.detach()
        op.erase()
    return None


class ConvertTorchToTcpPass(ModulePass):
    """Make the padding of ATen ops explicit, in `tcp` ops."""

    name = "convert-torch-to-tcp"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = [call for call in op.walk() if isinstance(call, AtenOp)]
        problems = [found for call in calls if (found := lower(call)) is not None]
        if problems:
            raise UnsupportedError(problems)
        region_dce(op.body)
