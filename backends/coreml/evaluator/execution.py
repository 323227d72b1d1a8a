# pyright: basic, reportMissingTypeStubs=false
"""A program that is ready to run: blocks of calls of kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter
from typing import Any

import numpy as np

from padc.backends.coreml.evaluator.arguments import read_argument
from padc.backends.coreml.evaluator.ops import Kernel, UnknownValueError
from padc.backends.coreml.evaluator.package import Constant
from padc.backends.coreml.evaluator.values.dataless import without_data
from padc.backends.coreml.evaluator.values.kernels import rounded_to_fp16
from padc.backends.coreml.evaluator.values.limits import (
    DEFAULT_LIMITS,
    Limits,
    limited_by,
)
from padc.backends.coreml.evaluator.values.types import (
    FP16,
    Array,
    StateCell,
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
    is_out_of_memory,
)


class ValueName(str):
    """The name of a value, as distinct from a constant string."""


@dataclass
class Execution:
    """One computation of a program."""

    rounding: bool
    """Whether fp16 values are rounded to fp16."""
    limits: Limits = DEFAULT_LIMITS
    iterations: int = 0
    """How often blocks of ops have run."""
    kept: int = 0
    """Elements of the values that are live, without constants."""


@dataclass
class Call:
    """One op: `outputs = kernel(**fixed, **variable)`."""

    op_type: str
    kernel: Kernel
    outputs: dict[str, ValueType]
    blocks: list["Block"]
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])
    variable: dict[str, tuple[Parameter, list["str | Constant"]]] = field(
        default_factory=dict[str, tuple[Parameter, list["str | Constant"]]]
    )
    """Arguments that depend on the function's inputs: names of values, or constants."""
    last_uses: list[str] = field(default_factory=list[str])
    """The values whose live range ends here."""
    allowed: list[Any] | None = None
    """The shapes of the last arguments; with equal ones, limits need no new check."""

    def __str__(self) -> str:
        return f"op '{self.op_type}' (output {', '.join(map(repr, self.outputs))})"

    def run(
        self, values: Mapping[str, Value], execution: Execution
    ) -> dict[str, Value]:
        """
        The op's outputs.

        Raises InvalidProgramError if the values do not fit the op, UnsupportedError if
        they exceed the limits.
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
            # A kernel's error about values that passed the checks at load.
            raise InvalidProgramError(f"{self}: {describe_error(error)}") from error

    def _run(
        self, values: Mapping[str, Value], execution: Execution
    ) -> dict[str, Value]:
        given: dict[str, Any] = {}
        for name, (parameter, sources) in self.variable.items():
            known = [values[s] if isinstance(s, ValueName) else s for s in sources]
            given[name] = read_argument(parameter.annotation, known)
        if self.blocks:
            blocks = [
                partial(self._run_block, block, values, execution)
                for block in self.blocks
            ]
            results = self.kernel(**self.fixed, **given, blocks=blocks)
        else:
            with limited_by(execution.limits):
                shapes = [shapes_of(it) for it in given.values()]
                if self.allowed != shapes:
                    check_sizes(self.kernel, self.fixed | given)
                    self.allowed = shapes
                results = self.kernel(**self.fixed, **given)
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) != len(self.outputs):
            raise InvalidProgramError(f"{self}: it has {len(results)} outputs")
        execution.kept += sum(map(element_total, results))
        execution.limits.check_total(execution.kept)
        pairs = zip(self.outputs.items(), results, strict=True)
        return {
            name: self._settle(np.asanyarray(it), kind, execution.rounding)
            if isinstance(it, np.ndarray | np.generic)
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

    def _settle(self, result: Array, kind: ValueType, rounding: bool) -> Array:
        if not isinstance(kind, TensorType):
            raise InvalidProgramError(f"{self}: its result is a tensor, not a {kind}")
        if result.dtype == np.int64 and kind.dtype.held_as == np.int32:
            result = result.astype(np.int32)
        if not kind.fits(result.shape) or result.dtype != kind.dtype.held_as:
            raise InvalidProgramError(
                f"{self}: its result is {result.dtype} of shape {list(result.shape)}, "
                f"the program says {kind}"
            )
        if rounding and kind.dtype is FP16:
            return rounded_to_fp16(result)
        return result


@dataclass
class Block:
    """The body of a function, or of an op that controls when it runs."""

    inputs: dict[str, ValueType]
    outputs: dict[str, ValueType]
    """Only blocks of ops may return a value more than once."""
    calls: list[Call]
    constants: dict[str, Constant]
    """The outputs that are constants."""
    results: list[str]
    """The names of the outputs, in their order."""

    def run(
        self, outer: Mapping[str, Value], execution: Execution, *inputs: Value
    ) -> list[Value]:
        """The outputs; `outer` are the values of the enclosing blocks."""
        values: dict[str, Any] = {**outer, **self.constants}
        values |= zip(self.inputs, inputs, strict=True)
        before = execution.kept
        execution.kept += sum(map(element_total, inputs))
        for call in self.calls:
            values |= call.run(values, execution)
            for name in call.last_uses:
                execution.kept -= element_total(values.pop(name))
        # The op that contains this block counts the results.
        execution.kept = before
        return [values[name] for name in self.results]

    def uses(self) -> set[str]:
        """The values of enclosing blocks that are used here."""
        taken = set(self.results)
        for call in reversed(self.calls):
            taken -= set(call.outputs)
            taken |= used_names(call)
        return taken - set(self.inputs) - set(self.constants)


def used_names(call: Call) -> set[str]:
    """The values that a call and its blocks use."""
    taken = {
        source
        for _, sources in call.variable.values()
        for source in sources
        if isinstance(source, ValueName)
    }
    return taken.union(*(block.uses() for block in call.blocks))


def mark_last_uses(block: Block) -> None:
    """Set `last_uses` of the block's calls, so that values can be dropped early."""
    seen = {*block.inputs, *block.results, *block.uses()}
    for call in reversed(block.calls):
        last = (used_names(call) | set(call.outputs)) - seen
        call.last_uses = sorted(last)
        seen |= last


