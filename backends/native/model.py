"""A compiled model as it is kept: its program, what it takes, and where weights are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch.export import ExportedProgram
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

from padc.backends.native.compilation import main
from padc.backends.native.program import (
    StoredProgram,
    compile_program,
    head_of,
    text_of,
    with_head,
)
from padc.backends.native.sizes import value_names
from padc.frontends.torch_export import (
    held_tensors,
    weight_array,
)
from padc.ir.torch import BindSymbolicShapeOp, SymbolicIntOp
from padc.ir.weights import Array, Weights, weights_of
from padc.passes import pipelines
from padc.passes.torch_to_tcp.fold_batch_norm import FoldedNorm


@dataclass(frozen=True)
class StoredModel:
    """What is kept of a model: all but the data of its weights."""

    declaration: str
    """A module whose function `main` takes what the model takes, and does nothing."""
    outputs: Sequence[str]
    """The names of the tensors that it returns."""
    sources: Mapping[str, str]
    """For weights of the program, what the model calls them."""
    folded: Sequence[FoldedNorm]
    """How other weights are computed from these."""
    program: StoredProgram

    def to_bytes(self) -> bytes:
        head = {
            "declaration": self.declaration,
            "outputs": self.outputs,
            "sources": self.sources,
            "folded": [asdict(each) for each in self.folded],
        }
        return with_head(head, self.program.to_bytes())

    @staticmethod
    def from_bytes(data: bytes) -> StoredModel:
        head, at = head_of(data)
        return StoredModel(
            head["declaration"],
            head["outputs"],
            head["sources"],
            [FoldedNorm(**each) for each in head["folded"]],
            StoredProgram.from_bytes(data[at:]),
        )

    def function(self, ctx: Context) -> func.FuncOp:
        """The declaration."""
        return main(Parser(ctx, self.declaration).parse_module())

    def bind(self, held: Mapping[str, torch.Tensor], weights: Weights) -> None:
        """Copy and compute the weights of the program from the model's tensors."""
        for name, source in self.sources.items():
            weights[name] = weight_array(held[source])
        for each in self.folded:
            each.apply(weights)
        needed = self.program.weight_names()
        for name in self.sources:
            if needed is None or name in needed:
                weights[name] = weights[name].copy()
            else:
                del weights[name]


def compile_model(exported: ExportedProgram) -> tuple[StoredModel, bool]:
    """
    Compile a model, and say whether others of the same `fingerprint` are this one.

    They are not where it holds data that the exported program does not.
    """
    ctx, module = pipelines.import_program(exported, leave_out_constants=True)
    weights = weights_of(ctx)
    function = main(module)
    declaration = text_of(declared(function))
    outputs = value_names(function.res_attrs)
    held = held_tensors(exported)
    sources = {
        name: source
        for name, source in weights.sources.items()
        if source in held and is_same(weight_array(held[source]), weights[name])
    }
    unbound = weights.keys() - sources.keys()
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    folded = [each for each in weights.derivations if isinstance(each, FoldedNorm)]
    computed = {name for each in folded for name in (each.weight, each.bias)}
    program = compile_program(ctx, module)
    rest = {name: weights[name] for name in weights.keys() - sources.keys() - computed}
    program = replace(program, literals=rest)
    return StoredModel(declaration, outputs, sources, folded, program), not unbound


def is_same(a: Array, b: Array) -> bool:
    """Whether two arrays have one memory, or the same bytes."""
    return a.ctypes.data == b.ctypes.data or a.tobytes() == b.tobytes()


def declared(function: func.FuncOp) -> ModuleOp:
    """A module with `function`'s arguments and the symbols of their sizes alone."""
    block = Block(arg_types=function.body.block.arg_types)
    values = dict[SSAValue, SSAValue](
        zip(function.body.block.args, block.args, strict=True)
    )
    builder = Builder(InsertPoint.at_end(block))
    for op in function.body.block.ops:
        if isinstance(op, SymbolicIntOp | BindSymbolicShapeOp):
            builder.insert(op.clone(values))
    builder.insert(func.ReturnOp())
    inputs = function.function_type.inputs.data
    attributes = function.arg_attrs
    return ModuleOp(
        [func.FuncOp("main", (inputs, []), Region(block), arg_attrs=attributes)]
    )
