# pyright: basic
"""Ops on strides, whose decompositions read elements in the order of the memory."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
import z3
from functions import Function, Functions, Several, check_each
from proofs import holds, proves, symbolic
from torch import Tensor

import padc
from padc.errors import UnsupportedError
from padc.frontends.torch_export import strided

aten = torch.ops.aten


def written(x: Tensor) -> Tensor:
    """The diagonal, by the strides of another view, becomes 7."""
    y = x.clone()
    y.as_strided((4,), (6,)).fill_(7)
    return y


STRIDED: Functions = {
    "at an offset": lambda x: x.as_strided((2, 3), (1, 2), 1),
    "the start": lambda x: x.as_strided((2, 3), (3, 1)),
    "that overlaps": lambda x: x.as_strided((4, 3), (2, 1)),
    "a computed tensor": lambda x: (x + 1).as_strided((2, 2), (5, 1)),
    "of a transposed tensor": lambda x: (x.t() + 1).as_strided((3, 2), (1, 2)),
    "a number": lambda x: x.as_strided((), (), 3),
    "of rank 7": lambda x: x.as_strided(
        (1, 2, 1, 2, 1, 2, 1), (1, 1, 2, 3, 2, 2, 2)
    ).sum((0, 2)),
    "of booleans": lambda x: (x > 0).as_strided((2, 2), (5, 1)),
    "of nothing": lambda x: torch.cat([x.as_strided((0, 5), (5, 1)), x]),
    "the start, copied": lambda x: aten.as_strided_copy(x.long() + 1, (2, 2), (2, 1)),
    "copied": lambda x: torch.as_strided_copy(x.long(), (2, 2), (5, 1)),
    "scattered": lambda x: torch.as_strided_scatter(x, x[:2, :2], (2, 2), (5, 1), 2),
    "scattered to a transposed tensor": lambda x: torch.as_strided_scatter(
        x.t() + 0, x[0, :3], (3,), (5,), 1
    ),
    "scattered between": lambda x: torch.as_strided_scatter(
        x, x[:2, :3] * 2, (2, 3), (3, 2), 4
    ),
    "scattered to columns": lambda x: torch.as_strided_scatter(
        x, x[0, None, :4] * 2, (1, 4), (7, 5), 2
    ),
    "a number scattered": lambda x: torch.as_strided_scatter(x, x[2, 3], (), (), 3),
    "in place": lambda x: x.clone().as_strided_((2, 2), (5, 1)),
    "written": written,
    "resized": lambda x: x.clone().resize_(2, 3),
    "resized to its own size": lambda x: torch.ops.aten.resize(x.t(), (5, 4)),
    "resized as a function": lambda x: aten.resize_as(x + 1, x[:3, :2]),
    "resized as": lambda x: x.clone().resize_as_(x[:3, :2]),
}


def test_strided() -> None:
    x = torch.randn(4, 5)

    results = padc.convert(Several(STRIDED), (x,)).run(x)

    check_each(STRIDED, results, x, rtol=0, atol=0)


@pytest.mark.parametrize("name", STRIDED)
def test_strided_as_machine_code(name: str) -> None:
    x = torch.randn(4, 5)

    compiled = padc.compile(Function(STRIDED[name]), (x,))

    torch.testing.assert_close(compiled(x), STRIDED[name](x), rtol=0, atol=0)
    assert compiled.is_native == (name not in NOT_NATIVE), compiled.report()


VIEWS = [
    (size, stride, offset)
    for rank, most in ((0, 0), (1, 4), (2, 3), (3, 2))
    for size in itertools.product(range(most + 1), repeat=rank)
    for stride in itertools.product(range(5 - rank), repeat=rank)
    for offset in range(3)
]
"""Sizes, strides and offsets."""


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_all_views_of_small_memory(order: tuple[int, int]) -> None:
    x = torch.arange(6).reshape(2, 3).permute(order)
    taken = written = 0
    for view in VIEWS:
        try:
            expected = torch.as_strided(x, *view)
        except RuntimeError:
            with pytest.raises(strided.UnknownOrderError):
                strided.as_strided(x, *view)
            continue
        taken += 1

        assert strided.as_strided(x, *view).equal(expected)

        values = 100 + torch.arange(expected.numel()).reshape(expected.shape)
        if strided.positions(x, *view).unique().numel() == expected.numel():
            scattered = torch.as_strided_scatter(x, values, *view)
            written += 1

            assert strided.as_strided_scatter(x, values, *view).equal(scattered)
    assert taken > 300 and written > 100


@pytest.mark.parametrize("rank", range(4))
@proves("frontends.torch_export.strided: as_strided")
def test_places_of_views(rank: int) -> None:
    """For all sizes and strides: no place is after the last one, which has an element."""
    size, stride, index = sizes_strides_indices(rank)
    offset = z3.Int("offset")
    exists = [z3.And(0 <= i, i < n) for i, n in zip(index, size)]
    given = [offset >= 0, *(step >= 0 for step in stride), *exists]

    place = strided.place_of(index, stride, offset)
    last = strided.last_place(size, stride, offset)
    assert holds(z3.And(0 <= place, place <= last), *given)
    is_last = z3.And(*(i == n - 1 for i, n in zip(index, size)))
    assert holds(z3.Implies(is_last, place == last), *given)


@pytest.mark.parametrize("rank", range(4))
@proves(
    "frontends.torch_export.strided: as_strided",
    "frontends.torch_export.strided: resize",
)
def test_views_of_the_first_elements(rank: int) -> None:
    """The places of a packed view are the numbers of its elements, from 0 on."""
    size, stride, index = sizes_strides_indices(rank)
    exists = [z3.And(0 <= i, i < n) for i, n in zip(index, size)]
    number: Any = 0  # As `reshape` counts: the last index changes first.
    for i, n in zip(index, size):
        number = number * n + i

    place = strided.place_of(index, stride, 0)
    assert holds(place == number, *strided.are_packed(size, stride), *exists)
    count = z3.Product(*size) if size else 1
    assert holds(z3.And(0 <= number, number < count), *exists)


def sizes_strides_indices(rank: int) -> Any:
    return [[z3.Int(f"{name}{d}") for d in range(rank)] for name in "nsi"]


ORDERS = [order for rank in (1, 2, 3) for order in itertools.permutations(range(rank))]


@pytest.mark.parametrize("order", ORDERS)
@proves("frontends.torch_export.strided: as_strided_scatter")
def test_elements_of_nested_views(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all sizes and strides: the places of elements, and no others, are inside."""
    size, stride, element = sizes_strides_indices(len(order))
    nested = [z3.And(n > 1, s > 0) for n, s in zip(size, stride)]
    for at, d in enumerate(order):
        inner = sum(stride[e] * (size[e] - 1) for e in order[at + 1 :])
        nested.append(stride[d] > inner)
    exists = [z3.And(i >= 0, i < n) for i, n in zip(element, size)]
    monkeypatch.setattr(strided, "outermost_first", lambda *_: order)

    with symbolic():
        place = sum(i * s for i, s in zip(element, stride))
        inside, indices = strided.element_at(place, size, stride)
        anywhere = z3.Int("p")
        other, found = strided.element_at(anywhere, size, stride)

    same = [indices[d] == i for d, i in enumerate(element)]
    assert holds(z3.And(inside, *same), *nested, *exists)
    back = anywhere == sum(found[d] * s for d, s in enumerate(stride))
    in_range = [z3.And(found[d] >= 0, found[d] < n) for d, n in enumerate(size)]
    assert holds(z3.Implies(other, z3.And(back, *in_range)), *nested)


