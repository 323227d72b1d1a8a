# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportPrivateUsage=false
"""
One node of coremltools' graph, lowered as padc lowers it in a program of its own.

The node becomes a program that calls one op, of inputs with the types of the node's
variables. That goes through the pipeline to Core ML, and its ops are emitted into the
function that coremltools is building, with the variables for the inputs.
"""

import contextlib
import functools
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from padc.backends.coreml import quiet
from padc.backends.coreml.body_emitter import BodyEmitter
from padc.backends.coreml.torch_ops.arguments import arguments_of
from padc.backends.coreml.torch_ops.overloads import Call, RuntimeInteger, call_of
from padc.backends.coreml.torch_ops.sizes import Sizes
from padc.common.garbage_collection import without_collection
from padc.errors import Obstacle, Problem, UnsupportedError
from padc.frontends.torch_export.single_call import (
    CallProgram,
    ComplexOperand,
    ComplexShape,
    Number,
    Operand,
    Size,
    call_program,
)
from padc.ir.main_function import main
from padc.ir.names import identifier, unique_name
from padc.ir.torch import is_any_tensor
from padc.ir.torch.tensors import torch_dtype
from padc.ir.weights import Weights, weights_of
from padc.passes import pipelines
from padc.passes.tcp_to_mil.policies import (
    DEFAULT_GRID_SAMPLE_POLICY,
    DEFAULT_PAD_POLICY,
)

with quiet():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.frontend.torch.utils import TorchFrontend
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic
    from coremltools.converters.mil.mil.var import Var

mb: Any = Builder

DTYPES = {
    types.bool: torch.bool,
    types.fp16: torch.float16,
    types.fp32: torch.float32,
    types.int8: torch.int8,
    types.uint8: torch.uint8,
    types.int16: torch.int16,
    # Most integers of PyTorch are int64, and indices have to be.
    types.int32: torch.int64,
}
WITH_INDICES: Mapping[Any, Any] = {
    torch.ops.aten.max_pool1d.default: torch.ops.aten.max_pool1d_with_indices.default
}
"""Ops whose sizes PyTorch fixes, and those that have the same first result."""

SMALL_INTEGERS = torch.uint8, torch.int8, torch.int16
MAY_BE_NUMBERS = "it may be on Python's numbers"
OF_TENSORS = frozenset("condition dim dim0 dims start_dim steps".split())
"""Arguments of ops that Python's numbers do not have."""
ON_NUMBERS = frozenset(("aten::squeeze", "aten::unsqueeze", "aten::stack", "aten::cat"))
"""Ops on sizes nevertheless, which coremltools has as numbers."""

legal = functools.cache(pipelines.legal_for_mil)


def lower_node(
    context: Any, node: Any, function: Any, target: str, numbers_too: bool
) -> Any:
    """
    Emit the ops of a node into the current block; returns the variables of its results.

    Raises UnsupportedError if padc cannot lower the node, or if all of its tensors have
    rank 0, unless `numbers_too`.
    """
    try:
        with without_collection():
            lowering = NodeLowering(context, node, Sizes.of(context, function))
            if not (numbers_too or lowering.is_on_tensors()):
                raise Obstacle(MAY_BE_NUMBERS)
            return lowering.run(target)
    except Obstacle as error:
        problem = Problem(f"{node.kind}: {error.message}", None, error.hint)
        raise UnsupportedError([problem]) from error


