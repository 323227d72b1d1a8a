# pyright: basic
"""
Which ops of a program made PyTorch decide on sizes.

PyTorch says at which line of its own it decided, not for which op. So the program is
run again, without data, on symbols that nothing is known of.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Node, map_arg
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StrictMinMaxConstraint,
)
from torch.utils._sympy.value_ranges import ValueRanges

from padc.frontends.torch_export.types import expression_of


def deciding_ops(ep: ExportedProgram) -> Iterator[tuple[Node, Set[sympy.Symbol]]]:
    """Ops, and the symbols of `ep` that each of their decisions depends on."""
    env = ShapeEnv(duck_shape=False)
    again = Symbols(ep, env)
    values: dict[Node, Any] = {}
    with FakeTensorMode(shape_env=env), torch.no_grad():
        for node in ep.graph.nodes:
            if node.op == "placeholder":
                values[node] = pytree.tree_map(again.value, node.meta.get("val"))
            elif node.op == "call_function":
                known = len(env.guards)
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                try:
                    values[node] = node.target(*args, **kwargs)
                except Exception:
                    return  # It depends on values, or runs a graph.
                for guard in env.guards[known:]:
                    yield node, again.old(guard.expr)


class Symbols:
    """A new symbol for each one of a program."""

    def __init__(self, ep: ExportedProgram, env: ShapeEnv):
        self._env, self._ranges = env, ep.range_constraints
        self._new: dict[sympy.Symbol, Any] = {}

    def value(self, x: Any) -> Any:
        """The same value without data, and of sizes with new symbols."""
        if isinstance(x, torch.Tensor):
            return torch.empty(list(map(self.size, x.shape)), dtype=x.dtype)
        return self.size(x) if isinstance(x, torch.SymInt) else x

    def size(self, size: Any) -> Any:
        """A size, which is a number, or a multiple of a symbol and a number."""
        expression: Any = expression_of(size)
        if isinstance(expression, sympy.Integer):
            return int(expression)
        (symbol,) = expression.free_symbols
        factor, more = int(expression.coeff(symbol)), int(expression.subs(symbol, 0))
        if symbol not in self._new:
            hint = (size.node.hint - more) // factor
            self._new[symbol] = self._symbol(str(symbol), hint, self._ranges[symbol])
        return factor * self._new[symbol] + more

    def _symbol(self, name: str, hint: int, range: Any) -> Any:
        # Loading it takes a second.
        from torch._dynamo.source import ConstantSource

        source, bounds = ConstantSource(name), ValueRanges(range.lower, range.upper)
        limits = StrictMinMaxConstraint(vr=bounds, warn_only=False)
        symbol = self._env.create_symbol(hint, source, DimDynamic.DYNAMIC, limits)
        return self._env.create_symintnode(symbol, hint=hint, source=source)

    def old(self, expression: Any) -> Set[sympy.Symbol]:
        """The symbols of the program in an expression of new ones."""
        return {
            old
            for old, new in self._new.items()
            if new.node._expr in expression.free_symbols
        }