def test_all_smaller_sizes() -> None:
    for order, size in itertools.product(
        [(0, 1), (1, 0)], itertools.product(range(4), repeat=2)
    ):
        x = torch.arange(6).reshape(2, 3).permute(order)
        if math.prod(size) > 6:
            with pytest.raises(strided.UnknownOrderError):
                strided.resize(x, size)
            continue

        assert strided.resize(x, size).equal(x.clone().resize_(size))


NOT_NATIVE = {"scattered between"}


def written_once(x: torch.Tensor) -> torch.Tensor:
    """An element of the diagonal, which others at its place would overwrite."""
    y = x.clone()
    y.as_strided((3, 3), (4, 2)).diagonal(1).copy_(x[0, :1])
    return y


LEFT: Functions = {
    "the memory before a part": lambda x: (x + 1)[1:].as_strided((2, 2), (5, 1), 0),
    "the memory after a part": lambda x: (x + 1)[:, :2].as_strided((2, 2), (5, 1), 3),
    "an overlapping part": lambda x: torch.as_strided_scatter(
        x.t() + 0, x[:2, :3] * 0 + 1, (2, 3), (1, 1), 3
    ),
    "a part of an overlapping view": written_once,
}


@pytest.mark.parametrize("name", LEFT)
def test_pytorch_runs_all_where_strides_are_its_own(name: str) -> None:
    """Between parts of a program, tensors are row-major."""
    x = torch.randn(4, 5)

    compiled = padc.compile(Function(LEFT[name]), (x,))

    torch.testing.assert_close(compiled(x), LEFT[name](x), rtol=0, atol=0)
    assert compiled.report().startswith("PyTorch: the whole model")


REFUSED: Functions = {
    "a part of another tensor": lambda x: x[1:].as_strided((2, 2), (5, 1)),
    "elements that are not in order": lambda x: x[:, :2].as_strided((2, 2), (5, 1)),
    "a tensor that grows": lambda x: x.clone().resize_(5, 5),
    "an overlapping view": written_once,
}


def test_a_diagonal_is_filled() -> None:
    functions: Functions = {
        "of numbers": lambda x: (x * 2).fill_diagonal_(3.0),
        "of booleans": lambda x: (x > 0).fill_diagonal_(False),
        "again": lambda x: torch.cat([x, x]).fill_diagonal_(1.0, wrap=True),
    }
    x = torch.randn(4, 3)

    results = padc.convert(Several(functions), (x,)).run(x)

    check_each(functions, results, x, rtol=0, atol=0)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_in_the_tensor_is_refused(name: str) -> None:
    # PyTorch 2.15 itself says that a tensor cannot grow.
    message = r"aten\.(as_strided|resize)|Attempted to resize"
    with pytest.raises(UnsupportedError, match=message):
        padc.convert(Several({name: REFUSED[name]}), (torch.randn(4, 5),))


def test_strides_of_dynamic_sizes_are_refused() -> None:
    """PyTorch's own check of the places would decide for the example's size only."""
    function = Function(lambda x: (x + 1).as_strided((2, 2), (x.shape[0], 1)))
    rows = torch.export.Dim.AUTO(min=3, max=9)

    with pytest.raises(UnsupportedError, match="or a dynamic one"):
        padc.convert(function, (torch.ones(6, 2),), dynamic_shapes=(({0: rows},),))
