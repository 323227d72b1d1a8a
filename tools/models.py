# pyright: reportUnknownMemberType=false
"""Models that a command line names: `.pt2` and `.mlir` files, factory functions."""

from __future__ import annotations

import argparse
import importlib
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from padc.common.paths import path_of
from padc.errors import MissingEnvironmentError, SourceLocation, UsageError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from padc.models.exported import Source


def add_model_options(
    command: argparse.ArgumentParser, nargs: Literal["?"] | None = None
) -> None:
    """Add the model, its inputs and `--trust`."""
    command.add_argument(
        "model",
        nargs=nargs,
        metavar="MODEL",
        help=(
            "a .pt2 file; a .mlir file, as torch-mlir or padc-opt --print-weights "
            "print it; or pkg.module:factory, a function that returns a module, or "
            "(module, example inputs)"
        ),
    )
    add_input_option(command)
    add_trust_option(command)


def add_input_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME:SHAPE:DTYPE",
        help=(
            "an input of the module that a factory returns: image:1x3x224x224:float32; "
            "64..512 is a dynamic size; give it once for each input"
        ),
    )


def add_trust_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trust",
        action="store_true",
        help=(
            "load a .pt2 file that may run code: one with pickled objects, of an old "
            "format, or unlike those that PyTorch writes (without this, it is refused)"
        ),
    )


def is_factory(name: str) -> bool:
    """Whether this is `pkg.module:factory`."""
    return re.fullmatch(r"[\w.]+:[\w.]+", name) is not None


@dataclass(frozen=True)
class LoadedModel:
    """A model and its inputs, as `padc.convert` takes them."""

    model: torch.nn.Module | ExportedProgram
    inputs: tuple[Any, ...] | None = None
    dynamic_shapes: Any = None

    def source(self, caller: str) -> Source:
        """The `MlirModel` or the `ExportedProgram` of the model; exports a module."""
        from padc.models.exported import as_source

        return as_source(caller, self.model, self.inputs, self.dynamic_shapes)


def check_model(name: str, input_specs: Sequence[str], *, trust: bool) -> None:
    """
    Raise UsageError or InvalidProgramError for what shows without PyTorch.

    Commands call it before they load that, which takes seconds: for `--input` that does
    not fit, and `.pt2` files that are plainly harmful.
    """
    if is_factory(name):
        return
    if input_specs:
        raise UsageError(
            f"--input is given, but {name} has its inputs already",
            hint="name a factory, pkg.module:factory, to choose inputs",
        )
    if name.endswith(".pt2") and not trust:
        from padc.common.pt2_files import check_file

        check_file(path_of(name))


def load_model(
    name: str, input_specs: Sequence[str], *, trust: bool = False
) -> LoadedModel:
    """Load a `.pt2` or `.mlir` file, or call a factory; after `check_model`."""
    from padc.models.exported import load_source

    if not is_factory(name):
        return LoadedModel(load_source(name, trust=trust))
    import torch

    made = call_factory(name)
    match made:
        case torch.nn.Module():
            module, inputs = made, None
        case torch.nn.Module() as module, tuple() | list():
            inputs = tuple(cast(Sequence[Any], made[1]))
        case _:
            raise UsageError(
                f"{name} returned {describe(made)}",
                hint="return a torch.nn.Module, or (module, tuple of example inputs)",
            )
    module.eval()
    if input_specs:
        given = [InputSpec.parse(spec) for spec in input_specs]
        inputs = tuple(spec.example() for spec in in_order(module, given))
        dynamic = [spec.dynamic_shape() for spec in in_order(module, given)]
        return LoadedModel(module, inputs, tuple(dynamic) if any(dynamic) else None)
    if inputs is None:
        raise UsageError(
            f"{name} returned a module without example inputs",
            hint="add --input NAME:SHAPE:DTYPE for each, or return them with it",
        )
    return LoadedModel(module, inputs)


def describe(value: Any) -> str:
    """The type of a value; for a tuple, the types of its elements."""
    if not isinstance(value, tuple):
        return type(value).__name__
    return f"({', '.join(map(describe, cast(tuple[Any, ...], value)))})"


