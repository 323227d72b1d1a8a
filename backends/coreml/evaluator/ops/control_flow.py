"""Blocks that run on a condition, lists and states, by the docstrings of coremltools'
mil/ops/defs: iOS15/control_flow.py, iOS18/states.py and coreml_dialect/ops.py."""

from typing import Any, Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import (
    AnyValue,
    Blocks,
    Int,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values.limits import allowed, steps
from padc.backends.coreml.evaluator.values.types import Array, StateCell, TensorList

LONGEST = 2**24
"""Items of a list."""


@op()
def cond(pred: bool, blocks: Blocks) -> tuple[Any, ...]:
    on_true, on_false = blocks
    return tuple(on_true() if pred else on_false())


@op()
def while_loop(loop_vars: list[AnyValue], blocks: Blocks) -> tuple[Any, ...]:
    condition, body = blocks
    while condition(*loop_vars)[0].item():
        loop_vars = body(*loop_vars)
    return tuple(loop_vars)


def _length(length: int) -> int:
    """Check a list against the limits: each item counts, even if all are one tensor."""
    if length > LONGEST:
        raise UnknownValueError(f"a list of {length}, which is more than {LONGEST}")
    return length


@op()
def make_list(
    elem_shape: list[AnyValue],
    init_length: int = 1,
    dynamic_length: bool = True,
    dtype: Literal["bool", "fp16", "fp32", "int32"] = "fp32",
) -> TensorList:
    """A list of zeros (tests/iOS14/test_control_flow.py, TestList).

    Elements by which it grows are zeros too; their shape may be unknown until they are
    written.
    """
    held = {"bool": np.bool_, "int32": np.int32}.get(dtype, np.float32)
    sizes: list[Any] = [size for size in elem_shape if isinstance(size, np.ndarray)]
    is_known = len(sizes) == len(elem_shape)
    shape = [n for size in sizes for n in size.reshape(-1).tolist()]
    empty = np.zeros(allowed(*shape), held) if is_known else None
    return TensorList((empty,) * _length(init_length), dynamic_length, empty)


@op()
def list_length(ls: TensorList) -> Array:
    return np.array(len(ls.items), np.int32)


def _written(ls: TensorList, indices: list[int], values: list[Array]) -> TensorList:
    items = list(ls.items)
    if indices and not 0 <= min(indices) <= max(indices) < len(items):
        if not ls.grows or min(indices) < 0:
            raise ValueError(f"index {max(indices)} of a list of {len(items)}")
        items += [ls.empty] * (_length(max(indices) + 1) - len(items))
    for index, value in zip(indices, values, strict=True):
        items[index] = value
    return TensorList(tuple(items), ls.grows, ls.empty)


def _item(ls: TensorList, index: int) -> Array:
    if not 0 <= index < len(ls.items):
        raise ValueError(f"index {index} of a list of {len(ls.items)}")
    if (item := ls.items[index]) is None:
        raise UnknownValueError(f"the list's element {index} was not written")
    return item


@op()
def list_write(ls: TensorList, index: int, value: Array) -> TensorList:
    return _written(ls, [index], [value])


@op()
def list_read(ls: TensorList, index: int) -> Array:
    return _item(ls, index)


@op()
def list_gather(ls: TensorList, indices: Int) -> Array:
    steps(len(indices))
    return np.stack([_item(ls, index) for index in indices.tolist()])


@op()
def list_scatter(ls: TensorList, indices: Int, value: Array) -> TensorList:
    steps(len(indices))
    return _written(ls, indices.tolist(), list(value))


@op(since=8)
def read_state(input: StateCell) -> Array:
    return input.tensor


@op(since=8)
def write_state(input: StateCell, data: Array) -> tuple[()]:
    input.tensor = data
    return ()
