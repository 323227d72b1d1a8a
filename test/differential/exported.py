# pyright: basic
"""Programs as users give them to padc: as modules, which it exports, and files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from differential.program import Program, resolved
from differential.tracing import dynamic_sizes
from torch import Tensor, nn
from torch.export import Dim

import padc
from padc.errors import Problem, UnsupportedError

MOST = 64
"""The upper bound of dynamic sizes, unless a run has a larger one; Core ML needs one."""


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
        results = {number: values[number] for number in self.program.outputs}
        if self.program.states:
            # Views of a state would change with it.
            results = {number: x.clone() for number, x in results.items()}
        for number, output in self.program.states.items():
            getattr(self, f"v{number}").copy_(results[output])
        return tuple(results.values())


def dynamic_shapes(program: Program) -> Any:
    """The sizes that differ between the runs, for PyTorch to find their ranges."""
    if len(program.runs) == 1:
        return None
    sizes = [
        {
            dim: Dim.AUTO(max=max(MOST, *each))
            for dim, each in enumerate(given)
            if each is not None
        }
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


def loaded(program: Program) -> padc.CompiledModel:
    """As `compiled`, of a file that `torch.export.save` wrote."""
    os.environ["PADC_CACHE_DIR"] = ""
    given = tuple(program.given(0))
    shapes = dynamic_shapes(program)
    try:
        exported = torch.export.export(Model(program), given, dynamic_shapes=shapes)
    except Exception as error:
        raise UnsupportedError([Problem(str(error))]) from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pt2"
        torch.export.save(exported, path)
        try:
            read = padc.load(path)
        except padc.PadcError as error:
            if not is_loaded_by_pytorch(path):
                raise UnsupportedError([Problem(f"PyTorch, too: {error}")]) from error
            raise AssertionError(f"what PyTorch loads is refused: {error}") from error
        return padc.compile(read, threads=1)


def is_loaded_by_pytorch(path: Path) -> bool:
    """Whether PyTorch reads its own file: of views with dynamic strides, it does not."""
    try:
        torch.export.load(path)
    except Exception:
        return False
    return True


def converted(program: Program) -> padc.Program:
    """A package of `padc.convert`; states are those of Core ML where it has such ones."""
    return padc.convert(
        Model(program),
        tuple(program.given(0)),
        dynamic_shapes=dynamic_shapes(program),
        target="iOS18" if program.states else "iOS17",
    )