class NodeLowering:
    """The lowering of one node."""

    def __init__(self, context: Any, node: Any, sizes: Sizes):
        self.node = node
        self.is_scripted = context.frontend == TorchFrontend.TORCHSCRIPT
        self.sizes = sizes
        call = call_of(node.kind, *arguments_of(context, node))
        target = WITH_INDICES.get(call.target, call.target)
        self.call = Call(target, call.args, call.kwargs)
        self.is_first = self.first_only = target != call.target
        """Whether the node's result is the first of the call's."""
        self.operands: dict[Any, Operand] = {}
        self.complex_operands: dict[Any, ComplexOperand] = {}
        self.variables: dict[Operand, Any] = {}
        self.dtypes = DTYPES

    def run(self, target: str) -> Any:
        """The variables of the results, nested as the op returns them."""
        attempts = [self.program, self.program_of_first_result]
        if self.has_dynamic_sizes():
            attempts.insert(1, self.program_of_same_examples)
        attempts.append(self.program_of_int32)
        problems: list[Obstacle | UnsupportedError] = []
        for attempt in attempts:
            try:
                if (program := attempt()) is not None:
                    made = self.emitted(program, target)
                    return made[0] if self.is_first else made
            except (Obstacle, UnsupportedError) as error:
                problems.append(error)
        raise problems[0]

    def is_on_tensors(self) -> bool:
        """Whether the call is on tensors; in exported graphs all calls of ATen are."""
        return not self.is_scripted or is_on_tensors(self.call)

    def has_dynamic_sizes(self) -> bool:
        leaves = pytree.tree_leaves((self.call.args, self.call.kwargs))
        variables = [leaf for leaf in leaves if isinstance(leaf, Var)]
        return any(is_symbolic(size) for var in variables for size in var.shape)

    # --- the program ------------------------------------------------------------------

    def program(self) -> CallProgram:
        """The program of the call."""

        def described(value: Any) -> Any:
            if isinstance(value, RuntimeInteger):
                return self.number(value)
            if not isinstance(value, Var):
                return value
            is_complex = types.is_complex(value.dtype)
            return self.complex_operand(value) if is_complex else self.operand(value)

        args, kwargs = pytree.tree_map(
            described, (list(self.call.args), dict(self.call.kwargs))
        )
        return call_program(
            self.call.target,
            args,
            kwargs,
            first_only=self.first_only,
            stack_trace=(self.node.meta or {}).get("stack_trace"),
        )

    def program_of_same_examples(self) -> CallProgram:
        """
        The program of the call, where all sizes have the same example.

        Sizes that are equal may have different symbols in pymil, and examples that
        contradict each other.
        """
        self.sizes = self.sizes.with_same_examples()
        return self.program_again()

    def program_of_int32(self) -> CallProgram | None:
        """The program of the call on int32, which a few ops want for int64."""
        if not any(each.dtype == torch.int64 for each in self.operands.values()):
            return None
        self.dtypes = {**DTYPES, types.int32: torch.int32}
        return self.program_again()

    def program_again(self) -> CallProgram:
        """The program of the call, of new operands."""
        self.operands, self.complex_operands, self.variables = {}, {}, {}
        return self.program()

    def program_of_first_result(self) -> CallProgram | None:
        """The program of the first result, if there are others: none may use them."""
        if len(self.call.target._schema.returns) == 1:
            return None
        self.first_only = True
        return self.program()

    def operand(self, var: Any) -> Operand:
        """The operand for a variable: a constant if its elements are known."""
        if var not in self.operands:
            dtype = self.sizes.dtypes.get(var, self.dtypes.get(var.dtype))
            if dtype is None:
                dtype_name = types.builtin_to_string(var.dtype)
                raise Obstacle(f"a tensor of {dtype_name}")
            array = known_elements(var)
            data = None if array is None else as_tensor(array, dtype)
            shape = [self.sizes.find(size) for size in var.shape]
            self.operands[var] = operand = Operand(dtype, shape, data)
            self.variables[operand] = var
        return self.operands[var]

    def complex_operand(self, var: Any) -> ComplexOperand:
        """The operands for the parts of a variable of coremltools' complex dialect."""
        if var not in self.complex_operands:
            real, imaginary = mb.complex_real(data=var), mb.complex_imag(data=var)
            self.complex_operands[var] = ComplexOperand(
                self.operand(real), self.operand(imaginary)
            )
        return self.complex_operands[var]

    def number(self, value: RuntimeInteger) -> Number | int:
        """The operand for an integer, unless bounds tell its value."""
        symbol = symbol_of(value)
        sizes = self.sizes
        size = sizes.any_integer(value) if symbol is None else sizes.integer(symbol)
        if isinstance(size, int):
            return size
        if value not in self.operands:
            var = value.var
            if value.index is not None:
                name = f"{self.node.name}_size_{len(self.operands)}"
                var = mb.gather(x=var, indices=value.index, axis=0, name=name)
            self.operands[value] = operand = Operand(torch.int64, ())
            self.variables[operand] = var
        return Number(self.operands[value], size)

    # --- the ops ----------------------------------------------------------------------

    def emitted(self, call: CallProgram, target: str) -> Any:
        """The variables of the results."""
        ctx, module = pipelines.import_program(call.program, legal=legal())
        passes = pipelines.to_mil(
            target, DEFAULT_PAD_POLICY, DEFAULT_GRID_SAMPLE_POLICY
        )
        dtypes = result_dtypes(module)
        pipelines.run_passes(ctx, module, passes)
        emitter = NodeEmitter(weights_of(ctx), target, self.node, self.is_scripted)
        made = emitter.emit(
            module,
            [self.variables[operand] for operand in call.inputs],
            {name: self.variables[each] for name, each in call.constants.items()},
        )
        given, rest = set(self.variables.values()), zip(made, dtypes, strict=True)
        leaves = pytree.tree_leaves(call.results, is_shape)
        shapes = [leaf for leaf in leaves if leaf is not None]
        variables: list[Any] = []
        for shape, name in zip(shapes, self.names(len(shapes)), strict=True):
            var, dtype = next(rest)
            if isinstance(shape, ComplexShape):
                imaginary = in_shape_of(var, next(rest)[0], f"{name}_imaginary")
                made = mb.complex(real_data=var, imag_data=imaginary, name=name)
                variables.append(made)
                continue
            variables.append(var := named(var, name, given))
            # Targets before iOS17 have int32 for small integers, which wrap around.
            if dtype in SMALL_INTEGERS and DTYPES.get(var.dtype) != dtype:
                self.sizes.dtypes[var] = dtype
        return self.nested(call.results, iter(variables))

    def names(self, count: int) -> Sequence[str]:
        """The names of the results in the program."""
        outputs = self.node.outputs
        if count <= len(outputs):
            return outputs[:count]
        return [f"{self.node.name}_{index}" for index in range(count)]

    def nested(self, shapes: Any, variables: Any) -> Any:
        """The variables, nested as `shapes`; notes what is known of their sizes."""
        if shapes is None:
            return None
        if isinstance(shapes, list):
            return tuple(self.nested(part, variables) for part in shapes)
        shape = shapes.shape if isinstance(shapes, ComplexShape) else shapes
        return self.noted(next(variables), shape)

    def noted(self, var: Any, shape: Sequence[int | Size]) -> Any:
        for expression, size in zip(var.shape, shape, strict=True):
            self.sizes.note(expression, size)
        return var


