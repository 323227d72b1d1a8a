"""Winograd's convolutions of packed tensors, and of buffers that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ShapedType,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_result_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from padc.ir.winograd import POINTS, TAPS

__all__ = ["WinogradConvOp"]

Packed = TensorType.constr(f32) | MemRefType.constr(f32)


@irdl_op_definition
class WinogradConvOp(IRDLOperation):
    """
    Add a 3x3 convolution of stride 1 to `init`, by Winograd's algorithm.

    The input is `[batch, channels, rows, columns, lanes]`, packed by `pack-layouts`. So
    is `init`, which has two rows and two columns less. The filters are transformed (see
    `padc.ir.winograd`) to `[i, j, output channels, channels, lanes, output lanes]`.
    `tile` is the number of results along a side of a tile, and `block` the number of
    tiles that are computed together.

    The op takes tensors, and returns the sum; or buffers, and adds to that of `init`.

    ```mlir
    %y = tcp.winograd_conv %x, %filters outs %init tile 4 block 14
       : tensor<1x4x58x58x16xf32>, tensor<6x6x4x4x16x16xf32>, tensor<1x4x56x56x16xf32>
       -> tensor<1x4x56x56x16xf32>
    ```
    """

    name = "tcp.winograd_conv"

    input = operand_def(Packed)
    filters = operand_def(Packed)
    init = operand_def(Packed)
    tile = prop_def(IntegerAttr.constr(i64))
    block = prop_def(IntegerAttr.constr(i64))
    result = opt_result_def(TensorType.constr(f32))

    assembly_format = (
        "$input `,` $filters `outs` $init `tile` $tile `block` $block attr-dict "
        "`:` type($input) `,` type($filters) `,` type($init) (`->` type($result)^)?"
    )

    def __init__(
        self, input: SSAValue, filters: SSAValue, init: SSAValue, tile: int, block: int
    ):
        is_tensor = isinstance(init.type, TensorType)
        super().__init__(
            operands=[input, filters, init],
            result_types=[init.type if is_tensor else None],
            properties={
                "tile": IntegerAttr(tile, i64),
                "block": IntegerAttr(block, i64),
            },
        )

    @property
    def inputs(self) -> Sequence[SSAValue]:
        return self.input, self.filters

    @property
    def outputs(self) -> Sequence[SSAValue]:
        return (self.init,)

    def verify_(self) -> None:
        tile = self.tile.value.data
        if tile not in POINTS:
            raise VerifyException(
                f"'{self.name}' has tiles of {tile}; expected one of {sorted(POINTS)}"
            )
        if self.block.value.data < 1:
            raise VerifyException(
                f"'{self.name}' has blocks of {self.block.value.data} tiles; expected "
                "1 or more"
            )
        types = [x.type for x in self.operands]
        is_tensor = isinstance(self.init.type, TensorType)
        if len({type.name for type in types}) != 1 or is_tensor != (
            self.result is not None
        ):
            raise VerifyException(
                f"'{self.name}' takes either tensors, and has a result, or buffers"
            )
        x, filters, y = (shape_of(operand) for operand in self.operands)
        size = tile + TAPS - 1
        if len(x) != 5 or len(y) != 5:
            raise VerifyException(
                f"'{self.name}' has input {types[0]} and init {types[2]}; expected 5 "
                "dimensions"
            )
        (n, channels, rows, columns, lanes), (*_, last) = x, y
        expected = [n, y[1], rows - TAPS + 1, columns - TAPS + 1, last]
        if y != expected or min(*x, *y) < 1:
            raise VerifyException(
                f"'{self.name}' of {types[0]} has init {types[2]}; expected static "
                f"sizes {expected}"
            )
        if filters != [size, size, y[1], channels, lanes, last]:
            raise VerifyException(
                f"'{self.name}' has filters {types[1]}; expected sizes "
                f"{[size, size, y[1], channels, lanes, last]}"
            )
        if self.result is not None and self.result.type != self.init.type:
            raise VerifyException(
                f"'{self.name}' has result {self.result.type}; expected that of init, "
                f"{self.init.type}"
            )


def shape_of(x: SSAValue) -> list[int]:
    type = cast(ShapedType, x.type)
    return list(type.get_shape())
