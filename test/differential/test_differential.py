# pyright: basic
"""A few of the random programs of `make differential`, and how wrong ones are shrunk."""

import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from differential import campaign, paths
from differential.draw import Draw
from differential.in_place import METHODS, Written
from differential.ops import OPS
from differential.paths import PATHS, PartlyError, Run, SameError, module_of, problem
from differential.program import REFUSALS, Call, Program, Ref, Size
from differential.programs import DTYPES, OF_EXPORTED, drawn
from differential.programs import calls as drawn_calls
from differential.rounding import allowed
from differential.shrinking import shrunk
from differential.states import Shifted, with_fitting_states
from torch import Tensor

import padc
from padc.errors import Problem, UnsupportedError, UsageError

aten = torch.ops.aten
USUAL = ("reference", "native", "coreml")


@pytest.mark.parametrize(
    ("kind", "path", "count", "least"),
    [
        *(("static", path, 10, 5) for path in USUAL),
        *(("dynamic", path, 12, 6) for path in USUAL),
        *(("exported", path, 4, 2) for path in ("compile", "pt2")),
        # Its ranges of sizes do not have those of all runs.
        ("exported", "convert", 4, 1),
        ("networks", "native", 1, 1),
    ],
)
def test_programs(kind: str, path: str, count: int, least: int):
    """So many of these programs are right, at least; the others are refused."""
    right = 0
    for seed in range(count):
        try:
            found = problem(drawn(seed, kind), path)
        except UnsupportedError:
            continue
        except PartlyError:
            found = None
        assert found is None, f"{seed}: {found}"
        right += 1
    assert right >= least


def test_sizes_that_differ_between_runs_are_symbols():
    x = [torch.ones(rows, 2) for rows in (3, 5)]
    calls = [Call(aten.reshape.default, (Ref(0), [2, Size(0, 0)]))]
    program = Program([[each] for each in x], calls, [1])

    module = str(module_of(program)[1])

    assert "tensor<[?,2],f32>" in module and "torch.aten.size" in module
    assert [problem(program, path) for path in USUAL] == [None] * len(USUAL)


def test_views_of_results_with_other_strides():
    """Eager mode's grid_sampler gives channels the stride 1."""
    x, grid = torch.randn(5, 5, 3, 3), torch.randn(5, 1, 3, 2)
    calls = [
        Call(aten.grid_sampler_2d.default, (Ref(0), Ref(1), 2, 1, True)),
        Call(aten.view.default, (Ref(2), [15, 5, 1, 1, 1])),
    ]
    program = Program([[x, grid]], calls, [3])

    assert [problem(program, path) for path in USUAL] == [None] * len(USUAL)


def test_channels_that_pytorch_computes():
    """PyTorch computes those of a `pixel_unshuffle` from all sizes."""
    shapes = (3, 4, 4, 4), (3, 4, 12, 4)
    runs = [[torch.arange(math.prod(s)).reshape(s).to(torch.int8)] for s in shapes]
    program = Program(runs, [Call(aten.pixel_unshuffle.default, (Ref(0), 2))], [1])

    assert [problem(program, path) for path in USUAL] == [None] * len(USUAL)


def test_a_wrong_program_is_shrunk():
    x = torch.randn(3, 4)
    calls = [
        Call(aten.sin.default, (Ref(0),)),
        Call(aten.flip.default, (Ref(1), [1])),
        Call(aten.relu.default, (Ref(2),)),
        Call(aten.neg.default, (Ref(0),)),
    ]

    def flips(program: Program) -> bool:
        return any(call.target == aten.flip.default for call in program.calls)

    found = shrunk(Program([[x]], calls, [3, 4]), flips)

    assert [call.target for call in found.calls] == [aten.flip.default]
    scope: dict = {"torch": torch}
    exec(found.source(), scope)
    (result,) = scope["program"](*scope["inputs"])
    assert torch.equal(result, scope["inputs"][0].flip(1))


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch):
    right = PATHS["reference"]

    def off(program: Program) -> list[Run]:
        (run,) = right(program)
        return [lambda inputs: [each + 0.01 for each in run(inputs)]]

    monkeypatch.setitem(PATHS, "reference", off)
    program = Program([[torch.ones(3)]], [Call(aten.relu.default, (Ref(0),))], [1])

    assert "not close" in str(problem(program, "reference"))


