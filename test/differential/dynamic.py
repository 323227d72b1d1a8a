# pyright: basic
"""Other sizes for a program's inputs, found by tracing it with all sizes symbolic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy
import torch
from differential.draw import Draw
from differential.ops import wraps
from differential.program import REFUSALS, Program
from differential.tracing import SpecializedError, Trace, graph_of
from torch import Tensor

from padc.frontends.torch_export.types import expression_of

SIZES = (*range(2, 10), *range(2, 10), 0, 1, 1, 1, 12, 17, 33)
"""
Dynamic sizes, the usual ones more often.

In the first run, all are 2 or more: PyTorch takes 0 and 1 for constants.
"""


def varied(draw: Draw, program: Program) -> Program:
    """`program` with one or two further runs; itself if its sizes are constants."""
    keys = [
        [None if i in program.held else (i, dim) for dim in range(x.dim())]
        for i, x in enumerate(program.inputs)
    ]
    try:
        trace = Trace(program, keys)
    except SpecializedError:
        return program
    expressions = {key: expression_of(size) for key, size in trace.symbols.items()}
    free = sorted(
        {each for each in expressions.values() if isinstance(each, sympy.Symbol)},
        key=str,
    )
    if not free:
        return program
    chosen = draw.random.sample(free, min(len(free), draw.integer(1, 2)))
    hints = {
        symbol: int(trace.symbols[key].node.hint)
        for key, symbol in expressions.items()
        if symbol in free
    }
    runs = [program.inputs]
    for _ in range(8):
        drawn = {symbol: draw.choice(SIZES) for symbol in chosen}
        other = {k: sympy.Integer(n) for k, n in (hints | drawn).items()}
        inputs = resized(draw, program, trace, expressions, other)
        if inputs is not None:
            runs.append(inputs)
        if len(runs) == 3:
            break
    result = replace(program, runs=runs, _values={})
    try:
        graph_of(result)
    except SpecializedError:
        return program
    return result


def resized(
    draw: Draw,
    program: Program,
    trace: Trace,
    expressions: Mapping[Any, sympy.Expr],
    sizes: Mapping[Any, Any],
) -> list[Tensor] | None:
    """Inputs of these sizes; None if the program does not take them."""
    shapes = [list(x.shape) for x in program.inputs]
    found: dict[Any, Any] = {}
    for key, expression in expressions.items():
        size = expression.xreplace(sizes)
        if not isinstance(size, sympy.Integer) or size < 0:
            return None
        number, dim = key
        shapes[number][dim] = int(size)
        found[trace.symbols[key].node._expr] = size
    if not trace.holds_for(found):
        return None
    inputs = [
        x if list(x.shape) == shape else draw.numbers(shape, x.dtype)
        for x, shape in zip(program.inputs, shapes, strict=True)
    ]
    try:
        values = Program([inputs], program.calls, []).values()
    except REFUSALS:
        return None
    if not trace.has_shapes_of(values, found):
        return None
    if any(x.numel() > draw.most_elements for x in values):
        return None
    for call in program.calls:
        if call.target == torch.ops.aten.pad.default and "circular" in call.args:
            x, amounts, *_ = call.args
            if not wraps(values[x.number].shape[::-1], amounts):
                return None
    return inputs
