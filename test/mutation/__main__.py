# pyright: basic
"""
Disable rules, folds and guards one at a time, and run the tests that should notice.

    python test/mutation                         # every area
    python test/mutation pads "batch norm"       # these
    python test/mutation pads --only PadOfPad    # mutants whose name has this text
    python test/mutation pads --again OUTPUT     # the survivors in an earlier output

A mutant that all tests pass is a survivor: a test is missing, or the code is not
needed, or `explained.py` says why it makes no difference. Fails if one is not explained.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).parents[1]))
from mutation.areas import AREAS, Area
from mutation.explained import EXPLAINED
from mutation.mutants import all_mutants
from mutation.running import ROOT
from mutation.worker import ENDED, SURVIVES, TOO_LONG, outcome, start


def run(name: str, area: Area, wanted: Callable[[str], bool], jobs: int) -> list[str]:
    """The survivors of an area among the mutants whose names are wanted."""
    work = [
        (file, mutant)
        for file, functions in area.files.items()
        for mutant in all_mutants((ROOT / file).read_text(), functions)
        if wanted(f"{file} {mutant.name}")
    ]
    if not work:
        return []
    begin, survivors = time.perf_counter(), list[str]()
    counts = Counter[str]()
    with ProcessPoolExecutor(
        min(jobs, len(work)), get_context("spawn"), start, (area,)
    ) as pool:
        for (file, mutant), found in zip(work, pool.map(outcome, work)):
            counts[found] += 1
            if found == SURVIVES:
                survivors.append(f"{file} {mutant.name}")
                reason = EXPLAINED.get(survivors[-1])
                print(f"{reason or 'SURVIVED'}: {survivors[-1]}", flush=True)
    seconds = time.perf_counter() - begin
    others = [f"{counts[each]} {each}" for each in (ENDED, TOO_LONG) if counts[each]]
    alive = f"{len(survivors)} survive"
    print(
        f"{name}: {len(work)} mutants, {', '.join([alive, *others])}, {seconds:.0f} s"
    )
    return survivors


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], metavar="area")
    parser.add_argument("--only", default="", help="text in the names of mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--again", type=Path, help="an earlier output")
    options = parser.parse_args()
    earlier = options.again.read_text().splitlines() if options.again else []
    survived = {line.removeprefix("SURVIVED: ") for line in earlier}

    def wanted(mutant: str) -> bool:
        return options.only in mutant and (not survived or mutant in survived)

    survivors: set[str] = set()
    for name in options.areas or AREAS:
        survivors |= {*run(name, AREAS[name], wanted, options.jobs)}
    unexplained = sorted(survivors - EXPLAINED.keys())
    stale: list[str] = []
    if not (options.only or options.again or options.areas):
        stale = sorted(EXPLAINED.keys() - survivors)
    print(f"{len(survivors)} survive, {len(unexplained)} without an explanation")
    for each in stale:
        print(f"explained, but does not survive: {each}")
    return 1 if unexplained or stale else 0


if __name__ == "__main__":
    sys.exit(main())
