# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""Conditions on sizes that torch.export leaves to kernels: they are guards here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F

import padc
from padc.backends.coreml.save import problem_of
from padc.errors import UnsupportedError, UsageError
from padc.versions import numbers

Function = Callable[..., Any]

pytestmark = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 keeps no guards"
)


class One(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Two(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


def auto(low: int, high: int) -> Any:
    return Dim.AUTO(min=low, max=high)  # type: ignore[operator]


def exported(
    model: nn.Module | Function, shape: Sequence[int], dims: Mapping[int, Any]
) -> ExportedProgram:
    if not isinstance(model, nn.Module):
        model = One(model)
    args = (torch.rand(*shape),)
    shapes = (dict(dims),) if dims else None
    return torch.export.export(model.eval(), args, dynamic_shapes=shapes)


def circular(x: torch.Tensor) -> torch.Tensor:
    return F.pad(2 * x, (3, -2), mode="circular")


def in_a_branch(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 99, grown, wrapped, (x,))


def wrapped(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (3, -2), mode="circular")


def grown(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (1, 0)) + 1


PADS: Mapping[str, tuple[Function, Sequence[int], int]] = {
    # What is computed, an example, and the least size of its last dimension.
    "constant": (lambda x: F.pad(x, (4, -6)), (2, 9), 6),
    "upper first": (lambda x: F.pad(x, (-6, 4)), (2, 9), 6),
    "two dimensions": (lambda x: F.pad(x, (3, -6, -1, 4)), (5, 9), 6),
    "constant_pad_nd": (
        lambda x: torch.ops.aten.constant_pad_nd(2 * x, (4, -6), 1.0),
        (2, 9),
        6,
    ),
    "a fill": (lambda x: F.pad(x, (-4, 3), value=2.0).sum(0), (2, 9), 4),
    "integers": (lambda x: F.pad(x.int(), (-6, 5)).float(), (2, 9), 6),
    "booleans": (lambda x: F.pad(x > 0.5, (-6, 5)).float(), (2, 9), 6),
    "computed": (
        lambda x: F.pad(torch.cat([x, x], 1), (5, -9)),
        (2, 9),
        5,
    ),
}


@pytest.mark.parametrize("name", PADS)
def test_constant_pads_crop_no_more_than_there_is(name: str):
    function, shape, least = PADS[name]
    program = exported(function, shape, {1: auto(3, 12)})
    module = program.module()
    compiled, converted = padc.compile(program), padc.convert(program)
    assert compiled.is_native
    assert not converted.check()

    for size in range(3, 13):
        x = torch.rand(shape[0], size)
        if size < least:
            with pytest.raises((RuntimeError, AssertionError)):
                function(x)
            with pytest.raises(UsageError, match=f"1 of the input 'x' is {size}"):
                compiled(x)
            with pytest.raises(UsageError, match=r"must be float32 of shape"):
                converted.run(x)
            continue
        try:
            expected = module(x)
        except (RuntimeError, AssertionError):  # PyTorch has guards of its own.
            continue
        torch.testing.assert_close(compiled(x), expected)
        if size >= least + 2:
            converted.verify([(x,)])


@pytest.mark.parametrize("low", [5, 6])
def test_the_smallest_size_of_a_pad_that_crops_all(low: int):
    """Core ML pads before it crops, as a slice of nothing is not allowed."""
    program = exported(
        lambda x: F.pad(x, (-6, 4)) + 0, (2, 9), {1: Dim("n", min=low, max=12)}
    )
    converted = padc.convert(program)

    assert not converted.check()
    converted.verify([(torch.rand(2, n),) for n in (6, 7, 12)])
    with pytest.raises(UsageError, match=r"\(2, 6\.\.12\)"):
        converted.run(torch.rand(2, 5))


@pytest.mark.parametrize("pads, least", [((3, -2), 5), ((-1, 3), 4)])
def test_circular_pads_that_crop(pads: tuple[int, int], least: int):
    """PyTorch returns memory that nobody wrote where too little is left to wrap."""
    program = exported(
        lambda x: F.pad(2 * x, pads, mode="circular"),
        (1, 2, 8),
        {2: Dim("n", min=4 - (pads[0] < 0), max=16)},
    )
    compiled, converted = padc.compile(program), padc.convert(program)
    assert compiled.is_native

    for size in (least, least + 1, 16):
        x = torch.rand(1, 2, size)
        torch.testing.assert_close(compiled(x), program.module()(x))
        converted.verify([(x,)])
    too_small = torch.rand(1, 2, least - 1)
    with pytest.raises(UsageError, match=r"x\.shape\[2\] >= 3"):
        compiled(too_small)
    with pytest.raises(UsageError, match=rf"\(1, 2, {least}\.\.16\)"):
        converted.run(too_small)


CIRCULAR: Mapping[str, tuple[Function, int]] = {
    "pad": (circular, 5),
    "mode by name": (lambda x: torch.ops.aten.pad(x * 2, (3, -2), mode="circular"), 5),
    "_pad_circular": (lambda x: torch.ops.aten._pad_circular(x * 2, (3, -2)), 5),
    "_pad_enum": (lambda x: torch.ops.aten._pad_enum(x * 2, (3, -2), 2), 5),
    "computed amounts": (
        lambda x: F.pad(x, (x.shape[2] - 3, -2), mode="circular") * 2,
        4,
    ),
    "in a branch": (in_a_branch, 5),
}


@pytest.mark.parametrize("name", CIRCULAR)
def test_circular_pads_wherever_they_stand(name: str):
    function, least = CIRCULAR[name]
    program = exported(function, (1, 2, 9), {2: auto(3, 12)})
    compiled, converted = padc.compile(program), padc.convert(program)

    for size in range(3, 13):
        x = torch.rand(1, 2, size)
        try:
            result = compiled(x)
        except UsageError:
            assert size <= least
            continue
        assert size >= least
        torch.testing.assert_close(result, function(x))
        converted.verify([(x,)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pad(x, (3, -2), mode="circular"),
        lambda x: torch.ops.aten._pad_circular(x * 2, (3, -2)),
        lambda x: torch.ops.aten._pad_enum(x * 2, (3, -2), 2),
        in_a_branch,
    ],
    ids=["pad", "_pad_circular", "_pad_enum", "in a branch"],
)
def test_static_circular_pads_that_leave_too_little(function: Function):
    program = exported(function, (1, 2, 4), {})

    with pytest.raises(UsageError, match=r"leaves 2 elements: .* nobody wrote"):
        padc.compile(program)
    with pytest.raises(UsageError, match="memory that nobody wrote"):
        padc.convert(program)


def test_the_line_of_a_pad_that_never_fits():
    program = exported(
        lambda x: F.pad(x, (1, 1, 2, -1), mode="circular"), (1, 2, 2, 4), {}
    )

    with pytest.raises(UsageError, match="leaves 1 element: PyTorch") as caught:
        padc.compile(program)
    assert caught.value.location is not None
    assert Path(caught.value.location.file) == Path(__file__)


def test_a_computed_pad_that_never_fits():
    program = exported(
        lambda x: F.pad(x, (x.shape[2], -1), mode="circular"),
        (1, 2, 9),
        {2: auto(3, 12)},
    )

    message = r"by x\.shape\[2\] after a crop that leaves -1 \+ x\.shape\[2\] elements"
    with pytest.raises(UsageError, match=message):
        padc.compile(program)
    with pytest.raises(UsageError, match=message):
        padc.convert(program)


TWO: Mapping[str, tuple[Function, Callable[[int, int], bool]]] = {
    "constant": (
        lambda x, y: F.pad(x, (y.shape[0], -y.shape[0] - 1)),
        lambda n, m: m < n,
    ),
    "circular": (
        lambda x, y: F.pad(x[None], (y.shape[0], -2), mode="circular"),
        lambda n, m: m <= n - 2,
    ),
    "reflect": (
        lambda x, y: F.pad(x[None], (y.shape[0], -1), mode="reflect"),
        lambda n, m: m < n,
    ),
}


@pytest.mark.parametrize("name", TWO)
def test_amounts_that_are_sizes_of_another_input(name: str):
    function, fits = TWO[name]
    program = torch.export.export(
        Two(function),
        (torch.rand(2, 9), torch.rand(3)),
        dynamic_shapes=({1: auto(3, 12)}, {0: auto(2, 8)}),
    )
    compiled, taken = padc.compile(program), set[bool]()
    assert compiled.is_native

    for n, m in ((9, 3), (6, 5), (5, 4), (4, 5), (3, 6), (8, 6), (12, 8)):
        x, y = torch.rand(2, n), torch.rand(m)
        if fits(n, m):
            torch.testing.assert_close(compiled(x, y), function(x, y))
        else:
            with pytest.raises(UsageError, match=r"the model was exported"):
                compiled(x, y)
        taken.add(fits(n, m))
    assert taken == {True, False}
    with pytest.raises(UnsupportedError, match="a smaller range"):
        padc.convert(program)


def changed_indices(x: torch.Tensor) -> torch.Tensor:
    indices = torch.tensor([0, 9])
    indices[1] = 1
    return x[:, indices]


def indices_changed_by_another_name(x: torch.Tensor) -> torch.Tensor:
    indices = torch.tensor([0, 9])
    indices.detach()[1] = 1
    return x[:, indices]


class Buffered(nn.Module):
    """Changes a view of its indices, which are no buffer."""

    def __init__(self):
        super().__init__()
        self.whole = torch.tensor([0, 9])
        self.last = self.whole[1:]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        indices = self.whole.clone()
        indices.view(2, 1).clamp_(max=1)
        return x[:, indices] + x[:, self.last - 8]


INDICES: Mapping[str, tuple[nn.Module | Function, int]] = {
    "listed": (lambda x: x[:, [-1, -4, 0]], 4),
    "selected": (lambda x: x.index_select(1, torch.tensor([4, 0])) * 2, 5),
    "gathered": (lambda x: x.gather(1, torch.tensor([[3]])), 4),
    "of int32": (lambda x: x[:, torch.tensor([3], dtype=torch.int32)], 4),
    "embedded": (lambda x: F.embedding(torch.tensor([[3]]), x.T + 1), 4),
    "changed": (changed_indices, 2),
    "limited": (lambda x: x[:, torch.tensor([0, 9]).clamp_(0, 1)], 2),
    "changed by another name": (indices_changed_by_another_name, 2),
    "changed in a view": (Buffered(), 2),
}
"""Functions with indices that are constants, and the least size of dimension 1."""


@pytest.mark.parametrize("name", INDICES)
def test_indices_that_are_constants(name: str):
    function, least = INDICES[name]
    program = exported(function, (2, 9), {1: auto(2, 12)})
    compiled, package = padc.compile(program), padc.convert(program)

    x = torch.randn(2, least)
    expected = function(x)
    for result in (compiled(x), *package.run(x)):
        torch.testing.assert_close(result, expected)
    if least > 2:
        with pytest.raises(UsageError, match=rf"shape\[1\] >= {least}"):
            compiled(torch.randn(2, least - 1))
        with pytest.raises(padc.PadcError, match=f"{least}"):
            package.run(torch.randn(2, least - 1))


def test_constant_indices_that_are_returned():
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        indices = torch.tensor([0, 3])
        return x[:, indices], indices, indices + 1

    compiled = padc.compile(exported(function, (2, 9), {1: auto(2, 12)}))

    with pytest.raises(UsageError, match=r"shape\[1\] >= 4"):
        compiled(torch.ones(2, 3))


def test_constant_indices_of_nothing():
    """PyTorch's index checks none if the result is empty; index_select does."""
    n, m = Dim("n", min=0, max=9), Dim("m", min=0, max=9)
    for function in (
        lambda x: x[:, torch.tensor([5])],
        lambda x: x.index_select(1, torch.tensor([5])),
    ):
        compiled = padc.compile(exported(function, (7, 8), {0: n, 1: m}))
        assert compiled(torch.ones(2, 6)).shape == (2, 1)
        with pytest.raises(UsageError, match=r"shape\[1\] >= 6"):
            compiled(torch.ones(2, 3))
        try:
            shape = function(torch.ones(0, 3)).shape
        except (IndexError, RuntimeError):
            with pytest.raises(UsageError, match=r"shape\[1\] >= 6"):
                compiled(torch.ones(0, 3))
        else:
            assert compiled(torch.ones(0, 3)).shape == shape


def test_a_constant_that_is_an_argument_by_name():
    program = exported(lambda x: x[:, [3]], (2, 9), {1: auto(2, 12)})
    (copy,) = program.graph.find_nodes(
        op="call_function", target=torch.ops.aten.lift_fresh_copy.default
    )
    copy.kwargs, copy.args = {"self": copy.args[0]}, ()

    with pytest.raises(UsageError, match=r"shape\[1\] >= 4"):
        padc.compile(program)(torch.ones(2, 3))


def test_an_index_of_a_dimension_whose_size_is_a_value():
    """Core ML has no such dimension, so the op that makes it is refused."""

    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.nonzero()[index.item()]  # type: ignore[call-overload]

    program = torch.export.export(Two(function), (torch.ones(3), torch.tensor(1)))

    with pytest.raises(UnsupportedError, match=r"aten\.nonzero"):
        padc.convert(program)


@pytest.mark.parametrize("kind", ["multiple", "more"])
def test_derived_dimensions(kind: str):
    if kind == "multiple":
        dim = 2 * Dim("k", min=2, max=6)  # type: ignore[operator]
    else:
        dim = Dim("n", min=3, max=12) + 1  # type: ignore[operator]
    program = exported(circular, (1, 2, 8), {2: dim})
    compiled, converted = padc.compile(program), padc.convert(program)
    assert compiled.is_native

    for size in (6, 8, 12):
        x = torch.rand(1, 2, size)
        torch.testing.assert_close(compiled(x), circular(x))
        converted.verify([(x,)])
    with pytest.raises(UsageError, match=r"is 4, but .* -2 \+ x\.shape\[2\] >= 3"):
        compiled(torch.rand(1, 2, 4))
    with pytest.raises(UsageError, match="shape"):
        converted.run(torch.rand(1, 2, 4))


def test_a_symbol_of_which_no_input_is_the_size():
    """`n` of a dimension `2*n` is half of it, and so are amounts."""
    k = Dim("k", min=2, max=6)
    program = exported(
        lambda x: F.pad(x, (x.shape[2] // 2 + 1, -2), mode="circular") + 1,
        (1, 2, 8),
        {2: 2 * k},  # type: ignore[operator]
    )
    compiled = padc.compile(program)

    for size in (6, 8, 12):
        x = torch.rand(1, 2, size)
        torch.testing.assert_close(
            compiled(x), F.pad(x, (size // 2 + 1, -2), mode="circular") + 1
        )
    with pytest.raises(UsageError, match=r"x\.shape\[2\] // 2"):
        compiled(torch.rand(1, 2, 4))


def test_models_that_pytorch_runs_are_checked_too(monkeypatch: pytest.MonkeyPatch):
    program = exported(circular, (1, 2, 8), {2: auto(3, 12)})
    monkeypatch.setattr(program, "_guards_code", ["L['x'].stride()[2] == 1"])
    compiled = padc.compile(program)
    assert "whole model" in compiled.report()

    x = torch.rand(1, 2, 5)
    torch.testing.assert_close(compiled(x), circular(x))
    with pytest.raises(UsageError, match=r"-2 \+ x\.shape\[2\] >= 3"):
        compiled(torch.rand(1, 2, 4))


EMPTY: Mapping[str, nn.Module] = {
    "conv": nn.Conv1d(2, 3, 3, padding=2),
    "conv_transpose": nn.ConvTranspose1d(2, 3, 4, 3, 1, 2),
    "avg_pool": One(lambda x: F.avg_pool1d(x, 2, 2, 1)),
    "replicate": One(lambda x: F.pad(x, (2, 3), mode="replicate")),
}


@pytest.mark.parametrize("name", EMPTY)
def test_ops_that_take_no_empty_dimension(name: str):
    model = EMPTY[name].eval()
    n = Dim("n", min=0, max=12)
    argument = "x" if isinstance(model, One) else "input"
    program = torch.export.export(
        model, (torch.rand(1, 2, 9),), dynamic_shapes={argument: {2: n}}
    )
    compiled = padc.compile(program)
    assert compiled.is_native

    with torch.no_grad():
        x = torch.rand(1, 2, 1)
        torch.testing.assert_close(compiled(x), model(x))
        with pytest.raises(RuntimeError):
            model(torch.rand(1, 2, 0))
    with pytest.raises(UsageError, match=r"\.shape\[2\] >= 1"):
        compiled(torch.rand(1, 2, 0))


def call_of(name: str, *args: Any) -> Function:
    """A function that calls an op, `conv1d.padding`, with further arguments."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return lambda x: op(x, *args)


def kernels(rank: int) -> Mapping[str, Function]:
    """Ops with windows along the last dimensions, of which kernels check the sizes."""
    one, two, no_weights = [1] * rank, [2] * rank, None
    weights = torch.ones(2, 2, *[3] * rank)
    transposed = f"conv_transpose{rank}d" + (".input" if rank > 1 else "")
    return {
        "conv": call_of(f"conv{rank}d", weights, no_weights, one, two),
        "same": call_of(f"conv{rank}d.padding", weights, no_weights, one, "same"),
        "convolution": call_of(
            "convolution", weights, no_weights, one, two, one, False, [0] * rank, 1
        ),
        "transposed": call_of(transposed, weights),
        "average": call_of(f"avg_pool{rank}d", one),
        "adaptive": call_of(f"adaptive_avg_pool{rank}d", two),
        "replicate": call_of(f"replication_pad{rank}d", [2, 1] * rank),
        "pad": call_of("_pad_enum", [2, 1] * rank, 1),
    }


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", kernels(1))
def test_kernels_that_take_no_empty_dimension(name: str, rank: int):
    function, others = kernels(rank)[name], [9] * (rank - 1)
    shape = 1, 2, 9, *others
    compiled = padc.compile(exported(function, shape, {2: Dim("n", min=0, max=12)}))

    x = torch.rand(1, 2, 1, *others)
    torch.testing.assert_close(compiled(x), function(x))
    with pytest.raises(RuntimeError):
        function(torch.rand(1, 2, 0, *others))
    with pytest.raises(UsageError, match=r"\.shape\[2\] >= 1"):
        compiled(torch.rand(1, 2, 0, *others))


NEAREST: Mapping[str, tuple[Function, Sequence[int], int]] = {
    "max": (lambda x: x.max() + 1, (6,), 0),
    "max.dim": (lambda x: x.max(0)[0] + 1, (6, 3), 0),
    "min": (lambda x: x.min() + 1, (6,), 0),
    "min.dim": (lambda x: x.min(0)[0] + 1, (6, 3), 0),
    "a pool": (call_of("_adaptive_avg_pool2d", [2, 2]), (1, 2, 6, 5), 2),
    "a volume": (call_of("_adaptive_avg_pool3d", [2] * 3), (1, 2, 6, 4, 5), 2),
    "index": (lambda x: x[torch.tensor([0, 0])] + 1, (6, 3), 0),
    "nearest": (call_of("upsample_nearest1d", [4]), (1, 2, 6), 2),
}
"""Functions that read an element, the shape of their tensor, and its dynamic dimension."""


@pytest.mark.parametrize("name", NEAREST)
def test_an_element_of_a_dimension_that_may_be_empty(name: str):
    function, shape, dim = NEAREST[name]
    one, none = ([*shape[:dim], size, *shape[dim + 1 :]] for size in (1, 0))
    sizes = {dim: Dim("n", min=0, max=12)}
    compiled = padc.compile(exported(function, shape, sizes))

    x = torch.randn(one)
    torch.testing.assert_close(compiled(x), function(x))
    with pytest.raises(UsageError, match=rf"shape\[{dim}\] >= 1"):
        compiled(torch.randn(none))


def test_a_constant_pad_by_its_number():
    function = call_of("_pad_enum", [2, -4], 3, 0.5)
    compiled = padc.compile(exported(function, (2, 9), {1: auto(2, 12)}))

    torch.testing.assert_close(compiled(torch.ones(2, 4)), function(torch.ones(2, 4)))
    with pytest.raises(UsageError, match="dimension 1 of the input 'x' is 1"):
        compiled(torch.ones(2, 1))


def test_convolutions_of_an_empty_batch_and_length():
    """PyTorch takes these."""
    n, m = Dim("n", min=0, max=4), Dim("m", min=0, max=12)
    model = nn.Conv1d(2, 3, 3, padding=2).eval()
    program = torch.export.export(
        model, (torch.rand(3, 2, 9),), dynamic_shapes=({0: n, 2: m},)
    )

    assert padc.compile(program)(torch.rand(0, 2, 0)).shape == (0, 3, 2)


def test_pixels_of_no_image():
    """PyTorch returns an empty tensor as it is, and declares the shape of others."""
    n = Dim("n", min=0, max=4)
    model = One(lambda x: F.pixel_unshuffle(x, 2))
    program = torch.export.export(
        model, (torch.rand(3, 2, 4, 6),), dynamic_shapes={"x": {0: n}}
    )
    compiled = padc.compile(program)

    assert model(torch.rand(0, 2, 4, 6)).shape == (0, 2, 4, 6)
    with pytest.raises(UsageError, match=r"x\.shape\[0\] >= 1"):
        compiled(torch.rand(0, 2, 4, 6))
    x = torch.rand(1, 2, 4, 6)
    assert torch.equal(compiled(x), model(x))


def test_the_hint_for_what_is_empty_at_the_smallest_size():
    finding = padc.coreml.Finding("empty", "slice_by_index", "y", "is empty", "Core ML")

    assert "raise the minimum" in (problem_of(finding, {}).hint or "")
    assert problem_of(replace(finding, rule="rank"), {}).hint is None


@dataclass
class Replaced:
    """A part of `x` that `y` replaces, and other sizes of both that do not fit."""

    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    x: Sequence[int]
    y: Sequence[int]
    fits: bool = False
    """Whether a longer `x` fits, too."""


REPLACED: dict[str, Replaced] = {
    "from a start": Replaced(lambda x, y: torch.slice_scatter(x, y, 0, 2), [5], [3]),
    "by a step": Replaced(
        lambda x, y: torch.slice_scatter(x, y, 0, 0, None, 2), [5], [3]
    ),
    "other dimensions": Replaced(
        lambda x, y: torch.slice_scatter(x, y, 1, -2), [3, 5], [3, 2]
    ),
    "computed": Replaced(
        lambda x, y: torch.slice_scatter(x, y, 0, x.shape[0] - y.shape[0]),
        *([5], [3], True),
    ),
    "an index": Replaced(
        lambda x, y: torch.select_scatter(x, y, 0, 3), [5, 2], [2], True
    ),
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_replaces_a_part_has_its_shape(name: str):
    """PyTorch's kernel checks it, and torch.export does not."""
    case = REPLACED[name]
    x, y = torch.rand(case.x), torch.rand(case.y)
    long, short = torch.rand(9, *case.x[1:]), torch.rand(2, *case.x[1:])
    sizes = (
        {0: Dim.AUTO(max=20)},
        None if name == "an index" else {0: Dim.AUTO(max=20)},
    )  # type: ignore[operator]
    compiled = padc.compile(Two(case.function), (x, y), dynamic_shapes=sizes)

    torch.testing.assert_close(compiled(x, y), case.function(x, y))
    if case.fits:
        torch.testing.assert_close(compiled(long, y), case.function(long, y))
    for other in [short] if case.fits else [short, long]:
        with pytest.raises((RuntimeError, IndexError)):
            case.function(other, y)
        with pytest.raises(UsageError, match="exported"):
            compiled(other, y)


def test_a_part_that_never_fits():
    model = Two(lambda x, y: torch.slice_scatter(x, y, 0, 2))
    for convert in (padc.compile, padc.convert):
        with pytest.raises(UsageError, match="slice_scatter needs 3 >= 4"):
            convert(model, (torch.rand(5), torch.rand(4)))
