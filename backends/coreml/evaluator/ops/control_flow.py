"""Blocks that run on a condition, lists and states, by the docstrings of coremltools'
mil/ops/defs: iOS15/control_flow.py, iOS18/states.py and coreml_dialect/ops.py."""

from typing import Any, Literal

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import (
    AnyValue,
    Blocks,
    Int,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.types import StateCell, TensorList

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
    held = {"bool": torch.bool, "int32": torch.int32}.get(dtype, torch.float32)
    sizes = [size for size in elem_shape if isinstance(size, Tensor)]
    is_known = len(sizes) == len(elem_shape)
    shape = [int(n) for size in sizes for n in size.reshape(-1)]
    empty = torch.zeros(shape, dtype=held) if is_known else None
    return TensorList((empty,) * _length(init_length), dynamic_length, empty)


@op()
def list_length(ls: TensorList) -> Tensor:
    return torch.tensor(len(ls.items), dtype=torch.int32)


def _written(ls: TensorList, indices: list[int], values: list[Tensor]) -> TensorList:
    items = list(ls.items)
    if indices and not 0 <= min(indices) <= max(indices) < len(items):
        if not ls.grows or min(indices) < 0:
            raise ValueError(f"index {max(indices)} of a list of {len(items)}")
        items += [ls.empty] * (_length(max(indices) + 1) - len(items))
    for index, value in zip(indices, values, strict=True):
        items[index] = value
    return TensorList(tuple(items), ls.grows, ls.empty)


def _item(ls: TensorList, index: int) -> Tensor:
    if not 0 <= index < len(ls.items):
        raise ValueError(f"index {index} of a list of {len(ls.items)}")
    if (item := ls.items[index]) is None:
        raise UnknownValueError(f"the list's element {index} was not written")
    return item


@op()
def list_write(ls: TensorList, index: int, value: Tensor) -> TensorList:
    return _written(ls, [index], [value])


@op()
def list_read(ls: TensorList, index: int) -> Tensor:
    return _item(ls, index)


@op()
def list_gather(ls: TensorList, indices: Int) -> Tensor:
    return torch.stack([_item(ls, int(index)) for index in indices])


@op()
def list_scatter(ls: TensorList, indices: Int, value: Tensor) -> TensorList:
    return _written(ls, [int(index) for index in indices], list(value))


@op(since=8)
def read_state(input: StateCell) -> Tensor:
    return input.tensor


@op(since=8)
def write_state(input: StateCell, data: Tensor) -> tuple[()]:
    input.tensor = data
    return ()
