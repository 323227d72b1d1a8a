"""How one ATen op is lowered to upstream's tensor ops."""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.torch import AtenOp, VTensorType
from padc.passes.common.linalg_builder import builder_before
from padc.passes.common.lowering import Replacement
from padc.passes.to_linalg.aten import LOWERINGS, LinalgCall

NO_CODE = "there is no native code for it"


def lower_op(op: AtenOp) -> Replacement:
    """Build what replaces the results of `op`; Obstacle if it has no lowering."""
    lowering = LOWERINGS.get(op.schema.name)
    if lowering is None or any(map(is_complex, (*op.operands, *op.results))):
        raise Obstacle(NO_CODE)
    made = lowering(call_of(op))
    if made is None:
        raise Obstacle(NO_CODE)
    return made


def in_torch(op: AtenOp, new: SSAValue, old: SSAValue) -> SSAValue:
    """Convert a signless tensor to the torch dialect."""
    return call_of(op).in_torch(new, old.type)


def call_of(op: AtenOp) -> LinalgCall:
    return LinalgCall(op, builder_before(op))


def is_complex(value: SSAValue) -> bool:
    type = value.type
    return isinstance(type, VTensorType) and isinstance(type.element_type, ComplexType)
