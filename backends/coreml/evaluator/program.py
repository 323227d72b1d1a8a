# pyright: basic, reportMissingTypeStubs=false
"""
From the protobuf of a function to a list of calls that is ready to run.

Everything that can be known before there are inputs is settled here: constants are
read, `constexpr_` ops computed, names, types and fixed values of inputs checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter
from typing import Any, Literal, get_args, get_origin

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.limits import DEFAULT_LIMITS, Guard, Limits
from padc.backends.coreml.evaluator.ops import (
    AnyValue,
    Bool,
    Float,
    Int,
    Kernel,
    Number,
    Op,
    UnknownValueError,
    find,
)
from padc.backends.coreml.evaluator.package import (
    Constant,
    Message,
    Package,
    value_type,
)
from padc.backends.coreml.evaluator.types import (
    BOOL,
    FP16,
    Dtype,
    ListType,
    StateCell,
    StateType,
    StringType,
    TensorList,
    TensorType,
    Value,
    ValueType,
)
from padc.errors import (
    InvalidProgramError,
    Obstacle,
    PadcError,
    Problem,
    UnsupportedError,
)

OPSETS = {f"CoreML{number}": number for number in range(5, 10)}
"""iOS15 to iOS18, and iOS26, which adds no ops to iOS18."""

NO_INPUTS = ("result", "blocks")
"""Parameters of a kernel that are no inputs of its op."""


LONGEST_LIST = 2**16
"""Elements of an input that is read as a list: sizes, axes, amounts of padding."""


@dataclass
class Execution:
    """One computation of a program."""

    rounding: bool
    """Whether fp16 values are rounded to fp16."""
    limits: Limits = DEFAULT_LIMITS
    iterations: int = 0
    """How often blocks inside of ops ran so far."""
    kept: int = 0
    """Elements of the values that blocks hold, without constants."""


@dataclass
class Call:
    """One op: `outputs = kernel(**fixed, **{name: read(values)})`."""

    op_type: str
    kernel: Kernel
    outputs: dict[str, ValueType]
    blocks: list["Block"]
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])
    variable: dict[str, tuple[Parameter, list["str | Constant"]]] = field(
        default_factory=dict[str, tuple[Parameter, list["str | Constant"]]]
    )
    """Inputs that depend on the function's: names of values, or constants."""
    last_uses: list[str] = field(default_factory=list[str])
    allowed: list[Any] | None = None
    """The shapes of arguments whose results were seen not to be too large."""

    def __str__(self) -> str:
        return f"op '{self.op_type}' (output {', '.join(map(repr, self.outputs))})"

    def run(
        self, values: Mapping[str, Value], execution: Execution
    ) -> dict[str, Value]:
        """The op's outputs.

        Raises InvalidProgramError where the values do not fit the op, and
        UnsupportedError where they exceed the limits.
        """
        try:
            return self._run(values, execution)
        except UnknownValueError as error:
            raise UnsupportedError([self.problem(str(error))]) from error
        except Obstacle as error:
            problem = self.problem(error.message, error.hint)
            raise UnsupportedError([problem]) from error
        except PadcError:
            raise
        except Exception as error:
            # Whatever a kernel says of values that passed the checks at load.
            raise InvalidProgramError(f"{self}: {_in_words(error)}") from error

    def _run(
        self, values: Mapping[str, Value], execution: Execution
    ) -> dict[str, Value]:
        given: dict[str, Any] = {}
        for name, (parameter, sources) in self.variable.items():
            read = [values[s] if isinstance(s, _Name) else s for s in sources]
            given[name] = _read(parameter.annotation, read)
        if self.blocks:
            blocks = [
                partial(self._run_block, block, values, execution)
                for block in self.blocks
            ]
            results = self.kernel(**self.fixed, **given, blocks=blocks)
        elif self.allowed == (shapes := [_shapes(it) for it in given.values()]):
            results = self.kernel(**self.fixed, **given)
        else:
            with Guard(execution.limits):
                results = self.kernel(**self.fixed, **given)
            self.allowed = shapes
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) != len(self.outputs):
            raise InvalidProgramError(f"{self}: it has {len(results)} outputs")
        execution.kept += sum(map(_elements, results))
        execution.limits.check_total(execution.kept)
        pairs = zip(self.outputs.items(), results, strict=True)
        return {
            name: self._settle(it, kind, execution.rounding)
            if isinstance(it, Tensor)
            else it
            for (name, kind), it in pairs
        }

    def _run_block(
        self,
        block: "Block",
        values: Mapping[str, Value],
        execution: Execution,
        *inputs: Value,
    ) -> list[Value]:
        execution.iterations += 1
        execution.limits.check_iterations(execution.iterations)
        return block.run(values, execution, *inputs)

    def problem(self, message: str, hint: str | None = None) -> Problem:
        return Problem(f"Core ML evaluator: {self}: {message}", hint=hint)

    def _settle(self, result: Tensor, kind: ValueType, rounding: bool) -> Tensor:
        if not isinstance(kind, TensorType):
            raise InvalidProgramError(f"{self}: it gives a tensor, not a {kind}")
        if result.dtype == torch.int64 and kind.dtype.held_as == torch.int32:
            result = result.to(torch.int32)
        if not kind.fits(result.shape) or result.dtype != kind.dtype.held_as:
            raise InvalidProgramError(
                f"{self}: it gives {result.dtype} of shape {list(result.shape)}, "
                f"the program says {kind}"
            )
        if rounding and kind.dtype is FP16:
            return result.to(torch.float16).to(torch.float32)
        return result


