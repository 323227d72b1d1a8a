# pyright: basic
"""
Random programs, in eager mode and on each of padc's paths.

    python test/differential                           # 1000 programs
    python test/differential --programs 100000 --paths reference,native
    python test/differential --paths checked           # faults of memory are wrong, too
    python test/differential --first 5000 --jobs 4     # the seeds from 5000 on
    python test/differential --kind dynamic            # sizes that vary
    python test/differential --kind networks --paths native,strict

Paths of programs that are built as IR are reference, text, native, checked (each load
and store), strict, coreml, oldest and newest (targets); of modules, compile, pt2 (through
a file) and convert. The kind "exported" has only these.

A seed of a kind is one program, whatever the other options. A wrong result is shrunk,
and printed as code that needs PyTorch only. To spread a campaign over machines, give
each of them its own range of seeds.

A program that ends its process, or has no result after a minute, is wrong; so is one
whose results change with another call, or whose inputs do. `partly` are those that are
right, and of which PyTorch computes a part, which has no machine code. `same` are those
whose convolutions are not computed by tiles on the path native, so that strict runs the
same code. A campaign that is stopped says which seeds it has covered.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).parents[1]))
from differential.campaign import Work, ranges, results
from differential.paths import OF_MODULES, PATHS
from differential.programs import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", default="static", choices=KINDS)
    parser.add_argument("--paths", default="reference,native,coreml")
    parser.add_argument("--jobs", type=int, default=2)
    help = "seconds between two lines of counts"
    parser.add_argument("--interval", type=float, default=30, help=help)
    options = parser.parse_args()
    start = time.perf_counter()
    paths = tuple(options.paths.split(","))
    if unknown := {*paths} - {*PATHS}:
        parser.error(f"unknown paths: {', '.join(sorted(unknown))}")
    if options.kind == "exported" and (others := {*paths} - {*OF_MODULES}):
        parser.error(f"exported programs have no path {', '.join(sorted(others))}")
    last = options.first + options.programs
    work: list[Work] = [
        (range(first, min(first + 20, last)), options.kind, paths)
        for first in range(options.first, last, 20)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    covered: set[int] = set()
    printed = start
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with closing(results(work, options.jobs, get_context("spawn"))) as chunks:
        with suppress(KeyboardInterrupt):
            for seeds, found in chunks:
                covered.update(seeds)
                for seed, path, kind, text in found:
                    counts[path, kind] += 1
                    if kind == "wrong":
                        print(f"--- seed {seed}, {path}: {text}\n", flush=True)
                    elif kind != "right":
                        reasons[kind, shape_of(text)] += 1
                if time.perf_counter() - printed > options.interval:
                    printed = time.perf_counter()
                    print(f"{len(covered)} seeds: {summary(counts)}", flush=True)
    for (kind, reason), count in reasons.most_common(10):
        print(f"{count} {kind}: {reason}")
    print(summary(counts))
    print(f"{time.perf_counter() - start:.0f} s, seeds {ranges(covered)}", flush=True)
    if len(covered) < options.programs:
        print(f"stopped before {options.programs - len(covered)} further seeds")
        return 2
    return 1 if any(kind == "wrong" for _, kind in counts) else 0


def shape_of(reason: str) -> str:
    """The beginning of a reason, without the numbers in it."""
    first, *_ = reason.splitlines()
    return re.sub(r"[(\[][\d, ]*[)\]]|\d+", "_", first)[:70]


def stop(*_: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def summary(counts: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{path} {n} {kind}" for (path, kind), n in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
