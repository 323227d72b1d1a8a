# pyright: basic, reportPrivateUsage=false
"""
`torch.export` programs to the `torch` dialect.

One pass over the graph: each node becomes one op whose operands are all written out,
in the order of the ATen schema. Only nodes that the outputs need are imported, which
leaves out the assertions that torch.export adds; what they assert about sizes is in
the bounds of the symbolic sizes. Whatever cannot be imported is gathered, and raised
as one `UnsupportedError` at the end.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import operator
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import sympy
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    TensorArgument,
)
from torch.fx import Node
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    BFloat16Type,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    UnknownLoc,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from padc.errors import (
    InvalidProgramError,
    Obstacle,
    Problem,
    SourceLocation,
    UnsupportedError,
    UsageError,
)
from padc.frontends.dropouts import DROPOUTS, without_idle_dropouts
from padc.frontends.functional import as_functional, changes
from padc.frontends.nodes import live_nodes, schema_name
from padc.ir import torch as torch_d
from padc.ir.names import unique_name
from padc.ir.weights import Weights

Imported: TypeAlias = Any
"""What a node becomes: an SSAValue, or a sequence of them where it gives several."""

INT64_MAX = 2**63 - 1

ELEMENT_TYPES: Mapping[torch.dtype, Attribute] = {
    torch.bool: i1,
    **{
        dtype: IntegerType(dtype.itemsize * 8, Signedness.UNSIGNED)
        for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
    },
    **{
        dtype: IntegerType(dtype.itemsize * 8, Signedness.SIGNED)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
    },
    torch.float16: f16,
    torch.bfloat16: BFloat16Type(),
    torch.float32: f32,
    torch.float64: f64,
    torch.complex64: ComplexType(f32),
    torch.complex128: ComplexType(f64),
}

# c10/core/ScalarType.h, c10/core/MemoryFormat.h and c10/core/Layout.h.
ENUM_CODES: Mapping[Any, int] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
    torch.strided: 0,
}

TRACING = threading.RLock()
"""PyTorch traces one program at a time: its modes are no thread's own."""

# Arithmetic on sizes: the schema is the overload that takes the operands' types.
SCALAR_OPS: Mapping[Any, str] = {
    operator.add: "aten.add",
    operator.sub: "aten.sub",
    operator.mul: "aten.mul",
    operator.floordiv: "aten.floordiv",
    operator.truediv: "aten.div",
    operator.mod: "aten.remainder",
    operator.pow: "aten.pow",
    operator.neg: "aten.neg",
    operator.eq: "aten.eq",
    operator.ne: "aten.ne",
    operator.lt: "aten.lt",
    operator.le: "aten.le",
    operator.gt: "aten.gt",
    operator.ge: "aten.ge",
    operator.and_: "aten.__and__",
    operator.or_: "aten.__or__",
    math.ceil: "aten.ceil",
    math.floor: "aten.floor",
    math.trunc: "aten.Int",
    torch.sym_float: "aten.Float.Scalar",
    torch.sym_int: "aten.Int.Scalar",
    torch.sym_max: "prim.max",
    torch.sym_min: "prim.min",
    torch.sym_not: "aten.__not__",
    torch.ops.aten.sym_size.int: "aten.size",
    torch.ops.aten.sym_numel.default: "aten.numel",
}
SCALAR_OVERLOADS = (
    ".int_to_int",
    ".int",
    ".float",
    ".float_int",
    ".int_float",
    ".bool",
    ".Scalar",
    "",
)

# With a number for the first operand: the same with the number for the second.
SWAPPED: Mapping[str, str] = {
    "aten.sub.Tensor": "aten.rsub.Tensor",
    "aten.mul.Tensor": "aten.mul.Tensor",
}


