# pyright: basic
"""Calls that write to a part of a tensor, as modules do; torch.export removes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from differential.draw import Draw
from differential.ops import has_own_memory, overlaps
from differential.program import REFUSALS
from torch import Tensor

View: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of tensors that returns a view, and its arguments."""


@dataclass(frozen=True, eq=False, repr=False)
class Written:
    """A copy of a tensor, after a method that writes was called for a view of it."""

    views: tuple[View, ...]
    method: str
    sources: tuple[View, ...] | None
    """Views of the copy, whose elements are added, say; None for another tensor's."""
    __name__: ClassVar[str] = "written"

    def __call__(self, x: Tensor, *others: Tensor) -> Tensor:
        x = x.clone()
        # Without a copy, eager mode may read what it has written.
        given = others if self.sources is None else [viewed(x, self.sources).clone()]
        getattr(viewed(x, self.views), self.method)(*given)
        return x

    def __repr__(self) -> str:
        return self.__name__

    def source(self, x: str, *others: str) -> str:
        """The same in Python."""
        given = ", ".join(others)
        if self.sources is not None:
            given = f"x{text(self.sources)}.clone()"
        write = f"x{text(self.views)}.{self.method}({given})"
        return f"(lambda x: ({write}, x)[1])({x}.clone())"


def viewed(x: Tensor, views: tuple[View, ...]) -> Tensor:
    for name, arguments in views:
        x = getattr(x, name)(*arguments)
    return x


def text(views: tuple[View, ...]) -> str:
    return "".join(f".{name}({', '.join(map(repr, args))})" for name, args in views)


def view(draw: Draw, x: Tensor) -> View | None:
    """A view of a part of `x`, or of all of it in another shape."""
    rank = x.dim()
    dim = draw.integer(0, max(rank - 1, 0))
    size = x.shape[dim] if rank else 1
    match draw.integer(0, 8):
        case 0 if rank:
            return "select", (dim, draw.integer(-size, size - 1))
        case 1 if rank:
            start = draw.integer(0, size - 1)
            return "narrow", (dim, start, draw.integer(1, size - start))
        case 2 if rank:
            index = [slice(None)] * dim
            index.append(slice(draw.integer(0, size - 1), None, draw.integer(1, 3)))
            return "__getitem__", (tuple(index),)
        case 3 if rank:
            return "permute", tuple(draw.random.sample(range(rank), rank))
        case 4:
            return "unsqueeze", (draw.integer(0, rank),)
        case 5 if rank > 1:
            dims = draw.random.sample(range(rank), 2)
            return "diagonal", (draw.integer(-1, 1), *dims)
        case 6 if rank:
            window = draw.integer(1, size)
            return "unfold", (dim, window, draw.integer(window, size))
        case 7:
            return "flatten", ()
        case 8:
            sizes, steps = draw.integers(2, 1, 3), draw.integers(2, 1, 5)
            return "as_strided", (sizes, steps)
        case _:
            return None


def some_views(draw: Draw, x: Tensor) -> tuple[View, ...]:
    """A few views, one of the other, that share the memory of `x`."""
    found: list[View] = []
    memory = x.data_ptr(), x.data_ptr() + x.nbytes
    for _ in range(draw.integer(1, 3)):
        if (each := view(draw, x)) is None:
            continue
        try:
            other = viewed(x, (each,))
        except REFUSALS:
            continue
        if other.numel() and memory[0] <= other.data_ptr() < memory[1]:
            found.append(each)
            x = other
    return tuple(found)


METHODS = "copy_ add_ sub_ mul_ fill_".split()


def in_place(draw: Draw) -> bool:
    """A write to views of a value: of a number, of another tensor, or of a part of it."""
    if (x := draw.pick(has_own_memory)) is None:
        return False
    value = draw.value(x)
    copy = value.clone()
    views = some_views(draw, copy)
    part = viewed(copy, views)
    if overlaps(part):
        return False
    method = draw.choice(METHODS)
    if method == "fill_":
        number = draw.input([], value.dtype)
        return draw.call(Written(views, method, None), x, number)
    if draw.chance(0.4):
        for _ in range(20):
            sources = some_views(draw, copy)
            if draw.call(Written(views, method, sources), x):
                return True
    shape = [1 if draw.chance(0.2) else size for size in part.shape]
    other = draw.input(shape, value.dtype)
    return draw.call(Written(views, method, None), x, other)