def call_factory(name: str) -> Any:
    """The result of the factory `pkg.module:function`."""
    import torch

    module_name, _, attribute = name.partition(":")
    try:
        factory: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if f"{module_name}.".startswith(f"{missing}."):
            raise UsageError(
                f"there is no module {missing}",
                hint="run padc from the folder that holds it, or install it",
            ) from error
        raise MissingEnvironmentError(
            f"{module_name} needs the package {missing}", hint="install it"
        ) from error
    except Exception as error:
        raise factory_error(f"importing {module_name}", error) from error
    for part in attribute.split("."):
        if not hasattr(factory, part):
            raise UsageError(f"{module_name} has no {attribute}")
        factory = getattr(factory, part)
    if not callable(factory):
        raise UsageError(
            f"{name} is not a function but {describe(factory)}",
            hint="name a function that returns the model",
        )
    # Random weights are then the same for `convert` and `verify`.
    torch.random.manual_seed(0)
    try:
        return factory()
    except Exception as error:
        raise factory_error(name, error) from error


def factory_error(what: str, error: Exception) -> UsageError:
    """An error of the user's code, with the line that raised it."""
    import torch

    (torch_folder,) = torch.__path__
    frames = traceback.extract_tb(error.__traceback__)
    ours = (__file__, importlib.__file__, torch_folder, "<")
    lines = [frame for frame in frames if not frame.filename.startswith(ours)]
    location = (
        SourceLocation(lines[-1].filename, lines[-1].lineno or 0) if lines else None
    )
    if isinstance(error, SyntaxError) and error.filename:
        location = SourceLocation(error.filename, error.lineno or 0)
    return UsageError(
        f"{what} failed: {type(error).__name__}: {error}", location=location
    )


@dataclass(frozen=True)
class InputSpec:
    """An input that `--input` describes."""

    name: str
    sizes: tuple[tuple[int, int], ...]
    """Smallest and largest size of each dimension; equal if it is static."""
    dtype: torch.dtype

    @staticmethod
    def parse(text: str) -> InputSpec:
        """Read `NAME:SHAPE:DTYPE`; raises UsageError."""
        import torch

        match = re.fullmatch(
            r"(\w+):(|\d+(?:\.\.\d+)?(?:x\d+(?:\.\.\d+)?)*):(\w+)", text
        )
        dtype = getattr(torch, match[3], None) if match else None
        if match is None or not isinstance(dtype, torch.dtype):
            raise UsageError(
                f"--input {text} is not NAME:SHAPE:DTYPE",
                hint="such as image:1x3x64..512x64..512:float32",
            )
        bounds = [size.split("..") for size in (match[2] or "").split("x") if size]
        sizes = tuple((int(bound[0]), int(bound[-1])) for bound in bounds)
        if any(low > high for low, high in sizes):
            raise UsageError(f"--input {text}: a range's first size is its smallest")
        return InputSpec(match[1], sizes, dtype)

    def example(self) -> torch.Tensor:
        """Random values: normal for floats, 0 or 1 for other dtypes."""
        import torch

        from padc.models.mlir_model import random_values

        # A dynamic size is neither 0 nor 1: torch.export specializes these.
        shape = [max(low, min(high, 2)) for low, high in self.sizes]
        generator = torch.Generator().manual_seed(0)
        return random_values(shape, self.dtype, generator)

    def dynamic_shape(self) -> dict[int, Any]:
        """The dynamic dimensions, as `torch.export` takes them."""
        import torch

        return {
            dim: torch.export.Dim(f"{self.name}_{dim}", min=low, max=high)
            for dim, (low, high) in enumerate(self.sizes)
            if low != high
        }


def in_order(module: torch.nn.Module, specs: Sequence[InputSpec]) -> list[InputSpec]:
    """The specs in the order of `forward`'s parameters."""
    import inspect

    names = list(inspect.signature(module.forward).parameters)
    unknown = [spec.name for spec in specs if spec.name not in names]
    if unknown or len({spec.name for spec in specs}) != len(specs):
        raise UsageError(
            f"--input names {', '.join(spec.name for spec in specs)}",
            hint=f"the model's inputs are {', '.join(names)}, each to be given once",
        )
    return sorted(specs, key=lambda spec: names.index(spec.name))
