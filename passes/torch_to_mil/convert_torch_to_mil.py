"""
Lower what is left of ATen to Core ML's ops.

Core ML has neither int64 nor float64: values of these types become int32 and float32.
Before iOS17 it has no integers of 8 and 16 bits: these become int32, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    ShapedType,
    UnrealizedConversionCastOp,
    i32,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce

from padc.ir.targets import DEFAULT_TARGET, resolve_target
from padc.ir.torch import AtenOp, FromBuiltinTensorOp, VTensorType
from padc.ir.weights import Weights, weights_of
from padc.passes.aten.refusals import refusal
from padc.passes.common.backward_slice import backward_slice
from padc.passes.common.lowering import Replacement, lower_all
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.common.retyping import retype
from padc.passes.torch_to_mil.aten import LOWERINGS
from padc.passes.torch_to_mil.aten.mil_call import Made, MilCall
from padc.passes.torch_to_mil.aten.parts import MOST_NUMBERS, check_count
from padc.passes.torch_to_mil.aten.tensor import Tensor
from padc.passes.torch_to_mil.builtin_types import lower_signatures
from padc.passes.torch_to_mil.control_flow import lower_control_flow
from padc.passes.torch_to_mil.widened_integers import widen_integers


@dataclass(frozen=True)
class ConvertTorchToMilPass(ModulePass):
    """Lower what is left of ATen to Core ML's ops."""

    name = "convert-torch-to-mil"

    target: str = DEFAULT_TARGET
    """The oldest system that runs the program: iOS15, iOS16, iOS17, iOS18, ..."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = resolve_target(self.target)
        weights = weights_of(ctx)
        retype(op, weights, i64, i32)
        region_dce(op.body)  # Results that nothing uses need no row.
        rule = partial(lower, target=target, weights=weights)
        lower_all(op, AtenOp, rule, cast=partial(in_torch, target=target))
        lower_control_flow(op, target)
        lower_signatures(op)
        widen_integers(op, weights, target)


def lower(op: AtenOp, target: str, weights: Weights) -> Replacement:
    """Build what replaces the results of `op`; raises Obstacle if it has no row."""
    if not op.results:
        return []  # It only checks something, which a Core ML program cannot.
    lowering = LOWERINGS.get(op.schema.name)
    if lowering is None:
        raise refusal(op)
    check_constants(op)
    call = MilCall(op, MilBuilder(op, target), weights)
    if are_empty(op.result_types):
        return [empty(call, index) for index in range(len(op.results))]
    made = lowering(call)
    if made is None or isinstance(made, SSAValue):
        return made
    if isinstance(made, Tensor):
        return [as_value(call, made, 0)]
    return [as_value(call, x, index) for index, x in enumerate(made)]


def check_constants(op: AtenOp) -> None:
    """Raise Obstacle if `op` makes a large constant: coremltools would compute it."""
    count = max(map(count_of, op.result_types), default=0)
    if count <= MOST_NUMBERS:
        return
    values = backward_slice(*op.operands)
    if any(isinstance(x, BlockArgument) for x in values):
        return
    if count > 2 * max((count_of(x.type) for x in values if is_source(x)), default=0):
        check_count(count)


def is_source(value: SSAValue) -> bool:
    """Whether a value is computed from nothing."""
    return isinstance(value, OpResult) and not value.op.operands


def count_of(type: Attribute) -> int:
    """The numbers of a tensor of known sizes, else 0."""
    shape = type.get_shape() if isinstance(type, VTensorType | ShapedType) else ()
    return 0 if DYNAMIC_INDEX in shape else math.prod(shape)


def are_empty(types: Sequence[Attribute]) -> bool:
    """Whether no result has elements."""
    return all(isinstance(t, VTensorType) and 0 in t.get_shape() for t in types)


def empty(call: MilCall, index: int) -> SSAValue:
    """A constant without elements: Core ML has none, so an op must leave it out."""
    type: Any = call.result_type(index)
    return call.insert(ConstantOp(DenseIntOrFPElementsAttr(type, BytesAttr(b""))))


def as_value(
    call: MilCall, made: Made | None, index: int
) -> SSAValue | Sequence[SSAValue] | None:
    """The result of a row, as values of the result's type."""
    type = call.op.results[index].type
    if isinstance(made, Tensor):
        is_tensor = isinstance(type, VTensorType)
        return call.as_result(made, index) if is_tensor else made.ssa
    if made is None or isinstance(made, SSAValue):
        return made
    return [call.as_element(x) for x in made]


def in_torch(op: AtenOp, new: SSAValue, old: SSAValue, target: str) -> SSAValue:
    """Cast a builtin tensor to a value of the torch dialect."""
    build = MilBuilder(op, target)
    if isinstance(old.type, VTensorType):
        return build.insert(FromBuiltinTensorOp(new))
    return build.insert(UnrealizedConversionCastOp.get([new], [old.type]))
