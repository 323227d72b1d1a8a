# pyright: basic, reportMissingTypeStubs=false
"""
From the protobuf of a function to a list of calls that is ready to run.

Everything that can be known before there are inputs is settled here: constants are
read, `constexpr_` ops computed, names, types and fixed values of inputs checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, Literal, get_args, get_origin

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops import (
    Bool,
    Float,
    Int,
    Kernel,
    Number,
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
    StringType,
    TensorType,
    ValueType,
)
from padc.errors import InvalidProgramError, PadcError, Problem, UnsupportedError

OPSETS = {f"CoreML{number}": number for number in range(5, 10)}
"""iOS15 to iOS18, and iOS26, which adds no ops to iOS18."""


@dataclass
class Call:
    """One op: `outputs = kernel(**fixed, **{name: read(values)})`."""

    op_type: str
    kernel: Kernel
    outputs: dict[str, TensorType]
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])
    variable: dict[str, tuple[Parameter, list["str | Constant"]]] = field(
        default_factory=dict[str, tuple[Parameter, list["str | Constant"]]]
    )
    """Inputs that depend on the function's: names of values, or constants."""
    last_uses: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return f"op '{self.op_type}' (output {', '.join(map(repr, self.outputs))})"

    def run(self, values: Mapping[str, Tensor], rounding: bool) -> dict[str, Tensor]:
        """The op's outputs; fp16 ones rounded to fp16 where `rounding`.

        Raises InvalidProgramError where the values do not fit the op.
        """
        try:
            arguments = dict(self.fixed)
            for name, (parameter, sources) in self.variable.items():
                read = [values[s] if isinstance(s, str) else s for s in sources]
                arguments[name] = _read(parameter.annotation, read)
            results = self.kernel(**arguments)
        except UnknownValueError as error:
            raise UnsupportedError([self.problem(str(error))]) from error
        except PadcError:
            raise
        except Exception as error:
            # Whatever a kernel says of values that passed the checks at load.
            raise InvalidProgramError(f"{self}: {error}") from error
        if isinstance(results, Tensor):
            results = (results,)
        if len(results) != len(self.outputs):
            raise InvalidProgramError(f"{self}: it has {len(results)} outputs")
        pairs = zip(self.outputs.items(), results, strict=True)
        return {name: self._settle(it, kind, rounding) for (name, kind), it in pairs}

    def problem(self, message: str) -> Problem:
        return Problem(f"Core ML evaluator: {self}: {message}")

    def _settle(self, result: Tensor, kind: TensorType, rounding: bool) -> Tensor:
        fits = len(result.shape) == len(kind.shape) and all(
            dim in (None, size)
            for dim, size in zip(kind.shape, result.shape, strict=True)
        )
        if result.dtype == torch.int64 and kind.dtype.held_as == torch.int32:
            result = result.to(torch.int32)
        if not fits or result.dtype != kind.dtype.held_as:
            raise InvalidProgramError(
                f"{self}: it gives {result.dtype} of shape {list(result.shape)}, "
                f"the program says {kind}"
            )
        if rounding and kind.dtype is FP16:
            return result.to(torch.float16).to(torch.float32)
        return result


@dataclass
class Program:
    """A function: `inputs` to `outputs` by `calls`."""

    inputs: dict[str, TensorType]
    outputs: dict[str, TensorType]
    calls: list[Call]
    constants: dict[str, Tensor]
    """Those outputs that are constants."""

    def run(self, inputs: Mapping[str, Tensor], rounding: bool) -> dict[str, Tensor]:
        """The function's outputs, held as types.py says."""
        values = {**self.constants, **inputs}
        for call in self.calls:
            values |= call.run(values, rounding)
            for name in call.last_uses:
                del values[name]
        return {name: values[name] for name in self.outputs}


