# pyright: basic
"""A model with a weight, a buffer and a number."""

import torch
from torch import nn


class Affine(nn.Module):
    """Computes `x * weight * n + offset`."""

    offset: torch.Tensor

    def __init__(self, scale: float = 2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), scale))
        self.register_buffer("offset", torch.tensor(scale + 1))

    def forward(self, x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return x * self.weight * n + self.offset
