"""ATen ops that repeat a tensor, or its elements."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.passes.torch_to_mil.aten.indices import gathered
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_to,
    expand_dims,
    product,
    reshape,
    sizes_of,
    vector,
)
from padc.passes.torch_to_mil.aten.reshaping import known_sizes
from padc.passes.torch_to_mil.aten.tensor import Tensor


@lowers("aten.repeat", "aten.tile")
def lower_repeat(call: MilCall) -> Tensor:
    x = call.tensor("self")
    repeats = call.sizes(call.op.schema.arguments[1].name)
    x = expand_dims(x, range(len(repeats) - x.rank))
    repeats = [*[1] * (x.rank - len(repeats)), *repeats]
    if all(isinstance(times, int) and times == 1 for times in repeats):
        return x
    return x.emit("tile", call.result_shape(), x=x, reps=vector(x.build, repeats))


@lowers("aten.repeat_interleave.self_int")
def lower_repeat_interleave(call: MilCall) -> Tensor:
    """`[before, size, after] -> [before * size, times, after]`, and that reshaped."""
    x, times = call.tensor("self"), call.size("repeats")
    if not call.has("dim"):
        x = reshape(x, [-1])
    x = reshape(x, [1]) if not x.rank else x
    dim = call.dim("dim", x.rank) if call.has("dim") else 0
    sizes = sizes_of(x)
    before, after = sizes[: dim + 1], sizes[dim + 1 :]
    if x.shape[dim] != DYNAMIC_INDEX and list(x.shape).count(DYNAMIC_INDEX) > 1:
        if isinstance(times, int):
            indices = np.repeat(np.arange(x.shape[dim], dtype=np.int32), times)
            return gathered(x, indices, dim)
    rows = reshape(x, [product(before), 1, product(after)])
    rows = broadcast_to(rows, [*sizes_of(rows)[:1], times, *sizes_of(rows)[2:]])
    repeated: Size = before[-1] * times
    return reshape(rows, known_sizes(call, [*before[:-1], repeated, *after]))
