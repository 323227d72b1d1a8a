"""
Frame interpolation by optical flow, as RIFE does it: Z. Huang et al., "Real-time
intermediate flow estimation for video frame interpolation", 2022.

A small network estimates the flow from two frames to the one between them. Both are
warped by that flow, bicubically, and blended.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.seeded import seeded


def flow_warp() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(FlowWarp, (1, 3, 128, 160), (1, 3, 128, 160), seed=22)


def warp(frame: Tensor, flow: Tensor) -> Tensor:
    """`frame` [N, C, H, W], sampled where `flow` [N, 2, H, W] points to."""
    height, width = frame.shape[2:]
    rows, columns = torch.meshgrid(
        torch.arange(height, device=flow.device),
        torch.arange(width, device=flow.device),
        indexing="ij",
    )
    x = (columns + flow[:, 0]) * 2 / (width - 1) - 1
    y = (rows + flow[:, 1]) * 2 / (height - 1) - 1
    return F.grid_sample(
        frame,
        torch.stack([x, y], dim=-1),
        mode="bicubic",
        padding_mode="border",
        align_corners=True,
    )


class FlowWarp(nn.Module):
    def __init__(self, channels: int = 32):
        super().__init__()
        self.estimate = nn.Sequential(
            nn.Conv2d(6, channels, 3, stride=2, padding=1),
            nn.PReLU(channels),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.PReLU(channels),
            nn.ConvTranspose2d(channels, 5, 3, stride=2, padding=1, output_padding=1),
        )

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        motion = self.estimate(torch.cat([before, after], dim=1))
        flow, mask = motion[:, :4], torch.sigmoid(motion[:, 4:])
        return warp(before, flow[:, :2]) * mask + warp(after, flow[:, 2:]) * (1 - mask)
