"""What inputs a program may be called with: those that it was exported for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineExpr,
    AffineSymExpr,
)
from xdsl.utils.hints import isa

from padc.backends.native.function import misfit
from padc.backends.native.signature import Parameter, dtype_name
from padc.errors import UsageError
from padc.ir.tcp import AnyTensor
from padc.ir.torch import BindSymbolicShapeOp, SymbolicIntOp, VTensorType

UNBOUNDED = 2**63 - 1


@dataclass(frozen=True)
class Symbol:
    """A size that inputs have in common, and its bounds."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Size:
    """A dimension of an input, as a function of symbols."""

    number: int
    """Which input."""
    dim: int
    what: str
    """It, to the user."""
    expr: AffineExpr
    symbols: Sequence[Symbol]

    @property
    def used(self) -> list[Symbol]:
        leaves = self.expr.dfs()
        places = {leaf.position for leaf in leaves if isinstance(leaf, AffineSymExpr)}
        return [self.symbols[place] for place in sorted(places)]

    @property
    def is_linear(self) -> bool:
        kinds = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)
        inner = [e for e in self.expr.dfs() if isinstance(e, AffineBinaryOpExpr)]
        return all(each.kind in kinds for each in inner)

    def value(self, known: Mapping[Symbol, int]) -> int:
        return self.expr.eval([], [known.get(symbol, 0) for symbol in self.symbols])

    def solve(
        self, known: Mapping[Symbol, int], size: int
    ) -> tuple[Symbol, int] | None:
        """
        The one symbol that is not known, with its value; None if this can't tell it.

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
    """The type of each input of a program, and how their sizes go together."""

    def __init__(self, function: func.FuncOp):
        arguments: list[SSAValue] = list(function.body.block.args)
        names = value_names(function.arg_attrs)
        self._parameters: list[tuple[str, Parameter]] = []
        for name, argument in zip(names, arguments, strict=True):
            type = argument.type
            assert isinstance(type, VTensorType) or isa(type, AnyTensor)
            shape = tuple(type.get_shape())
            self._parameters.append(
                (f"the input '{name}'", Parameter("input", dtype_name(type), shape))
            )
        self._sizes: list[Size] = []
        declared: dict[SSAValue, Symbol] = {}
        for op in function.body.block.ops:
            match op:
                case SymbolicIntOp():
                    low, high = op.min_val.value.data, op.max_val.value.data
                    name = op.symbol_name.data
                    declared[op.results[0]] = Symbol(name, low, high)
                case BindSymbolicShapeOp() if op.operand in arguments:
                    number = arguments.index(op.operand)
                    symbols = [declared[value] for value in op.shape_symbols]
                    for dim, expr in enumerate(op.shape_expressions.data.results):
                        what = f"dimension {dim} of the input '{names[number]}'"
                        size = Size(number, dim, what, expr, symbols)
                        if size.used:
                            self._sizes.append(size)
                case _:
                    pass

    def __call__(self, inputs: Sequence[Any]) -> None:
        """Raise UsageError unless `inputs` are tensors that the program takes."""
        for (what, parameter), value in zip(self._parameters, inputs, strict=True):
            if not parameter.fits(value):
                raise misfit(what, parameter, value)
        if not self._sizes:
            return
        known: dict[Symbol, int] = {}
        origins: dict[Symbol, str] = {}
        unsolved = self._sizes
        while unsolved:
            later: list[Size] = []
            for each in unsolved:
                size = inputs[each.number].shape[each.dim]
                solved = each.solve(known, size)
                if solved is None:
                    later.append(each)
                    continue
                symbol, value = solved
                check_bounds(each, symbol, size, known | {symbol: value})
                known[symbol] = value
                origins[symbol] = f"{each.what} is {size}"
            if len(later) == len(unsolved):
                break
            unsolved = later
        for each in self._sizes:
            if not all(symbol in known for symbol in each.used):
                continue
            expected, size = each.value(known), inputs[each.number].shape[each.dim]
            if size != expected:
                where = dict.fromkeys(origins[symbol] for symbol in each.used)
                raise UsageError(
                    f"{each.what} is {size}, but has to be {expected} where "
                    f"{' and '.join(where)}"
                )


def check_bounds(
    size: Size, symbol: Symbol, actual: int, known: Mapping[Symbol, int]
) -> None:
    """Raise UsageError unless `symbol`, as `size` gives it, is within its bounds."""
    if symbol.low <= known[symbol] <= symbol.high:
        return
    ends = [size.value({**known, symbol: end}) for end in (symbol.low, symbol.high)]
    upper = "or more" if symbol.high == UNBOUNDED else f"to {ends[1]}"
    raise UsageError(
        f"{size.what} is {actual}; the model was exported for {ends[0]} {upper}"
    )


def value_names(attributes: ArrayAttr[DictionaryAttr] | None) -> list[str]:
    """What `padc.name` calls the arguments or results with these attributes."""
    names = [each.data.get("padc.name") for each in attributes or ()]
    assert all(isinstance(name, StringAttr) for name in names)
    return [name.data for name in names if isinstance(name, StringAttr)]
