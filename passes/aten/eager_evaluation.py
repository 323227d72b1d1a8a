# pyright: reportUnknownMemberType=false
"""
ATen ops on constants, and on tensors without elements, are computed with PyTorch.

PyTorch computes them in the dtype of the op, with IEEE's rules for NaN and infinity.
Results that only repeat a number or a smaller tensor stay ops if they are large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from padc.ir.torch import (
    AtenOp,
    ListConstructOp,
    ListUnpackOp,
    LiteralOp,
    NotConstantError,
    VTensorType,
    constant_value,
)
from padc.ir.torch.calls import (
    NeedsDataError,
    TorchRefusalError,
    bytes_of,
    call,
    call_fake,
    function_of,
)
from padc.ir.torch.tensors import (
    ELEMENT_TYPES,
    torch_dtype,
    weight_array,
    weight_tensor,
)
from padc.ir.weights import Weights

MOST_BYTES = 2**26
"""The most bytes of a result, unless it is at most twice as large as its constants."""
MOST_REPEATED_BYTES = 2**16
"""Repeated constants of more bytes stay ops, and so do rearranged shared weights."""

REPEATING = frozenset(
    f"aten.{name}"
    for name in (
        *("full", "full_like", "new_full", "zeros", "zeros_like", "new_zeros", "ones"),
        *("ones_like", "new_ones", "expand", "expand_as", "repeat", "broadcast_to"),
        "tile",
    )
)
"""The results of these repeat their operands' elements, or a number."""

SKIPPED = ("empty", "quantize")
"""Parts of the names of ops that stay: results are arbitrary, or form matters."""
SIZED_BY_DATA = ("bincount", "combinations", "one_hot", "repeat_interleave")
"""Parts of the names of ops that stay if a few numbers may make a large result."""


class Folding:
    """The values of constants so far."""

    def __init__(self, weights: Weights):
        self.weights = weights
        self.values: dict[SSAValue, Any] = {}
        """Tensors, and lists of them."""

    def run(self, module: ModuleOp) -> None:
        ops = list(module.walk())
        for op in ops:
            self.evaluate(op)
        # Users first: only what an op that stays takes becomes a literal.
        for op in reversed(ops):
            # An op that is run for its effect has no results.
            if isinstance(op, AtenOp) and self.values.keys() & {*op.results[:1]}:
                self.replace(op)
            if is_trivially_dead(op):
                Rewriter.erase_op(op)

    # --- values -----------------------------------------------------------------

    def evaluate(self, op: Operation) -> None:
        """Compute the results of `op`, if its operands are known."""
        match op:
            case ListUnpackOp() if op.operand in self.values:
                self.values.update(zip(op.results, self.values[op.operand]))
            case AtenOp():
                try:
                    results = self.results(op)
                except (NotConstantError, TorchRefusalError, ValueError):
                    return
                if self.is_right(op, results):
                    self.values.update(zip(op.results, results, strict=True))
            case _:
                pass

    def results(self, op: AtenOp) -> Sequence[Any]:
        """What PyTorch computes; NotConstantError if `op` stays for another reason."""
        if not is_folded(op):
            raise NotConstantError(op.schema.name)
        operands = [self.value(x) for x in op.operands]
        try:
            shapes = call_fake(op, operands)
        except NeedsDataError:
            if any(part in op.schema.name for part in SIZED_BY_DATA):
                raise
            return call(op, operands)
        if self.is_too_large(op, bytes_of(shapes)):
            raise NotConstantError(f"{op.schema.name} is too large")
        return call(op, operands)

    def value(self, value: SSAValue) -> Any:
        """The constant that `value` is; NotConstantError if it is computed."""
        if isinstance(value.owner, LiteralOp) and value not in self.values:
            self.values[value] = tensor_of(value.owner, self.weights)
        if value in self.values:
            return self.values[value]
        if isinstance(value.owner, ListConstructOp):
            return [self.value(element) for element in value.owner.elements]
        if (empty := without_elements(value.type)) is not None:
            return empty
        return constant_value(value)

    def is_right(self, op: AtenOp, results: Sequence[Any]) -> bool:
        """Whether results have their declared types."""
        for result, value in zip(op.results, results, strict=True):
            is_list = isinstance(value, list | tuple)
            if not is_list and not isinstance(value, torch.Tensor):
                return False
            if not is_list and has_other_type(result, value):
                return False
        return True

    def is_too_large(self, op: AtenOp, size: int) -> bool:
        """Whether results of so many bytes stay an op."""
        return size > MOST_BYTES and size > 2 * self.operand_bytes(op)

    def operand_bytes(self, op: AtenOp) -> int:
        return bytes_of([self.value(operand) for operand in op.operands])

    # --- replacements -----------------------------------------------------------

    def replace(self, op: AtenOp) -> None:
        """Replace the results that other ops use by literals, unless `op` stays."""
        size = bytes_of([self.values[result] for result in op.results])
        if size > MOST_REPEATED_BYTES and (
            is_shared(op) or self.is_repetition(op, size)
        ):
            return
        for result in op.results:
            value = self.values[result]
            if isinstance(value, torch.Tensor):
                self.replace_value(op, result, value)
                continue
            for use in list(result.uses):
                if isinstance(unpack := use.operation, ListUnpackOp):
                    for element, tensor in zip(unpack.results, value, strict=True):
                        if not has_other_type(element, tensor):
                            self.replace_value(unpack, element, tensor)

    def is_repetition(self, op: AtenOp, size: int) -> bool:
        return op.schema.name in REPEATING and size > 2 * self.operand_bytes(op)

    def replace_value(self, op: Operation, old: SSAValue, value: torch.Tensor) -> None:
        if old.first_use is None:
            return
        literal = literal_of(value, old.name_hint or "constant", self.weights)
        literal.location = op.location
        literal.result.name_hint = old.name_hint
        Rewriter.insert_op(literal, InsertPoint.before(op))
        old.replace_all_uses_with(literal.result)


