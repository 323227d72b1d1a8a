"""
The `torch` dialect: an ATen graph, in the text that torch-mlir reads and writes.

- `types`: tensors and Python values; `dtypes`: PyTorch's numbers of dtypes.
- `schemas`, `aten`: one op for each ATen schema in `aten_schemas.txt`.
- `constants`, `containers`: Python constants, literals, lists and tuples.
- `control_flow`: branches and loops.
- `symbolic_sizes`, `size_ranges`: sizes that are known only at run time.
- `describe`: tensor types in messages.
- `calls`: one op, called in PyTorch, on operands or without data.
- `sample_shapes`: whether types are right for some sizes of the arguments.
- `casts`: the dialect `torch_c`, casts to and from builtin types.
"""

import itertools
from collections.abc import Iterator

from xdsl.ir import Dialect, Operation

from padc.ir.torch.aten import AtenEffects, AtenOp, OperatorOp, aten_op, op_classes
from padc.ir.torch.casts import FromBuiltinTensorOp, ToBuiltinTensorOp, ToI64Op
from padc.ir.torch.constants import (
    ConstantBoolOp,
    ConstantDeviceOp,
    ConstantFloatOp,
    ConstantIntOp,
    ConstantNoneOp,
    ConstantStrOp,
    LiteralOp,
    NotConstantError,
    constant_value,
)
from padc.ir.torch.containers import ListConstructOp, ListUnpackOp, TupleConstructOp
from padc.ir.torch.control_flow import IfOp, IfYieldOp, LoopConditionOp, LoopOp
from padc.ir.torch.schemas import (
    LIST_ELEMENTS,
    Argument,
    PythonValue,
    Schema,
    fits,
    overloads_of,
    schema_of,
)
from padc.ir.torch.symbolic_sizes import BindSymbolicShapeOp, SymbolicIntOp
from padc.ir.torch.types import (
    AnyType,
    BoolType,
    ContainerType,
    DeviceType,
    FloatType,
    GeneratorType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    TorchType,
    TupleType,
    VTensorType,
    builtin_type,
    is_any_tensor,
    vtensor_type,
)


class TorchDialect(Dialect):
    """The `torch` dialect. Its ATen ops are created when a context loads it."""

    @property
    def operations(self) -> Iterator[type[Operation]]:
        return itertools.chain(super().operations, op_classes())


Torch = TorchDialect(
    "torch",
    [
        BindSymbolicShapeOp,
        ConstantBoolOp,
        ConstantDeviceOp,
        ConstantFloatOp,
        ConstantIntOp,
        ConstantNoneOp,
        ConstantStrOp,
        IfOp,
        IfYieldOp,
        ListConstructOp,
        ListUnpackOp,
        LiteralOp,
        LoopConditionOp,
        LoopOp,
        OperatorOp,
        SymbolicIntOp,
        TupleConstructOp,
    ],
    [
        AnyType,
        BoolType,
        DeviceType,
        FloatType,
        GeneratorType,
        IntType,
        ListType,
        NoneType,
        NumberType,
        OptionalType,
        StringType,
        TupleType,
        VTensorType,
    ],
)

TorchC = Dialect("torch_c", [FromBuiltinTensorOp, ToBuiltinTensorOp, ToI64Op])

__all__ = [
    "LIST_ELEMENTS",
    "AnyType",
    "Argument",
    "AtenEffects",
    "AtenOp",
    "BindSymbolicShapeOp",
    "BoolType",
    "ConstantBoolOp",
    "ConstantDeviceOp",
    "ConstantFloatOp",
    "ConstantIntOp",
    "ConstantNoneOp",
    "ConstantStrOp",
    "ContainerType",
    "DeviceType",
    "FloatType",
    "FromBuiltinTensorOp",
    "GeneratorType",
    "IfOp",
    "IfYieldOp",
    "IntType",
    "ListConstructOp",
    "ListType",
    "ListUnpackOp",
    "LiteralOp",
    "LoopConditionOp",
    "LoopOp",
    "NoneType",
    "NotConstantError",
    "NumberType",
    "OperatorOp",
    "OptionalType",
    "PythonValue",
    "Schema",
    "StringType",
    "SymbolicIntOp",
    "ToBuiltinTensorOp",
    "ToI64Op",
    "Torch",
    "TorchC",
    "TorchDialect",
    "TorchType",
    "TupleConstructOp",
    "TupleType",
    "VTensorType",
    "aten_op",
    "builtin_type",
    "constant_value",
    "fits",
    "is_any_tensor",
    "overloads_of",
    "schema_of",
    "vtensor_type",
]
