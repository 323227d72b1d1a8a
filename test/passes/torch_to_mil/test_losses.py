# pyright: basic
"""Losses in a Core ML package, against PyTorch's eager mode."""

from typing import Any

import torch
import torch.nn.functional as F
from mil_functions import check

LOSSES: dict[str, Any] = {
    f"multilabel_margin {reduction}": lambda x, i, reduction=reduction: [
        F.multilabel_margin_loss(x, i, reduction=reduction),
        F.multilabel_margin_loss(x[1], i[1], reduction=reduction),
        F.multilabel_margin_loss(x[0, 0], i[0, 1] * 0, reduction=reduction),
    ]
    for reduction in ("none", "mean", "sum")
}
LOSSES["with what is a target"] = lambda x, i: (
    torch.ops.aten.multilabel_margin_loss_forward(x, i, 1)
)


def test_losses() -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    # The first negative target ends the list of a row; targets may repeat.
    i = torch.tensor([[3, 0, -1, 1, -1], [1, 3, -1, 2, 0], [4, 4, 2, 1, 0]])

    check(LOSSES, x, i)
