"""
How long `padc.compile` takes for an exported ResNet-50 at 224x224.

Cold, with an empty cache, and from the cache. Times are wall-clock seconds, medians of
`ROUNDS`; the two take turns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time

import torch

import padc
from examples.resnet50 import resnet50

ROUNDS = 11


def main() -> None:
    model, inputs = resnet50()
    exported = torch.export.export(model, inputs)
    cold: list[float] = []
    cached: list[float] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PADC_CACHE_DIR"] = folder
            for times in (cold, cached):
                start = time.perf_counter()
                compiled = padc.compile(exported)
                times.append(time.perf_counter() - start)
                assert compiled.is_native
    for name, times in (("cold", cold), ("from the cache", cached)):
        print(f"padc.compile of ResNet-50, {name}: {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
