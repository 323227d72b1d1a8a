"""The parameters of a compiled function in order, and the size of its arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from padc.backends.calls.parameters import Parameter
from padc.errors import SourceLocation
from padc.ir.element_types import describe_element
from padc.ir.torch.tensors import dtype_name
from padc.passes.buffers_to_llvm.access_check import locations
from padc.passes.common.memref_builder import AnyMemRef


@dataclass(frozen=True)
class Access:
    """An op whose loads and stores are checked."""

    name: str
    """The ATen op that it was lowered from; else its own name."""
    location: SourceLocation | None

    @staticmethod
    def from_json(data: Any) -> Access:
        where = data["location"]
        return Access(data["name"], where and SourceLocation(**where))


@dataclass(frozen=True)
class Signature:
    """The parameters of a function after `plan-buffers`."""

    parameters: Sequence[Parameter]
    arena_bytes: int | None
    """The size of the arena; None where it depends on the sizes of the inputs."""
    live_bytes: int
    """The most bytes of the arena in use at once, counting static buffers only."""
    accesses: Sequence[Access] | None = None
    """The ops with numbers from 1 on; None if loads and stores are not checked."""

    def to_json(self) -> Any:
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> Signature:
        parameters = [
            Parameter(**{name: hashable(value) for name, value in each.items()})
            for each in data["parameters"]
        ]
        accesses = data["accesses"] and [
            Access.from_json(each) for each in data["accesses"]
        ]
        return Signature(parameters, data["arena_bytes"], data["live_bytes"], accesses)


def signature_of(
    planned: func.FuncOp, inputs: Sequence[Attribute], results: Sequence[Attribute]
) -> Signature:
    """
    The signature of a planned function.

    `inputs` and `results` are its types before bufferization, when they were tensors.
    """
    arguments = list(planned.body.block.args)
    attributes = planned.arg_attrs
    parameters: list[Parameter] = []
    first_result = len(arguments) - 1 - len(results)
    for i, argument in enumerate(arguments):
        type = argument.type
        shape = tuple(type.get_shape()) if isa(type, AnyMemRef) else ()
        if i < len(inputs):
            # The buffer's type does not say whether its integers are signed.
            parameters.append(Parameter("input", dtype_name(inputs[i]), shape))
        elif i < first_result:
            assert attributes is not None
            own = attributes.data[i].data
            name = own["padc.weight"]
            assert isinstance(name, StringAttr)
            split, order = (integers(own.get(f"padc.{x}")) for x in ("split", "order"))
            narrow = own.get("padc.narrow")
            parameters.append(
                Parameter(
                    "weight",
                    None,
                    shape,
                    weight=name.data,
                    split=split,
                    order=order,
                    narrow=None if narrow is None else describe_element(narrow),
                    tile=integer(own.get("padc.tile")),
                )
            )
        elif i < len(arguments) - 1:
            dtype = dtype_name(results[i - first_result])
            parameters.append(Parameter("result", dtype, shape))
        else:
            parameters.append(Parameter("arena", None, shape))
    return Signature(
        parameters,
        integer(planned.attributes.get("padc.arena_bytes")),
        integer(planned.attributes.get("padc.live_bytes")) or 0,
    )


def accesses_of(module: ModuleOp) -> list[Access]:
    """The ops of a module whose loads and stores `convert-buffers-to-llvm` checks."""
    return [
        Access(where.desc.data, SourceLocation.of(where)) for where in locations(module)
    ]


def integer(attribute: Attribute | None) -> int | None:
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def integers(attribute: Attribute | None) -> tuple[int, ...] | None:
    return attribute.get_values() if isa(attribute, DenseArrayBase[I64]) else None


def hashable(value: Any) -> Any:
    """A value that was read from JSON, with lists as tuples."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
