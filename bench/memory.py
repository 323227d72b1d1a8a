# pyright: basic, reportMissingTypeStubs=false, reportMissingImports=false
"""
Memory of whole networks: padc and onnxruntime.

    python -m bench.memory [--only NAME ...] [--threads N]

Each engine reads a network's file (.pt2 or .onnx) and runs it a few times, in a
process of its own, whose other memory, such as that of imported modules, is not
counted. Numbers are MiB: the weights, the most that was in use from before the file
was read until the last run ("peak"), and what is in use after it ("kept"). A ratio is
padc / onnxruntime: below 1, padc takes less. padc's machine code is in its cache, and
its peak includes the weights of the exported program, which its caller may need no
longer. Linux only.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

import padc
from bench.networks import NETWORKS, geometric_mean, onnx_file, tensors_of

RUNS = 3
ENGINES = {"padc": "pt2", "onnxruntime": "onnx"}
"""The engines, and the files that they read."""


def mebibytes(what: str) -> float:
    """An entry of /proc/self/status: VmRSS, what is in use, or VmHWM, its peak."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{what}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def run_padc(path: Path, inputs: Sequence[torch.Tensor], threads: int) -> None:
    compiled = padc.compile(torch.export.load(path), threads=threads)
    outputs = tensors_of(compiled(*inputs))
    for _ in range(RUNS):
        compiled.run_into(outputs, *inputs)
    report(compiled)


def run_onnxruntime(path: Path, inputs: Sequence[torch.Tensor], threads: int) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    names = [x.name for x in session.get_inputs()]
    given = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    outputs = session.run(None, given)
    for _ in range(RUNS):
        outputs = session.run(None, given)
    report(session, outputs)


def report(*alive: object) -> None:
    """Print the peak, and what is in use while these objects live."""
    print("peak", mebibytes("VmHWM"))
    gc.collect()
    print("kept", mebibytes("VmRSS"))


def child(engine: str, folder: Path, threads: int) -> None:
    run = {"padc": run_padc, "onnxruntime": run_onnxruntime}[engine]
    torch.set_num_threads(threads)
    run(folder / f"small.{ENGINES[engine]}", [torch.ones(2, 3)], threads)
    inputs = torch.load(folder / "inputs.pt")
    gc.collect()
    # The peak is that from now on.
    Path("/proc/self/clear_refs").write_text("5")
    print("before", mebibytes("VmRSS"))
    run(folder / f"network.{ENGINES[engine]}", inputs, threads)


def measured(engine: str, folder: Path, threads: int) -> tuple[float, float]:
    """The peak, and what is kept, without what was in use before."""
    command = [sys.executable, "-m", "bench.memory", "--child", engine, str(folder)]
    done = subprocess.run(
        [*command, "--threads", str(threads)],
        env={**os.environ, "PADC_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    *_, before, peak, kept = (float(x.split()[1]) for x in done.stdout.splitlines())
    return peak - before, kept - before


def write(model: nn.Module, inputs: tuple, folder: Path, name: str) -> None:
    """Write the files of a network."""
    torch.export.save(torch.export.export(model, inputs), folder / f"{name}.pt2")
    (folder / f"{name}.onnx").write_bytes(onnx_file(model, inputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_grad_enabled(False)
    if given.child:
        engine, folder = given.child
        return child(engine, Path(folder), given.threads)
    print(f"{'':20} {'weights':>8} {'padc':>16} {'onnxruntime':>16} {'ratio':>12}")
    print(
        f"{'':20} {'':>8}" + f" {'peak':>8}{'kept':>8}" * 2 + f"{'peak':>7}{'kept':>6}"
    )
    ratios: list[float] = []
    for name in given.only:
        model, inputs = NETWORKS[name]()
        weights = sum(x.nbytes for x in model.state_dict().values()) / 2**20
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write(nn.ReLU(), (torch.ones(2, 3),), folder, "small")
            write(model, inputs, folder, "network")
            torch.save(tensors_of(inputs), folder / "inputs.pt")
            measured("padc", folder, given.threads)  # Fills the cache.
            (a, b), (c, d) = (measured(x, folder, given.threads) for x in ENGINES)
        ratios.append(a / c)
        print(
            f"{name:20} {weights:8.1f} {a:8.1f}{b:8.1f} {c:8.1f}{d:8.1f} "
            f"{a / c:6.2f}{b / d:6.2f}",
            flush=True,
        )
    print(f"geometric mean of the ratios of peaks: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
