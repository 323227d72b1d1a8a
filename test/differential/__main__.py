# pyright: basic
"""
Random programs, in eager mode and on each of padc's paths.

    python test/differential                           # 1000 programs
    python test/differential --programs 100000 --paths reference,native
    python test/differential --paths checked           # faults of memory are wrong, too
    python test/differential --first 5000 --jobs 4     # the seeds from 5000 on
    python test/differential --kind dynamic            # sizes that vary
    python test/differential --kind networks --paths native,strict

A seed of a kind is one program, whatever the other options. A wrong result is shrunk,
and printed as code that needs PyTorch only. To spread a campaign over machines, give
each of them its own range of seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).parents[1]))
from differential.campaign import Outcome, Work, outcomes
from differential.paths import PATHS
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
    options = parser.parse_args()
    start = time.perf_counter()
    paths = tuple(options.paths.split(","))
    if unknown := {*paths} - {*PATHS}:
        parser.error(f"unknown paths: {', '.join(sorted(unknown))}")
    last = options.first + options.programs
    work: list[Work] = [
        (range(first, min(first + 20, last)), options.kind, paths)
        for first in range(options.first, last, 20)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for seed, path, kind, text in results(work, options.jobs):
        counts[path, kind] += 1
        if kind == "wrong":
            print(f"--- seed {seed}, {path}: {text}\n", flush=True)
        elif kind == "refused":
            reasons[text.partition(" of ")[0]] += 1
        if counts.total() % 500 == 0:
            print(f"up to seed {seed}: {summary(counts)}", flush=True)
    for reason, count in reasons.most_common(10):
        print(f"{count} refused: {reason}")
    print(summary(counts))
    print(f"{time.perf_counter() - start:.0f} s, seeds {options.first} to {last - 1}")
    return 1 if any(kind == "wrong" for _, kind in counts) else 0


def summary(counts: Counter[tuple[str, str]]) -> str:
    return ", ".join(f"{path} {n} {kind}" for (path, kind), n in sorted(counts.items()))


def results(work: Sequence[Work], jobs: int) -> Iterator[Outcome]:
    """The outcomes of all work; a program that kills its process has one too."""
    done = 0
    while done < len(work):
        with pool(jobs) as processes:
            futures = [processes.submit(outcomes, item) for item in work[done:]]
            try:
                for future in futures:
                    yield from future.result()
                    done += 1
                return
            except BrokenProcessPool:
                pass
        with pool(1) as process:
            try:
                yield from process.submit(outcomes, work[done]).result()
            except BrokenProcessPool:
                seeds, *_ = work[done]
                text = f"or one of the next {len(seeds) - 1} ends the process"
                yield seeds.start, "a path", "wrong", text
        done += 1


def pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


if __name__ == "__main__":
    sys.exit(main())
