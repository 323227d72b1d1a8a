# pyright: basic, reportMissingTypeStubs=false
"""The blocks and ops of a pymil program, and where its ops come from."""

from collections.abc import Iterator
from typing import Any

from padc.backends.coreml import quiet
from padc.errors import SourceLocation

with quiet():
    from coremltools.converters.mil.mil import Program
    from coremltools.converters.mil.mil.scope import ScopeSource


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


def origins(op: Any) -> list[str]:
    """The ops of PyTorch that an op was made from."""
    return [name or "" for name in op.scopes[ScopeSource.TORCHSCRIPT_MODULE_TYPE]]


def modules(op: Any) -> list[str]:
    """The paths of the modules of the model that an op was made from."""
    return [name or "" for name in op.scopes[ScopeSource.TORCHSCRIPT_MODULE_NAME]]


def line_of(op: Any) -> SourceLocation | None:
    """The line of Python that an op was made from."""
    lines = [line for line in op.scopes[ScopeSource.EXIR_STACK_TRACE] if line]
    if not lines:
        return None
    # The lines of the ops around it come first.
    file, _, line = lines[-1].rpartition(":")
    return SourceLocation(file, int(line))


def fusions(op: Any) -> list[str]:
    """The passes of coremltools that made an op."""
    return [name or "" for name in op.scopes[ScopeSource.COREMLTOOLS_GRAPH_PASS]]
