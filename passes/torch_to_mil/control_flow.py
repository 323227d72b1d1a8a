"""
Branches and loops: `torch.prim.If` and `torch.prim.Loop` become Core ML's ops.

    If c {..yield a} else {..yield b}    cond(c) {..yield a} {..yield b}
    Loop most, c, init(x) {              while_loop(c, 0, x)
    ^(i, v):                               {^(d, i, v): yield d and i < most}
      ..condition d, iter(y) }             {^(_, i, v): ..yield d, i + 1, y}

A loop without a number of iterations has no counter, one without a condition no `c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import ModuleOp, TensorType, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.torch import (
    IfOp,
    LoopOp,
    NotConstantError,
    VTensorType,
    builtin_type,
    constant_value,
)
from padc.ir.torch.describe import describe_type
from padc.passes.common.lowering import lower_all
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.torch_to_mil.aten.mil_call import as_builtin, scalar_type
from padc.passes.torch_to_mil.aten.movement import Size
from padc.passes.torch_to_mil.aten.tensor import INT32, Tensor, number


def lower_control_flow(module: ModuleOp, target: str) -> None:
    """Lower the branches and loops of a module whose ATen ops are lowered."""
    lower_all(module, IfOp, partial(lower_if, target=target))
    lower_all(module, LoopOp, partial(lower_loop, target=target))


def lower_if(op: IfOp, target: str) -> Sequence[SSAValue]:
    build = MilBuilder(op, target)
    types = [crossing_type(result) for result in op.results]
    check_sizes(op)
    condition = crossing(build, op.condition)
    blocks = [op.detach_region(op.regions[0]) for _ in range(2)]
    for block in blocks:
        end = block.block.last_op
        assert end is not None
        replace_end(end, end.operands, target)
    return build.insert_all(mil.CondOp([condition], ["pred"], {}, types, None, *blocks))


def check_sizes(op: IfOp) -> None:
    """Raise Obstacle if the branches give a result in different sizes."""
    first, second = (region.block.last_op for region in op.regions)
    assert first is not None and second is not None
    for a, b in zip(first.operand_types, second.operand_types, strict=True):
        if isinstance(a, VTensorType) and isinstance(b, VTensorType) and a != b:
            raise Obstacle(
                f"one branch gives {describe_type(a)} and the other {describe_type(b)}",
                "pad the results of both to one size",
            )


def lower_loop(op: LoopOp, target: str) -> Sequence[SSAValue]:
    build = MilBuilder(op, target)
    types = [crossing_type(result) for result in op.results]
    most = iterations(build, op.most)
    has_condition = not (is_true(op.condition) and is_true(op.end.condition))
    has_counter = most is not None or op.body.block.args[0].first_use is not None
    if most is None and not has_condition:
        raise Obstacle("the loop never ends", "give it a condition")
    given = [crossing(build, value) for value in op.initial]
    if has_counter:
        given.insert(0, Tensor(build, number(0, i32), i32).ssa)
        types.insert(0, TensorType(i32, []))
    if has_condition:
        given.insert(0, crossing(build, op.condition))
        types.insert(0, mil.SCALAR)
    first = condition_block(types, has_condition, most, target)
    second = body_block(op, has_condition, has_counter, target)
    names = ["loop_vars"] * len(given)
    loop = mil.WhileLoopOp(given, names, {}, types, None, first, second)
    results = build.insert_all(loop)
    return results[len(results) - len(op.results) :]


def condition_block(
    types: Sequence[Attribute], has_condition: bool, most: Size | None, target: str
) -> Region:
    """The block that tells whether the body runs again."""
    block = Block([end := mil.YieldOp([])], arg_types=types)
    build = MilBuilder(end, target)
    conditions = [Tensor(build, block.args[0], i1)] if has_condition else []
    if most is not None:
        counter = Tensor(build, block.args[int(has_condition)], i32)
        limit = Tensor(build, most.ssa, i32) if isinstance(most, Tensor) else most
        conditions.append(counter < limit)
    condition = conditions[0] if len(conditions) == 1 else conditions[0] & conditions[1]
    Rewriter.replace_op(end, mil.YieldOp([condition.ssa]))
    return Region(block)


def body_block(
    op: LoopOp, has_condition: bool, has_counter: bool, target: str
) -> Region:
    """The body, which carries the condition and the counter on, too."""
    end, body = op.end, op.detach_region(op.body)
    block = body.block
    carried: list[SSAValue] = [*end.values]
    counter, *values = block.args
    for value in values:
        Rewriter.replace_value_with_new_type(value, crossing_type(value))
    if has_counter:
        counter = Rewriter.replace_value_with_new_type(counter, TensorType(i32, []))
        carried.insert(0, (Tensor(MilBuilder(end, target), counter, i32) + 1).ssa)
    else:
        block.erase_arg(counter)
    if has_condition:
        block.insert_arg(mil.SCALAR, 0)
        carried.insert(0, end.condition)
    replace_end(end, carried, target)
    return body


def replace_end(end: Operation, values: Sequence[SSAValue], target: str) -> None:
    build = MilBuilder(end, target)
    Rewriter.replace_op(end, mil.YieldOp([crossing(build, x) for x in values]))


# --- values that enter and leave blocks -----------------------------------------------


def crossing_type(value: SSAValue) -> TensorType[Attribute]:
    """The builtin type of a result or a carried value; Obstacle if Core ML lacks it."""
    if not isinstance(value.type, VTensorType):
        return TensorType(scalar_type(value), [])
    type = builtin_type(value.type)
    if 0 in type.get_shape():
        message = f"Core ML has no empty tensors, and this has {describe_type(type)}"
        raise Obstacle(message, "leave it out")
    if type.get_num_dims() > mil.MAX_RANK:
        raise Obstacle(
            f"Core ML's tensors have rank {mil.MAX_RANK} at most, and this has "
            f"{describe_type(type)}",
            "join dimensions of its operands and of the results of its functions",
        )
    return type


def crossing(build: MilBuilder, value: SSAValue) -> SSAValue:
    """A value of the torch dialect, or one that is lowered already, as a tensor."""
    if isinstance(value.type, TensorType):
        return value
    if isinstance(value.type, VTensorType):
        return as_builtin(build, value)
    try:
        known = constant_value(value)
    except NotConstantError:
        return as_builtin(build, value)
    assert isinstance(known, int | float)
    type = scalar_type(value)
    return Tensor(build, number(known, type), type).ssa


def iterations(build: MilBuilder, most: SSAValue) -> Size | None:
    """The largest number of iterations; None if there is no limit."""
    try:
        known = constant_value(most)
    except NotConstantError:
        return Tensor(build, as_builtin(build, most), i32)
    assert isinstance(known, int)
    return None if known > INT32.max else known


def is_true(value: SSAValue) -> bool:
    try:
        return constant_value(value) is True
    except NotConstantError:
        return False
