# pyright: basic
"""The ways to run a program, and whether a result is what eager mode computes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from differential.programs import Program
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from padc.backends import reference
from padc.backends.coreml.emit import emit
from padc.backends.coreml.evaluator import load
from padc.backends.coreml.optimize import optimize
from padc.backends.coreml.save import save_package
from padc.backends.native.compile_program import compile_program
from padc.backends.native.loaded_program import LoadedProgram
from padc.errors import Obstacle, Problem, UnsupportedError
from padc.frontends.torch_export.calls import import_call
from padc.frontends.torch_export.function_builder import FunctionBuilder
from padc.frontends.torch_export.importer import name_attributes
from padc.frontends.torch_export.types import tensor_type
from padc.ir import make_context
from padc.ir.weights import weights_of
from padc.passes import pipelines
from padc.session import Session

TARGET = "iOS17"
EPSILON: Mapping[torch.dtype, float] = {torch.float32: 2e-5, torch.float16: 2e-2}
"""The error allowed, in parts of the largest number in the program."""


def module_of(program: Program) -> tuple[Context, ModuleOp]:
    """The program at the torch level, built without torch.export."""
    function = FunctionBuilder()
    graph = program.graph()
    names: list[str] = []
    outputs = []
    for node in graph.nodes:
        if node.op == "placeholder":
            type = tensor_type(node.meta["val"])
            argument = function.block.insert_arg(type, len(function.block.args))
            function.values[node] = argument
            names.append(node.name)
        elif node.op == "call_function":
            try:
                function.values[node] = import_call(function, node)
            except Obstacle as error:
                raise UnsupportedError([Problem(error.message)]) from error
        else:
            outputs = [function.values[each] for each in node.args[0]]
    function.add(ReturnOp(*outputs))
    types = function.block.arg_types, [output.type for output in outputs]
    results = [f"y{i}" for i in range(len(outputs))]
    main = FuncOp(
        "main",
        types,
        Region(function.block),
        arg_attrs=ArrayAttr(name_attributes(names)),
        res_attrs=ArrayAttr(name_attributes(results)),
    )
    return make_context(), ModuleOp([main])


def by_reference(program: Program) -> Sequence[Tensor]:
    ctx, module = module_of(program)
    pipelines.run_passes(ctx, module, pipelines.to_reference())
    module.verify()
    return reference.run(module, *program.inputs, weights=weights_of(ctx))


def natively(program: Program) -> Sequence[Tensor]:
    ctx, module = module_of(program)
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    return LoadedProgram(ctx, compile_program(ctx, module))(program.inputs)


def on_core_ml(program: Program) -> Sequence[Tensor]:
    ctx, module = module_of(program)
    passes = [*pipelines.to_mil_tcp(), *pipelines.to_mil(TARGET, "auto", "auto")]
    pipelines.run_passes(ctx, module, passes)
    module.verify()
    made = emit(module, weights_of(ctx), TARGET)
    optimize(made, "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.mlpackage"
        save_package(made, path)
        results = Session(load(path)).run(program.inputs)
    values = program.values()
    wanted = [values[number] for number in program.outputs]
    # A package has int32 for int64, floats for bool, and [1] for rank 0.
    return [
        is_.to(should.dtype).reshape(should.shape)
        for is_, should in zip(results, wanted, strict=True)
    ]


PATHS: dict[str, Callable[[Program], Sequence[Tensor]]] = {
    "reference": by_reference,
    "native": natively,
    "coreml": on_core_ml,
}


def problem(program: Program, path: str) -> str | None:
    """
    What is wrong with a path's results; None if they are right.

    Raises UnsupportedError if the path refuses the program.
    """
    values = program.values()
    try:
        results = PATHS[path](program)
    except UnsupportedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    scale = max((largest(each) for each in values), default=1.0)
    for number, result in zip(program.outputs, results, strict=True):
        should = values[number]
        if (result.dtype, result.shape) != (should.dtype, should.shape):
            return f"{result.dtype}{list(result.shape)}, not {should.dtype}{list(should.shape)}"
        allowed = max(EPSILON.get(each.dtype, 0) for each in values) * scale
        if not should.is_floating_point():
            allowed = 0
        try:
            torch.testing.assert_close(
                *(result, should), rtol=0, atol=allowed, equal_nan=True
            )
        except AssertionError as error:
            return str(error)
    return None


def largest(x: Tensor) -> float:
    """The largest finite magnitude."""
    if not x.is_floating_point():
        return 1.0
    finite = x[x.isfinite()].abs()
    return max(float(finite.max()), 1.0) if finite.numel() else 1.0
