"""
Size and time of real models' conversion, by padc and by coremltools.

    python -m bench.models CORPUS [--rounds N] [--out FOLDER] [--third K] [NAME ...]

CORPUS is a folder with a module `corpus`: `MODELS`, and `build(name)`, which returns an
object with `module`, `inputs`, `dynamic` (the dynamic shapes) and `strict`. Each model
is a process of its own. Both converters start from one exported program, take turns,
compute in float32, and write a package.

- ops: what `@main` of the saved package holds, nested blocks included, without `const`.
- seconds: CPU time of the process, the median of `--rounds`. coremltools' includes
  `run_decompositions({})`, without which it refuses the program.

With `--out`, a model's result is kept as a JSON file, and is not measured again.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

import padc
from examples.demo import TARGET, coremltools_model
from padc.backends.coreml import quiet

with quiet():
    import coremltools as ct

WANTED_RATIO = 1.2
Result = dict[str, Any]


def by_padc(exported: ExportedProgram, path: Path) -> dict[str, float]:
    """Convert and save; return the wall-clock seconds of each step."""
    steps: dict[str, float] = {}

    def observer(step: str, module: object, seconds: float) -> None:
        steps[step] = steps.get(step, 0.0) + seconds

    program = padc.convert(exported, target=TARGET, observer=observer)
    start = time.perf_counter()
    program.save(path)
    steps["save"] = time.perf_counter() - start
    return steps


def by_coremltools(exported: ExportedProgram, path: Path) -> None:
    coremltools_model(exported).save(str(path))


def saved_ops(path: Path) -> Counter[str]:
    """How often each op is in `@main` of a package, without `const`."""
    spec: Any = ct.utils.load_spec(str(path))
    (main,) = spec.mlProgram.functions.values()
    found: Counter[str] = Counter()
    blocks = [*main.block_specializations.values()]
    while blocks:
        for op in blocks.pop().operations:
            found[op.type] += op.type != "const"
            blocks += op.blocks
    return +found


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def exported_case(case: Any) -> ExportedProgram:
    def export(strict: bool) -> ExportedProgram:
        return torch.export.export(
            case.module, case.inputs, dynamic_shapes=case.dynamic, strict=strict
        )

    try:
        return export(case.strict)
    except Exception:
        return export(True)


def measure(corpus: Any, name: str, rounds: int) -> Result:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    exported = exported_case(corpus.build(name))
    seconds: dict[str, list[float]] = {"padc": [], "coremltools": []}
    result: Result = {"name": name, "seconds": seconds}
    with tempfile.TemporaryDirectory() as folder:
        paths = {key: Path(folder) / f"{key}.mlpackage" for key in seconds}
        for _ in range(rounds):
            for key, run in (("padc", by_padc), ("coremltools", by_coremltools)):
                if f"{key}_error" in result:
                    continue
                try:
                    spent, steps = timed(lambda: run(exported, paths[key]))
                except Exception as error:
                    result[f"{key}_error"] = f"{type(error).__name__}: {error}"[:500]
                    continue
                seconds[key].append(spent)
                if steps is not None:
                    result["steps"] = steps
                result[f"{key}_ops"] = saved_ops(paths[key])
    return result


def in_child(run: Callable[[], Result], name: str) -> Result:
    """What `run` returns in a process of its own."""
    with tempfile.TemporaryFile("w+") as file:
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            try:
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    result = run()
                json.dump(result, file)
                file.flush()
            except BaseException as error:
                json.dump({"name": name, "error": str(error)[:500]}, file)
                file.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        file.seek(0)
        text = file.read()
    return json.loads(text) if text else {"name": name, "error": "the process died"}


def ratios(result: Result) -> tuple[float, float] | None:
    """padc's ops and seconds, by coremltools'; None unless both convert."""
    ours, theirs = result.get("padc_ops"), result.get("coremltools_ops")
    if not ours or not theirs:
        return None
    seconds = result["seconds"]
    spent = [statistics.median(seconds[key]) for key in ("padc", "coremltools")]
    return sum(ours.values()) / sum(theirs.values()), spent[0] / spent[1]


def line(result: Result) -> str:
    name = f"{result['name']:30}"
    if (both := ratios(result)) is None:
        keys = ("error", "padc_error", "coremltools_error")
        reasons = (f"{key}: {result[key]}" for key in keys if key in result)
        return f"{name} {' '.join(' '.join(reasons).split())[:100]}"
    seconds = result["seconds"]
    return (
        f"{name}{sum(result['padc_ops'].values()):6}"
        f"{sum(result['coremltools_ops'].values()):6}{both[0]:7.2f}"
        f"{statistics.median(seconds['padc']):8.2f}"
        f"{statistics.median(seconds['coremltools']):8.2f}{both[1]:7.2f}"
    )


def print_summary(results: Sequence[Result]) -> None:
    both = [(result, pair) for result in results if (pair := ratios(result))]
    sizes = [ops for _, (ops, _) in both]
    mean = math.exp(statistics.fmean(math.log(time) for _, (_, time) in both))
    above = sum(size > WANTED_RATIO for size in sizes)
    print(f"\n{len(both)} of {len(results)} models convert by both")
    print(
        f"ops      median ratio {statistics.median(sizes):.3f}, most {max(sizes):.2f}"
    )
    print(f"         above {WANTED_RATIO}: {above}")
    print(f"seconds  geometric mean of the ratios {mean:.3f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="keep results in this folder")
    parser.add_argument(
        "--third", type=int, choices=range(3), help="measure every third model, from K"
    )
    return parser.parse_intermixed_args()


def main() -> None:
    options = arguments()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(options.corpus))
    corpus = importlib.import_module("corpus")
    names: list[str] = options.names or list(corpus.MODELS)
    if options.third is not None:
        names = names[options.third :: 3]
    # What is loaded at the first call is loaded before the processes are forked.
    small = torch.export.export(
        torch.nn.Conv2d(1, 1, 3).eval(), (torch.ones(1, 1, 5, 5),)
    )
    with tempfile.TemporaryDirectory() as folder:
        by_padc(small, Path(folder) / "padc.mlpackage")
        by_coremltools(small, Path(folder) / "coremltools.mlpackage")
    print(f"{'':30}{'ops':>6}{'ct':>6}{'ratio':>7}{'CPU s':>8}{'ct':>8}{'ratio':>7}")
    results: list[Result] = []
    for name in names:
        kept = options.out and options.out / f"{name}.json"
        if kept and kept.exists():
            result: Result = json.loads(kept.read_text())
        else:
            result = in_child(lambda: measure(corpus, name, options.rounds), name)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(result))
        results.append(result)
        print(line(result), flush=True)
    print_summary(results)


if __name__ == "__main__":
    main()
