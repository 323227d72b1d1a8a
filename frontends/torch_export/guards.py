# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""
The guards of an exported program: the conditions on input sizes that it holds under.

Where a dimension is `Dim.AUTO` or `Dim.DYNAMIC`, PyTorch traces with the sizes of the
example and keeps each decision on them as a condition, in Python:
`math.trunc(3.0*torch.sym_float(L['x'].size()[2])) == 30`. For other sizes the program
does not compute what the model computes. `ExportedProgram.module()` checks the guards
at each call, and so do the models that padc compiles.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from padc.common.archive import UnsafeError
from padc.errors import Problem, UnsupportedError, UsageError
from padc.frontends.torch_export.expressions import check_guard, shown
from padc.frontends.torch_export.size_assertions import size_assertions
from padc.frontends.torch_export.size_limits import (
    limit_guards,
    python,
    sources_of_symbols,
)

MOST_REMEMBERED = 1000
"""The most combinations of sizes that a `GuardCheck` remembers as valid."""

OPERATORS: Mapping[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
    ast.Not: np.logical_not,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "float": np.float64,
    "int": np.trunc,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.sqrt": np.sqrt,
    "math.trunc": np.trunc,
    "max": lambda *values: functools.reduce(np.maximum, values),
    "min": lambda *values: functools.reduce(np.minimum, values),
    "torch._sym_sqrt": np.sqrt,
    "torch.sym_float": np.float64,
    "torch.sym_int": np.trunc,
    "torch.sym_max": np.maximum,
    "torch.sym_min": np.minimum,
    "torch.sym_not": np.logical_not,
}


@dataclass(frozen=True)
class InputSize:
    """The size of one dimension of an input."""

    number: int
    """The number of the input, among those that are tensors."""
    dim: int
    what: str
    """Its name in messages."""

    @classmethod
    def of(cls, number: int, dim: int, name: str) -> InputSize:
        return cls(number, dim, f"dimension {dim} of the input '{name}'")


@dataclass(frozen=True)
class Guard:
    """A condition on the sizes of the inputs."""

    text: str
    """The condition as Python, with the names of the inputs."""
    expression: ast.expr
    sizes: Mapping[str, InputSize]
    """The sizes that it reads, by their text in the expression."""

    def holds(self, size: Callable[[InputSize], Any]) -> Any:
        """
        Whether it holds, for numbers or for arrays of sizes.

        Raises UnsupportedError if it has no value.
        """
        try:
            return self._value(self.expression, size)
        except (ValueError, IndexError, OverflowError) as error:
            raise UnsupportedError([unreadable(self.text)]) from error

    def holds_for(self, size: Callable[[InputSize], int]) -> bool:
        """Whether it holds; where it divides by zero, it does not."""
        try:
            return bool(self.holds(size))
        except ZeroDivisionError:
            return False

    def _value(self, node: ast.expr, size: Callable[[InputSize], Any]) -> Any:
        value = functools.partial(self._value, size=size)
        match node:
            case ast.Constant():
                return node.value
            case ast.Subscript():
                return size(self.sizes[ast.unparse(node)])
            case ast.UnaryOp():
                return OPERATORS[type(node.op)](value(node.operand))
            case ast.BinOp():
                return OPERATORS[type(node.op)](value(node.left), value(node.right))
            case ast.BoolOp():
                return functools.reduce(
                    OPERATORS[type(node.op)], map(value, node.values)
                )
            case ast.Compare():
                values = [value(node.left), *map(value, node.comparators)]
                pairs = zip(node.ops, values, values[1:], strict=False)
                each = [OPERATORS[type(op)](a, b) for op, a, b in pairs]
                return functools.reduce(np.logical_and, each)
            case ast.Call():
                return FUNCTIONS[ast.unparse(node.func)](*map(value, node.args))
            case _:
                raise KeyError(ast.unparse(node))


class GuardCheck:
    """Checks the sizes of tensors against the guards of a program."""

    def __init__(self, guards: Sequence[Guard]):
        self.guards = guards
        self._right: set[tuple[torch.Size, ...]] = set()

    def __call__(self, inputs: Sequence[torch.Tensor]) -> None:
        """Raise UsageError unless all guards hold."""
        if not self.guards:
            return
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes in self._right:
            return
        for guard in self.guards:
            if not guard.holds_for(lambda size: shapes[size.number][size.dim]):
                raise self._error(guard, shapes)
        if len(self._right) < MOST_REMEMBERED:
            self._right.add(shapes)

    def _error(self, guard: Guard, shapes: Sequence[torch.Size]) -> UsageError:
        found = " and ".join(
            f"{size.what} is {shapes[size.number][size.dim]}"
            for size in dict.fromkeys(guard.sizes.values())
        )
        found = found or "the inputs fit"
        return UsageError(
            f"{found}, but the model was exported where {guard.text}",
            hint="export it with an example of these sizes",
        )


def guards_of(ep: ExportedProgram, of_values: bool = True) -> list[Guard]:
    """
    The guards of a program, each once, and those that PyTorch lacks.

    Of these, the ones on numbers read from tensors are left out unless `of_values`.

    Raises UnsupportedError for a guard on something else than sizes of tensors, and
    UsageError where one that PyTorch lacks holds for no size.
    """
    inputs = input_numbers(ep)
    texts = dict.fromkeys(guards_code(ep))
    texts |= dict.fromkeys(limit_guards(ep, inputs, of_values))
    ranks = [tensor.dim() for tensor in input_tensors(ep)]
    guards = [read_guard(text, inputs) for text in texts]
    for guard in guards:
        if any(size.dim >= ranks[size.number] for size in guard.sizes.values()):
            raise UnsupportedError([unreadable(guard.text)])
    return guards


