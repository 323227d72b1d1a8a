# pyright: basic
"""From a wrong program to a smaller one that is still wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from differential.program import Program, links, plain, renumbered, without_dead


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """The smallest program found that is still wrong."""
    while True:
        for each in smaller(program):
            if each.calls and is_wrong(each):
                program = each
                break
        else:
            return program


def smaller(program: Program) -> Iterator[Program]:
    """Programs with fewer calls, or with simpler or smaller inputs and arguments."""
    count = len(program.inputs)
    for place, given in enumerate(program.inputs):
        if given.numel() and not torch.equal(given, plain(given)):
            runs = [
                [plain(x) if i == place else x for i, x in enumerate(run)]
                for run in program.runs
            ]
            yield replace(program, runs=runs, _values={})
    for output in program.outputs:
        if len(program.outputs) > 1:
            yield program.with_outputs([output])
    for state in program.states:
        states = {k: v for k, v in program.states.items() if k != state}
        yield replace(program, states=states, _values={})
    if len(program.runs) > 1:
        for run in program.runs:
            yield replace(program, runs=[run], _values={})
    for place in reversed(range(len(program.calls))):
        if count + place not in program.outputs:
            yield without_dead(with_input(program, count + place))
    for place, call in enumerate(program.calls):
        # An operand of the call is returned.
        for link in links(call.args):
            if link.number >= count and [link.number] != program.outputs:
                yield program.with_outputs([link.number], place)
    for place, given in enumerate(program.inputs):
        for dim, size in enumerate(given.shape):
            least = min(run[place].shape[dim] for run in program.runs)
            for less in sorted({size - 1, size - size // 2, 1}, reverse=True):
                if 0 < less < least:
                    yield with_sizes(program, place, dim, less)
    for place, call in enumerate(program.calls):
        for args in with_smaller_numbers(call.args):
            calls = [*program.calls]
            calls[place] = replace(call, args=args)
            yield replace(program, calls=calls, _values={})


def with_sizes(program: Program, number: int, dim: int, less: int) -> Program:
    """The program with `less` elements fewer along a dimension of an input."""
    runs = [
        [
            x.narrow(dim, 0, x.shape[dim] - less).clone() if i == number else x
            for i, x in enumerate(run)
        ]
        for run in program.runs
    ]
    return replace(program, runs=runs, _values={})


def with_smaller_numbers(args: Any) -> Iterator[Any]:
    """The arguments of a call with one integer nearer to 0."""
    for i, each in enumerate(args):
        if isinstance(each, list):
            others: Iterable[Any] = with_smaller_numbers(each)
        elif isinstance(each, int) and not isinstance(each, bool):
            others = sorted(
                {0, int(each / 2), each - (each > 0) + (each < 0)} - {each}, key=abs
            )
        else:
            continue
        for other in others:
            yield type(args)([*args[:i], other, *args[i + 1 :]])


def with_input(program: Program, number: int) -> Program:
    """The program with one more input, which takes the place of the result `number`."""
    count, total = len(program.inputs), len(program.inputs) + len(program.calls)
    places = {i: i if i < count else i + 1 for i in range(total)}
    places[number] = count
    return replace(
        program,
        runs=[
            [*inputs, program.values(run)[number]]
            for run, inputs in enumerate(program.runs)
        ],
        calls=[renumbered(call, places) for call in program.calls],
        outputs=[places[each] for each in program.outputs],
        states={state: places[output] for state, output in program.states.items()},
        _values={},
    )