@dataclass
class Block:
    """The body of a function, or of an op that controls when it runs."""

    inputs: dict[str, ValueType]
    outputs: dict[str, ValueType]
    """A value may be an output more than once, but of the inner blocks only."""
    calls: list[Call]
    constants: dict[str, Constant]
    """Those outputs that are constants."""
    results: list[str]
    """The names of the outputs, in their order."""

    def run(
        self, outer: Mapping[str, Value], execution: Execution, *inputs: Value
    ) -> list[Value]:
        """The outputs, held as types.py says, where `outer` are values around it."""
        values: dict[str, Any] = {**outer, **self.constants}
        values |= zip(self.inputs, inputs, strict=True)
        before = execution.kept
        execution.kept += sum(map(_elements, inputs))
        for call in self.calls:
            values |= call.run(values, execution)
            for name in call.last_uses:
                execution.kept -= _elements(values.pop(name))
        # What is returned is for the op to count that the block is in.
        execution.kept = before
        return [values[name] for name in self.results]

    def uses(self) -> set[str]:
        """The names of values that it takes from around it."""
        taken = set(self.results)
        for call in reversed(self.calls):
            taken -= set(call.outputs)
            taken |= _uses(call)
        return taken - set(self.inputs) - set(self.constants)


def load_program(package: Package, function: Message, execution: Execution) -> Block:
    """Read one `Function` message, and compute its `constexpr_` ops.

    Raises UnsupportedError with all that the evaluator does not know of it, and
    InvalidProgramError where it is damaged.
    """
    if (opset := OPSETS.get(function.opset)) is None:
        raise UnsupportedError(
            [Problem(f"Core ML evaluator: opset {function.opset!r} is not known")]
        )
    if function.opset not in function.block_specializations:
        raise InvalidProgramError(f"no block for the function's {function.opset}")
    loader = _Loader(package, opset, execution)
    block = loader.block(
        function.inputs, function.block_specializations[function.opset]
    )
    if problems := loader.all_problems():
        raise UnsupportedError(problems)
    return block


