# pyright: basic, reportMissingTypeStubs=false, reportMissingImports=false
"""
Time of single ops: padc, PyTorch and onnxruntime.

    python -m bench.ops [--rounds N] [--threads N] [--only WORD ...] [--without PEER]

Each op is a program of its own. All run in one process and take turns, each round in
another order. Times are medians of `--rounds` runs of several calls, in CPU time of
this thread (in wall-clock time if there are more threads), and ratios are peer / padc:
above 1, padc is faster. padc and onnxruntime write to outputs that they are given;
PyTorch allocates them. An error is the largest difference from PyTorch in float64, as a
part of the largest number there. `-` marks ops that a peer does not have.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from bench.networks import (
    EAGER,
    ONNX,
    Run,
    by_onnxruntime,
    by_padc,
    by_pytorch,
    doubled,
    geometric_mean,
)

SECONDS = 2e-3
"""A run has as many calls as take about so long."""
MOST_CALLS = 200
WARM_UPS = 2
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


@dataclass(frozen=True)
class Case:
    """An op, and the shapes of its inputs."""

    model: nn.Module
    shapes: Sequence[Sequence[int]]
    make: Callable[..., Tensor] = torch.randn
    dtype: torch.dtype = torch.float32

    def inputs(self) -> tuple[Tensor, ...]:
        made = (self.make(*shape) for shape in self.shapes)
        return tuple(x.to(self.dtype) if x.is_floating_point() else x for x in made)


def of(function: Callable[..., Any], *shapes: Sequence[int]) -> Case:
    return Case(Function(function), shapes)


def layer(model: nn.Module, *shape: int) -> Case:
    return Case(model, [shape])


def positive(*shape: int) -> Tensor:
    return torch.rand(*shape) * 10 + 0.01


def near_1(*shape: int) -> Tensor:
    return 1 + torch.randn(*shape) / 100


def elementwise() -> dict[str, Case]:
    functions: Mapping[str, Callable[[Tensor], Tensor]] = {
        "exp": torch.exp,
        "log": torch.log,
        "sin": torch.sin,
        "cos": torch.cos,
        "tanh": torch.tanh,
        "erf": torch.erf,
        "tan": torch.tan,
        "atan": torch.atan,
        "sinh": torch.sinh,
        "remainder": lambda x: torch.remainder(x, 2.5),
        "sigmoid": torch.sigmoid,
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
        "relu": torch.relu,
        "hardswish": F.hardswish,
    }
    cases = {name: of(f, (256, 1024)) for name, f in functions.items()}
    cases["log"] = Case(cases["log"].model, [(256, 1024)], positive)
    cases["add"] = of(torch.add, (256, 1024), (256, 1024))
    return cases


def movements() -> dict[str, Case]:
    image = (1, 64, 56, 56)
    return {
        "upsample nearest": of(lambda x: F.interpolate(x, scale_factor=2), image),
        "upsample nearest x3": of(lambda x: F.interpolate(x, scale_factor=3), image),
        "upsample bilinear": of(
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), image
        ),
        "transposition": of(lambda x: x.t().contiguous(), (1024, 1024)),
        "permute NCHW to NHWC": of(
            lambda x: x.permute(0, 2, 3, 1).contiguous(), (8, 64, 56, 56)
        ),
        "permute of heads": of(
            lambda x: x.permute(0, 2, 1, 3).contiguous(), (1, 197, 12, 64)
        ),
        "pixel shuffle": of(lambda x: F.pixel_shuffle(x, 2), image),
        "cat": of(lambda x, y: torch.cat([x, y], 1), image, image),
        "cat of columns": of(lambda x, y: torch.cat([x, y], 1), (512, 257), (512, 130)),
        "flip": of(lambda x: x.flip(-1), image),
        "embedding": Case(
            nn.Embedding(5000, 256), [(512,)], lambda n: torch.arange(n) * 7 % 5000
        ),
    }


def pools() -> dict[str, Case]:
    image = (1, 64, 112, 112)
    return {
        "max pool 3x3 s2": layer(nn.MaxPool2d(3, 2, 1), *image),
        "max pool 2x2": layer(nn.MaxPool2d(2), *image),
        "avg pool 3x3 s2": layer(nn.AvgPool2d(3, 2, 1), *image),
        "avg pool 2x2": layer(nn.AvgPool2d(2), *image),
        "global avg pool": layer(nn.AdaptiveAvgPool2d(1), 1, 512, 28, 28),
    }


def reductions() -> dict[str, Case]:
    rows = (197, 768)
    return {
        "softmax of rows": of(lambda x: x.softmax(-1), rows),
        "softmax of attention": of(lambda x: x.softmax(-1), (12, 197, 197)),
        "softmax of channels": of(lambda x: x.softmax(1), (1, 21, 128, 128)),
        "log softmax": of(lambda x: x.log_softmax(-1), rows),
        "layer norm": layer(nn.LayerNorm(768), *rows),
        "group norm": layer(nn.GroupNorm(8, 64), 1, 64, 56, 56),
        "sum of rows": of(lambda x: x.sum(-1), (512, 1024)),
        "sum of columns": of(lambda x: x.sum(0), (512, 1024)),
        "mean of all": of(torch.mean, (512, 1024)),
        "amax of rows": of(lambda x: x.amax(-1), (512, 1024)),
        "amax of columns": of(lambda x: x.amax(0), (512, 1024)),
        "argmax of rows": of(lambda x: x.argmax(-1), (512, 1024)),
        "argmax of columns": of(lambda x: x.argmax(0), (512, 1024)),
        "product of rows": Case(Function(lambda x: x.prod(-1)), [(512, 1024)], near_1),
    }


def convolutions() -> dict[str, Case]:
    def depthwise(kernel: int) -> nn.Module:
        return nn.Conv2d(144, 144, kernel, padding=kernel // 2, groups=144)

    return {
        "conv 1x1": layer(nn.Conv2d(64, 256, 1), 1, 64, 56, 56),
        "conv 3x3": layer(nn.Conv2d(64, 64, 3, padding=1), 1, 64, 56, 56),
        "conv 3x3 s2": layer(nn.Conv2d(64, 128, 3, 2, 1), 1, 64, 56, 56),
        "conv 7x7 s2": layer(nn.Conv2d(3, 64, 7, 2, 3), 1, 3, 224, 224),
        "depthwise 3x3": layer(depthwise(3), 1, 144, 56, 56),
        "depthwise 3x3 14x14": layer(depthwise(3), 1, 144, 14, 14),
        "depthwise 5x5": layer(depthwise(5), 1, 144, 28, 28),
        "depthwise 7x7": layer(depthwise(7), 1, 144, 56, 56),
        "conv1d": layer(nn.Conv1d(64, 128, 5, padding=2), 1, 64, 1000),
        "conv3d": layer(nn.Conv3d(16, 32, 3, padding=1), 1, 16, 16, 28, 28),
        "transposed conv": layer(nn.ConvTranspose2d(64, 32, 4, 2, 1), 1, 64, 32, 32),
    }


def products() -> dict[str, Case]:
    heads = (1, 12, 197, 64)
    return {
        "linear": layer(nn.Linear(768, 768), 197, 768),
        "linear of one row": layer(nn.Linear(2048, 1000), 1, 2048),
        "matmul": of(torch.matmul, (197, 768), (768, 768)),
        "matmul, batched": of(torch.matmul, (12, 197, 64), (12, 64, 197)),
        "attention": of(F.scaled_dot_product_attention, heads, heads, heads),
    }


def grid_samples() -> dict[str, Case]:
    cases: dict[str, Case] = {}

    def case(name: str, shape: Sequence[int], **options: Any) -> None:
        size = [shape[0], *shape[2:], len(shape) - 2]

        def sample(x: Tensor, grid: Tensor) -> Tensor:
            return F.grid_sample(x, grid, align_corners=False, **options)

        cases[f"grid sample {name}"] = Case(
            Function(sample), [shape, size], lambda *n: torch.rand(*n) * 2.2 - 1.1
        )

    for mode in ("bilinear", "nearest", "bicubic"):
        case(f"{mode} 3 channels", (1, 3, 224, 224), mode=mode)
        case(f"{mode} 64 channels", (1, 64, 56, 56), mode=mode)
    case("border", (1, 64, 56, 56), padding_mode="border")
    case("reflection", (1, 64, 56, 56), padding_mode="reflection")
    for mode in ("bilinear", "nearest"):
        case(f"3-D {mode} 3 channels", (1, 3, 32, 48, 48), mode=mode)
        case(f"3-D {mode} 64 channels", (1, 64, 16, 16, 16), mode=mode)
    return cases


def halves() -> dict[str, Case]:
    chosen = (
        *("add", "relu", "gelu", "softmax of rows", "cat", "sum of rows"),
        *("transposition", "conv 3x3", "linear"),
    )
    families = elementwise, movements, reductions, convolutions, products
    all = {name: case for each in families for name, case in each().items()}
    return {
        f"{name} {dtype}": Case(all[name].model, all[name].shapes, dtype=HALVES[dtype])
        for name in chosen
        for dtype in HALVES
    }


FAMILIES = (
    elementwise,
    movements,
    pools,
    reductions,
    convolutions,
    products,
    grid_samples,
    halves,
)
RUNNERS: Mapping[str, Callable[[nn.Module, tuple[Any, ...], int], Run]] = {
    "padc": by_padc,
    EAGER: by_pytorch,
    ONNX: by_onnxruntime,
}


def runs_of(
    case: Case, inputs: tuple[Tensor, ...], threads: int, names: Sequence[str]
) -> dict[str, Run]:
    """A run of each contestant that has the op."""
    runs: dict[str, Run] = {}
    for name in names:
        try:
            run = RUNNERS[name](case.model, inputs, threads)
            run()
        except Exception:
            if name != ONNX:
                raise
            continue
        runs[name] = run
    return runs


def measure(case: Case, threads: int, rounds: int, names: Sequence[str]) -> str:
    """The columns of a case, and the ratio to the best peer."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    model, inputs = case.model.eval().to(case.dtype), case.inputs()
    wide = pytree.tree_map_only(Tensor, doubled, inputs)
    exact = copy.deepcopy(model).double()(*wide)
    runs = runs_of(case, inputs, threads, names)
    (output,) = runs["padc"]()
    wrong = (output.double() - exact).abs().max() / exact.abs().max()
    start = clock()
    runs["padc"]()
    once = clock() - start
    calls = int(min(max(SECONDS / max(once, 1e-7), 1), MOST_CALLS))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(WARM_UPS + rounds):
        for name in random.sample(list(runs), len(runs)):
            run = runs[name]
            start = clock()
            for _ in range(calls):
                run()
            if number >= WARM_UPS:
                times[name].append((clock() - start) / calls * 1e6)
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratios = {name: it / medians["padc"] for name, it in medians.items()}
    cells = [f"{medians['padc']:10.1f}"]
    cells += [f"{ratios[x]:11.2f}" if x in ratios else f"{'-':>11}" for x in names[1:]]
    best = min(ratio for name, ratio in ratios.items() if name != "padc")
    return " ".join([*cells, f"{best:6.2f}", f"{wrong:9.1e}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--without", nargs="+", choices=[ONNX], default=[])
    given = parser.parse_args()
    os.environ["PADC_CACHE_DIR"] = ""
    torch.set_grad_enabled(False)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    names = [name for name in RUNNERS if name not in given.without]
    heads = [f"{x:>11}" for x in names[1:]]
    print(f"{given.threads} thread(s), medians of {given.rounds} rounds; peer / padc")
    print(f"{'':36} {'padc us':>10}", *heads, f"{'best':>6} {'error':>9}")
    bests: list[float] = []
    for family in FAMILIES:
        for name, case in family().items():
            if not any(word in name for word in given.only):
                continue
            columns = measure(case, given.threads, given.rounds, names)
            bests.append(float(columns.split()[-2]))
            print(f"{name:36} {columns}", flush=True)
    behind = sum(best < 1 for best in bests)
    print(
        f"geometric mean of the ratios to the best peer: {geometric_mean(bests):.2f}; "
        f"{behind} of {len(bests)} below 1"
    )


if __name__ == "__main__":
    main()
