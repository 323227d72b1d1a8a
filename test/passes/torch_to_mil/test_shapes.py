# pyright: basic
"""Ops that move elements, or create tensors, in a Core ML package."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from aten_cases import SHAPES, random, without
from functions import Function, Functions
from mil_functions import check, size
from torch import Tensor
from torch.export import Dim

import padc

DTYPES = (
    pytest.param(torch.float16, marks=pytest.mark.slow),
    torch.int64,
    pytest.param(torch.int8, marks=pytest.mark.slow),
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# Makes a tensor of rank 6 on its way.
SHAPES_HERE = {name: f for name, f in SHAPES.items() if name != "squeeze all"}

MORE: Functions = {
    "flatten of a number": lambda x: x[0, 0, 0, 0].flatten(),
    "view of a number": lambda x: x[0, 0, 0, 0].view(1, 1),
    "number of a view": lambda x: x[:1, :1, 0, 0].reshape(()),
    "squeeze to a number": lambda x: x[:1, 0, 0, 0].squeeze(0),
    "slice from below": lambda x: x[:, -99:3],
    "slice past the end": lambda x: x[:, 1:99, :, -3:99:2],
    "narrow from the end": lambda x: x.narrow(1, -2, 2),
    "t": lambda x: x[0, 0].t(),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "flip of none": lambda x: x.flip([]),
    "rot90 back": lambda x: torch.rot90(x, -1, (0, 3)),
    "roll back": lambda x: x.roll(-9, 1),
    "pixel_shuffle of rank 3": lambda x: F.pixel_shuffle(x[0], 2),
    "pixel_unshuffle of rank 5": lambda x: F.pixel_unshuffle(x[None], 2),
    "channel_shuffle of rank 5": lambda x: F.channel_shuffle(x[..., None], 2),
    "cat of empty": lambda x: torch.cat([x[:, :0], x, x.new_zeros(0), x[:, 1:1]], 1),
    "hstack": lambda x: torch.hstack([x, x]),
    "vstack": lambda x: torch.vstack([x[0, 0, 0], x[0, 0, 1]]),
    "dstack": lambda x: torch.dstack([x[0, 0, 0], x[0, 0, 1]]),
    "column_stack": lambda x: torch.column_stack([x[0, 0, 0], x[0, 0, :8].mT]),
    "block_diag": lambda x: torch.block_diag(x[0, 0], x[0, 0, 0], x[0, 0, 0, 0]),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[:, :1, :1]),
    "split with a rest": lambda x: x.split(5, 3),
    "split sizes": lambda x: x.split([1, 3, 4], -1),
    "tensor_split at": lambda x: x.tensor_split([2, 3], 3),
    "hsplit": lambda x: torch.hsplit(x, 2),
    "unbind all": lambda x: x[0, 0, 0].unbind(),
    "slice_scatter inside": lambda x: x.slice_scatter(x[:, 2:] * 2, 1, 1, 3),
    "slice_scatter of empty": lambda x: x.slice_scatter(x[:, :0], 1, 2, 2),
    "assignment": lambda x: assigned(x),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[..., 0, :6], 2, -2, -1),
    "diagonal below": lambda x: x.diagonal(-2, 3, 1),
    "diagonal above": lambda x: x.diagonal(3, -2, -1),
    "diag": lambda x: x[0, 0].diag(1),
    "diag of a vector": lambda x: x[0, 0, 0].diag(-2),
    "diag_embed": lambda x: torch.diag_embed(x[0, :, :, 0], 1, 0, -1),
    "tril below": lambda x: x.tril(-2),
    "triu below": lambda x: x.triu(-2),
    "unfold, long step": lambda x: x.unfold(3, 3, 100),
    "repeat_interleave all": lambda x: x.repeat_interleave(2),
    "repeat_interleave each": lambda x: x.repeat_interleave(
        torch.tensor([2, 0, 1, 3]), 1, output_size=6
    ),
    "repeat_interleave a number": lambda x: x[0, 0, 0, 0].repeat_interleave(3),
    "tile": lambda x: x[0, 0].tile(2, 1, 2),
    "full of integers": lambda x: torch.full((2, 3), 7),
    "full of booleans": lambda x: torch.full((2, 3), True),
    "full of a number": lambda x: torch.full((), -math.inf),
    "full_like": lambda x: torch.full_like(x, 2.7),
    "fill": lambda x: torch.ops.aten.fill.Tensor(x, x.sum().to(x.dtype)),
    "zeros of booleans": lambda x: torch.zeros(3, dtype=torch.bool),
    "ones of float16": lambda x: torch.ones(3, dtype=torch.float16),
    "arange down": lambda x: torch.arange(9, 0, -2),
    "arange of float16": lambda x: torch.arange(0, 5, 0.3, dtype=torch.float16),
    "linspace of integers": lambda x: torch.linspace(-3, 11, 6, dtype=torch.int64),
    "linspace of truncated bounds": lambda x: torch.linspace(
        4.3, -3.7, 50, dtype=torch.int64
    ),
    "linspace of integers rounded once": lambda x: torch.linspace(
        39, -17, 11, dtype=torch.int64
    ),
    "linspace of one": lambda x: torch.linspace(2, 5, 1),
    "logspace": lambda x: torch.logspace(-2, 2, 5),
    "eye of booleans": lambda x: torch.eye(3, dtype=torch.bool),
    "tril_indices": lambda x: torch.tril_indices(4, 3, 1),
    "triu_indices": lambda x: torch.triu_indices(4, 3, -1),
    "scalar_tensor": lambda x: torch.scalar_tensor(3, dtype=torch.float32),
    "atleast": lambda x: [
        *torch.atleast_3d(x[0, 0, 0, 0], x[0, 0, 0], x[0, 0], x[0]),
        *torch.atleast_2d(x[0, 0, 0, 0], x[0, 0, 0]),
    ],
    "numpy_T": lambda x: torch.ops.aten.numpy_T(x[0]),
}


def assigned(x: Tensor) -> Tensor:
    """Assignment to slices, of which one is empty."""
    y = x.clone()
    y[:, 1:3] = 1
    y[:, :, -0:0] = 2
    y[..., 2] = 0
    return y


NARROW: Functions = {
    "full_like": lambda x: torch.full_like(x, 3, dtype=torch.int8),
    "arange": lambda x: torch.arange(5, dtype=torch.uint8),
    "cat of empty": lambda x: torch.cat(
        [x.new_zeros(0, dtype=torch.int8), x.to(torch.int8)[0, 0, 0]]
    ),
}


def test_narrow_integers() -> None:
    check(NARROW, random((2, 4, 6, 8), torch.int32))


ALL = {**SHAPES_HERE, **MORE}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moving_and_creating(dtype: torch.dtype) -> None:
    check(ALL, random((2, 4, 6, 8), dtype))


@pytest.mark.parametrize(
    "target", ("iOS15", pytest.param("iOS18", marks=pytest.mark.slow))
)
def test_targets(target: str) -> None:
    check(ALL, random((2, 4, 6, 8), torch.float32), target=target)


NOT_HERE = "gather index_select"


def test_booleans() -> None:
    check(without(ALL, NOT_HERE), torch.rand(2, 4, 6, 8) > 0.5)


def test_masks_of_infinity() -> None:
    functions: Functions = {
        "causal": lambda x: torch.triu(torch.full((4, 4), -math.inf), 1) + x,
        "tril": lambda x: torch.tril(torch.full((4, 4), math.inf), -1) + x,
        "computed": lambda x: torch.triu(x / 0, 1),
        "by size": lambda x: torch.full((x.shape[0], 4), -math.inf).triu(1) + x,
        "embedded": lambda x: torch.diag_embed(x / 0),
    }

    check(functions, torch.randn(4, 4))
    check(functions, torch.randn(4, 4).half())


DYNAMIC: Functions = {
    "flatten": lambda x: x.flatten(1, 2),
    "view many": lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2], 4, 2),
    "unflatten": lambda x: x.unflatten(3, (2, 4)),
    "permute": lambda x: x.permute(2, 0, 3, 1),
    "slice": lambda x: x[:, 1:],
    "slice neg": lambda x: x[:, -2:],
    "slice end": lambda x: x[:, :-1],
    "slice steps": lambda x: x[:, ::2],
    "select": lambda x: x[:, -1],
    "select dyn": lambda x: x[:, x.shape[1] - 1],
    "narrow": lambda x: x.narrow(1, x.shape[1] - 2, 2),
    "cat": lambda x: torch.cat([x, x[:, :1]], 1),
    "stack": lambda x: torch.stack([x, x], 2),
    "split": lambda x: x.split([1, x.shape[1] - 1], 1),
    "split last": lambda x: x.split(4, 3),
    "chunk": lambda x: x.chunk(2, 3),
    "expand": lambda x: x[:, :, :1].expand(-1, -1, x.shape[1], -1),
    "expand_as": lambda x: x[:1].expand_as(x),
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "repeat by size": lambda x: x[0, 0, 0].repeat(x.shape[1], 1),
    "roll": lambda x: x.roll(1, 1),
    "roll two": lambda x: x.roll((-2, 1), (1, 2)),
    "flip": lambda x: x.flip(1),
    "slice_scatter": lambda x: x.slice_scatter(x[:, 1:] * 2, 1, 1),
    "select_scatter": lambda x: (x + x).select_scatter(x[:, 0], 1, -1),
    "tril": lambda x: x.tril(),
    "triu cols": lambda x: x.transpose(1, 3).triu(1),
    "causal": lambda x: (
        torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1) + x[0, :, 0, :1]
    ),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "diagonal static": lambda x: x.diagonal(-1, 1, 3),
    "diag_embed": lambda x: torch.diag_embed(x[0, :, :, 0], 1),
    "zeros": lambda x: torch.zeros(x.shape[0], 3, x.shape[1]) + 1,
    "roots": lambda x: x * x.shape[1] ** 0.5 + x * x.shape[2] ** -0.5,
    "zeros_like": lambda x: torch.zeros_like(x) + 1,
    "full size": lambda x: torch.full((2,), x.shape[1]) * 1,
    "arange": lambda x: torch.arange(x.shape[1]) + 1,
    "arange f": lambda x: torch.arange(x.shape[1], dtype=torch.float32) / 2,
    "arange down": lambda x: torch.arange(x.shape[1], 0, -1) * 1,
    "arange in quarters": lambda x: torch.arange(0.5, x.shape[1], 0.75) * 1,
    "linspace to a size": lambda x: torch.linspace(0, x.shape[1] - 1, 7) * 1,
    "linspace of one": lambda x: torch.linspace(x.shape[1], -1, 1) * 1,
    "arange of halves": lambda x: torch.arange(-0.5, -x.shape[1], -1.0) * 1,
    "eye": lambda x: torch.eye(x.shape[1]) * 2,
    "meshgrid": lambda x: torch.meshgrid(
        torch.arange(x.shape[1]), torch.arange(x.shape[2]), indexing="ij"
    ),
    "unfold": lambda x: x.unfold(3, 2, 2),
    "pixel": lambda x: F.pixel_shuffle(x.permute(0, 3, 1, 2), 2),
    "unpixel": lambda x: F.pixel_unshuffle(x.permute(0, 3, 1, 2).repeat(1, 1, 2, 2), 2),
    "scalar": lambda x: torch.scalar_tensor(x.shape[1]) * 1.0,
}


def test_dynamic_sizes() -> None:
    x, other = torch.randn(2, 4, 6, 8), torch.randn(3, 5, 3, 8)
    dims = {0: size(5), 1: size(9), 2: size(9)}

    # torch.export guards that the last size is even, and not less than the others.
    guarded: Functions = {
        "view": lambda x: x.view(x.shape[0], x.shape[1], 2, -1),
        "slice from": lambda x: x[:, :, x.shape[1] - 2 :],
    }
    two = {0: size(5), 1: size(6)}

    check(DYNAMIC, x, dynamic=[dims], others=[[other]])
    check(guarded, x, dynamic=[two], others=[[other[:, :, [0] * 6]]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 1),
    ],
)
def test_one_op_of_dynamic_sizes(function: Callable[[Tensor], Tensor]):
    x, other = torch.randn(1, 4, 6, 8), torch.randn(1, 4, 4, 12)
    sizes = ({2: 2 * Dim("h", max=9), 3: 2 * Dim("w", max=9)},)

    program = padc.convert(Function(function), (x,), dynamic_shapes=(sizes,))

    assert program.operation_count == 1
    for each in (x, other):
        torch.testing.assert_close(program.run(each)[0], function(each))
