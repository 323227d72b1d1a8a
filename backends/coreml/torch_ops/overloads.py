# pyright: basic, reportMissingTypeStubs=false, reportPrivateUsage=false
"""
Which ATen op a node of coremltools' graph calls.

coremltools keeps the name of an op in lower case and without most overloads' names:
the arguments tell which overload it is.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload

from padc.backends.coreml import quiet
from padc.errors import Obstacle
from padc.ir.torch.dtypes import DTYPE_NUMBERS

with quiet():
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic
    from coremltools.converters.mil.mil.var import ListVar, Var

DTYPES = {number: getattr(torch, name) for name, number in DTYPE_NUMBERS.items()}
IGNORED = frozenset(("Layout", "MemoryFormat", "Generator"))
"""Types of arguments that mean nothing to Core ML."""
ALWAYS_INT64 = {torch.int32: torch.int64, torch.float64: torch.float32}
"""coremltools has one number for int32 and int64, and for float32 and float64."""


INTEGER_INSTEAD = frozenset((torch.ops.aten.narrow.Tensor,))
"""Overloads on a tensor that another overload takes as an integer."""


FILLS = {"full": 1, "full_like": 1, "new_full": 2}
"""Where the number is among the arguments of the ops that fill a tensor with it."""


class MisfitError(Exception):
    """A value cannot be passed for an argument."""


@dataclass(frozen=True)
class RuntimeInteger:
    """An element of an int32 variable, which is known only at run time."""

    var: Any
    index: int | None = None
    """Its position in a variable of rank 1; None for one of rank 0."""


@dataclass(frozen=True)
class Call:
    """An ATen op with arguments of the types that its schema has."""

    target: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def overloads_named(kind: str) -> Sequence[OpOverload]:
    """The functional ATen ops with tensor results that a node's kind may mean."""
    if kind.startswith("__"):
        kind = kind.removeprefix("__").removesuffix("__")
    packet, *overload = kind.removesuffix("_").split(".")
    for name in (packet, f"__{packet}__"):
        found = getattr(torch.ops.aten, name, None)
        if found is not None:
            names = [
                n for n in found.overloads() if [n.lower()] == overload or not overload
            ]
            ops = [getattr(found, each) for each in names]
            return [op for op in ops if makes_tensors(op) and op not in INTEGER_INSTEAD]
    return []


@functools.cache
def makes_tensors(op: OpOverload) -> bool:
    """Whether `op` changes nothing in place, and returns tensors only."""
    schema = op._schema
    returned = [str(each.type) for each in schema.returns]
    return (
        torch._C._dispatch_has_kernel(op.name())
        and not schema.is_mutable
        and bool(returned)
        and all(each in ("Tensor", "List[Tensor]") for each in returned)
    )


MISFIT = "takes these arguments"


