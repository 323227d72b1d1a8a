"""Distances between rows."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.ir.mil import MAX_RANK
from padc.passes.torch_to_mil.aten.contraction import matmul, total
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import expand_dims
from padc.passes.torch_to_mil.aten.reductions import norm
from padc.passes.torch_to_mil.aten.tensor import Tensor


@lowers("aten.cdist", "aten._cdist_forward")
def lower_cdist(call: MilCall) -> Tensor:
    """
    The p-norm of the difference of each row of `x1` and each of `x2`.

    Euclidean distances are products of matrices where PyTorch computes them so: from 26
    rows on, or if compute_mode is 1.
    """
    x1, x2 = pair(call, "x1", "x2")
    p, mode = call.number("p"), call.constant("compute_mode")
    rows = (x1.shape[-2], x2.shape[-2])
    if p == 2 and (mode == 1 or (mode != 2 and max(rows) > 25)):
        return euclidean(x1, x2)
    if max(x1.rank, x2.rank) + 1 > MAX_RANK:
        raise Obstacle(
            f"cdist of tensors of rank {max(x1.rank, x2.rank)}: the differences have a "
            f"dimension more, and Core ML's tensors have rank {MAX_RANK} at most",
            "join the dimensions of the batch",
        )
    difference = expand_dims(x1, [x1.rank - 1]) - expand_dims(x2, [x2.rank - 2])
    return norm(difference, p, [difference.rank - 1], False)


@lowers("aten._euclidean_dist")
def lower_euclidean(call: MilCall) -> Tensor:
    return euclidean(*pair(call, "x1", "x2"))


def pair(call: MilCall, *names: str) -> tuple[Tensor, Tensor]:
    """Two tensors in the type in which PyTorch computes."""
    type = wide(call.result_element_type())
    a, b = (call.tensor(name).to(type) for name in names)
    return a, b


def euclidean(a: Tensor, b: Tensor) -> Tensor:
    """`sqrt(max(|a|^2 + |b|^2 - 2 a.b, 0))`, since rounding may give less than 0."""
    squares = [total(x.unary("square"), [x.rank - 1]) for x in (a, b)]
    sums = expand_dims(squares[0], [a.rank - 1]) + expand_dims(squares[1], [b.rank - 2])
    square = sums + matmul(a * -2, b, transpose_y=True)
    return square.maximum(0).unary("sqrt")


@lowers("aten.pdist", "aten._pdist_forward")
def lower_pdist(call: MilCall) -> Tensor:
    """The p-norm of the difference of each row and each later one."""
    x = call.tensor("self")
    x = x.to(wide(x.type))
    count = x.shape[0]
    if count == DYNAMIC_INDEX:
        raise Obstacle("pdist of a dynamic number of rows", "use torch.cdist")
    if count < 2:
        raise Obstacle("pdist of one row has no elements", "leave it out")
    first, second = (
        x.emit(
            "gather",
            [len(rows), x.shape[1]],
            x=x,
            indices=x.build.constant(rows.astype(np.int32)),
            axis=0,
        )
        for rows in np.triu_indices(count, 1)
    )
    return norm(first - second, call.number("p"), [1], False)


@lowers("aten.pairwise_distance")
def lower_pairwise_distance(call: MilCall) -> Tensor:
    x1, x2 = pair(call, "x1", "x2")
    difference = x1 - x2 + call.number("eps")
    keepdim = call.boolean("keepdim")
    return norm(difference, call.number("p"), [difference.rank - 1], keepdim)
