"""What the machine code of a function takes, in the order of its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from padc.backends.reference.dtypes import torch_dtype
from padc.ir.tcp import AnyTensor
from padc.ir.torch import VTensorType
from padc.passes.buffers.builder import AnyMemRef

Kind: TypeAlias = Literal["input", "weight", "result", "arena"]


@dataclass(frozen=True)
class Parameter:
    """An argument of the machine code."""

    kind: Kind
    dtype: str | None
    """PyTorch's name of it; None of an integer, and of what is not a tensor."""
    shape: tuple[int, ...]
    """Less than 0 where a size is dynamic."""
    weight: str | None = None
    """The name of a weight."""

    @cached_property
    def torch_dtype(self) -> torch.dtype | None:
        return None if self.dtype is None else getattr(torch, self.dtype)

    @cached_property
    def bytes(self) -> int:
        """How many its elements take, where all sizes are static."""
        assert self.torch_dtype is not None
        return math.prod(self.shape) * self.torch_dtype.itemsize

    @cached_property
    def dynamic(self) -> Sequence[int]:
        """The dimensions whose sizes are dynamic."""
        return [dim for dim, size in enumerate(self.shape) if size < 0]

    def address_in(self, value: Any) -> int:
        """Where the elements of `value` are, if code can use them; if not, 0."""
        if not self.fits(value) or not value.is_contiguous() or value.is_neg():
            return 0
        return begin_of(value)

    def fits(self, value: Any) -> bool:
        """Whether `value` is such a tensor, dense, in the CPU's memory."""
        return self.has_type(value) and value.is_cpu and value.layout is torch.strided

    def has_type(self, value: Any) -> bool:
        """Whether `value` is a tensor of the dtype and the static sizes."""
        if not isinstance(value, torch.Tensor) or value.dtype is not self.torch_dtype:
            return False
        try:
            shape = value.shape
        except RuntimeError:  # Nested tensors have none.
            return False
        if not self.dynamic:
            return shape == self.shape
        return len(shape) == len(self.shape) and all(
            static < 0 or static == size
            for size, static in zip(shape, self.shape, strict=True)
        )


@dataclass(frozen=True)
class Signature:
    """The arguments of a function, after `plan-buffers`."""

    parameters: Sequence[Parameter]
    arena_bytes: int | None
    """None where that depends on the sizes of the inputs."""
    live_bytes: int
    """How many of the arena's bytes are in use at once; of static buffers alone."""

    def to_json(self) -> Any:
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> Signature:
        parameters = [
            Parameter(p["kind"], p["dtype"], tuple(p["shape"]), p["weight"])
            for p in data["parameters"]
        ]
        return Signature(parameters, data["arena_bytes"], data["live_bytes"])


def begin_of(tensor: torch.Tensor) -> int:
    """Where its memory begins; 0 of what has none, as what stands for others."""
    try:
        return tensor.data_ptr()
    except RuntimeError:  # In `torch.vmap`, and of sparse tensors.
        return 0


def dtype_name(type: Attribute) -> str | None:
    """The dtype of a tensor, with the sign that its buffer has not."""
    if isinstance(type, VTensorType) or isa(type, AnyTensor):
        return str(torch_dtype(type.element_type)).removeprefix("torch.")
    return None


def signature_of(
    planned: func.FuncOp, inputs: Sequence[Attribute], results: Sequence[Attribute]
) -> Signature:
    """The signature of a planned function, once one of tensors of these types."""
    arguments = list(planned.body.block.args)
    attributes = planned.arg_attrs
    parameters: list[Parameter] = []
    first_result = len(arguments) - 1 - len(results)
    for i, argument in enumerate(arguments):
        type = argument.type
        shape = tuple(type.get_shape()) if isa(type, AnyMemRef) else ()
        if i < len(inputs):
            parameters.append(Parameter("input", dtype_name(inputs[i]), shape))
        elif i < first_result:
            name = attributes.data[i].data["padc.weight"] if attributes else None
            assert isinstance(name, StringAttr)
            parameters.append(Parameter("weight", None, shape, name.data))
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


def integer(attribute: Attribute | None) -> int | None:
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None