def call_of(kind: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """The call that a node means; raises Obstacle if no overload fits."""
    kind, args, kwargs = expanded(kind, args, kwargs)
    best: tuple[tuple[int, int], Call] | None = None
    for op in overloads_named(kind):
        try:
            cost, call = fitted(op, args, kwargs)
        except MisfitError:
            continue
        if best is None or cost < best[0]:
            best = cost, call
    if best is None:
        raise Obstacle(
            f"no ATen op '{kind}' {MISFIT}",
            "its numbers have to be real, and those that the model computes integers",
        )
    return best[1]


def expanded(
    kind: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    """
    The op that fills a tensor with a computed float, as one that expands the float.

    `full` and others take Python's numbers only.
    """
    packet = kind.partition(".")[0]
    if (position := FILLS.get(packet)) is None or len(args) <= position:
        return kind, args, kwargs
    like, value = args[0], args[position]
    if not is_computed_float(value) or (isinstance(like, Var) and not is_float(like)):
        return kind, args, kwargs
    dtype = kwargs.get("dtype", (*args, None)[position + 1])
    if converted(dtype, "Optional[ScalarType]", None)[1] not in (None, torch.float32):
        return kind, args, kwargs
    if packet == "full_like":
        return "expand_as", [value, like], {}
    return "expand", [value, args[position - 1]], {}


def is_computed_float(value: Any) -> bool:
    is_number = isinstance(value, Var) and not is_list(value) and value.shape == ()
    return is_number and value.val is None and is_float(value)


def is_float(var: Any) -> bool:
    return var.dtype in (types.fp16, types.fp32)


def fitted(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[int, int], Call]:
    """
    `op` with these arguments, and how far they are from its schema.

    That is how far the types are, then how many arguments are left to defaults.
    """
    arguments = op._schema.arguments
    names = {argument.name for argument in arguments}
    if len(args) > len(arguments) or not kwargs.keys() <= names:
        raise MisfitError
    total = missing = 0
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for index, argument in enumerate(arguments):
        if index < len(args):
            value = args[index]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        elif argument.has_default_value():
            missing += 1
            continue
        else:
            raise MisfitError
        # PyTorch's stubs lack the length of a list that a number may stand for.
        length: int | None = getattr(argument, "N")
        cost, value = converted(value, str(argument.real_type), length)
        total += cost
        if argument.kwarg_only or len(positional) < index:
            named[argument.name] = value
        else:
            positional.append(value)
    return (total, missing), Call(op, positional, named)


def converted(value: Any, type: str, length: int | None) -> tuple[int, Any]:
    """`value` for an argument of `type`, and the cost of the conversion."""
    if type.startswith("Optional["):
        if value is None:
            return 0, None
        type = type[len("Optional[") : -1]
    if type in IGNORED:
        return 0, None
    if type.startswith("List["):
        return converted_list(value, type[len("List[") : -1], length)
    match type:
        case "Tensor":
            return converted_tensor(value)
        case "number" | "float":
            return converted_number(value, type)
        case "int" | "SymInt":
            return converted_integer(value)
        case "bool":
            return 0, converted_bool(value)
        case "str":
            return 0, known(value, str)
        case "Device":
            known(value, str)
            return 0, None
        case "ScalarType":
            dtype = DTYPES.get(known(value, int))
            if dtype is None:
                raise MisfitError
            return 0, ALWAYS_INT64.get(dtype, dtype)
        case _:
            raise MisfitError


def converted_bool(value: Any) -> bool:
    """A bool, which coremltools may have as 0 or 1."""
    if (number := known(value, bool | int)) not in (0, 1):
        raise MisfitError
    return bool(number)


def known(value: Any, type: Any) -> Any:
    """The Python value of a constant of this type."""
    if isinstance(value, Var) and value.val is not None and not is_list(value):
        value = python_value(value.val)
    if not isinstance(value, type):
        raise MisfitError
    return value


def python_value(value: Any) -> Any:
    """A constant of pymil as Python has it."""
    if isinstance(value, np.floating):
        # The shortest number that rounds to it: 0.1, not 0.10000000149.
        return float(str(value))
    if isinstance(value, np.generic) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        return (
            python_value(value[()]) if isinstance(value, np.ndarray) else value.item()
        )
    return value


def is_list(value: Any) -> bool:
    return isinstance(value, ListVar)


def is_tensor(var: Any) -> bool:
    return types.is_tensor(var.sym_type) or types.is_scalar(var.sym_type)


def converted_tensor(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool | int | float):
        return 2, value
    if not isinstance(value, Var) or is_list(value) or not is_tensor(value):
        raise MisfitError
    return 0, value


def converted_number(value: Any, type: str) -> tuple[int, Any]:
    is_variable = isinstance(value, Var)
    try:
        number = known(value, bool | int | float)
    except MisfitError:
        return 2, converted_integer(value)[1]
    # A tensor of rank 0 may be passed as a number, if no overload has a tensor there.
    return int(is_variable), float(number) if type == "float" else number


def converted_integer(value: Any) -> tuple[int, Any]:
    try:
        return 0, int(known(value, bool | int))
    except MisfitError:
        pass
    if isinstance(value, RuntimeInteger):
        return 0, value
    is_integer = isinstance(value, Var) and not is_list(value)
    if (
        not is_integer
        or value.dtype != types.int32
        or tuple(value.shape) not in ((), (1,))
    ):
        raise MisfitError
    if isinstance(value.val, np.ndarray):
        return 0, int(value.val.reshape(()))
    return 0, RuntimeInteger(value, 0 if value.shape else None)


def converted_list(value: Any, type: str, length: int | None) -> tuple[int, Any]:
    if isinstance(value, Var) and not is_list(value) and type != "Tensor":
        value = elements_of(value)
    if not isinstance(value, list | tuple):
        if length is None:
            raise MisfitError
        value = [value] * length
    parts = [converted(part, type, None) for part in value]
    return sum(cost for cost, _ in parts), [part for _, part in parts]


def elements_of(value: Any) -> Any:
    """The elements of a variable of rank 1; other variables as they are."""
    if len(value.shape) != 1 or is_symbolic(value.shape[0]):
        return value
    if value.val is not None:
        return [python_value(part) for part in np.asarray(value.val)]
    if value.dtype != types.int32:
        return value
    partly = value.sym_val
    parts = [None] * value.shape[0] if partly is None else list(partly)
    return [
        RuntimeInteger(value, i) if part is None or is_symbolic(part) else int(part)
        for i, part in enumerate(parts)
    ]
