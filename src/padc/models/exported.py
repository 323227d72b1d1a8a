"""The models that `padc.convert` and `padc.compile` take, as programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.common.paths import path_of
from padc.errors import UsageError
from padc.frontends.torch_export import export_module, is_trusted, load
from padc.ir.dominance import verify
from padc.ir.weights import weights_of
from padc.models.interpreter import Interpreter
from padc.models.mlir_model import MlirModel
from padc.passes import pipelines

Source: TypeAlias = ExportedProgram | MlirModel
"""A program that can be imported: an export, or MLIR text."""


def as_source(
    caller: str,
    model: torch.nn.Module | ExportedProgram | str | Path,
    example_inputs: Sequence[Any] | None,
    dynamic_shapes: Any,
) -> Source:
    """
    The `MlirModel` or the `ExportedProgram` of a model.

    A module is exported with its inputs. A path names a `.mlir` or a `.pt2` file.
    Raises UsageError as `as_exported` does.
    """
    if isinstance(model, str | Path):
        model = load_source(model)
    if not isinstance(model, MlirModel):
        return as_exported(caller, model, example_inputs, dynamic_shapes)
    check_no_inputs(example_inputs, dynamic_shapes)
    return model


def load_source(path: str | Path, *, trust: bool = False) -> Source:
    """
    The program in a `.pt2` or a `.mlir` file.

    Raises UsageError for other files; `trust` is for `.pt2` files, see `padc.load`.
    """
    match path_of(path).suffix:
        case ".pt2":
            return load(path, trust=trust)
        case ".mlir":
            return MlirModel(path)
        case _:
            raise UsageError(
                f"{path} is neither a .pt2 nor a .mlir file",
                hint="write the model's export with torch.export.save; commands also "
                "take pkg.module:factory",
            )


def check_no_inputs(example_inputs: Any, dynamic_shapes: Any) -> None:
    """Raise UsageError if what belongs to a module is given."""
    if example_inputs is not None or dynamic_shapes is not None:
        raise UsageError(
            "an exported program has its inputs and dynamic shapes already",
            hint="give example_inputs and dynamic_shapes with a module only",
        )


def imported(
    source: Source, legal: Collection[str] | None = None, with_assertions: bool = False
) -> tuple[Context, ModuleOp]:
    """A module of its own; the weights share the memory of the source's."""
    if isinstance(source, MlirModel):
        return source.program()
    return pipelines.import_program(
        source, legal=legal, with_assertions=with_assertions
    )


def interpreted(source: Source) -> Interpreter:
    """The program as the reference runs it, with explicit padding."""
    ctx, module = imported(source, with_assertions=True)
    pipelines.run_passes(ctx, module, pipelines.to_reference())
    verify(module)
    trusted = not isinstance(source, MlirModel) and is_trusted(source.graph_module)
    return Interpreter(module, weights_of(ctx), trusted)


def as_exported(
    caller: str,
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Any] | None,
    dynamic_shapes: Any,
) -> ExportedProgram:
    """
    `model` itself if it is exported already, else its export.

    Raises UsageError unless `example_inputs` are given for modules and only for those.
    `caller` is the public function to show in the hint.
    """
    if isinstance(model, ExportedProgram):
        check_no_inputs(example_inputs, dynamic_shapes)
        return model
    if isinstance(model, MlirModel):
        raise UsageError(
            f"{caller} takes models of PyTorch, not {model.path}",
            hint="convert it, or run it with padc run --backend reference",
        )
    if example_inputs is None:
        raise UsageError(
            "a module needs example_inputs to be traced with",
            hint=f"{caller}(model, (torch.randn(1, 3, 224, 224),))",
        )
    if not isinstance(example_inputs, list | tuple):
        raise UsageError(
            f"example_inputs is a {type(example_inputs).__name__}",
            hint="give a tuple with one entry for each argument of the model",
        )
    return export_module(model, tuple(example_inputs), dynamic_shapes=dynamic_shapes)
