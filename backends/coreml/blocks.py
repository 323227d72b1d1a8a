# pyright: basic, reportMissingTypeStubs=false
"""The blocks of a pymil program: its function, and those of branches and loops."""

from collections.abc import Iterator
from typing import Any

from padc.backends.coreml import quiet

with quiet():
    from coremltools.converters.mil.mil import Program


def blocks_of(program: Program) -> Iterator[Any]:
    """All blocks; one that contains others comes before them."""
    waiting: list[Any] = list(program.functions.values())
    while waiting:
        yield (block := waiting.pop())
        waiting += [inner for op in block.operations for inner in op.blocks]


def operations_of(program: Program) -> Iterator[Any]:
    """The ops of all blocks."""
    for block in blocks_of(program):
        yield from block.operations