def import_exported_program(
    ep: ExportedProgram, weights: Weights, *, leave_out_constants: bool = False
) -> ModuleOp:
    """
    A module whose `func.func @main` computes what `ep` computes.

    Arguments are the model's tensor inputs and results its tensor outputs, each with
    its name in `padc.name`; tensors that the model holds go to `weights` (without a
    copy where they are contiguous) under their qualified names. An output is named
    by the keys and fields that lead to it, or else after the node that computes it.
    None is left out, and constants are if `leave_out_constants`.

    Raises UnsupportedError that lists all parts of the program that padc cannot
    express.
    """
    names = output_names(ep)
    changed = None if ep.dialect == "ATEN" else changes(ep.graph)
    if ep.dialect == "ATEN" or changed is not None:
        return _Importer(ep, weights, changed, leave_out_constants).run(names)
    try:
        with TRACING, _quiet():
            functional = without_idle_dropouts(ep).run_decompositions({})
    except Exception as error:
        importer = _Importer(ep, weights, None, leave_out_constants)
        importer.import_placeholders(list(ep.graph.nodes))
        location = SourceLocation.of(_stack_location(str(error)))
        message = f"PyTorch cannot make the program functional: {error}"
        problem = Problem(message.partition("\n")[0], location)
        raise UnsupportedError([*importer.problems, problem]) from error
    return _Importer(functional, weights, None, leave_out_constants).run(names)


def held_tensors(ep: ExportedProgram) -> Mapping[str, torch.Tensor]:
    """The tensors that the model holds, by their qualified names."""
    held = {**ep.constants, **ep.state_dict}
    return {k: v for k, v in held.items() if isinstance(v, torch.Tensor)}


