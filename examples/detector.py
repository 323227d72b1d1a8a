"""
A detector with deformable attention, in a Core ML package.

    python -m examples.detector detector.mlpackage

X. Zhu et al., "Deformable DETR", 2021: each query samples feature maps of several
scales at a few points, which it chooses itself, by `grid_sample`. The weights are
random.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padc

SIZE = 64
CHANNELS = 32
HEADS, LEVELS, POINTS = 4, 2, 4
QUERIES, CLASSES, DECODERS = 12, 5, 1


def detector() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network, and an image of shape [1, 3, SIZE, SIZE]."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        return Detector().eval(), (torch.rand(1, 3, SIZE, SIZE),)


class DeformableAttention(nn.Module):
    """Queries sample the feature maps around their reference points."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = nn.ModuleList(
            nn.Linear(CHANNELS, HEADS * POINTS * 2) for _ in range(LEVELS)
        )
        self.weights = nn.Linear(CHANNELS, HEADS * LEVELS * POINTS)
        self.values = nn.ModuleList(
            nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(LEVELS)
        )
        self.output = nn.Linear(CHANNELS, CHANNELS)

    def forward(
        self, queries: Tensor, reference: Tensor, maps: Sequence[Tensor]
    ) -> Tensor:
        """`queries` is [B, Q, C], `reference` [B, Q, 2] from 0 to 1, as are `maps`."""
        batch, count, channels = queries.shape
        weights = self.weights(queries).reshape(batch, count, HEADS, LEVELS * POINTS)
        weights = weights.softmax(-1).permute(0, 2, 1, 3).flatten(0, 1)
        sampled: list[Tensor] = []
        for features, offsets, project in zip(maps, self.offsets, self.values):
            height, width = features.shape[-2:]
            values = project(features).reshape(batch * HEADS, -1, height, width)
            scale = torch.tensor([width, height])
            moved = offsets(queries).reshape(batch, count, HEADS, POINTS, 2) / scale
            points = reference[:, :, None, None] + moved
            grid = (2 * points - 1).permute(0, 2, 1, 3, 4).flatten(0, 1)
            sampled.append(F.grid_sample(values, grid, align_corners=False))
        found = (torch.cat(sampled, -1) * weights[:, None]).sum(-1)
        return self.output(found.reshape(batch, channels, count).transpose(1, 2))


class Decoder(nn.Module):
    """A layer of the decoder: attention to other queries, then to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.among = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True)
        self.image = DeformableAttention()
        self.feed = nn.Sequential(
            nn.Linear(CHANNELS, 64), nn.ReLU(), nn.Linear(64, CHANNELS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(3))

    def forward(self, x: Tensor, reference: Tensor, maps: Sequence[Tensor]) -> Tensor:
        first, second, third = self.norms
        x = first(x + self.among(x, x, x, need_weights=False)[0])
        x = second(x + self.image(x, reference, maps))
        return third(x + self.feed(x))


def halving(channels: int) -> nn.Sequential:
    """A convolution that halves the size, in the padding of the borders."""
    return nn.Sequential(
        nn.Conv2d(channels, CHANNELS, 3, 2, 1, padding_mode="replicate"),
        nn.BatchNorm2d(CHANNELS),
        nn.ReLU(),
    )


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(halving(3), halving(CHANNELS))
        self.stages = nn.ModuleList(halving(CHANNELS) for _ in range(LEVELS))
        self.queries = nn.Parameter(torch.randn(QUERIES, CHANNELS))
        self.reference = nn.Linear(CHANNELS, 2)
        self.layers = nn.ModuleList(Decoder() for _ in range(DECODERS))
        self.classes = nn.Linear(CHANNELS, CLASSES)
        self.boxes = nn.Linear(CHANNELS, 4)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        maps: list[Tensor] = []
        x = self.stem(image)
        for stage in self.stages:
            maps.append(x := stage(x))
        queries = self.queries.expand(image.shape[0], -1, -1)
        reference = self.reference(queries).sigmoid()
        for layer in self.layers:
            queries = layer(queries, reference, maps)
        corners = self.boxes(queries).sigmoid()
        return {"scores": self.classes(queries).softmax(-1), "boxes": corners}


def main(path: Path) -> None:
    """Convert the detector, compare the package with PyTorch, and save it."""
    model, inputs = detector()
    program = padc.convert(model, inputs, target="iOS17", verify=True)
    program.save(path)
    scores, boxes = program.run(*inputs)
    (best,) = boxes[0, scores.amax(-1).argmax(-1)].tolist()
    print(f"{path}: the best box is {[round(x, 2) for x in best]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
