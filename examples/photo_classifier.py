"""
An image classifier as an app wants it: photos in, labels out.

    $ python -m examples.photo_classifier

The network is trained on normalized tensors, as torchvision makes them of photos. The
package takes the photos. The weights are random, and so are the labels.
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

LABELS = ["bicycle", "boat", "cat", "dog", "owl", "tree", "train"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 64


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(
            channels, channels, 3, padding=1, padding_mode="reflect", bias=False
        )
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.norm(self.conv(x))).relu()


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, stride=4, padding=3, padding_mode="reflect")
        self.body = nn.Sequential(Residual(16), nn.MaxPool2d(2), Residual(16))
        self.head = nn.Linear(16, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        features = self.body(self.stem(x).relu()).mean((2, 3))
        return self.head(features).softmax(1)


def photo_classifier() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(Classifier, (2, 3, SIZE, SIZE), seed=19)


def convert() -> tuple[padc.Program, nn.Module]:
    """The package, verified, and the network."""
    model, (images,) = photo_classifier()
    program = padc.convert(
        model,
        (images[:1],),
        target="iOS16",
        inputs=[padc.coreml.image_type("photo", mean=MEAN, std=STD)],
        classifier_config=ct.ClassifierConfig(LABELS),
        metadata={
            "author": "padc",
            "license": "Apache-2.0",
            "version": "1.0",
            "short_description": "Tells what is in a photo.",
            "input_description": {"photo": f"a photo of {SIZE} by {SIZE} pixels"},
            "output_description": {
                "classLabel": "what is most likely in the photo",
                "classLabel_probs": "the probability of each label",
            },
        },
        verify=True,
    )
    return program, model


def photo(seed: int) -> np.ndarray:
    """Random shapes, as an array of bytes of shape [height, width, 3]."""
    coarse = np.random.default_rng(seed).integers(0, 256, (2, 2, 3))
    return coarse.repeat(SIZE // 2, 0).repeat(SIZE // 2, 1).astype(np.uint8)


def as_torchvision(image: np.ndarray) -> Tensor:
    """`Normalize(MEAN, STD)(ToTensor()(image))`, as a batch of one."""
    tensor = torch.from_numpy(image).permute(2, 0, 1).float() / 255
    mean, std = (torch.tensor(each).reshape(3, 1, 1) for each in (MEAN, STD))
    return ((tensor - mean) / std)[None]


def main() -> int:
    program, model = convert()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.mlpackage"
        program.save(path)
        package = padc.coreml.load(path)
    wrong = 0
    for seed in range(4):
        outputs = package.predict({"photo": photo(seed)})
        with torch.no_grad():
            (expected,) = model(as_torchvision(photo(seed)))
        label = LABELS[int(expected.argmax())]
        odds = list(outputs["classLabel_probs"].values())
        agrees = np.allclose(odds, expected, rtol=0, atol=1e-5)
        wrong += not (agrees and outputs["classLabel"] == label)
        print(
            f"photo {seed}: {outputs['classLabel']} ({max(odds):.2f}), PyTorch: {label}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
