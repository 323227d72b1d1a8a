# pyright: basic
"""
Which op of a program made PyTorch decide on sizes as a guard says.

PyTorch says at which line of its own it decided, not for which op. So the program is
run again, without data, on symbols that nothing is known of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Node, map_arg
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StrictMinMaxConstraint,
)
from torch.utils._sympy.value_ranges import ValueRanges

from padc.frontends.torch_export.guards import Guard, input_tensors
from padc.frontends.torch_export.types import expression_of


def deciding_ops(ep: ExportedProgram, guard: Guard) -> list[Node]:
    """The ops that decide what a guard says; empty if that cannot be told."""
    # It serves a message only, and programs in files may be odd.
    with contextlib.suppress(Exception):
        env = ShapeEnv(duck_shape=False)
        again, tensors = Symbols(ep, env), input_tensors(ep)
        wanted = guard.holds(
            lambda size: again.size(tensors[size.number].shape[size.dim])
        ).node.expr
        with FakeTensorMode(shape_env=env), torch.no_grad():
            decided = decisions(ep, env, again)
        return [node for node, condition in decided if condition == wanted]
    return []


def first_ops_of_size(
    ep: ExportedProgram, conditions: Sequence[sympy.Basic]
) -> list[Node]:
    """
    The first op that returns a size that a condition contains; empty if none does.

    PyTorch also decides while it copies results, where no op asks for a decision.
    """
    for node in ep.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            for size in value.shape if isinstance(value, torch.Tensor) else ():
                made: Any = expression_of(size)
                is_new = made.free_symbols and not made.is_Symbol
                if is_new and any(condition.has(made) for condition in conditions):
                    return [node]
    return []


def decisions(
    ep: ExportedProgram, env: ShapeEnv, again: Symbols
) -> list[tuple[Node, sympy.Basic]]:
    """Ops, with the conditions that each of them decides, until one cannot be run."""
    found: list[tuple[Node, sympy.Basic]] = []
    values: dict[Node, Any] = {}
    for node in ep.graph.nodes:
        if returns_tensors(node.target):
            count = len(env.guards)
            try:
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
            except Exception:
                break
            found += [(node, guard.expr) for guard in env.guards[count:]]
        else:
            # Numbers are not computed again: those in a file may be huge.
            values[node] = pytree.tree_map(again.value, node.meta.get("val"))
    return found


def returns_tensors(target: Any) -> bool:
    """Whether an op returns tensors, or lists of them."""
    returns = target._schema.returns if isinstance(target, OpOverload) else []
    return bool(returns) and all("Tensor" in str(each.type) for each in returns)


class Symbols:
    """A new symbol for each one of a program."""

    def __init__(self, ep: ExportedProgram, env: ShapeEnv):
        self._env, self._ranges = env, ep.range_constraints
        sizes = example_sizes(input_tensors(ep))
        self._new = {symbol: self._symbol(symbol, n) for symbol, n in sizes.items()}

    def value(self, x: Any) -> Any:
        """The same value without data, and of sizes with new symbols."""
        if isinstance(x, torch.Tensor):
            return torch.empty(list(map(self.size, x.shape)), dtype=x.dtype)
        return self.size(x) if isinstance(x, torch.SymInt) else x

    def size(self, size: Any) -> Any:
        """A size with new symbols."""
        expression = expression_of(size)
        if isinstance(expression, sympy.Integer):
            return int(expression)
        new: Any = expression.xreplace(self._new)
        return self._env.create_symintnode(new, hint=int(size.node.hint))

    def _symbol(self, old: sympy.Symbol, hint: int) -> sympy.Symbol:
        # Loading it takes a second.
        from torch._dynamo.source import ConstantSource

        given = self._ranges[old]
        bounds = ValueRanges(given.lower, given.upper)
        limits = StrictMinMaxConstraint(vr=bounds, warn_only=False)
        source = ConstantSource(str(old))
        new = self._env.create_symbol(hint, source, DimDynamic.DYNAMIC, limits)
        assert isinstance(new, sympy.Symbol)
        return new


def example_sizes(tensors: Sequence[torch.Tensor]) -> Mapping[sympy.Symbol, int]:
    """The values of symbols that the example inputs have, as far as they are known."""
    found: dict[sympy.Symbol, int] = {}
    for tensor in tensors:
        for size in tensor.shape:
            found |= value_of_symbol(size)
    return found


def value_of_symbol(size: Any) -> Mapping[sympy.Symbol, int]:
    """The symbol of a size that is a multiple of one and a number, and its value."""
    expression: Any = expression_of(size)
    if len(expression.free_symbols) != 1 or (hint := size.node.hint) is None:
        return {}
    (symbol,) = expression.free_symbols
    factor, more = expression.coeff(symbol), expression.subs(symbol, 0)
    if expression != factor * symbol + more:
        return {}
    return {symbol: int((hint - more) // factor)}