def is_folded(op: AtenOp) -> bool:
    """Whether the results of `op` depend on nothing but its operands."""
    name = op.schema.name
    if not op.results or not name.startswith("aten."):
        return False
    if any(part in name for part in SKIPPED):
        return False
    return torch.Tag.nondeterministic_seeded not in function_of(op).tags


def is_shared(op: AtenOp) -> bool:
    """Whether `op` takes a weight that other ops take too."""
    return any(
        isinstance(operand.owner, LiteralOp) and operand.has_more_than_one_use()
        for operand in op.operands
    )


def has_other_type(value: SSAValue, tensor: torch.Tensor) -> bool:
    """Whether a value is not declared with the type of `tensor`."""
    if tensor.layout != torch.strided or tensor.dtype not in ELEMENT_TYPES:
        return True
    return value.type != VTensorType.get(ELEMENT_TYPES[tensor.dtype], tensor.shape)


def without_elements(type: Attribute) -> torch.Tensor | None:
    """The only tensor of a type, if that has no elements."""
    if not isinstance(type, VTensorType):
        return None
    shape = type.get_shape()
    if 0 not in shape or DYNAMIC_INDEX in shape:
        return None
    return torch.empty(shape, dtype=torch_dtype(type.element_type))


def tensor_of(op: LiteralOp, weights: Weights) -> torch.Tensor:
    """The value of a literal, which shares the memory of the weight if it can."""
    type = op.result.type
    assert isinstance(type, VTensorType)
    return weight_tensor(weights.array(op.value), type.element_type)


def literal_of(tensor: torch.Tensor, name: str, weights: Weights) -> LiteralOp:
    """A literal: an integer of rank 0 in line, as the importer has it."""
    element_type = ELEMENT_TYPES[tensor.dtype]
    builtin_type = TensorType(element_type, tensor.shape)
    array = weight_array(tensor)
    if tensor.dim() == 0 and isinstance(element_type, IntegerType):
        data = BytesAttr(array.tobytes())
        return LiteralOp(DenseIntOrFPElementsAttr(cast(Any, builtin_type), data))
    unique = weights.add(name, array)
    return LiteralOp(DenseResourceAttr.from_params(unique, builtin_type))
