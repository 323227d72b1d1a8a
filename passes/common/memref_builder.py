"""Building ops of upstream's buffer level: memref, and linalg on memrefs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.utils.dynamic_index_list import (
    get_dynamic_index_list,
    split_dynamic_index_list,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from padc.ir.tcp import Amount
from padc.passes.common.size_builder import SizeBuilder

AnyMemRef: TypeAlias = MemRefType[Attribute]
CONTIGUOUS = NoneAttr()


def memref_type(value: SSAValue) -> AnyMemRef:
    """The type of a value that is a buffer, or a view of one."""
    # Not by `isa`: see `tensor_type`.
    type = cast(AnyMemRef, value.type)
    assert isinstance(type, MemRefType)
    return type


@dataclass(frozen=True)
class MemRefBuilder(SizeBuilder):
    """Inserts ops on buffers at the place of `builder`."""

    def size(self, x: SSAValue, dim: int) -> Amount:
        """
        The size of a dimension, an integer if it is static.

        A dynamic size is the operand that the buffer was allocated or viewed with, or
        the result of a new `memref.dim`.
        """
        static = memref_type(x).get_shape()[dim]
        if static != DYNAMIC_INDEX:
            return static
        match x.owner:
            case memref.AllocOp() as alloc:
                shape = memref_type(x).get_shape()
                return alloc.dynamic_sizes[shape[:dim].count(DYNAMIC_INDEX)]
            case memref.SubviewOp() as view:
                sizes = view.static_sizes.get_values()
                return get_dynamic_index_list(sizes, view.sizes, DYNAMIC_INDEX)[dim]
            case memref.ExpandShapeOp() as view:
                sizes = view.static_output_shape.get_values()
                shape = get_dynamic_index_list(sizes, view.output_shape, DYNAMIC_INDEX)
                return shape[dim]
            case memref.CollapseShapeOp() as view:
                total: Amount = 1
                for number in list(view.reassociation)[dim]:
                    total = self.mul(total, self.size(view.src, number.value.data))
                return total
            case memref.CastOp() as view:
                return self.size(view.source, dim)
            case _:
                return self.insert(memref.DimOp(x, self.index(dim)))

    def sizes(self, x: SSAValue) -> list[Amount]:
        return [self.size(x, dim) for dim in range(memref_type(x).get_num_dims())]

    def alloc(self, sizes: Sequence[Amount], element_type: Attribute) -> SSAValue:
        """A new buffer, in row-major order."""
        shape = [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]
        dynamic = [size for size in sizes if isinstance(size, SSAValue)]
        type = MemRefType(element_type, shape)
        return self.insert(memref.AllocOp(dynamic, [], type))

    def subview(
        self,
        x: SSAValue,
        offsets: Sequence[Amount],
        sizes: Sequence[Amount],
        strides: Sequence[Amount] | None = None,
    ) -> SSAValue:
        """A view of part of a buffer, of the same rank; `x` itself if it is all."""
        strides = [1] * len(sizes) if strides is None else strides
        type = memref_type(x)
        if 0 in sizes:
            # Upstream refuses an empty view that starts at the end.
            return self.alloc(sizes, type.element_type)
        if (
            all(offset == 0 for offset in offsets)
            and all(stride == 1 for stride in strides)
            and list(sizes) == list(type.get_shape())
        ):
            return x
        result = memref.SubviewOp.infer_result_type(type, offsets, sizes, strides)
        return self.insert(memref.SubviewOp.get(x, offsets, sizes, strides, result))

    def part(self, x: SSAValue, dim: int, offset: Amount, size: Amount) -> SSAValue:
        """`size` elements of dimension `dim`, from `offset`."""
        offsets: list[Amount] = [0] * memref_type(x).get_num_dims()
        sizes = self.sizes(x)
        offsets[dim], sizes[dim] = offset, size
        return self.subview(x, offsets, sizes)

    def expanded(
        self,
        x: SSAValue,
        groups: Attribute,
        sizes: Sequence[Amount],
        layout: MemRefLayoutAttr | NoneAttr = CONTIGUOUS,
    ) -> SSAValue:
        """`x` with each dimension split into those of its group; contiguous or not."""
        static, dynamic = split_dynamic_index_list(sizes, DYNAMIC_INDEX)
        type = MemRefType(memref_type(x).element_type, static, layout)
        return self.insert(
            memref.ExpandShapeOp(
                operands=[x, dynamic],
                result_types=[type],
                properties={
                    "reassociation": groups,
                    "static_output_shape": DenseArrayBase.from_list(i64, static),
                },
            )
        )

    def collapsed(
        self, x: SSAValue, groups: Attribute, sizes: Sequence[Amount]
    ) -> SSAValue:
        """The contiguous buffer `x` with the dimensions of each group joined."""
        shape, _ = split_dynamic_index_list(sizes, DYNAMIC_INDEX)
        return self.insert(
            memref.CollapseShapeOp(
                operands=[x],
                result_types=[MemRefType(memref_type(x).element_type, shape)],
                properties={"reassociation": groups},
            )
        )

    def copy(self, source: SSAValue, target: SSAValue) -> None:
        if 0 not in memref_type(source).get_shape():
            self.builder.insert(linalg.CopyOp([source], [target], []))

    def fill(self, value: SSAValue, target: SSAValue) -> None:
        self.builder.insert(linalg.FillOp([value], [target], []))

    def loop(
        self, count: Amount, body: Callable[[MemRefBuilder, Amount], None]
    ) -> None:
        """Loop from 0 to `count`, exclusive."""
        if isinstance(count, int) and count <= 1:
            if count == 1:
                body(self, 0)
            return
        block = Block(arg_types=[IndexType()])
        inner = self.inside(block)
        body(inner, block.args[0])
        inner.builder.insert(scf.YieldOp())
        zero, end, one = self.index(0), self.index(count), self.index(1)
        self.builder.insert(scf.ForOp(zero, end, one, [], Region(block)))


def is_contiguous(type: AnyMemRef) -> bool:
    """Whether elements are laid out as in a new buffer: row-major, from offset 0."""
    return isinstance(type.layout, NoneAttr)