def result_dtypes(module: ModuleOp) -> list[torch.dtype]:
    """The dtypes of a program's results, before it is lowered."""
    types = main(module).function_type.outputs
    return [torch_dtype(type.element_type) for type in types if is_any_tensor(type)]


def is_shape(value: Any) -> bool:
    """Whether this is the shape of one result, and no list of them."""
    return isinstance(value, tuple | ComplexShape)


class NodeEmitter(BodyEmitter):
    """Emits the ops of a node, in the scope that coremltools opened for it."""

    def __init__(self, weights: Weights, target: str, node: Any, is_scripted: bool):
        self.node = node
        self.is_scripted = is_scripted
        self.used: set[str] = set()
        super().__init__(weights, target, self.unique_name)
        self.constants: Mapping[str, Any] = {}

    def unique_name(self, proposed: str) -> str:
        name = unique_name(identifier(f"{self.node.name}_{proposed}"), self.used)
        self.used.add(name)
        return name

    def emit(
        self,
        module: ModuleOp,
        given: Sequence[Any],
        constants: Mapping[str, Any],
    ) -> Sequence[Any]:
        """
        The variables of the results of `@main` for the arguments `given`.

        `constants` are the variables that hold weights, by the weights' names.
        """
        function = main(module)
        self.constants = constants
        self.values.update(zip(function.args, given, strict=True))
        results = self.emit_ops(function.body.block)
        if self.problems:
            raise UnsupportedError(self.problems)
        return [self.values[result] for result in results]

    def scope(self, op: Operation) -> AbstractContextManager[Any]:
        if self.is_scripted:
            return contextlib.nullcontext()
        # Exported graphs have no scope that tells the kind, which float16 asks for.
        of_kind: Any = ScopeSource.TORCHSCRIPT_MODULE_TYPE
        return mb.scope(ScopeInfo(of_kind, [self.node.kind]))

    def convert_constant(self, attribute: Attribute, name: str) -> Any:
        """The variable that holds the constant already, or a new one."""
        if isinstance(attribute, DenseResourceAttr):
            var = self.constants.get(attribute.resource_handle.data)
            if var is not None and holds(var, self.weights.array(attribute)):
                return var
        return super().convert_constant(attribute, name)


