# pyright: basic
"""
kill -9 while packages, cache entries and files of `padc-opt` are being written.

    python test/fuzz/kills.py --kills 200 --seed 0

After each kill a package or file is the old or the new one, the cache has whole entries
only, and the next run gives the right result and removes what the killed one left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import padc
from padc.backends.native import cache
from padc.coreml import check, load
from padc.packages.session import Session
from padc.tools import padc as padc_command
from padc.tools import padc_opt

X = torch.arange(16.0).reshape(1, 2, 8)
LAST = 0.2
"""Half of the kills are in this last part of the run, where files are written."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="runs of each that end")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        kill_converts(Path(folder, "convert"), options.kills, rng)
        kill_saves(Path(folder, "save"), options.kills, rng)
        kill_compiles(Path(folder, "compile"), options.kills, rng)
        kill_passes(Path(folder, "passes"), options.kills, rng)
    return 0


class Scale(torch.nn.Module):
    """A model that tells which of two it is by what it computes."""

    def __init__(self, factor: float):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2, 8), factor))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (1, 2), mode="replicate")[..., 1:-2] * (
            self.weight
        )


def kill_converts(folder: Path, kills: int, rng: random.Random) -> None:
    """`padc convert` over a package that is there."""
    folder.mkdir()
    package = folder / "m.mlpackage"
    old = padc.convert(Scale(2.0), (X,))
    torch.export.save(torch.export.export(Scale(3.0), (X,)), folder.parent / "m.pt2")
    arguments = ["convert", str(folder.parent / "m.pt2"), "-o", str(package)]
    kill_writers(
        "convert",
        package,
        lambda: old.save(package),
        lambda: padc_command.main(arguments),
        factor_of,
        kills,
        rng,
    )


def kill_saves(folder: Path, kills: int, rng: random.Random) -> None:
    """`Program.save` over a package that is there."""
    folder.mkdir()
    package = folder / "m.mlpackage"
    old, new = (padc.convert(Scale(factor), (X,)) for factor in (2.0, 3.0))
    kill_writers(
        "save",
        package,
        lambda: old.save(package),
        lambda: new.save(package),
        factor_of,
        kills,
        rng,
    )


def kill_passes(folder: Path, kills: int, rng: random.Random) -> None:
    """`padc-opt -o` over a file that is there."""
    folder.mkdir()
    file = folder / "out.mlir"

    def writing(text: str) -> Callable[[], object]:
        source = folder.parent / f"{len(text)}.mlir"
        source.write_text(text)
        return lambda: padc_opt.main([str(source), "-o", str(file)])

    old, new = writing("builtin.module @old {}"), writing("builtin.module {}")
    kill_writers("padc-opt", file, lambda: run(old), new, Path.read_text, kills, rng)


def kill_writers(
    name: str,
    path: Path,
    write_old: Callable[[], object],
    write: Callable[[], object],
    read: Callable[[Path], object],
    kills: int,
    rng: random.Random,
) -> None:
    """
    Kill `write`, which replaces what `write_old` writes to `path`.

    After each kill `read` finds what one of them writes.
    """
    write_old()
    old = read(path)
    seconds = timed(write)
    counts = {old: 0, read(path): 0}
    assert len(counts) == 2
    cut_short = number = 0
    while cut_short < kills:
        number += 1
        write_old()
        check_only(path.parent, {path.name})
        seconds *= 1.02 if (was := killed(write, moment(seconds, rng))) else 0.9
        cut_short += was
        found = read(path)
        assert found in counts, f"kill {number}: {path.name} is {found}"
        counts[found] += was
    write_old()
    check_only(path.parent, {path.name})
    print(
        f"{name}: {kills} of {number} runs cut short, after which "
        f"{counts.pop(old)} are old, {sum(counts.values())} new",
        flush=True,
    )


def factor_of(package: Path) -> float:
    """The factor of the `Scale` in a package, which must be right in all else."""
    assert not check(package)
    (result,) = Session(load(package)).run([X])
    factor = float(result[0, 0, 1])
    assert torch.equal(result, X * factor)
    return factor


def kill_compiles(folder: Path, kills: int, rng: random.Random) -> None:
    """`padc.compile` with a cache that is new, or has another program."""
    model, other = Scale(3.0), torch.nn.Softmax(-1)

    def compile() -> None:
        assert torch.equal(padc.compile(model, (X,))(X), X * 3), "another result"

    cut_short = kept = number = 0
    os.environ["PADC_CACHE_DIR"] = ""  # It is compiled, not read, each time.
    seconds = timed(compile)
    while cut_short < kills:
        number += 1
        cached = folder / str(number)
        os.environ["PADC_CACHE_DIR"] = str(cached)
        if number % 2:
            padc.compile(other, (X,))
        seconds *= 1.02 if (was := killed(compile, moment(seconds, rng))) else 0.9
        cut_short += was
        left = list(filter(is_whole, entries(cached)))
        kept += was and len(left) > number % 2
        run(compile)
        found = entries(cached)
        assert all(map(is_whole, found)) and len(found) == 1 + number % 2
        check_only(cached, {cache.KEY, *found})
    print(
        f"compile: {kills} of {number} runs cut short, {kept} of them after they wrote",
        flush=True,
    )


def entries(folder: Path) -> list[str]:
    """The names of the entries in a cache."""
    names = os.listdir(folder) if folder.exists() else []
    return [name for name in names if cache.NAME.fullmatch(name)]


def is_whole(name: str) -> bool:
    """Whether an entry can be read, which all must be."""
    assert cache.read(name) is not None, f"the entry {name} is damaged"
    return True


def check_only(folder: Path, names: set[str]) -> None:
    """Raise AssertionError if anything else is in a folder."""
    assert set(os.listdir(folder)) == names, os.listdir(folder)


# --- processes -------------------------------------------------------------------


def moment(seconds: float, rng: random.Random) -> float:
    """When to kill a run that takes `seconds` seconds."""
    first = 0.0 if rng.random() < 0.5 else 1 - LAST
    return seconds * rng.uniform(first, 1.05)


def started(action: Callable[[], object]) -> int:
    """A child that runs `action`, and exits with 0 if nothing else is raised."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        action()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        os._exit(code)


def run(action: Callable[[], object]) -> None:
    """Run `action` in a child, to its end."""
    _, status = os.waitpid(started(action), 0)
    assert status == 0, f"a run that was not killed ended with the status {status}"


def timed(action: Callable[[], object]) -> float:
    """About the seconds that `action` takes in a child; kills adapt them."""
    run(action)
    start = time.perf_counter()
    run(action)
    return time.perf_counter() - start


def killed(action: Callable[[], object], seconds: float) -> bool:
    """Kill `action` after `seconds` seconds; returns whether it was still running."""
    child = started(action)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"it ended with the status {status}"
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    sys.exit(main())
