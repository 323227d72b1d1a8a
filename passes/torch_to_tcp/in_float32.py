"""Float types that a target does not have, computed in float32 inside a program."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

from padc.errors import SourceLocation
from padc.ir.element_types import describe_element
from padc.ir.torch import AtenOp, ConstantIntOp
from padc.ir.torch.describe import element_type
from padc.ir.torch.dtypes import DTYPE_NUMBERS
from padc.ir.weights import Weights
from padc.passes.common.retyping import retype
from padc.warn import warn


def compute_in_float32(module: ModuleOp, weights: Weights, old: Attribute) -> None:
    """
    Compute values of the type `old` in float32.

    Programs that take or return `old` are left alone. Warns if ops compute in it.
    """
    functions = [each for each in module.walk() if isinstance(each, FuncOp)]
    types = [function.function_type for function in functions]
    if any(element_type(x) == old for t in types for x in (*t.inputs, *t.outputs)):
        return
    ops = [each for each in module.walk() if isinstance(each, AtenOp)]
    computed = [op for op in ops if old in map(element_type, op.result_types)]
    if computed:
        first = computed[0]
        where = SourceLocation.of(first.location)
        warn(
            f"Core ML has no {describe_element(old)}: values inside the model are "
            f"computed in float32, first by {first.schema.name}"
            + ("" if where is None else f" at {where.file}:{where.line}")
        )
    retype(module, weights, old, f32)
    for each in ops:
        replace_dtypes(each, DTYPE_NUMBERS[describe_element(old)])


def replace_dtypes(op: AtenOp, number: int) -> None:
    """Replace the dtype `number` among the arguments of `op` by float32."""
    for index, argument in enumerate(op.schema.arguments):
        if argument.type.rstrip("?") != "ScalarType":
            continue
        match op.operands[index].owner:
            case ConstantIntOp() as given if given.value.value.data == number:
                new = ConstantIntOp(DTYPE_NUMBERS["float32"])
                Rewriter.insert_op(new, InsertPoint.before(op))
                op.operands[index] = new.result
            case _:
                pass