RELU = Program([[torch.arange(3.0)]], [Call(aten.relu.default, (Ref(0),))], [1])


def test_strict_runs_code_of_its_own():
    """Programs of which `native` computes no convolution by tiles are the same."""
    x, kernel = torch.randn(1, 32, 40, 40), torch.randn(32, 32, 3, 3)
    sizes = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    call = Call(aten.convolution.default, (Ref(0), Ref(1), None, *sizes))
    program = Program([[x, kernel]], [call], [2], frozenset([1]))

    assert problem(program, "strict") is None and program.has_tiles
    with pytest.raises(SameError):
        problem(RELU, "strict")


def zeroed(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    results = [x.relu() for x in inputs]
    for x in inputs:
        x.zero_()
    return results


def with_other_results() -> Run:
    calls = itertools.count()
    return lambda inputs: [inputs[0] + next(calls)]


def with_the_same_memory() -> Run:
    memory = torch.empty(3)
    return lambda inputs: [memory.copy_(inputs[0])]


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (zeroed, "a call changes its inputs"),
        (with_other_results(), "other bits when it is called again"),
        (with_the_same_memory(), "another call changes the results"),
    ],
)
def test_calls_are_repeated(run: Run, text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PATHS, "reference", lambda _: [run])

    assert problem(RELU, "reference") == text


def test_calls_that_change_states_are_looked_at(monkeypatch: pytest.MonkeyPatch):
    inputs = [torch.zeros(3), torch.arange(3.0)]
    calls = [Call(aten.relu.default, (Ref(1),))]
    program = Program([inputs], calls, [2], frozenset([0]), states={0: 2})
    monkeypatch.setitem(PATHS, "compile", lambda _: [zeroed])

    assert str(problem(program, "compile")).startswith("a call changes its inputs")


def test_a_package_that_the_evaluator_refuses_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuse(*_: Any) -> Any:
        raise UnsupportedError([Problem("relu")])

    monkeypatch.setattr(paths.Session, "run", refuse)

    assert "relu" in str(problem(RELU, "coreml"))


def test_sizes_that_only_fit_together_in_the_runs():
    """A package declares a range for each: it also takes 2 by 3 and 4 by 6 elements."""
    calls = [Call(aten.reshape.default, (Ref(0), [12]))]
    program = Program([[torch.ones(2, 6)], [torch.ones(4, 3)]], calls, [1])

    assert problem(program, "reference") is None
    with pytest.raises(UnsupportedError, match="cannot reshape"):
        problem(program, "coreml")


@pytest.mark.parametrize(
    "rule, call, runs",
    [
        (
            "computed",
            Call(aten.relu.default, (Ref(0),)),
            [[torch.ones(2, 6)], [torch.ones(4, 3)]],
        ),
        # The smaller one has no row 4.
        (
            "computed",
            Call(aten.index_select.default, (Ref(0), 0, Ref(1))),
            [[torch.ones(5), torch.tensor([4, 0])], [torch.ones(2), torch.tensor([1])]],
        ),
        # Sizes do not explain this one.
        (
            "rank",
            Call(aten.reshape.default, (Ref(0), [12])),
            [[torch.ones(2, 6)], [torch.ones(4, 3)]],
        ),
    ],
)
def test_a_package_that_breaks_a_rule_is_wrong(
    rule: str, call: Call, runs: list[list[Tensor]], monkeypatch: pytest.MonkeyPatch
):
    finding = padc.coreml.Finding(rule, "add", "y", "a finding", "Core ML")
    monkeypatch.setattr(paths, "check", lambda *_: [finding])

    assert "a finding" in str(problem(Program(runs, [call], [len(runs[0])]), "coreml"))


