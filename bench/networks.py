# pyright: basic, reportMissingTypeStubs=false, reportMissingImports=false
"""
Time of whole networks: padc, PyTorch, torch.compile and onnxruntime.

    python -m bench.networks [--threads 1 2] [--rounds N] [--only NAME ...]
                             [--without PEER ...] [--page docs/performance/avx2.md]
                             [--precision strict]

All run in one process, one after the other in a random order, `--rounds` times, in
float32 with batch 1. padc and onnxruntime write to outputs that they are given. Times
are medians of wall-clock milliseconds of a run that follows others of its kind; before
the first of these, the threads of others stop spinning. An error is the largest
difference from PyTorch in float64, as a part of the output's range. With `--page`, the
tables and a chart (`.svg`, next to it) are written, too.

torch.compile takes part if there is a C++ compiler; its compile time is long.
"""

from __future__ import annotations

import argparse
import copy
import io
import math
import os
import platform
import random
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import padc
from bench.architectures import (
    UNet3d,
    VisionTransformer,
    convnext_tiny,
    efficientnet_b0,
    resnet18,
)
from examples.flow_warp import flow_warp
from examples.mobilenet_v2 import mobilenet_v2
from examples.resnet50 import resnet50
from examples.seeded import seeded
from examples.spatial_transformer import spatial_transformer
from examples.style_transfer import style_transfer
from examples.unet import unet
from examples.voxel_morph import voxel_morph
from padc.ir.precisions import NativePrecision

Run: TypeAlias = Callable[[], Sequence[Tensor]]
Network: TypeAlias = Callable[[], tuple[nn.Module, tuple[Any, ...]]]

OPSET = 20
"""The first with grid samples of volumes."""
EAGER, INDUCTOR, ONNX = "PyTorch", "torch.compile", "onnxruntime"
PEERS = EAGER, INDUCTOR, ONNX
PRECISIONS = get_args(NativePrecision)
WARM_UPS = 3
PAUSE = 0.05
"""Seconds in which the threads of others stop spinning."""
BEFORE = 0.02
"""
The seconds of runs before the one that counts.

After a pause, two threads may be woken on one core. The system moves one of them within
milliseconds, but short runs end before that.
"""


def of_photo(build: Callable[[], nn.Module]) -> Network:
    """The model that `build` returns, and an image of 224x224."""
    return lambda: seeded(build, (1, 3, 224, 224), seed=0)


def unet_3d() -> tuple[nn.Module, tuple[Any, ...]]:
    return seeded(UNet3d, (1, 1, 48, 64, 64), seed=0)


NETWORKS: Mapping[str, Network] = {
    "ResNet-18": of_photo(resnet18),
    "ResNet-50": resnet50,
    "MobileNetV2": mobilenet_v2,
    "U-Net": unet,
    "style transfer": style_transfer,
    "EfficientNet-B0": of_photo(efficientnet_b0),
    "ConvNeXt-T": of_photo(convnext_tiny),
    "ViT-B/16": of_photo(VisionTransformer),
    "3-D U-Net": unet_3d,
    "spatial transformer": spatial_transformer,
    "flow warp": flow_warp,
    "VoxelMorph": voxel_morph,
}


def tensors_of(outputs: object) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(outputs) if isinstance(x, Tensor)]


def by_padc(
    model: nn.Module,
    inputs: tuple[Any, ...],
    threads: int,
    precision: NativePrecision = "default",
) -> Run:
    os.environ["PADC_CACHE_DIR"] = ""  # The compile time is that without a cache.
    compiled = padc.compile(model, inputs, threads=threads, precision=precision)
    assert compiled.is_native
    outputs = tensors_of(compiled(*inputs))

    def run() -> Sequence[Tensor]:
        compiled.run_into(outputs, *inputs)
        return outputs

    return run


def by_pytorch(
    model: Callable[..., object], inputs: tuple[Any, ...], threads: int
) -> Run:
    return lambda: tensors_of(model(*inputs))


def by_inductor(model: nn.Module, inputs: tuple[Any, ...], threads: int) -> Run:
    torch.compiler.reset()
    return by_pytorch(torch.compile(model), inputs, threads)


