"""
A segmentation of photos of any size: photos in, masks of the same size out.

    $ python -m examples.segmenter

Both are images in the package, and Xcode previews it. The weights are random.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import coremltools as ct
import numpy as np
import torch
from torch import Tensor, nn

import padc
from examples.seeded import seeded

CLASSES = ["background", "person", "sky"]
STEP = 100
"""The gray of a class: 0, 100 and 200."""
SMALLEST, LARGEST, DEFAULT = 32, 256, 64


class Segmenter(nn.Module):
    """Scores at half the size, resampled; the mask has the best class of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 12, 3, stride=2, padding=1, padding_mode="reflect")
        self.norm = nn.BatchNorm2d(12)
        self.wide = nn.Conv2d(
            12, 12, 3, padding=2, dilation=2, padding_mode="replicate"
        )
        self.score = nn.Conv2d(12, len(CLASSES), 1)

    def forward(self, x: Tensor) -> Tensor:
        features = self.norm(self.down(x)).relu()
        scores = self.score(self.wide(features).relu())
        scores = nn.functional.interpolate(scores, x.shape[2:], mode="bilinear")
        return scores.argmax(1, keepdim=True)


def segmenter() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(Segmenter, (1, 3, DEFAULT, DEFAULT), seed=20)


def sizes() -> tuple[ct.RangeDim, ct.RangeDim]:
    """The height and the width of a photo."""
    return (
        ct.RangeDim(SMALLEST, LARGEST, DEFAULT),
        ct.RangeDim(SMALLEST, LARGEST, DEFAULT),
    )


def convert() -> tuple[padc.Program, nn.Module]:
    """The package, verified, and the network."""
    model, inputs = segmenter()
    program = padc.convert(
        model,
        inputs,
        inputs=[ct.ImageType("photo", shape=(1, 3, *sizes()), scale=1 / 255)],
        outputs=[
            ct.ImageType("mask", color_layout=ct.colorlayout.GRAYSCALE, scale=STEP)
        ],
        metadata={
            "preview_type": "imageSegmenter",
            "preview_parameters": {
                "labels": CLASSES,
                "colors": ["#000000", "#00ff00", "#0000ff"],
            },
        },
        verify=True,
    )
    return program, model


def photo(height: int, width: int) -> np.ndarray:
    """A smooth picture, as an array of bytes of shape [height, width, 3]."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 9 + y / 17), np.cos(x / 13 - y / 7), np.sin(y / 11)]
    return np.stack([127.5 + 127 * wave for wave in waves], -1).astype(np.uint8)


def main() -> int:
    program, model = convert()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segmenter.mlpackage"
        program.save(path)
        package = padc.coreml.load(path)
    wrong = 0
    for height, width in ((32, 32), (64, 64), (77, 50), (128, 256)):
        image = photo(height, width)
        mask = package.predict({"photo": image})["mask"]
        tensor = torch.from_numpy(image).permute(2, 0, 1)[None] / 255
        with torch.no_grad():
            expected = STEP * model(tensor)[0, 0].numpy()
        differ = float((mask != expected).mean())
        # Two classes may have nearly equal scores.
        wrong += mask.shape != expected.shape or differ > 1e-3
        shares = [float((mask == STEP * label).mean()) for label in range(len(CLASSES))]
        listed = ", ".join(f"{n} {s:.0%}" for n, s in zip(CLASSES, shares))
        print(f"{height} x {width}: {listed}; {differ:.2%} of the pixels differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
