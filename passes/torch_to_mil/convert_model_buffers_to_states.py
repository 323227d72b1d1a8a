"""
Make the buffers that a program changes states of Core ML.

A program reads a state once, when it starts, and updates it as soon as nothing needs
the old value. Core ML's states are float16 (`get_func_input` in coremltools'
converters/mil/backend/mil/load.py), and start as zeros:
https://developer.apple.com/documentation/coreml/mlmodel/makestate(). For buffers that
start with other values there is one more state, which is zero until the first
prediction ends: where it is zero, the program takes the values of the export.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseResourceAttr,
    DictionaryAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnknownLoc,
    f16,
    f32,
    i1,
    i8,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from padc.errors import Obstacle, Problem, SourceLocation, UnsupportedError
from padc.ir import mil, mil_types
from padc.ir.element_types import LARGEST_FINITE
from padc.ir.main_function import body_of, main, value_names
from padc.ir.model_buffers import ChangedBuffer, changed_buffers
from padc.ir.names import unique_name
from padc.ir.precisions import DEFAULT_PRECISION, resolve_precision
from padc.ir.targets import DEFAULT_TARGET, TARGETS, resolve_target
from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.torch.describe import describe_type
from padc.ir.weights import Array, Weights, weights_of
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.torch_to_mil.states_policy import (
    DEFAULT_STATES_POLICY,
    StatesPolicy,
    resolve_states_policy,
)
from padc.warn import warn

SINCE = "iOS18"
"""The first target that has states."""
FITS_FLOAT16 = (f16, i1, i8, mil_types.unsigned(8))
"""The element types all of whose values float16 has."""
LARGEST_FLOAT16 = LARGEST_FINITE[type(f16)]
FLAG = "is_initialized"
"""The name of the state that is zero until the first prediction ends."""
FLAG_TYPE = TensorType(f16, [1])


@dataclass(frozen=True)
class ConvertModelBuffersToStatesPass(ModulePass):
    """Make the buffers that a program changes states of Core ML."""

    name = "convert-model-buffers-to-states"

    target: str = DEFAULT_TARGET
    """The oldest system that runs the program: iOS15, iOS16, iOS17, iOS18, ..."""

    policy: StatesPolicy = DEFAULT_STATES_POLICY
    """
    Which buffers become states. auto: those that a state holds exactly, or float32 ones
    of a float16 program. native: all. inputs: none.
    """

    precision: str = DEFAULT_PRECISION
    """The precision of floats: float16 lets float32 buffers become states."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = resolve_target(self.target)
        resolve_states_policy(self.policy)
        resolve_precision(self.precision)
        function = main(op)
        # Others are states already.
        buffers = [x for x in changed_buffers(function) if x.result is not None]
        has_states = TARGETS.index(target) >= TARGETS.index(SINCE)
        if self.policy == "inputs" or not (has_states or self.policy == "native"):
            return
        states: list[ChangedBuffer] = []
        problems: list[Problem] = []
        for each in buffers:
            try:
                if not has_states:
                    hint = f"choose {SINCE} or a newer target, or set states='auto'"
                    raise Obstacle(f"{target} has no states", hint)
                self.check(function, each, weights_of(ctx))
                states.append(each)
            except Obstacle as error:
                text = f"the buffer '{each.name}' cannot be a state ({error.message})"
                where = SourceLocation.of(each.location(function))
                problems.append(Problem(text, where, error.hint))
        if problems and self.policy == "native":
            raise UnsupportedError(problems)
        if problems:
            warn_of(problems)
        if states:
            make_states(function, states, weights_of(ctx), target)

    def check(self, function: FuncOp, buffer: ChangedBuffer, weights: Weights) -> None:
        """Raise Obstacle if a state cannot hold a buffer."""
        type = tensor_type(function.args[buffer.argument])
        if DYNAMIC_INDEX in type.get_shape():
            raise Obstacle(f"{describe_type(type)} has a dynamic size", "fix the size")
        if type.element_type in FITS_FLOAT16:
            return
        if type.element_type != f32:
            raise Obstacle(
                f"states are float16, which does not have all values of "
                f"{describe_type(type)}",
                "set states='auto': the buffer then becomes an input and an output",
            )
        if self.precision != "float16":
            raise Obstacle(
                f"states are float16, and it is {describe_type(type)}",
                "set precision='float16', make the buffer float16, or set "
                "states='auto'",
            )
        if has_large_values(buffer, weights):
            raise Obstacle(
                f"states are float16, and it has values above {LARGEST_FLOAT16:g}",
                "set states='auto': the buffer then becomes an input and an output",
            )


