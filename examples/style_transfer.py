"""
A style-transfer network: J. Johnson et al., "Perceptual losses for real-time style
transfer and super-resolution", 2016, with the instance norm and the nearest upsampling
that later replaced its batch norm and transposed convolutions.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from examples.seeded import seeded


def style_transfer() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(StyleTransfer, (1, 3, 256, 256), seed=16)


class Conv(nn.Sequential):
    """A convolution that mirrors the image at its border."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int):
        super().__init__(
            nn.ReflectionPad2d(kernel // 2),
            nn.Conv2d(in_channels, out_channels, kernel, stride),
        )


class ConvNorm(nn.Sequential):
    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, stride: int = 1
    ):
        super().__init__(
            Conv(in_channels, out_channels, kernel, stride),
            nn.InstanceNorm2d(out_channels, affine=True),
        )


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = ConvNorm(channels, channels, 3)
        self.conv2 = ConvNorm(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(F.relu(self.conv1(x)))


class StyleTransfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = ConvNorm(3, 32, 9)
        self.down2 = ConvNorm(32, 64, 3, stride=2)
        self.down3 = ConvNorm(64, 128, 3, stride=2)
        self.residuals = nn.Sequential(*(Residual(128) for _ in range(5)))
        self.up2 = ConvNorm(128, 64, 3)
        self.up1 = ConvNorm(64, 32, 3)
        self.paint = Conv(32, 3, 9, stride=1)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.down1(image))
        x = F.relu(self.down2(x))
        x = F.relu(self.down3(x))
        x = self.residuals(x)
        x = F.relu(self.up2(F.interpolate(x, scale_factor=2, mode="nearest")))
        x = F.relu(self.up1(F.interpolate(x, scale_factor=2, mode="nearest")))
        return self.paint(x)
