"""
Matrix products, in blocks that stay in caches and tiles that stay in registers.

A result tile of a few rows and a few vectors of columns is summed in registers. The
columns of the streamed input that a tile takes are a panel, packed for a block of the
products: contiguous, so that it stays in the first cache while all rows use it. Source:
K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM
Transactions on Mathematical Software 34, 2008).

    for each block of rows
      for each block of columns
        for each block of products
          for each panel of columns
            pack the block of the panel
            for each tile of rows
              add the sums of the block to the tile

A streamed input that is one panel already (see `pack_weights`) is read in place. If
there are few rows, packing costs more than it saves: a streamed input with contiguous
rows is then read in place, too; one with contiguous columns is multiplied along them,
as dot products.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm

from padc.passes.buffers_to_llvm.llvm_builder import Size, predicate
from padc.passes.buffers_to_llvm.products.dot_products import DotProducts
from padc.passes.buffers_to_llvm.products.matrix_product_loops import MatrixProductLoops
from padc.passes.buffers_to_llvm.products.product_blocks import Blocks
from padc.passes.buffers_to_llvm.work_sharing import share
from padc.passes.common.kernel_tiles import FEW_ROWS


class MatrixProductKernel(MatrixProductLoops):
    """Emits a matrix product."""

    def run(self, offsets: Sequence[Size]) -> None:
        build, op = self.build, self.op

        def run(kind: DotProducts | Blocks) -> None:
            share(build, kind.counts)
            kind.run(offsets)

        if not op.is_dot:
            return run(Blocks(self))
        if isinstance(op.rows.count, int):
            return run((DotProducts if op.rows.count < FEW_ROWS else Blocks)(self))
        dots, blocks = DotProducts(self), Blocks(self)
        few = build.value(FEW_ROWS)
        build.either(
            build.insert(llvm.ICmpOp(op.rows.count, few, predicate("slt"))),
            lambda: run(dots),
            lambda: run(blocks),
        )
