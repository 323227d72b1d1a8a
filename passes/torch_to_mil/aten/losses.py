"""Losses that PyTorch does not decompose, or decomposes wrongly."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, i1, i32

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.passes.torch_to_mil.aten.indices import gathered, gathered_along
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import expand_dims, positions, reshape
from padc.passes.torch_to_mil.aten.reductions import reduce
from padc.passes.torch_to_mil.aten.tensor import Tensor

NONE, MEAN = 0, 1
"""The numbers of `reduction`."""


@lowers("aten.multilabel_margin_loss", "aten.multilabel_margin_loss_forward")
def lower_multilabel_margin_loss(call: MilCall) -> list[Tensor]:
    """
    The sum of max(0, 1 - (x[t] - x[c])), divided by the number of classes.

    Here t are the targets, and c the classes that are not targets. The targets of a row
    are those before the first negative one. PyTorch 2.13's decomposition gives other
    numbers.
    """
    x, target = call.tensor("self"), call.tensor("target")
    if DYNAMIC_INDEX in x.shape:
        raise Obstacle("a number of rows or classes that varies", "give static sizes")
    if x.rank < 2 and call.integer("reduction") == NONE:
        raise wrong_shape("give the input and the target two dimensions")
    classes = x.shape[-1] if x.rank else 1
    count = x.shape[0] if x.rank == 2 else 1
    batch = list(x.shape[:-1])
    original = target.shape
    x = reshape(x, [count, classes]).to(wide(x.type))
    target = reshape(target, [count, classes])
    is_end = (target < 0).to(i32)
    is_given = is_end.emit("cumsum", is_end.shape, x=is_end, axis=1).equals(0)
    at_targets = expand_dims(gathered_along(x, target.maximum(0), 1), [2])
    columns = positions(expand_dims(x, [1]), 2)
    given = expand_dims(is_given, [2])
    matches = (expand_dims(target, [2]).equals(columns) & given).to(i32)
    is_target = reduce("max", matches, [1], False)
    others = expand_dims(is_target.equals(0), [1])
    terms = (1 - at_targets + expand_dims(x, [1])).maximum(0)
    counted = (given & others).to(i1).select(terms, 0)
    loss = reduce("sum", counted, [1, 2], False) / classes
    results = [
        averaged(call, reshape(loss, batch)),
        reshape(is_target, list(original)),
    ]
    return results[: len(call.op.results)]


def wrong_shape(hint: str) -> Obstacle:
    return Obstacle("torch.export gives its result the shape [1], eager mode []", hint)


def averaged(call: MilCall, loss: Tensor) -> Tensor:
    """The losses, their mean or their sum, as `reduction` says."""
    reduction = call.integer("reduction")
    if reduction == NONE:
        return loss
    name = "mean" if reduction == MEAN else "sum"
    return reduce(name, loss, list(range(loss.rank)), False)


@lowers("aten.multi_margin_loss")
def lower_multi_margin_loss(call: MilCall) -> Tensor:
    """
    The sum of weight[t] max(0, margin - x[t] + x[c])^p over the classes c except t.

    The sum is divided by the number of classes. PyTorch's decomposition does not take a
    target of rank 0.
    """
    x, target = call.tensor("self"), call.tensor("target")
    if not target.rank and call.integer("reduction") == NONE:
        raise wrong_shape("give the target the shape [1]")
    x = (x if x.rank == 2 else reshape(x, [1, -1])).to(wide(x.type))
    target = target if target.rank else expand_dims(target, [0])
    classes = x.shape[1]
    if DYNAMIC_INDEX in x.shape:
        raise Obstacle("a number of rows or classes that varies", "give static sizes")
    column = expand_dims(target, [1])
    terms = (call.number("margin") - gathered_along(x, column, 1) + x).maximum(0)
    if call.number("p") == 2:
        terms = terms * terms
    terms = column.equals(positions(x, 1)).select(0, terms)
    loss = reduce("sum", terms, [1], False) / classes
    if call.has("weight"):
        loss = loss * gathered(call.tensor("weight").to(x.type), target, 0)
    return reshape(averaged(call, loss), call.result_shape())
