# pyright: reportUnknownMemberType=false
"""`padc run`: the outputs of a model or a saved package, on any machine."""

from __future__ import annotations

import argparse
import math
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from padc.errors import UsageError, first_line
from padc.tools.models import (
    add_input_option,
    add_trust_option,
    check_model,
    is_factory,
    load_model,
)
from padc.tools.whole_file import whole_file
from padc.versions import require

if TYPE_CHECKING:
    import torch

    from padc.models.exported import Source

BACKENDS = ("coreml", "native", "reference")
MOST_UNPACKED, MOST_RATIO = 2**28, 100
"""The most bytes of a file's arrays: the first, or the second times the file's size."""


class Feature(Protocol):
    """A described input."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> npt.DTypeLike: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def color(self) -> str | None:
        """The color layout of an image; None for other inputs."""
        ...

    @property
    def default(self) -> float | None:
        """The value of all elements if the input is not given."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a .mlpackage, a .pt2 or .mlir file, or pkg.module:factory",
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        help=(
            "what runs it: coreml, the evaluator, for packages and for .mlir with ops "
            "of Core ML; for models native (default), which compiles to machine code, "
            "or reference, which interprets (default for .mlir)"
        ),
    )
    add_input_option(parser)
    add_trust_option(parser)
    parser.add_argument(
        "--inputs",
        metavar="X.npz|random:SEED",
        help="arrays by input name, or random values of the input shapes; inputs with "
        "defaults may be left out",
    )
    parser.add_argument(
        "--save-outputs",
        metavar="OUT.npz",
        help="write the outputs by name, except a classifier's probabilities",
    )
    parser.add_argument(
        "--precision",
        help="for a package: program (default), which rounds as the program says, or "
        "float32; for machine code: default, or strict, which computes convolutions as "
        "sums of products only",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="for machine code: the most threads; as many as PyTorch uses if not given",
    )
    parser.add_argument(
        "--function",
        metavar="NAME",
        help="the function of the package to run; its default function if not given",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print each output's name, type and range; save the outputs if asked to."""
    output_file = arguments.save_outputs
    if output_file is not None and not output_file.endswith(".npz"):
        raise UsageError(f"--save-outputs {output_file}: the name must end in .npz")
    name = arguments.model
    is_model = is_factory(name) or name.endswith((".pt2", ".mlir"))
    outputs = run_model(arguments) if is_model else run_package(arguments)
    for name, value in outputs.items():
        print(f"{name}: {describe(value)}")
    if output_file is not None:
        try:
            with whole_file(output_file) as file:
                save(file, outputs)
        except OSError as error:
            raise UsageError(f"cannot write {output_file}: {error.strerror}") from error


def needed_extra(arguments: argparse.Namespace) -> str:
    """The extra of padc that runs a model."""
    by_default = "reference" if arguments.model.endswith(".mlir") else "native"
    backend = arguments.backend or by_default
    return "native" if backend == "native" else "torch"


def run_package(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The outputs of a package, as Core ML computes them."""
    if arguments.backend not in (None, "coreml"):
        raise UsageError(
            f"--backend {arguments.backend} cannot run {arguments.model}",
            hint="a package is Core ML's; give its model, a .pt2 or a factory",
        )
    if arguments.threads is not None:
        raise UsageError(f"--threads is for models, which {arguments.model} isn't")
    if arguments.input:
        raise UsageError(f"--input is given, but {arguments.model} has its inputs")
    from padc.coreml import load
    from padc.packages.buffered_model import BufferedModel

    model = load(
        arguments.model,
        function_name=arguments.function,
        precision=arguments.precision or "program",
    )
    running = BufferedModel(model)
    return running.predict(read_inputs(arguments.inputs, running.inputs))


def run_model(arguments: argparse.Namespace) -> dict[str, npt.NDArray[Any]]:
    """The outputs of a model, as this machine computes them."""
    if arguments.function is not None:
        raise UsageError(f"--function is for packages, which {arguments.model} isn't")
    require(needed_extra(arguments))
    check_model(arguments.model, arguments.input, trust=arguments.trust)
    import torch

    from padc.compiled_models.call_values import as_array, check_names

    loaded = load_model(arguments.model, arguments.input, trust=arguments.trust)
    source = loaded.source("padc run")
    inputs = tensor_inputs(source)
    backend = arguments.backend or default_backend(source)
    if backend != "native":
        for option in ("precision", "threads"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option} is for the native backend")
        run_on = on_reference if backend == "reference" else as_package
        program = run_on(source)
    else:
        names = [input.name for input in inputs]
        precision = arguments.precision or "default"
        program = compiled(source, names, arguments.threads, precision)
    given = read_inputs(arguments.inputs, inputs)
    check_names(given, [input.name for input in inputs])
    outputs = program({input.name: input.tensor(given[input.name]) for input in inputs})
    return {
        name: as_array(x) if isinstance(x, torch.Tensor) else np.asarray(x)
        for name, x in outputs.items()
    }


def compiled(
    source: Source, tensors: Sequence[str], threads: int | None, precision: str
) -> Callable[[Mapping[str, torch.Tensor]], dict[str, Any]]:
    """A function that computes outputs by name with machine code."""
    from torch.export import ExportedProgram

    from padc.compiled import compile
    from padc.ir.precisions import native_precision

    if not isinstance(source, ExportedProgram):
        raise UsageError(
            f"--backend native cannot run {source.path}",
            hint="--backend reference runs programs in MLIR",
        )
    model = compile(source, threads=threads, precision=native_precision(precision))
    if numbers := {*model.input_names} - {*tensors}:
        raise UsageError(
            f"the input '{min(numbers)}' is a number",
            hint="export the model with a tensor, or a constant, in its place",
        )
    return model.run_named


def default_backend(source: Source) -> str:
    """The default engine of a model."""
    from padc.models.mlir_model import MlirModel

    if not isinstance(source, MlirModel):
        return "native"
    return "reference" if source.core_ml_op is None else "coreml"


def as_package(
    source: Source,
) -> Callable[[Mapping[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """A function that computes outputs by name as a package, for ops of Core ML."""
    from padc.models.mlir_model import MlirModel

    if not isinstance(source, MlirModel) or source.core_ml_op is None:
        raise UsageError(
            "--backend coreml cannot run a model",
            hint="write it as a package first: padc convert",
        )
    require("coreml")
    from padc.coreml_program import convert

    # Of the newest form, since the text may have any op. Buffers stay what they are.
    program = convert(source, target="newest", states="inputs")
    names = source.output_names
    return lambda inputs: dict(zip(names, program.run(*inputs.values()), strict=True))


def on_reference(
    source: Source,
) -> Callable[[Mapping[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """A function that computes outputs by name with the reference, at the tcp level."""
    from padc.backends.calls.input_check import InputCheck
    from padc.frontends.torch_export.guards import GuardCheck, guards_of
    from padc.ir.main_function import value_names
    from padc.models.exported import interpreted
    from padc.models.mlir_model import MlirModel

    if isinstance(source, MlirModel):
        source.check_reference()
    interpreter = interpreted(source)
    check = InputCheck(interpreter.function)
    names = value_names(interpreter.function.res_attrs)
    returned = [names[i] for i in interpreter.results]
    check_guards = GuardCheck(
        [] if isinstance(source, MlirModel) else guards_of(source)
    )

    def program(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors = list(inputs.values())
        check(interpreter.given(tensors, interpreter.buffers))
        check_guards(tensors)
        return dict(zip(returned, interpreter(*tensors), strict=True))

    return program


@dataclass(frozen=True)
class TensorInput:
    """An input of an exported program."""

    name: str
    torch_dtype: torch.dtype
    sizes: tuple[int | torch.SymInt, ...]
    """The sizes of the example if there is one, else those of the graph."""
    color: None = None
    default: None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Raises UsageError if a size is not known."""
        known = [size for size in self.sizes if isinstance(size, int)]
        if len(known) != len(self.sizes):
            raise UsageError(
                f"the sizes of the input '{self.name}' are dynamic, and the program "
                "was saved without an example",
                hint="give --inputs X.npz",
            )
        return tuple(known)

    @property
    def dtype(self) -> npt.DTypeLike:
        """The numpy dtype of its arrays: float32 for bfloat16, which numpy lacks."""
        import torch

        dtype = (
            torch.float32 if self.torch_dtype == torch.bfloat16 else self.torch_dtype
        )
        return str(dtype).removeprefix("torch.")

    def tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """An array as the program takes it; UsageError for another dtype."""
        import torch

        if array.dtype != self.dtype:
            raise UsageError(
                f"the input '{self.name}' is {self.dtype}, got {array.dtype}"
            )
        return torch.from_numpy(array).to(self.torch_dtype)


def tensor_inputs(exported: Source) -> list[TensorInput]:
    """The tensors that a program takes, in order."""
    import torch
    import torch.utils._pytree as pytree

    from padc.models.mlir_model import MlirModel

    if isinstance(exported, MlirModel):
        examples, _ = exported.example_inputs
        return [
            TensorInput(name, x.dtype, tuple(x.shape))
            for name, x in zip(exported.input_names, examples, strict=True)
        ]
    leaves = pytree.tree_leaves(exported.example_inputs)
    examples = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    placeholders = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    named = [
        (name, value)
        for name in exported.graph_signature.user_inputs
        if isinstance(name, str)
        and isinstance(value := placeholders.get(name), torch.Tensor)
    ]
    if len(examples) != len(named):  # Saved without examples.
        examples = [value for _, value in named]
    return [
        TensorInput(name, value.dtype, tuple(example.shape))
        for (name, value), example in zip(named, examples, strict=True)
    ]


def save(file: str, outputs: Mapping[str, Any]) -> None:
    """
    Write an `.npz` file with each array under its name.

    `numpy.savez` fails if an output has the name of one of its parameters.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in outputs.items():
            if not isinstance(value, dict):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    array: npt.NDArray[Any] = np.asarray(value)
                    np.lib.format.write_array(entry, array, allow_pickle=False)


def read_inputs(
    source: str | None, features: Sequence[Feature]
) -> Mapping[str, npt.NDArray[Any]]:
    """The arrays in a file, or random ones for `random:SEED`; none for None."""
    if source is None:
        if needed := [each.name for each in features if each.default is None]:
            raise UsageError(
                f"the input '{needed[0]}' has no default",
                hint="give the inputs: --inputs X.npz, or --inputs random:0",
            )
        return {}
    if source.startswith("random:"):
        seed = source.removeprefix("random:")
        if not re.fullmatch(r"\d{1,40}", seed, re.ASCII):
            raise UsageError(f"--inputs {source}: the seed is a number, as random:0")
        return random_inputs(int(seed), features)
    try:
        return read_arrays(source)
    except FileNotFoundError as error:
        raise UsageError(f"--inputs {source}: there is no such file") from error
    # zipfile and numpy raise what the parts raise that they parse with.
    except Exception as error:
        raise UsageError(
            f"--inputs {source} cannot be read: {first_line(error)}",
            hint="save it with numpy.savez(path, input_name=array)",
        ) from error


def read_arrays(path: str) -> dict[str, npt.NDArray[Any]]:
    """
    The arrays of an `.npz` file, by name.

    Sizes are checked before memory is taken. Raises an exception of any type for a file
    that is damaged.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is no regular file")  # It may have no end.
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise ValueError("it holds one array without a name")
    with zipfile.ZipFile(path) as archive:
        most = max(MOST_UNPACKED, MOST_RATIO * os.path.getsize(path))
        members = archive.infolist()
        if (total := sum(member.file_size for member in members)) > most:
            raise ValueError(f"it unpacks to {total} bytes, more than {most}")
        return {
            member.filename.removesuffix(".npy"): read_array(archive, member)
            for member in members
        }


def read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """The array in a member, whose header must agree with its size."""
    npy: Any = np.lib.format  # It has no types.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    with archive.open(member) as file:
        is_first = npy.read_magic(file) == (1, 0)
        read_header = (
            npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        )
        shape, _, dtype = read_header(file)
        stored, needed = (
            member.file_size - file.tell(),
            math.prod(shape) * dtype.itemsize,
        )
        if dtype.hasobject or needed != stored:
            raise ValueError(
                f"{member.filename} has {stored} bytes, its header says {dtype} of "
                f"shape {shape}"
            )
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)


def random_inputs(
    seed: int, features: Sequence[Feature]
) -> dict[str, npt.NDArray[Any]]:
    """
    Random inputs of the default shapes.

    Floats are normal, images are bytes, other integers are 0 or 1.
    """
    rng = np.random.default_rng(seed)
    inputs: dict[str, npt.NDArray[Any]] = {}
    for feature in features:
        if np.issubdtype(feature.dtype, np.floating):
            values = rng.standard_normal(feature.shape)
        else:
            values = rng.integers(0, 256 if feature.color else 2, feature.shape)
        inputs[feature.name] = np.asarray(values).astype(feature.dtype)
    return inputs


def describe(value: Any) -> str:
    """`float32 (1, 1000), min -2.1, max 3.4, mean 0.02` for an array."""
    if not isinstance(value, np.ndarray):
        return str(value)  # A classifier's label, or probabilities by label.
    array = cast(npt.NDArray[Any], value)
    text = f"{array.dtype} {array.shape}"
    if not array.size:
        return text
    values = array.astype(np.float64)
    low, high, mean = values.min(), values.max(), values.mean()
    return f"{text}, min {low:.6g}, max {high:.6g}, mean {mean:.6g}"
