"""A compiled model as bytes: its program, its inputs, and where its weights are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import torch
from xdsl.context import Context
from xdsl.dialects import func

from padc.backends.native.stored_program import StoredProgram, head_of, with_head
from padc.ir.main_function import main
from padc.ir.text import Parser
from padc.ir.torch.tensors import weight_array
from padc.ir.weights import Weights
from padc.passes.aten.folded_norm import FoldedNorm
from padc.passes.aten.phase_kernel import PhaseKernel

Derivation: TypeAlias = FoldedNorm | PhaseKernel
RULES = {rule.__name__: rule for rule in (FoldedNorm, PhaseKernel)}


def derivation(rule: str, **fields: Any) -> Derivation:
    """A derivation by the name of its class and its fields."""
    return RULES[rule](**fields)


@dataclass(frozen=True)
class StoredModel:
    """All of a compiled model except the data of its weights."""

    declaration: str
    """A module whose function `main` has the model's arguments, and an empty body."""
    outputs: Sequence[str]
    """The names of the tensors that the model returns."""
    sources: Mapping[str, str]
    """The model's names of weights, by their names in the program."""
    derivations: Sequence[Derivation]
    """How further weights are computed from these, in order."""
    program: StoredProgram

    def to_bytes(self) -> bytes:
        head = {
            "declaration": self.declaration,
            "outputs": self.outputs,
            "sources": self.sources,
            "derivations": [
                {"rule": type(each).__name__, **asdict(each)}
                for each in self.derivations
            ],
        }
        return with_head(head, self.program.to_bytes())

    @staticmethod
    def from_bytes(data: bytes) -> StoredModel:
        head, at = head_of(data)
        return StoredModel(
            head["declaration"],
            head["outputs"],
            head["sources"],
            [derivation(**each) for each in head["derivations"]],
            StoredProgram.from_bytes(data[at:]),
        )

    def function(self, ctx: Context) -> func.FuncOp:
        """The function of the declaration."""
        return main(Parser(ctx, self.declaration).parse_module())

    def bind(self, held: Mapping[str, torch.Tensor], weights: Weights) -> None:
        """
        Copy and compute the weights of the program from the model's tensors.

        Those of which only packed forms are read are not copied: a `NativeFunction`
        makes the packed forms, in memory of its own.
        """
        for name, source in self.sources.items():
            weights[name] = weight_array(held[source])
        for each in self.derivations:
            each.apply(weights)
        read = self.program.weights_read()
        for name in {name for each in self.derivations for name in each.names}:
            if name not in read:
                del weights[name]
        for name in self.sources:
            if name not in read:
                del weights[name]
            elif read[name]:
                weights[name] = weights[name].copy()
