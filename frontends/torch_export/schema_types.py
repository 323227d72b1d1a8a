# pyright: reportPrivateUsage=false
"""
Check the JSON of a `.pt2` file against PyTorch's serialization schema.

PyTorch builds the classes of its schema from JSON without checking the types of plain
fields: a name may be a number, which then fails somewhere else.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, cast

from torch._export.serde import schema
from torch._export.serde.union import _Union


def check_types(value: Any, hint: Any = schema.ExportedProgram, at: str = "") -> None:
    """Raise ValueError unless a part of a program, `at` its place, has the type."""
    arguments = typing.get_args(hint)
    match typing.get_origin(hint):
        case typing.Union | types.UnionType:
            if value is not None:
                (other,) = {*arguments} - {type(None)}
                check_types(value, other, at)
        case origin if origin is list:
            check_is(value, list, at)
            for number, each in enumerate(value):
                check_types(each, arguments[0], f"{at}[{number}]")
        case origin if origin is dict:
            check_is(value, dict, at)
            for key, each in cast(Mapping[Any, Any], value).items():
                check_types(each, arguments[1], f"{at}[{key!r}]")
        case _:
            check_class(value, hint, at)


def check_class(value: Any, hint: Any, at: str) -> None:
    """`check_types` of a class of the schema, or of a plain one."""
    if issubclass(hint, _Union):
        check_is(value, hint, at)
        check_types(value.value, hints_of(hint)[str(value.type)], f"{at}.{value.type}")
    elif dataclasses.is_dataclass(hint):
        check_is(value, hint, at)
        for name, type in hints_of(hint).items():
            check_types(getattr(value, name), type, f"{at}.{name}")
    else:
        # PyTorch leaves numbers of enumerations as they are.
        check_is(value, int if issubclass(hint, IntEnum) else hint, at)


@functools.cache
def hints_of(kind: Any) -> Mapping[str, Any]:
    """The types of the fields of a class of the schema."""
    return typing.get_type_hints(kind, dict(vars(schema)))


def check_is(value: Any, kind: Any, at: str) -> None:
    if type(value) is not kind:
        name = type(value).__name__
        raise ValueError(f"{at.lstrip('.')} is not {kind.__name__}, but {name}")
