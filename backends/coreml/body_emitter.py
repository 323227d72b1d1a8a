# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Emission of a block of ops into the pymil function that is being built.

An op of the `mil` dialect becomes the pymil op of its name, a constant becomes pymil's.
The blocks of an op are walked in the same way, when pymil asks for them. The type that
pymil infers for each result is compared with the type that the IR declares.

An op that fails does not stop the walk: its problem is noted. Ops that only fail
because an operand did are left out.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseResourceAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.backends.coreml import quiet
from padc.backends.coreml.app.interface import INT32
from padc.backends.coreml.app.io_types import pymil_dtype
from padc.errors import (
    Obstacle,
    Problem,
    SourceLocation,
    first_line,
    module_path,
    origin,
)
from padc.ir import mil, mil_types
from padc.ir.mil_forms import Input
from padc.ir.torch import AtenOp
from padc.ir.torch.describe import describe_type
from padc.ir.weights import Weights
from padc.passes.common.lowering import problem
from padc.passes.pipelines import CONVERSIONS_TO_MIL

with quiet():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic

# coremltools attaches the op builders at run time; a type checker does not see them.
mb: Any = Builder


class BodyEmitter:
    """
    Emits ops into the current block of pymil; `values` binds their operands.

    Args:
        weights: The arrays of the constants.
        target: The Core ML version of the function that is being built.
        unique: Makes a name for a pymil op of a proposed one.
    """

    def __init__(self, weights: Weights, target: str, unique: Callable[[str], str]):
        self.weights = weights
        self.target = target
        self.unique = unique
        self.problems: list[Problem] = []
        self.values: dict[SSAValue, Any] = {}
        """The pymil variable of each SSA value."""

    def emit_ops(self, block: Block) -> Sequence[SSAValue]:
        """Emit the ops of a block; returns the values that it returns."""
        for op in live_ops(block):
            if isinstance(op, ReturnOp | mil.YieldOp):
                return op.operands
            if is_lowered(op):
                self.emit_op(op)
            else:
                self.note_foreign(op)
        return []

    def note_foreign(self, op: Operation) -> None:
        """Note an op that was not lowered, except PyTorch's constants and lists."""
        if isinstance(op, AtenOp) or op.dialect_name() != "torch":
            passes = ",".join(each.name for each in CONVERSIONS_TO_MIL)
            hint = f"lower it: -p {passes}"
            self.problems.append(problem(op, "it is not an op of Core ML", hint))

    def emit_op(self, op: mil.MilOp | ConstantOp) -> None:
        """Emit an op, unless an operand failed; note the problem if it fails."""
        if any(operand not in self.values for operand in op.operands):
            return
        try:
            with self.scope(op):
                values = self.converted(op)
            if len(values) != len(op.results):
                raise Obstacle(f"coremltools makes {len(values)} results of it")
            for result, value in zip(op.results, values):
                check_result(result.type, value)
            if len(values) > 1:
                # pymil appends numbers to the op's name, which others may have.
                for value in values:
                    value.set_name(self.unique(value.name))
        except BlockError:
            return  # The problems of its ops are noted.
        except Obstacle as error:
            text, where = f"{describe(op)}: {error.message}", op.location
            self.problems.append(Problem(text, SourceLocation.of(where), error.hint))
            return
        self.values.update(zip(op.results, values))

    def scope(self, op: Operation) -> AbstractContextManager[Any]:
        """The scope of coremltools in which the pymil ops of `op` are built."""
        return scope_of(op)

    def converted(self, op: mil.MilOp | ConstantOp) -> Sequence[Any]:
        """The pymil variables of the op's results."""
        if isinstance(op, mil.BlockOp):
            return self.convert_blocks(op)
        if isinstance(op, mil.MilOp):
            return self.convert_mil(op)
        return [self.convert_constant(op.value, self.name_of(op))]

    def name_of(self, op: Operation) -> str:
        """A name for the pymil ops of `op`."""
        if isinstance(op, ConstantOp) and isinstance(op.value, DenseResourceAttr):
            return self.unique(op.value.resource_handle.data)
        hint = op.results[0].name_hint
        return self.unique(hint or op.name.rpartition(".")[2])

    def convert_constant(self, attribute: Attribute, name: str) -> Any:
        """A `const` op that shares the array of the weights."""
        pymil_dtype(attribute.type)
        value = int32_of(np.asarray(self.constant_value(attribute)))[()]
        return mb.const(val=value, name=name)

    def constant_value(self, attribute: Attribute) -> Any:
        """The Python value of a constant; the array of a weight is read-only."""
        if not isinstance(attribute, DenseResourceAttr):
            return mil_types.constant_of(attribute)
        array = np.asarray(self.weights.array(attribute)).view()
        array.flags.writeable = False
        return array

    def convert_mil(self, op: mil.MilOp) -> Sequence[Any]:
        try:
            op.check(self.target)
        except VerifyException as error:
            raise Obstacle(str(error), hint="choose a newer target") from error
        form = op.form(self.target)
        assert form is not None
        inputs: dict[str, Any] = {}
        bound: dict[str | None, str] = {}
        """The element types of type variables."""
        for name, values in op.ssa_inputs().items():
            variables = [self.values[value] for value in values]
            input = form.inputs[name]
            inputs[name] = variables if input.variadic else variables[0]
            if not types.is_state(variables[0].sym_type):
                bound[input.variable] = types.builtin_to_string(variables[0].dtype)
        for name, attribute in op.constants.data.items():
            element = constant_type(attribute, form.inputs[name], bound)
            inputs[name] = constant(self.constant_value(attribute), element)
        builder = getattr(mb, op.name.removeprefix("mil."))
        try:
            outputs = builder(**inputs, name=self.name_of(op))
        except Exception as error:
            raise Obstacle(f"coremltools: {first_line(error)}") from error
        outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
        for output in outputs:
            mend_known(output)
        return outputs

    # --- ops with blocks --------------------------------------------------------------

    def convert_blocks(self, op: mil.BlockOp) -> Sequence[Any]:
        """The pymil variables of a `cond` or `while_loop`."""
        first, second = (partial(self.emit_block, each.block) for each in op.blocks)
        given = [self.values[operand] for operand in op.operands]
        name = self.name_of(op)
        try:
            if isinstance(op, mil.CondOp):
                outputs = mb.cond(
                    pred=given[0], _true_fn=first, _false_fn=second, name=name
                )
            else:
                carried = [self.without_value(var) for var in given]
                outputs = mb.while_loop(
                    _cond=first,
                    _body=lambda *vars: without_values(second(*vars)),
                    loop_vars=carried,
                    name=name,
                )
        except BlockError:
            raise
        except Exception as error:
            raise Obstacle(f"coremltools: {first_line(error)}") from error
        return outputs if isinstance(outputs, tuple | list) else [outputs]

    def emit_block(self, block: Block, *arguments: Any) -> list[Any]:
        """Emit a block of an op; returns the variables of its results."""
        self.values.update(zip(block.args, arguments, strict=True))
        results = self.emit_ops(block)
        if any(value not in self.values for value in results):
            raise BlockError
        inside = {value for op in block.ops for value in op.results}
        made: list[Any] = []
        for value in results:
            var = self.values[value]
            if value not in inside or var.op.op_type == "const" or var in made:
                var = mb.identity(x=var, name=self.unique("result"))
            made.append(var)
        return made

    def without_value(self, var: Any) -> Any:
        """
        A variable whose value pymil does not know.

        It would fold the first iteration's value into the body where it seems to stay.
        """
        if var.sym_val is None:
            return var
        hidden = mb.identity(x=var, name=self.unique("initial"))
        hidden._sym_val = None  # The property `sym_val` has no setter.
        return hidden


