# pyright: basic
"""
Damaged files and command lines: only documented errors may come of them.

    python test/fuzz                              # each target for 10 minutes in all
    python test/fuzz --minutes 60 --seed 7 mlir   # one target
    python test/fuzz --count 50000 packages       # a number of cases of a target
    python test/fuzz --replay                     # what was found before

A find is a traceback that is not a documented error, a case that takes more than 10 s
of the processor, 30 s in all, or 2 GiB, or a signal. The first one of each kind is kept
in test/fuzz/finds, where `make test` replays it. The seed and the number of a case
determine it.

The cases are changes of small files of known structure. Coverage does not guide them:
libFuzzer (atheris) needs a build of its own for each version of Python, cannot follow
PyTorch and protobuf, which do half of the reading, and ends with its first find.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.campaign import BATCH, campaign, replay
from fuzz.targets import FINDS, TARGETS, finds, load_target


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=10, help="of all targets")
    parser.add_argument("--count", type=int, help="cases of each target, at any time")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument(
        "--finds", type=Path, default=FINDS, help="where finds are kept"
    )
    parser.add_argument("--replay", action="store_true", help="run the finds")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"there is no target {min(unknown)}")
    names = options.targets or list(TARGETS)
    # Machine code of programs that a change left alone is compiled once.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PADC_CACHE_DIR"] = cache
        if options.replay:
            return max([replayed(name) for name in names])
        print(f"seed {options.seed}", flush=True)
        seconds = None if options.count else options.minutes * 60 / len(names)
        return max([fuzzed(name, options, seconds) for name in names])


def replayed(name: str) -> int:
    """Run the finds of a target; 1 if one is still a find."""
    files = finds(name)
    outcomes = replay(load_target(name), [file.read_bytes() for file in files])
    for file, outcome in zip(files, outcomes, strict=True):
        if outcome.kind == "find":
            print(f"{file}:\n{outcome.text}\n", flush=True)
    counts = Counter(outcome.kind for outcome in outcomes)
    print(f"{name}: {len(files)} finds replayed, {dict(counts)}", flush=True)
    return int(counts["find"] > 0)


def fuzzed(name: str, options: argparse.Namespace, seconds: float | None) -> int:
    """Run a target for a number of cases, or of seconds; 1 if it found anything."""
    target = load_target(name)
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        with contextlib.redirect_stderr(nowhere):  # coremltools shows its progress.
            target.prepare()
    start = time.perf_counter()
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for numbers in batches(options.first, options.count, start, seconds):
        for outcome, case in campaign(target, name, options.seed, numbers):
            counts[outcome.kind] += 1
            if case is None:
                continue
            kinds[outcome.signature] += 1
            # Where a library ended the process does not tell which op did.
            if kinds[outcome.signature] == 1 or "signal" in outcome.signature:
                path = keep(options.finds / name, target.suffix, case)
                print(
                    f"--- {name} {outcome.number}: {path}\n{outcome.text}", flush=True
                )
        if sys.stderr.isatty():
            print(f"{name}: {numbers.stop} cases", end="\r", file=sys.stderr)
    took = time.perf_counter() - start
    for signature, count in kinds.most_common():
        print(f"{count} times {signature}")
    total = counts.total()
    print(
        f"{name}: {total} cases in {took:.0f} s ({total / took:.0f}/s): "
        f"{counts['accepted']} accepted, {counts['refused']} refused, "
        f"{counts['find']} finds",
        flush=True,
    )
    return int(counts["find"] > 0)


def batches(
    first: int, count: int | None, start: float, seconds: float | None
) -> Iterator[range]:
    """The numbers of the cases, up to `count` of them, or for some seconds."""
    for at in itertools.count(first, BATCH):
        if count is not None and at >= first + count:
            return
        if seconds is not None and time.perf_counter() - start > seconds:
            return
        yield range(at, at + BATCH if count is None else min(at + BATCH, first + count))


def keep(folder: Path, suffix: str, case: bytes) -> Path:
    """Write a find, under the hash of its contents."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(case).hexdigest()[:12]}{suffix}"
    path.write_bytes(case)
    return path


if __name__ == "__main__":
    sys.exit(main())
