# pyright: basic
"""A few of the random programs of `make differential`, and how wrong ones are shrunk."""

import pytest
import torch
from differential.paths import PATHS, problem
from differential.programs import Call, Program, Ref, drawn, shrunk
from torch import Tensor

from padc.errors import UnsupportedError

aten = torch.ops.aten
SEEDS = range(12)


@pytest.mark.parametrize("path", PATHS)
def test_programs(path: str):
    right = 0
    for seed in SEEDS:
        try:
            assert (found := problem(drawn(seed), path)) is None, f"{seed}: {found}"
        except UnsupportedError:
            continue
        right += 1
    assert right >= len(SEEDS) / 2


def test_views_of_results_with_other_strides():
    """Eager mode's grid_sampler gives channels the stride 1."""
    x, grid = torch.randn(5, 5, 3, 3), torch.randn(5, 1, 3, 2)
    calls = [
        Call(aten.grid_sampler_2d.default, (Ref(0), Ref(1), 2, 1, True)),
        Call(aten.view.default, (Ref(2), [15, 5, 1, 1, 1])),
    ]
    program = Program([x, grid], calls, [3])

    assert [problem(program, path) for path in PATHS] == [None] * len(PATHS)


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

    found = shrunk(Program([x], calls, [3, 4]), flips)

    assert [call.target for call in found.calls] == [aten.flip.default]
    scope: dict = {"torch": torch}
    exec(found.source(), scope)
    (result,) = scope["program"](*scope["inputs"])
    assert torch.equal(result, scope["inputs"][0].flip(1))


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch):
    right = PATHS["reference"]

    def off(program: Program) -> list[Tensor]:
        return [each + 0.01 for each in right(program)]

    monkeypatch.setitem(PATHS, "reference", off)
    program = Program([torch.ones(3)], [Call(aten.relu.default, (Ref(0),))], [1])

    assert "not close" in str(problem(program, "reference"))
