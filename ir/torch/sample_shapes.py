"""Whether the types in a function are right for some sizes of its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from padc.ir.torch.aten import AtenOp
from padc.ir.torch.calls import (
    NeedsDataError,
    TorchRefusalError,
    call_fake,
    fake,
    fake_mode,
    why_other_types,
)
from padc.ir.torch.constants import NotConstantError, constant_value
from padc.ir.torch.containers import ListConstructOp, ListUnpackOp
from padc.ir.torch.symbolic_sizes import BindSymbolicShapeOp, SymbolicIntOp
from padc.ir.torch.tensors import torch_dtype
from padc.ir.torch.types import VTensorType


def wrong_ops(
    function: FuncOp, sizes: Mapping[str, int]
) -> Iterator[tuple[AtenOp, str]]:
    """
    The ops that PyTorch refuses, or whose results have other types than they declare.

    `sizes` are the values of the symbols in the arguments' shapes. An op is left out
    whose operands or results depend on data, and so are those in branches and loops.
    """
    return SampleRun(sizes).wrong_ops(function)


class SampleRun:
    """The values of a function, without data."""

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes
        self.values: dict[SSAValue, Any] = {}

    def wrong_ops(self, function: FuncOp) -> Iterator[tuple[AtenOp, str]]:
        for op in function.body.block.ops:
            match op:
                case SymbolicIntOp():
                    self.values[op.result] = self.sizes[op.symbol_name.data]
                case BindSymbolicShapeOp():
                    self.bind(op)
                case ListUnpackOp():
                    made = self.values.get(op.operand, ())
                    self.values.update(zip(op.results, made, strict=False))
                case AtenOp():
                    if (reason := self.why_wrong(op)) is not None:
                        yield op, reason
                case _:
                    pass  # Nothing is known of its results but their types.

    def bind(self, op: BindSymbolicShapeOp) -> None:
        """Give an argument its sizes."""
        type = op.operand.type
        assert isinstance(type, VTensorType)
        symbols = [self.values[symbol] for symbol in op.shape_symbols]
        shape = op.shape_expressions.data.eval([], symbols)
        with fake_mode():
            empty = torch.empty(shape, dtype=torch_dtype(type.element_type))
        self.values[op.operand] = empty

    def why_wrong(self, op: AtenOp) -> str | None:
        """Compute an op; returns what is wrong with its results."""
        try:
            operands = [self.value(operand) for operand in op.operands]
            made = call_fake(op, operands)
        except (NotConstantError, NeedsDataError):
            return None
        except TorchRefusalError as error:
            return str(error)
        self.values.update(zip(op.results, made, strict=True))
        return why_other_types(op, made)

    def value(self, x: SSAValue) -> Any:
        """A value; NotConstantError if it is not known."""
        if x in self.values:
            return self.values[x]
        if isinstance(x.owner, ListConstructOp):
            return [self.value(element) for element in x.owner.elements]
        if isinstance(type := x.type, VTensorType):
            self.values[x] = fake(type, None)
            return self.values[x]
        return constant_value(x)
