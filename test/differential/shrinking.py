# pyright: basic
"""From a wrong program to the smallest part of it that is still wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from differential.program import Program, links, plain, renumbered, without_dead


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """The smallest part of the program found that is still wrong."""
    while True:
        for each in smaller(program):
            if each.calls and is_wrong(each):
                program = each
                break
        else:
            return program


def smaller(program: Program) -> Iterator[Program]:
    """Programs with fewer calls than `program`, or with simpler inputs."""
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
        _values={},
    )
