"""
ResNet-50 at 224x224 in fp32: the evaluator of saved packages next to eager PyTorch.

Both run in this process and take turns; the package is padc's. Times are medians of
`ROUNDS`: wall-clock seconds, and CPU seconds of all threads.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import padc
from examples.resnet50 import resnet50

ROUNDS = 21


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one run."""
    clock, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - cpu


def main() -> None:
    model, (image,) = resnet50()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.mlpackage"
        padc.convert(model, (image,)).save(path)
        evaluator = padc.coreml.load(path)
    data = {evaluator.inputs[0].name: image.numpy()}

    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    with torch.inference_mode():
        for _ in range(ROUNDS):
            ours.append(seconds(lambda: evaluator.predict(data)))
            theirs.append(seconds(lambda: model(image)))
    print(f"ResNet-50, 224x224, fp32: medians of {ROUNDS}")
    print(f"  {'':12}{'clock':>10}{'CPU':>10}")
    medians = [
        [statistics.median(times) for times in zip(*rounds, strict=True)]
        for rounds in (ours, theirs)
    ]
    for name, values in zip(("evaluator", "PyTorch"), medians, strict=True):
        print(f"  {name:12}" + "".join(f"{value:8.3f} s" for value in values))
    ratios = [a / b for a, b in zip(*medians, strict=True)]
    print(f"  {'ratio':12}" + "".join(f"{ratio:8.2f}  " for ratio in ratios))


if __name__ == "__main__":
    main()
