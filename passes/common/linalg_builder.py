"""A builder of upstream's tensor-level ops: linalg and tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    DenseArrayBase,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.utils.dynamic_index_list import split_dynamic_index_list
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from padc.errors import Obstacle
from padc.ir.element_types import is_float
from padc.ir.tcp import Amount, AnyTensor, fill_type, tensor_type
from padc.ir.type_tests import is_integer
from padc.passes.common.lowering import source_of
from padc.passes.common.size_builder import SizeBuilder

Body: TypeAlias = "Callable[[LinalgBuilder, Sequence[SSAValue]], Sequence[SSAValue]]"
"""Builds a loop's body: from the elements of inputs and outputs to new outputs."""


@dataclass(frozen=True)
class LinalgBuilder(SizeBuilder):
    """Inserts ops on tensors at the insertion point of `builder`."""

    def size(self, x: SSAValue, dim: int) -> Amount:
        """The size of a dimension: an integer if it is static."""
        static = tensor_type(x).get_shape()[dim]
        if static != DYNAMIC_INDEX:
            return static
        return self.insert(tensor.DimOp(x, self.index(dim)))

    def sizes(self, x: SSAValue) -> list[Amount]:
        return [self.size(x, dim) for dim in range(tensor_type(x).get_num_dims())]

    def signless(self, x: SSAValue) -> SSAValue:
        """`x` with signless elements, which ops of arith need; the bits stay."""
        type = signless_type(tensor_type(x))
        if type == x.type:
            return x
        return self.insert(UnrealizedConversionCastOp.get([x], [type]))

    def empty(self, sizes: Sequence[Amount], element_type: Attribute) -> SSAValue:
        """A tensor with undefined values."""
        dynamic = [size for size in sizes if isinstance(size, SSAValue)]
        return self.insert(tensor.EmptyOp(dynamic, type_of(sizes, element_type)))

    def filled(self, sizes: Sequence[Amount], value: SSAValue) -> SSAValue:
        """A tensor whose elements are all `value`; Obstacle if these are no numbers."""
        if not is_float(value.type) and not is_integer(value.type):
            raise Obstacle(f"'linalg.fill' takes floats and integers, not {value.type}")
        empty = self.empty(sizes, value.type)
        return self.insert(linalg.FillOp([value], [empty], [empty.type]))

    def slice(
        self,
        x: SSAValue,
        offsets: Sequence[Amount],
        sizes: Sequence[Amount],
        strides: Sequence[Amount] | None = None,
    ) -> SSAValue:
        """A strided slice of `x`, of the same rank."""
        strides = [1] * len(sizes) if strides is None else strides
        type = type_of(sizes, tensor_type(x).element_type)
        return self.insert(tensor.ExtractSliceOp(x, offsets, sizes, strides, type))

    def insert_slice(
        self,
        x: SSAValue,
        into: SSAValue,
        offsets: Sequence[Amount],
        sizes: Sequence[Amount],
        strides: Sequence[Amount],
    ) -> SSAValue:
        """`into`, with the strided slice at `offsets` replaced by `x`."""
        lists = [
            split_dynamic_index_list(amounts, DYNAMIC_INDEX)
            for amounts in (offsets, sizes, strides)
        ]
        return self.insert(
            tensor.InsertSliceOp.build(
                operands=[x, into, *[dynamic for _, dynamic in lists]],
                result_types=[into.type],
                properties={
                    name: DenseArrayBase.from_list(i64, static)
                    for name, (static, _) in zip(
                        ("static_offsets", "static_sizes", "static_strides"),
                        lists,
                        strict=True,
                    )
                },
            )
        )

    def cast(self, x: SSAValue, type: AnyTensor) -> SSAValue:
        """Cast `x` to `type`, in which other sizes are static."""
        return x if x.type == type else self.insert(tensor.CastOp(x, type))

    def generic(
        self,
        inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        outputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        reductions: Sequence[bool],
        body: Body,
    ) -> list[SSAValue]:
        """
        A linalg.generic op; `reductions` says of each loop whether it reduces.

        Each operand is paired with the affine expressions that index it.
        """
        rank = len(reductions)
        operands = [*inputs, *outputs]
        block = Block(arg_types=[element_type(x) for x, _ in operands])
        inner = self.inside(block)
        inner.builder.insert(linalg.YieldOp(*body(inner, block.args)))
        op = linalg.GenericOp(
            [x for x, _ in inputs],
            [x for x, _ in outputs],
            Region(block),
            [AffineMapAttr(AffineMap(rank, 0, tuple(map))) for _, map in operands],
            [
                IteratorTypeAttr.reduction() if each else IteratorTypeAttr.parallel()
                for each in reductions
            ],
            [x.type for x, _ in outputs],
        )
        return list(self.builder.insert(op).results)

    def compute(
        self,
        sizes: Sequence[Amount],
        element_type: Attribute,
        body: Callable[[LinalgBuilder, Sequence[SSAValue]], SSAValue],
        inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]] = (),
    ) -> SSAValue:
        """A new tensor; `body` computes an element from one element of each input."""
        dims = [AffineExpr.dimension(dim) for dim in range(len(sizes))]
        empty = self.empty(sizes, element_type)
        (result,) = self.generic(
            inputs,
            [(empty, dims)],
            [False] * len(dims),
            lambda inner, args: [body(inner, args[: len(inputs)])],
        )
        return result

    def loop_index(self, dim: int) -> SSAValue:
        """The index of loop `dim`, inside the body."""
        return self.insert(linalg.IndexOp(dim))

    def extract(self, x: SSAValue, indices: Sequence[Amount]) -> SSAValue:
        """The element at `indices`."""
        return self.insert(
            tensor.ExtractOp(
                x, [self.index(index) for index in indices], element_type(x)
            )
        )


def signless_type(type: AnyTensor) -> AnyTensor:
    """`type` with signless elements."""
    return TensorType(fill_type(type.element_type), type.get_shape())


def builder_before(op: Operation) -> LinalgBuilder:
    """A builder before `op`, whose ops get its line and the name of its ATen op."""
    return builder_at(InsertPoint.before(op), op)


def builder_at(place: InsertPoint, op: Operation) -> LinalgBuilder:
    """A builder whose ops get the line of `op` and the name of its ATen op."""

    def locate(made: Operation) -> None:
        made.location = source_of(op)

    return LinalgBuilder(Builder(place, operation_insertion_handler=[locate]))


def type_of(sizes: Sequence[Amount], element_type: Attribute) -> AnyTensor:
    """The type of a tensor of these sizes."""
    return TensorType(
        element_type,
        [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes],
    )


def element_type(x: SSAValue) -> Attribute:
    return tensor_type(x).element_type
