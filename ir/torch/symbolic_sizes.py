"""Sizes that are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from padc.ir.torch.types import IntType, VTensorType


@irdl_op_definition
class SymbolicIntOp(IRDLOperation):
    """
    A size that is known only at run time, with its bounds (both inclusive).

    `padc.reason` tells why it may not be smaller, unless the user said so.

    ```mlir
    %s0 = torch.symbolic_int "s0" {min_val = 2, max_val = 64} : !torch.int
    ```
    """

    name = "torch.symbolic_int"

    symbol_name = prop_def(StringAttr)
    min_val = prop_def(IntegerAttr.constr(i64))
    max_val = prop_def(IntegerAttr.constr(i64))
    result = result_def(IntType)

    reason = opt_attr_def(StringAttr, attr_name="padc.reason")

    traits = traits_def(Pure())

    assembly_format = (
        "$symbol_name ` ` `{` `min_val` `=` $min_val `,` `max_val` `=` $max_val `}`"
        " attr-dict `:` type($result)"
    )

    def __init__(self, symbol_name: str, min_val: int, max_val: int):
        super().__init__(
            properties={
                "symbol_name": StringAttr(symbol_name),
                "min_val": IntegerAttr(min_val, i64),
                "max_val": IntegerAttr(max_val, i64),
            },
            result_types=[IntType()],
        )


@irdl_op_definition
class BindSymbolicShapeOp(IRDLOperation):
    """
    Gives the sizes of a tensor as affine expressions of symbols.

    ```mlir
    torch.bind_symbolic_shape %x, [%s0], affine_map<()[s0] -> (1, s0 * 2)>
      : !torch.vtensor<[1,?],f32>
    ```
    """

    name = "torch.bind_symbolic_shape"

    operand = operand_def(VTensorType)
    shape_symbols = var_operand_def(IntType)
    shape_expressions = prop_def(AffineMapAttr)

    assembly_format = (
        "$operand `,` `[` $shape_symbols `]` `,` $shape_expressions attr-dict"
        " `:` type($operand)"
    )

    def __init__(
        self,
        operand: SSAValue,
        shape_symbols: Sequence[SSAValue],
        shape_expressions: AffineMapAttr,
    ):
        super().__init__(
            operands=[operand, shape_symbols],
            properties={"shape_expressions": shape_expressions},
        )

    def verify_(self) -> None:
        map = self.shape_expressions.data
        type = self.operand.type
        assert isinstance(type, VTensorType)
        expected = (0, len(self.shape_symbols), len(type.get_shape()))
        if (map.num_dims, map.num_symbols, len(map.results)) != expected:
            raise VerifyException(
                f"expected a map of {expected[1]} symbols to the {expected[2]} sizes "
                f"of {type}, got {map}"
            )
