# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
The inputs and outputs that an app wants, as `padc.convert` is told of them.

They are described by coremltools' own classes. This file reads the descriptions, and
matches each with the input or output of the program that it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp

from padc.backends.coreml import quiet
from padc.backends.coreml.app.image_type import NormalizedImage
from padc.backends.coreml.app.labels import Classifier, classifier_of
from padc.backends.coreml.app.metadata import checked_metadata
from padc.backends.coreml.checker.check import RESERVED
from padc.errors import UsageError
from padc.ir import mil_types
from padc.ir.model_buffers import BUFFER, UPDATES, entries, text
from padc.ir.names import identifier

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.input_types import InputType

Given: TypeAlias = "Sequence[InputType] | Mapping[str, InputType] | None"
"""Descriptions in the model's order, or by the model's names."""


@dataclass(frozen=True)
class Features:
    """What `padc.convert` was told about the inputs and outputs; see there."""

    inputs: Given = None
    outputs: Given = None
    classifier: Classifier | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(
        cls, inputs: Any, outputs: Any, classifier_config: Any, metadata: Any
    ) -> Features:
        """Check what can be checked without the program; raises UsageError."""
        return cls(
            checked("inputs", inputs),
            checked("outputs", outputs),
            classifier_of(classifier_config),
            checked_metadata(metadata),
        )

    def of_inputs(self, function: FuncOp) -> list[InputType | None]:
        """The description of each argument; None for buffers and undescribed ones."""
        names = model_names("input", entries(function.arg_attrs), BUFFER)
        names += [None] * (len(function.args) - len(names))
        for argument in function.args:
            if isinstance(argument.type, mil_types.StateType):
                names[argument.index] = None
        return matched("input", self.inputs, names)

    def of_outputs(self, function: FuncOp) -> list[InputType | None]:
        """The description of each result; None for buffers and undescribed ones."""
        names = result_names(function)
        found = matched("output", self.outputs, names)
        for name, each in zip(names, found, strict=True):
            if each is not None:
                check_output(name, each)
        return found


def checked(argument: str, given: Any) -> Given:
    """`given` if it holds descriptions only; raises UsageError."""
    if given is None:
        return None
    if not isinstance(given, list | tuple | Mapping):
        raise UsageError(
            f"{argument} is a {type(given).__name__}",
            hint="give a list of ct.TensorType and ct.ImageType in the model's order, "
            "or a dictionary of them by the model's names",
        )
    is_mapping = isinstance(given, Mapping)
    each: Iterable[Any] = given.items() if is_mapping else enumerate(given)
    for key, entry in each:
        if not isinstance(entry, ct.TensorType | ct.ImageType):
            raise UsageError(
                f"{argument} has a {type(entry).__name__}",
                hint="describe each by a ct.TensorType or a ct.ImageType; the states "
                "policy of padc.convert decides about states",
            )
        if entry.name is not None:
            check_name(entry.name)
        check_ranges(f"{argument}[{key!r}]", entry.shape)
    return given


def check_ranges(what: str, shape: Any) -> None:
    """Raise UsageError for a range that has no sizes."""
    listed = [each.shape for each in getattr(shape, "shapes", [shape]) if each]
    for size in (size for sizes in listed for size in sizes):
        if not isinstance(size, ct.RangeDim):
            continue
        low, high = size.lower_bound, size.upper_bound
        is_whole = all(isinstance(x, int | np.integer) for x in (low, high))
        # An upper bound of -1 stands for none.
        if not is_whole or low < 1 or (high < low and high != -1):
            raise UsageError(
                f"{what} has a size from {low} to {high}",
                hint="give whole numbers from 1 on, the smallest size first: "
                "ct.RangeDim(lower_bound, upper_bound)",
            )


def check_name(name: Any) -> None:
    """Raise UsageError for a name that Core ML does not take."""
    if not isinstance(name, str) or name in RESERVED or identifier(name) != name:
        raise UsageError(
            f"Core ML cannot have an input or output named {name!r}",
            hint="names have letters, digits and _, no digit first, and are no words "
            "of MIL such as 'state' or 'tensor'",
        )


def model_names(
    kind: str, attributes: Iterable[Mapping[str, Any]], buffer: str
) -> list[str | None]:
    """The model's name of each input or output; None for a buffer."""
    return [
        None if text(each, buffer) else text(each, "padc.name") or f"{kind}_{index}"
        for index, each in enumerate(attributes)
    ]


def result_names(function: FuncOp) -> list[str | None]:
    """The model's name of each result; None for the new value of a buffer."""
    returned = function.get_return_op()
    count = 0 if returned is None else len(returned.operands)
    attributes = [*entries(function.res_attrs)] or [{}] * count
    return model_names("output", attributes, UPDATES)


def matched(
    kind: str, given: Given, names: Sequence[str | None]
) -> list[InputType | None]:
    """The description for each name, in order or by name; raises UsageError."""
    known = [name for name in names if name is not None]
    if given is None:
        return [None] * len(names)
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in known]:
            raise UsageError(
                f"the model has no {kind} '{unknown[0]}'",
                hint=f"its {kind}s are {', '.join(known)}",
            )
        return [None if name is None else given.get(name) for name in names]
    if len(given) != len(known):
        raise UsageError(
            f"{kind}s describes {len(given)} {kind}s, the model has {len(known)}: "
            f"{', '.join(known)}",
            hint="describe each in the model's order, or some by {name: type}",
        )
    chosen = [each.name for each in given]
    if chosen != known and sorted(map(str, chosen)) == sorted(known):
        raise UsageError(
            f"{kind}s names {', '.join(map(str, chosen))}, the model's order is "
            f"{', '.join(known)}: a list gives the {kind}s new names in order",
            hint="describe them in the model's order, or by {name: type}",
        )
    remaining = iter(given)
    return [None if name is None else next(remaining) for name in names]


def check_output(name: str | None, described: Any) -> None:
    """Raise UsageError for a description that only an input can have."""
    if described.shape is not None:
        raise UsageError(
            f"the description of output '{name}' has a shape",
            hint="leave it out: the shapes of outputs follow from the inputs'",
        )
    if getattr(described, "default_value", None) is not None:
        raise UsageError(
            f"the description of output '{name}' has a default value",
            hint="only inputs can be left out",
        )
    if isinstance(described, NormalizedImage):
        raise UsageError(
            f"the description of output '{name}' has a mean and std, which say how an "
            "input is normalized",
            hint="a pixel of an output is scale * value + bias: for a model that "
            "returns normalized images, 255 * std and 255 * mean",
        )
