"""
Registration of volumes: G. Balakrishnan et al., "VoxelMorph: a learning framework for
deformable medical image registration", 2019.

A network estimates the velocity field that deforms one volume into another. The field
is integrated in four steps, and the volume is warped by the result.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.seeded import seeded


def voxel_morph() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(VoxelMorph, (1, 1, 24, 32, 28), (1, 1, 24, 32, 28), seed=23)


def warp(volume: Tensor, displacement: Tensor) -> Tensor:
    """`volume` [N, C, D, H, W] displaced by [N, 3, D, H, W] voxels: (z, y, x)."""
    sizes = volume.shape[2:]
    axes = [torch.arange(size, dtype=torch.float32) for size in sizes]
    places = torch.stack(torch.meshgrid(*axes, indexing="ij")) + displacement
    extents = torch.tensor([size - 1.0 for size in sizes]).reshape(3, 1, 1, 1)
    grid = (2 * places / extents - 1).permute(0, 2, 3, 4, 1).flip(-1)
    return F.grid_sample(volume, grid, padding_mode="border", align_corners=True)


class VoxelMorph(nn.Module):
    def __init__(self, channels: int = 8, steps: int = 4):
        super().__init__()
        self.steps = steps
        self.down = nn.Conv3d(2, channels, 3, stride=2, padding=1)
        self.bottom = nn.Conv3d(channels, channels, 3, padding=1)
        self.flow = nn.Conv3d(channels + 2, 3, 3, padding=1, padding_mode="replicate")

    def forward(self, moving: Tensor, fixed: Tensor) -> Tensor:
        pair = torch.cat([moving, fixed], dim=1)
        x = F.leaky_relu(self.down(pair), 0.2)
        x = F.leaky_relu(self.bottom(x), 0.2)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        flow = self.flow(torch.cat([x, pair], dim=1)) / 2**self.steps
        for _ in range(self.steps):
            flow = flow + warp(flow, flow)
        return warp(moving, flow)
