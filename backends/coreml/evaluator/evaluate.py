# pyright: basic, reportMissingTypeStubs=false
"""A loaded model: its description, and prediction."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from padc.backends.coreml.evaluator.package import Message, Package
from padc.backends.coreml.evaluator.program import Program, load_program
from padc.backends.coreml.evaluator.types import TensorType
from padc.errors import InvalidProgramError, Problem, UnsupportedError, UsageError

Precision = Literal["program", "float32"]

ARRAY_DTYPES: dict[int, npt.DTypeLike] = {
    65552: np.float16,
    65568: np.float32,
    131080: np.int8,
    131104: np.int32,
}
"""`ArrayFeatureType.ArrayDataType` of mlmodel/format/FeatureTypes.proto."""


@dataclass(frozen=True)
class Feature:
    """An input or output, as the package describes it."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    """The shape, or the default one of a flexible input."""
    ranges: tuple[tuple[int, int | None], ...] = ()
    """Smallest and largest size of each dimension; no largest where it is None."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes to choose from, if they are listed."""
    default: float | None = None
    """What an optional input is filled with when it is not given."""

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether a value may have this shape."""
        if self.shapes:
            return shape in self.shapes
        if not self.ranges:
            return shape == self.shape
        return len(shape) == len(self.ranges) and all(
            low <= size and (high is None or size <= high)
            for size, (low, high) in zip(shape, self.ranges, strict=True)
        )

    @property
    def expected(self) -> str:
        """What `accepts` takes, in words."""
        if self.shapes:
            return f"{self.dtype} of one of the shapes {list(self.shapes)}"
        if self.ranges:
            dims = (
                str(low) if low == high else f"{low}..{'' if high is None else high}"
                for low, high in self.ranges
            )
            return f"{self.dtype} of shape ({', '.join(dims)})"
        return f"{self.dtype} of shape {self.shape}"


class Model:
    """A program that can be run; made by `load`."""

    def __init__(
        self,
        inputs: tuple[Feature, ...],
        outputs: tuple[Feature, ...],
        program: Program,
        rounding: bool,
    ):
        self.inputs = inputs
        self.outputs = outputs
        self._program = program
        self._rounding = rounding

    def predict(self, data: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
        """The outputs by name, for inputs by name.

        Raises UsageError where an input is missing, not known, or not of a dtype and
        shape that the model describes, and InvalidProgramError or UnsupportedError,
        naming the op, where the program cannot be carried through with these values.
        """
        if unknown := [name for name in data if name not in self._names()]:
            raise UsageError(
                f"the model has no input {', '.join(map(repr, unknown))}",
                hint=f"its inputs are {', '.join(map(repr, self._names()))}",
            )
        inputs = {
            feature.name: _tensor(feature, data, self._program.inputs[feature.name])
            for feature in self.inputs
        }
        with torch.inference_mode():
            results = self._program.run(inputs, self._rounding)
        # Copies, since a result may be an input or one of the model's constants.
        return {
            name: np.array(results[name].numpy(), dtype=kind.dtype.storage)
            for name, kind in self._program.outputs.items()
        }

    def _names(self) -> list[str]:
        return [feature.name for feature in self.inputs]


def load(
    path: Path | str,
    *,
    function_name: str | None = None,
    precision: Precision = "program",
) -> Model:
    """Open an `.mlpackage` that holds an ML program.

    `precision="program"` rounds every result to the type that the program gives it;
    "float32" computes fp16 values in float32 throughout, which is what the program
    would give without rounding. `function_name` picks a function of a package that
    has several; without it, it is the package's default.

    Raises UsageError where there is no package or no such function,
    InvalidProgramError where it is damaged, and UnsupportedError with all that is not
    known of it: kinds of models, ops, inputs of ops and their values, dtypes.
    """
    if precision not in ("program", "float32"):
        raise UsageError(f"precision {precision!r} is not 'program' or 'float32'")
    package = Package(path)
    spec = package.spec
    if (kind := spec.WhichOneof("Type")) != "mlProgram":
        raise UnsupportedError(
            [Problem(f"{path} holds a model of type {kind}, not an mlProgram")]
        )
    name, description = _function(spec, function_name)
    if description.state:
        raise UnsupportedError([Problem(f"{path}: function {name!r} has states")])
    inputs = tuple(_feature(item) for item in description.input)
    outputs = tuple(_feature(item) for item in description.output)
    rounding = precision == "program"
    program = load_program(package, spec.mlProgram.functions[name], rounding)
    for described, defined in ((inputs, program.inputs), (outputs, program.outputs)):
        if sorted(feature.name for feature in described) != sorted(defined):
            raise InvalidProgramError(
                f"{path} describes {[feature.name for feature in described]}, "
                f"its function {name!r} has {list(defined)}"
            )
    return Model(inputs, outputs, program, rounding)


def _function(spec: Message, wanted: str | None) -> tuple[str, Message]:
    """The name of a function, and what describes its inputs and outputs."""
    described = {item.name: item for item in spec.description.functions}
    default = spec.description.defaultFunctionName or "main"
    name = wanted or default
    if name not in spec.mlProgram.functions or (described and name not in described):
        known = ", ".join(map(repr, sorted(spec.mlProgram.functions)))
        if wanted is None:
            raise InvalidProgramError(f"no function {name!r} among {known}")
        raise UsageError(f"no function {name!r}", hint=f"there are {known}")
    return name, described.get(name, spec.description)


def _feature(item: Message) -> Feature:
    kind = item.type.WhichOneof("Type")
    if kind != "multiArrayType":
        raise UnsupportedError([Problem(f"{item.name!r} is a {kind}, not an array")])
    array = item.type.multiArrayType
    if (dtype := ARRAY_DTYPES.get(array.dataType)) is None:
        raise UnsupportedError(
            [Problem(f"{item.name!r} is an array of type {array.dataType}")]
        )
    default = array.WhichOneof("defaultOptionalValue") if item.type.isOptional else None
    return Feature(
        item.name,
        np.dtype(dtype),
        tuple(array.shape),
        tuple(
            (size.lowerBound, None if size.upperBound < 0 else size.upperBound)
            for size in array.shapeRange.sizeRanges
        ),
        tuple(tuple(shape.shape) for shape in array.enumeratedShapes.shapes),
        getattr(array, default) if default else None,
    )


def _tensor(
    feature: Feature, data: Mapping[str, npt.ArrayLike], kind: TensorType
) -> torch.Tensor:
    if feature.name not in data:
        if feature.default is None:
            raise UsageError(
                f"the input {feature.name!r} is missing",
                hint=f"it is {feature.expected}",
            )
        array = np.full(feature.shape, feature.default, feature.dtype)
    else:
        array = np.asarray(data[feature.name])
    if array.dtype != feature.dtype or not feature.accepts(array.shape):
        raise UsageError(
            f"the input {feature.name!r} is {array.dtype} of shape {array.shape}",
            hint=f"it must be {feature.expected}",
        )
    held = torch.empty(0, dtype=kind.dtype.held_as).numpy().dtype
    # A copy: it must be writable for torch, and of the dtype that values are held in.
    return torch.from_numpy(np.array(array, dtype=held))
