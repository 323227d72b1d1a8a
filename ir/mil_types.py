"""Core ML's element types, states and constants, in the IR and in Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    irdl_attr_definition,
    param_def,
)
from xdsl.printer import Printer

from padc.errors import Obstacle
from padc.ir.element_types import describe_element
from padc.ir.mil_forms import ANY, FLOATS, INTEGERS
from padc.ir.type_tests import is_integer
from padc.ir.weights import numpy_dtype

Constant = (
    bool
    | int
    | float
    | str
    | npt.NDArray[Any]
    | DenseResourceAttr
    | Sequence["Constant"]
)
"""A constant input in Python; `DenseResourceAttr` is one in the context's `Weights`."""


def unsigned(width: int) -> IntegerType:
    return IntegerType(width, Signedness.UNSIGNED)


ELEMENT_TYPES: dict[Attribute, str] = {
    f16: "fp16",
    f32: "fp32",
    i1: "bool",
    IntegerType(4): "int4",
    i8: "int8",
    i16: "int16",
    i32: "int32",
    i64: "int32",
    **{unsigned(width): f"uint{width}" for width in (1, 2, 3, 4, 6, 8, 16, 32)},
}
"""Core ML's name of each of its element types."""

NUMPY_TYPES: dict[np.dtype[Any], AnyDenseElement] = {
    numpy_dtype(type_): type_
    for type_ in (f16, f32, i1, i8, i16, i32, i64, *map(unsigned, (8, 16, 32)))
}
"""The element type of an array of each numpy dtype."""


@irdl_attr_definition
class StateType(ParametrizedAttribute, TypeAttribute):
    """A tensor that a program keeps between predictions."""

    name = "mil.state"

    tensor: TensorType[Attribute] = param_def()


STATE = "state"
"""The domain of inputs that are states."""


def constant_attr(value: Constant | Attribute | np.generic) -> Attribute:
    """
    A constant as an attribute.

    numpy's numbers keep their dtype. Python's get an element type from the op.
    """
    match value:
        case Attribute():
            return value
        case bool():
            return IntegerAttr.from_bool(value)
        case int():
            return IntegerAttr(value, i64)
        case str():
            return StringAttr(value)
        case np.ndarray() | np.generic():  # before float, which np.float64 is
            return dense_attr(np.asarray(cast(Any, value)))
        case Iterable():
            return ArrayAttr(map(constant_attr, cast(Iterable[Any], value)))
        case _:
            return FloatAttr(value, f64)


def dense_attr(array: npt.NDArray[Any]) -> DenseIntOrFPElementsAttr[Any]:
    """An array as an attribute."""
    if (element := NUMPY_TYPES.get(array.dtype)) is None:
        raise ValueError(f"Core ML has no constants of dtype {array.dtype}")
    type_ = TensorType(element, array.shape)
    return DenseIntOrFPElementsAttr(type_, BytesAttr(array.tobytes()))


def constant_of(attribute: Attribute) -> Constant:
    """The Python value of a constant: the inverse of `constant_attr`."""
    match attribute:
        case IntegerAttr() if attribute.type == i1:
            return attribute.value.data != 0
        case IntegerAttr():
            return attribute.value.data
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return [constant_of(item) for item in attribute]
        case DenseIntOrFPElementsAttr():
            dtype = numpy_dtype(cast(Attribute, attribute.get_element_type()))
            data = np.frombuffer(attribute.data.data, np.uint8)
            data = data != 0 if dtype == np.bool_ else data.view(dtype)
            return data.reshape(attribute.get_shape())
        case DenseResourceAttr():
            return attribute
        case _:
            raise ValueError(f"{attribute} is not a constant of Core ML")


def constant_types(attribute: Attribute) -> frozenset[str]:
    """The element types of a constant, by Core ML's names."""
    match attribute:
        case IntegerAttr(type=type_):
            return INTEGERS if type_ == i64 else _element_type(type_)
        case FloatAttr(type=type_):
            return FLOATS if type_ == f64 else _element_type(type_)
        case StringAttr():
            return frozenset({"string"})
        case ArrayAttr():
            items = attribute
            return ANY.intersection(*map(constant_types, items))
        case DenseIntOrFPElementsAttr() | DenseResourceAttr():
            return _element_type(cast(TensorType, attribute.type).element_type)
        case _:
            return frozenset()


def element_types(value: SSAValue) -> frozenset[str]:
    """
    A set of Core ML's name of a tensor's element type; empty if Core ML lacks it.

    `STATE` for a state.
    """
    if isinstance(value.type, StateType):
        return frozenset({STATE})
    if isinstance(type_ := value.type, TensorType):
        return _element_type(cast(TensorType, type_).element_type)
    return frozenset()


def _element_type(type_: Attribute) -> frozenset[str]:
    return frozenset({ELEMENT_TYPES[type_]} if type_ in ELEMENT_TYPES else ())


def element_type_name(element: Attribute) -> str:
    """Core ML's name of an element type, signed or not; Obstacle if it lacks it."""
    signless = element
    if is_integer(element):
        if element.signedness.data == Signedness.SIGNED:
            signless = IntegerType(element.width.data)
    if (name := ELEMENT_TYPES.get(signless)) is None:
        raise Obstacle(
            f"Core ML has no {describe_element(element)}",
            hint="use float32: .float() on the model and its inputs"
            if isinstance(element, AnyFloat)
            else "use float32, bool or int32; for complex numbers, torch.view_as_real",
        )
    return name


def print_constant(printer: Printer, attribute: Attribute) -> None:
    """Print a constant as the parser reads it, without types that the parser infers."""
    match attribute:
        case IntegerAttr() if attribute.type == i64:
            printer.print_string(str(attribute.value.data))
        case FloatAttr() if attribute.type == f64 and math.isfinite(
            value := attribute.value.data
        ):
            mantissa, exponent, power = repr(value).partition("e")
            point = "" if "." in mantissa else ".0"
            printer.print_string(f"{mantissa}{point}{exponent}{power}")
        case ArrayAttr():
            with printer.in_square_brackets():
                printer.print_list(
                    attribute,
                    lambda item: print_constant(printer, item),
                )
        case _:
            printer.print_attribute(attribute)
