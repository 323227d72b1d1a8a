"""
A vocoder: from a mel spectrogram to sound, in a Core ML package.

    python -m examples.vocoder vocoder.mlpackage

T. Kaneko et al., "iSTFTNet", 2022: transposed convolutions raise the rate, convolutions
padded by reflection refine, and an inverse short-time Fourier transform makes the
waves. The weights are random.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import padc

MELS = 20
FRAMES = 24
CHANNELS = 32
FFT, HOP = 16, 4
RATES = 4, 4
"""How many times each stage raises the rate: a frame becomes 64 samples."""


def vocoder() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network, and a spectrogram of shape [1, MELS, FRAMES]."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(41)
        return Vocoder().eval(), (torch.randn(1, MELS, FRAMES),)


class Residual(nn.Module):
    """Two convolutions, the first of them dilated, added to their input."""

    def __init__(self, channels: int, dilation: int):
        super().__init__()
        self.dilated = nn.Conv1d(
            channels,
            channels,
            3,
            padding=dilation,
            dilation=dilation,
            padding_mode="reflect",
        )
        self.plain = nn.Conv1d(channels, channels, 3, padding=1, padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        inner = self.dilated(nn.functional.leaky_relu(x, 0.1))
        return x + self.plain(nn.functional.leaky_relu(inner, 0.1))


class Vocoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv1d(MELS, CHANNELS, 7, padding=3, padding_mode="reflect")
        stages: list[nn.Module] = []
        channels = CHANNELS
        for rate in RATES:
            stages += [
                nn.LeakyReLU(0.1),
                nn.ConvTranspose1d(
                    channels, channels // 2, 2 * rate + 1, rate, rate // 2 + 1, 1
                ),
                *(Residual(channels // 2, dilation) for dilation in (1, 3)),
            ]
            channels //= 2
        self.stages = nn.Sequential(*stages)
        # The transform centers its frames, so it takes one frame more.
        self.pad = nn.ReflectionPad1d((1, 0))
        self.after = nn.Conv1d(channels, FFT + 2, 7, padding=3, padding_mode="reflect")
        self.register_buffer("window", torch.hann_window(FFT))

    def forward(self, mel: Tensor) -> Tensor:
        features = self.pad(self.stages(self.before(mel)))
        loudness, phase = self.after(features).chunk(2, dim=1)
        spectrum = torch.polar(torch.exp(loudness.clamp(max=4)), torch.sin(phase))
        return torch.istft(spectrum, FFT, HOP, window=self.get_buffer("window"))


def main(path: Path) -> None:
    """Convert the vocoder, compare the package with PyTorch, and save it."""
    model, inputs = vocoder()
    program = padc.convert(model, inputs, target="iOS17", verify=True)
    program.save(path)
    (sound,) = program.run(*inputs)
    print(f"{path}: {FRAMES} frames become {sound.shape[-1]} samples")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
