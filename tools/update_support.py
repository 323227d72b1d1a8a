# pyright: basic
"""
Write `docs/support.md`: what works for which dtype, found by running it.

    python -m padc.tools.update_support

PyTorch, the reference, a Core ML package and machine code run each case of
`support_rows.py` in each dtype. Cases that PyTorch itself refuses are not counted.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram, export

from padc.coreml_program import convert
from padc.errors import UnsupportedError
from padc.testing import Compiled, compile_for_native, compile_for_oracle
from padc.tools.support_rows import ROWS, Case
from padc.verification import TOLERANCES, compare

PAGE = Path(__file__).resolve().parents[1] / "docs" / "support.md"

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.bool,
)
TARGETS = ("iOS15", "iOS16", "iOS17", "iOS18")
TOLERANCE = {
    torch.float32: TOLERANCES["float32"],
    torch.float16: TOLERANCES["float16"],
    torch.bfloat16: 2**-6,
}
"""Errors allowed, in parts of the output's range; other dtypes must be equal."""

Compile = Callable[[ExportedProgram], Compiled]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: `passed`, `refused` or `wrong`, with a detail."""

    kind: str
    detail: str = ""


class Model(torch.nn.Module):
    """A case as a module with constant weights."""

    def __init__(self, case: Case, weights: Sequence[Tensor]):
        super().__init__()
        self.function = case.function
        self.count = len(weights)
        for i, weight in enumerate(weights):
            self.register_buffer(f"weight_{i}", weight)

    def forward(self, *inputs: Tensor) -> Tensor:
        weights = [self.get_buffer(f"weight_{i}") for i in range(self.count)]
        return self.function(*inputs, *weights)


def numbers(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Numbers of few bits, so that sums in a narrow dtype stay close."""
    generator = torch.Generator().manual_seed(sum(shape))
    values = torch.randint(-8, 9, tuple(shape), generator=generator)
    if dtype.is_floating_point:
        return (values / 4).to(dtype)
    return values > 0 if dtype == torch.bool else values.to(dtype)


def shapes_of(case: Case) -> list[list[tuple[int, ...]]]:
    """The shapes of the inputs, and a second set of shapes for dynamic sizes."""
    first, *others = [tuple(shape) for shape in case.inputs]
    shapes = [[first, *others]]
    if case.dynamic:
        shapes.append([(*first[:2], *(size + 3 for size in first[2:])), *others])
    return shapes


def exported(case: Case, model: Model, inputs: tuple[Tensor, ...]) -> ExportedProgram:
    """The case's functional program; raises what torch.export raises."""
    dynamic = None
    if case.dynamic:
        sizes = {i: Dim(f"size{i}", min=6, max=64) for i in range(2, inputs[0].dim())}
        dynamic = ((sizes, *[None] * (len(inputs) - 1)),)
    # Each compiler would decompose it so.
    return export(model, inputs, dynamic_shapes=dynamic).run_decompositions({})


@dataclass
class Prepared:
    """A case of one dtype: its program, and what PyTorch computes."""

    program: ExportedProgram
    runs: list[tuple[tuple[Tensor, ...], Tensor, Tensor]]
    """Inputs, PyTorch's result, and for floats the result in float64."""


def prepare(case: Case, dtype: torch.dtype) -> Prepared | None:
    """The program of a case; None if PyTorch refuses the case."""
    model = Model(case, [numbers(shape, dtype) for shape in case.weights])
    precise = dtype.is_floating_point
    runs: list[tuple[tuple[Tensor, ...], Tensor, Tensor]] = []
    with torch.no_grad():
        for shapes in shapes_of(case):
            inputs = tuple(numbers(shape, dtype) for shape in shapes)
            try:
                result = model(*inputs)
            except (RuntimeError, NotImplementedError, IndexError, ValueError):
                return None
            exact = result
            if precise:
                weights = [numbers(shape, dtype).double() for shape in case.weights]
                exact = Model(case, weights)(*(x.double() for x in inputs))
            runs.append((inputs, result, exact))
        return Prepared(exported(case, model, runs[0][0]), runs)


def outcome(prepared: Prepared, compile: Compile) -> Outcome:
    """Compile and run; anything that is neither refused nor right is wrong."""
    try:
        compiled = compile(prepared.program)
    except UnsupportedError as error:
        return Outcome("refused", error.problems[0].message)
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {error}")
    for inputs, result, exact in prepared.runs:
        try:
            (actual,) = compiled(*inputs)
        except Exception as error:
            return Outcome("wrong", f"{type(error).__name__}: {error}")
        if (actual.dtype, actual.shape) != (result.dtype, result.shape):
            is_, should = (f"{t.dtype}{list(t.shape)}" for t in (actual, result))
            return Outcome("wrong", f"{is_}, not {should}")
        error = compare("", actual, exact).relative_error
        if not error <= TOLERANCE.get(result.dtype, 0):
            return Outcome("wrong", f"off by {error:.2g} of its range")
    return Outcome("passed")


def compile_for(target: str) -> Compile:
    """Convert for `target`, to a package without findings."""

    def compile(program: ExportedProgram) -> Compiled:
        converted = convert(program, target=target)
        if findings := converted.check():
            raise ValueError(str(findings[0]))
        return converted.run

    return compile


def on_target(prepared: Prepared, target: str) -> Outcome:
    found = outcome(prepared, compile_for(target))
    if found.kind == "wrong":
        return Outcome("wrong", f"{target}: {found.detail}")
    return Outcome("passed", target) if found.kind == "passed" else found