def guards_code(ep: ExportedProgram) -> list[str]:
    """The guards of a program in Python, as PyTorch writes them."""
    own: list[str] = getattr(ep, "_guards_code", None) or []
    if not (asserted := size_assertions(ep)):
        return own
    sources = sources_of_symbols(ep, input_numbers(ep))
    texts = (python(condition, sources) for condition in asserted.values())
    return list(dict.fromkeys([*own, *texts]))


def restore_guards(ep: ExportedProgram) -> list[str]:
    """
    Tell the symbols of a program its guards, which saved programs forget.

    Returns those that do not hold for the sizes of the example.
    """
    env = shape_env_of(ep)
    if env is None or env.guards:
        return []
    tensors, inputs = input_tensors(ep), input_numbers(ep)
    wrong: list[str] = []
    for text in guards_code(ep):
        # A guard that cannot be told is still checked at each call.
        with contextlib.suppress(Exception):
            guard = read_guard(text, inputs)
            if not guard.holds(lambda size: tensors[size.number].shape[size.dim]):
                wrong.append(text)
    return wrong


def limits_of(ep: ExportedProgram) -> list[Guard]:
    """The guards that PyTorch lacks, without those that padc cannot read."""
    return readable(ep, limit_guards(ep, input_numbers(ep)))


def readable(ep: ExportedProgram, texts: Iterable[str]) -> list[Guard]:
    """Those of the guards that padc can read."""
    inputs = input_numbers(ep)
    found: list[Guard] = []
    for text in texts:
        with contextlib.suppress(UnsupportedError):
            found.append(read_guard(text, inputs))
    return found


def input_tensors(ep: ExportedProgram) -> list[torch.Tensor]:
    """The inputs that are tensors, as the graph has them."""
    values = {node.name: node.meta.get("val") for node in ep.graph.nodes}
    found = [values.get(str(name)) for name in ep.graph_signature.user_inputs]
    return [value for value in found if isinstance(value, torch.Tensor)]


def shape_env_of(ep: ExportedProgram) -> ShapeEnv | None:
    """What PyTorch knows of the symbols; None if all inputs have known sizes."""
    for tensor in input_tensors(ep):
        for size in tensor.shape:
            if isinstance(size, torch.SymInt):
                return cast(ShapeEnv, size.node.shape_env)
    return None


def read_guard(text: str, inputs: Mapping[str, tuple[int, str]]) -> Guard:
    """The guard that a text describes; UnsupportedError if padc cannot read it."""
    try:
        check_guard(text)
        expression = ast.parse(text.strip(), mode="eval").body
        sizes = dict(input_sizes(expression, inputs))
        guard = Guard(shown(text, inputs), expression, sizes)
        guard.holds_for(lambda size: 2)
    except (UnsafeError, KeyError, TypeError) as error:
        raise UnsupportedError([unreadable(text)]) from error
    return guard


def unreadable(text: str) -> Problem:
    return Problem(
        f"the program holds only where {text}, which padc cannot check",
        hint="when exporting, give dynamic dimensions bounds or names, and leave "
        "numbers constant",
    )


def input_sizes(
    expression: ast.expr, inputs: Mapping[str, tuple[int, str]]
) -> Iterator[tuple[str, InputSize]]:
    """The sizes that a guard reads, `L['x'].size()[0]`, by their text."""
    for node in ast.walk(expression):
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size")),
                slice=ast.Constant(value=int() as dim),
            ):
                number, name = inputs[ast.unparse(source)]
                yield ast.unparse(node), InputSize.of(number, dim, name)
            case _:
                pass


def input_numbers(ep: ExportedProgram) -> Mapping[str, tuple[int, str]]:
    """The number and name of each tensor, by the texts that guards call it."""
    spec = ep.call_spec.in_spec
    assert spec is not None
    signature = ep.module_call_graph[0].signature
    arguments: Sequence[str] = getattr(signature, "forward_arg_names", None) or []
    values = {node.name: node.meta.get("val") for node in ep.graph.nodes}
    names = ep.graph_signature.user_inputs
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    found: dict[str, tuple[int, str]] = {}
    number = 0
    for (path, leaf), name in zip(
        pytree.tree_flatten_with_path(tree)[0], names, strict=True
    ):
        if not isinstance(values.get(str(name)), torch.Tensor):
            continue
        for source in sources(path, leaf, arguments):
            found[source] = number, str(name)
        number += 1
    return found


def sources(path: Any, leaf: int, arguments: Sequence[str]) -> Iterator[str]:
    """The names that a guard may have for the input at a path of the arguments."""
    yield f"L['flat_args'][{leaf}]"
    rest = pytree.keystr(path[2:])
    match path[1]:
        case pytree.MappingKey(key=key):
            yield f"L['{key}']{rest}"
        case pytree.SequenceKey(idx=index) if index < len(arguments):
            name = arguments[index]
            yield f"L['{name}']{rest}"
            base, _, place = name.rpartition("_")
            if place.isdigit():  # One of *args.
                yield f"L['{base}'][{place}]{rest}"
        case _:
            pass