@dataclass
class _Loader:
    """Reads a block; what it has read so far."""

    package: Package
    opset: int
    execution: Execution
    types: dict[str, ValueType | None] = field(
        default_factory=dict[str, ValueType | None]
    )
    """None is the type of a value that the evaluator cannot hold."""
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    calls: list[Call] = field(default_factory=list[Call])
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    problems: list[Problem] = field(default_factory=list[Problem])

    def inner(self) -> "_Loader":
        """A loader of a block that sees what this one has read."""
        return replace(
            self, types=dict(self.types), constants=dict(self.constants), calls=[]
        )

    def declare(self, name: str, kind: ValueType | None) -> None:
        if name in self.types:
            raise InvalidProgramError(f"two values are named {name!r}")
        self.types[name] = kind

    def all_problems(self) -> list[Problem]:
        """What is not supported: unknown ops, one line per type, then the rest."""
        unknown = [
            Problem(
                f"Core ML evaluator: no op '{op_type}' (output {outputs[0]!r}"
                + (f" and {len(outputs) - 1} more)" if outputs[1:] else ")")
            )
            for op_type, outputs in self.unknown.items()
        ]
        return unknown + self.problems

    def block(self, inputs: Sequence[Message], message: Message) -> Block:
        """Read a `Block` message."""
        for value in inputs:
            self.declare(value.name, value_type(value.type))
        for operation in message.operations:
            self.add(operation)
        results = list(message.outputs)
        for name in results:
            if name not in self.types:
                raise InvalidProgramError(f"nothing defines the output {name!r}")
        # A value without a type is a problem that is already reported.
        types: Any = self.types
        block = Block(
            {value.name: types[value.name] for value in inputs},
            {name: types[name] for name in results},
            self.calls,
            {name: self.constants[name] for name in results if name in self.constants},
            results,
        )
        _mark_last_uses(block)
        return block

    def add(self, operation: Message) -> None:
        names = [value.name for value in operation.outputs]
        try:
            if operation.type == "const":
                self._add_const(operation, names)
            elif (op := find(operation.type, self.opset)) is None:
                self.unknown.setdefault(operation.type, []).append(", ".join(names))
            else:
                self._add_call(operation, op)
        except UnsupportedError as error:
            prefix = f"{operation.type} (output {', '.join(map(repr, names))})"
            self.problems += [
                problem
                if repr(names[0] if names else "") in problem.message
                else Problem(f"{problem.message}, in {prefix}")
                for problem in error.problems
            ]
        for value in operation.outputs:
            try:
                kind = value_type(value.type)
            except UnsupportedError:
                kind = None
            self.declare(value.name, kind)

    def _add_call(self, operation: Message, op: Op) -> None:
        kinds = {v.name: value_type(v.type) for v in operation.outputs}
        blocks = [self.inner().block(b.inputs, b) for b in operation.blocks]
        call = Call(operation.type, op.kernel, kinds, blocks)
        self._bind(call, op.parameters, operation)
        if operation.type.startswith("constexpr_"):
            if call.variable:
                raise InvalidProgramError(f"{call}: an input is not constant")
            constants: Any = call.run({}, self.execution)
            self.constants |= constants
        else:
            self.calls.append(call)

    def _add_const(self, operation: Message, names: list[str]) -> None:
        if len(names) != 1 or "val" not in operation.attributes:
            raise InvalidProgramError(f"const {names} needs one output and a value")
        value = operation.attributes["val"]
        try:
            kind = value_type(operation.outputs[0].type)
            if kind != value_type(value.type):
                raise InvalidProgramError(f"declared {kind}")
            self.constants[names[0]] = self.package.constant(value)
        except InvalidProgramError as error:
            raise InvalidProgramError(f"const {names[0]!r}: {error}") from error

    def _bind(
        self, call: Call, parameters: Mapping[str, Parameter], operation: Message
    ) -> None:
        arguments = {
            name: [self._source(call, name, binding) for binding in value.arguments]
            for name, value in operation.inputs.items()
        }
        # The constexpr ops of iOS16 have attributes where others have inputs.
        for name, value in operation.attributes.items():
            if name != "name":
                source = (self.package.constant(value), value_type(value.type))
                arguments[name] = [source]
        for name, sources in arguments.items():
            if (parameter := parameters.get(name)) is None or name in NO_INPUTS:
                raise UnsupportedError([call.problem(f"no input {name!r} is known")])
            kinds = [kind for _, kind in sources]
            if None in kinds:
                return  # What made that value is already reported.
            self._check(call, parameter, kinds)
            values = [source for source, _ in sources]
            known = [
                self.constants.get(source, source)
                if isinstance(source, _Name)
                else source
                for source in values
            ]
            if any(isinstance(value, _Name) for value in known):
                call.variable[name] = (parameter, known)
            else:
                call.fixed[name] = self._read_fixed(call, parameter, known)
        for name, parameter in parameters.items():
            if name == "result":
                if not call.outputs:
                    raise InvalidProgramError(f"{call}: it has no output")
                (call.fixed[name], *_) = call.outputs.values()
            elif name == "blocks":
                if len(call.blocks) != 2:
                    raise InvalidProgramError(
                        f"{call}: it has {len(call.blocks)} blocks"
                    )
            elif parameter.default is Parameter.empty and name not in arguments:
                raise InvalidProgramError(f"{call}: it has no input {name!r}")

    def _source(
        self, call: Call, name: str, binding: Message
    ) -> tuple["_Name | Constant", ValueType | None]:
        if binding.WhichOneof("binding") == "value":
            value = binding.value
            return self.package.constant(value), value_type(value.type)
        if binding.name not in self.types:
            raise InvalidProgramError(
                f"{call}: its input {name!r} is {binding.name!r}, "
                "which nothing before it defines"
            )
        return _Name(binding.name), self.types[binding.name]

    def _check(
        self, call: Call, parameter: Parameter, kinds: Sequence[ValueType | None]
    ) -> None:
        """Hold the types of an input against its annotation."""
        annotation = _required(parameter.annotation)
        if not kinds or (len(kinds) > 1 and get_origin(annotation) is not list):
            raise InvalidProgramError(
                f"{call}: {len(kinds)} values for the input {parameter.name!r}"
            )
        form, expected, accepts = _accepts(annotation)
        for kind in kinds:
            if not isinstance(kind, form):
                raise InvalidProgramError(
                    f"{call}: its input {parameter.name!r} is a {kind}"
                )
            if isinstance(kind, TensorType) and not accepts(kind.dtype):
                message = f"input {parameter.name!r} must be {expected}, not {kind}"
                raise UnsupportedError([call.problem(message)])

    def _read_fixed(self, call: Call, parameter: Parameter, values: list[Any]) -> Any:
        try:
            return _read(parameter.annotation, values)
        except UnknownValueError as error:
            message = f"input {parameter.name!r}: {error}"
            raise UnsupportedError([call.problem(message)]) from error
        except (ValueError, TypeError, RuntimeError) as error:
            raise InvalidProgramError(
                f"{call}: its input {parameter.name!r}: {error}"
            ) from error