def element_total(value: Value) -> int:
    """The number of elements that a value has in memory."""
    match value:
        case np.ndarray():
            return value.size
        case TensorList():
            items = {id(it): it for it in value.items if it is not None}
            return sum(it.size for it in items.values())
        case _:
            return 0


def shapes_of(argument: Any) -> Any:
    """A key: arguments with equal keys have results of equal shapes."""
    match argument:
        case np.ndarray():
            return argument.shape
        case StateCell():
            return argument.tensor.shape
        case list():
            return [shapes_of(item) for item in argument]
        case TensorList():
            return object()  # Equal to nothing: lists grow.
        case _:
            return argument


def check_sizes(kernel: Kernel, arguments: Mapping[str, Any]) -> None:
    """
    Raise Obstacle if the kernel would make an array that exceeds the current limits.

    It is run without data. Where its sizes depend on data, kernels call `allowed`.
    """
    stripped = {name: stripped_of_data(it) for name, it in arguments.items()}
    if all(stripped[name] is it for name, it in arguments.items()):
        return
    try:
        kernel(**stripped)
    except Obstacle:
        raise
    except Exception:
        # It fails for these arguments, and reports that when it is run with data.
        return


def stripped_of_data(argument: Any) -> Any:
    """`argument` with dataless arrays; itself if it has no arrays with data."""
    match argument:
        case StateCell():
            return StateCell(without_data(argument.tensor))
        case TensorList():
            items = tuple(without_data(item) for item in argument.items)
            return replace(argument, items=items, empty=without_data(argument.empty))
        case list() if not any(isinstance(it, np.ndarray) for it in argument):
            return argument
        case _:
            return without_data(argument)


def describe_error(error: Exception) -> str:
    """The message of an exception of Python, numpy or PyTorch."""
    if is_out_of_memory(error):
        return "there is not enough memory for it"
    return str(error) or type(error).__name__
