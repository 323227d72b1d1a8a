"""
Conversion of ResNet-50 by padc and by coremltools, from export to saved package.

Both start from one exported program, in this process, and take turns. Times are CPU
seconds of the whole process, medians of `ROUNDS`. coremltools takes a program only
after `run_decompositions({})`: the first table leaves that call out of the time, the
second includes it.
"""

from __future__ import annotations

import io
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import ModuleOp

import padc
from examples.resnet50 import resnet50
from padc.backends.coreml import quiet

with quiet():
    import coremltools as ct

ROUNDS = 11
TARGET = "iOS17"


def by_padc(exported: ExportedProgram, path: Path, steps: dict[str, float]) -> None:
    def observer(step: str, module: ModuleOp | None, seconds: float) -> None:
        steps[step] += seconds

    program = padc.convert(exported, target=TARGET, observer=observer)
    start = time.perf_counter()
    program.save(path)
    observer("save", None, time.perf_counter() - start)


def by_coremltools(exported: ExportedProgram, path: Path) -> None:
    with redirect_stderr(io.StringIO()):  # coremltools draws progress bars.
        converted: Any = ct.convert(
            exported,
            minimum_deployment_target=getattr(ct.target, TARGET),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
        converted.save(str(path))


def cpu_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(title: str, exported: ExportedProgram, decompose: bool) -> None:
    """Print both medians, their ratio, and the time of each step of padc."""
    ours: list[float] = []
    theirs: list[float] = []
    rounds: list[dict[str, float]] = []

    def prepared() -> ExportedProgram:
        return exported.run_decompositions({}) if decompose else exported

    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            steps = defaultdict[str, float](float)
            path = Path(folder) / "padc.mlpackage"
            ours.append(cpu_seconds(lambda: by_padc(exported, path, steps)))
            rounds.append(steps)
            path = Path(folder) / "coremltools.mlpackage"
            theirs.append(cpu_seconds(lambda: by_coremltools(prepared(), path)))
    padc_median, ct_median = statistics.median(ours), statistics.median(theirs)
    print(f"ResNet-50, {title}")
    print(f"  padc         {padc_median:6.3f} s")
    print(f"  coremltools  {ct_median:6.3f} s")
    print(f"  ratio        {padc_median / ct_median:6.3f}")
    print("  padc's steps, wall-clock seconds:")
    for step in rounds[0]:
        seconds = statistics.median(steps[step] for steps in rounds)
        print(f"    {step:22}{seconds:7.3f} s")


def main() -> None:
    warnings.filterwarnings("ignore")
    exported = torch.export.export(*resnet50())
    print(f"CPU seconds, medians of {ROUNDS}")
    decomposed = exported.run_decompositions({})
    compare("from run_decompositions({}) to the package", decomposed, False)
    compare("from torch.export.export to the package", exported, True)


if __name__ == "__main__":
    main()
