"""Sums of products: which of three kernels computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.products.accumulation import (
    START_OPERAND,
    Accumulation,
)
from padc.passes.buffers_to_llvm.products.convolutions import (
    Contraction,
    ContractionKernel,
    contraction_of,
)
from padc.passes.buffers_to_llvm.products.matrix_product_loops import (
    MatrixProduct,
    matrix_product_of,
)
from padc.passes.buffers_to_llvm.products.matrix_products import MatrixProductKernel
from padc.passes.buffers_to_llvm.products.packed_convolutions import (
    PackedConvolution,
    PackedConvolutionKernel,
    packed_convolution_of,
)
from padc.passes.common.sums_of_products import multiplies_and_adds

Product: TypeAlias = PackedConvolution | MatrixProduct | Contraction


def multiplied_type(op: LinalgStructuredOperation) -> AnyFloat | None:
    """The type of the elements if `op` sums products of two inputs; else None."""
    if len(op.inputs) != 2 or len(op.outputs) != 1 or not multiplies_and_adds(op):
        return None
    type = op.body.block.args[2].type
    return type if isinstance(type, Float32Type | Float64Type) else None


def product_of(
    op: LinalgStructuredOperation, loops: Sequence[Loop], vector_bytes: int
) -> Product | None:
    """The sums of products of `op`; None if there is no kernel for them."""
    if (type := multiplied_type(op)) is None:
        return None
    lanes = vector_bytes // type.size
    return (
        packed_convolution_of(loops, type, lanes)
        or matrix_product_of(loops, type, lanes)
        or contraction_of(loops, type, lanes)
    )


def takes_start(product: Product) -> bool:
    """Whether a kernel may add its first sums to initial values."""
    match product:
        case PackedConvolution():
            along, sums = product.channels, product.sums
        case MatrixProduct():
            along, sums = product.columns, [product.sum]
        case Contraction():
            along, sums = product.along, product.sums
    # A dynamic number of products may be 0, and nothing would be stored.
    has_products = all(isinstance(x.count, int) for x in sums)
    return has_products and along.steps[START_OPERAND] in (0, 1)


def emit_product(
    product: Product,
    operands: Sequence[BufferDescriptor],
    into: Accumulation,
    offsets: Sequence[Size],
) -> None:
    """Emit the loops of a product; its operands start at `offsets`."""
    match product:
        case PackedConvolution():
            PackedConvolutionKernel(product, operands, into).run(offsets)
        case MatrixProduct():
            MatrixProductKernel(product, operands, into).run(offsets)
        case Contraction():
            ContractionKernel(product, operands, into).run(offsets)
