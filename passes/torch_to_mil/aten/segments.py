"""Reductions of segments: consecutive elements, of computed lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32

from padc.errors import Obstacle
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import positions, reshape
from padc.passes.torch_to_mil.aten.parts import part
from padc.passes.torch_to_mil.aten.reductions import reduce
from padc.passes.torch_to_mil.aten.tensor import Tensor

NEUTRAL = {"max": -math.inf, "mean": 0, "min": math.inf, "prod": 1, "sum": 0}
"""The neutral element of each reduction."""


@lowers("aten.segment_reduce")
def lower_segment_reduce(call: MilCall) -> Tensor:
    """
    The reduction of each segment, starting from the initial value if there is one.

    All elements are compared with the bounds of all segments. The mean of an empty
    segment is the initial value, or NaN without an initial value. PyTorch adds the
    initial value to the sum of a mean, too.
    """
    x, name = call.tensor("data"), str(call.constant("reduce"))
    dim = call.dim("axis", x.rank)
    starts, ends = bounds(call, dim)
    if DYNAMIC_INDEX in (*x.shape, *starts.shape):
        raise Obstacle("segments of a tensor of dynamic size", "give static sizes")
    batch, count = math.prod(x.shape[:dim]), starts.shape[dim]
    wanted = [*x.shape[:dim], count, *x.shape[dim + 1 :]]
    # Dimensions: batch, segment, element, the rest.
    x = reshape(x, [batch, 1, x.shape[dim], math.prod(x.shape[dim + 1 :])])
    first, last = (reshape(each, [batch, count, 1, 1]) for each in (starts, ends))
    place = positions(x, 2)
    inside = (place >= first) & (place < last)
    initial = call.number("initial") if call.has("initial") else None
    start = NEUTRAL[name] if initial is None else initial
    made = reduced(name, inside.select(x, NEUTRAL[name]), start)
    if name == "mean":
        number = reshape(last - first, [batch, count, 1])
        none = math.nan if initial is None else initial
        made = (number > 0).select(made / number.maximum(1).to(made.type), none)
    return reshape(made, wanted)


def reduced(name: str, x: Tensor, start: float) -> Tensor:
    """`x` reduced along dimension 2, beginning with `start`."""
    made = reduce("sum" if name == "mean" else name, x, [2], False)
    if start == NEUTRAL[name]:
        return made
    match name:
        case "max":
            return made.maximum(start)
        case "min":
            return made.minimum(start)
        case "prod":
            return made * start
        case _:
            return made + start


def bounds(call: MilCall, dim: int) -> Sequence[Tensor]:
    """The first element of each segment, and the one after its last."""
    if call.has("offsets"):
        x = call.tensor("offsets")
        count = x.shape[dim] - 1
        return part(x, dim, 0, -1, 1, count), part(x, dim, 1, None, 1, count)
    if not call.has("lengths"):
        raise Obstacle("segments that are given by indices", "give lengths or offsets")
    x = call.tensor("lengths")
    ends = x.emit("cumsum", x.shape, i32, x=x, axis=dim)
    return ends - x, ends
