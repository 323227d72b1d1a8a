# pyright: basic
"""Symbolic sizes of arguments: their symbols, bounds, and shapes in terms of them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from padc.errors import Obstacle
from padc.frontends.torch_export.function_builder import FunctionBuilder, named
from padc.frontends.torch_export.types import expression_of
from padc.ir import torch as torch_d

INT64_MAX = 2**63 - 1


class SymbolicSizes:
    """Declares the symbols of the arguments' sizes in a function."""

    def __init__(self, function: FunctionBuilder, bounds: Mapping[sympy.Symbol, Any]):
        self.function = function
        self.bounds = bounds
        self.symbols: dict[sympy.Symbol, SSAValue] = {}

    def declare(self, size: int | torch.SymInt) -> None:
        """Declare the symbols of a size, each once."""
        symbols = cast(set[sympy.Symbol], expression_of(size).free_symbols)
        for symbol in sorted(symbols - self.symbols.keys(), key=str):
            op = torch_d.SymbolicIntOp(str(symbol), *self.bounds_of(symbol))
            result = self.function.add(op).results[0]
            self.symbols[symbol] = named(result, str(symbol))

    def bounds_of(self, symbol: sympy.Symbol) -> tuple[int, int]:
        """The smallest and largest value of a symbol."""
        low, high = 0, INT64_MAX
        if (bounds := self.bounds.get(symbol)) is not None:
            # PyTorch's integer infinities stand for missing bounds.
            low, high = int(max(bounds.lower, low)), int(min(bounds.upper, high))
        return low, high

    def bind(self, argument: SSAValue, shape: Sequence[int | torch.SymInt]) -> None:
        """
        Say which sizes of `argument` the declared symbols are.

        Raises Obstacle if a size is not affine in the symbols.
        """
        expressions = [expression_of(size) for size in shape]
        used = [s for s in self.symbols if any(e.has(s) for e in expressions)]
        if not used:
            return
        results = tuple(as_affine(e, used) for e in expressions)
        map = AffineMapAttr(AffineMap(0, len(used), results))
        symbols = [self.symbols[symbol] for symbol in used]
        self.function.add(torch_d.BindSymbolicShapeOp(argument, symbols, map))


def as_affine(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> AffineExpr:
    """A size as an affine expression of symbols; raises Obstacle if it is not one."""
    parts = [
        as_affine(part, symbols)
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
        case sympy.Mul() if sum(bool(x.free_symbols) for x in expression.args) == 1:
            return functools.reduce(operator.mul, parts)
        case FloorDiv():
            return parts[0] // parts[1]
        case Mod() | PythonMod():
            return parts[0] % parts[1]
        case _:
            raise Obstacle(f"an input whose size is {expression}")
