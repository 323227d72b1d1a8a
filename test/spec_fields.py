# pyright: basic
"""What an app sees of a package, and the fields in which two packages differ."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import coremltools
from google.protobuf.message import Message

from padc.backends.coreml import quiet

ct: Any = coremltools


def interface_of(package: Any) -> Message:
    """
    The specification of a package, without its ops, and without what says who made it.

    What is left: the version, descriptions, inputs, outputs, states, classes, functions
    and their inputs. A path is loaded by coremltools' own `MLModel`.
    """
    if isinstance(package, Path):
        with quiet():
            package = ct.models.MLModel(str(package), skip_model_load=True)
    spec = type(package.get_spec())()
    spec.CopyFrom(package.get_spec())
    spec.description.metadata.userDefined.clear()
    spec.mlProgram.attributes.clear()  # Which versions converted it.
    for function in spec.mlProgram.functions.values():
        function.block_specializations.clear()
        function.attributes.clear()
    return spec


def differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Each field that differs: `description.input[0].name: 'x', theirs is 'y'`."""
    if isinstance(ours, Message):
        set_fields = {f.name for m in (ours, theirs) for f, _ in m.ListFields()}
        for name in ours.DESCRIPTOR.fields_by_name:
            if name in set_fields:
                inner = f"{where}.{name}" if where else name
                yield from differences(
                    getattr(ours, name), getattr(theirs, name), inner
                )
    elif isinstance(ours, Mapping) and {*ours} == {*theirs}:
        for key in ours:
            yield from differences(ours[key], theirs[key], f"{where}[{key!r}]")
    elif is_list(ours) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{where}[{index}]")
    elif is_list(ours) or isinstance(ours, Mapping) or ours != theirs:
        yield f"{where}: {short(ours)}, theirs is {short(theirs)}"


def is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


def short(value: Any) -> str:
    return " ".join((str([*value]) if is_list(value) else repr(value)).split())