def test_infinite_results_are_compared():
    x = torch.tensor([torch.inf, -torch.inf, 1])
    program = Program([[x]], [Call(aten.relu.default, (Ref(0),))], [1])

    ((_, compared),) = allowed(program, 0, "native")

    assert compared.all()


def test_what_pytorch_rounds_to_0():
    """Its sigmoid does for -90, so that there is no telling what infinity times it is."""
    calls = [
        Call(aten.sigmoid.default, (Ref(1),)),
        Call(aten.mul.Tensor, (Ref(0), Ref(2))),
    ]
    inputs = [torch.tensor([torch.inf]), torch.tensor([-90.0, -30.0])]

    ((_, compared),) = allowed(Program([inputs], calls, [3]), 0, "native")

    assert compared.tolist() == [False, True]


def test_what_pytorch_computes_is_no_machine_code():
    call = Call(aten.index_put.default, (Ref(0), [Ref(1)], Ref(2)))
    inputs = [torch.ones(3), torch.tensor([1]), torch.zeros(1)]

    with pytest.raises(PartlyError, match=r"aten\.index_put"):
        problem(Program([inputs], [call], [3]), "native")


def test_sizes_and_numbers_are_shrunk():
    calls = [Call(aten.constant_pad_nd.default, (Ref(0), [3, 2], 1.0))]

    def is_padded(program: Program) -> bool:
        return program.values()[1].shape[-1] > program.inputs[0].shape[-1]

    found = shrunk(Program([[torch.randn(4, 5)]], calls, [1]), is_padded)

    assert found.inputs[0].shape == (1, 1) and found.calls[0].args[1] in (
        [1, 0],
        [0, 1],
    )


def test_runs_of_other_sizes_are_shrunk():
    runs = [[torch.randn(10, 2)], [torch.randn(3, 2)]]
    program = Program(runs, [Call(aten.neg.default, (Ref(0),))], [1])

    found = shrunk(program, lambda program: len(program.runs) == 2)

    assert [run[0].shape for run in found.runs] == [(8, 1), (1, 1)]


def test_writes_in_place():
    """Each is drawn, and is the same in eager mode as its source."""
    programs = [drawn(seed, "exported") for seed in range(40)]
    written = [
        (program, call.target)
        for program in programs
        for call in program.calls
        if isinstance(call.target, Written)
    ]

    assert {target.method for _, target in written} == {*METHODS}
    assert any(target.sources is not None for _, target in written)
    for program, _ in written:
        scope: dict = {"torch": torch}
        exec(program.source(), scope)
        results = scope["program"](*scope["inputs"])
        for result, number in zip(results, program.outputs, strict=True):
            torch.testing.assert_close(
                result, program.values()[number], equal_nan=True, rtol=0, atol=0
            )


WRITES = (
    "as_strided.default",
    "as_strided_scatter.default",
    "index_put.default",
    "scatter.src",
    "scatter_add.default",
    "select_scatter.default",
    "slice_scatter.default",
)