def on_core_ml(prepared: Prepared) -> Outcome:
    """The outcome on the oldest target that does not refuse; else on the newest."""
    oldest, *between, newest = TARGETS
    if (found := on_target(prepared, oldest)).kind != "refused":
        return found
    # The targets between refuse whatever the newest refuses.
    if (best := on_target(prepared, newest)).kind == "refused":
        return best
    tried = (on_target(prepared, target) for target in between)
    return next((found for found in tried if found.kind != "refused"), best)


BACKENDS: dict[str, Callable[[Prepared], Outcome]] = {
    "the reference": lambda case: outcome(case, compile_for_oracle),
    "Core ML": on_core_ml,
    "machine code": lambda case: outcome(case, compile_for_native),
}
Cells = dict[str, dict[str, list[Outcome]]]
"""The outcomes of a row's cases, by backend and dtype."""


def run_row(name: str) -> Cells:
    torch.set_num_threads(1)
    # PyTorch warns about its own code.
    warnings.simplefilter("ignore", FutureWarning)
    cells: Cells = {backend: {} for backend in BACKENDS}
    for dtype in DTYPES:
        found = [prepare(case, dtype) for case in ROWS[name]]
        prepared = [case for case in found if case is not None]
        for backend, outcome_of in BACKENDS.items():
            outcomes = list(map(outcome_of, prepared))
            cells[backend][str(dtype).removeprefix("torch.")] = outcomes
    return cells


class Notes:
    """The reasons why cases are refused or wrong, numbered, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, detail: str) -> int:
        # Reasons that differ only in sizes, dtypes and names count as one.
        reason, *_ = detail.splitlines()
        if re.search(r"Core ML has no bf(loat)?16", reason):
            reason = "Core ML has no bfloat16"
        reason = re.sub(r"\[[-\d, ?]*\]", "[..]", reason)
        reason = re.sub(r" of tensor<[^:]*", "", reason)
        reason = re.sub(r"_\d+\b", "", reason)
        return self.numbers.setdefault(reason, len(self.numbers) + 1)


def cell(outcomes: Sequence[Outcome], notes: Notes) -> str:
    """`3, 1 iOS16, 1 refused [2]`: cases passed by target, and refused by reason."""
    if not outcomes:
        return ""
    passed = Counter(o.detail for o in outcomes if o.kind == "passed")
    parts = [f"{count} {target}".strip() for target, count in sorted(passed.items())]
    for kind, text in ("refused", "refused"), ("wrong", "**wrong**"):
        bad = [o for o in outcomes if o.kind == kind]
        if bad:
            references = sorted({notes.number(o.detail) for o in bad})
            marks = " ".join(f"[{number}]" for number in references)
            parts.append(f"{len(bad)} {text} {marks}")
    return ", ".join(parts)


INTRODUCTION = """\
# What is supported

`make support` writes this page. It runs a few cases of each row
(`tools/support_rows.py`) and compares with PyTorch: asymmetric and negative amounts,
groups, dilation, no batch, dynamic sizes. A cell counts the cases that pass, and those
that are refused, with the number of the reason below. It is empty if PyTorch itself
does not support the dtype.
"""
SECTIONS = {
    "the reference": "The program at the `tcp` level, interpreted.",
    "Core ML": """\
The package, run by the evaluator, without findings of `padc check`. Each count comes
with the oldest target that converts. The package has int32 for int64, and floats for
inputs and outputs of bool.""",
    "machine code": "By `padc.compile`, with nothing left to PyTorch.",
}


def page(rows: dict[str, Cells]) -> str:
    """The page with these rows."""
    notes = Notes()
    dtypes = [str(dtype).removeprefix("torch.") for dtype in DTYPES]

    def table(backend: str) -> list[str]:
        lines = [f"| | {' | '.join(dtypes)} |", "| --- " * (len(dtypes) + 1) + "|"]
        for name, cells in rows.items():
            texts = [cell(cells[backend][dtype], notes) for dtype in dtypes]
            lines.append(f"| {name} | {' | '.join(texts)} |")
        return lines

    parts = [INTRODUCTION]
    for backend, text in SECTIONS.items():
        title = backend[0].upper() + backend[1:]
        parts += [f"## {title}\n", f"{text}\n", *table(backend), ""]
    if notes.numbers:
        reasons = [f"{n}. {text}" for text, n in notes.numbers.items()]
        parts += ["## Reasons\n", *reasons, ""]
    return "\n".join(parts)


def every(rows: dict[str, Cells]) -> Iterator[tuple[str, str, str, Outcome]]:
    """Each outcome, with its row, dtype and backend."""
    for name, cells in rows.items():
        for backend, of_dtype in cells.items():
            for dtype, outcomes in of_dtype.items():
                yield from ((name, dtype, backend, found) for found in outcomes)


def wrong(rows: dict[str, Cells]) -> list[str]:
    """The cases whose result differs from PyTorch's."""
    return [
        f"{name}, {dtype}, {backend}: {found.detail}"
        for name, dtype, backend, found in every(rows)
        if found.kind == "wrong"
    ]


def main() -> int:
    start = time.perf_counter()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        rows = dict(zip(ROWS, pool.map(run_row, ROWS), strict=True))
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(rows))
    for line in (mistakes := wrong(rows)):
        print(line)
    counts = Counter((backend, found.kind) for *_, backend, found in every(rows))
    for (backend, kind), count in sorted(counts.items()):
        print(f"{backend}: {count} {kind}")
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
