# pyright: basic, reportMissingTypeStubs=false
"""A loaded model: prediction, and the state that it keeps between predictions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from padc.backends.coreml.evaluator.execution import Block, Execution
from padc.backends.coreml.evaluator.features import (
    Feature,
    describe,
    from_value,
    to_tensor,
)
from padc.backends.coreml.evaluator.loading import load_program
from padc.backends.coreml.evaluator.metadata_keys import BUFFERS, FEATURES, metadata_key
from padc.backends.coreml.evaluator.package import Message, Package
from padc.backends.coreml.evaluator.values.limits import DEFAULT_LIMITS, Limits
from padc.backends.coreml.evaluator.values.types import (
    StateCell,
    StateType,
    TensorType,
    Value,
    ValueType,
)
from padc.errors import (
    InvalidProgramError,
    Obstacle,
    Problem,
    UnsupportedError,
    UsageError,
    shortened,
)

Precision = Literal["program", "float32"]


class State:
    """
    The state of a model between predictions; `Model.make_state` makes it.

    Args:
        features: A description of each of its tensors, which start as zeros.

    Example:
        >>> import numpy as np, padc
        >>> total = padc.coreml.Feature("total", np.dtype("float16"), (2,))
        >>> state = padc.coreml.State((total,))
        >>> state.read_state("total")
        array([0., 0.], dtype=float16)
    """

    def __init__(self, features: tuple[Feature, ...]):
        self._features = {feature.name: feature for feature in features}
        self.cells = {
            feature.name: StateCell(np.zeros(feature.shape, np.float32))
            for feature in features
        }

    def read_state(self, name: str) -> npt.NDArray[Any]:
        """
        Read a tensor of the state.

        Args:
            name: The name of the tensor.

        Returns:
            A copy of the tensor, of the dtype and shape that the package describes.

        Raises:
            UsageError: There is no tensor of this name.

        Example:
            >>> state.read_state("total")
            array([0., 0.], dtype=float16)
        """
        feature = self._feature(name)
        return np.array(self.cells[name].tensor, dtype=feature.dtype)

    def write_state(self, name: str, value: npt.ArrayLike) -> None:
        """
        Replace a tensor of the state.

        Args:
            name: The name of the tensor.
            value: The new tensor, of the shape that the package describes; its elements
                are converted to the dtype that the package describes.

        Raises:
            UsageError: There is no tensor of this name, or it has another shape.

        Example:
            >>> state.write_state("total", [1, 2])
            >>> state.read_state("total")
            array([1., 2.], dtype=float16)
        """
        feature = self._feature(name)
        try:
            array = np.asarray(value, dtype=feature.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"the state {name!r} is {shortened(value)}") from error
        if array.shape != feature.shape:
            raise UsageError(
                f"the state {name!r} has shape {feature.shape}, not {array.shape}"
            )
        self.cells[name].tensor = array.astype(np.float32)

    def _feature(self, name: str) -> Feature:
        if name not in self._features:
            known = ", ".join(map(repr, self._features))
            raise UsageError(f"no state {name!r}", hint=f"there are {known or 'none'}")
        return self._features[name]


class Model:
    """
    A program that can be run; `load` makes it.

    Attributes:
        inputs: The inputs, in the package's order.
        outputs: The outputs, in the package's order.
        states: The states, which a program keeps between predictions.
        limits: The memory and the time that a prediction may take.
        metadata: What the package's author wrote about it, by key.

    Example:
        >>> import numpy as np, padc, torch
        >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
        >>> model = padc.coreml.load("relu.mlpackage")
        >>> [feature.name for feature in model.inputs + model.outputs]
        ['input', 'relu']
    """

    def __init__(
        self,
        inputs: tuple[Feature, ...],
        outputs: tuple[Feature, ...],
        states: tuple[Feature, ...],
        program: Block,
        rounding: bool,
        limits: Limits,
        metadata: Mapping[str, str] | None = None,
    ):
        self.metadata = dict(metadata or {})
        self.inputs = inputs
        self.outputs = outputs
        self.states = states
        self._program = program
        self._rounding = rounding
        self.limits = limits

    def make_state(self) -> State:
        """
        Make a state to pass to `predict`.

        Returns:
            A state whose tensors are zeros.

        Example:
            >>> state = model.make_state()
            >>> model.predict({"input": np.array([-1, 1], np.float32)}, state)
            {'relu': array([0., 1.], dtype=float32)}
        """
        return State(self.states)

    def predict(
        self, data: Mapping[str, npt.ArrayLike], state: State | None = None
    ) -> dict[str, Any]:
        """
        Run the program.

        Args:
            data: An array for each input by name, of the input's dtype and of a shape
                that it accepts. Inputs with a default may be left out.
            state: The state that the program reads and writes; by default a new one.

        Returns:
            The outputs by name: arrays of the dtypes and shapes that the package
            describes; a label, and a dictionary of probabilities, of a classifier.

        Raises:
            UsageError: An input is missing or unknown, or of another dtype or shape, or
                the state is of another model.
            InvalidProgramError: An op cannot be computed on these values.
            UnsupportedError: An op is not known for these values, or exceeds `limits`.

        Example:
            >>> model.predict({"input": np.array([-1, 1], np.float32)})
            {'relu': array([0., 1.], dtype=float32)}
        """
        if not isinstance(data, Mapping):
            raise UsageError(
                f"the inputs are a {type(data).__name__}, not a dictionary by name"
            )
        if unknown := [name for name in data if name not in self._names()]:
            raise UsageError(
                f"the model has no input {', '.join(map(repr, unknown))}",
                hint=f"its inputs are {', '.join(map(repr, self._names()))}",
            )
        state = self.make_state() if state is None else self._checked_state(state)
        # IEEE's infinities and NaNs are results like others.
        with np.errstate(all="ignore"):
            return self._predict(data, state)

    def _checked_state(self, state: Any) -> State:
        """`state` if it has the model's states; raises UsageError."""
        cells = state.cells if isinstance(state, State) else {}
        shapes = {name: cell.tensor.shape for name, cell in cells.items()}
        if isinstance(state, State) and all(
            shapes.get(each.name) == each.shape for each in self.states
        ):
            return state
        what = shapes or f"a {type(state).__name__}"
        raise UsageError(
            f"the state is not one of this model: it is {what}",
            hint="make it with make_state of the same model",
        )

    def _predict(
        self, data: Mapping[str, npt.ArrayLike], state: State
    ) -> dict[str, Any]:
        kinds: dict[str, Any] = self._program.inputs
        values: dict[str, Value] = {
            feature.name: to_tensor(feature, data, kinds[feature.name])
            for feature in self.inputs
        }
        values |= state.cells
        results = self._program.run(
            {},
            Execution(self._rounding, self.limits),
            *(values[name] for name in kinds),
        )
        outputs = dict(zip(self._program.results, results, strict=True))
        return {
            feature.name: from_value(
                feature, outputs[feature.name], self._program.outputs[feature.name]
            )
            for feature in self.outputs
        }

    def _names(self) -> list[str]:
        return [feature.name for feature in self.inputs]