def test_what_is_drawn():
    """All dtypes, special numbers, far points, and nearest ones."""
    programs = [drawn(seed) for seed in range(400)]
    inputs = [x for program in programs for x in program.inputs]
    calls = [call for program in programs for call in program.calls]

    assert {x.dtype for x in inputs} >= {*DTYPES}
    assert sum(not x.isfinite().all() for x in inputs) >= 5
    floats = [x for x in inputs if x.is_floating_point()]
    assert any((x.isfinite() & (x.abs() > 1e3)).any() for x in floats)
    modes = {call.args[2] for call in calls if "grid_sampler" in str(call.target)}
    assert modes == {0, 1, 2}
    assert sum(not x.is_contiguous() for x in inputs) >= 20
    ops = (*OPS, *OF_EXPORTED)
    calls += [call for n in range(200) for call in drawn_calls(Draw(n), ops).calls]
    with_states = [drawn_calls(Draw(n), ops, states=1) for n in range(20)]
    assert sum(bool(program.states) for program in with_states) > 15
    shifted = [any(isinstance(c.target, Shifted) for c in p.calls) for p in with_states]
    assert 0 < sum(shifted) < 20
    names = {str(call.target) for call in calls}
    assert names >= {f"aten.{name}" for name in WRITES}
    varied = [drawn(seed, "dynamic") for seed in range(20)]
    assert sum(len(program.runs) > 1 for program in varied) >= 18
    assert all(program.source() for program in programs)


def test_runs_of_sizes_zero_and_one():
    """Sizes below 2 that PyTorch's graph holds for are the lower bound of the range."""
    x = [torch.ones(rows, 2) for rows in (3, 1, 0)]
    program = Program([[each] for each in x], [Call(aten.neg.default, (Ref(0),))], [1])

    assert "min_val = 0, max_val = 3" in str(module_of(program)[1])
    assert [problem(program, path) for path in ("reference", "native")] == [None] * 2


@pytest.mark.filterwarnings("ignore:the buffer 'v0' cannot be a state")
def test_states_are_followed_from_call_to_call(monkeypatch: pytest.MonkeyPatch):
    calls = [Call(aten.add.Tensor, (Ref(0), Ref(1)))]
    runs = [[torch.ones(3), torch.full([3], 2.0)]]
    program = Program(runs, calls, [2], frozenset([0]), states={0: 2})

    assert [problem(program, path) for path in ("compile", "convert")] == [None] * 2
    assert "    # The model's states become:\n    inputs[0] = v2" in program.source()
    monkeypatch.setitem(
        PATHS, "compile", lambda program: [lambda inputs: [torch.full([3], 3.0)]]
    )
    text = problem(program, "compile")
    assert text is not None and "with the states [tensor([3., 3., 3.])]" in text


def test_states_are_shrunk():
    calls = [
        Call(aten.relu.default, (Ref(1),)),
        Call(aten.sin.default, (Ref(2),)),
        Call(aten.add.Tensor, (Ref(0), Ref(3))),
    ]
    program = Program(
        [[torch.ones(3), torch.arange(1.0, 4)]],
        calls,
        [2, 4],
        frozenset([0]),
        states={0: 4},
    )

    def changes(program: Program) -> bool:
        try:
            fitting = with_fitting_states(program)
        except REFUSALS:
            return False
        if fitting.states != program.states:
            return False
        results = [program.values()[number] for number in program.outputs]
        after = program.after(results)
        return bool(program.states) and not after.inputs[0].equal(program.inputs[0])

    found = shrunk(program, changes)

    assert found.states == {0: len(found.inputs) + len(found.calls) - 1}
    assert [call.target for call in found.calls] == [aten.add.Tensor]


def test_an_exported_program_that_is_saved_and_loaded(
    monkeypatch: pytest.MonkeyPatch,
):
    rolled = Call(aten.roll.default, (Ref(0), [1], [0]))
    runs = [[torch.arange(rows * 2.0).view(rows, 2)] for rows in (3, 5)]
    program = Program(runs, [rolled], [1])

    assert problem(program, "pt2") is None

    def refuse(path: Path) -> Any:
        raise UsageError(f"{path} is not safe to load")

    monkeypatch.setattr(padc, "load", refuse)
    assert "what PyTorch loads is refused" in str(problem(program, "pt2"))


