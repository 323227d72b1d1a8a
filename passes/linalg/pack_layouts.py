"""
Pack the channels of activations into tiles of a vector's length: NCHW to NCHWc.

A convolution of packed tensors computes a vector of channels of each pixel, from
contiguous weights and single elements of its input. Ops between convolutions work on
packed tensors too, so that only the borders of a network are converted. Convolutions of
any rank are packed, and then all ops that are loops over the channels: elementwise and
depthwise ones, pools, reductions of other dimensions, resampling, pads, concatenations.

The layout is that of Georganas et al., "Anatomy of High-Performance Deep Learning
Convolutions on SIMD Architectures", 2018. `layout_plan` decides what is packed.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.hints import isa

from padc.ir.main_function import body_of, functions_of
from padc.ir.tcp import AnyTensor
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    builder_at,
    builder_before,
)
from padc.passes.common.options import check_vector_bytes
from padc.passes.linalg.layout_plan import LayoutPlan
from padc.passes.linalg.packed_tensor_ops import PACKED_OPS
from padc.passes.linalg.packing import (
    Tile,
    Tiles,
    captured_by,
    pack,
    packed_op,
    packed_type,
    tiles_of,
    unpack,
)
from padc.passes.linalg.weights import PackedWeights


@dataclass(frozen=True)
class PackLayoutsPass(ModulePass):
    """Pack the channels of activations into tiles of a vector's length."""

    name = "pack-layouts"

    vector_bytes: int = 32
    """The bytes of a vector of this CPU: 16, 32 or 64."""

    def __post_init__(self) -> None:
        check_vector_bytes(self)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            plan = LayoutPlan.of(function, self.vector_bytes)
            LayoutPacker(function, plan).run()


class LayoutPacker:
    """A function while its tensors are packed as `plan` says."""

    def __init__(self, function: func.FuncOp, plan: LayoutPlan):
        self.function = function
        self.plan = plan
        self.weights = PackedWeights(function)
        self.forms: dict[tuple[SSAValue, Tiles], SSAValue] = {}
        """The packed forms of tensors."""

    def run(self) -> None:
        block = body_of(self.function)
        for op in list(block.ops):
            build = builder_before(op)
            if isinstance(op, LinalgStructuredOperation) and op in self.plan.loops:
                self.structured(build, op)
            elif op in self.plan.tiles:
                self.moved(build, op, self.plan.tiles[op])
        # Backwards: only ops that are not packed then use what they compute.
        for op in reversed(list(block.ops)):
            if op in self.plan.loops or op in self.plan.tiles:
                self.remove(op)
        region_dce(self.function.body)
        self.weights.declare()

    def structured(self, build: LinalgBuilder, op: LinalgStructuredOperation) -> None:
        loops = self.plan.loops[op]
        maps = [map.data for map in op.get_indexing_maps()]
        tiles = [tiles_of(map, loops) or () for map in maps]
        operands = [
            self.form(build, x, each)
            for x, each in zip(op.operands, tiles, strict=True)
        ]
        captured = {
            x: self.form(build, x, (tile,))
            for x, tile in captured_by(op, loops).items()
        }
        results = packed_op(build, op, loops, operands, captured)
        for old, new, each in zip(
            op.results, results, tiles[len(op.inputs) :], strict=True
        ):
            new.name_hint = old.name_hint
            self.forms[old, each] = new

    def moved(self, build: LinalgBuilder, op: Operation, tile: Tile) -> None:
        rule = PACKED_OPS[type(op)]
        inputs = [
            self.form(build, x, (tile,)) for x in op.operands if isa(x.type, AnyTensor)
        ]
        result_tile = rule.tile(op, tile)
        assert result_tile is not None
        new = build.insert(rule.build(op, result_tile, inputs))
        new.name_hint = op.results[0].name_hint
        self.forms[op.results[0], (result_tile,)] = new

    def form(self, build: LinalgBuilder, x: SSAValue, tiles: Tiles) -> SSAValue:
        """The packed form of `x`; `x` itself if there are no tiles."""
        if not tiles:
            return x
        if (x, tiles) not in self.forms:
            self.forms[x, tiles] = self.made(build, x, tiles)
        return self.forms[x, tiles]

    def made(self, build: LinalgBuilder, x: SSAValue, tiles: Tiles) -> SSAValue:
        if x in self.weights:
            return self.weights.packed(x, tiles)
        if isinstance(x.owner, tensor.EmptyOp):
            type = packed_type(x, tiles)
            sizes = list(x.owner.dynamic_sizes)
            return build.insert(tensor.EmptyOp(sizes, type))
        return pack(build, x, tiles)

    def remove(self, op: Operation) -> None:
        """Remove an op that is packed; what else needs its results unpacks them."""
        for result in op.results:
            if result.first_use is not None:
                # There may be other forms, which other ops asked for.
                tiles = self.plan.results[result]
                packed = self.forms[result, tiles]
                assert isinstance(packed.owner, Operation)
                build = builder_at(InsertPoint.after(packed.owner), op)
                result.replace_all_uses_with(unpack(build, packed, tiles))
        Rewriter.erase_op(op)
