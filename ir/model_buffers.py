"""
The buffers that a program changes.

Such a buffer is an argument of `@main`, and its new value is a result, so that the
program stays functional. The attributes of the argument have the buffer's name in the
model (`padc.buffer`) and its value when the program was exported (`padc.initial`); the
attribute `padc.updates` of the result has the buffer's name. At the mil level, the
argument can be a Core ML state instead, which has no result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    LocationAttr,
    StringAttr,
    UnknownLoc,
    bf16,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from padc.errors import InvalidProgramError
from padc.ir.type_tests import is_tensor
from padc.ir.weights import Array, Weights, float32_of_bfloat16

BUFFER, INITIAL, UPDATES = "padc.buffer", "padc.initial", "padc.updates"

Initial = DenseResourceAttr | DenseIntOrFPElementsAttr


@dataclass(frozen=True)
class ChangedBuffer:
    """A buffer that a program changes."""

    name: str
    """Its name in the model."""
    argument: int
    """The position of the argument."""
    result: int | None
    """The position of the result; None for a state."""
    initial: Initial

    def initial_array(self, weights: Weights) -> Array:
        """The value at export; float32 for bfloat16, which numpy does not have."""
        array, type = weights.array(self.initial), self.initial.get_type()
        if is_tensor(type) and type.element_type == bf16:
            return float32_of_bfloat16(array)
        return array

    def location(self, function: FuncOp) -> LocationAttr:
        """The line of `function` that computes the new value; unknown for a state."""
        returned = function.get_return_op()
        if returned is None or self.result is None:
            return UnknownLoc()
        owner = returned.operands[self.result].owner
        return owner.location if isinstance(owner, Operation) else UnknownLoc()


def changed_buffers(function: FuncOp) -> list[ChangedBuffer]:
    """
    The buffers that `function` changes, in the order of the arguments.

    Raises InvalidProgramError if arguments and results do not correspond.
    """
    results = {
        name: position
        for position, each in enumerate(entries(function.res_attrs))
        if (name := text(each, UPDATES)) is not None
    }
    found: list[ChangedBuffer] = []
    for position, each in enumerate(entries(function.arg_attrs)):
        if (name := text(each, BUFFER)) is None:
            continue
        initial = each.get(INITIAL)
        if not isinstance(initial, DenseResourceAttr | DenseIntOrFPElementsAttr):
            raise InvalidProgramError(f"the buffer '{name}' has no {INITIAL}")
        value = cast(Initial, initial)
        found.append(ChangedBuffer(name, position, results.pop(name, None), value))
    if results:
        raise InvalidProgramError(f"no argument is the buffer '{min(results)}'")
    return found


def changed_names(function: FuncOp) -> list[str]:
    """The names of the buffers among the arguments of `function`."""
    names = [text(each, BUFFER) for each in entries(function.arg_attrs)]
    return [name for name in names if name is not None]


def entries(
    attributes: ArrayAttr[DictionaryAttr] | None,
) -> Sequence[Mapping[str, Attribute]]:
    """The attributes of each argument or result."""
    return [each.data for each in attributes or ()]


def text(entry: Mapping[str, Attribute], key: str) -> str | None:
    """A string among the attributes of an argument or result."""
    value = entry.get(key)
    return value.data if isinstance(value, StringAttr) else None


def buffer_attributes(argument: str, name: str, initial: Initial) -> DictionaryAttr:
    """The attributes of the argument `argument`, which is the buffer `name`."""
    return DictionaryAttr(
        {"padc.name": StringAttr(argument), BUFFER: StringAttr(name), INITIAL: initial}
    )


def update_attributes(result: str, name: str) -> DictionaryAttr:
    """The attributes of the result `result`, which is the new value of `name`."""
    return DictionaryAttr({"padc.name": StringAttr(result), UPDATES: StringAttr(name)})
