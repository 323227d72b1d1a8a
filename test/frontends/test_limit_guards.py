# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""The guards that limits of sizes become: all that are needed, and no others."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, ExportedProgram
from torch.fx import Node
from torch.nn import functional as F

import padc
from padc.errors import UsageError
from padc.frontends.torch_export.guards import input_numbers, limits_of
from padc.frontends.torch_export.size_limits import limit_guards, solution
from padc.versions import numbers

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
aten = torch.ops.aten

pytestmark = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 keeps no guards"
)


class Net(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


def exported(
    function: Function,
    dims: Sequence[int],
    x: torch.Tensor | Sequence[int],
    y: torch.Tensor | None = None,
) -> ExportedProgram:
    """A program of `x` with dimensions of any size from 0, and of `y` of any length."""
    given = (
        x if isinstance(x, torch.Tensor) else torch.rand(*x),
        torch.ones(3) if y is None else y,
    )
    sizes = {dim: Dim(f"n{dim}", min=0, max=12) for dim in dims}
    shapes = sizes, {0: Dim("m", min=0, max=9)}
    return torch.export.export(Net(function), given, dynamic_shapes=shapes)


def exported_of_any_length(
    function: Function, x: torch.Tensor, y: torch.Tensor
) -> ExportedProgram:
    sizes = {0: Dim.AUTO}, {0: Dim.AUTO}
    return torch.export.export(Net(function), (x, y), dynamic_shapes=sizes)


def guards(program: ExportedProgram) -> list[str]:
    return [guard.text for guard in limits_of(program)]


def call_of(program: ExportedProgram, op: Any) -> Node:
    (call,) = program.graph.find_nodes(op="call_function", target=op)
    return call


FOUR = ["x.shape[1] >= 4"]
INDICES: dict[str, tuple[Function, Sequence[int], Sequence[int], list[str]]] = {
    # A function, the dynamic dimensions and the shape of `x`, and what must hold.
    "alias": (lambda x, y: x[:, aten.alias(torch.tensor([3, 0]))], [1], [2, 9], FOUR),
    "detach": (lambda x, y: x[:, aten.detach(torch.tensor([3, 0]))], [1], [2, 9], FOUR),
    "clone": (lambda x, y: x[:, aten.clone(torch.tensor([3, 0]))], [1], [2, 9], FOUR),
    "of a clone": (lambda x, y: x.clone()[:, torch.tensor([3])], [1], [2, 9], FOUR),
    "of a result that is changed": (
        lambda x, y: F.embedding(torch.tensor([3, 0]), x.T).add_(1), [1], [2, 9], FOUR,
    ),
    "none": (
        lambda x, y: x[:, torch.tensor([], dtype=torch.int64)], [1], [2, 9], [],
    ),
    "of a batch": (
        lambda x, y: x[:, torch.tensor([3])], [0, 1], [2, 9],
        ["x.shape[1] >= 4 or x.shape[0] == 0"],
    ),
    "of an empty batch": (lambda x, y: x[:, torch.tensor([3])], [1], [0, 9], []),
    "of a known size": (lambda x, y: x[:, torch.tensor([3])], [], [2, 9], []),
}  # fmt: skip
SIZES: dict[str, tuple[Function, Sequence[int], Sequence[int], list[str]]] = {
    "no batch": (
        lambda x, y: F.conv2d(x, torch.ones(2, 2, 1, 1)), [1], [2, 5, 7],
        ["x.shape[1] >= 1"],
    ),
    "no channel": (
        lambda x, y: F.pixel_unshuffle(x, 2), [0], [3, 0, 4, 6], ["x.shape[0] >= 1"],
    ),
    "next to a replicated dimension": (
        lambda x, y: F.pad(x, (1, 1, 0, 0), mode="replicate"), [2], [2, 3, 4, 5],
        ["x.shape[2] >= 1"],
    ),
    "next to a cropped dimension": (lambda x, y: F.pad(x, (-2, 1, 0, 0)), [2], [2, 3, 4, 5], []),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [*INDICES.values(), *SIZES.values()], ids=[*INDICES, *SIZES]
)
def test_what_must_hold(case: tuple[Function, Sequence[int], Sequence[int], list[str]]):
    function, dims, shape, needed = case

    assert guards(exported(function, dims, shape)) == needed


def test_a_size_that_only_no_index_fits():
    program = exported(
        lambda x, y: x.index_select(0, y), [], [0, 2], torch.tensor([0, 0, 0])
    )
    compiled = padc.compile(program)

    assert guards(program) == ["0 >= 1 or y.shape[0] == 0"]
    none = torch.zeros(0, dtype=torch.int64)
    assert compiled(torch.ones(0, 2), none).shape == (0, 2)
    with pytest.raises(UsageError, match=r"y\.shape\[0\] == 0"):
        compiled(torch.ones(0, 2), torch.tensor([0]))


def test_a_mask_before_indices():
    """A mask of two dimensions stands for both."""
    program = exported(
        lambda x, y: x[torch.ones(2, 3) > 0, torch.tensor([3])], [2], [2, 3, 9]
    )
    compiled = padc.compile(program)
    x = torch.rand(2, 3, 4)

    assert ".size()[2] >= 4 or u0 == 0" in compiled.report()
    assert torch.equal(compiled(x, torch.ones(3)), x[:, :, 3].flatten())


def test_a_mask_of_an_empty_dimension():
    program = exported(lambda x, y: x[x[:, 0] > 0.5], [0], [3, 2])

    assert limit_guards(program, input_numbers(program)) == []


@pytest.mark.parametrize(
    "function, needed",
    [
        (lambda x, y: x[y.shape[0]], "x.shape[0] >= 1 + y.shape[0]"),
        (lambda x, y: x[-y.shape[0]], "x.shape[0] >= y.shape[0]"),
    ],
    ids=["first", "last"],
)
def test_an_index_that_is_a_size(function: Function, needed: str):
    program = exported_of_any_length(function, torch.rand(9, 2), torch.ones(3))

    assert guards(program) == [needed]


def test_a_size_that_is_a_square():
    program = exported_of_any_length(
        lambda x, y: y.view(x.shape[0], x.shape[0])[:, torch.tensor([3])],
        *(torch.rand(9), torch.rand(81)),
    )
    n, given = sympy.symbols("n given", integer=True)

    assert guards(program) == ["x.shape[0] >= 4"]
    assert solution(n**2, n, given) is None
    assert str(solution(2 * n + 1, n, given)) == "((given - 1)//2)"


def changed_in_a_region(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    indices = torch.tensor([0, 9])
    with torch.no_grad():
        indices[1] = 1
    return x[:, indices] + x[:, torch.tensor([2, 2])]


def test_indices_that_a_region_changes():
    program = exported(changed_in_a_region, [1], [2, 12])

    assert guards(program) == ["x.shape[1] >= 1", "x.shape[1] >= 3"]


@pytest.mark.parametrize("kind", ["fake", "float", "complex", "sparse", "meta"])
def test_constants_that_are_no_lists_of_indices(kind: str):
    program = exported(lambda x, y: x[:, torch.tensor([3])], [1], [2, 9])
    ((name, index),) = program.constants.items()
    assert isinstance(index, torch.Tensor)
    others: dict[str, Callable[[], torch.Tensor]] = {
        "fake": lambda: FakeTensorMode().from_tensor(index),
        "float": lambda: index + 0.5,
        "complex": lambda: index + 1j,
        "sparse": lambda: index.to_sparse(),
        "meta": lambda: index.to("meta"),
    }
    program.constants[name] = others[kind]()

    assert guards(program) == ["x.shape[1] >= 1"]


OUTSIDE: dict[str, tuple[Function, Any, dict[str, Any]]] = {
    # A function, its op, and arguments with a dimension that tensors do not have.
    "max": (lambda x, y: x.max(1)[0] + 1, aten.max.dim, {"dim": 2}),
    "gather": (
        lambda x, y: x.gather(1, torch.tensor([[3]])), aten.gather.default, {"dim": -3},
    ),
    "select": (lambda x, y: x[:, 3], aten.select.int, {"dim": 2}),
    "slice_scatter": (
        lambda x, y: torch.slice_scatter(x, torch.ones(2, 3), 1, 0, 3),
        *(aten.slice_scatter.default, {"dim": 2}),
    ),
    "select_scatter": (
        lambda x, y: torch.select_scatter(x, torch.ones(2), 1, 3),
        *(aten.select_scatter.default, {"dim": -3}),
    ),
    "another rank": (
        lambda x, y: torch.slice_scatter(x, torch.ones(2, 3), 1, 0, 3),
        *(aten.slice_scatter.default, {"src": "y"}),
    ),
    "no mode": (
        lambda x, y: aten.pad(x, (1, 1), mode="replicate"),
        *(aten.pad.default, {"mode": "mirror"}),
    ),
    "no such mode": (
        lambda x, y: aten._pad_enum(x, (1, 1), 1), aten._pad_enum.default, {"mode": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_calls_that_no_guard_makes_right(name: str):
    """What is wrong with them is said by whoever lowers them."""
    function, op, changes = OUTSIDE[name]
    program = exported(function, [], [2, 9])
    call, names = call_of(program, op), [each.name for each in op._schema.arguments]
    y = next(node for node in program.graph.nodes if node.name == "y")
    arguments = dict(zip(names, call.args)) | dict(call.kwargs) | changes
    if "src" in changes:
        arguments["src"] = y
    call.args, call.kwargs = (), arguments

    assert guards(program) == []


def test_an_amount_of_which_nothing_is_known():
    """As passes over the graph make them that keep no `val`."""
    program = exported(lambda x, y: F.pad(x, (y.shape[0], 1)), [], [2, 9])
    call_of(program, torch.ops.aten.pad.default).args[1][0].meta.clear()  # type: ignore

    assert guards(program) == []
    x = torch.rand(2, 9)
    assert torch.equal(padc.compile(program)(x, torch.ones(3)), F.pad(x, (3, 1)))


def test_a_step_that_is_a_size():
    program = exported(
        lambda x, y: torch.slice_scatter(x, y, 0, 0, None, x.shape[0] // y.shape[0]),
        *([0], [9]),
    )
    x, y = torch.rand(9), torch.rand(3)

    assert guards(program) == []
    expected = torch.slice_scatter(x, y, 0, 0, None, 3)
    assert torch.equal(padc.compile(program)(x, y), expected)