def load_program(package: Package, function: Message, rounding: bool) -> Program:
    """Read one `Function` message.

    Raises UnsupportedError with all that the evaluator does not know of it, and
    InvalidProgramError where it is damaged.
    """
    if (opset := OPSETS.get(function.opset)) is None:
        raise UnsupportedError(
            [Problem(f"Core ML evaluator: opset {function.opset!r} is not known")]
        )
    if function.opset not in function.block_specializations:
        raise InvalidProgramError(f"no block for the function's {function.opset}")
    block = function.block_specializations[function.opset]
    loader = _Loader(package, opset, rounding)
    for value in function.inputs:
        loader.declare(value.name, value_type(value.type))
    inputs = dict(loader.types)
    for operation in block.operations:
        loader.add(operation)
    if problems := loader.all_problems():
        raise UnsupportedError(problems)
    for name in block.outputs:
        if name not in loader.types:
            raise InvalidProgramError(f"nothing defines the output {name!r}")
    if texts := [
        name
        for name in (*inputs, *block.outputs)
        if not isinstance(loader.types[name], TensorType)
    ]:
        raise UnsupportedError(
            [Problem(f"Core ML evaluator: {name!r} is not a tensor") for name in texts]
        )
    _mark_last_uses(loader.calls, {*inputs, *block.outputs})
    types: Any = loader.types
    constants: Any = loader.constants
    return Program(
        {name: types[name] for name in inputs},
        {name: types[name] for name in block.outputs},
        loader.calls,
        {name: constants[name] for name in block.outputs if name in constants},
    )


class _Loader:
    def __init__(self, package: Package, opset: int, rounding: bool):
        self.package = package
        self.opset = opset
        self.rounding = rounding
        self.types: dict[str, ValueType | None] = {}
        """None is the type of a value that the evaluator cannot hold."""
        self.constants: dict[str, Constant] = {}
        self.calls: list[Call] = []
        self.unknown: dict[str, list[str]] = {}
        self.problems: list[Problem] = []

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

    def add(self, operation: Message) -> None:
        names = [value.name for value in operation.outputs]
        try:
            if operation.type == "const":
                self._add_const(operation, names)
            elif (op := find(operation.type, self.opset)) is None:
                self.unknown.setdefault(operation.type, []).append(", ".join(names))
            else:
                kinds = {v.name: value_type(v.type) for v in operation.outputs}
                call = Call(operation.type, op.kernel, kinds)  # pyright: ignore[reportArgumentType]
                self._bind(call, op.parameters, operation)
                if operation.type.startswith("constexpr_"):
                    if call.variable:
                        raise InvalidProgramError(f"{call}: an input is not constant")
                    self.constants |= call.run({}, self.rounding)
                else:
                    self.calls.append(call)
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
            if (parameter := parameters.get(name)) is None or name == "result":
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
                (call.fixed[name], *_) = call.outputs.values()
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
        expected, accepts = _accepts(annotation)
        for kind in kinds:
            is_text = isinstance(kind, StringType)
            if is_text != (annotation is str or get_origin(annotation) is Literal):
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


def _required(annotation: Any) -> Any:
    """`annotation` without its `| None`."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    is_optional = type(None) in get_args(annotation)
    return options[0] if is_optional else annotation


def _accepts(annotation: Any) -> tuple[str, Any]:
    """What dtype an annotation asks for, in words and as a predicate."""

    def is_int(dtype: Dtype) -> bool:
        return not dtype.is_float and dtype is not BOOL

    if annotation in (bool, list[bool], Bool):
        return "bool", lambda dtype: dtype is BOOL
    if annotation in (int, list[int], Int):
        return "an integer type", is_int
    if annotation == Float:
        return "fp16 or fp32", lambda dtype: dtype.is_float
    if annotation in (float, Number):
        return "a float or integer type", lambda dtype: dtype is not BOOL
    return "a tensor", lambda dtype: True


def _read(annotation: Any, values: list[Any]) -> Any:
    """Turn the values of an input into what its annotation asks for."""
    annotation = _required(annotation)
    if annotation == list[Tensor]:
        return values
    if get_origin(annotation) is list:
        return [item for value in values for item in value.reshape(-1).tolist()]
    (value,) = values
    if annotation in (int, float, bool):
        return annotation(value.item())
    if get_origin(annotation) is Literal and value not in get_args(annotation):
        known = ", ".join(map(repr, get_args(annotation)))
        raise UnknownValueError(f"{value!r} is not one of {known}")
    return value


def _mark_last_uses(calls: list[Call], kept: set[str]) -> None:
    seen = set(kept)
    for call in reversed(calls):
        used = {
            source
            for _, sources in call.variable.values()
            for source in sources
            if isinstance(source, str)
        }
        last = (used | set(call.outputs)) - seen
        call.last_uses = sorted(last)
        seen |= last
