"""
Elementwise ops overwrite the sums that they read.

    %y = linalg.conv_2d_nchw_fchw ...
    %z = linalg.generic ins(%y, %w) outs(%e) { ^(%a, %b, %_): %c = addf %a, %b; ... }

becomes

    %y = linalg.conv_2d_nchw_fchw ...
    %z = linalg.generic ins(%w) outs(%y) { ^(%b, %a): %c = addf %a, %b; ... }

Both then have one buffer, and the kernel of the convolution can run the elementwise op
on each of its tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from padc.ir import tcp
from padc.passes.linalg.elementwise import is_elementwise, is_identity


def summed(op: linalg.GenericOp) -> SSAValue | None:
    """The last computed of the sums that only `op` reads, element by element."""
    found: dict[Operation, SSAValue] = {}
    for x in dict.fromkeys(op.inputs):
        places = [place for place, other in enumerate(op.inputs) if other is x]
        if (
            x.type == op.results[0].type
            and isinstance(x.owner, LinalgStructuredOperation | tcp.WinogradConvOp)
            and x.owner.parent is op.parent
            and sums(x.owner)
            and len(list(x.uses)) == len(places)
            and all(is_identity(op, place) for place in places)
        ):
            found[x.owner] = x
    last = None
    for owner in found:
        if last is None or last.is_before_in_block(owner):
            last = owner
    return None if last is None else found[last]


def sums(op: LinalgStructuredOperation | tcp.WinogradConvOp) -> bool:
    """Whether `op` reduces some dimension."""
    if isinstance(op, tcp.WinogradConvOp):
        return True
    kinds = op.get_iterator_types()
    return any(kind.data is IteratorType.REDUCTION for kind in kinds)


@dataclass(frozen=True)
class WriteToSums(RewritePattern):
    """An elementwise op on sums writes to their tensor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: linalg.GenericOp, rewriter: PatternRewriter, /
    ) -> None:
        if not is_elementwise(op) or (x := summed(op)) is None:
            return
        kept = [place for place, other in enumerate(op.inputs) if other is not x]
        *args, last = op.body.block.args
        block = Block(arg_types=[*(args[place].type for place in kept), last.type])
        values: dict[SSAValue, SSAValue] = dict.fromkeys(args, block.args[-1])
        for place, arg in zip(kept, block.args):
            values[args[place]] = arg
        for inner in op.body.block.ops:
            block.add_op(inner.clone(values))
        maps = op.indexing_maps.data
        new = linalg.GenericOp(
            [op.inputs[place] for place in kept],
            [x],
            Region(block),
            ArrayAttr([*(maps[place] for place in kept), maps[-1]]),
            op.iterator_types,
            list(op.result_types),
        )
        new.location = op.location
        rewriter.replace(op, new)


@dataclass(frozen=True)
class WriteInPlacePass(ModulePass):
    """Let elementwise ops overwrite the sums that they read."""

    name = "write-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(WriteToSums()).rewrite_module(op)
