"""Casts between values of the `torch` dialect and builtin ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i64
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from padc.ir.torch.types import IntType, VTensorType, builtin_type, vtensor_type
from padc.ir.type_tests import is_tensor


@irdl_op_definition
class ToBuiltinTensorOp(IRDLOperation, HasFolderInterface):
    """
    Cast a tensor to its builtin type.

    ```mlir
    %y = torch_c.to_builtin_tensor %x : !torch.vtensor<[2],si64> -> tensor<2xi64>
    ```
    """

    name = "torch_c.to_builtin_tensor"

    operand = operand_def(VTensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue):
        assert isinstance(operand.type, VTensorType)
        super().__init__(operands=[operand], result_types=[builtin_type(operand.type)])

    def verify_(self) -> None:
        assert isinstance(self.operand.type, VTensorType)
        if self.result.type != (expected := builtin_type(self.operand.type)):
            raise VerifyException(f"expected {expected}, got {self.result.type}")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`to_builtin_tensor(from_builtin_tensor(x)) -> x`."""
        match self.operand.owner:
            case FromBuiltinTensorOp(operand=x) if x.type == self.result.type:
                return (x,)
            case _:
                return None


@irdl_op_definition
class FromBuiltinTensorOp(IRDLOperation, HasFolderInterface):
    """
    Cast a builtin tensor to its type in torch.

    ```mlir
    %y = torch_c.from_builtin_tensor %x : tensor<2xi64> -> !torch.vtensor<[2],si64>
    ```
    """

    name = "torch_c.from_builtin_tensor"

    operand = operand_def(TensorType)
    result = result_def(VTensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue):
        assert is_tensor(operand.type)
        super().__init__(operands=[operand], result_types=[vtensor_type(operand.type)])

    def verify_(self) -> None:
        expected = builtin_type(self.result.type)
        if self.operand.type != expected:
            raise VerifyException(f"expected {expected}, got {self.operand.type}")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`from_builtin_tensor(to_builtin_tensor(x)) -> x`."""
        match self.operand.owner:
            case ToBuiltinTensorOp(operand=x) if x.type == self.result.type:
                return (x,)
            case _:
                return None


@irdl_op_definition
class ToI64Op(IRDLOperation):
    """
    Cast a Python int to a builtin integer.

    ```mlir
    %i = torch_c.to_i64 %n
    ```
    """

    name = "torch_c.to_i64"

    operand = operand_def(IntType)
    result = result_def(i64)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict"

    def __init__(self, operand: SSAValue):
        super().__init__(operands=[operand], result_types=[i64])
