"""
The cases that `update_support.py` runs: a few small ones for each op, mode and rank.

Together, the cases of a row cover what implementations get wrong: asymmetric and
negative amounts, no batch, groups, dilation, the last window of ceil mode.
"""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

Shape: TypeAlias = tuple[int, ...]
Function: TypeAlias = Callable[..., torch.Tensor]

SIZES = (9, 8, 7)


@dataclass(frozen=True)
class Case:
    """A function of PyTorch, and the shapes of its arguments."""

    function: Function
    inputs: Sequence[Shape]
    weights: Sequence[Shape] = ()
    """Shapes of the arguments after the inputs, which are constants of the model."""
    dynamic: bool = False
    """Whether all sizes of the first input except the first two are dynamic."""


def on(*inputs: Shape, **options: Any) -> Callable[[Function], Case]:
    return lambda function: Case(function, inputs, **options)


def image(rank: int, features: int = 4) -> Shape:
    """A batch of images with `rank` spatial dimensions."""
    return (2, features, *SIZES[:rank])


def pads(mode: str, rank: int) -> list[Case]:
    amounts = [1, 2] * rank
    negative = [-1, 2] + [1, -2] * (rank - 1)

    def pad(amounts: list[int], shape: Shape, **options: Any) -> Case:
        return Case(lambda x: F.pad(x, amounts, mode), [shape], **options)

    cases = [
        pad(amounts, image(rank)),
        pad([0, 3] * rank, image(rank)[1:]),
        pad(negative, image(rank)),
    ]
    if rank == 2:
        cases.append(pad(amounts, image(rank), dynamic=True))
    if mode == "replicate":
        cases.append(pad([9, 10] * rank, image(rank)))
    if mode == "constant":
        cases.append(pad([1, 0] * (rank + 2), image(rank)))
    return cases


def convolutions(rank: int) -> list[Case]:
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    kernel, bias = (6, 4, *(3, 2, 3)[:rank]), (6,)
    grouped = (6, 2, *kernel[2:])

    def case(weights: list[Shape], **options: Any) -> Case:
        return Case(lambda *x: conv(*x, **options), [image(rank)], weights)

    cases = [
        case([kernel], padding=1, stride=2),
        case([kernel, bias], padding="same", dilation=2),
        case([grouped, bias], padding=2, groups=2),
        Case(lambda *x: conv(*x, padding=1), [image(rank)[1:]], [kernel, bias]),
    ]
    if rank == 2:
        with_inputs = Case(lambda *x: conv(*x, padding=1), [image(2), kernel, bias])
        dynamic = Case(lambda x, w: conv(x, w), [image(2)], [kernel], dynamic=True)
        cases += [with_inputs, dynamic]
    return cases


def padded_convolutions(mode: str) -> list[Case]:
    def conv(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.pad(x, (1, 1, 2, 2), mode), weight, stride=2)

    return [on(image(2), weights=[(6, 4, 3, 2)])(conv)]


def transposed(rank: int) -> list[Case]:
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    kernel, bias = (4, 6, *(3, 2, 3)[:rank]), (6,)

    def case(weights: list[Shape], **options: Any) -> Case:
        return Case(lambda *x: conv(*x, **options), [image(rank)], weights)

    return [
        case([kernel]),
        case([kernel, bias], stride=2, padding=1, output_padding=1),
        case([kernel], stride=2, padding=2, dilation=2),
        case([(4, 3, *kernel[2:])], stride=3, groups=2, output_padding=2),
        Case(lambda *x: conv(*x, stride=2), [image(rank)[1:]], [kernel, bias]),
    ]


def pools(kind: str, rank: int) -> list[Case]:
    pool = getattr(F, f"{kind}_pool{rank}d")

    def case(*arguments: Any, **options: Any) -> Case:
        return Case(lambda x: pool(x, *arguments, **options), [image(rank)])

    cases = [
        case(3, 2, 1),
        case(3, 2, 1, ceil_mode=True),
        Case(lambda x: pool(x, 2), [image(rank)[1:]]),
    ]
    if kind == "max":
        return [*cases, case(2, 1, 1, dilation=2)]
    cases.append(case(3, 2, 1, count_include_pad=False, ceil_mode=True))
    return [*cases, *([case(2, divisor_override=3)] if rank > 1 else [])]


def adaptive(kind: str) -> list[Case]:
    return [
        Case(
            lambda x, f=getattr(F, f"adaptive_{kind}_pool{rank}d"): f(x, size), [shape]
        )
        for rank in (1, 2, 3)
        for size, shape in ((1, image(rank)), (4, image(rank)))
    ]


def resampled(mode: str, rank: int, **options: Any) -> list[Case]:
    def case(**size: Any) -> Case:
        return Case(
            lambda x: F.interpolate(x, mode=mode, **size, **options), [image(rank)]
        )

    return [case(scale_factor=2), case(scale_factor=0.6), case(size=[5, 11, 3][:rank])]