def is_on_tensors(call: Call) -> bool:
    """
    Whether a call in a TorchScript graph is on tensors, not on Python's numbers.

    coremltools has variables of rank 0 for both, and converters that take both. Numbers
    are what it knows, as an integer or as an expression in sizes.
    """
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    arguments = call.target._schema.arguments
    if call.target._schema.name not in ON_NUMBERS and any(
        argument.name in OF_TENSORS for argument in arguments
    ):
        return True
    if not any(str(a.type) == "Tensor" for a in arguments):
        return True
    variables = [leaf for leaf in leaves if isinstance(leaf, Var)]
    if any(var.rank > 0 for var in variables):
        return True
    in_sizes = any(var.val is None and var.sym_val is not None for var in variables)
    return not in_sizes and any(
        var.val is None or types.is_float(var.dtype) for var in variables
    )


def in_shape_of(x: Any, y: Any, name: str) -> Any:
    """`y`, whose sizes are those of `x`, with the symbols that pymil has for these."""
    if x.shape == y.shape:
        return y
    made = mb.identity(x=y, name=name)
    made._sym_type = types.tensor(y.dtype, x.shape)  # There is no setter.
    return made


def symbol_of(value: RuntimeInteger) -> Any:
    """The expression of an integer in pymil; None if pymil does not know it."""
    var = value.var
    while var.sym_val is None and var.op is not None and var.op.op_type == "cast":
        var = var.op.x
    if var.sym_val is None:
        return None
    known = np.asarray(var.sym_val).reshape(-1)
    return known[value.index or 0]


def known_elements(var: Any) -> np.ndarray | None:
    """The elements of a constant, compressed ones included."""
    if var.val is not None:
        return np.asarray(var.val)
    if var.op is not None and var.op.op_type.startswith("constexpr_"):
        return np.asarray(var.op.materialized_val_inference())
    return None


def as_tensor(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A constant as PyTorch has it; shares the memory if the dtype is the same."""
    with warnings.catch_warnings():
        # The array may be read-only, and nothing writes to it.
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(np.asarray(array))
    return tensor if array.ndim == 0 and tensor.dtype == dtype else tensor.to(dtype)


def holds(var: Any, array: np.ndarray) -> bool:
    """Whether a constant has the elements of `array`."""
    elements = known_elements(var)
    if elements is None or elements.shape != array.shape:
        return False
    if types.nptype_from_builtin(var.dtype) != array.dtype:
        return False
    same_memory = elements.ctypes.data == array.ctypes.data
    return same_memory or np.array_equal(elements, array)


def named(var: Any, name: str, given: set[Any]) -> Any:
    """A result under its name in coremltools' graph."""
    is_new = var not in given and var.op is not None and not var.op.op_type == "const"
    if not is_new:
        return mb.identity(x=var, name=name)
    given.add(var)
    var.name = name
    return var