def has_large_values(buffer: ChangedBuffer, weights: Weights) -> bool:
    """Whether float16 does not have some finite value of a buffer at export."""
    initial = buffer.initial_array(weights)
    finite = initial[np.isfinite(initial)]
    return bool(finite.size) and abs(finite).max() > LARGEST_FLOAT16


def warn_of(problems: Sequence[Problem]) -> None:
    """Warn that buffers become inputs and outputs although the target has states."""
    first, *others = problems
    more = f", and {len(others)} more" if others else ""
    warn(f"{first.message}: it is an input and an output of the program{more}")


@dataclass(frozen=True)
class LocatedBuilder(MilBuilder):
    """A builder of ops that come from another line than the anchor."""

    where: LocationAttr

    @property
    def location(self) -> LocationAttr:
        return self.where


@dataclass(frozen=True)
class State:
    """A buffer that becomes a state."""

    argument: BlockArgument
    """The state."""
    type: AnyTensor
    """The type of the buffer."""
    initial: Array
    """The value at export, in float16."""
    where: LocationAttr
    """The line that computes the new value."""

    @property
    def is_zero(self) -> bool:
        """Whether it starts as a state does: with positive zeros."""
        return not self.initial.view(np.uint16).any()


def make_states(
    function: FuncOp, buffers: Sequence[ChangedBuffer], weights: Weights, target: str
) -> None:
    """Replace the arguments and the results of `buffers` by states."""
    block, returned = body_of(function), function.get_return_op()
    assert returned is not None
    results = [each.result for each in buffers]
    kept = [i for i in range(len(returned.operands)) if i not in results]
    arguments = [block.args[each.argument] for each in buffers]
    states = [
        state_of(block, argument, each, each.location(function), weights)
        for argument, each in zip(arguments, buffers, strict=True)
    ]
    start = block.first_op
    assert start is not None
    flag = None if all(each.is_zero for each in states) else add_state(block, (1,))
    is_later = None if flag is None else read_flag(flag, start, target)
    olds: list[SSAValue] = []
    for argument, state in zip(arguments, states, strict=True):
        build = LocatedBuilder(start, target, state.where)
        olds.append(read(state, build, weights, is_later))
        argument.replace_all_uses_with(olds[-1])
    values = [returned.operands[each] for each in results if each is not None]
    end = ReturnOp(*(returned.operands[i] for i in kept))
    end.location = returned.location
    Rewriter.replace_op(returned, end)
    for state, old, value in zip(states, olds, values, strict=True):
        update(state, old, value, target)
    if flag is not None:
        build = MilBuilder(end, target)
        ones = build.constant(np.ones(1, np.float16))
        build.emit("coreml_update_state", FLAG_TYPE, (1,), state=flag, value=ones)
    set_signature(function, arguments, kept, has_flag=flag is not None)


def state_of(
    block: Block,
    argument: BlockArgument,
    buffer: ChangedBuffer,
    where: LocationAttr,
    weights: Weights,
) -> State:
    """The state of a buffer, as a new argument."""
    type = tensor_type(argument)
    # Core ML has no states of rank 0.
    shape = type.get_shape() or (1,)
    with np.errstate(over="ignore"):
        initial = buffer.initial_array(weights).astype(np.float16).reshape(shape)
    state = add_state(block, shape)
    state.name_hint = argument.name_hint
    return State(state, type, initial, where)


