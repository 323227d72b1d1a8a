# pyright: basic
"""Losses in a Core ML package, against PyTorch's eager mode."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from mil_functions import check
from torch import Tensor

from padc.errors import UnsupportedError

LOSSES: dict[str, Any] = {
    f"multilabel_margin {reduction}": lambda x, i, reduction=reduction: [
        F.multilabel_margin_loss(x[1], i[1], reduction=reduction),
        F.multilabel_margin_loss(x[0, 0], i[0, 1] * 0, reduction=reduction),
    ]
    for reduction in ("mean", "sum")
}
LOSSES["multilabel_margin of rows"] = lambda x, i: [
    F.multilabel_margin_loss(x, i, reduction=reduction)
    for reduction in ("none", "mean", "sum")
]
LOSSES["with what is a target"] = lambda x, i: (
    torch.ops.aten.multilabel_margin_loss_forward(x, i, 1)
)


CLASSES = torch.tensor([1, 4, 0])
WEIGHTS = torch.tensor([0.5, 1, 2, 0, 3])
MARGINS: dict[str, Any] = {
    f"multi_margin {reduction}": lambda x, i, reduction=reduction: [
        F.multi_margin_loss(x, i, reduction=reduction),
        F.multi_margin_loss(x, i, 2, 7, WEIGHTS, reduction=reduction),
        F.multi_margin_loss(x, i, 1, 0.1, WEIGHTS, reduction=reduction),
    ]
    for reduction in ("none", "mean", "sum")
}
MARGINS["of one row"] = lambda x, i: [
    F.multi_margin_loss(x[0], i[0], 2, 7, WEIGHTS),
    F.multi_margin_loss(x[1], i[1], reduction="sum"),
]


def test_margins_of_one_class() -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))

    check(MARGINS, x, CLASSES)


def test_shape_that_export_gets_wrong_is_refused() -> None:
    def loss(x: Tensor, i: Tensor) -> Tensor:
        return F.multi_margin_loss(x, i, reduction="none")

    def multilabel_loss(x: Tensor, i: Tensor) -> Tensor:
        return F.multilabel_margin_loss(x, i, reduction="none")

    message = r"the shape \[1\], eager mode \[\]"
    with pytest.raises(UnsupportedError, match=message):
        check({"loss": loss}, torch.randn(5), torch.tensor(2))
    with pytest.raises(UnsupportedError, match=message):
        check({"loss": multilabel_loss}, torch.randn(5), torch.arange(5))


def test_losses() -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    # The first negative target ends the list of a row; targets may repeat.
    i = torch.tensor([[3, 0, -1, 1, -1], [1, 3, -1, 2, 0], [4, 4, 2, 1, 0]])

    check(LOSSES, x, i)
