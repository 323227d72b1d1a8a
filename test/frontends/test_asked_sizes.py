# pyright: reportUnknownMemberType=false
"""Bounds of `Dim.AUTO` that torch.export narrows: a warning says so, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
import torch.utils._pytree as pytree
from functions import Function
from torch import Tensor, nn
from torch.export import Dim, ShapesCollection
from torch.nn import functional as F

import padc
from padc.errors import PadcError, UsageError
from padc.frontends.torch_export import guarded_ranges
from padc.versions import numbers

HAS_GUARDS = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 keeps no guards"
)


def auto(low: int | None, high: int | None) -> Any:
    return Dim.AUTO(min=low, max=high)  # type: ignore[operator]


def over_five(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 5 else x + 1


def under_nine(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] < 9 else x + 1


@HAS_GUARDS
@pytest.mark.parametrize(
    "function, low, high, what",
    [
        (
            over_five,
            2,
            11,
            "sizes of 6 to 11, not of 2 to 11, .* where args_0.shape.0. > 5",
        ),
        (
            over_five,
            None,
            11,
            "of 6 to 11, not of 2 to 11, .* where args_0.shape.0. > 5",
        ),
        (
            under_nine,
            2,
            11,
            "sizes of 2 to 8, not of 2 to 11, .* where args_0.shape.0. < 9",
        ),
        (
            lambda x: F.pad(x[None], (3, 0), mode="reflect"),
            2,
            11,
            "of 4 to 11, not of 2 to 11, .* where args_0.shape.0. > 3",
        ),
        (
            lambda x: x.view(4, 2),
            2,
            11,
            "the size 8, not those of 2 to 11, .* where args_0.shape.0. == 8",
        ),
        (torch.cos, 1, 11, r"of 2 to 11, not of 1 to 11, .* Dim\('n', min=1, max=11\)"),
        (lambda x: x.squeeze(0), 1, 11, "of 2 to 11, not of 1 to 11, .* may take them"),
        (torch.cos, 0, 11, r"of 2 to 11, not of 1 to 11, .* Dim\('n', min=1, max=11\)"),
    ],
)
def test_narrowed_bounds(
    function: Callable[..., Tensor], low: int | None, high: int, what: str
):
    with pytest.warns(
        padc.PadcWarning, match=f"dimension 0 of the input 'args_0': .*{what}"
    ):
        padc.convert(
            Function(function),
            (torch.rand(8),),
            dynamic_shapes=(({0: auto(low, high)},),),
        )


@pytest.mark.filterwarnings("error::padc.PadcWarning")
@pytest.mark.parametrize(
    "function, size",
    [
        (over_five, auto(6, 11)),
        (under_nine, auto(2, 8)),
        (torch.cos, auto(2, 11)),
        (torch.cos, auto(None, 11)),
        (torch.cos, Dim("n", min=1, max=11)),
        (lambda x: x.view(4, 2), Dim.AUTO),
        (lambda x: x.view(4, 2), auto(8, 8)),
    ],
)
def test_kept_bounds(function: Callable[..., Tensor], size: Any):
    padc.convert(Function(function), (torch.rand(8),), dynamic_shapes=(({0: size},),))


def test_sizes_of_one_of_a_declared_dimension():
    """They go for another reason, which is told alone."""
    sizes = (({0: Dim("n", min=1, max=11)},),)
    (found,) = messages(Function(lambda x: x[:2]), (torch.rand(8),), sizes)
    assert "the package takes no smaller sizes" in found


def test_an_example_of_size_one():
    what = "the size 1, not those of 2 to 11, .* in the example for a constant"
    with pytest.warns(padc.PadcWarning, match=what):
        padc.convert(
            Function(torch.cos),
            (torch.rand(1),),
            dynamic_shapes=(({0: auto(None, 11)},),),
        )


@pytest.mark.filterwarnings("error::padc.PadcWarning")
def test_no_size_but_one():
    sizes = (({0: auto(None, 1)},),)
    padc.convert(Function(torch.cos), (torch.rand(1),), dynamic_shapes=sizes)


class Nested(nn.Module):
    def forward(self, x: Tensor, items: dict[str, list[Tensor]]) -> Tensor:
        return x + items["a"][0]


@HAS_GUARDS
@pytest.mark.parametrize(
    "shapes",
    [
        {"x": {0: auto(2, 11)}, "items": {"a": [{0: auto(3, 9)}]}},
        ({0: auto(2, 11)}, {"a": [(auto(3, 9),)]}),
    ],
)
def test_sizes_that_are_one(shapes: Any):
    with pytest.warns(
        padc.PadcWarning,
        match="'x': .* of 3 to 9, not of 2 to 11, .* where x.shape.0. == items_a_0",
    ):
        padc.convert(
            Nested(), (torch.rand(8), {"a": [torch.rand(8)]}), dynamic_shapes=shapes
        )


class Scaled(nn.Module):
    def forward(self, gain: float, x: Tensor) -> Tensor:
        return over_five(x) * gain


@pytest.mark.parametrize("static", [None, 3, Dim.STATIC])
def test_numbers_and_static_sizes(static: Any):
    sizes = (None, (auto(2, 11), static))
    (found,) = messages(Scaled(), (2.5, torch.rand(8, 3)), sizes)
    assert "dimension 0 of the input 'x': the package takes sizes of 6 to 11" in found


def test_dimensions_of_a_number():
    sizes = ({0: auto(2, 11)}, {0: auto(2, 11)})
    with pytest.raises(padc.errors.PadcError, match="Cannot associate shape"):
        padc.convert(Scaled(), (2.5, torch.rand(8, 3)), dynamic_shapes=sizes)


class Views(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.view(y.shape[0], 2, 3) + y[:, None]


@HAS_GUARDS
def test_sizes_that_follow_from_others():
    (found,) = messages(
        Views(),
        (torch.rand(8, 3), torch.rand(4, 3)),
        ({0: auto(2, 20)}, {0: auto(2, 6)}),
    )
    assert found.startswith(
        "dimension 0 of the input 'x': the package takes sizes of 4 to 12, not of 2 to "
        "20, since the model was exported where 3 * x.shape[0] == 6 * y.shape[0]"
    )


@HAS_GUARDS
def test_bounds_of_sizes_that_follow_from_others():
    inputs = torch.rand(8, 3), torch.rand(4, 3)
    sizes = {0: auto(7, 9)}, {0: auto(2, 6)}

    compiled = padc.compile(Views(), inputs, dynamic_shapes=sizes)
    torch.testing.assert_close(compiled(*inputs), Views()(*inputs))
    for count, what in (6, "9 >= x.shape"), (3, "x.shape.0. >= 7"):
        with pytest.raises(UsageError, match=f"x' is {2 * count}, but .* where {what}"):
            compiled(torch.rand(2 * count, 3), torch.rand(count, 3))

    found = messages(Views(), inputs, sizes)
    for message, what in zip(
        found,
        ("'x': the package takes the size 8", "'y': the package takes the size 4"),
    ):
        assert what in message


def test_programs_with_and_without_bounds_of_such_sizes():
    inputs = torch.rand(8, 3), torch.rand(4, 3)
    sizes = {0: auto(7, 9)}, {0: auto(2, 6)}
    more = torch.rand(10, 3), torch.rand(5, 3)

    program = torch.export.export(Views(), inputs, dynamic_shapes=sizes)
    with pytest.raises(UsageError, match="'x' is 10, but"):
        padc.compile(program)(*more)

    for known in [each for each in program.range_constraints if not each.is_Symbol]:
        del program.range_constraints[known]
    torch.testing.assert_close(padc.compile(program)(*more), Views()(*more))


@HAS_GUARDS
def test_bounds_of_sums_may_be_passed():
    """For both sizes their whole ranges are taken, and the results are right."""
    model = Function(lambda x, y, z: torch.cat([x, y]) + z)
    inputs = torch.rand(3), torch.rand(4), torch.rand(7)
    sizes = (({0: auto(2, 13)}, {0: auto(2, 13)}, {0: auto(2, 12)}),)
    with pytest.warns(padc.PadcWarning, match="takes sizes of 4 to 26, not of 2 to 12"):
        converted = padc.convert(model, inputs, dynamic_shapes=sizes)
    (compared,) = converted.verify([(torch.rand(13), torch.rand(13), torch.rand(26))])
    assert compared.max_error == 0


@pytest.mark.parametrize(
    "dim, size",
    [
        (2, Dim.AUTO),
        (5, auto(2, 9)),
        (-1, Dim.AUTO),
        (-2, Dim.DYNAMIC),
        (2, Dim("n", max=9)),
        (2, 3),
        (-3, 2 * Dim("n", max=9)),
    ],
)
def test_dimensions_that_no_tensor_has(dim: int, size: Any):
    sizes = {"x": None, "items": {"a": [{dim: size}]}}
    inputs = torch.rand(8, 3), {"a": [torch.rand(8, 3)]}
    for take in padc.convert, padc.compile:
        with pytest.raises(UsageError) as raised:
            take(Nested(), inputs, dynamic_shapes=sizes)
        assert f"dimension {dim} of items['a'][0], which has" in str(raised.value)
        assert "its dimensions are 0 to 1" in str(raised.value)


def test_dimensions_of_a_scalar():
    with pytest.raises(UsageError, match="leave it out: it has no dimensions"):
        padc.compile(
            Function(torch.cos),
            (torch.tensor(1.0),),
            dynamic_shapes=(({0: Dim.AUTO},),),
        )


def test_negative_dimensions_of_a_declared_size():
    sizes = (({-1: Dim("n", max=9)},),)
    compiled = padc.compile(Function(torch.cos), (torch.rand(8),), dynamic_shapes=sizes)
    x = torch.rand(5)
    torch.testing.assert_close(compiled(x), x.cos())


class Pair:
    """A container that PyTorch flattens, without names of its parts."""

    def __init__(self, *parts: Tensor):
        self.parts = parts


pytree.register_pytree_node(
    Pair, lambda pair: ([*pair.parts], None), lambda parts, _: Pair(*parts)
)


@dataclass
class Point:
    x: Tensor
    y: Tensor


pytree.register_dataclass(Point)


class OfPoint(nn.Module):
    def forward(self, point: Point) -> Tensor:
        return over_five(point.x) + point.y.sum()


class Sizes(NamedTuple):
    x: Any
    y: Any


@HAS_GUARDS
@pytest.mark.parametrize(
    "point, sizes",
    [
        (Point(torch.rand(8), torch.rand(3)), [{0: auto(2, 9)}, {0: auto(2, 9)}]),
        (Sizes(torch.rand(8), torch.rand(3)), Sizes({0: auto(2, 9)}, {0: auto(2, 9)})),
    ],
)
def test_parts_with_names(point: Any, sizes: Any):
    (found,) = messages(OfPoint(), (point,), {"point": sizes})
    assert "'point_x': the package takes sizes of 6 to 9, not of 2 to 9" in found

    compiled = padc.compile(OfPoint(), (point,), dynamic_shapes={"point": sizes})
    torch.testing.assert_close(compiled(point), OfPoint()(point))
    with pytest.raises(UsageError, match="is 5; the model was exported for 6 to 9"):
        compiled(type(point)(torch.rand(5), torch.rand(3)))


def test_dimensions_that_no_part_has():
    point = Point(torch.rand(8), torch.rand(3))

    with pytest.raises(UsageError, match=r"dimension 1 of point.*y.*, which has"):
        padc.convert(
            OfPoint(), (point,), dynamic_shapes={"point": [None, {1: Dim.AUTO}]}
        )


def without_signature(of: nn.Module) -> nn.Module:
    of.forward = torch.relu
    return of


def shapes_of_other_tensors() -> ShapesCollection:
    shapes = ShapesCollection()
    shapes[torch.rand(8)] = {0: Dim.AUTO}
    return shapes


@pytest.mark.parametrize(
    "model, given, sizes",
    [
        (
            torch.jit.trace(nn.ReLU(), (torch.rand(8),)),
            torch.rand(8),
            ({0: auto(2, 9)},),
        ),
        (without_signature(nn.ReLU()), torch.rand(8), ({0: auto(2, 9)},)),
        (nn.ReLU(), torch.rand(8), shapes_of_other_tensors()),
        (nn.ReLU(), torch.rand(8), ({0: auto(2, 9)}, None)),
        (nn.ReLU(), Pair(torch.rand(8)), ([{0: auto(2, 9)}],)),
    ],
)
def test_arguments_that_torch_export_does_not_take(
    model: nn.Module, given: Any, sizes: Any
):
    with pytest.raises(PadcError):
        padc.convert(model, (given,), dynamic_shapes=sizes)


@pytest.mark.parametrize("size", [None, Dim.STATIC])
def test_static_dimensions_that_no_tensor_has(size: Any):
    padc.convert(Scaled(), (2.5, torch.rand(8, 3)), dynamic_shapes=(None, {5: size}))


def test_equal_sizes_exclude_no_size_of_one():
    model = Function(lambda x, y: x + y)
    sizes = (({0: auto(1, 11)}, {0: auto(1, 11)}),)
    for message in messages(model, (torch.rand(8), torch.rand(8)), sizes):
        assert "since torch.export takes sizes of 0 and 1 for constants" in message


def test_shapes_by_tensor():
    x = torch.rand(8)
    shapes = ShapesCollection()
    shapes[x] = {0: auto(2, 11)}
    with pytest.warns(padc.PadcWarning, match="of 6 to 11, not of 2 to 11"):
        padc.convert(Function(over_five), (x,), dynamic_shapes=shapes)


def messages(model: nn.Module, inputs: Any, sizes: Any) -> list[str]:
    with pytest.warns(padc.PadcWarning) as warnings:
        padc.convert(model, inputs, dynamic_shapes=sizes)
    return [str(each.message) for each in warnings]


class Three(nn.Module):
    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = z[: y.shape[1]] if z.shape[0] > y.shape[1] + 10 else z
        return F.max_pool1d(over_five(x)[None], 3), under_nine(y), z


@HAS_GUARDS
def test_only_guards_that_exclude_sizes_are_named():
    found = messages(
        Three(),
        (torch.rand(8), torch.rand(8, 3), torch.rand(20)),
        ({0: auto(4, 20)}, {0: auto(2, 30), 1: auto(2, 5)}, {0: auto(16, 25)}),
    )
    assert found == [
        f"dimension 0 of the input '{name}': the package takes sizes of {taken}, not of "
        f"{asked}, since the model was exported where {guard}"
        for name, taken, asked, guard in [
            ("x", "6 to 20", "4 to 20", "x.shape[0] > 5"),
            ("y", "2 to 8", "2 to 30", "y.shape[0] < 9"),
        ]
    ]


def test_bounds_without_a_largest_size():
    model = Function(lambda x: over_five(under_nine(x)))
    (found,) = messages(model, (torch.rand(8),), (({0: auto(2, None)},),))
    assert "sizes of 6 to 8, not of 2 to 8, since" in found


@HAS_GUARDS
def test_gaps_and_bounds():
    model = Function(lambda x: over_five(x.view(-1, 4)))
    (found,) = messages(model, (torch.rand(32),), (({0: auto(4, 64)},),))
    assert "11 of the sizes of 4 to 64 (24, 28, 32, ..., 64)" in found
    for guard in "shape[0] % 4 == 0", "shape[0] // 4 > 5":
        assert found.count(guard) == 1
    assert "4 * (" not in found  # The guard 4 * (shape[0] // 4) >= 2 always holds.


def test_programs_without_guards(monkeypatch: pytest.MonkeyPatch):
    """As PyTorch 2.8 exports them."""
    monkeypatch.setattr(guarded_ranges, "guards_of", lambda *_, **__: [])
    for function, taken in (
        (over_five, "sizes of 6 to 11, not of 1 to 11"),
        (lambda x: over_five(under_nine(x)), "sizes of 6 to 8, not of 1 to 11"),
        (under_nine, "sizes of 2 to 8, not of 1 to 11"),
        (lambda x: x.view(4, 2), "the size 8, not those of 1 to 11"),
    ):
        (found,) = messages(
            Function(function), (torch.rand(8),), (({0: auto(1, 11)},),)
        )
        assert f"{taken}, since torch.export left no others" in found


def test_native_calls_are_refused():
    compiled = padc.compile(
        Function(over_five), (torch.rand(8),), dynamic_shapes=(({0: auto(2, 11)},),)
    )
    x = torch.rand(6)
    torch.testing.assert_close(compiled(x), x * 2)
    with pytest.raises(UsageError, match="is 5; the model was exported for 6 to 11"):
        compiled(torch.rand(5))
