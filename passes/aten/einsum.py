"""The equation of aten.einsum."""

from __future__ import annotations

from collections.abc import Sequence

from padc.errors import Obstacle


def parse_equation(
    equation: str, ranks: Sequence[int]
) -> tuple[list[list[str]], list[str]]:
    """
    The names of the dimensions of each operand, and of those of the result.

    A dimension of "..." is named by its number, counted from the last one. Without an
    arrow, the result has these and the letters that occur once, in order.
    """
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    letters = [
        spelled(term, rank - len(term.replace("...", "")))
        for term, rank in zip(given.split(","), ranks, strict=True)
    ]
    for names, rank in zip(letters, ranks, strict=True):
        if len(names) != rank:
            raise Obstacle(f"{equation!r} of an operand of rank {rank}")
    dots = max(sum(not name.isalpha() for name in names) for names in letters)
    if arrow:
        return letters, spelled(wanted, dots)
    every = [name for names in letters for name in names]
    once = sorted(x for x in set(every) if x.isalpha() and every.count(x) == 1)
    return letters, [*spelled("...", dots), *once]


def spelled(term: str, others: int) -> list[str]:
    """The letters of a term, with "..." as `others` numbers that count down to 0."""
    head, dots, tail = term.partition("...")
    numbers = [str(i) for i in reversed(range(others))] if dots else []
    return [*head, *numbers, *tail]
