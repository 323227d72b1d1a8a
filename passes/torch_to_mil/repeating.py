"""ATen ops that repeat a tensor, or its elements."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i32

from padc.errors import Obstacle
from padc.ir import mil
from padc.passes.torch_to_mil.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.parts import steps
from padc.passes.torch_to_mil.permuting import gathered
from padc.passes.torch_to_mil.reshaping import known_sizes
from padc.passes.torch_to_mil.shaping import (
    Size,
    broadcast_to,
    expand_dims,
    reshape,
    size_of,
    sizes_of,
    vector,
)
from padc.passes.torch_to_mil.tensor import Tensor


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
            return gathered(x, dim, Tensor(x.build, x.build.constant(indices), i32))
    rows = reshape(x, [product(before), 1, product(after)])
    rows = broadcast_to(rows, [*sizes_of(rows)[:1], times, *sizes_of(rows)[2:]])
    repeated: Size = before[-1] * times
    return reshape(rows, known_sizes(call, [*before[:-1], repeated, *after]))


def product(sizes: list[Size]) -> Size:
    result: Size = 1
    for size in sizes:
        result = size if isinstance(result, int) and result == 1 else result * size
    return result


@lowers("aten.repeat_interleave.self_Tensor", "aten.repeat_interleave.Tensor")
def lower_repeat_each(call: MilCall) -> Tensor:
    """`x[indices]`, each index as often as `repeats` says."""
    times = call.tensor("repeats")
    if "self" not in call.op.schema.positions:
        return indices_of(call, times, size_of(times, 0), 0)
    x = call.tensor("self")
    x = x if call.has("dim") else reshape(x, [-1])
    dim = call.dim("dim", x.rank) if call.has("dim") else 0
    indices = indices_of(call, times, size_of(x, dim), dim)
    return gathered(x, dim, indices)


def indices_of(call: MilCall, times: Tensor, size: Size, dim: int) -> Tensor:
    """The indices below `size`, each as often as `times` says."""
    count = call.result_shape()[dim]
    if count == DYNAMIC_INDEX:
        raise Obstacle(
            "the size of the result depends on computed values",
            "give it: torch.repeat_interleave(x, repeats, output_size=n)",
        )
    if mil.is_constant(times.ssa) and isinstance(size, int):
        indices = np.repeat(np.arange(size), call.array(times).reshape(-1))
        return call.constant_tensor(indices, i32)
    # Index i of the result is the number of elements that end before it.
    times = broadcast_to(reshape(times.to(i32), [-1]), [size])
    ends = expand_dims(times.emit("cumsum", times.shape, x=times, axis=0), [1])
    ended = (ends <= steps(times, 0, count)).in_int32()
    return ended.emit("reduce_sum", [count], x=ended, axes=[0])
