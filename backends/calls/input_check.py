"""Which inputs a program takes: the types and sizes that it was exported for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdsl.dialects import func
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineExpr,
    AffineSymExpr,
)

from padc.backends.calls.parameters import Parameter, misfit
from padc.errors import UsageError
from padc.ir.main_function import value_names
from padc.ir.torch import BindSymbolicShapeOp, SymbolicIntOp, is_any_tensor
from padc.ir.torch.tensors import dtype_name

UNBOUNDED = 2**63 - 1


@dataclass(frozen=True)
class Symbol:
    """A symbolic size of the inputs, and its bounds (both included)."""

    name: str
    low: int
    high: int
    reason: str
    """Why it may not be lower; empty if the user said so."""


@dataclass(frozen=True, eq=False)
class Size:
    """The size of one dimension of an input, as a function of symbols."""

    number: int
    """The number of the input."""
    dim: int
    what: str
    """Its name in messages."""
    expr: AffineExpr
    symbols: Sequence[Symbol]

    @cached_property
    def used(self) -> list[Symbol]:
        """The symbols in the expression."""
        leaves = self.expr.dfs()
        places = {leaf.position for leaf in leaves if isinstance(leaf, AffineSymExpr)}
        return [self.symbols[place] for place in sorted(places)]

    @cached_property
    def is_linear(self) -> bool:
        """Whether the expression has only sums and products."""
        kinds = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)
        inner = [e for e in self.expr.dfs() if isinstance(e, AffineBinaryOpExpr)]
        return all(each.kind in kinds for each in inner)

    def value(self, known: Mapping[Symbol, int]) -> int:
        """The size for these values of symbols; unknown symbols count as 0."""
        return self.expr.eval([], [known.get(symbol, 0) for symbol in self.symbols])

    def solve(
        self, known: Mapping[Symbol, int], size: int
    ) -> tuple[Symbol, int] | None:
        """
        The one unknown symbol and its value; None if this size cannot tell it.

        Raises UsageError where no value gives `size`.
        """
        unknown = [symbol for symbol in self.used if symbol not in known]
        if len(unknown) != 1 or not self.is_linear:
            return None
        (symbol,) = unknown
        offset = self.value({**known, symbol: 0})
        factor = self.value({**known, symbol: 1}) - offset
        value, remainder = divmod(size - offset, factor)
        if remainder:
            more = f"{offset} more than " if offset else ""
            raise UsageError(
                f"{self.what} is {size}, but has to be {more}a multiple of {factor}"
            )
        return symbol, value


class InputCheck:
    """Checks inputs against the types of a function's arguments and their symbols."""

    def __init__(self, function: func.FuncOp):
        names = value_names(function.arg_attrs)
        self._parameters = [
            (f"the input '{name}'", parameter_of(argument.type))
            for name, argument in zip(names, function.body.block.args, strict=True)
        ]
        self._sizes = symbolic_sizes(function, names)

    def __call__(self, inputs: Sequence[Any]) -> None:
        """Raise UsageError unless `inputs` are tensors that the function takes."""
        for (what, parameter), value in zip(self._parameters, inputs, strict=True):
            if not parameter.fits(value):
                raise misfit(what, parameter, value)
        if self._sizes:
            check_sizes(self._sizes, inputs)


def parameter_of(type: Attribute) -> Parameter:
    """The parameter for a tensor type of the torch or the tcp level."""
    assert is_any_tensor(type)
    return Parameter("input", dtype_name(type), tuple(type.get_shape()))


def symbolic_sizes(function: func.FuncOp, names: Sequence[str]) -> list[Size]:
    """The sizes of the arguments that depend on symbols."""
    arguments: list[SSAValue] = list(function.body.block.args)
    sizes: list[Size] = []
    declared: dict[SSAValue, Symbol] = {}
    for op in function.body.block.ops:
        match op:
            case SymbolicIntOp():
                low, high = op.min_val.value.data, op.max_val.value.data
                reason = "" if op.reason is None else op.reason.data
                symbol = Symbol(op.symbol_name.data, low, high, reason)
                declared[op.results[0]] = symbol
            case BindSymbolicShapeOp() if op.operand in arguments:
                number = arguments.index(op.operand)
                symbols = [declared[value] for value in op.shape_symbols]
                for dim, expr in enumerate(op.shape_expressions.data.results):
                    what = f"dimension {dim} of the input '{names[number]}'"
                    sizes.append(Size(number, dim, what, expr, symbols))
            case _:
                pass
    return [size for size in sizes if size.used]


def check_sizes(sizes: Sequence[Size], inputs: Sequence[Any]) -> None:
    """
    Raise UsageError unless the symbols have values that give the inputs' sizes.

    Each size with one unknown symbol gives its value, until no size does. Then all
    sizes of known symbols have to be as their expressions say.
    """
    actual = {each: inputs[each.number].shape[each.dim] for each in sizes}
    known: dict[Symbol, int] = {}
    origins: dict[Symbol, str] = {}
    unsolved = sizes
    while unsolved:
        later: list[Size] = []
        for each in unsolved:
            solved = each.solve(known, actual[each])
            if solved is None:
                later.append(each)
                continue
            symbol, value = solved
            check_bounds(each, symbol, actual[each], known | {symbol: value})
            known[symbol] = value
            origins[symbol] = f"{each.what} is {actual[each]}"
        if len(later) == len(unsolved):
            break
        unsolved = later
    for each in sizes:
        if not all(symbol in known for symbol in each.used):
            continue
        expected = each.value(known)
        if actual[each] != expected:
            where = dict.fromkeys(origins[symbol] for symbol in each.used)
            raise UsageError(
                f"{each.what} is {actual[each]}, but has to be {expected} where "
                f"{' and '.join(where)}"
            )


def check_bounds(
    size: Size, symbol: Symbol, actual: int, known: Mapping[Symbol, int]
) -> None:
    """Raise UsageError unless the value of `symbol`, found by `size`, is in bounds."""
    if symbol.low <= known[symbol] <= symbol.high:
        return
    ends = [size.value({**known, symbol: end}) for end in (symbol.low, symbol.high)]
    upper = "or more" if symbol.high == UNBOUNDED else f"to {ends[1]}"
    raise UsageError(
        f"{size.what} is {actual}; the model was exported for {ends[0]} {upper}"
        + (f": {symbol.reason}" if symbol.reason else "")
    )
