# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Emission of a module's `@main` as a program of coremltools' pymil.

One walk over the function, in order. An op of the `mil` dialect becomes the pymil op
of its name, a constant becomes pymil's; casts between torch's values and builtin ones
do nothing. The type that pymil infers for each
result is compared with the type that the IR declares.

An op that fails does not stop the walk. All problems of a program are raised
at once, except ops that only fail because an operand did.
"""

import re
import warnings
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseResourceAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from padc.backends.coreml import quiet
from padc.errors import (
    InvalidProgramError,
    Obstacle,
    Problem,
    SourceLocation,
    UnsupportedError,
    first_line,
    origin,
)
from padc.ir import mil
from padc.ir.names import unique_name
from padc.ir.targets import resolve_target
from padc.ir.torch import (
    AtenOp,
    BindSymbolicShapeOp,
    ConstantBoolOp,
    ConstantDeviceOp,
    ConstantFloatOp,
    ConstantIntOp,
    ConstantNoneOp,
    ConstantStrOp,
    FromBuiltinTensorOp,
    IntType,
    ListConstructOp,
    ListUnpackOp,
    LiteralOp,
    NotConstantError,
    SymbolicIntOp,
    ToBuiltinTensorOp,
    VTensorType,
    constant_value,
)
from padc.ir.weights import Weights

with quiet():
    import coremltools as ct
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.converter import _reset_conversion_state
    from coremltools.converters.mil.mil import Function, Program, Var, types
    from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic

# coremltools attaches the op builders at run time; a type checker does not see them.
mb: Any = Builder

INT32 = np.iinfo(np.int32)

PASSES = "convert-torch-to-tcp,convert-tcp-to-mil,convert-torch-to-mil"
"""What lowers a program whose ops none of the other passes have to decompose."""

INT32_OUTSIDE = ("int16", "uint16")
"""Types that Core ML has, but not for inputs and outputs, which are int32 instead."""

EMPTY = "has no elements, and Core ML has no empty tensors"
LEAVE_OUT = "leave it out"


def emit(module: ModuleOp, weights: Weights, target: str = "newest") -> Program:
    """
    Translate `@main` of `module` to a pymil program for `target`.

    The attribute `padc.name` names the inputs and outputs. Raises `UnsupportedError`
    with everything that Core ML or coremltools does not support.
    """
    with quiet():
        _reset_conversion_state()
        return _Emitter(main_of(module), weights, resolve_target(target)).emit()


def check_interface(module: ModuleOp, target: str) -> None:
    """
    Raise `UnsupportedError` for inputs and outputs of `@main` that Core ML cannot have.

    The module may be at any level. Asked before a program is lowered, so that an
    input is named, and not the first op that it stops.
    """
    emitter = _Emitter(main_of(module), Weights(), target)
    with quiet(), warnings.catch_warnings(action="ignore"):
        emitter.input_types()
        emitter.check_outputs()
    if emitter.problems:
        raise UnsupportedError(emitter.problems)


def main_of(module: ModuleOp) -> FuncOp:
    main = SymbolTable.lookup_symbol(module, "main")
    if not isinstance(main, FuncOp):
        raise InvalidProgramError("the module has no function @main to emit")
    return main


class _Emitter:
    def __init__(self, main: FuncOp, weights: Weights, target: str):
        self.main = main
        self.weights = weights
        self.target = target
        self.values: dict[SSAValue, Any] = {}
        """A pymil variable, a Python value, or a list of both, for each SSA value."""
        self.problems: list[Problem] = []
        self.used_names: set[str] = set()

    def emit(self) -> Program:
        input_types = self.input_types()
        placeholders = {
            type_.name: mb.placeholder(type_.shape.symbolic_shape, type_.dtype)
            for type_ in input_types.values()
        }
        output_names = self.io_names(
            "output", len(self.main.function_type.outputs), self.main.res_attrs
        )
        version = getattr(ct.target, self.target)
        outputs: list[Any] = []
        with Function(placeholders, opset_version=version) as function:
            for argument, type_ in input_types.items():
                var = function.inputs[type_.name]
                if shape_of(argument.type) == ():
                    var = mb.squeeze(x=var, name=self.unique(f"{type_.name}_scalar"))
                if (dtype := pymil_dtype(argument.type)) in INT32_OUTSIDE:
                    var = mb.cast(x=var, dtype=dtype)
                self.values[argument] = var
            for op in self.live_ops():
                if not isinstance(op, ReturnOp):
                    self.emit_op(op)
                    continue
                for value, name in zip(op.arguments, output_names, strict=True):
                    outputs.append(self.emit_output(value, name, outputs))
            if self.problems:
                raise UnsupportedError(self.problems)
            function.set_outputs(outputs)
        function.set_input_types(tuple(input_types.values()))  # pyright: ignore
        program = Program()
        program.add_function("main", function)
        return program

    def live_ops(self) -> list[Operation]:
        """The live ops of the function, in order."""
        live: dict[Operation, None] = {}
        for op in reversed(self.main.body.block.ops):
            uses = (use for result in op.results for use in result.uses)
            if isinstance(op, ReturnOp) or any(use.operation in live for use in uses):
                live[op] = None
        return [*reversed(live)]

    def problem(
        self, message: str, location: Attribute | None, hint: str | None
    ) -> None:
        where = None if location is None else SourceLocation.of(location)
        self.problems.append(Problem(message, where, hint))

    # --- names ---------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """`name` as an identifier of MIL that differs from every other name."""
        name = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not re.match("[A-Za-z_]", name):
            name = f"_{name}"
        unique = unique_name(name, self.used_names)
        self.used_names.add(unique)
        return unique

    def io_names(
        self, kind: str, count: int, attributes: ArrayAttr[DictionaryAttr] | None
    ) -> list[str]:
        """The names of the inputs or outputs in the package."""
        names: list[str] = []
        for index in range(count):
            name = attributes.data[index].data.get("padc.name") if attributes else None
            given = name.data if isinstance(name, StringAttr) else f"{kind}_{index}"
            if (unique := self.unique(given)) != given:
                warnings.warn(
                    f"Core ML cannot have an {kind} '{given}' here: "
                    f"it is '{unique}' in the package",
                    stacklevel=5,
                )
            names.append(unique)
        return names

    # --- inputs and outputs --------------------------------------------------------

    def input_types(self) -> dict[BlockArgument, Any]:
        """The inputs as coremltools describes them, except those with a problem."""
        arguments = self.main.args
        names = self.io_names("input", len(arguments), self.main.arg_attrs)
        ranges: dict[str, Any] = {}
        input_types: dict[BlockArgument, Any] = {}
        for argument, name in zip(arguments, names, strict=True):
            try:
                dtype = self.input_dtype(argument)
                shape = self.input_shape(argument, ranges)
            except Obstacle as error:
                type_ = describe_type(argument.type)
                self.problem(f"input {name}: {type_} {error.message}", None, error.hint)
                continue
            # Core ML has no inputs of rank 0.
            input_types[argument] = ct.TensorType(name, shape or [1], dtype)
        return input_types

    def input_dtype(self, argument: BlockArgument) -> Any:
        """An input's dtype in the package: int32 for those of `INT32_OUTSIDE`."""
        dtype = pymil_dtype(argument.type)
        mil.check_element_type(dtype, self.target)
        if dtype in INT32_OUTSIDE:
            return types.int32
        return types.string_to_builtin(dtype)

    def input_shape(self, argument: BlockArgument, ranges: dict[str, Any]) -> list[Any]:
        """The sizes of an input; equal dynamic sizes share a `RangeDim` in `ranges`."""
        shape: list[Any] = list(shape_of(argument.type) or ())
        check_shape(shape, "join dimensions of the input, and reshape it in the model")
        if DYNAMIC_INDEX not in shape:
            return shape
        for use in argument.uses:
            if isinstance(binding := use.operation, BindSymbolicShapeOp):
                break
        else:
            raise Obstacle("has sizes without bounds (torch.bind_symbolic_shape)")
        owners = [symbol.owner for symbol in binding.shape_symbols]
        symbols = [owner for owner in owners if isinstance(owner, SymbolicIntOp)]
        lowest = [symbol.min_val.value.data for symbol in symbols]
        highest = [symbol.max_val.value.data for symbol in symbols]
        for i, size in enumerate(binding.shape_expressions.data.results):
            if shape[i] != DYNAMIC_INDEX:
                continue
            lower, upper = sorted((size.eval([], lowest), size.eval([], highest)))
            if upper >= INT32.max:
                raise Obstacle(
                    f"has no upper bound of dimension {i}, and Core ML needs one",
                    hint='give the dimension one: torch.export.Dim("name", max=...)',
                )
            text = re.sub(
                r"s(\d+)", lambda s: symbols[int(s[1])].symbol_name.data, str(size)
            )
            if text not in ranges:
                ranges[text] = ct.RangeDim(lower, upper)
            shape[i] = ranges[text]
        return shape

    def check_outputs(self) -> None:
        """Note the problems of outputs that Core ML cannot have."""
        main = self.main
        (returned,) = (op for op in main.body.block.ops if isinstance(op, ReturnOp))
        names = self.io_names("output", len(returned.operands), main.res_attrs)
        for value, name in zip(returned.operands, names, strict=True):
            try:
                mil.check_element_type(pymil_dtype(value.type), self.target)
                check_shape(
                    shape_of(value.type) or (), "return it with dimensions joined"
                )
            except Obstacle as error:
                owner = value.owner
                self.problem(
                    f"output {name}: {describe_type(value.type)} {error.message}",
                    owner.location if isinstance(owner, Operation) else None,
                    error.hint,
                )

    def emit_output(self, value: SSAValue, name: str, outputs: Sequence[Any]) -> Any:
        """
        The pymil variable of a result, under its name in the package.

        int64 becomes int32, as in inputs and in all values computed from them.
        """
        if (var := self.values.get(value)) is None:
            return None  # The op that failed has been reported.
        if 0 in (shape_of(value.type) or ()):
            self.problem(
                f"output {name}: {describe_type(value.type)} {EMPTY}",
                value.owner.location if isinstance(value.owner, Operation) else None,
                LEAVE_OUT,
            )
            return None
        # Only a value that is computed here, for this output only, can have its name.
        if var.op is None or var.op.op_type == "const" or var in outputs:
            return mb.identity(x=var, name=name)
        var.name = name
        return var

    # --- ops -----------------------------------------------------------------------

    def emit_op(self, op: Operation) -> None:
        """Emit an op, unless an operand failed; note the problem if it fails."""
        if any(operand not in self.values for operand in op.operands):
            return
        try:
            with self.scope(op):
                values = self.convert(op)
            if len(values) != len(op.results):
                raise Obstacle(f"coremltools makes {len(values)} results of it")
            for index, (result, value) in enumerate(zip(op.results, values)):
                if not isinstance(result.type, VTensorType) or value is not None:
                    check_result(result.type, value)
                elif result.first_use is not None:
                    raise Obstacle(f"coremltools does not compute result {index}")
        except Obstacle as error:
            self.problem(f"{describe(op)}: {error.message}", op.location, error.hint)
            return
        self.values.update(zip(op.results, values))

    def scope(self, op: Operation) -> AbstractContextManager[Any]:
        """A scope in which pymil ops record the line and the op that they come from."""
        where = SourceLocation.of(op.location)
        line: Any = None if where is None else f"{where.file}:{where.line}"
        of_line: Any = ScopeSource.EXIR_STACK_TRACE
        of_op: Any = ScopeSource.TORCHSCRIPT_MODULE_TYPE
        return mb.scope(ScopeInfo(of_line, [line]), ScopeInfo(of_op, [origin(op)]))

    def convert(self, op: Operation) -> Sequence[Any]:
        """The values of the op's results, in pymil or Python."""
        match op:
            case mil.MilOp():
                return self.convert_mil(op)
            case LiteralOp() | ConstantOp():
                return [self.convert_constant(op.value, self.name_of(op))]
            case (
                ToBuiltinTensorOp()
                | FromBuiltinTensorOp()
                | UnrealizedConversionCastOp()
            ):
                return [self.values[op.operands[0]]]
            case ListConstructOp():
                return [[self.values[element] for element in op.elements]]
            case ListUnpackOp():
                return self.values[op.operand]
            case (
                ConstantBoolOp()
                | ConstantDeviceOp()
                | ConstantFloatOp()
                | ConstantIntOp()
                | ConstantNoneOp()
                | ConstantStrOp()
            ):
                return [constant_value(op.result)]
            case _:
                raise Obstacle("it is no op of Core ML", hint=f"lower it: -p {PASSES}")

    def name_of(self, op: Operation) -> str:
        """A name for the pymil ops of `op`."""
        (first, *_) = op.results
        match op:
            case LiteralOp(value=DenseResourceAttr() as weight):
                return self.unique(weight.resource_handle.data)
            case AtenOp():
                return self.unique(first.name_hint or op.schema.name.split(".")[1])
            case _:
                return self.unique(first.name_hint or op.name.rpartition(".")[2])

    def convert_constant(self, attribute: Attribute, name: str) -> Any:
        """A `const` op that shares the array of the weights."""
        pymil_dtype(attribute.type)
        value = int32_of(np.asarray(self.constant_value(attribute)))[()]
        return mb.const(val=value, name=name)

    def constant_value(self, attribute: Attribute) -> Any:
        """The Python value of a constant; the array of a weight is read-only."""
        if not isinstance(attribute, DenseResourceAttr):
            return mil.constant_of(attribute)
        array = self.weights.array(attribute).view()
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
            bound[input.variable] = types.builtin_to_string(variables[0].dtype)
        for name, attribute in op.constants.data.items():
            element = constant_type(attribute, form.inputs[name], bound)
            inputs[name] = constant(self.constant_value(attribute), element)
        builder = getattr(mb, op.name.removeprefix("mil."))
        try:
            outputs = builder(**inputs, name=self.name_of(op))
        except Exception as error:
            raise Obstacle(f"coremltools: {first_line(error)}") from error
        return outputs if isinstance(outputs, tuple | list) else [outputs]


