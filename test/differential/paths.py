# pyright: basic
"""The ways to run a program, and whether a result is what eager mode computes."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from differential.exported import compiled, converted, loaded
from differential.program import REFUSALS, Program
from differential.rounding import CORE_ML, allowed
from differential.tracing import SpecializedError, graph_of
from functions import printed
from native_programs import poisoned
from torch import Tensor
from torch.fx import Node
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region

from padc.backends import reference
from padc.backends.coreml.checker import check
from padc.backends.coreml.emit import emit
from padc.backends.coreml.evaluator import load
from padc.backends.coreml.optimize import optimize
from padc.backends.coreml.save import save_package
from padc.backends.native.compile_program import compile_program
from padc.backends.native.loaded_program import LoadedProgram
from padc.backends.native.stored_program import StoredProgram
from padc.compiled_model import CompiledModel
from padc.errors import Obstacle, Problem, UnsupportedError, UsageError
from padc.frontends.torch_export.calls import import_call
from padc.frontends.torch_export.function_builder import FunctionBuilder
from padc.frontends.torch_export.importer import name_attributes
from padc.frontends.torch_export.symbolic_sizes import SymbolicSizes
from padc.frontends.torch_export.types import tensor_type
from padc.ir import make_context
from padc.ir.torch import LiteralOp
from padc.ir.torch.tensors import weight_array
from padc.ir.weights import weights_of
from padc.models.parsing import parse_module
from padc.packages.session import Session
from padc.passes import pipelines
from padc.passes.tcp_to_mil.policies import GridSamplePolicy, PadPolicy


class PartlyError(Exception):
    """The results are right, but PyTorch computed a part of them; says which."""


class SameError(Exception):
    """A path runs the machine code that another path runs; says which path."""


def module_of(program: Program) -> tuple[Context, ModuleOp]:
    """The program at the torch level, built without torch.export."""
    ctx, function = make_context(), FunctionBuilder()
    graph, ranges = graph_of(program)
    placeholders = graph.find_nodes(op="placeholder")
    arguments = [x for i, x in enumerate(placeholders) if i not in program.held]
    for node in arguments:
        type = tensor_type(node.meta["val"])
        argument = function.block.insert_arg(type, len(function.block.args))
        function.values[node] = argument
    declare_sizes(function, arguments, ranges)
    for number in program.held:
        node, value = placeholders[number], program.inputs[number]
        type = TensorType(tensor_type(value).element_type, value.shape)
        name = weights_of(ctx).add(node.name, weight_array(value))
        op = function.add(LiteralOp(DenseResourceAttr.from_params(name, type)))
        function.values[node] = op.results[0]
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        try:
            function.values[node] = import_call(function, node)
        except Obstacle as error:
            raise UnsupportedError([Problem(error.message)]) from error
    returned: Any = graph.output_node().args[0]
    outputs = [function.values[each] for each in returned]
    function.add(ReturnOp(*outputs))
    types = function.block.arg_types, [output.type for output in outputs]
    names = [node.name for node in arguments]
    results = [f"y{i}" for i in range(len(outputs))]
    main = FuncOp(
        "main",
        types,
        Region(function.block),
        arg_attrs=ArrayAttr(name_attributes(names)),
        res_attrs=ArrayAttr(name_attributes(results)),
    )
    return ctx, ModuleOp([main])


def declare_sizes(function: FunctionBuilder, arguments: Sequence[Node], ranges: Any):
    """Say which sizes of the arguments are symbols."""
    sizes = SymbolicSizes(function, ranges)
    shapes = [node.meta["val"].shape for node in arguments]
    for size in itertools.chain(*shapes):
        sizes.declare(size)
    for node, shape in zip(arguments, shapes, strict=True):
        try:
            sizes.bind(function.values[node], shape)
        except Obstacle as error:
            raise UnsupportedError([Problem(error.message)]) from error


Run: TypeAlias = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Runs a program on inputs."""