def is_found(program: Program, error: float, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an error in the last output is found."""
    right = PATHS["reference"]

    def off(program: Program) -> list[Run]:
        (run,) = right(program)
        return [lambda inputs: [*run(inputs)[:-1], run(inputs)[-1] + error]]

    with monkeypatch.context() as patch:
        patch.setitem(PATHS, "reference", off)
        return problem(program, "reference") is not None


@pytest.mark.parametrize("first", [aten.exp.default, aten.to.dtype])
def test_other_outputs_allow_no_error(first: Any, monkeypatch: pytest.MonkeyPatch):
    """Neither a large number nor one of float16 on which the output does not depend."""
    arguments = () if first == aten.exp.default else (torch.float16,)
    calls = [Call(first, (Ref(0), *arguments)), Call(aten.relu.default, (Ref(0),))]
    program = Program([[torch.tensor([16.0, -1.0])]], calls, [1, 2])

    assert not is_found(program, 0, monkeypatch)
    assert is_found(program, 1e-4, monkeypatch)


def test_what_is_left_of_a_large_number_has_its_error(monkeypatch: pytest.MonkeyPatch):
    large = Call(aten.add.Scalar, (Ref(0), 1e4))
    calls = [large, Call(aten.sub.Tensor, (Ref(2), Ref(1)))]
    program = Program([[torch.ones(9), torch.full([9], 1e4)]], calls, [3])

    assert not is_found(program, 2e-3, monkeypatch)
    assert is_found(program, 0.1, monkeypatch)
    # A sigmoid of the large number loses that error.
    calls = [large, Call(aten.sigmoid.default, (Ref(2),))]
    assert is_found(Program(program.runs, calls, [3]), 1e-5, monkeypatch)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGABRT)


def hang() -> None:
    time.sleep(1000)


@pytest.mark.parametrize(
    ("fault", "text"), [(crash, "SIGABRT"), (hang, "no result after 2 s")]
)
def test_crashes_and_hangs_are_found(
    fault: Callable[[], None], text: str, monkeypatch: pytest.MonkeyPatch
):
    """Each seed is counted once, and the programs at fault are shrunk."""

    def reference(program: Program) -> list[Run]:
        if any(call.target == aten.neg.default for call in program.calls):
            fault()
        return [lambda inputs: program.values()[len(program.inputs) + 1 :]]

    def program(seed: int, kind: str) -> Program:
        last = aten.neg.default if seed == 5 else aten.abs.default
        calls = [Call(aten.relu.default, (Ref(0),)), Call(last, (Ref(1),))]
        return Program([[torch.ones(3)]], calls, [2])

    monkeypatch.setitem(PATHS, "reference", reference)
    monkeypatch.setattr(campaign, "drawn", program)
    monkeypatch.setattr(campaign, "DEADLINE", 2.0)
    monkeypatch.setattr(campaign, "SHORT_DEADLINE", 1.0)
    work = [(range(i, i + 4), "static", ("reference",)) for i in (0, 4, 8)]

    found = [*campaign.results(work, 2, get_context("fork"))]

    assert sorted(seeds.start for seeds, _ in found) == [0, 4, 8]
    outcomes = sorted(each for _, some in found for each in some)
    assert [seed for seed, *_ in outcomes] == [*range(12)]
    (seed, path, kind, shown), *others = [o for o in outcomes if o[2] != "right"]
    assert (seed, path, kind, others) == (5, "reference", "wrong", [])
    assert "neg" in shown and "relu" not in shown
    assert text.replace("2 s", "1 s") in shown


def test_a_campaign_that_is_stopped_says_what_it_covered():
    folder = Path(__file__).parent
    options = ["--paths", "reference", "--programs", "100000", "--jobs", "1"]
    options += ["--interval", "0"]
    command = [sys.executable, folder, *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        counts = process.stdout.readline()
        process.terminate()
        printed, _ = process.communicate(timeout=60)

    assert process.returncode == 2
    assert counts.startswith("20 seeds: reference ")
    assert "seeds 0 to " in printed and "further seeds" in printed
    assert campaign.ranges({0, 1, 2, 5, 7, 8}) == "0 to 2, 5, 7 to 8"
