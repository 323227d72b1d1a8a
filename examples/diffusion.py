"""
A diffusion U-Net for panoramas: circular padding, in float16, with 4-bit weights.

    $ python -m examples.diffusion

Converts the network that predicts the noise of an image, prints what float16 and 4-bit
weights cost, and removes noise with the package in a few steps. The weights are random,
and so is the image.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padc
from padc.verification import run_package

CHANNELS, WIDTH, TIME = 4, 32, 64


def conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """A convolution whose left border continues at the right, and top at the bottom."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, padding_mode="circular")


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inputs), conv(inputs, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(8, outputs), conv(outputs, outputs)
        self.time = nn.Linear(TIME, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.attention = nn.MultiheadAttention(channels, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return x + mixed.transpose(1, 2).reshape(x.shape)


class DiffusionUNet(nn.Module):
    """The noise in an image, at a time from 0 to 1000."""

    def __init__(self, width: int):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(TIME, TIME), nn.SiLU())
        self.enter = conv(CHANNELS, width)
        self.down = ResidualBlock(width, width)
        self.smaller = conv(width, 2 * width, stride=2)
        self.middle = ResidualBlock(2 * width, 2 * width)
        self.attention = Attention(2 * width)
        self.larger = conv(2 * width, width)
        self.up = ResidualBlock(2 * width, width)
        self.norm, self.leave = nn.GroupNorm(8, width), conv(width, CHANNELS)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        rates = torch.exp(torch.arange(TIME // 2) * (-math.log(1e4) / (TIME // 2)))
        angles = time[:, None] * rates
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        skip = self.down(self.enter(image), embedded)
        x = self.attention(self.middle(self.smaller(skip), embedded))
        x = self.larger(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up(torch.cat([x, skip], 1), embedded)
        return self.leave(F.silu(self.norm(x)))


def diffusion(width: int = WIDTH) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = DiffusionUNet(width).eval()
        return model, (torch.randn(1, CHANNELS, 16, 32), torch.tensor([500.0]))


def denoised(
    predict: Callable[[Tensor, Tensor], Tensor], image: Tensor, steps: int
) -> Tensor:
    """The image after some steps of DDIM: J. Song et al., 2020."""
    kept = torch.cos(torch.linspace(1.2, 0, steps + 1)) ** 2  # The part that is signal.
    for index in range(steps):
        noise = predict(image, torch.tensor([1000.0 * (1 - index / steps)]))
        now, then = kept[index], kept[index + 1]
        clean = (image - (1 - now).sqrt() * noise) / now.sqrt()
        image = then.sqrt() * clean + (1 - then).sqrt() * noise
    return image


def convert(width: int = WIDTH) -> padc.Program:
    model, inputs = diffusion(width)
    return padc.convert(
        model, inputs, target="iOS18", precision="float16", compress="palette4"
    )


def main(path: Path | None = None, width: int = WIDTH, with_report: bool = True) -> int:
    """Tell the story; the package is written to `path`, by default a temporary one."""
    program = convert(width)
    (comparison,) = program.verify()
    print(f"4-bit weights cost {comparison.relative_error:.1e} of the range")
    if with_report:
        print(program.float16_report())
    with tempfile.TemporaryDirectory() as folder:
        path = path or Path(folder) / "diffusion.mlpackage"
        program.save(path)
        _, (image, _) = diffusion()
        result = denoised(lambda *given: run_package(path, given)[0], image, 4)
    print(f"image: mean {result.mean():.3f}, standard deviation {result.std():.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