@dataclass(frozen=True)
class PartlyRun:
    """Runs a program of which PyTorch computes a part."""

    run: Run
    reason: str

    def __call__(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        return self.run(inputs)


def by_reference(program: Program) -> list[Run]:
    ctx, module = module_of(program)
    pipelines.run_passes(ctx, module, pipelines.to_reference())
    module.verify()
    return [lambda inputs: reference.run(module, *inputs, weights=weights_of(ctx))]


def as_text(program: Program) -> list[Run]:
    """The reference, on what is parsed from the printed program."""
    ctx, module = module_of(program)
    pipelines.run_passes(ctx, module, pipelines.to_reference())
    weights_of(ctx).print_blobs = True
    again = make_context()
    parsed = parse_module(again, printed(module, ctx))
    parsed.verify()
    store = weights_of(again)
    return [lambda inputs: reference.run(parsed, *inputs, weights=store)]


def natively(program: Program, check: bool = False, strict: bool = False) -> list[Run]:
    ctx, module = module_of(program)
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    stored = compile_program(ctx, module, check, strict)
    if not strict:
        program.has_tiles = computes_tiles(stored)
    loaded = [LoadedProgram(ctx, stored, count) for count in program.thread_counts]
    if stored.is_native:
        return [*loaded]
    return [PartlyRun(run, stored.reasons[0]) for run in loaded]


def strictly(program: Program) -> list[Run]:
    """`natively`, where that computes a convolution by tiles; else SameError."""
    if program.has_tiles is None:
        natively(program)
    if not program.has_tiles:
        raise SameError("native")
    return natively(program, strict=True)


def computes_tiles(stored: StoredProgram) -> bool:
    """Whether machine code reads kernels that are transformed for tiles."""
    signatures = [x.signature for x in stored.parts if x.signature is not None]
    return any(p.tile is not None for each in signatures for p in each.parameters)


def by_compile(
    program: Program, make: Callable[[Program], CompiledModel] = compiled
) -> list[Run]:
    """As `natively`, through `padc.compile`."""
    model = make(program)

    def run(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        return model(*inputs)

    if model.is_native:
        return [run]
    lines = model.report().splitlines()
    (reason, *_) = [x for x in lines if x.startswith("not compiled")] or lines
    return [PartlyRun(run, reason)]


def by_convert(program: Program) -> list[Run]:
    """As `on_core_ml`, through `padc.convert`."""
    check_core_ml_takes(program)
    made = converted(program)
    return [lambda inputs: made.run(*inputs)]


def on_core_ml(
    program: Program,
    target: str = "iOS17",
    pads: PadPolicy = "auto",
    grids: GridSamplePolicy = "auto",
) -> list[Run]:
    check_core_ml_takes(program)
    ctx, module = module_of(program)
    passes = [*pipelines.to_mil_tcp(), *pipelines.to_mil(target, pads, grids)]
    pipelines.run_passes(ctx, module, passes)
    module.verify()
    made = emit(module, weights_of(ctx), target)
    optimize(made, "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.mlpackage"
        save_package(made, path)
        findings = check(path, target)
        rules = {each.rule for each in findings}
        if findings and rules <= {"computed", "empty"} and not takes_all_sizes(program):
            raise UnsupportedError([Problem(str(each)) for each in findings])
        assert not findings, findings
        return [Session(load(path)).run]


def check_core_ml_takes(program: Program):
    """Raise UnsupportedError for what padc documents that a package does not compute."""
    if has_far_points(program):
        # docs/grid_sample.md: a package may give other results for them.
        raise UnsupportedError([Problem("grids with points beyond 2^24")])
    if has_empty_tensors(program):
        # `padc.convert` refuses those of known sizes, a package the others.
        raise UnsupportedError([Problem("empty tensors")])


def takes_all_sizes(program: Program) -> bool:
    """
    Whether PyTorch takes the smallest and the largest sizes of a program together.

    Its runs do, but a package declares a range for each dimension by itself.
    """
    return all(
        # PyTorch also refuses an index that is too large, and 0 as a divisor.
        any(takes(program, choice, value) for value in (0, 1))
        for choice in (min, max)
    )


def takes(program: Program, choice: Callable[[Any], int], value: int) -> bool:
    """Whether PyTorch takes inputs of chosen sizes, all of whose elements are equal."""
    inputs = [
        same[0]
        if number in program.held
        else torch.full(
            [choice(sizes) for sizes in zip(*(x.shape for x in same), strict=True)],
            value,
            dtype=same[0].dtype,
        )
        for number, same in enumerate(zip(*program.runs, strict=True))
    ]
    try:
        Program([inputs], program.calls, []).values()
    except REFUSALS:
        return False
    return True


def has_empty_tensors(program: Program) -> bool:
    runs = range(len(program.runs))
    return any(not x.numel() for run in runs for x in program.values(run))


def has_far_points(program: Program) -> bool:
    grids = [
        call.args[1] for call in program.calls if "grid_sampler" in str(call.target)
    ]
    return any(
        bool(~(program.values(run)[grid.number].abs() <= 2.0**24).all())
        for grid in grids
        for run in range(len(program.runs))
    )


PATHS: dict[str, Callable[[Program], list[Run]]] = {
    "reference": by_reference,
    "text": as_text,
    "native": natively,
    "checked": functools.partial(natively, check=True),
    "strict": strictly,
    "compile": by_compile,
    "pt2": functools.partial(by_compile, make=loaded),
    "coreml": on_core_ml,
    "convert": by_convert,
    "oldest": functools.partial(
        on_core_ml, target="iOS15", pads="decompose", grids="decompose"
    ),
    "newest": functools.partial(on_core_ml, target="iOS26"),
}
"""Each path compiles a program, to one run or several whose results are the same."""
OF_MODULES = "compile", "pt2", "convert"
"""Those that take a program as a module."""


def problem(program: Program, path: str) -> str | None:
    """
    What is wrong with a path's results; None if they are right.

    Raises UnsupportedError if the path refuses the program, or sizes that the graph
    does not hold for, PartlyError if its results are right, but not all its own, and
    SameError if another path runs the same code.
    """
    try:
        runs = PATHS[path](program)
    except (UnsupportedError, SpecializedError, SameError):
        raise
    except UsageError as error:
        raise UnsupportedError([Problem(str(error))]) from error
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    run = 0
    try:
        for run in range(len(program.runs)):
            if program.states:
                text, program = problem_of_changes(program, run, path, runs[0])
            else:
                text = problem_of_run(program, run, path, runs)
            if text is not None:
                return text
    except UsageError as error:
        if run > 0:
            raise UnsupportedError([Problem(str(error))]) from error
        return f"its own example is refused: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for each in runs:
        if isinstance(each, PartlyRun):
            raise PartlyError(each.reason)
    return None


def problem_of_run(
    program: Program, number: int, path: str, runs: Sequence[Run]
) -> str | None:
    """What is wrong with the results of a run, in several calls, or with its inputs."""
    found = list[Sequence[Tensor]]()
    for run in runs:
        results, text = called(program, number, path, run)
        if text is not None:
            return text
        found.append([copied(x) for x in results])
        other = with_flipped_inputs(program, number)
        if other is not None:
            run([next_to_page(x) for x in other.given(0)])
        if not all(map(same_bits, results, found[-1])):
            return "another call changes the results"
        again = run([next_to_page(x) for x in program.given(number)])
        if not all(map(same_bits, again, found[-1])):
            return "other bits when it is called again"
    if len(found) > 1 and not all(map(same_bits, *found)):
        return f"other bits with {program.thread_counts[-1]} threads"
    return None


def with_flipped_inputs(program: Program, number: int) -> Program | None:
    """The program with the numbers of a run in other places, if it takes them there."""

    def flipped(x: Tensor) -> Tensor:
        memory = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        return memory.copy_(x.flip([*range(x.dim())]))

    inputs = enumerate(program.runs[number])
    run = [x if i in program.held else flipped(x) for i, x in inputs]
    other = replace(program, runs=[run], _values={})
    try:
        other.values()
    except REFUSALS:
        return None
    return other


def called(
    program: Program, number: int, path: str, run: Run
) -> tuple[Sequence[Tensor], str | None]:
    """The results of a call, and what is wrong with it."""
    inputs = [next_to_page(x) for x in program.given(number)]
    results = run(inputs)
    text = difference(program, number, results, path)
    if text is None and not all(map(same_bits, inputs, program.given(number))):
        text = "a call changes its inputs"
    return results, text


def problem_of_changes(
    program: Program, number: int, path: str, run: Run
) -> tuple[str | None, Program]:
    """What is wrong with two calls that change states, and the program after them."""
    found = list[tuple[Sequence[Tensor], Sequence[Tensor]]]()
    for _ in range(2):
        results, text = called(program, number, path, run)
        if text is not None:
            states = [program.inputs[each] for each in program.states]
            return f"{text}\nwith the states {states}", program
        found.append((results, [copied(x) for x in results]))
        program = program.after(results)
    if not all(all(map(same_bits, *each)) for each in found):
        return "another call changes the results", program
    return None, program


def next_to_page(x: Tensor) -> Tensor:
    """A copy of `x` with its strides; reads after a contiguous one end the process."""
    if not x.is_contiguous():
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
    memory = poisoned(x.nbytes, at_end=True)
    return memory.view(x.dtype).view(x.shape).copy_(x)


def copied(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def same_bits(a: Tensor, b: Tensor) -> bool:
    a, b = (copied(x.flatten()) for x in (a, b))
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def difference(
    program: Program, run: int, results: Sequence[Tensor], path: str
) -> str | None:
    """How the results of a run differ from those of eager mode."""
    values = program.values(run)
    errors: Sequence[tuple[float, Tensor]] | None = None
    for place, (number, result) in enumerate(
        zip(program.outputs, results, strict=True)
    ):
        should = values[number]
        if path in CORE_ML:
            # A package has int32 for int64, floats for bool, and [1] for rank 0.
            result = result.to(should.dtype)
            if should.dim() == 0:
                result = result.reshape([])
        if (result.dtype, result.shape) != (should.dtype, should.shape):
            return f"{result.dtype}{list(result.shape)}, not {should.dtype}{list(should.shape)}"
        if torch.equal(result, should):
            continue
        errors = errors or allowed(program, run, path)
        error, kept = errors[place]
        try:
            torch.testing.assert_close(
                result[kept], should[kept], rtol=0, atol=error, equal_nan=True
            )
        except AssertionError as failure:
            return str(failure)
    return None
