"""
The definitions of Core ML's ops, one for each version that changed an op.

`mil_ops.txt`, which `tools/update_mil_ops.py` writes, has a line for each. This file
does not import xDSL: what runs and checks packages does without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias

from padc.ir.targets import TARGETS

MAX_RANK = 5

INTEGERS = frozenset(
    f"{kind}{width}"
    for kind, widths in (("int", (4, 8, 16, 32)), ("uint", (1, 2, 3, 4, 6, 8, 16, 32)))
    for width in widths
)
FLOATS = frozenset({"fp16", "fp32"})
ANY = INTEGERS | FLOATS | {"bool", "string"}
"""Every element type, by Core ML's name."""

Lines: TypeAlias = tuple[tuple[str, str], ...]
"""The forms of an op as (target, text), oldest first."""


@dataclass(frozen=True)
class Input:
    """The declaration of an input."""

    name: str
    domain: frozenset[str]
    """The allowed element types."""
    variable: str | None
    """Inputs with the same type variable have the same element type."""
    optional: bool
    constant: bool
    variadic: bool
    """Whether it is a tuple of values, each of any type."""


@dataclass(frozen=True)
class Form:
    """The definition of an op from one version of Core ML on."""

    since: str
    """The first target with this definition."""
    inputs: Mapping[str, Input]

    @staticmethod
    def parse(since: str, text: str) -> Form:
        """Parse a line of `mil_ops.txt` without the op's name and target."""
        inputs, _, variables = text.partition("|")
        domains = {"any": ANY}
        for variable in variables.split():
            name, _, domain = variable.partition("=")
            domains[name] = frozenset(domain.split(","))

        def parse_input(text: str) -> Input:
            name, _, marked = text.partition(":")
            type_ = marked.rstrip("?!*")
            return Input(
                name,
                domains.get(type_) or frozenset(type_.split(",")),
                type_ if type_ in domains and type_ != "any" else None,
                optional="?" in marked,
                constant="!" in marked,
                variadic="*" in marked,
            )

        parsed = map(parse_input, inputs.split())
        return Form(since, {input.name: input for input in parsed})


@cache
def forms_of(lines: Lines) -> tuple[Form, ...]:
    return tuple(Form.parse(since, text) for since, text in lines)


@cache
def newest_form(lines: Lines, target: str) -> Form | None:
    """The newest of the forms that `target` has."""
    known = TARGETS[: TARGETS.index(target) + 1]
    forms = [form for form in forms_of(lines) if form.since in known]
    return forms[-1] if forms else None


def declared() -> dict[str, Lines]:
    """The lines of `mil_ops.txt`."""
    lines: dict[str, list[tuple[str, str]]] = {}
    text = files("padc.ir").joinpath("mil_ops.txt").read_text()
    for line in text.splitlines()[1:]:
        name, since, form = line.split(" ", 2)
        lines.setdefault(name, []).append((since, form))
    return {name: tuple(forms) for name, forms in lines.items()}


DECLARED = declared()
"""The forms of every op without blocks, by Core ML's name."""
