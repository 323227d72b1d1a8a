# pyright: basic
"""`reduce-ranks`: the same values, by tensors of at most five dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_cases import without
from functions import Function, Several, check_each, exportable
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

import padc
from padc.backends.reference import run
from padc.errors import UnsupportedError
from padc.ir import make_context, mil
from padc.ir.dominance import verify
from padc.ir.tcp import tensor_type
from padc.ir.torch import AtenOp
from padc.ir.weights import Weights, weights_of
from padc.passes import pipelines
from padc.passes.aten.builder import AtenBuilder
from padc.passes.tcp_to_mil.ranks.carrier import rank_of
from padc.passes.tcp_to_mil.reduce_ranks import ReduceRanksPass

Functions = Mapping[str, Callable[..., Any]]


def size(most: int = 64) -> Any:
    """A size that varies, with the bound that Core ML needs."""
    return Dim.AUTO(max=most)


def reduced(
    function: Callable[..., Any], *inputs: Tensor, dynamic: Sequence[Any] | None = None
) -> tuple[ModuleOp, Weights]:
    """A program after the pass: none of its values has more than five dimensions."""
    shapes = None if dynamic is None else (tuple(dynamic),)
    exported = torch.export.export(Function(function), inputs, dynamic_shapes=shapes)
    ctx, module = pipelines.import_program(exported)
    pipelines.run_passes(ctx, module, pipelines.to_tcp())
    reduce_ranks(module)
    return module, weights_of(ctx)


def reduce_ranks(module: ModuleOp) -> None:
    """Run the pass: none of the values may have more than five dimensions."""
    ReduceRanksPass().apply(make_context(), module)
    verify(module)
    ranks = [rank_of(result.type) for op in module.walk() for result in op.results]
    assert all(rank is None or rank <= mil.MAX_RANK for rank in ranks)


def ops_of(module: ModuleOp) -> list[str]:
    """The ops on tensors, in order."""
    return [
        op.schema.name.removeprefix("aten.")
        for op in module.walk()
        if isinstance(op, AtenOp) and rank_of(op.results[0].type) is not None
    ]


def check(
    functions: Functions,
    *inputs: Tensor,
    dynamic: Sequence[Any] | None = None,
    others: Sequence[Sequence[Tensor]] = (),
) -> None:
    """The reference computes the same after the pass."""
    module, weights = reduced(
        lambda *given: [
            y for f in functions.values() for y in Several({"": f})(*given)
        ],
        *inputs,
        dynamic=dynamic,
    )
    for given_inputs in (inputs, *others):
        results = run(module, *given_inputs, weights=weights)
        check_each(functions, results, *given_inputs, equal_nan=True)


def check_package(
    functions: Functions,
    *inputs: Tensor,
    dynamic: Sequence[Any] | None = None,
    others: Sequence[Sequence[Tensor]] = (),
) -> None:
    """The Core ML package computes the same."""
    shapes = None if dynamic is None else (tuple(dynamic),)
    program = padc.convert(Several(functions), inputs, dynamic_shapes=shapes)
    for given_inputs in (inputs, *others):
        results = program.run(*given_inputs)
        check_each(functions, results, *given_inputs, equal_nan=True)


# --- rearrangements of models ----------------------------------------------------------


def window_partition(x: Tensor, window: int) -> Tensor:
    """Swin's windows: `[B, H, W, C] -> [B * windows, window * window, C]`."""
    b, h, w, c = x.shape
    x = x.view(b, h // window, window, w // window, window, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window * window, c)


def window_reverse(windows: Tensor, window: int, h: int, w: int) -> Tensor:
    c = windows.shape[-1]
    x = windows.view(-1, h // window, w // window, window, window, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, c)


def grid_partition(x: Tensor, grid: int) -> Tensor:
    """MaxViT's grid: windows of elements that are far apart."""
    b, h, w, c = x.shape
    x = x.view(b, grid, h // grid, grid, w // grid, c)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(-1, grid, grid, c)


def video_partition(x: Tensor, window: int) -> Tensor:
    """VideoSwin's windows, of 8 dimensions."""
    b, d, h, w, c = x.shape
    n = window
    x = x.view(b, d // n, n, h // n, n, w // n, n, c)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, n**3, c)


def video_reverse(
    windows: Tensor, window: int, b: int, d: int, h: int, w: int
) -> Tensor:
    n = window
    x = windows.view(b, d // n, h // n, w // n, n, n, n, -1)
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, d, h, w, -1)


def shuffle_3d(x: Tensor, r: int) -> Tensor:
    """A pixel shuffle of volumes, of 8 dimensions."""
    b, c, d, h, w = x.shape
    x = x.view(b, c // r**3, r, r, r, d, h, w).permute(0, 1, 5, 2, 6, 3, 7, 4)
    return x.reshape(b, c // r**3, d * r, h * r, w * r)


def unshuffle(x: Tensor, r: int) -> Tensor:
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // r, r, w // r, r).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(b, c * r * r, h // r, w // r)


def upsampled_flow(x: Tensor) -> Tensor:
    """RAFT's convex upsampling."""
    b, _, h, w = x.shape
    mask = x.view(b, 1, 9, 2, 2, h, w).softmax(2)
    flow = x[:, :18].reshape(b, 2, 9, 1, 1, h, w)
    return (mask * flow).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(b, 2, 2 * h, 2 * w)


REARRANGEMENTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "windows": (lambda x: window_partition(x, 4), (2, 8, 12, 6)),
    "one window": (lambda x: window_partition(x, 4), (1, 4, 4, 6)),
    "reverse": (
        lambda x: window_reverse(x.view(-1, 16, 6), 4, 8, 12) + x,
        (2, 8, 12, 6),
    ),
    "grid": (lambda x: grid_partition(x, 4), (2, 8, 12, 6)),
    "grid of one": (lambda x: grid_partition(x, 4), (1, 8, 12, 6)),
    "video": (lambda x: video_partition(x, 2), (2, 4, 6, 8, 3)),
    "video reverse": (
        lambda x: video_reverse(x.view(-1, 8, 3), 2, 2, 4, 6, 8),
        (2, 4, 6, 8, 3),
    ),
    "shuffle 3d": (lambda x: shuffle_3d(x, 2), (2, 16, 3, 4, 5)),
    "unshuffle": (lambda x: unshuffle(x, 2), (2, 3, 8, 6)),
    "reversal": (
        lambda x: (
            x.view(2, 3, 2, 2, 3, 2, 2, 2).permute(7, 6, 5, 4, 3, 2, 1, 0).reshape(-1)
        ),
        (12, 48),
    ),
}
DIMS: dict[str, dict[int, Any]] = {
    "windows": {0: size(), 1: 4 * Dim("h", max=16)},
    "grid": {0: size(), 1: 4 * Dim("h", max=16), 2: 4 * Dim("w", max=16)},
    "video": {0: size(), 1: 2 * Dim("d", max=16)},
    "shuffle 3d": {0: size(), 2: size(), 4: size()},
    "unshuffle": {0: size(), 2: 2 * Dim("h", max=16)},
}
"""The sizes that vary."""


@pytest.mark.parametrize("name", REARRANGEMENTS)
def test_rearrangements(name: str):
    function, shape = REARRANGEMENTS[name]

    check({name: function}, torch.randn(shape))


@pytest.mark.parametrize("name", DIMS)
def test_rearrangements_of_dynamic_sizes(name: str):
    function, shape = REARRANGEMENTS[name]
    other = [2 * n if dim in DIMS[name] else n for dim, n in enumerate(shape)]

    check(
        {name: function},
        torch.randn(shape),
        dynamic=[DIMS[name]],
        others=[(torch.randn(other),)],
    )


def test_rearrangements_in_a_package():
    x = torch.randn(2, 8, 12, 6)
    functions = {
        name: function
        for name, (function, shape) in REARRANGEMENTS.items()
        if shape == (2, 8, 12, 6)
    }

    check_package(functions, x)


def test_dynamic_rearrangements_in_a_package():
    functions = {
        "windows": lambda x: window_partition(x, 4),
        "back": lambda x: window_reverse(window_partition(x, 4) * 2, 4, x.shape[1], 12),
    }

    check_package(
        functions,
        torch.randn(2, 8, 12, 6),
        dynamic=[DIMS["windows"]],
        others=[(torch.randn(3, 16, 12, 6),)],
    )


@pytest.mark.parametrize(
    "name, ops",
    [
        ("windows", "reshape permute reshape"),
        ("one window", "reshape"),
        ("grid", "reshape permute reshape permute reshape"),
        ("grid of one", "reshape permute reshape"),
        ("video", "reshape permute reshape permute reshape"),
        ("unshuffle", "reshape permute reshape"),
    ],
)
def test_the_number_of_ops(name: str, ops: str):
    function, shape = REARRANGEMENTS[name]

    module, _ = reduced(function, torch.randn(shape))

    assert ops_of(module) == ops.split()


# --- families of ops -------------------------------------------------------------------

SIX = (2, 3, 2, 1, 3, 2)
"""The sizes of a tensor of six dimensions, given as one of [6, 2, 6]."""


def six(x: Tensor) -> Tensor:
    return x.view(SIX)


PERMUTED: Functions = {
    "transpose": lambda x: six(x).transpose(1, -2).flatten(),
    "movedim": lambda x: six(x).movedim((0, 2), (3, 1)).flatten(),
    "mT": lambda x: six(x).mT.flatten(1),
    "nothing moves": lambda x: six(x).transpose(2, 3).flatten(2),
    "twice": lambda x: six(x).permute(5, 4, 3, 2, 1, 0).transpose(0, 4).flatten(),
    "squeeze": lambda x: six(x).transpose(0, 1).squeeze(3),
    "unsqueeze": lambda x: x.view(2, 3, 2, 3, 2).unsqueeze(2).transpose(1, 4).flatten(),
    "unflatten": lambda x: (
        six(x).unflatten(1, (-1, 1)).transpose(0, 1).flatten(1, 3).flatten()
    ),
    "view of view": lambda x: (
        six(x).view(2, 3, 2, 3, 1, 2, 1).transpose(0, 3).flatten()
    ),
}
ELEMENTWISE: Functions = {
    "relu": lambda x: six(x).relu().view(-1),
    "of a permutation": lambda x: six(x).transpose(0, 4).exp().reshape(-1),
    "of two": lambda x: (six(x) * six(x).sin()).transpose(0, 4).reshape(-1),
    "of two that move": lambda x: (six(x) + six(x).transpose(1, 4)).reshape(-1),
    "with the last": lambda x: (six(x) + torch.arange(2)).reshape(-1),
    "with ones that both have": lambda x: (
        x[None][:, None, None].exp() * torch.arange(36.0).view(1, 1, 1, 6, 1, 6)
    ).sum(-1),
    "with the middle": lambda x: (six(x) * torch.arange(6).view(3, 2, 1, 1, 1)).reshape(
        -1
    ),
    "with all in turn": lambda x: (
        six(x).transpose(3, 5)
        + torch.arange(8.0).view(2, 1, 2, 1, 1, 2).transpose(3, 5)
    ).reshape(-1),
    "alternating": lambda x: (
        x.view(2, 3, 2, 3, 2, 1) + torch.arange(8.0).view(2, 1, 2, 1, 2, 1)
    ).reshape(-1),
    "six groups": lambda x: (
        x.view(2, 3, 2, 3, 2, 1) + torch.arange(12.0).view(2, 1, 2, 1, 1, 3)
    ).reshape(-1),
    "outer": lambda x: (
        x[0, 0, :].view(1, 3, 1, 2, 1, 1) * x[:, 0, 1].view(2, 1, 3, 1, 1, 1)
    ).reshape(-1),
    "with a number": lambda x: (six(x) * 2 + torch.tensor(3.0)).reshape(-1),
    "with one element": lambda x: (
        six(x) * torch.ones(1, 1, 1) + torch.ones([1] * 6)
    ).reshape(-1),
    "of one element": lambda x: (x[:1, :1, :1].view([1] * 6) * 2 + x[0, 0, 0]).reshape(
        -1
    ),
    "promoted": lambda x: (six(x).long() + torch.ones([], dtype=torch.int32)).reshape(
        -1
    ),
    "where": lambda x: torch.where(six(x) > 0, six(x), torch.arange(2.0)).reshape(-1),
    "masked": lambda x: six(x).masked_fill(torch.tensor([True, False]), 7).reshape(-1),
    "like": lambda x: (six(x) + torch.ones_like(six(x))).reshape(-1),
    "copy": lambda x: six(x).clone().contiguous().transpose(0, 1).reshape(-1),
    "halves": lambda x: six(x).half().transpose(0, 1).reshape(-1),
}
REPEATED: Functions = {
    "expand": lambda x: (
        x[:, :, None, :, None, None].expand(6, 2, 3, 6, 2, 4).reshape(-1)
    ),
    "expand, some kept": lambda x: (
        x.view(1, 2, 1, 3, 1, 12).expand(2, -1, -1, 3, 4, -1).reshape(-1)
    ),
    "expand in turn": lambda x: (
        x.view(1, 2, 1, 3, 1, 12).expand(2, 2, 3, 3, 2, 12).reshape(-1)
    ),
    "more dims": lambda x: x.expand(2, 1, 3, 6, 2, 6).transpose(0, 4).reshape(-1),
    "nearest": lambda x: (
        x[:, :, None, :, None].expand(6, 2, 2, 6, 3)[..., None].reshape(-1)
    ),
    "repeat": lambda x: six(x).repeat(2, 1, 2, 3, 1, 2).reshape(-1),
    "repeat with more": lambda x: x.repeat(2, 1, 1, 2, 1, 3).reshape(-1),
    "expand_as": lambda x: (
        x[:1, :1, :].view(1, 3, 1, 1, 1, 2).expand_as(six(x)).reshape(-1)
    ),
}
ROWS, COLUMNS = torch.tensor([[1, 0, -1], [2, 5, 4]]), torch.tensor([[1, 0]])
INDEXED: Functions = {
    "one": lambda x: six(x)[:, ROWS % 3].reshape(-1),
    "the last": lambda x: six(x)[..., COLUMNS].reshape(-1),
    "to six": lambda x: x[ROWS[:, None, None], COLUMNS[:, :, None, None]].reshape(-1),
    "in blocks": lambda x: x[ROWS[:, :, None, None], COLUMNS].reshape(-1),
    "two vectors": lambda x: six(x)[:, ROWS[0] % 3, ROWS[0] % 2].reshape(-1),
    "that broadcast": lambda x: six(x)[:, ROWS[:, :1] % 3, COLUMNS].reshape(-1),
    "in turn": lambda x: six(x)[:, ROWS[0] % 3, :, :, ROWS[0] % 3].reshape(-1),
    "around one": lambda x: six(x)[:, :, ROWS[0] % 2, :, ROWS[1] % 3].reshape(-1),
    "of negative numbers": lambda x: six(x)[:, torch.tensor([-1, 0, -2])].reshape(-1),
}


ALONG: Functions = {
    "sum": lambda x: six(x).sum(1),
    "sum of all": lambda x: six(x).sum(),
    "sum of most": lambda x: six(x).sum((0, 2, 4)),
    "sum, dims kept": lambda x: six(x).sum((1, 2, 5), keepdim=True).reshape(-1),
    "sum in turn": lambda x: (
        x.view(2, 3, 2, 3, 2, 1).expand(2, 3, 2, 3, 2, 2).sum((1, 3, 5))
    ),
    "mean in turn, dims kept": lambda x: (
        x.view(2, 3, 2, 3, 2, 1)
        .expand(2, 3, 2, 3, 2, 2)
        .mean((0, 2, 4), True)
        .reshape(-1)
    ),
    "mean": lambda x: six(x).mean((-1, -2)),
    "variance": lambda x: six(x).var((1, 4), correction=0),
    "amax": lambda x: six(x).amax((0, 3)),
    "max": lambda x: six(x).max(4),
    "argmax": lambda x: six(x).argmax(1, keepdim=True).reshape(-1),
    "argmax of all": lambda x: six(x).argmax(),
    "any": lambda x: (six(x) > 1).any(2),
    "norm": lambda x: six(x).norm(dim=(1, 2)),
    "softmax": lambda x: six(x).softmax(-1).reshape(-1),
    "softmax, moved": lambda x: six(x).transpose(0, 4).softmax(1).reshape(-1),
    "softmax of one": lambda x: six(x).log_softmax(3).reshape(-1),
    "cumsum": lambda x: six(x).cumsum(2).reshape(-1),
    "sort": lambda x: six(x).sort(1, descending=True)[0].reshape(-1),
    "topk": lambda x: six(x).topk(2, 1)[0].reshape(-1),
    "gather": lambda x: six(x).gather(1, six(x).argsort(1)[:, :2]).reshape(-1),
    "flip": lambda x: six(x).flip((1, 2, -1)).reshape(-1),
    "flip in turn": lambda x: x.view(2, 3, 2, 3, 1, 2).flip((0, 2, 5)).reshape(-1),
    "roll": lambda x: six(x).roll((1, 1), (1, 4)).reshape(-1),
    "slice": lambda x: six(x)[:, 1:].reshape(-1),
    "slices": lambda x: six(x)[:, ::2, 1:, :, -2:].reshape(-1),
    "select": lambda x: six(x)[:, :, 1],
    "select of one": lambda x: six(x)[:, :, :, 0].transpose(0, 1),
    "index_select": lambda x: (
        six(x).index_select(4, torch.tensor([2, 0, 0])).reshape(-1)
    ),
    "triu": lambda x: six(x).triu(1).reshape(-1),
    "glu": lambda x: F.glu(six(x), 2).reshape(-1),
}
PARTS: Functions = {
    "cat": lambda x: torch.cat([six(x), six(x)[:, 1:] * 2], 1).reshape(-1),
    "cat of ones": lambda x: (
        torch.cat([six(x), six(x).exp()], 3).transpose(3, 4).reshape(-1)
    ),
    "stack": lambda x: torch.stack([six(x), six(x) + 1], 2).reshape(-1),
    "stack to six": lambda x: (
        torch.stack([x.view(2, 3, 2, 3, 2)] * 2, -1).transpose(0, 5).reshape(-1)
    ),
    "unbind": lambda x: six(x).unbind(1),
    "unbind to six": lambda x: [
        y.transpose(0, 1).reshape(-1) for y in x.view(2, 3, 1, 2, 3, 1, 2).unbind(3)
    ],
    "split": lambda x: [y.reshape(-1) for y in six(x).split([1, 2], 4)],
    "chunk": lambda x: [y.reshape(-1) for y in six(x).chunk(2, 2)],
    "slice_scatter": lambda x: (
        six(x).slice_scatter(six(x)[:, :1] * 2, 1, 1, 2).reshape(-1)
    ),
    "select_scatter": lambda x: (
        six(x).select_scatter(six(x)[:, 0] * 2, 1, 2).reshape(-1)
    ),
    "unfold": lambda x: (
        x.view(2, 3, 2, 3, 2).unfold(1, 2, 1).transpose(0, 5).reshape(-1)
    ),
    "windows": lambda x: (
        x.view(3, 1, 4, 6)
        .unfold(2, 3, 1)
        .unfold(3, 2, 2)
        .permute(0, 2, 3, 1, 4, 5)
        .reshape(-1, 6)
    ),
    "diagonal": lambda x: six(x).diagonal(1, 0, 4).transpose(0, 1).reshape(-1),
}
PADS: Functions = {
    "constant": lambda x: F.pad(six(x), (1, 0, 0, 2), value=3).reshape(-1),
    "upfirdn": lambda x: F.pad(
        x.view(6, 1, 2, 1, 6, 1), (0, 0, 0, 0, 0, 1, 0, 0, 0, 1)
    ).reshape(-1),
    "upfirdn of channels": lambda x: F.pad(
        x.view(6, 2, 1, 6, 1, 1), (0, 1, 0, 1, 0, 0, 0, 1)
    ).reshape(-1),
    "of all": lambda x: F.pad(six(x), (1, 1, -1, 0, 2, 0, 0, 1, 0, 1, 1, 0)).reshape(
        -1
    ),
    "of booleans": lambda x: F.pad(six(x) > 0, (0, 1, 0, 0, 1, 1), value=True).reshape(
        -1
    ),
}
PRODUCTS: Functions = {
    "linear": lambda x: F.linear(six(x), torch.arange(6.0).view(3, 2)).reshape(-1),
    "linear, moved": lambda x: F.linear(
        six(x).transpose(1, 5), torch.arange(6.0).view(2, 3), torch.ones(2)
    ).reshape(-1),
    "layer_norm": lambda x: F.layer_norm(
        six(x), (3, 2), torch.arange(6.0).view(3, 2)
    ).reshape(-1),
    "layer_norm of the last": lambda x: F.layer_norm(
        six(x).transpose(0, 1), (2,)
    ).reshape(-1),
    "matmul": lambda x: (six(x) @ six(x).mT).reshape(-1),
    "matmul of a matrix": lambda x: (six(x) @ torch.arange(6.0).view(2, 3)).reshape(-1),
    "matmul of a vector": lambda x: (six(x) @ torch.arange(2.0)).reshape(-1),
    "matmul, broadcast": lambda x: (
        x.view(2, 3, 2, 1, 3, 2) @ torch.arange(36.0).view(2, 1, 1, 3, 2, 3)
    ).reshape(-1),
    "attention": lambda x: F.scaled_dot_product_attention(
        six(x), six(x).sin(), six(x).cos()
    ).reshape(-1),
    "masked attention": lambda x: F.scaled_dot_product_attention(
        six(x), six(x).sin(), six(x).cos(), torch.arange(18.0).view(2, 1, 1, 1, 3, 3)
    ).reshape(-1),
    "einsum": lambda x: torch.einsum("abcdef,aghdei->abgci", six(x), six(x)),
    "einsum to six": lambda x: (
        torch.einsum("abc,dec->eabd", x, x.sin())
        .view(2, 2, 3, 1, 2, 6)
        .transpose(0, 4)
        .reshape(-1)
    ),
    "outer product": lambda x: torch.einsum("abc,def->afbecd", x, x[:2]).reshape(-1),
    "einsum of three": lambda x: torch.einsum(
        "abcdef,ag,ef->gbdc", six(x), x[:2, 0], x[:3, :, 0]
    ),
    "einsum of one": lambda x: torch.einsum("abcdef->fca", six(x)),
    "einsum of all": lambda x: torch.einsum("...,...->...", six(x), x[0, 0, 0]).sum(1),
    "einsum, dots": lambda x: torch.einsum("...ij,...kj", six(x), six(x).sin()).sum(1),
    "einsum, broadcast": lambda x: torch.einsum(
        "abcdij,...kj->d...ik", six(x)[:1, :, :1], six(x)[:, :1]
    ).reshape(-1),
    "einsum of diagonals": lambda x: torch.einsum(
        "aabcdbe->ebac", six(x).view(2, 2, 3, 1, 1, 3, 2)
    ).sum(0),
    "embedding": lambda x: (
        F.embedding((x.view(6, 2, 3, 1, 2) > 0).int(), torch.arange(8.0).view(2, 4))
        .transpose(0, 5)
        .reshape(-1)
    ),
}
VECTORS = torch.tensor([0, 2])
UPDATED: Functions = {
    "index_add": lambda x: (
        six(x).index_add(1, VECTORS, six(x)[:, :2].transpose(0, 2)).reshape(-1)
    ),
    "index_copy": lambda x: six(x).index_copy(4, VECTORS, six(x)[..., 1:, :]).sum(2),
    "index_fill": lambda x: six(x).index_fill(1, torch.tensor([-1]), 3.0).reshape(-1),
    "index_reduce": lambda x: (
        six(x).index_reduce(1, VECTORS, six(x)[:, 1:], "amax").reshape(-1)
    ),
    "scatter": lambda x: (
        six(x).scatter(4, six(x).argmax(4, keepdim=True), 7.0).reshape(-1)
    ),
    "scatter_add": lambda x: (
        six(x)
        .scatter_add(1, (six(x)[:, :2] > 0).long(), six(x)[:, 1:])
        .transpose(0, 1)
        .reshape(-1)
    ),
    "put": lambda x: six(x).put(VECTORS - 3, x[:2, 0, 0], True).reshape(-1),
    "take": lambda x: six(x).take((six(x) > 0).long()).reshape(-1),
    "histc": lambda x: six(x).histc(4, -2, 2),
    "masked_scatter": lambda x: (
        six(x).masked_scatter(six(x)[:1, :, :1] > 0, -six(x)).reshape(-1)
    ),
    "assigned": lambda x: assigned(six(x), (slice(None), VECTORS), 1).reshape(-1),
    "assigned values": lambda x: assigned(
        six(x), (..., VECTORS - 2, slice(None)), x[0, :2, :2]
    ).reshape(-1),
    "assigned by a matrix": lambda x: assigned(
        six(x),
        (slice(None), VECTORS[:, None] - 1),
        VECTORS.view(2, 1, 1, 1, 1, 1).float(),
    ).reshape(-1),
    "assigned by a mask": lambda x: assigned(six(x), six(x) > 0, 3).reshape(-1),
    "by a mask of the first": lambda x: assigned(
        six(x), six(x)[:, :, 0, 0, 0, 0] > 0, 3
    ).reshape(-1),
    "bucketize": lambda x: torch.bucketize(six(x), torch.tensor([-0.5, 0.5])).reshape(
        -1
    ),
    "searchsorted": lambda x: torch.searchsorted(
        six(x).sort().values, six(x).sin(), right=True
    ).reshape(-1),
    "searchsorted in a vector": lambda x: torch.searchsorted(
        torch.tensor([-0.5, 0.5]), six(x)
    ).reshape(-1),
    "mode": lambda x: six(x).round().mode(1).values.reshape(-1),
    "nanmedian": lambda x: six(x).nanmedian(1).values.reshape(-1),
    "median": lambda x: six(x).median(),
    "one_hot": lambda x: F.one_hot((x.view(6, 2, 1, 3, 2) > 0).long(), 3).reshape(-1),
    "diag_embed": lambda x: x.view(6, 2, 1, 3, 2).diag_embed(-1).reshape(-1),
    "cdist": lambda x: torch.cdist(six(x), six(x)[:1, :, :1, :, :2]).reshape(-1),
    "inverse": lambda x: torch.linalg.inv(matrices(x)).reshape(-1),
    "determinant": lambda x: torch.linalg.det(matrices(x)).reshape(-1),
    "slogdet": lambda x: [y.reshape(-1) for y in torch.linalg.slogdet(matrices(x))],
}


def assigned(x: Tensor, index: Any, values: Any) -> Tensor:
    """`x` after `x[index] = values`."""
    x = x.clone()
    x[index] = values
    return x


def matrices(x: Tensor) -> Tensor:
    """Matrices that have an inverse, in a tensor of six dimensions."""
    return six(x)[..., :2, :] + 5 * torch.eye(2)


DECOMPOSED: Functions = {
    "mse_loss": lambda x: F.mse_loss(six(x), six(x).sin(), reduction="none").sum(1),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(six(x), six(x).sin()),
    "prelu": lambda x: F.prelu(six(x), torch.arange(3.0)).reshape(-1),
    "var_mean": lambda x: list(torch.var_mean(six(x), (1, 2, 3, 4, 5))),
    "hstack": lambda x: torch.hstack([six(x), six(x)]).reshape(-1),
    "rot90": lambda x: six(x).rot90(1, (1, 4)).reshape(-1),
    "fliplr": lambda x: six(x).fliplr().reshape(-1),
    "atleast_3d": lambda x: torch.atleast_3d(six(x)).reshape(-1),
    "isin": lambda x: torch.isin(six(x), x[0, 0]).reshape(-1),
    "quantile": lambda x: six(x).quantile(0.3, 4).reshape(-1),
    "cosine_similarity": lambda x: F.cosine_similarity(six(x), six(x) + 1, 4).sum(1),
    "tensordot": lambda x: (
        torch.tensordot(six(x), six(x)[0], 2).sum((0, 1, 2))
    ).reshape(-1),
    "cross": lambda x: torch.linalg.cross(six(x), six(x) + 1, dim=1).reshape(-1),
    "group_norm": lambda x: F.group_norm(six(x), 3).reshape(-1),
    "of three dimensions too": lambda x: F.mse_loss(x, x.sin()),
}
"""Ops that PyTorch decomposes to ops with rules."""

FAMILIES = (
    UPDATED,
    PRODUCTS,
    PERMUTED,
    ELEMENTWISE,
    REPEATED,
    INDEXED,
    ALONG,
    PARTS,
    PADS,
)


@pytest.mark.parametrize("functions", FAMILIES)
def test_families(functions: Functions):
    check(functions, torch.randn(6, 2, 6))


@pytest.mark.parametrize("functions", FAMILIES)
def test_families_in_a_package(functions: Functions):
    check_package(without(functions, "diagonal"), torch.randn(6, 2, 6))


def test_decomposed_ops_in_a_package():
    x = torch.randn(6, 2, 6)

    check_package(exportable(DECOMPOSED, (x,), since="2.9"), x)


def varied(x: Tensor) -> Tensor:
    """`[b, 6, h, 2]` as six dimensions, of which the first and the fourth vary."""
    return x.view(x.shape[0], 2, 3, x.shape[2], 2, 1)


FIRST = torch.tensor([0])

VARIED: Functions = {
    "sum": lambda x: varied(x).sum((2, 5)),
    "softmax": lambda x: varied(x).transpose(0, 3).softmax(3).flatten(1),
    "slice": lambda x: varied(x)[:, 1:, ::2, 1:].flatten(1),
    "select": lambda x: varied(x)[:, 1],
    "cat": lambda x: torch.cat([varied(x), varied(x)], 3).transpose(1, 3).flatten(2),
    "stack": lambda x: torch.stack([x[:, :, None]] * 2, 3).transpose(1, 3).flatten(1),
    "chunk": lambda x: [y.transpose(0, 1).flatten(1) for y in varied(x).chunk(3, 2)],
    "pad": lambda x: F.pad(varied(x), (0, 1, 0, 0, 2, 1, 0, 1)).flatten(2),
    "expand": lambda x: (
        varied(x).expand(-1, -1, -1, -1, -1, 3).transpose(1, 3).flatten(2)
    ),
    "repeat": lambda x: varied(x).repeat(1, 2, 1, 2, 1, 1).flatten(2),
    "bias": lambda x: (
        (varied(x) + x[:, :1, None, :, :1, None]).transpose(0, 3).flatten(1)
    ),
    "matmul": lambda x: (
        varied(x).transpose(1, 5) @ torch.arange(6.0).view(2, 3)
    ).flatten(1),
    "flip": lambda x: varied(x).flip((1, 3)).flatten(1),
    "roll": lambda x: varied(x).roll((1, -1, 2), (3, 2, 0)).flatten(1),
    "roll of all": lambda x: varied(x).roll(3).flatten(1),
    "roll by a size": lambda x: varied(x).roll(x.shape[0], 3).flatten(1),
    "einsum": lambda x: torch.einsum("...cde,...cfe->fd...", varied(x), varied(x)).sum(
        1
    ),
    "index_add": lambda x: (
        x[:, :, 0]
        .reshape(-1, 1, 2, 3, 1, 2)
        .index_add(3, FIRST, (-x[:, :, 0]).reshape(-1, 1, 2, 3, 1, 2)[:, :, :, :1])
        .flatten(1)
    ),
    "windows": lambda x: (
        x[:, :, :, None].unfold(1, 3, 3).unfold(2, 2, 1).transpose(2, 5).flatten(2)
    ),
}


def test_families_of_dynamic_sizes():
    check(
        VARIED,
        torch.randn(3, 6, 4, 2),
        dynamic=[{0: size(), 2: size()}],
        others=[(torch.randn(2, 6, 7, 2),)],
    )


def test_families_of_dynamic_sizes_in_a_package():
    check_package(
        VARIED,
        torch.randn(3, 6, 4, 2),
        dynamic=[{0: size(), 2: size()}],
        others=[(torch.randn(2, 6, 7, 2),)],
    )


class Weighted(nn.Module):
    """Two weights of six dimensions, one of them small enough to be written out."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 1, 2, 1, 3, 2))
        self.offset = nn.Buffer(torch.arange(3).view(3, 1, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = six(x) * self.weight + self.offset * torch.ones(1, 3, 2, 1, 1, 1)
        return y.transpose(1, 4).reshape(-1)


def test_weights_of_six_dimensions():
    check_package({"weighted": Weighted()}, torch.randn(6, 2, 6))


@pytest.mark.parametrize("others", [False, True])
def test_sizes_are_known(others: bool):
    def function(x: Tensor) -> Tensor:
        y = x.view(x.shape[0], 2, 3, x.shape[2], 2, 1)
        return (y * y.shape[0] + y.shape[3]).transpose(0, 3).reshape(y.shape[3], -1)

    check(
        {"sizes": function},
        torch.randn(3, 6, 5, 2),
        dynamic=[{0: size(), 2: size()}] if others else None,
        others=[(torch.randn(4, 6, 2, 2),)] if others else [],
    )


# --- random programs -------------------------------------------------------------------


@st.composite
def factors(draw: st.DrawFn, number: int, least: int) -> list[int]:
    """At least `least` sizes whose product is `number`, some of them 1."""
    sizes: list[int] = []
    for prime in (2, 2, 2, 2, 3, 3):
        if number % prime == 0 and draw(st.booleans()):
            sizes.append(prime)
            number //= prime
    sizes.append(number)
    ones = draw(st.integers(max(least - len(sizes), 0), max(8 - len(sizes), 0)))
    return list(draw(st.permutations(sizes + [1] * ones)))


Change = tuple[str, Any]
ELEMENTS = 144
KINDS = ("view", "permute", "permute", "bias", "relu", "flip", "softmax", "roll")


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    """Ops of `KINDS` on a tensor of `ELEMENTS` elements."""
    found: list[Change] = []
    rank = 3
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "view" or not found:
            sizes = draw(factors(ELEMENTS, draw(st.sampled_from([1, 6, 6]))))
            rank = len(sizes)
            found.append(("view", sizes))
        elif kind == "permute":
            found.append((kind, draw(st.permutations(range(rank)))))
        elif kind == "bias":
            kept = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
            found.append((kind, kept))
        elif kind == "flip":
            found.append((kind, draw(st.lists(st.integers(0, rank - 1), unique=True))))
        elif kind in ("softmax", "roll"):
            found.append((kind, draw(st.integers(0, rank - 1))))
        else:
            found.append((kind, None))
    return found


def biased(shape: Sequence[int], kept: Sequence[bool]) -> list[int]:
    """The sizes of a bias that broadcasts in the dimensions that are not kept."""
    return [size if keep else 1 for size, keep in zip(shape, kept, strict=True)]


def computed(x: Tensor, program: Sequence[Change]) -> Tensor:
    """What PyTorch computes."""
    for kind, how in program:
        match kind:
            case "view":
                x = x.reshape(how)
            case "permute":
                x = x.permute(how)
            case "bias":
                shape = biased(x.shape, how)
                x = x + torch.arange(math.prod(shape)).view(shape)
            case "flip":
                x = x.flip(how)
            case "softmax":
                x = x.softmax(how)
            case "roll":
                x = x.roll(-1, how)
            case _:
                x = x.relu()
    return x.reshape(-1)


def built(program: Sequence[Change]) -> ModuleOp:
    """The same as IR."""
    block = Block(arg_types=[TensorType(f32, [4, 6, 6])])
    (x,) = block.args
    block.add_op(end := ReturnOp(x))
    build = AtenBuilder(end)
    for kind, how in program:
        type = tensor_type(x)
        match kind:
            case "view":
                x = build.reshape(x, how)
            case "permute":
                x = build.permute(x, how)
            case "bias":
                shape = biased(type.get_shape(), how)
                bias = build.reshape(build.arange(0, math.prod(shape)), shape)
                x = build.call("add.Tensor", type, self=x, other=bias)
            case "flip":
                x = build.call("flip", type, self=x, dims=how)
            case "softmax":
                x = build.call("softmax.int", type, self=x, dim=how)
            case "roll" if type.get_shape()[how] > 1:
                rest, first = build.slice(x, how, 1, None), build.slice(x, how, 0, 1)
                x = build.cat([rest, first], how)
            case "relu":
                x = build.call("relu", type, self=x)
            case _:
                assert kind == "roll"
    x = build.reshape(x, [ELEMENTS])
    end.operands = [x]
    return ModuleOp([FuncOp("main", (block.arg_types, [x.type]), Region(block))])


@given(changes())
def test_random_programs(program: list[Change]):
    x, module = torch.randn(4, 6, 6), built(program)
    module.verify()

    reduce_ranks(module)

    (result,) = run(module, x)
    torch.testing.assert_close(result, computed(x, program))


# --- what is refused -------------------------------------------------------------------


def test_an_op_without_a_rule_is_named():
    with pytest.raises(
        UnsupportedError, match=r"aten.renorm.*rank 5 at most"
    ) as raised:
        reduced(
            lambda x: torch.renorm(six(x), 1, 0, 1.0).relu().flatten(),
            torch.randn(6, 2, 6),
        )

    (problem,) = raised.value.problems
    assert problem.hint is not None and "flatten" in problem.hint
    assert problem.location is not None


def test_an_input_of_six_dimensions():
    with pytest.raises(UnsupportedError, match="the input has rank 6") as raised:
        reduced(lambda x: x.relu().flatten(), torch.randn(SIX))

    (problem,) = raised.value.problems
    assert problem.hint is not None and "reshape it in the model" in problem.hint


def test_an_output_of_six_dimensions():
    with pytest.raises(
        UnsupportedError, match=r"aten.relu.*the output has rank 6"
    ) as raised:
        reduced(lambda x: six(x).relu(), torch.randn(6, 2, 6))

    (problem,) = raised.value.problems
    assert problem.hint is not None and "join dimensions" in problem.hint
    assert problem.location is not None