class _Importer:
    """The state of one import: the function so far, and what stands in its way."""

    def __init__(
        self,
        ep: ExportedProgram,
        weights: Weights,
        changed: Mapping[Node, Sequence[Node]] | None,
        leave_out_constants: bool,
    ):
        self.leave_out_constants = leave_out_constants
        self.ep = ep
        self.weights = weights
        self.changed = changed
        """The ops in place, each with what it changes; None of a functional graph."""
        self.tensors = held_tensors(ep)
        self.block = Block()
        self.builder = Builder(InsertPoint.at_end(self.block))
        self.values: dict[Node, Imported] = {}
        self.constants: dict[tuple[Any, ...], SSAValue] = {}
        self.symbols: dict[sympy.Symbol, SSAValue] = {}
        self.problems: list[Problem] = []

    def run(self, names: Sequence[str]) -> ModuleOp:
        """The module; `names` are for the outputs, where they are not taken."""
        nodes = list(self.ep.graph.nodes)
        self.check_signature()
        input_names = self.import_placeholders(nodes)
        live = live_nodes(nodes)
        for node in nodes:
            if node.op == "call_function" and node in live:
                self.attempt(node, self.import_call)
                if self.changed and node in self.values:
                    for each in self.changed.get(node, ()):
                        self.values[each] = self.values[node]
        outputs, output_names = self.import_outputs(nodes[-1], names, set(input_names))
        if self.problems:
            raise UnsupportedError(self.problems)
        self.add(ReturnOp(*outputs))
        function = FuncOp(
            "main",
            (self.block.arg_types, [output.type for output in outputs]),
            Region(self.block),
            arg_attrs=_names(input_names),
            res_attrs=_names(output_names),
        )
        return ModuleOp([function])

    def add(self, op: Operation, node: Node | None = None) -> Operation:
        """Append an op, at the user's line for `node`."""
        if node is not None:
            op.location = _location(node)
        return self.builder.insert(op)

    def report(self, node: Node | None, error: Obstacle) -> None:
        """Keep a problem for the end."""
        location = None if node is None else SourceLocation.of(_location(node))
        self.problems.append(Problem(error.message, location, error.hint))

    def attempt(self, node: Node, importer: Callable[[Node], Imported]) -> None:
        """Import a node; one that uses a failed one fails silently."""
        if any(
            input not in self.values and input.op != "get_attr"
            for input in node.all_input_nodes
        ):
            return
        try:
            self.values[node] = importer(node)
        except Obstacle as error:
            self.report(node, error)

    # --- the signature -----------------------------------------------------------

    def check_signature(self) -> None:
        """Refuse programs that change their buffers or inputs."""
        for spec in self.ep.graph_signature.output_specs:
            node = next(
                (n for n in self.ep.graph.nodes if n.name == spec.arg.name), None
            )
            match spec.kind:
                case OutputKind.BUFFER_MUTATION:
                    message = f"the model changes its buffer '{spec.target}'"
                    hint = (
                        "call model.eval() before exporting, or return the new value "
                        "as an output"
                    )
                case OutputKind.USER_INPUT_MUTATION:
                    message = f"the model changes its input '{spec.target}' in place"
                    hint = "work on a clone and return it as an output"
                case OutputKind.USER_OUTPUT:
                    continue
                case _:
                    message, hint = f"an output of kind {spec.kind.name}", None
            self.report(node, Obstacle(message, hint))

    def import_placeholders(self, nodes: Sequence[Node]) -> list[str]:
        """Make arguments and weights; returns the names of the arguments."""
        names: list[str] = []
        placeholders = [node for node in nodes if node.op == "placeholder"]
        specs = self.ep.graph_signature.input_specs
        literals: list[tuple[Node, str]] = []
        for node, spec in zip(placeholders, specs, strict=True):
            match spec.kind:
                case InputKind.USER_INPUT if isinstance(spec.arg, TensorArgument):
                    self.attempt(node, self.import_argument)
                    names.append(node.name)
                case InputKind.USER_INPUT if isinstance(spec.arg, ConstantArgument):
                    # Baked into the graph, which does not use the placeholder.
                    pass
                case InputKind.PARAMETER | InputKind.BUFFER | InputKind.CONSTANT_TENSOR:
                    assert spec.target is not None
                    if node.users:
                        literals.append((node, spec.target))
                case InputKind.USER_INPUT:
                    message = f"the input '{node.name}' is a number, not a tensor"
                    hint = "pass it as a tensor, or as a constant"
                    self.report(node, Obstacle(message, hint))
                case _:
                    message = f"the input '{node.name}' of kind {spec.kind.name}"
                    self.report(node, Obstacle(message))
        self.bind_symbols()
        for node, target in literals:
            self.attempt(node, lambda node: self.import_literal(node, target))
        return names

    def import_argument(self, node: Node) -> SSAValue:
        type = _vtensor_type(node.meta["val"])
        if isinstance(type.element_type, ComplexType):
            raise Obstacle(
                f"the input '{node.name}' of type {_describe(node.meta['val'])}",
                "pass torch.view_as_real(x), and call view_as_complex in the model",
            )
        argument = self.block.insert_arg(type, len(self.block.args))
        argument.name_hint = node.name
        return argument

    def bind_symbols(self) -> None:
        """Declare the symbolic sizes of the arguments, and what they measure."""
        shapes = {
            value: node.meta["val"].shape
            for node, value in self.values.items()
            if isinstance(value, SSAValue)
        }
        for shape in shapes.values():
            for size in shape:
                for symbol in sorted(_symbols(size), key=str):
                    self.declare_symbol(symbol)
        for value, shape in shapes.items():
            expressions = [_expression(size) for size in shape]
            used = [s for s in self.symbols if any(e.has(s) for e in expressions)]
            if not used:
                continue
            try:
                results = tuple(_affine(e, used) for e in expressions)
            except Obstacle as error:
                self.report(None, error)
                continue
            map = AffineMap(0, len(used), results)
            symbols = [self.symbols[symbol] for symbol in used]
            self.add(torch_d.BindSymbolicShapeOp(value, symbols, AffineMapAttr(map)))

    def declare_symbol(self, symbol: sympy.Symbol) -> None:
        if symbol in self.symbols:
            return
        low, high = 0, INT64_MAX
        if (bounds := self.ep.range_constraints.get(symbol)) is not None:
            # Where there is no bound, these are PyTorch's infinities of integers.
            low, high = int(max(bounds.lower, low)), int(min(bounds.upper, high))
        op = self.add(torch_d.SymbolicIntOp(str(symbol), low, high))
        self.symbols[symbol] = _named(op.results[0], str(symbol))

    def import_literal(self, node: Node, name: str) -> SSAValue:
        """A tensor that the model holds, by name; an integer of rank 0 in line."""
        tensor = self.tensors[name]
        if tensor.is_meta:
            raise Obstacle(f"'{name}' is on the meta device, without data", "load it")
        type = _vtensor_type(tensor)
        tensor_type = TensorType(type.element_type, tensor.shape)
        array = weight_array(tensor)
        if tensor.dim() == 0 and isinstance(type.element_type, IntegerType):
            data = BytesAttr(array.tobytes())
            value = DenseIntOrFPElementsAttr(cast(Any, tensor_type), data)
        else:
            unique = self.weights.add(name, array)
            self.weights.sources[unique] = name
            value = DenseResourceAttr.from_params(unique, tensor_type)
        return _named(self.add(torch_d.LiteralOp(value)).results[0], node.name)

    def import_outputs(
        self, node: Node, proposed: Sequence[str], taken: set[str]
    ) -> tuple[list[SSAValue], list[str]]:
        """The tensors that the function returns, and their names."""
        specs = self.ep.graph_signature.output_specs
        first_user = sum(spec.kind != OutputKind.USER_OUTPUT for spec in specs)
        outputs: list[SSAValue] = []
        names: list[str] = []
        results = cast(Sequence[Any], node.args[0])
        for index, (spec, result) in enumerate(zip(specs, results, strict=True)):
            if spec.kind != OutputKind.USER_OUTPUT or result is None:
                continue
            name = proposed[index - first_user]
            if isinstance(spec.arg, TensorArgument):
                if result in self.values:
                    outputs.append(self.values[result])
                    names.append(unique_name(name, taken))
                    taken.add(names[-1])
            elif not isinstance(spec.arg, ConstantArgument) or (
                not self.leave_out_constants
            ):
                which = f"output '{name}'" if name else f"output {index - first_user}"
                message = f"{which} is not a tensor: {spec.arg}"
                hint = "return a tensor, or leave it out"
                self.report(None, Obstacle(message, hint))
        return outputs, names

    # --- calls -------------------------------------------------------------------

    def import_call(self, node: Node) -> Imported:
        target = node.target
        if target is operator.getitem:
            source, index = cast(tuple[Node, int], node.args)
            return self.values[source][index]
        if target in SCALAR_OPS:
            return self.import_scalar_op(node, SCALAR_OPS[target])
        value: Any = node.meta.get("val")
        if target == torch.ops.aten._native_batch_norm_legit_no_training.default and (
            all(user.args[1] == 0 for user in node.users)
        ):
            # Its other results are empty: this is batch_norm(training=False).
            *tensors, momentum, eps = node.args
            arguments = [*tensors, False, momentum, eps, False]
            schema = torch_d.schema_of("aten.batch_norm")
            assert schema is not None
            return [self.add_aten(node, schema, arguments, value[0])]
        if not isinstance(target, torch._ops.OpOverload):
            raise Obstacle(
                f"'{target}' on {_describe_operands(node)}",
                "padc imports graphs of ATen ops; write it with ordinary tensor ops",
            )
        name, args = schema_name(target), node.args
        if self.changed is not None:
            if name in DROPOUTS:
                return self.values[cast(Node, args[0])]
            name, args = as_functional(node)
        schema = torch_d.schema_of(name)
        if schema is None:
            raise Obstacle(
                f"'{name}' on {_describe_operands(node)}",
                "padc imports ATen ops that change nothing in place; write it with "
                "ordinary tensor ops",
            )
        arguments = [
            args[index]
            if index < len(args)
            else node.kwargs.get(argument.name, argument.default)
            for index, argument in enumerate(schema.arguments)
        ]
        numbers = tuple(
            index
            for index, (argument, value_) in enumerate(zip(schema.arguments, arguments))
            if argument.type == "Tensor" and self.is_number(value_)
        )
        if numbers == (0,) and schema.name in SWAPPED:
            schema, numbers = torch_d.schema_of(SWAPPED[schema.name]), (1,)
            assert schema is not None
            arguments[:2] = arguments[1], arguments[0]
        if numbers:
            schema = _scalar_overload(schema, numbers)
        return self.add_aten(node, schema, arguments, value)

    def is_number(self, value: Any) -> bool:
        """Whether an argument is a number, now or when the program runs."""
        if isinstance(value, Node):
            value = value.meta.get("val")
        return isinstance(value, int | float | torch.SymInt | torch.SymFloat)

    def add_aten(
        self,
        node: Node,
        schema: torch_d.Schema,
        arguments: Sequence[Any],
        value: Any,
    ) -> Imported:
        """Add the op of `schema` that gives values like `value`."""
        operands = [
            self.operand(argument.type, given)
            for argument, given in zip(schema.arguments, arguments, strict=True)
        ]
        if len(schema.returns) == 1:
            value = [value]
        types = [_type_of(part) for part in value]
        op = self.add(torch_d.aten_op(schema.name, operands, types), node)
        results = [
            self.unpacked(node, _named(result, node.name), part)
            for result, part in zip(op.results, value, strict=True)
        ]
        return results if len(results) > 1 else results[0]

    def unpacked(self, node: Node, result: SSAValue, value: Any) -> Imported:
        """The elements of a result that is a list, as `value` is."""
        if not isinstance(value, list | tuple):
            return result
        types = [_type_of(part) for part in value]
        unpack = self.add(torch_d.ListUnpackOp(result, types), node)
        return [_named(part, node.name) for part in unpack.results]

    def import_scalar_op(self, node: Node, packet: str) -> SSAValue:
        """Arithmetic on sizes, by the overload that takes such operands."""
        values = [
            self.values[arg] if isinstance(arg, Node) else self.constant("Scalar", arg)
            for arg in node.args
        ]
        power = node.args[-1]
        if packet == "aten.pow" and isinstance(power, int) and power > 1:
            if values[0].type == torch_d.IntType():
                # PyTorch's own op gives a float, and no backend has it.
                packet, factor = "aten.mul", values[0]
                for _ in range(power - 2):
                    values[0] = self.add_scalar_op(packet, [values[0], factor], node)
                values[1] = factor
        return _named(self.add_scalar_op(packet, values, node), node.name)

    def add_scalar_op(
        self, packet: str, values: Sequence[SSAValue], node: Node
    ) -> SSAValue:
        """The op that `node` stands for, or one on the way to it, of its type."""
        types = [_type_of(node.meta["val"])]
        for overload in SCALAR_OVERLOADS:
            schema = torch_d.schema_of(packet + overload)
            if (
                schema is not None
                and len(schema.arguments) == len(values)
                and all(
                    torch_d.fits(value.type, argument.type)
                    for value, argument in zip(values, schema.arguments)
                )
            ):
                op = self.add(torch_d.aten_op(schema.name, values, types), node)
                return op.results[0]
        given = ", ".join(str(value.type) for value in values)
        raise Obstacle(f"'{packet}' on ({given})")

    # --- operands ----------------------------------------------------------------

    def operand(self, type: str, given: Any) -> SSAValue:
        """The value `given` for an argument of ATen's type `type`."""
        if isinstance(given, Node):
            value = self.values[given]
            if not isinstance(value, SSAValue):
                return self.add_list(type, list(value))
            if type.rstrip("?") == "float" and value.type == torch_d.IntType():
                types = [torch_d.FloatType()]
                value = self.add(torch_d.aten_op("aten.Float.Scalar", [value], types))
                return value.results[0]
            return value
        if given is None or not type.rstrip("?").endswith("]"):
            return self.constant(type, given)
        list_type = type.rstrip("?")
        element, _, size = list_type[:-1].rpartition("[")
        if not isinstance(given, list | tuple):
            given = [given] * int(size)
        return self.add_list(list_type, [self.operand(element, part) for part in given])

    def add_list(self, type: str, elements: Sequence[SSAValue]) -> SSAValue:
        """A list for ATen's type `type`; one made before where it is the same."""
        element_type = torch_d.LIST_ELEMENTS[type[: type.rindex("[")]]
        key = (element_type, *elements)
        if key not in self.constants:
            op = self.add(torch_d.ListConstructOp(elements, element_type))
            self.constants[key] = op.results[0]
        return self.constants[key]

    def constant(self, type: str, value: Any) -> SSAValue:
        """A Python value; the function has each one once."""
        if type.rstrip("?") == "float" and isinstance(value, int):
            value = float(value)
        key = (value.__class__, repr(value))
        if key not in self.constants:
            match value:
                case None:
                    op, hint = torch_d.ConstantNoneOp(), "none"
                case bool():
                    op, hint = torch_d.ConstantBoolOp(value), str(value).lower()
                case int():
                    op, hint = torch_d.ConstantIntOp(value), f"int{value}"
                case float():
                    op, hint = torch_d.ConstantFloatOp(value), "float"
                case str():
                    op, hint = torch_d.ConstantStrOp(value), "str"
                case torch.device():
                    op, hint = torch_d.ConstantDeviceOp(str(value)), "device"
                case _ if value in ENUM_CODES:
                    return self.constant("int", ENUM_CODES[value])
                case _:
                    raise Obstacle(f"the constant {value!r}")
            self.constants[key] = _named(self.add(op).results[0], hint)
        return self.constants[key]


