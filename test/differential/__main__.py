# pyright: basic
"""
Random programs, in eager mode and on each of padc's paths.

    python test/differential                           # 1000 programs, all paths
    python test/differential --programs 100000 --paths reference,native
    python test/differential --first 5000 --jobs 4     # the seeds from 5000 on

A seed is one program, whatever the options. A wrong result is shrunk, and printed as
code that needs PyTorch only. To spread a campaign over machines, give each of them its
own range of seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).parents[1]))
from differential.campaign import outcomes
from differential.paths import PATHS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--paths", default=",".join(PATHS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start = time.perf_counter()
    paths = tuple(options.paths.split(","))
    last = options.first + options.programs
    work = [
        (range(first, min(first + 20, last)), paths)
        for first in range(options.first, last, 20)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(outcomes, work):
            for seed, path, kind, text in found:
                counts[path, kind] += 1
                if kind == "wrong":
                    print(f"--- seed {seed}, {path}: {text}\n", flush=True)
                elif kind == "refused":
                    reasons[text.partition(" of ")[0]] += 1
    for reason, count in reasons.most_common(10):
        print(f"{count} refused: {reason}")
    for (path, kind), count in sorted(counts.items()):
        print(f"{path}: {count} {kind}")
    print(f"{time.perf_counter() - start:.0f} s, seeds {options.first} to {last - 1}")
    return 1 if any(kind == "wrong" for _, kind in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
