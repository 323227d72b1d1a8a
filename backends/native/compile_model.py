"""From an exported program to a model that can be stored."""

from __future__ import annotations

from dataclasses import replace

from torch.export import ExportedProgram
from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from padc.backends.native.compile_program import compile_program, text_of
from padc.backends.native.stored_model import Derivation, StoredModel
from padc.errors import Problem, UnsupportedError
from padc.frontends.torch_export import held_tensors
from padc.frontends.torch_export.strided import ON_STRIDES
from padc.ir.main_function import main, value_names
from padc.ir.model_buffers import changed_names
from padc.ir.torch import AtenOp, BindSymbolicShapeOp, SymbolicIntOp
from padc.ir.torch.tensors import weight_array
from padc.ir.weights import Array, weights_of
from padc.passes import pipelines
from padc.passes.aten.refusals import refusal
from padc.passes.common.lowering import problem


def compile_model(
    exported: ExportedProgram, check: bool = False, strict: bool = False
) -> tuple[StoredModel, bool]:
    """
    Compile a model, and say whether the result serves all of the same `fingerprint`.

    It does not if it holds data that the exported program does not. With `check`,
    machine code checks its loads and stores; with `strict`, convolutions are sums of
    products, and not computed by tiles.
    """
    ctx, module = pipelines.import_program(
        exported,
        legal=pipelines.legal_for_native(),
        leave_out_constants=True,
        with_assertions=True,
    )
    check_strides(module)
    weights = weights_of(ctx)
    function = main(module)
    declaration = text_of(declared(function))
    names = value_names(function.res_attrs)
    outputs = names[: len(names) - len(changed_names(function))]
    held = held_tensors(exported)
    sources = {
        name: source
        for name, source in weights.sources.items()
        if source in held and is_same(weight_array(held[source]), weights[name])
    }
    unbound = weights.keys() - sources.keys()
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    derived = [each for each in weights.derivations if isinstance(each, Derivation)]
    computed = {name for each in derived for name in each.names}
    program = compile_program(ctx, module, check, strict)
    rest = {name: weights[name] for name in weights.keys() - sources.keys() - computed}
    program = replace(program, literals=rest)
    return StoredModel(declaration, outputs, sources, derived, program), not unbound


def is_same(a: Array, b: Array) -> bool:
    """Whether two arrays share their memory, or have the same bytes."""
    return a.ctypes.data == b.ctypes.data or a.tobytes() == b.tobytes()


def declared(function: func.FuncOp) -> ModuleOp:
    """A module with only the arguments of `function` and the symbols of their sizes."""
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


def check_strides(module: ModuleOp) -> None:
    """
    Raise UnsupportedError if ops on the strides of tensors are left.

    PyTorch cannot run such an op alone: between parts, tensors are row-major.
    """
    problems: list[Problem] = []
    for op in module.walk():
        if isinstance(op, AtenOp) and op.schema.name in ON_STRIDES:
            found = refusal(op)
            problems.append(problem(op, found.message, found.hint))
    if problems:
        raise UnsupportedError(problems)
