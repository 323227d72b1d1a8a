"""
Elementwise ops that only another elementwise op reads become part of that op.

    %y = linalg.generic ins(%x) { ^(%a): %b = exp %a; yield %b }
    %z = linalg.generic ins(%y, %w) { ^(%b, %c): %d = addf %b, %c; yield %d }

becomes

    %z = linalg.generic ins(%x, %w) { ^(%a, %c): %b = exp %a; %d = addf %b, %c; ... }

`%y` is then neither stored nor loaded. Each element is computed once, as before.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from padc.passes.linalg.elementwise import is_elementwise, is_identity


def fused(
    producer: linalg.GenericOp, consumer: linalg.GenericOp, place: int
) -> linalg.GenericOp:
    """`consumer`, which computes the elements of its input `place` as `producer`."""
    count = len(producer.inputs)
    old = list(consumer.body.block.args)
    args = [*old[:place], *producer.body.block.args[:count], *old[place + 1 :]]
    block = Block(arg_types=[arg.type for arg in args])
    values: dict[SSAValue, SSAValue] = dict(zip(args, block.args, strict=True))
    *ops, end = producer.body.block.ops
    for op in ops:
        block.add_op(op.clone(values))
    (computed,) = end.operands
    values[old[place]] = values.get(computed, computed)
    for op in consumer.body.block.ops:
        block.add_op(op.clone(values))
    maps, others = consumer.indexing_maps.data, producer.indexing_maps.data
    new = linalg.GenericOp(
        [*consumer.inputs[:place], *producer.inputs, *consumer.inputs[place + 1 :]],
        list(consumer.outputs),
        Region(block),
        [*maps[:place], *others[:count], *maps[place + 1 :]],
        consumer.iterator_types,
        list(consumer.result_types),
    )
    new.location = consumer.location
    return new


@dataclass(frozen=True)
class FuseProducer(RewritePattern):
    """`f(g(x), y) -> (f . g)(x, y)`, where nothing else reads `g(x)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: linalg.GenericOp, rewriter: PatternRewriter, /
    ) -> None:
        if not is_elementwise(op):
            return
        for place, x in enumerate(op.inputs):
            producer = x.owner
            if (
                isinstance(producer, linalg.GenericOp)
                and producer.parent is op.parent
                and x.has_one_use()
                and is_identity(op, place)
                and is_elementwise(producer)
            ):
                rewriter.replace(op, fused(producer, op, place))
                rewriter.erase(producer)
                return


@dataclass(frozen=True)
class FuseElementwisePass(ModulePass):
    """Fuse chains of elementwise ops, so that each runs over memory once."""

    name = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(FuseProducer()).rewrite_module(op)
