# pyright: basic
"""Programs as users give them to padc: as modules, which it exports."""

from __future__ import annotations

import os
from typing import Any

from differential.program import Program, resolved
from differential.tracing import dynamic_sizes
from torch import Tensor, nn
from torch.export import Dim

import padc

MOST = 64
"""The largest dynamic size, which Core ML wants to know."""


class Model(nn.Module):
    """A program whose held inputs are buffers."""

    def __init__(self, program: Program):
        super().__init__()
        self.program = program
        for number in program.held:
            self.register_buffer(f"v{number}", program.inputs[number])

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        given = iter(inputs)
        values: list[Any] = [
            getattr(self, f"v{number}") if number in self.program.held else next(given)
            for number in range(len(self.program.inputs))
        ]
        for call in self.program.calls:
            values.append(call.target(*resolved(call.args, values)))
        return tuple(values[number] for number in self.program.outputs)


def dynamic_shapes(program: Program) -> Any:
    """The sizes that differ between the runs, for PyTorch to find their ranges."""
    if len(program.runs) == 1:
        return None
    sizes = [
        {dim: Dim.AUTO(max=MOST) for dim, each in enumerate(given) if each is not None}
        for number, given in enumerate(dynamic_sizes(program))
        if number not in program.held
    ]
    return (tuple(sizes),)


def compiled(program: Program) -> padc.CompiledModel:
    """Machine code of `padc.compile`, which keeps none of it."""
    os.environ["PADC_CACHE_DIR"] = ""
    return padc.compile(
        Model(program),
        tuple(program.given(0)),
        dynamic_shapes=dynamic_shapes(program),
        threads=1,
    )


def converted(program: Program) -> padc.Program:
    """A package of `padc.convert`."""
    return padc.convert(
        Model(program), tuple(program.given(0)), dynamic_shapes=dynamic_shapes(program)
    )