class _Name(str):
    """The name of a value, told from a constant string."""


def _elements(value: Value) -> int:
    """How many elements a value has in memory."""
    match value:
        case Tensor():
            return value.numel()
        case TensorList():
            items = {id(it): it for it in value.items if it is not None}
            return sum(it.numel() for it in items.values())
        case _:
            return 0


def _shapes(argument: Any) -> Any:
    """Equal for arguments that give results of equal shapes."""
    match argument:
        case Tensor():
            return argument.shape
        case StateCell():
            return argument.tensor.shape
        case list():
            return [_shapes(item) for item in argument]
        case TensorList():
            return object()  # Equal to nothing: lists change as they are used.
        case _:
            return argument


def _in_words(error: Exception) -> str:
    """What an exception of Python or torch says."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "there is not enough memory for it"
    return str(error) or type(error).__name__


def _required(annotation: Any) -> Any:
    """`annotation` without its `| None`."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    is_optional = type(None) in get_args(annotation)
    return options[0] if is_optional else annotation


def _accepts(annotation: Any) -> tuple[Any, str, Any]:
    """What form of value an annotation asks for, and what dtype of a tensor, in words
    and as a predicate."""

    def is_int(dtype: Dtype) -> bool:
        return not dtype.is_float and dtype is not BOOL

    if annotation is str or get_origin(annotation) is Literal:
        return StringType, "a string", None
    if annotation is TensorList:
        return ListType, "a list", None
    if annotation is StateCell:
        return StateType, "a state", None
    if annotation in (AnyValue, list[AnyValue]):
        return object, "a value", lambda dtype: True
    if annotation in (bool, list[bool], Bool):
        return TensorType, "bool", lambda dtype: dtype is BOOL
    if annotation in (int, list[int], Int):
        return TensorType, "an integer type", is_int
    if annotation == Float:
        return TensorType, "fp16 or fp32", lambda dtype: dtype.is_float
    if annotation in (float, Number):
        return (
            TensorType,
            "a float or integer type",
            lambda dtype: dtype is not BOOL,
        )
    return TensorType, "a tensor", lambda dtype: True


def _read(annotation: Any, values: list[Any]) -> Any:
    """Turn the values of an input into what its annotation asks for."""
    annotation = _required(annotation)
    if annotation in (list[Tensor], list[AnyValue]):
        return values
    if get_origin(annotation) is list:
        if (count := sum(value.numel() for value in values)) > LONGEST_LIST:
            raise ValueError(f"{count} values, which should be a list of a few")
        return [item for value in values for item in value.reshape(-1).tolist()]
    (value,) = values
    if annotation in (int, float, bool):
        return annotation(value.item())
    if get_origin(annotation) is Literal and value not in get_args(annotation):
        known = ", ".join(map(repr, get_args(annotation)))
        raise UnknownValueError(f"{value!r} is not one of {known}")
    return value


def _uses(call: Call) -> set[str]:
    """The names of the values that a call takes."""
    taken = {
        source
        for _, sources in call.variable.values()
        for source in sources
        if isinstance(source, _Name)
    }
    return taken.union(*(block.uses() for block in call.blocks))


def _mark_last_uses(block: Block) -> None:
    seen = {*block.inputs, *block.results, *block.uses()}
    for call in reversed(block.calls):
        last = (_uses(call) | set(call.outputs)) - seen
        call.last_uses = sorted(last)
        seen |= last