def constant_type(
    attribute: Attribute, input: mil.Input, bound: Mapping[str | None, str]
) -> str:
    """The element type of a constant, among those that its value and the op allow."""
    allowed = mil.constant_types(attribute) & input.domain
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
    array = np.asarray(value)
    if element == "bool" and not array.ndim:
        # pymil passes it on to numpy's reductions, which do not take numpy.bool.
        return bool(array)
    if array.dtype == np.int64:
        array = int32_of(array)
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


def check_shape(shape: Sequence[int], hint: str) -> None:
    """Raise Obstacle for the shape of an input or output that Core ML cannot have."""
    if len(shape) > mil.MAX_RANK:
        most = f"Core ML's tensors have rank {mil.MAX_RANK} at most"
        raise Obstacle(f"has rank {len(shape)}; {most}", hint)
    if 0 in shape:
        raise Obstacle(EMPTY, LEAVE_OUT)


def element_type(type_: Attribute) -> Attribute:
    """The element type of a tensor, torch's or builtin; other types unchanged."""
    return type_.element_type if isinstance(type_, VTensorType | TensorType) else type_


def shape_of(type_: Attribute) -> tuple[int, ...] | None:
    """The sizes of a tensor, torch's or builtin; None for other values."""
    if isinstance(type_, VTensorType | TensorType):
        return tuple(type_.get_shape())
    return None


