"""A model whose package has ops of many kinds, for `test_determinism.py`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular")
        self.batch_norm = nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer_norm = nn.LayerNorm(8)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1)
        self.count: Tensor
        self.register_buffer("count", torch.zeros(4))

    def forward(self, image: Tensor, grid: Tensor) -> tuple[Tensor, Tensor]:
        x = F.gelu(self.batch_norm(self.conv(F.pad(image, (2, -1, 1, 0), "reflect"))))
        x = F.grid_sample(x, grid, align_corners=False)
        tokens = self.layer_norm(x.flatten(2).transpose(1, 2))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        x = tokens.transpose(1, 2).reshape(x.shape)
        self.count.add_(1)
        return self.up(x).softmax(1) + self.count[:, None, None], x.amax((2, 3))


def mixed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    grid = torch.rand(1, 4, 4, 2) * 2 - 1
    return Mixed().eval(), (torch.rand(1, 3, 8, 8), grid)
