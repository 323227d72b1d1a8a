"""
How conversion grows with the number of layers, and with the size of the weights.

    python -m bench.growth [LAYERS ...]
    python -m bench.growth --weights GIB

Each row is a process of its own: CPU seconds from the exported program to the saved
package, and the peak of its memory above what it used before. With `--weights`, of a
model of linear layers: the peak of all memory by the size of the weights.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import padc

CHANNELS = 8
WIDTH = 4096
LAYER_BYTES = 4 * WIDTH * WIDTH


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.conv(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.inputs = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.output = nn.Linear(CHANNELS, CHANNELS)
        self.wide = nn.Linear(CHANNELS, 4 * CHANNELS)
        self.narrow = nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.inputs(self.before(x)).reshape(1, -1, 3, 2, CHANNELS // 2)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.output(y.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(nn.functional.gelu(self.wide(self.after(x))))


LAYERS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "conv, relu, add": (Residual, torch.zeros(1, CHANNELS, 8, 8)),
    "transformer block": (Attention, torch.zeros(1, 8, CHANNELS)),
}


def peak() -> int:
    """The peak of the memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def convert(model: nn.Module, x: Tensor) -> tuple[float, int, int]:
    """CPU seconds, the peak before the conversion, and the peak after it."""
    exported = torch.export.export(model.eval(), (x,))
    before, start = peak(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        padc.convert(exported).save(Path(folder) / "model.mlpackage")
    return time.process_time() - start, before, peak()


def in_child(run: Callable[[], None]) -> None:
    """Run in a process of its own, so that its peak is not that of an earlier one."""
    if (pid := os.fork()) == 0:
        run()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"the process ended with status {status}")


def print_row(make: Callable[[], nn.Module], x: Tensor, count: int) -> None:
    model = nn.Sequential(*(make() for _ in range(count)))
    seconds, before, after = convert(model, x)
    print(
        f"  {count:6}{seconds:9.2f}{1000 * seconds / count:12.2f}"
        f"{after - before:8}{(after - before) / count:14.3f}",
        flush=True,
    )


def print_weights(gib: float) -> None:
    count = round(gib * 2**30 / LAYER_BYTES)
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count)]
    seconds, before, after = convert(nn.Sequential(*layers), torch.zeros(1, WIDTH))
    size = count * LAYER_BYTES / 2**20
    print(f"weights {size:.0f} MiB, {seconds:.1f} s of CPU")
    print(f"peak before {before} MiB, with the conversion {after} MiB")
    print(f"peak / weights {after / size:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("layers", nargs="*", type=int, default=[50, 200, 800, 2000])
    parser.add_argument("--weights", type=float, metavar="GIB")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if options.weights:
        in_child(lambda: print_weights(options.weights))
        return
    convert(nn.Linear(1, 1), torch.zeros(1, 1))  # Loads what the first call loads.
    for name, (make, x) in LAYERS.items():
        print(
            f"{name}\n  {'layers':>6}{'CPU s':>9}{'ms a layer':>12}{'MiB':>8}", end=""
        )
        print(f"{'MiB a layer':>14}")
        for count in options.layers:
            in_child(lambda: print_row(make, x, count))


if __name__ == "__main__":
    main()
