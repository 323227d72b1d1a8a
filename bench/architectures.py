"""
Networks of torchvision that examples/ does not have, and a U-Net of volumes.

They have torchvision's layers and widths. torchvision itself fails to import next to
PyTorch's wheels for the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    padding = (kernel - 1) // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = conv_norm(inputs, outputs, 3, stride)
        self.second = conv_norm(outputs, outputs, 3)
        self.side = nn.Identity()
        if stride != 1:
            self.side = conv_norm(inputs, outputs, 1, stride)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.side(x))


def resnet18() -> nn.Module:
    """He et al., "Deep Residual Learning for Image Recognition", 2015."""
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    width = 64
    for outputs in (64, 128, 256, 512):
        layers.append(BasicBlock(width, outputs, outputs // width))
        layers.append(BasicBlock(outputs, outputs, 1))
        width = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*layers)


class Excitation(nn.Module):
    def __init__(self, width: int, squeezed: int):
        super().__init__()
        self.down = nn.Conv2d(width, squeezed, 1)
        self.up = nn.Conv2d(squeezed, width, 1)

    @override
    def forward(self, x: Tensor) -> Tensor:
        scale = self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1))))
        return x * torch.sigmoid(scale)


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, expand: int, kernel: int, step: int):
        super().__init__()
        width = inputs * expand
        layers: list[nn.Module] = []
        if expand != 1:
            layers += [conv_norm(inputs, width, 1), nn.SiLU()]
        layers += [conv_norm(width, width, kernel, step, width), nn.SiLU()]
        layers += [Excitation(width, inputs // 4), conv_norm(width, outputs, 1)]
        self.layers = nn.Sequential(*layers)
        self.is_residual = inputs == outputs and step == 1

    @override
    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.is_residual else y


def efficientnet_b0() -> nn.Module:
    """Tan and Le, "EfficientNet: Rethinking Model Scaling for CNNs", 2019."""
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2), nn.SiLU()]
    width = 32
    stages: Sequence[tuple[int, int, int, int, int]] = (
        # expansion, kernel, stride, width, blocks
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )
    for expand, kernel, stride, outputs, count in stages:
        for number in range(count):
            step = stride if number == 0 else 1
            layers.append(InvertedResidual(width, outputs, expand, kernel, step))
            width = outputs
    layers += [conv_norm(width, 1280, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1280, 1000))


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of images."""

    @override
    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 0.1))

    @override
    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + y * self.scale


def convnext_tiny() -> nn.Module:
    """Liu et al., "A ConvNet for the 2020s", 2022."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, eps=1e-6)]
    for width, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
        layers += [ConvNextBlock(width) for _ in range(count)]
        if width != 768:
            layers.append(ChannelNorm(width, eps=1e-6))
            layers.append(nn.Conv2d(width, 2 * width, 2, 2))
    layers += [nn.AdaptiveAvgPool2d(1), ChannelNorm(768, eps=1e-6), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(768, 1000))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first_norm = nn.LayerNorm(width, eps=1e-6)
        self.inputs = nn.Linear(width, 3 * width)
        self.outputs = nn.Linear(width, width)
        self.second_norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    @override
    def forward(self, x: Tensor) -> Tensor:
        parts = self.inputs(self.first_norm(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.outputs(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020."""

    def __init__(self, width: int = 768, depth: int = 12, heads: int = 12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        blocks = [TransformerBlock(width, heads) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, 1000)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class UNet3d(nn.Module):
    """Isensee et al., "nnU-Net", 2018, with three levels."""

    def __init__(self, width: int = 16):
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for source in (inputs, outputs):
                layers.append(nn.Conv3d(source, outputs, 3, padding=1))
                layers += [nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01)]
            return nn.Sequential(*layers)

        sizes = (width, 2 * width, 4 * width)
        self.down = nn.ModuleList(map(double, (1, *sizes), sizes))
        self.up = nn.ModuleList(
            nn.ConvTranspose3d(2 * size, size, 2, stride=2) for size in sizes[1::-1]
        )
        self.join = nn.ModuleList(double(2 * size, size) for size in sizes[1::-1])
        self.last = nn.Conv3d(width, 3, 1)

    @override
    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level in self.down:
            x = level(F.max_pool3d(x, 2) if kept else x)
            kept.append(x)
        for up, join, side in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([up(x), side], 1))
        return self.last(x)
