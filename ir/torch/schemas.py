"""ATen's schemas: the names, arguments and results of its ops."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute

from padc.ir.torch.types import (
    BoolType,
    DeviceType,
    FloatType,
    GeneratorType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    VTensorType,
)

PythonValue: TypeAlias = "int | float | bool | str | list[PythonValue] | None"

ON_COMPLEX = "complex "
"""
Precedes the name of a schema among those that a path has on complex tensors.

A path that has an op on real tensors need not have it on complex ones.
"""

NOT_ON_HIGH_RANK = "not on high rank "
"""
Precedes the name of a schema that a path has, but not on tensors of high rank.

These have more dimensions than Core ML's tensors.
"""


@dataclass(frozen=True)
class Argument:
    """An argument of an op, or one of its results."""

    name: str
    """As in PyTorch's documentation; "" for a result without a name."""
    type: str
    """As ATen writes it: `Tensor`, `SymInt[2]`, `Scalar?`, `Tensor?[]`."""
    default: PythonValue = None
    has_default: bool = False


@dataclass(frozen=True)
class Schema:
    """An ATen schema: the name, arguments and results of an op."""

    name: str
    """`aten.conv2d.padding`: namespace, op, overload (empty for the default)."""
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @functools.cached_property
    def positions(self) -> Mapping[str, int]:
        """The index of each argument, by name."""
        return {argument.name: i for i, argument in enumerate(self.arguments)}

    @staticmethod
    @functools.cache
    def parse(text: str) -> Schema:
        """A line of `aten_schemas.txt`: `aten::relu(Tensor self) -> Tensor`."""
        match = _SCHEMA.fullmatch(text.lstrip("!~"))
        assert match is not None, text
        name, arguments, returns = match.groups()
        return Schema(
            name.replace("::", "."),
            tuple(map(_argument, _ARGUMENT.finditer(arguments))),
            tuple(map(_argument, _ARGUMENT.finditer(returns))),
        )


_SCHEMA = re.compile(r"([\w:.]+)\((.*)\) -> (.*)")
_ARGUMENT = re.compile(
    r"(?P<type>[A-Za-z][\w?\[\]]*)(?: (?P<name>\w+))?"
    r"(?:=(?P<default>\[[^]]*\]|[^\[,]+))?(?:, |\)|$)"
)


def _argument(match: re.Match[str]) -> Argument:
    type, name, default = match.group("type", "name", "default")
    if default is None:
        return Argument(name or "", type)
    value: PythonValue = ast.literal_eval(default)
    if (size := re.search(r"\[(\d+)\]", type)) and isinstance(value, int | float):
        value = [value for _ in range(int(size[1]))]
    return Argument(name or "", type, value, True)


_TYPES: Mapping[str, type[Attribute] | tuple[type[Attribute], ...]] = {
    "Any": Attribute,
    "Tensor": VTensorType,
    "int": IntType,
    "SymInt": IntType,
    "ScalarType": IntType,
    "Layout": IntType,
    "MemoryFormat": IntType,
    "float": FloatType,
    "bool": BoolType,
    "str": StringType,
    "Scalar": (IntType, FloatType, BoolType, NumberType),
    "Device": DeviceType,
    "Generator": GeneratorType,
}


def fits(type: Attribute, schema_type: str) -> bool:
    """Whether a value of `type` may be passed for ATen's type `schema_type`."""
    if schema_type.endswith("?"):
        if isinstance(type, OptionalType):
            type = type.element_type
        return isinstance(type, NoneType) or fits(type, schema_type[:-1])
    if schema_type.endswith("]"):
        return isinstance(type, ListType) and fits(
            type.element_type, schema_type[: schema_type.rindex("[")]
        )
    return isinstance(type, _TYPES[schema_type])


_VTENSOR = VTensorType(NoneAttr(), NoneAttr())
LIST_ELEMENTS: Mapping[str, Attribute] = {
    "Tensor": _VTENSOR,
    "Tensor?": OptionalType(_VTENSOR),
    "int": IntType(),
    "SymInt": IntType(),
    "float": FloatType(),
    "bool": BoolType(),
    "str": StringType(),
    "Scalar": NumberType(),
}
"""The element type of a list, for each of ATen's element types."""


@functools.cache
def declarations() -> dict[str, str]:
    """The lines of `aten_schemas.txt`, with their flags, by op name."""
    text = (Path(__file__).parent / "aten_schemas.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {
        line[: line.index("(")].lstrip("!~").replace("::", "."): line for line in lines
    }


def schema_of(name: str) -> Schema | None:
    """A schema by its name, "aten.conv2d.padding"; None if it is not listed."""
    text = declarations().get(name)
    return None if text is None else Schema.parse(text)


def overloads_of(schema: Schema) -> Iterator[Schema]:
    """All overloads of one op: `aten.add.Tensor`, `aten.add.Scalar`, ..."""
    packet = ".".join(schema.name.split(".")[:2])
    for name, text in declarations().items():
        if name == packet or name.startswith(f"{packet}."):
            yield Schema.parse(text)
