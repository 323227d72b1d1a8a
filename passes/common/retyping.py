"""Narrower element types in place of those that a target does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from padc.errors import Obstacle, Problem, SourceLocation, UnsupportedError
from padc.ir.element_types import describe_element
from padc.ir.torch import AtenOp, LiteralOp, VTensorType
from padc.ir.type_tests import is_integer, is_tensor
from padc.ir.weights import Weights, float32_of_bfloat16, numpy_dtype
from padc.passes.common.lowering import problem


def retype(module: ModuleOp, weights: Weights, old: Attribute, new: Attribute) -> None:
    """
    Give every tensor of `old` elements `new` ones, in the torch and builtin types.

    Constants are converted, to new weights. Raises UnsupportedError for those with
    integers that `new` does not have.
    """
    problems = [
        constant_problem(op, error)
        for op in module.walk()
        if (error := retype_constant(op, weights, old, new)) is not None
    ]
    if problems:
        raise UnsupportedError(problems)
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                for argument in list(block.args):
                    retype_value(argument, old, new)
        for result in op.results:
            retype_value(result, old, new)
    for op in module.walk():
        if isinstance(op, FuncOp) and not op.is_declaration:
            op.update_function_type()


def constant_problem(constant: Operation, error: Obstacle) -> Problem:
    """A problem of the first ATen op that uses a constant: a user knows that op."""
    reached: list[Operation] = [constant]
    for op in reached:
        if isinstance(op, AtenOp):
            return problem(op, error.message, error.hint)
        reached += [use.operation for result in op.results for use in result.uses]
    where = SourceLocation.of(constant.location)
    return Problem(error.message, where, error.hint)


def named(value: Attribute, weights: Weights) -> str:
    """A constant in a message, with the name that it has in the model."""
    if isinstance(value, DenseResourceAttr):
        if name := weights.sources.get(value.resource_handle.data):
            return f"the constant '{name}'"
    return "a constant"


def retype_value(value: SSAValue, old: Attribute, new: Attribute) -> None:
    type = retyped(value.type, old, new)
    if type != value.type:
        Rewriter.replace_value_with_new_type(value, type)


def retyped(type: Attribute, old: Attribute, new: Attribute) -> Attribute:
    """A tensor type with `new` elements instead of `old` ones; others unchanged."""
    if isinstance(type, VTensorType) and signless(type.element_type) == old:
        return VTensorType.get(signed(new), type.get_shape())
    if is_tensor(type) and type.element_type == old:
        return TensorType(new, type.get_shape())
    return type


def retype_constant(
    op: Operation, weights: Weights, old: Attribute, new: Attribute
) -> Obstacle | None:
    """Convert the value of a constant; returns why it cannot be."""
    if not isinstance(op, LiteralOp | ConstantOp):
        return None
    value = op.value
    if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return None
    type = value.get_type()
    if not is_tensor(type) or signless(type.element_type) != old:
        return None
    array, dtype = weights.array(value), numpy_dtype(new)
    if dtype.kind == "i" and array.size:
        limits, low, high = np.iinfo(dtype), array.min(), array.max()
        if low < limits.min or high > limits.max:
            return Obstacle(
                f"{named(value, weights)} of {describe_element(old)} has values from "
                f"{low} to {high}, which {describe_element(new)} does not have",
                "use smaller numbers",
            )
    if old == bf16:
        array = float32_of_bfloat16(array)
    # A float64 too large for a float32 becomes infinite, as in PyTorch.
    with np.errstate(over="ignore"):
        array = array.astype(dtype)
    element = signed(new) if isinstance(op, LiteralOp) else new
    narrow = TensorType(element, type.get_shape())
    if isinstance(value, DenseResourceAttr):
        name = weights.add(value.resource_handle.data, array)
        op.properties["value"] = DenseResourceAttr.from_params(name, narrow)
    else:
        data = BytesAttr(array.tobytes())
        op.properties["value"] = DenseIntOrFPElementsAttr[Any](narrow, data)
    return None


def signless(type: Attribute) -> Attribute:
    """The type without the mark of a signed integer."""
    if is_integer(type):
        if type.signedness.data is Signedness.SIGNED:
            return IntegerType(type.width.data)
    return type


def signed(type: Attribute) -> Attribute:
    """A signless integer type as the torch dialect writes it."""
    if is_integer(type):
        if type.signedness.data is Signedness.SIGNLESS and type.width.data > 1:
            return IntegerType(type.width.data, Signedness.SIGNED)
    return type
