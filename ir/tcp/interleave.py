"""Interleaving: the inverse of slices with a stride."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from padc.ir.phases import phase_size
from padc.ir.tcp.tensors import (
    AnyTensor,
    IntegerList,
    tensor_type,
    verify_dims,
    verify_positive,
)

__all__ = ["InterleaveOp"]


@irdl_op_definition
class InterleaveOp(IRDLOperation):
    """
    Parts of a tensor, interleaved along some dimensions.

    With stride s, position `s * q + p` of a dimension is position q of a part with
    phase p. There is a part for each choice of phases, in row-major order. In a
    dimension of size D, those with phase p have size `ceil((D - p) / s)`.

    ```mlir
    %y = tcp.interleave %a, %b strides [2] dims [1]
       : (tensor<1x4xf32>, tensor<1x3xf32>) -> tensor<1x7xf32>
    ```
    """

    name = "tcp.interleave"

    parts = var_operand_def(base(AnyTensor))
    strides = prop_def(DenseArrayBase.constr(i64))
    dims = prop_def(DenseArrayBase.constr(i64))
    result = result_def(base(AnyTensor))

    traits = traits_def(Pure())

    custom_directives = (IntegerList,)

    assembly_format = (
        "$parts `strides` custom<IntegerList>($strides) `dims` "
        "custom<IntegerList>($dims) attr-dict `:` `(` type($parts) `)` `->` "
        "type($result)"
    )

    def __init__(
        self,
        parts: Sequence[SSAValue],
        strides: Sequence[int],
        dims: Sequence[int],
        result_type: AnyTensor,
    ):
        super().__init__(
            operands=[parts],
            result_types=[result_type],
            properties={
                "strides": DenseArrayBase.from_list(i64, strides),
                "dims": DenseArrayBase.from_list(i64, dims),
            },
        )

    def phases(self) -> Iterator[dict[int, int]]:
        """The phase of each part, in each of `dims`."""
        dims, strides = self.dims.get_values(), self.strides.get_values()
        for phases in itertools.product(*map(range, strides)):
            yield dict(zip(dims, phases, strict=True))

    def steps(self) -> dict[int, int]:
        """The stride of each of `dims`."""
        return dict(zip(self.dims.get_values(), self.strides.get_values(), strict=True))

    def verify_(self) -> None:
        type, steps = tensor_type(self.result), self.strides.get_values()
        verify_dims(self, type, self.dims.get_values())
        verify_positive(self, len(self.dims), strides=steps)
        if len(self.parts) != math.prod(steps):
            raise VerifyException(
                f"'{self.name}' has {len(self.parts)} parts; expected "
                f"{math.prod(steps)}, one for each phase of strides {list(steps)}"
            )
        for part, phases in zip(self.parts, self.phases(), strict=True):
            type, expected = tensor_type(part), self.part_type(phases)
            if not fits(type, expected):
                raise VerifyException(
                    f"'{self.name}' has a part {type} for phases "
                    f"{list(phases.values())}; expected {expected}"
                )

    def part_type(self, phases: dict[int, int]) -> AnyTensor:
        """The type of the part with these phases."""
        type, steps = tensor_type(self.result), self.steps()
        shape = list(type.get_shape())
        for dim, phase in phases.items():
            if shape[dim] != DYNAMIC_INDEX:
                shape[dim] = phase_size(shape[dim], steps[dim], phase)
        return TensorType(type.element_type, shape)


def fits(type: AnyTensor, expected: AnyTensor) -> bool:
    """Whether the types are equal, except for dynamic sizes of either."""
    shapes = type.get_shape(), expected.get_shape()
    return (
        type.element_type == expected.element_type
        and len(shapes[0]) == len(shapes[1])
        and all(a == b or DYNAMIC_INDEX in (a, b) for a, b in zip(*shapes, strict=True))
    )