@functools.cache
def _scalar_overload(
    schema: torch_d.Schema, numbers: tuple[int, ...]
) -> torch_d.Schema:
    """
    The overload of the same op that takes numbers where `schema` takes tensors.

    In an exported graph a Python number may stand for a tensor. It is not the same
    as a tensor of rank 0, which promotes dtypes in another way.
    """
    wanted = [
        "Scalar" if index in numbers else argument.type
        for index, argument in enumerate(schema.arguments)
    ]
    for other in torch_d.overloads_of(schema):
        if [argument.type for argument in other.arguments] == wanted:
            return other
    names = ", ".join(schema.arguments[index].name for index in numbers)
    raise Obstacle(
        f"'{schema.name}' with a number for {names}", "pass a tensor of rank 0"
    )


def _vtensor_type(tensor: torch.Tensor) -> torch_d.VTensorType:
    if tensor.layout != torch.strided or tensor.dtype not in ELEMENT_TYPES:
        raise Obstacle(
            f"a tensor of type {_describe(tensor)}",
            "padc takes dense tensors of bool, integers, bfloat16, and float16 to "
            "float64",
        )
    # A symbol of which PyTorch found the value is still one.
    sizes = map(_expression, tensor.shape)
    shape = tuple(
        int(size) if isinstance(size, sympy.Integer) else DYNAMIC_INDEX
        for size in sizes
    )
    return torch_d.VTensorType.get(ELEMENT_TYPES[tensor.dtype], shape)


