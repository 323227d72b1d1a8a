# pyright: basic, reportMissingTypeStubs=false
"""
Write the table of `docs/coremltools.md`: what converts right, with padc and without.

    python -m padc.tools.update_coremltools [ROW ...]

Each case of `support_rows.py` and `coremltools_rows.py`, in float32, is converted by
plain `coremltools.convert` and by the same call with `padc.coremltools`, from a traced
model and from an exported one. padc's evaluator runs the package; the result is
compared with PyTorch's. With names of rows, only these are run, and printed.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

import padc.coremltools
from padc.backends.coreml import quiet
from padc.coreml import check, load
from padc.errors import first_line
from padc.tools.coremltools_rows import EXTRA_ROWS
from padc.tools.support_rows import ROWS as SHARED_ROWS
from padc.tools.support_rows import Case
from padc.tools.update_support import (
    TOLERANCE,
    Model,
    Outcome,
    exported,
    numbers,
    shapes_of,
)
from padc.verification import compare

with quiet():
    import coremltools as ct

# Each conversion says whether it takes padc's operators.
padc.coremltools.disable()

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coremltools.md"
TARGET = "iOS17"
ROWS: Mapping[str, Sequence[Case]] = {**SHARED_ROWS, **EXTRA_ROWS}
FIRST_CELL = "| | "
"""The table begins so."""
SOURCES = ("traced", "exported")
COLUMNS = tuple((plugin, source) for plugin in (False, True) for source in SOURCES)
Cells = Mapping[tuple[bool, str], Sequence[Outcome]]
"""The outcomes of a row's cases: with padc or without, traced or exported."""


def prepared(case: Case, source: str) -> tuple[Any, list[Any] | None]:
    """A case as `coremltools.convert` takes it: the model, and its inputs."""
    weights = [numbers(shape, torch.float32) for shape in case.weights]
    model = Model(case, weights).eval()
    inputs = tuple(numbers(shape, torch.float32) for shape in shapes_of(case)[0])
    if source == "exported":
        return exported(case, model, inputs), None
    types: list[Any] = []
    for index, x in enumerate(inputs):
        shape: list[Any] = list(x.shape)
        if case.dynamic and index == 0:
            shape[2:] = [ct.RangeDim(6, 64, default=size) for size in shape[2:]]
        types.append(ct.TensorType(f"input_{index}", shape, np.float32))
    return torch.jit.trace(model, inputs, check_trace=False), types


def outcome(case: Case, source: str, plugin: bool) -> Outcome:
    """Convert a case and run it."""
    model, inputs = prepared(case, source)
    try:
        with padc.coremltools.operators(plugin):
            converted: Any = ct.convert(
                model,
                inputs=inputs,
                minimum_deployment_target=getattr(ct.target, TARGET),
                compute_precision=ct.precision.FLOAT32,
                skip_model_load=True,
            )
    except Exception as error:
        return Outcome("refused", first_line(error))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlpackage"
        converted.save(str(path))
        if findings := check(path, TARGET):
            return Outcome("invalid", str(findings[0]))
        return compared(case, load(path))


def compared(case: Case, package: Any) -> Outcome:
    """Whether a package computes what PyTorch does."""
    exact = Model(case, [numbers(s, torch.float32).double() for s in case.weights])
    names = [feature.name for feature in package.inputs]
    for shapes in shapes_of(case):
        inputs = [numbers(shape, torch.float32) for shape in shapes]
        expected = exact(*(x.double() for x in inputs))
        try:
            given = {n: x.numpy() for n, x in zip(names, inputs, strict=True)}
            (array,) = package.predict(given).values()
        except Exception as error:
            return Outcome("wrong", first_line(error))
        actual = torch.from_numpy(np.array(array))
        if actual.shape != expected.shape:
            return Outcome("wrong", f"the shape {list(actual.shape)}")
        error = compare("", actual.to(expected.dtype), expected).relative_error
        if not error <= TOLERANCE[torch.float32]:
            return Outcome("wrong", f"off by {error:.2g} of its range")
    return Outcome("passed")


def run_row(name: str) -> Cells:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        return {
            (plugin, source): [outcome(case, source, plugin) for case in ROWS[name]]
            for plugin, source in COLUMNS
        }


def cell(outcomes: Sequence[Outcome]) -> str:
    """`3 of 5, 1 wrong`."""
    counts = Counter(each.kind for each in outcomes)
    parts = [f"{counts['passed']} of {len(outcomes)}"]
    for kind in ("wrong", "invalid"):
        parts += [f"{counts[kind]} {kind}"] if counts[kind] else []
    return ", ".join(parts)


def total(rows: Mapping[str, Cells], column: tuple[bool, str]) -> str:
    outcomes = [each for cells in rows.values() for each in cells[column]]
    share = sum(each.kind == "passed" for each in outcomes) / len(outcomes)
    return f"{cell(outcomes)} ({share:.0%})"


def table(rows: Mapping[str, Cells]) -> str:
    """The table with these rows."""
    titles = [
        f"{'with padc' if plugin else 'plain'}, {source}" for plugin, source in COLUMNS
    ]
    lines = [f"{FIRST_CELL}{' | '.join(titles)} |", "| --- " * (len(titles) + 1) + "|"]
    for name, cells in rows.items():
        texts = [cell(cells[column]) for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(texts)} |")
    totals = " | ".join(total(rows, column) for column in COLUMNS)
    lines.append(f"| all | {totals} |")
    return "\n".join(lines) + "\n"


def page(text: str, rows: Mapping[str, Cells]) -> str:
    """The page `text` with another table, which is its end."""
    return text[: text.index(FIRST_CELL)] + table(rows)


def main() -> int:
    start = time.perf_counter()
    names = [name for name in ROWS if name in sys.argv[1:]] or list(ROWS)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        rows = dict(zip(names, pool.map(run_row, names), strict=True))
    for name, cells in rows.items():
        for (plugin, source), outcomes in cells.items():
            for index, found in enumerate(outcomes):
                if plugin and found.kind != "passed":
                    print(f"{name}[{index}], {source}: {found.kind}: {found.detail}")
    if names == list(ROWS):
        PAGE.write_text(page(PAGE.read_text(), rows))
    for column in COLUMNS:
        print("with padc" if column[0] else "plain", column[1], total(rows, column))
    print(f"{time.perf_counter() - start:.0f} s")
    wrong = ("wrong", "invalid")
    return int(
        any(o.kind in wrong for c in rows.values() for k in c for o in c[k] if k[0])
    )


if __name__ == "__main__":
    sys.exit(main())
