# pyright: basic
"""`padc-opt -t mil`: the program that Core ML receives."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from padc.backends.coreml.emit import emit
from padc.ir.weights import weights_of


@dataclass(frozen=True)
class MILTarget(Target):
    """Print the pymil program that `@main` is emitted as."""

    name = "mil"

    target: str = "newest"
    """The version of Core ML to emit for, such as iOS15."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        print(emit(module, weights_of(ctx), self.target), file=output)
