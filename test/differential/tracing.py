# pyright: basic
"""PyTorch's graph of a program: with symbolic sizes if the program has dynamic ones."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import sympy
import torch
from differential.program import Link, Program, Ref, mapped, resolved
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StrictMinMaxConstraint,
)
from torch.utils._sympy.value_ranges import ValueRanges

from padc.frontends.torch_export.decompositions import below_autograd
from padc.frontends.torch_export.types import expression_of

aten = torch.ops.aten


class SpecializedError(Exception):
    """PyTorch takes a size for a constant, or cannot trace the program."""


class Trace:
    """A program run on tensors without data, whose sizes may be symbols."""

    def __init__(self, program: Program, keys: Sequence[Sequence[Hashable]]):
        """
        `keys` tell for each size of each input which symbol it is; None for a constant.

        Raises SpecializedError if PyTorch cannot run the program without data.
        """
        self.env = ShapeEnv(duck_shape=False)
        self.symbols: dict[Any, Any] = {}
        self.runs = program.runs
        with FakeTensorMode(shape_env=self.env), torch.no_grad(), below_autograd():
            self.values: list[Tensor] = [
                torch.empty(self.shape(i, keys[i]), dtype=x.dtype)
                for i, x in enumerate(program.inputs)
            ]
            try:
                for call in program.calls:
                    args = resolved(call.args, self.values)
                    self.values.append(call.target(*args))
            except Exception as error:
                raise SpecializedError(str(error)) from error

    def shape(self, number: int, keys: Sequence[Hashable]) -> list[int | torch.SymInt]:
        sizes = [
            [run[number].shape[dim] for run in self.runs] for dim in range(len(keys))
        ]
        return [
            # PyTorch makes no symbols of sizes below 2.
            some[0] if key is None or some[0] < 2 else self.symbol(key, some)
            for key, some in zip(keys, sizes, strict=True)
        ]

    def symbol(self, key: Hashable, sizes: Sequence[int]) -> torch.SymInt:
        """The symbol of `key`, which has these sizes in the runs."""
        if key not in self.symbols:
            # Loading it takes a second.
            from torch._dynamo.source import ConstantSource

            source = ConstantSource(f"size_{len(self.symbols)}")
            bounds = ValueRanges(min(sizes), max(sizes)) if len(sizes) > 1 else None
            symbol = self.env.create_symbol(
                sizes[0],
                source,
                DimDynamic.DYNAMIC,
                bounds and StrictMinMaxConstraint(vr=bounds, warn_only=False),
            )
            self.symbols[key] = self.env.create_symintnode(
                symbol, hint=sizes[0], source=source
            )
        return self.symbols[key]

    def holds_for(self, sizes: Mapping[sympy.Symbol, sympy.Integer]) -> bool:
        """Whether PyTorch would trace the same graph for other sizes."""
        try:
            return all(
                guard.expr.xreplace(sizes) == sympy.true for guard in self.env.guards
            )
        except (ZeroDivisionError, AssertionError):
            return False  # It divides by zero, or PyTorch's Mod gets a negative number.

    def has_shapes_of(
        self, values: Sequence[Tensor], sizes: Mapping[sympy.Symbol, sympy.Integer]
    ) -> bool:
        """Whether values have the traced shapes; a size of 1 may be broadcast."""
        return all(
            expression_of(size).xreplace(sizes) == known
            for traced, value in zip(self.values, values, strict=True)
            for size, known in zip(traced.shape, value.shape, strict=True)
        )


def dynamic_sizes(program: Program) -> list[list[tuple[int, ...] | None]]:
    """For each size of each input its values in the runs; None if they are equal."""
    return [
        [
            tuple(sizes) if len(set(sizes)) > 1 else None
            for sizes in zip(*(x.shape for x in same), strict=True)
        ]
        for same in zip(*program.runs, strict=True)
    ]


def graph_of(program: Program) -> tuple[Graph, Any]:
    """
    The graph of calls with the types of its values, and the range of each symbol.

    Raises SpecializedError if PyTorch's graph does not hold for all runs.
    """
    values: Sequence[Any] = program.values()
    ranges: Any = {}
    if len(program.runs) > 1:
        trace = Trace(program, dynamic_sizes(program))
        check(trace, program)
        values, ranges = trace.values, dict(trace.env.var_to_range)
        for key, symbol in trace.symbols.items():
            # PyTorch's ranges begin at 2, whatever is asked for.
            if (least := min(key)) < 2:
                name = symbol.node._expr
                ranges[name] = ValueRanges(least, ranges[name].upper)
    graph, nodes = Graph(), []
    for number in range(len(program.inputs)):
        nodes.append(graph.placeholder(f"x{number}"))
    known: dict[Link, Any] = {}

    def node(link: Link) -> Any:
        if isinstance(link, Ref):
            return nodes[link.number]
        size = values[link.number].shape[link.dim]
        if isinstance(size, int):
            return size
        if link not in known:
            given = nodes[link.number], link.dim
            known[link] = graph.call_function(aten.sym_size.int, given)
            known[link].meta["val"] = size
        return known[link]

    for call in program.calls:
        nodes.append(graph.call_function(call.target, mapped(call.args, node)))
    for each, value in zip(nodes, values, strict=True):
        each.meta["val"] = value
    graph.output(tuple(nodes[number] for number in program.outputs))
    return graph, ranges


def check(trace: Trace, program: Program) -> None:
    """Raise SpecializedError unless all symbols may have their values in all runs."""
    dynamic = set(filter(None, itertools.chain(*dynamic_sizes(program))))
    if trace.symbols.keys() != dynamic or any(key[0] < 2 for key in dynamic):
        raise SpecializedError("a dynamic size is below 2")
    for run in range(len(program.runs)):
        sizes = {}
        for key, symbol in trace.symbols.items():
            if isinstance(expression_of(symbol), sympy.Integer):
                raise SpecializedError(f"{key} is {symbol}")
            sizes[symbol.node._expr] = sympy.Integer(key[run])
        if not trace.holds_for(sizes):
            raise SpecializedError(str(trace.env.guards))
        if not trace.has_shapes_of(program.values(run), sizes):
            raise SpecializedError("a size of 1 is broadcast")
