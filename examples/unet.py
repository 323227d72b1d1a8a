"""
A U-Net whose convolutions repeat the border: O. Ronneberger et al., "U-Net:
convolutional networks for biomedical image segmentation", 2015.
"""

import torch
from torch import Tensor, nn

from examples.seeded import seeded


def unet() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(UNet, (1, 3, 256, 256), seed=15)


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__(
            nn.Conv2d(
                in_channels, out_channels, 3, padding=1, padding_mode="replicate"
            ),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(
                out_channels, out_channels, 3, padding=1, padding_mode="replicate"
            ),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )


class Up(nn.Module):
    def __init__(self, in_channels: int, skip_channels: int, out_channels: int):
        super().__init__()
        self.upsample = nn.Upsample(
            scale_factor=2, mode="bilinear", align_corners=False
        )
        self.conv = DoubleConv(in_channels + skip_channels, out_channels)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return self.conv(torch.cat([skip, self.upsample(x)], dim=1))


class UNet(nn.Module):
    def __init__(self, classes: int = 2):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.down1 = DoubleConv(3, 64)
        self.down2 = DoubleConv(64, 128)
        self.down3 = DoubleConv(128, 256)
        self.down4 = DoubleConv(256, 512)
        self.bottom = DoubleConv(512, 512)
        self.up4 = Up(512, 512, 256)
        self.up3 = Up(256, 256, 128)
        self.up2 = Up(128, 128, 64)
        self.up1 = Up(64, 64, 64)
        self.classify = nn.Conv2d(64, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        skip1 = self.down1(image)
        skip2 = self.down2(self.pool(skip1))
        skip3 = self.down3(self.pool(skip2))
        skip4 = self.down4(self.pool(skip3))
        x = self.bottom(self.pool(skip4))
        x = self.up4(x, skip4)
        x = self.up3(x, skip3)
        x = self.up2(x, skip2)
        x = self.up1(x, skip1)
        return self.classify(x)
