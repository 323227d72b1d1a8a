# pyright: basic
"""Gathers, scatters and masks in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import mil_functions
import pytest
import torch
import torch.nn.functional as F
from aten_cases import random
from functions import Functions, Several, exportable
from torch import Tensor, tensor
from torch._decomp import core_aten_decompositions

import padc
from padc.errors import UnsupportedError

aten = torch.ops.aten
check = partial(mil_functions.check, target="newest")


def wide(i: Tensor) -> Tensor:
    """Positions for each of 4 elements of a row: [3, 3, 4]."""
    return i[:, :, None].expand(3, 3, 4)


def under(mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return x.index_put((mask,), y[mask])


READ: Functions = {
    "index_select": lambda x, i: x.index_select(1, tensor([2, 0, 2])),
    "index_select by positions": lambda x, i: x.index_select(-1, i[0]),
    "index_select by a number": lambda x, i: x.index_select(2, i[0, 0]),
    "index_select of a number": lambda x, i: x[0, 0, 0].index_select(0, i[0, :1] * 0),
    "gather": lambda x, i: x.gather(1, (x[:, :2] > 0).long()),
    "gather less": lambda x, i: x.gather(2, wide(i)[:2, :1]),
    "gather of a number": lambda x, i: x[0, 0, 0].gather(0, i[0] * 0),
    "gather of a row": lambda x, i: x[0, 0].gather(0, i[0, 0]),
    "take": lambda x, i: x.take(i - 3),
    "take_along_dim": lambda x, i: x.take_along_dim(i[None, :, :1] - 2, 2),
    "take_along_dim broadcasts": lambda x, i: x[:1].take_along_dim(i[:, :, None], 1),
    "take_along_dim of all": lambda x, i: x.take_along_dim(i),
    "embedding": lambda x, i: F.embedding(i, x[0]),
    "index by a constant": lambda x, i: x[:, tensor([1, -1])],
    "index by positions": lambda x, i: x[i - 3],
    "index by two": lambda x, i: x[i - 2, i],
    "index by three": lambda x, i: x[i - 2, i, i - 1],
    "index by a grid": lambda x, i: x[:, tensor([[0], [-1]]), tensor([1, 2])],
    "index by a computed grid": lambda x, i: x[:, i[0, :, None] - 1, i[1]],
    "index by pairs": lambda x, i: x[:, tensor([0, -1]), tensor([1, 2])],
    "index by computed pairs": lambda x, i: x[:, i, i - 1],
    "index apart": lambda x, i: x[i, :, i - 1],
    "index apart by constants": lambda x, i: x[tensor([0, -1]), :, tensor([1, 2])],
    "index ahead by constants": lambda x, i: x[tensor([0, -1]), tensor([1, 2])],
    "index each row": lambda x, i: x[torch.arange(3)[:, None], i[:, :2] - 3],
    "index by a mask": lambda x, i: x[:, tensor([True, False, True])],
    "index by a mask of two": lambda x, i: x[
        tensor([[True, False, True], [False] * 3, [False, False, True]])
    ],
    "index where it is largest": lambda x, i: x[0, 0][
        x.float().flatten(1)[:, :4].argmax(1)
    ],
    "unsafe masked index": lambda x, i: aten._unsafe_masked_index(
        x, i > 1, [None, i + 1, i], 1
    ),
}


WRITTEN: Functions = {
    "put rows": lambda x, i: x.index_put((tensor([[0], [2]]),), x[:1, None]),
    "put columns": lambda x, i: aten.index_put(x, [None, tensor([0, -1])], x[:, :1]),
    "put a number": lambda x, i: aten.index_put(x, [None, tensor([0, -1])], x[0, 0, 0]),
    "put at two": lambda x, i: x.index_put((tensor([0, -1]), i[0, :2]), x[0, :2]),
    "put inside": lambda x, i: aten.index_put(
        x, [None, tensor([0, -1]), i[2, :2]], x[:, 1, :2]
    ),
    "put apart": lambda x, i: aten.index_put(
        x, [tensor([0, -1]), None, i[2, :2]], x[:2, :, 0]
    ),
    "put under a mask": lambda x, i: x.index_put((x > 0,), x[0, 0, 0]),
    "put rows under a mask": lambda x, i: x.index_put((x[..., 0] > 0,), x[0, 0]),
    "put a row under a mask": lambda x, i: x.index_put((x[..., 0] > 0,), x[0, :1]),
    "put under a mask inside": lambda x, i: aten.index_put(
        x, [None, x[0] > 0], x[0, 0, :1]
    ),
    "put under a constant mask": lambda x, i: x.index_put(
        (tensor([True, False, True]),), x[:2]
    ),
    "put a number under a constant mask": lambda x, i: x.index_put(
        (tensor([True, False, True]),), x[0, 0, 0]
    ),
    "put what is under a mask": lambda x, i: under(x > 0, x, x.flip(0)),
    "put nothing": lambda x, i: x.index_put((tensor([], dtype=torch.long),), x[0, 0]),
    "put at positions in all": lambda x, i: x.put(tensor([0, -1]), x[0, 0, :2]),
    "scatter": lambda x, i: x.scatter(2, tensor([[[3, 0, 1, 2]]]), x[1:2, :1]),
    "scatter less": lambda x, i: x.scatter(1, wide(i)[:2, :1, :2], x[:2, :2]),
    "scatter a number": lambda x, i: x.scatter(1, wide(i), 1),
    "scatter to a number": lambda x, i: x[0, 0, 0].scatter(0, i[0, 0] * 0, 1),
    "scatter more to a row": lambda x, i: x[0, 0].scatter(0, i[0, 1:], x[0, 1]),
    "index_copy": lambda x, i: x.index_copy(1, tensor([2, 0]), x[:, 1:]),
    "index_fill": lambda x, i: x.index_fill(1, tensor([2, -2]), 1),
    "index_fill at positions": lambda x, i: x.index_fill(1, i[0] - 1, 1),
    "index_fill by a tensor": lambda x, i: x.index_fill(1, i[0] - 1, x[0, 0, 0]),
    "index_fill of a number": lambda x, i: x[0, 0, 0].index_fill(0, i[0, 0] * 0, 1),
    "masked_scatter": lambda x, i: x.masked_scatter(x > 0, x.flip(0)),
    "masked_scatter less": lambda x, i: x.masked_scatter(i[:, :, None] > 1, x[:2]),
    "masked_scatter, constant": lambda x, i: x.masked_scatter(
        torch.arange(x.shape[-1]) % 2 > 0, x.flip(0)
    ),
}


JOINED: Functions = {
    "put and add": lambda x, i: x.index_put((i,), x[0], accumulate=True),
    "put and add at two": lambda x, i: x.index_put(
        (i, i - 2), x[0, 0], accumulate=True
    ),
    "put and add inside": lambda x, i: aten.index_put(
        x, [None, i, i - 2], x[:, :, :3], accumulate=True
    ),
    "put and add apart": lambda x, i: aten.index_put(
        x, [i, None, i], x[0, 0, :3], accumulate=True
    ),
    "put and add under a mask": lambda x, i: x.index_put(
        (x[..., 0] > 0,), x[0, 0], accumulate=True
    ),
    "put and add in all": lambda x, i: x.put(i - 3, x[0, :, :3], accumulate=True),
    "unsafe masked put": lambda x, i: aten._unsafe_masked_index_put_accumulate(
        x, i > 1, [None, i + 5, i - 9], x[:, :, :3]
    ),
    "scatter_add": lambda x, i: x.scatter_add(0, i[None].expand(2, 3, 3), x),
    "scatter_add to a row": lambda x, i: x[0, 0].scatter_add(0, i[0], x[0, 1]),
    "scatter by add": lambda x, i: x.scatter(1, wide(i), x, reduce="add"),
    "scatter by multiply": lambda x, i: x.scatter(1, wide(i), x, reduce="multiply"),
    "scatter a number by multiply": lambda x, i: x.scatter(
        1, wide(i), 3, reduce="multiply"
    ),
    "index_add": lambda x, i: x.index_add(1, i[0], x, alpha=2),
    "index_add to a number": lambda x, i: x[0, 0, 0].index_add(
        0, i[0, 0] * 0, x[0, 0, 1]
    ),
    "add to a constant": lambda x, i: (
        torch.zeros(5, 2).scatter_add(0, tensor([[1, 1], [1, 0]]), torch.ones(2, 2)),
        x,
    ),
}


REDUCED: Functions = {
    f"{name} {reduce} {kept}": lambda x, i, f=f, reduce=reduce, kept=kept: f(
        x, i, reduce, kept
    )
    for name, f in {
        "scatter": lambda x, i, reduce, kept: x.scatter_reduce(
            1, wide(i)[:2], x, reduce, include_self=kept
        ),
        "index": lambda x, i, reduce, kept: x.index_reduce(
            1, i[0], x, reduce, include_self=kept
        ),
    }.items()
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for kept in (True, False)
    if (name, reduce) != ("index", "sum")
}


SEARCHED: Functions = {
    "one_hot": lambda x, i: F.one_hot(i, 4),
    "one_hot of a number": lambda x, i: F.one_hot(i[0, 0], 4),
    "bucketize": lambda x, i: torch.bucketize(x, tensor([-1.0, 0.5, 0.5, 2])),
    "bucketize right": lambda x, i: torch.bucketize(i, tensor([0, 1, 1]), right=True),
    "bucketize a number": lambda x, i: torch.bucketize(0.5, x[0, 0].sort()[0]),
    "bucketize integers": lambda x, i: torch.bucketize(1.5, i[0].sort()[0]),
    "searchsorted": lambda x, i: torch.searchsorted(x.sort()[0], x[:, :, :2]),
    "searchsorted, sorter": lambda x, i: torch.searchsorted(
        x, x.flip(0), sorter=x.argsort(), side="right"
    ),
    "searchsorted of rank 5": lambda x, i: torch.searchsorted(
        x[None, None].sort()[0], x[None, None]
    ),
    "isin": lambda x, i: torch.isin(i, tensor([0, 5, 2])),
    "isin of floats": lambda x, i: torch.isin(x, x[0, 0], invert=True),
    "isin of one": lambda x, i: torch.isin(i, 2),
    "isin of rank 5": lambda x, i: torch.isin(i[None, None, None], tensor([0, 2])),
    "a number is in": lambda x, i: torch.isin(2, i),
    "max_unpool1d": lambda x, i: F.max_unpool1d(
        *F.max_pool1d(x, 2, return_indices=True), [2]
    ),
    "max_unpool2d": lambda x, i: F.max_unpool2d(
        *F.max_pool2d(x, 2, return_indices=True), [2, 2], output_size=[3, 4]
    ),
    "max_unpool3d": lambda x, i: F.max_unpool3d(
        *F.max_pool3d(x[None, None, :, :2], (1, 2, 2), return_indices=True), (1, 2, 2)
    ),
    "repeat_interleave": lambda x, i: x.repeat_interleave(tensor([2, 0, 1]), 1),
    "repeat_interleave all": lambda x, i: i.repeat_interleave(tensor([2])),
    "repeat_interleave computed": lambda x, i: x.repeat_interleave(
        i[0], 1, output_size=3
    ),
    "nonzero of a constant": lambda x, i: tensor([0, 2, 1]).nonzero() + i[0, 0],
    "masked_select by a constant": lambda x, i: x[0, 0].masked_select(
        tensor([True, False, True, True])
    ),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x[0]),
    "embedding_bag, sum": lambda x, i: F.embedding_bag(
        i, x[0], mode="sum", per_sample_weights=x[1, :, :3]
    ),
    "embedding_bag, max": lambda x, i: F.embedding_bag(i, x[0], mode="max"),
    "embedding_bag by offsets": lambda x, i: [
        F.embedding_bag(i[1], x[0], tensor([0, 2, 2]), mode=mode, padding_idx=padding)
        for mode in ("sum", "mean", "max")
        for padding in (None, 0)
    ],
    "embedding_bag by computed offsets": lambda x, i: F.embedding_bag(
        i[0], x[0], i[1, 2:].new_tensor([0]) + i[1, 2:] * 0
    ),
}


POSITIONS = tensor([[2, 0, 1], [2, 1, 0], [2, 2, 1]])


@pytest.mark.parametrize(
    "target", ["iOS15", pytest.param("newest", marks=pytest.mark.slow)]
)
def test_what_is_read_and_written(target: str) -> None:
    torch.manual_seed(0)

    x = torch.randn(3, 3, 4)

    check({**READ, **WRITTEN, **JOINED, **REDUCED}, x, POSITIONS, target=target)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.int64,
        pytest.param(torch.float16, marks=pytest.mark.slow),
        pytest.param(torch.int8, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_what_is_read_and_written_of_other_types(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    functions = {**READ, **WRITTEN, **JOINED, **REDUCED}

    check(functions, random((3, 3, 4), dtype) - 2, POSITIONS, rtol=2e-3, atol=1e-3)


def test_booleans() -> None:
    torch.manual_seed(0)

    check({**READ, **WRITTEN}, torch.rand(3, 3, 4) > 0.5, POSITIONS)


def test_what_is_searched_and_unpooled() -> None:
    torch.manual_seed(0)

    x = torch.randn(3, 3, 4)

    check(SEARCHED, x, POSITIONS)


def test_combinations() -> None:
    functions: Functions = {
        "two": torch.combinations,
        "three": lambda x: torch.combinations(x, 3, with_replacement=True),
    }
    x = torch.randn(4)

    check(exportable(functions, (x,), since="2.15"), x)


def test_nan_is_above_all_limits() -> None:
    x = tensor([torch.nan, -torch.inf, 0.0, torch.inf])
    functions: Functions = {
        "left": lambda x: torch.bucketize(x, tensor([-torch.inf, 0.0, torch.inf])),
        "right": lambda x: torch.bucketize(x, tensor([-1.0, 0, 1]), right=True),
        "isin": lambda x: torch.isin(x, x),
    }

    check(functions, x)


VARYING: Functions = {
    "index_select": lambda x, i: x.index_select(1, i),
    "gather": lambda x, i: x.gather(1, x.argmax(1, keepdim=True)),
    "gather less": lambda x, i: x[:, 1:].gather(
        0, i[:2, None].expand(2, x.shape[1] - 1)
    ),
    "take": lambda x, i: x.take(i - 2),
    "embedding": lambda x, i: F.embedding(i, x),
    "index": lambda x, i: x[i - 2],
    "index from the end": lambda x, i: x[:, tensor([0, -1])],
    "index each row": lambda x, i: x[torch.arange(2), i[:2]],
    "index apart": lambda x, i: x[None, i][:, i, i],
    "index inside": lambda x, i: x[None, :, None][:, i, 0 * i - 1],
    "put": lambda x, i: x.index_put((i,), x[0]),
    "put inside": lambda x, i: aten.index_put(x[None], [None, i, i], x[0, 0], True),
    "put at two": lambda x, i: x.index_put((i, i - 2), x[0, 0]),
    "put from the end": lambda x, i: aten.index_put(x, [None, tensor([-1])], x[:, :1]),
    "put under a mask": lambda x, i: x.index_put((x > 0,), x[0, 0]),
    "masked_scatter": lambda x, i: x.masked_scatter(x > 0, x + 1),
    "scatter_add": lambda x, i: x.scatter_add(1, x.argmax(1, keepdim=True), x[:, :1]),
    "index_add": lambda x, i: x.index_add(1, i, x[:, : i.shape[0]]),
    "index_fill": lambda x, i: x.index_fill(0, i, 3),
    "one_hot": lambda x, i: F.one_hot(i, 4),
    "bucketize": lambda x, i: torch.bucketize(x, tensor([-1.0, 0, 1])),
    "isin": lambda x, i: torch.isin(i, tensor([1, 2])),
}


def test_sizes_that_vary() -> None:
    torch.manual_seed(0)
    # torch.export guards that there are no more indices than rows and columns.
    size = torch.export.Dim.AUTO(min=4, max=9)
    count = torch.export.Dim.AUTO(min=3, max=4)
    first = torch.randn(4, 5), tensor([0, 2, 1])
    other = torch.randn(5, 6), tensor([1, 0, 2, 1])

    check(VARYING, *first, dynamic=[{0: size, 1: size}, {0: count}], others=[other])


def repeated(x: Tensor) -> Tensor:
    return x[:, :, None].expand(-1, -1, 2)


SCATTERED: Functions = {
    "scatter": lambda x, i: x.scatter(1, i, x * 2),
    "scatter along the batch": lambda x, i: x.scatter(0, i[:1] // 3, x),
    "scatter a number": lambda x, i: x.scatter(1, i, 1.0),
    "scatter less": lambda x, i: x.scatter(1, i[:, :2], x),
    "scatter to zeros": lambda x, i: torch.zeros(x.shape[0], 7).scatter(1, i, x),
    "scatter booleans": lambda x, i: (x > 0).scatter(1, i, True),
    "scatter where it is largest": lambda x, i: torch.zeros_like(x).scatter(
        1, x.argmax(1, keepdim=True), 1.0
    ),
    "scatter by constants": lambda x, i: x.scatter_add(
        1, tensor([[0, 1, 1]]).expand(x.shape[0], 3), x
    ),
    "scatter_add of rank 3": lambda x, i: repeated(x).scatter_add(
        1, repeated(i), repeated(x) + 1
    ),
    **{
        f"scatter {reduce}": lambda x, i, reduce=reduce: x.scatter_reduce(
            1, i // 2, x, reduce, include_self=False
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
    },
    "max_unpool": lambda x, i: F.max_unpool1d(
        *F.max_pool1d(x[:, None, :4], 2, return_indices=True), [2]
    ),
}


@pytest.mark.parametrize("dims", [[0], [0, 1]], ids=str)
def test_scattered_over_batches_that_vary(dims: Sequence[int]) -> None:
    torch.manual_seed(0)
    # The positions are computed in max_unpool, which needs known sizes.
    functions = {
        name: function
        for name, function in SCATTERED.items()
        if len(dims) == 1 or name != "max_unpool"
    }
    sizes = [torch.export.Dim(name, min=3, max=9) for name in ("rows", "columns")]
    first, other = (
        (torch.randn(n, 4), torch.stack([torch.randperm(4) for _ in range(n)]))
        for n in (3, 5)
    )

    dynamic = [{dim: sizes[dim] for dim in dims}] * 2
    check(functions, *first, dynamic=dynamic, others=[other])


def test_fold_as_pytorch_decomposes_it() -> None:
    x = torch.randn(1, 4, 6)
    model = Several({"fold": lambda x: F.fold(x, (3, 4), (2, 2))})
    exported = torch.export.export(model, (x,))
    decomposed = exported.run_decompositions(core_aten_decompositions())

    result = padc.convert(decomposed).run(x)

    torch.testing.assert_close(result[0], F.fold(x, (3, 4), (2, 2)))


REFUSED: Functions = {
    "a mask that is computed": lambda x, i: x[x > 0],
    "on which the size of the result depends": lambda x, i: x.masked_select(x > 0),
    "use torch.where": lambda x, i: x.nonzero(),
    "make repeats a constant": lambda x, i: x.repeat_interleave(i[0], 1),
    "give num_classes": lambda x, i: F.one_hot(i),
    "the index 3, out of range for 3 elements": lambda x, i: aten._unsafe_index(
        x, [None, tensor([3])]
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        padc.convert(
            Several({message: REFUSED[message]}), (torch.randn(3, 3, 4), POSITIONS)
        )
