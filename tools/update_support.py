# pyright: basic
"""
Writes `docs/support.md`: what works, of which dtype, found by running it.

    python -m padc.tools.update_support

Each case of `support_rows.py` is run by PyTorch, by the reference, as a Core ML package
and as machine code, for each dtype. What PyTorch itself refuses is not counted.
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
"""Of each output's range; of other dtypes, all must be equal."""

Compile = Callable[[ExportedProgram], Compiled]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: `passed`, `refused` or `wrong`, and how or why."""

    kind: str
    detail: str = ""


class Model(torch.nn.Module):
    """A case as a module, its weights as constants."""

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
    """The shapes of the inputs, then others where sizes are dynamic."""
    first, *others = [tuple(shape) for shape in case.inputs]
    shapes = [[first, *others]]
    if case.dynamic:
        shapes.append([(*first[:2], *(size + 3 for size in first[2:])), *others])
    return shapes


def exported(case: Case, model: Model, inputs: tuple[Tensor, ...]) -> ExportedProgram:
    """The case's program, functional; raises what torch.export raises."""
    dynamic = None
    if case.dynamic:
        sizes = {i: Dim(f"size{i}", min=6, max=64) for i in range(2, inputs[0].dim())}
        dynamic = ((sizes, *[None] * (len(inputs) - 1)),)
    # As each of the compilers would do.
    return export(model, inputs, dynamic_shapes=dynamic).run_decompositions({})


@dataclass
class Prepared:
    """A case of one dtype: its program, and what PyTorch computes."""

    program: ExportedProgram
    runs: list[tuple[tuple[Tensor, ...], Tensor, Tensor]]
    """Inputs; the result of their dtype; of floats, the result of float64."""


def prepare(case: Case, dtype: torch.dtype) -> Prepared | None:
    """None where PyTorch does not do this."""
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
    """Compile and run; whatever is not a refusal and not right is wrong."""
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
    """Convert for `target`, to a package that breaks no rule of Core ML."""

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
    """The outcome on the oldest target that does not refuse, else on the newest."""
    oldest, *between, newest = TARGETS
    if (found := on_target(prepared, oldest)).kind != "refused":
        return found
    # What the newest refuses, those between refuse too.
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
"""For each backend and dtype the outcomes of a row's cases."""


def run_row(name: str) -> Cells:
    torch.set_num_threads(1)
    # PyTorch's, of code that it calls itself.
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
    """Why cases were refused or are wrong, each reason once, with its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, detail: str) -> int:
        # Reasons that differ in sizes, dtypes and names alone are one.
        reason, *_ = detail.splitlines()
        if re.search(r"Core ML has no bf(loat)?16", reason):
            reason = "Core ML has no bfloat16"
        reason = re.sub(r"\[[-\d, ?]*\]", "[..]", reason)
        reason = re.sub(r" of tensor<[^:]*", "", reason)
        reason = re.sub(r"_\d+\b", "", reason)
        return self.numbers.setdefault(reason, len(self.numbers) + 1)


def cell(outcomes: Sequence[Outcome], notes: Notes) -> str:
    """`3, 1 iOS16, 1 refused [2]`: what passed, on what; what was refused, and why."""
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

Written by `make support`, which runs a few cases of each row (`tools/support_rows.py`)
and compares with PyTorch: asymmetric and negative amounts, groups, dilation, no batch,
dynamic sizes. A cell counts the cases that pass, and those that are refused, with the
number of the reason below; it is empty where PyTorch itself has none.
"""
SECTIONS = {
    "the reference": "What comes of the op at the `tcp` level, interpreted.",
    "Core ML": """\
The package, run by the evaluator, and breaking no rule of `padc check`; with each count
the oldest system it converts for. Of int64 the package has int32; inputs and outputs of
bool are floats there.""",
    "machine code": "By `padc.compile`, nothing left to PyTorch.",
}


def page(rows: dict[str, Cells]) -> str:
    """The page, from what was found."""
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
    """What did not compute what PyTorch does."""
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