def without_values(outputs: list[Any]) -> list[Any]:
    """
    The results of a loop's body, of whose values pymil forgets what it knows.

    It compares that with what it knows of the loop's variables, which is nothing.
    """
    for var in outputs:
        var._sym_val = None
    return outputs


def mend_known(output: Any) -> None:
    """
    Mend what pymil knows about the elements of a float tensor.

    If it knows some of them only, it forgets them: they are kept for sizes, and a slice
    of known floats would become one of int32. A Python float, which it computes for a
    tensor of rank 0, gets the dtype of the tensor: a product takes no Python floats.
    """
    if output.dtype == types.int32 or output.sym_val is None:
        return
    if output.val is None:
        output._sym_val = None
    elif isinstance(output.val, float):
        output._sym_val.val = types.nptype_from_builtin(output.dtype)(output.val)


class BlockError(Exception):
    """An op in a block failed."""


KEPT = ReturnOp, mil.YieldOp, mil.OPS["coreml_update_state"]
"""Ops that are emitted even if they have no results that are used."""


def live_ops(block: Block) -> list[Operation]:
    """The ops that the block's results need, in order."""
    live: dict[Operation, None] = {}
    for op in reversed(block.ops):
        users = (use.operation for result in op.results for use in result.uses)
        is_kept = isinstance(op, KEPT)
        if is_kept or any(block.find_ancestor_op_in_block(u) in live for u in users):
            live[op] = None
    return [*reversed(live)]


