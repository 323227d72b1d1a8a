# pyright: reportUnknownMemberType=false
"""Bounds of `Dim.AUTO` that torch.export narrows: a warning says so, and why."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functions import Function
from torch import Tensor, nn
from torch.export import Dim, ShapesCollection
from torch.nn import functional as F

import padc
from padc.errors import UsageError


def auto(low: int | None, high: int | None) -> Any:
    return Dim.AUTO(min=low, max=high)  # type: ignore[operator]


def over_five(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 5 else x + 1


def under_nine(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] < 9 else x + 1


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


def test_shapes_by_tensor():
    x = torch.rand(8)
    shapes = ShapesCollection()
    shapes[x] = {0: auto(2, 11)}
    with pytest.warns(padc.PadcWarning, match="of 6 to 11, not of 2 to 11"):
        padc.convert(Function(over_five), (x,), dynamic_shapes=shapes)


def test_each_place_is_told_once():
    with pytest.warns(padc.PadcWarning) as warnings:
        padc.convert(
            Function(lambda x: over_five(x.view(-1, 4))),
            (torch.rand(32),),
            dynamic_shapes=(({0: auto(2, 64)},),),
        )
    (message,) = [str(each.message) for each in warnings]
    assert "11 of the sizes of 2 to 64 (24, 28, 32, ..., 64)" in message
    assert "args_0.shape[0] % 4 == 0" in message


def test_native_calls_are_refused():
    compiled = padc.compile(
        Function(over_five), (torch.rand(8),), dynamic_shapes=(({0: auto(2, 11)},),)
    )
    x = torch.rand(6)
    torch.testing.assert_close(compiled(x), x * 2)
    with pytest.raises(UsageError, match="is 5; the model was exported for 6 to 11"):
        compiled(torch.rand(5))
