# pyright: basic
"""A few of the random programs of `make differential`, and how wrong ones are shrunk."""

import pytest
import torch
from differential.paths import PATHS, Run, module_of, problem
from differential.program import Call, Program, Ref, Size
from differential.programs import drawn
from differential.shrinking import shrunk

from padc.errors import UnsupportedError

aten = torch.ops.aten
USUAL = ("reference", "native", "coreml")


@pytest.mark.parametrize(
    ("kind", "path", "count"),
    [
        *(("static", path, 10) for path in USUAL),
        *(("dynamic", path, 3) for path in USUAL),
        ("networks", "native", 1),
    ],
)
def test_programs(kind: str, path: str, count: int):
    right = 0
    for seed in range(count):
        try:
            found = problem(drawn(seed, kind), path)
        except UnsupportedError:
            continue
        assert found is None, f"{seed}: {found}"
        right += 1
    assert right >= count / 2


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
