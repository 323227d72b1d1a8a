# pyright: basic
"""The arguments of a kernel: which types its annotations accept, and their values."""

from typing import Any, Literal, get_args, get_origin

from padc.backends.coreml.evaluator.ops import (
    AnyValue,
    Bool,
    Float,
    Int,
    Number,
    UnknownValueError,
)
from padc.backends.coreml.evaluator.values.types import (
    BOOL,
    Array,
    Dtype,
    ListType,
    StateCell,
    StateType,
    StringType,
    TensorList,
    TensorType,
)

LONGEST_LIST = 2**16
"""Elements of an input that is read as a list: sizes, axes, amounts of padding."""


def required(annotation: Any) -> Any:
    """`annotation` without its `| None`."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    is_optional = type(None) in get_args(annotation)
    return options[0] if is_optional else annotation


def accepted(annotation: Any) -> tuple[Any, str, Any]:
    """The values of an annotation: class of type; dtype, in words and as a test."""

    def is_int(dtype: Dtype) -> bool:
        return not dtype.is_float and dtype is not BOOL

    if annotation is str or get_origin(annotation) is Literal:
        return StringType, "a string", None
    if annotation is TensorList:
        return ListType, "a list", None
    if annotation is StateCell:
        return StateType, "a state", None
    if annotation in (AnyValue, list[AnyValue]):
        return object, "a value", lambda dtype: True
    if annotation in (bool, list[bool], Bool):
        return TensorType, "bool", lambda dtype: dtype is BOOL
    if annotation in (int, list[int], Int):
        return TensorType, "an integer type", is_int
    if annotation == Float:
        return TensorType, "fp16 or fp32", lambda dtype: dtype.is_float
    if annotation in (float, Number):
        return (
            TensorType,
            "a float or integer type",
            lambda dtype: dtype is not BOOL,
        )
    return TensorType, "a tensor", lambda dtype: True


NUMBERS = (bool, int, float, list[bool], list[int], list[float])


def read_argument(annotation: Any, values: list[Any]) -> Any:
    """The argument for an annotation, from the values of the input."""
    annotation = required(annotation)
    if annotation in (list[Array], list[AnyValue]):
        return values
    if annotation in NUMBERS and any(isinstance(value, list) for value in values):
        raise ValueError("it is a list of tensors")
    if get_origin(annotation) is list:
        if (count := sum(value.size for value in values)) > LONGEST_LIST:
            raise ValueError(f"{count} values are too many for a list")
        return [item for value in values for item in value.reshape(-1).tolist()]
    (value,) = values
    if annotation in (int, float, bool):
        return annotation(value.item())
    if get_origin(annotation) is Literal and value not in get_args(annotation):
        known = ", ".join(map(repr, get_args(annotation)))
        raise UnknownValueError(f"{value!r} is not one of {known}")
    return value
