# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
The inputs and outputs of a program in Core ML.

Core ML has neither inputs of rank 0 nor int64: inputs of rank 0 get the shape [1], and
int64 inputs become int32. Inputs and outputs that it cannot have are refused by name.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from padc.backends.coreml import quiet
from padc.backends.coreml.uninitialized import unfilled
from padc.errors import (
    Obstacle,
    Problem,
    SourceLocation,
    UnsupportedError,
)
from padc.ir import mil
from padc.ir.describe import describe_type, element_type, shape_of
from padc.ir.main_function import main
from padc.ir.names import identifier, unique_name
from padc.ir.size_ranges import ATTRIBUTE, size_ranges
from padc.ir.targets import TARGETS

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.mil import types

INT32 = np.iinfo(np.int32)

OUTSIDE = {"fp32": "iOS15", "int32": "iOS15", "fp16": "iOS16", "int8": "iOS26"}
"""The first target that has inputs and outputs of each of these types."""


def check_interface(module: ModuleOp, target: str) -> None:
    """
    Raise `UnsupportedError` for inputs and outputs of `@main` that Core ML cannot have.

    The module may be at any level. Asked before a program is lowered, so that an
    input is named, and not the first op that it stops.
    """
    interface = Interface(main(module), target)
    with quiet(), warnings.catch_warnings(action="ignore"):
        interface.input_types()
        interface.output_names()
    if interface.problems:
        raise UnsupportedError(interface.problems)


class Interface:
    """The inputs and outputs of a function, and the names in use."""

    def __init__(self, main: FuncOp, target: str):
        self.main = main
        self.target = target
        self.problems: list[Problem] = []
        self.used_names: set[str] = set()
        self.input_names: Sequence[str] = ()
        """The names of the inputs in the package, after `input_types`."""

    def unique(self, name: str) -> str:
        """`name` as an identifier of MIL that differs from every other name."""
        unique = unique_name(identifier(name), self.used_names)
        self.used_names.add(unique)
        return unique

    def names(
        self, kind: str, count: int, attributes: ArrayAttr[DictionaryAttr] | None
    ) -> list[str]:
        """The names of the inputs or outputs in the package."""
        names: list[str] = []
        for index in range(count):
            name = attributes.data[index].data.get("padc.name") if attributes else None
            given = name.data if isinstance(name, StringAttr) else f"{kind}_{index}"
            if (unique := self.unique(given)) != given:
                warnings.warn(
                    f"Core ML cannot have an {kind} '{given}' here: "
                    f"it is '{unique}' in the package",
                    stacklevel=6,
                )
            names.append(unique)
        return names

    def input_types(self) -> Mapping[BlockArgument, Any]:
        """The inputs as coremltools describes them, except those with a problem."""
        arguments = self.main.args
        names = self.names("input", len(arguments), self.main.arg_attrs)
        ranges: dict[str, Any] = {}
        found: dict[BlockArgument, Any] = {}
        self.input_names = names
        for argument, name in zip(arguments, names, strict=True):
            if isinstance(state := argument.type, mil.StateType):
                wrapped: Any = ct.TensorType(None, state.tensor.get_shape(), types.fp16)
                found[argument] = ct.StateType(wrapped, name)
                continue
            try:
                dtype = input_dtype(argument, self.target)
                shape = input_shape(argument, ranges)
            except Obstacle as error:
                text = f"input {name}: {describe_type(argument.type)} {error.message}"
                self.problems.append(Problem(text, None, error.hint))
                continue
            # Core ML has no inputs of rank 0.
            found[argument] = ct.TensorType(name, shape or [1], dtype)
        return found

    def output_names(self) -> Sequence[str]:
        """The names of the outputs; notes those that Core ML cannot have."""
        returned = self.main.get_return_op()
        values = () if returned is None else returned.operands
        names = self.names("output", len(values), self.main.res_attrs)
        for value, name in zip(values, names, strict=True):
            try:
                mil.check_element_type(pymil_dtype(value.type), self.target)
                hint = "return it with dimensions joined"
                check_shape(shape_of(value.type) or (), hint)
                check_filled(value)
            except Obstacle as error:
                text = f"output {name}: {describe_type(value.type)} {error.message}"
                where = location_of(value)
                self.problems.append(Problem(text, where, error.hint))
        return names


def location_of(value: SSAValue) -> SourceLocation | None:
    """Where a value is computed; None for an argument."""
    owner = value.owner
    return SourceLocation.of(owner.location) if isinstance(owner, Operation) else None


def input_dtype(argument: BlockArgument, target: str) -> Any:
    """An input's dtype in the package."""
    dtype = pymil_dtype(argument.type)
    mil.check_element_type(dtype, target)
    return types.string_to_builtin(dtype_outside(dtype, target))


def dtype_outside(dtype: str, target: str) -> str:
    """
    The dtype of an input that the program computes with in `dtype`.

    coremltools would replace an input of another dtype itself, except in the blocks of
    branches and loops.
    """
    since = OUTSIDE.get(dtype)
    if since is not None and TARGETS.index(since) <= TARGETS.index(target):
        return dtype
    return "int32" if "int" in dtype else "fp32"


def input_shape(argument: BlockArgument, ranges: dict[str, Any]) -> list[Any]:
    """The sizes of an input; equal dynamic sizes share a `RangeDim` in `ranges`."""
    shape: list[Any] = list(shape_of(argument.type) or ())
    check_shape(shape, "join dimensions of the input, and reshape it in the model")
    dynamic = [dim for dim, size in enumerate(shape) if size == DYNAMIC_INDEX]
    sizes = size_ranges(argument) if dynamic else []
    if dynamic and not sizes:
        raise Obstacle(
            "has sizes without bounds",
            f"give them by torch.bind_symbolic_shape, or by {ATTRIBUTE}",
        )
    if len(sizes) != len(dynamic):
        raise Obstacle(
            f"has {len(dynamic)} dynamic sizes, and {len(sizes)} ranges in {ATTRIBUTE}"
        )
    for dim, size in zip(dynamic, sizes, strict=True):
        if size.upper >= INT32.max:
            raise Obstacle(
                f"has no upper bound of dimension {dim}, and Core ML needs one",
                hint='give the dimension one: torch.export.Dim("name", max=...)',
            )
        if size.name not in ranges:
            ranges[size.name] = ct.RangeDim(size.lower, size.upper)
        shape[dim] = ranges[size.name]
    return shape


def check_shape(shape: Sequence[int], hint: str) -> None:
    """Raise Obstacle for the shape of an input or output that Core ML cannot have."""
    if len(shape) > mil.MAX_RANK:
        most = f"Core ML's tensors have rank {mil.MAX_RANK} at most"
        raise Obstacle(f"has rank {len(shape)}; {most}", hint)
    if 0 in shape:
        message = "has no elements, and Core ML has no empty tensors"
        raise Obstacle(message, "leave it out")


def check_filled(output: SSAValue) -> None:
    """Raise Obstacle for an output whose numbers PyTorch leaves arbitrary."""
    if (op := unfilled(output)) is not None:
        message = f"is what {op.schema.name} gives: arbitrary numbers"
        raise Obstacle(message, "fill it, or use torch.zeros")


def pymil_dtype(type_: Attribute) -> str:
    """The element type of a tensor in pymil; Obstacle if Core ML lacks it."""
    return mil.element_type_name(element_type(type_))