def add_state(block: Block, shape: Sequence[int]) -> BlockArgument:
    """A new argument that is a state."""
    return block.insert_arg(
        mil_types.StateType(TensorType(f16, shape)), len(block.args)
    )


def read_flag(flag: BlockArgument, start: Operation, target: str) -> SSAValue:
    """Whether this is not the first prediction, as a bool."""
    build = LocatedBuilder(start, target, UnknownLoc())
    return build.cast(build.emit("read_state", FLAG_TYPE, (1,), input=flag), i1)


def read(
    state: State, build: MilBuilder, weights: Weights, is_later: SSAValue | None
) -> SSAValue:
    """The value of a buffer before the prediction."""
    type, shape = TensorType(f16, state.initial.shape), state.initial.shape
    value = build.emit("read_state", type, shape, input=state.argument)
    if not state.is_zero:
        name = weights.add(f"{state.argument.name_hint}_initial", state.initial)
        initial = build.insert(
            ConstantOp(DenseResourceAttr.from_params(name, type)),
        )
        value = build.emit("select", type, shape, cond=is_later, a=value, b=initial)
    return of_type(value, state.type, build)


def of_type(value: SSAValue, type: AnyTensor, build: MilBuilder) -> SSAValue:
    """The value of a state as a buffer of `type`."""
    if not type.get_shape():
        value = build.emit("squeeze", tensor_type(value), (), x=value, axes=[0])
    return build.cast(value, type.element_type)


def update(state: State, old: SSAValue, value: SSAValue, target: str) -> None:
    """
    Set a state to `value` as soon as no op needs the value `old`.

    Later ops read floats from the state again: Core ML need not keep `value`, then.
    """
    block = state.argument.block
    places = {op: place for place, op in enumerate(block.ops)}
    needed = [user_in(block, use.operation) for use in old.uses]
    needed += [value.owner] if isinstance(value.owner, Operation) else []
    last = max((places[op] for op in needed), default=-1)
    after = next(
        op for op, place in places.items() if place > min(last, len(places) - 2)
    )
    build = LocatedBuilder(after, target, state.where)
    later = [use for use in value.uses if places[user_in(block, use.operation)] > last]
    is_read_again = isinstance(value.owner, mil.MilOp) and state.type.element_type in (
        f16,
        f32,
    )
    shape = state.initial.shape
    stored = build.cast(value, f16)
    if not state.type.get_shape():
        type = TensorType(f16, ())
        stored = build.emit("expand_dims", type, shape, x=stored, axes=[0])
    type = TensorType(f16, shape)
    stored = build.emit(
        "coreml_update_state", type, shape, state=state.argument, value=stored
    )
    if later and is_read_again:
        again = of_type(stored, state.type, build)
        for use in later:
            use.operation.operands[use.index] = again


def user_in(block: Block, op: Operation) -> Operation:
    """The op of `block` that is `op`, or has it in a region."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def set_signature(
    function: FuncOp,
    arguments: Sequence[BlockArgument],
    kept: Sequence[int],
    has_flag: bool,
) -> None:
    """Move the attributes of `arguments` to the states, which come last."""
    entries = list(function.arg_attrs or ())
    moved = [entries[argument.index] for argument in arguments]
    rest = [
        each for i, each in enumerate(entries) if i not in {a.index for a in arguments}
    ]
    results = list(function.res_attrs or ())
    left = [results[i] for i in kept]
    if has_flag:
        taken = value_names(ArrayAttr([*entries, *left]))
        name = StringAttr(unique_name(FLAG, taken))
        moved.append(DictionaryAttr({"padc.name": name}))
    for argument in arguments:
        body_of(function).erase_arg(argument)
    function.arg_attrs = ArrayAttr([*rest, *moved])
    function.res_attrs = ArrayAttr(left)
    function.update_function_type()