def pymil_dtype(type_: Attribute) -> str:
    """The element type of a tensor in pymil; Obstacle if Core ML lacks it."""
    return mil.element_type_name(element_type(type_))


def check_result(type_: Attribute, value: Any) -> None:
    """Compare the type that the IR declares with the one that pymil infers."""
    if isinstance(type_, IntType) and isinstance(value, Var):
        type_ = TensorType(IntegerType(64), ())
    if not isinstance(type_, VTensorType | TensorType):
        return
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


# --- messages -----------------------------------------------------------------------


def describe_type(type_: Attribute) -> str:
    """`float32[1,3,?]` for a tensor, the type itself for other values."""
    if (shape := shape_of(type_)) is None:
        return str(type_)
    sizes = ",".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)
    return f"{mil.describe_element(element_type(type_))}[{sizes}]"


def describe_value(value: SSAValue) -> str:
    try:
        return repr(constant_value(value))
    except NotConstantError:
        return describe_type(value.type)


def describe(op: Operation) -> str:
    """`aten.add.Tensor(self: float32[2], other: float32[2]) -> float32[2]`."""
    match op:
        case AtenOp():
            name = op.schema.name
            arguments = [
                f"{argument.name}: {text}"
                for argument, operand in zip(op.schema.arguments, op.operands)
                if (text := describe_value(operand)) != repr(argument.default)
            ]
        case mil.MilOp():
            name = op.name
            arguments = [
                f"{key}: {', '.join(describe_type(value.type) for value in values)}"
                for key, values in op.ssa_inputs().items()
            ]
        case _:
            name = op.name
            arguments = [describe_type(operand.type) for operand in op.operands]
    results = ", ".join(describe_type(result.type) for result in op.results)
    return f"{name}({', '.join(arguments)}) -> {results}"