def load(
    path: Path | str,
    *,
    function_name: str | None = None,
    precision: Precision = "program",
    limits: Limits = DEFAULT_LIMITS,
) -> Model:
    """
    Open a package that holds an ML program, to run it.

    Args:
        path: The `.mlpackage`.
        function_name: The function to run; by default the package's default.
        precision: "program" rounds each result to the dtype that the program gives it;
            "float32" computes float16 values in float32, without rounding.
        limits: The memory (in elements) and the time (in iterations) that the program
            may take.

    Returns:
        The program.

    Raises:
        UsageError: There is no such package, function or precision.
        InvalidProgramError: The package is damaged.
        UnsupportedError: Kinds of models, ops, their inputs or dtypes are not known
            (lists all of them), or constants exceed `limits`.

    Example:
        >>> import padc, torch
        >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
        >>> model = padc.coreml.load("relu.mlpackage")
        >>> [feature.name for feature in model.inputs]
        ['input']
    """
    if precision not in ("program", "float32"):
        raise UsageError(f"precision {precision!r} is not 'program' or 'float32'")
    if not isinstance(cast(Any, limits), Limits):
        raise UsageError(f"limits are {limits!r}, not padc.coreml.Limits")
    package = Package(path)
    spec = package.spec
    package.check_kind()
    name, description = _function(spec, function_name)
    inputs = tuple(describe(item) for item in description.input)
    outputs = tuple(describe(item) for item in description.output)
    states = tuple(describe(item) for item in description.state)
    rounding = precision == "program"
    function = spec.mlProgram.functions[name]
    with np.errstate(all="ignore"):
        program = load_program(package, function, Execution(rounding, limits))
    for described, defined in (
        ((*inputs, *states), program.inputs),
        (outputs, program.results),
    ):
        if sorted(feature.name for feature in described) != sorted(defined):
            raise InvalidProgramError(
                f"{path} describes {[feature.name for feature in described]}, "
                f"its function {name!r} has {list(defined)}"
            )
    arrays = tuple(feature for feature in outputs if feature.dtype != object)
    _check_features(inputs, program.inputs, TensorType, limits)
    _check_features(states, program.inputs, StateType, limits)
    _check_features(arrays, program.outputs, TensorType, limits)
    metadata = dict(spec.description.metadata.userDefined)
    for key in (BUFFERS, FEATURES):
        if (own := metadata.get(metadata_key(key, name))) is not None:
            metadata[key] = own
    return Model(inputs, outputs, states, program, rounding, limits, metadata)


def _check_features(
    features: tuple[Feature, ...],
    kinds: Mapping[str, ValueType],
    form: type[ValueType],
    limits: Limits,
) -> None:
    """Raise the errors of `load` if a program has values of another form."""
    for feature in features:
        if not isinstance(kind := kinds[feature.name], form):
            raise InvalidProgramError(
                f"{feature.name!r}, described as {feature.expected}, is a {kind}"
            )
        try:
            limits.check_size(feature.shape, repr(feature.name))
        except Obstacle as error:
            problem = Problem(error.message, hint=error.hint)
            raise UnsupportedError([problem]) from error


def _function(spec: Message, wanted: str | None) -> tuple[str, Message]:
    """The name of a function, and the message that describes its inputs and outputs."""
    described = {item.name: item for item in spec.description.functions}
    default = spec.description.defaultFunctionName or "main"
    name = wanted or default
    # A list: protobuf's maps raise for names that are not text.
    functions = [*spec.mlProgram.functions]
    if name not in functions or (described and name not in described):
        known = ", ".join(map(repr, sorted(spec.mlProgram.functions)))
        if wanted is None:
            raise InvalidProgramError(f"no function {name!r} among {known}")
        raise UsageError(f"no function {name!r}", hint=f"there are {known}")
    return name, described.get(name, spec.description)
