# pyright: basic
"""The tool that writes the support matrix reports wrong results."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import ExportedProgram

from padc.backends.coreml.checker import Finding
from padc.coreml_program import Program
from padc.errors import Problem, UnsupportedError
from padc.testing import Compiled, compile_for_oracle
from padc.tools import update_support
from padc.tools.support_rows import ROWS, Case
from padc.tools.update_support import Cells, Outcome, Prepared, outcome, prepare

PAD = Case(lambda x: F.pad(x, (1, 2)), [(2, 3, 6)], dynamic=True)


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    found = prepare(PAD, torch.float32)
    assert found is not None
    return found


def mutant(change: Callable[[Tensor], Tensor]) -> update_support.Compile:
    """The reference, with its results changed."""

    def compile(program: ExportedProgram) -> Compiled:
        right = compile_for_oracle(program)
        return lambda *inputs: tuple(map(change, right(*inputs)))

    return compile


def test_what_is_right_passes(prepared: Prepared):
    assert outcome(prepared, compile_for_oracle) == Outcome("passed")
    assert update_support.on_core_ml(prepared) == Outcome("passed", "iOS15")


def test_dynamic_sizes_are_run_at_two(prepared: Prepared):
    assert [tuple(result.shape) for _, result, _ in prepared.runs] == [
        (2, 3, 9),
        (2, 3, 12),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x + 0.01,
        lambda x: x[..., 1:],
        lambda x: x.double(),
        lambda x: x.roll(1, -1),
        lambda x: x.reshape(7) if x.shape[-1] == 9 else x,  # a crash
        lambda x: x if x.shape[-1] == 9 else -x,  # of the second size alone
    ],
    ids=["value", "shape", "dtype", "place", "crash", "dynamic"],
)
def test_what_is_wrong_is_told(prepared: Prepared, change: Callable[[Tensor], Tensor]):
    found = outcome(prepared, mutant(change))
    rows = {"pad": cells([found], [])}

    assert found.kind == "wrong"
    assert "| pad | 1 **wrong** [1] |" in update_support.page(rows)
    assert len(update_support.wrong(rows)) == len(update_support.DTYPES)


def test_a_crash_of_the_compiler_is_wrong(prepared: Prepared):
    def compile(program: ExportedProgram) -> Compiled:
        raise NotImplementedError("sorry")

    found = outcome(prepared, compile)

    assert found == Outcome("wrong", "NotImplementedError: sorry")


def test_refusals_are_told_with_their_reason(prepared: Prepared):
    def compile(program: ExportedProgram) -> Compiled:
        raise UnsupportedError([Problem("no float32[2,3]")])

    found = outcome(prepared, compile)
    rows = {"pad": cells([found], [found, found])}
    text = update_support.page(rows)

    assert "| pad | 1 refused [1] |" in text and "| pad | 2 refused [1] |" in text
    assert text.endswith("1. no float32[..]\n")
    assert update_support.wrong(rows) == []


def test_a_package_that_breaks_a_rule_is_wrong(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
):
    finding = Finding("rank", "pad", "y", "it has rank 6", "https://example.com")
    monkeypatch.setattr(Program, "check", lambda program: [finding])

    assert update_support.on_core_ml(prepared).kind == "wrong"


def test_what_pytorch_does_not_have_is_left_out():
    assert (
        prepare(Case(lambda x: F.pad(x, (1, 1), "reflect"), [(2, 3)]), torch.bool)
        is None
    )


def test_the_page_has_the_rows_that_are_run():
    lines = update_support.PAGE.read_text().splitlines()
    names = [line[2:].split(" | ")[0] for line in lines if line.startswith("| ")]

    heading = ["| float32", "---"]
    assert names == [*heading, *ROWS] * 3


def cells(reference: list[Outcome], core_ml: list[Outcome]) -> Cells:
    """The same outcomes of each dtype; none in machine code."""
    names = [str(dtype).removeprefix("torch.") for dtype in update_support.DTYPES]
    found: dict[str, list[Outcome]] = {
        "the reference": reference,
        "Core ML": core_ml,
        "machine code": [],
    }
    return {
        backend: {name: outcomes for name in names}
        for backend, outcomes in found.items()
    }