def _type_of(value: Any) -> Attribute:
    """The type of a value like `value`, which torch.export gives as an example."""
    match value:
        case torch.Tensor():
            return _vtensor_type(value)
        case list() | tuple():
            return torch_d.ListType(torch_d.LIST_ELEMENTS["Tensor"])
        case bool() | torch.SymBool():
            return torch_d.BoolType()
        case int() | torch.SymInt():
            return torch_d.IntType()
        case float() | torch.SymFloat():
            return torch_d.FloatType()
        case _:
            raise Obstacle(f"an op that gives {value!r}")


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(str, value.shape))
        layout = "" if value.layout == torch.strided else f"{value.layout}, "
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]" + (
            f" ({layout.rstrip(', ')})" if layout else ""
        )
    return str(value)


def _describe_operands(node: Node) -> str:
    """The types of a node's tensors, for a message."""
    operands = [_describe(input.meta.get("val")) for input in node.all_input_nodes]
    return f"({', '.join(operands)})"


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _symbols(size: int | torch.SymInt) -> set[sympy.Symbol]:
    return cast(set[sympy.Symbol], _expression(size).free_symbols)


def _affine(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> AffineExpr:
    """A size as an affine expression of symbols."""
    parts = [
        _affine(part, symbols)
        for part in expression.args
        if isinstance(part, sympy.Expr)
    ]
    match expression:
        case sympy.Integer():
            return AffineExpr.constant(int(expression))
        case sympy.Symbol():
            return AffineExpr.symbol(symbols.index(expression))
        case sympy.Add():
            return functools.reduce(operator.add, parts)
        case sympy.Mul():
            return functools.reduce(operator.mul, parts)
        case FloorDiv():
            return parts[0] // parts[1]
        case Mod() | PythonMod():
            return parts[0] % parts[1]
        case _:
            raise Obstacle(f"an input whose size is {expression}")


def weight_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The data of a tensor as a weight, shared where it is contiguous."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def _named(value: SSAValue, hint: str) -> SSAValue:
    if SSAValue.is_valid_name(hint):
        value.name_hint = hint
    return value


def _names(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr(DictionaryAttr({"padc.name": StringAttr(name)}) for name in names)


def output_names(ep: ExportedProgram) -> list[str]:
    """
    Names for what the model returns: the keys and fields that lead there, or else what
    torch.export calls it.
    """
    paths, specs = _output_paths(ep), ep.graph_signature.output_specs
    returned = [spec.arg for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    return [paths.get(i, arg.name) for i, arg in enumerate(returned)]


def _output_paths(ep: ExportedProgram) -> dict[int, str]:
    """The names of the outputs that keys or fields lead to, by position."""
    spec = ep.call_spec.out_spec
    if spec is None:
        return {}
    try:
        outputs = pytree.tree_unflatten(range(spec.num_leaves), spec)
        leaves, _ = pytree.tree_flatten_with_path(outputs)
    except ValueError:  # a container that was registered without names
        return {}
    paths: dict[int, str] = {}
    for path, index in leaves:
        keys = [
            str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", ""))))
            for part in path
        ]
        if any(not isinstance(part, pytree.SequenceKey) for part in path):
            paths[index] = "_".join(keys)
    return paths


# --- the user's lines -----------------------------------------------------------

_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)


def _location(node: Node) -> LocationAttr:
    return _stack_location(node.meta.get("stack_trace") or "")


@functools.lru_cache(maxsize=4096)
def _stack_location(stack_trace: str) -> LocationAttr:
    """The innermost line of a stack trace in a file that is not PyTorch's own."""
    for file, line in reversed(_FRAME.findall(stack_trace)):
        if not file.startswith((_TORCH_FOLDER, "<")):
            return FileLineColLoc(StringAttr(file), IntAttr(int(line)), IntAttr(0))
    return UnknownLoc()


# --- from models and files --------------------------------------------------------


def export_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """
    `torch.export.export`, where a failure is an error about the user's model.

    Inputs are distinct even where `args` and `kwargs` hold one tensor twice, which
    torch.export takes for one input that is the same at both places.

    Raises UsageError where the model itself fails on these inputs, or
    `dynamic_shapes` does not fit it, and UnsupportedError where it cannot be traced.
    """
    seen: set[int] = set()

    def distinct(value: Any) -> Any:
        if id(value) in seen and isinstance(value, torch.Tensor):
            return value.clone()
        seen.add(id(value))
        return value

    args, kwargs = pytree.tree_map(distinct, (args, dict(kwargs or {})))
    try:
        # PyTorch prints the graph where it cannot trace on.
        with (
            TRACING,
            _quiet(),
            contextlib.redirect_stderr(io.StringIO()) as printed,
        ):
            exported = torch.export.export(
                module, args, kwargs, dynamic_shapes=dynamic_shapes
            )
        print(printed.getvalue(), end="", file=sys.stderr)
        return exported
    except Exception as error:
        reason, location = _explain(error)
        _check_runs(module, args, kwargs or {})
        if "dynamic_shapes" in reason or "Constraints violated" in reason:
            raise UsageError(
                f"the dynamic shapes do not fit the model: {reason}",
                location=location,
                hint="change the bounds, or export the model with torch.export",
            ) from error
        problem = Problem(
            f"torch.export cannot trace the model: {reason}",
            location,
            "torch.export.draft_export shows all that stands in the way",
        )
        raise UnsupportedError([problem]) from error


def module_of(ep: ExportedProgram) -> torch.nn.Module:
    """
    `ep.module()`, with code that is right whatever the arguments are called.

    PyTorch's own code assigns `input_1 = input; input_2 = input_1` where arguments are
    called `input` and `input_1`, and computes with `input` twice.
    """
    module = cast(torch.fx.GraphModule, ep.module())
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        node.name = f"padc_argument_{number}"
    module.recompile()
    return module


def _check_runs(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise UsageError where the model fails without torch.export, too."""
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    except Exception as error:
        reason, location = _explain(error)
        raise UsageError(
            f"the model fails on the inputs it is given: {reason}",
            location=location,
            hint="give it inputs of the shapes and dtypes that it takes",
        ) from error


def _explain(error: Exception) -> tuple[str, SourceLocation | None]:
    """What an error of PyTorch says of the model, and the user's line."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    location = next(
        (
            SourceLocation(frame.filename, frame.lineno or 0)
            for frame in frames
            if not frame.filename.startswith((_TORCH_FOLDER, "<"))
            and frame.filename != __file__
        ),
        None,
    )
    text = str(error)
    for advice in ("For more information, run with", "The error above occurred when"):
        text = text.partition(advice)[0]
    return f"{type(error).__name__}: {text.strip()}", location


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Keep PyTorch from logging what becomes an error of ours."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            # Of how it pickles exported programs.
            warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")
            yield
    finally:
        logger.setLevel(level)


def load(path: str | Path) -> ExportedProgram:
    """
    The program in a `.pt2` file that torch.export.save wrote.

    Raises UsageError where there is no such file, and InvalidProgramError where it is
    not such a program.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with _quiet():
            return torch.export.load(path)
    except Exception as error:
        raise InvalidProgramError(
            f"{path} is not a program that torch.export.save wrote: {error}",
            hint="write it with torch.export.save and the same version of PyTorch",
        ) from error