def sampled(mode: str, rank: int) -> list[Case]:
    def case(padding: str, corners: bool) -> Case:
        grid = (2, *SIZES[::-1][:rank], rank)
        options: dict[str, Any] = dict(padding_mode=padding, align_corners=corners)
        return Case(
            lambda x, grid: F.grid_sample(x, grid / 4, mode, **options),
            [image(rank), grid],
        )

    borders = ("zeros", "border", "reflection")
    return [case(border, corners) for border in borders for corners in (False, True)]


def folds() -> list[Case]:
    def case(**options: Any) -> Case:
        columns = F.unfold(torch.zeros(image(2)), **options)
        return Case(lambda x: F.fold(x, SIZES[:2], **options), [columns.shape])

    return [
        case(kernel_size=(3, 4), stride=(3, 4)),
        case(kernel_size=3, stride=2, padding=1),
        case(kernel_size=(2, 3), dilation=(3, 2), padding=(1, 2)),
    ]


X = image(2)
CHANNELS = (2, 8, 4, 6)

ROWS: dict[str, list[Case]] = {
    **{
        f"pad {mode}, {rank}-D": pads(mode, rank)
        for mode in ("constant", "reflect", "replicate", "circular")
        for rank in (1, 2, 3)
    },
    **{f"conv {rank}-D": convolutions(rank) for rank in (1, 2, 3)},
    **{
        f"conv 2-D, padded by {mode}": padded_convolutions(mode)
        for mode in ("reflect", "replicate", "circular")
    },
    **{f"conv_transpose {rank}-D": transposed(rank) for rank in (1, 2, 3)},
    **{
        f"{kind}_pool {rank}-D": pools(kind, rank)
        for kind in ("max", "avg")
        for rank in (1, 2, 3)
    },
    "max_pool with indices": [
        on(X)(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1])
    ],
    "adaptive_avg_pool": adaptive("avg"),
    "adaptive_max_pool": adaptive("max"),
    "lp_pool": [on(X)(lambda x: F.lp_pool2d(x, 2, 3, 2))],
    **{
        f"interpolate {mode}, {rank}-D": resampled(mode, rank)
        for mode in ("nearest", "nearest-exact", "area")
        for rank in (1, 2, 3)
    },
    **{
        f"interpolate {mode}{', align_corners' if corners else ''}": resampled(
            mode, rank, align_corners=corners
        )
        for mode, rank in [
            ("linear", 1),
            ("bilinear", 2),
            ("trilinear", 3),
            ("bicubic", 2),
        ]
        for corners in (False, True)
    },
    **{
        f"interpolate {mode}, antialias": resampled(mode, 2, antialias=True)
        for mode in ("bilinear", "bicubic")
    },
    **{
        f"grid_sample {mode}, {rank}-D": sampled(mode, rank)
        for mode, rank in [
            ("bilinear", 2),
            ("nearest", 2),
            ("bicubic", 2),
            ("bilinear", 3),
            ("nearest", 3),
        ]
    },
    "affine_grid": [
        on((2, 2, 3))(lambda x: F.affine_grid(x, [2, 4, 5, 6], align_corners=False)),
        on((2, 3, 4))(lambda x: F.affine_grid(x, [2, 4, 3, 5, 6], align_corners=True)),
    ],
    "unfold (im2col)": [
        on(X)(lambda x: F.unfold(x, (3, 2), stride=2, padding=1)),
        on(X)(lambda x: F.unfold(x, 3, dilation=2, padding=2)),
        on(X[1:])(lambda x: F.unfold(x, 2)),
    ],
    "fold (col2im)": folds(),
    "Tensor.unfold": [
        on((2, 9))(lambda x: x.unfold(-1, 3, 2)),
        on(X)(lambda x: x.unfold(2, 4, 1)),
    ],
    "roll": [
        on(X)(lambda x: x.roll((3, -1), (0, -1))),
        on(X)(lambda x: x.roll(5)),
        on(X, dynamic=True)(lambda x: x.roll(2, -1)),
    ],
    "flip": [on(X)(lambda x: x.flip(1, -1)), on(X)(lambda x: x.flip(()))],
    "narrow, slice": [
        on(X)(lambda x: x.narrow(-1, -3, 2)),
        on(X)(lambda x: x[1:, ..., 1:-1:2]),
        on(X)(lambda x: F.pad(x, (2, 1))[..., 1:-1]),
        on(X, dynamic=True)(lambda x: x[..., 1:-2]),
    ],
    "slice_scatter": [on(X, (2, 4, 9, 3))(lambda x, y: x.slice_scatter(y, 3, 1, 6, 2))],
    "pixel_shuffle": [
        on(CHANNELS)(lambda x: F.pixel_shuffle(x, 2)),
        on((8, 3, 5))(lambda x: F.pixel_shuffle(x, 2)),
    ],
    "pixel_unshuffle": [
        on(CHANNELS)(lambda x: F.pixel_unshuffle(x, 2)),
        on((3, 2, 4, 6, 4))(lambda x: F.pixel_unshuffle(x, 2)),
    ],
}