def is_lowered(op: Operation) -> TypeGuard[mil.MilOp | ConstantOp]:
    return isinstance(op, mil.MilOp | ConstantOp)


def scope_of(op: Operation) -> AbstractContextManager[Any]:
    """A scope in which pymil ops record the line, op and module that they come from."""
    where = SourceLocation.of(op.location)
    line: Any = None if where is None else f"{where.file}:{where.line}"
    of_line: Any = ScopeSource.EXIR_STACK_TRACE
    of_op: Any = ScopeSource.TORCHSCRIPT_MODULE_TYPE
    scopes = [ScopeInfo(of_line, [line]), ScopeInfo(of_op, [origin(op)])]
    if path := module_path(op):
        of_module: Any = ScopeSource.TORCHSCRIPT_MODULE_NAME
        scopes.append(ScopeInfo(of_module, [path]))
    return mb.scope(*scopes)


def constant_type(
    attribute: Attribute, input: Input, bound: Mapping[str | None, str]
) -> str:
    """The element type of a constant, among those that its value and the op allow."""
    allowed = mil_types.constant_types(attribute) & input.domain
    if input.variable is not None:
        allowed &= {bound.setdefault(input.variable, preferred(allowed))}
    return preferred(allowed)


def preferred(element_types: Set[str]) -> str:
    return next(
        (t for t in ("int32", "fp32") if t in element_types), min(element_types)
    )


def constant(value: Any, element: str) -> Any:
    """A constant of the `mil` dialect as pymil takes it."""
    if element == "string":
        return value
    array = int32_of(np.asarray(value))
    if element == "bool" and not array.ndim:
        # numpy, by which coremltools folds reductions, takes no numpy.bool as keepdims.
        return bool(array)
    dtype = types.nptype_from_builtin(types.string_to_builtin(element))
    return array.astype(dtype, copy=False)[()]


def int32_of(array: np.ndarray) -> np.ndarray:
    """An int64 array as int32, whose range it must not exceed; others unchanged."""
    if array.dtype != np.int64:
        return array
    if array.size and not INT32.min <= array.min() <= array.max() <= INT32.max:
        raise Obstacle(
            f"an int64 constant has values from {array.min()} to {array.max()}, "
            "Core ML has int32"
        )
    return array.astype(np.int32)


def check_result(type_: Attribute, value: Any) -> None:
    """Compare the type that the IR declares with the one that pymil infers."""
    if not isinstance(type_, TensorType):
        raise Obstacle(f"its result is {type_}, and Core ML's values are tensors")
    dtype = pymil_dtype(type_)
    inferred = types.builtin_to_string(value.dtype)
    sizes = tuple(type_.get_shape())
    sizes_agree = len(sizes) == len(value.shape) and all(
        is_symbolic(size) or size == declared
        for declared, size in zip(sizes, value.shape)
    )
    if dtype != inferred or not sizes_agree:
        shape = ",".join("?" if is_symbolic(s) else str(s) for s in value.shape)
        raise Obstacle(f"coremltools makes {inferred}[{shape}] of it")


def describe(op: Operation) -> str:
    """`mil.add(x: float32[2], y: float32[2]) -> float32[2]`."""
    if isinstance(op, mil.MilOp):
        arguments = [
            f"{key}: {', '.join(describe_type(value.type) for value in values)}"
            for key, values in op.ssa_inputs().items()
        ]
    else:
        arguments = [describe_type(operand.type) for operand in op.operands]
    results = ", ".join(describe_type(result.type) for result in op.results)
    return f"{op.name}({', '.join(arguments)}) -> {results}"
