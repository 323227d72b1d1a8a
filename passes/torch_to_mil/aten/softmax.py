"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from padc.ir.element_types import wide
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import expand_dims, squeeze
from padc.passes.torch_to_mil.aten.reductions import (
    keeps,
    reduce,
    reduced_dims,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor


def softmax(x: Tensor, dim: int) -> Tensor:
    """Core ML's softmax; NaN where all elements are minus infinity, as in PyTorch."""
    if not x.rank:
        return squeeze(softmax(expand_dims(x, [0]), 0), [0])
    return x.emit("softmax", x.shape, x=x, axis=dim)


@lowers("aten.softmax.int", "aten._softmax", "aten.special_softmax")
def lower_softmax(call: MilCall) -> Tensor:
    """The operand is converted to the result type first: `dtype`, or half to float."""
    x = call.tensor("self").to(call.result_element_type())
    return softmax(x, call.dim("dim", x.rank))


@lowers("aten._safe_softmax")
def lower_safe_softmax(call: MilCall) -> Tensor:
    """0 where all elements are minus infinity."""
    x = call.tensor("self").to(call.result_element_type())
    most = reduce("max", x, reduced_dims(call, x), True)
    return most.equals(-math.inf).select(0, softmax(x, call.dim("dim", x.rank)))


@lowers("aten.log_softmax.int", "aten._log_softmax", "aten.special_log_softmax")
def lower_log_softmax(call: MilCall) -> Tensor:
    """
    (x - max) - log(sum(exp(x - max))), which holds where softmax is 0.

    Along the last dimension, PyTorch rounds the sum and its logarithm.
    """
    result = call.result_element_type()
    x = call.tensor("self").to(result).to(wide(result))
    dims = reduced_dims(call, x)
    step = result if dims == [x.rank - 1] else x.type
    shifted = x - reduce("max", x, dims, True)
    total = reduce("sum", shifted.apply("exp"), dims, True)
    return shifted - total.to(step).apply("log").to(x.type)


def logsumexp(x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """
    log(sum(exp(x - max))) + max, where a max that is not finite counts as 0.

    PyTorch rounds each step to the type of `x`. Core ML does not document that its
    `reduce_log_sum_exp` subtracts the greatest.
    """
    most = reduce("max", x, dims, True)
    shift = abs(most).equals(math.inf).select(0, most)
    powers = (x - shift).apply("exp").to(wide(x.type))
    total = reduce("sum", powers, dims, keepdim).to(x.type)
    return total.apply("log") + (shift if keepdim else squeeze(shift, dims))


@lowers("aten.logsumexp", "aten.special_logsumexp")
def lower_logsumexp(call: MilCall) -> Tensor:
    x = call.tensor("self").to(call.result_element_type())
    return logsumexp(x, reduced_dims(call, x), keeps(call))