def onnx_file(model: nn.Module, inputs: tuple[Any, ...]) -> bytes:
    """A model in ONNX's format."""
    file = io.BytesIO()
    with (
        warnings.catch_warnings(action="ignore"),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        export: Any = torch.onnx.export  # It takes files, whatever its annotation says.
        export(model, inputs, file, dynamo=False, opset_version=OPSET)
    return file.getvalue()


def by_onnxruntime(model: nn.Module, inputs: tuple[Any, ...], threads: int) -> Run:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(
        onnx_file(model, inputs), options, providers=["CPUExecutionProvider"]
    )
    binding: Any = session.io_binding()
    for value, tensor in zip(session.get_inputs(), tensors_of(inputs), strict=True):
        binding.bind_cpu_input(value.name, tensor.numpy())
    outputs = [torch.empty_like(x) for x in tensors_of(model(*inputs))]
    for value, tensor in zip(session.get_outputs(), outputs, strict=True):
        shape, pointer = list(tensor.shape), tensor.data_ptr()
        element = np.dtype(str(tensor.dtype).removeprefix("torch."))
        binding.bind_output(value.name, "cpu", 0, element, shape, pointer)

    def run() -> Sequence[Tensor]:
        session.run_with_iobinding(binding)
        return outputs

    return run


Runner: TypeAlias = Callable[[nn.Module, tuple[Any, ...], int], Run]
RUNNERS: Mapping[str, Runner] = {
    EAGER: by_pytorch,
    INDUCTOR: by_inductor,
    ONNX: by_onnxruntime,
}


@dataclass(frozen=True)
class Result:
    """What was measured of a network."""

    milliseconds: Mapping[str, float]
    errors: Mapping[str, float]
    compile_seconds: float

    def ratio(self, peer: str) -> float:
        """The time of a peer divided by padc's."""
        return self.milliseconds[peer] / self.milliseconds["padc"]


def measure(
    network: Network, threads: int, rounds: int, runners: Mapping[str, Runner]
) -> Result:
    torch.set_num_threads(threads)
    model, inputs = network()
    exact = tensors_of(
        copy.deepcopy(model).double()(*pytree.tree_map_only(Tensor, doubled, inputs))
    )
    runs: dict[str, Run] = {}
    compile_seconds = 0.0
    for name, runner in runners.items():
        start = time.perf_counter()
        runs[name] = runner(model, inputs, threads)
        if name == "padc":
            compile_seconds = time.perf_counter() - start
    errors = {name: error(run(), exact) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(WARM_UPS + rounds):
        for name in random.sample(list(runs), len(runs)):
            seconds = timed(runs[name])
            if number >= WARM_UPS:
                times[name].append(seconds)
    medians = {name: 1e3 * statistics.median(each) for name, each in times.items()}
    return Result(medians, errors, compile_seconds)


def timed(run: Run) -> float:
    """The seconds of a run, after a pause and runs that do not count."""
    time.sleep(PAUSE)
    begin = time.perf_counter()
    while time.perf_counter() < begin + BEFORE:
        run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def doubled(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


def error(outputs: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """The largest error, as a part of an output's range."""
    return max(
        ((x - y).abs().max() / (y.max() - y.min()).clamp(min=1e-30)).item()
        for x, y in zip(outputs, exact, strict=True)
    )


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def table(results: Mapping[str, Result], peers: Sequence[str]) -> list[str]:
    """A table in Markdown."""
    heads = ["network", "padc ms", *(f"{peer} / padc" for peer in peers)]
    heads += ["error", *(f"error of {peer}" for peer in peers), "compile s"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for name, result in results.items():
        cells = [name, f"{result.milliseconds['padc']:.2f}"]
        cells += [f"{result.ratio(peer):.2f}" for peer in peers]
        cells += [f"{result.errors[each]:.1e}" for each in ("padc", *peers)]
        cells.append(f"{result.compile_seconds:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    means = [geometric_mean([r.ratio(p) for r in results.values()]) for p in peers]
    cells = ["geometric mean", "", *(f"{mean:.2f}" for mean in means)]
    lines.append(f"| {' | '.join(cells + [''] * (len(heads) - len(cells)))} |")
    return lines


def chart(results: Mapping[int, Mapping[str, Result]], peer: str) -> str:
    """An SVG image: bars of the ratio to one peer, for each network."""
    names = list(next(iter(results.values())))
    scale, left, row = 160, 150, 18
    height = len(names) * (row * len(results) + 10) + 40
    width = left + int(scale * 3.2)
    colors = ("#4878a8", "#e49444", "#6a9f58")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    top = 10
    for name in names:
        middle = top + row * len(results) / 2 + 4
        parts.append(f'<text x="4" y="{middle}">{name}</text>')
        for color, (threads, of) in zip(colors, results.items()):
            ratio = of[name].ratio(peer)
            length = min(ratio, 3.0) * scale
            parts.append(
                f'<rect x="{left}" y="{top}" width="{length:.0f}" height="{row - 4}" '
                f'fill="{color}"><title>{threads} threads</title></rect>'
                f'<text x="{left + length + 4:.0f}" y="{top + 12}">{ratio:.2f}</text>'
            )
            top += row
        top += 10
    one = left + scale
    parts.append(f'<path d="M{one} 0V{top}" stroke="black" stroke-dasharray="3"/>')
    legend = ", ".join(
        f"{color}: {threads}"
        for color, threads in zip(("blue", "orange", "green"), results)
    )
    parts.append(
        f'<text x="4" y="{top + 18}">time of {peer} / time of padc; threads: '
        f"{legend}</text></svg>"
    )
    return "\n".join(parts) + "\n"


def machine() -> str:
    """The CPU, its vector instructions, and the versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = dict(
            (key.strip(), value.strip())
            for key, _, value in (
                x.partition(":") for x in info.read_text().split("\n")
            )
        )
        flags = lines.get("flags", "").split()
        vectors = [x for x in ("avx512f", "avx2", "asimd") if x in flags]
        cpu = f"{lines.get('model name', cpu)} ({', '.join(vectors[:1])})"
    return (
        f"{cpu}, {os.cpu_count()} cores; PyTorch {torch.__version__}, "
        f"onnxruntime {ort.__version__}"
    )


PAGE = """# Performance of machine code

Written by `python -m bench.networks --page {page}`, on {machine}.
Batch 1, float32, precision `{precision}`; medians of {rounds} rounds, in which all take
turns in random order. A ratio above 1 means that padc is faster. Errors are relative to
the range of the output, of PyTorch in float64.

![time of onnxruntime divided by padc's]({chart})
"""


def heading(page: Path, rounds: int, precision: str) -> str:
    """What stands above the tables."""
    return PAGE.format(
        page=page,
        chart=chart_of(page).name,
        machine=machine(),
        rounds=rounds,
        precision=precision,
    )


def chart_of(page: Path) -> Path:
    """The file of a page's chart."""
    return page.with_suffix(".svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--without", nargs="+", choices=PEERS, default=[])
    parser.add_argument("--page", type=Path)
    parser.add_argument("--precision", choices=PRECISIONS, default="default")
    given = parser.parse_args()
    peers = [peer for peer in PEERS if peer not in given.without]
    if INDUCTOR in peers and shutil.which("g++") is None:
        print("torch.compile is left out: there is no g++")
        peers.remove(INDUCTOR)
    torch.set_grad_enabled(False)
    runners = {"padc": partial(by_padc, precision=given.precision)}
    runners |= {peer: RUNNERS[peer] for peer in peers}
    results: dict[int, dict[str, Result]] = {}
    tables: list[str] = []
    for threads in given.threads:
        results[threads] = {}
        for name in given.only:
            result = measure(NETWORKS[name], threads, given.rounds, runners)
            results[threads][name] = result
            ratios = ", ".join(f"{p} {result.ratio(p):.2f}" for p in peers)
            print(
                f"{threads} thread(s), {name}: {result.milliseconds['padc']:.2f} ms, "
                f"error {result.errors['padc']:.1e}; {ratios}",
                flush=True,
            )
        tables += [f"## {threads} thread{'s' * (threads > 1)}\n"]
        tables += [*table(results[threads], peers), ""]
    print("\n".join(tables))
    if given.page is not None:
        given.page.write_text(
            "\n".join([heading(given.page, given.rounds, given.precision), *tables])
        )
        if ONNX in peers:
            chart_of(given.page).write_text(chart(results, ONNX))


if __name__ == "__main__":
    main()
