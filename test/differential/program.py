# pyright: basic
"""
Programs of ATen ops, with the inputs that they are run on.

A program is a list of calls. Its inputs are given once for each run: sizes that differ
between the runs are dynamic ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

REFUSALS = RuntimeError, IndexError, ValueError, ZeroDivisionError
"""What a call raises in eager mode that does not take its arguments."""


@dataclass(frozen=True)
class Ref:
    """A value of the program, by its number: inputs first, then results of calls."""

    number: int


@dataclass(frozen=True)
class Size:
    """The size of a dimension of a value."""

    number: int
    dim: int


Link: TypeAlias = Ref | Size


@dataclass(frozen=True)
class Call:
    """A call of an ATen op with one result; its arguments contain `Link`s."""

    target: Any
    args: tuple[Any, ...]


@dataclass
class Program:
    """Inputs for each run, and calls in order."""

    runs: list[list[Tensor]]
    calls: list[Call]
    outputs: list[int]
    """The numbers of the values that are returned."""
    held: frozenset[int] = frozenset()
    """The inputs that the model holds; equal in all runs."""
    thread_counts: tuple[int, ...] = (1,)
    """How many threads machine code is run with."""
    states: Mapping[int, int] = field(default_factory=dict)
    """The held inputs that a call of the model changes, and the outputs that replace them."""
    has_tiles: bool | None = field(default=None, init=False)
    """Whether the path native computes convolutions by tiles; None until it has run."""
    _values: dict[int, list[Tensor]] = field(default_factory=dict, repr=False)

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs of the first run."""
        return self.runs[0]

    def values(self, run: int = 0) -> list[Tensor]:
        """The inputs and the results of all calls, in eager mode."""
        if run not in self._values:
            values = [each.clone() for each in self.runs[run]]
            for call in self.calls:
                values.append(call.target(*resolved(call.args, values)))
            self._values[run] = values
        return self._values[run]

    def given(self, run: int) -> list[Tensor]:
        """The inputs of a run, without those that the model holds."""
        inputs = enumerate(self.runs[run])
        return [each for number, each in inputs if number not in self.held]

    def used(self) -> set[int]:
        """The numbers of the values that the outputs need."""
        found: set[int] = set()
        pending = list(self.outputs)
        while pending:
            if (number := pending.pop()) not in found:
                found.add(number)
                if (place := number - len(self.inputs)) >= 0:
                    pending += [link.number for link in links(self.calls[place].args)]
        return found

    def with_outputs(self, outputs: list[int], calls: int | None = None) -> Program:
        """The first `calls` calls with these outputs; unused calls are removed."""
        some = self.calls if calls is None else self.calls[:calls]
        return without_dead(replace(self, calls=some, outputs=outputs, _values={}))

    def after(self, results: Sequence[Tensor]) -> Program:
        """The program as a call leaves it that returned `results`."""
        new = dict(zip(self.outputs, results, strict=True))
        runs = [list(run) for run in self.runs]
        for run in runs:
            for number, output in self.states.items():
                # The model may return the memory of its state.
                run[number] = torch.empty_like(run[number]).copy_(new[output])
        return replace(self, runs=runs, _values={})

    def source(self) -> str:
        """A test in Python that computes the same in eager mode."""
        count = len(self.inputs)
        texts = [literal(each) for each in self.inputs]
        lines = ["inputs = ["]
        if any("nan" in each or "inf" in each for each in texts):
            lines.insert(0, "from math import inf, nan\n")
        lines += [f"    {each}," for each in texts]
        lines += ["]"]
        for number in sorted(self.held):
            lines.append(f"# v{number} is held by the model.")
        for run in self.runs[1:]:
            shapes = [list(each.shape) for each in run]
            lines.append(f"# The program is also run with inputs of shapes {shapes}.")
        names = ", ".join(f"v{number}" for number in range(count))
        lines += ["", f"def program({names}):"]
        for number, call in enumerate(self.calls, count):
            args = [described(each) for each in call.args]
            if hasattr(call.target, "source"):
                lines.append(f"    v{number} = {call.target.source(*args)}")
            else:
                lines.append(
                    f"    v{number} = torch.ops.{call.target}({', '.join(args)})"
                )
        if self.states:
            lines.append("    # The model's states become:")
        for number, output in self.states.items():
            lines.append(f"    inputs[{number}] = v{output}")
        results = ", ".join(f"v{number}" for number in self.outputs)
        return "\n".join([*lines, f"    return {results},"])


def described(argument: Any) -> str:
    match argument:
        case Ref(number):
            return f"v{number}"
        case Size(number, dim):
            return f"v{number}.shape[{dim}]"
        case list():
            return f"[{', '.join(map(described, argument))}]"
        case _:
            return repr(argument)


def literal(x: Tensor) -> str:
    if not x.numel():
        return f"torch.empty({list(x.shape)}, dtype={x.dtype})"
    if not x.is_contiguous():
        memory = f"torch.empty_strided({list(x.shape)}, {x.stride()}, dtype={x.dtype})"
        return f"{memory}.copy_({literal(x.contiguous())})"
    if torch.equal(x, plain(x)):
        numbers = f"(torch.arange({x.numel()}) % 17 - 8)"
        numbers += ".div(4)" if x.is_floating_point() else ""
        return f"{numbers}.reshape({list(x.shape)}).to({x.dtype})"
    return f"torch.tensor({x.tolist()}, dtype={x.dtype})"


def plain(x: Tensor) -> Tensor:
    """Numbers for an input like `x` that are written in a line."""
    numbers = torch.arange(x.numel()) % 17 - 8
    if x.is_floating_point():
        numbers = numbers.div(4)
    return numbers.reshape(x.shape).to(x.dtype)


def mapped(args: Any, function: Callable[[Link], Any]) -> Any:
    """The arguments with `function` of each link in its place."""
    if isinstance(args, (Ref, Size)):
        return function(args)
    if isinstance(args, (list, tuple)):
        return type(args)([mapped(each, function) for each in args])
    return args


def resolved(args: Any, values: Sequence[Any]) -> Any:
    """The arguments with values in place of links."""

    def value(link: Link) -> Any:
        x = values[link.number]
        return x if isinstance(link, Ref) else x.shape[link.dim]

    return mapped(args, value)


def links(args: Any) -> list[Link]:
    found: list[Link] = []
    mapped(args, found.append)
    return found


def renumbered(call: Call, places: Mapping[int, int]) -> Call:
    def link(old: Link) -> Link:
        number = places[old.number]
        return Ref(number) if isinstance(old, Ref) else Size(number, old.dim)

    return Call(call.target, mapped(call.args, link))


def without_dead(program: Program) -> Program:
    """The same outputs, without calls and inputs that they do not need."""
    used = sorted(program.used())
    places = {number: place for place, number in enumerate(used)}
    count = len(program.inputs)
    kept = [number for number in used if number < count]
    return Program(
        [[run[number] for number in kept] for run in program.runs],
        [
            renumbered(program.calls[number - count], places)
            for number in used
            if number >= count
        ],
        [places[number] for number in program.outputs],
        frozenset(places[number] for number in kept if number in program.held),
        program.thread_counts,
        {
            places[number]: places[output]
            for number, output in program.states.items()
            if number in places and output in program.outputs
        },
    )
