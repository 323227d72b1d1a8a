# pyright: basic, reportMissingTypeStubs=false
"""
From the protobuf of a function to blocks of calls that are ready to run.

Everything that does not depend on inputs is done here: constants are read, `constexpr_`
ops computed, names, types and constant arguments checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter
from typing import Any, get_origin

from padc.backends.coreml.evaluator.arguments import accepted, read_argument, required
from padc.backends.coreml.evaluator.execution import (
    Block,
    Call,
    Execution,
    ValueName,
    mark_last_uses,
)
from padc.backends.coreml.evaluator.ops import Op, UnknownValueError, find
from padc.backends.coreml.evaluator.package import (
    Constant,
    Message,
    Package,
    value_type,
)
from padc.backends.coreml.evaluator.values.types import TensorType, ValueType
from padc.errors import InvalidProgramError, Problem, UnsupportedError

OPSETS = {f"CoreML{number}": number for number in range(5, 10)}
"""iOS15 to iOS18, and iOS26, which adds no ops to iOS18."""

NOT_INPUTS = ("result", "blocks")
"""Parameters of a kernel that are not inputs of its op."""


def load_program(package: Package, function: Message, execution: Execution) -> Block:
    """
    Read one `Function` message, and compute its `constexpr_` ops.

    Raises UnsupportedError with everything that the evaluator does not support, and
    InvalidProgramError if the message is damaged.
    """
    if (opset := OPSETS.get(function.opset)) is None:
        raise UnsupportedError(
            [Problem(f"Core ML evaluator: opset {function.opset!r} is not known")]
        )
    if function.opset not in function.block_specializations:
        raise InvalidProgramError(f"no block for the function's {function.opset}")
    loader = Loader(package, opset, execution)
    block = loader.block(
        function.inputs, function.block_specializations[function.opset]
    )
    if problems := loader.all_problems():
        raise UnsupportedError(problems)
    return block


@dataclass
class Loader:
    """Reads a block, and holds what it has read so far."""

    package: Package
    opset: int
    execution: Execution
    types: dict[str, ValueType | None] = field(
        default_factory=dict[str, ValueType | None]
    )
    """The type of each value; None if the evaluator cannot hold it."""
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    calls: list[Call] = field(default_factory=list[Call])
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """For each unknown type of op, the outputs of such ops."""
    problems: list[Problem] = field(default_factory=list[Problem])

    def inner(self) -> "Loader":
        """A loader for an inner block, which sees the values read so far."""
        return replace(
            self, types=dict(self.types), constants=dict(self.constants), calls=[]
        )

    def declare(self, name: str, kind: ValueType | None) -> None:
        if name in self.types:
            raise InvalidProgramError(f"two values are named {name!r}")
        self.types[name] = kind

    def all_problems(self) -> list[Problem]:
        """The unsupported parts: unknown ops, one problem per type, then the rest."""
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
        # A value without a type has been reported already.
        types: Any = self.types
        block = Block(
            {value.name: types[value.name] for value in inputs},
            {name: types[name] for name in results},
            self.calls,
            {name: self.constants[name] for name in results if name in self.constants},
            results,
        )
        mark_last_uses(block)
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
            if (parameter := parameters.get(name)) is None or name in NOT_INPUTS:
                raise UnsupportedError([call.problem(f"no input {name!r} is known")])
            kinds = [kind for _, kind in sources]
            if None in kinds:
                return  # The op that computes this value has been reported already.
            self._check(call, parameter, kinds)
            values = [source for source, _ in sources]
            known = [
                self.constants.get(source, source)
                if isinstance(source, ValueName)
                else source
                for source in values
            ]
            if any(isinstance(value, ValueName) for value in known):
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
    ) -> tuple["ValueName | Constant", ValueType | None]:
        if binding.WhichOneof("binding") == "value":
            value = binding.value
            return self.package.constant(value), value_type(value.type)
        if binding.name not in self.types:
            raise InvalidProgramError(
                f"{call}: its input {name!r} is {binding.name!r}, "
                "which nothing before it defines"
            )
        return ValueName(binding.name), self.types[binding.name]

    def _check(
        self, call: Call, parameter: Parameter, kinds: Sequence[ValueType | None]
    ) -> None:
        """Check the types of an input against the kernel's annotation."""
        annotation = required(parameter.annotation)
        if not kinds or (len(kinds) > 1 and get_origin(annotation) is not list):
            raise InvalidProgramError(
                f"{call}: {len(kinds)} values for the input {parameter.name!r}"
            )
        form, expected, accepts = accepted(annotation)
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
            return read_argument(parameter.annotation, values)
        except UnknownValueError as error:
            message = f"input {parameter.name!r}: {error}"
            raise UnsupportedError([call.problem(message)]) from error
        except (ValueError, TypeError, RuntimeError) as error:
            raise InvalidProgramError(
                f"{call}: its input {parameter.name!r}: {error}"
            ) from error
