"""
Lowering a function of buffers to an LLVM function that calls a kernel per linalg op.

The function takes the address of a table of 64-bit numbers: how its work is shared (see
`shared_calls`), then for each argument, in order, the address of the first element and
the dynamic sizes of a buffer, or an index. If loads and stores are checked, the address
of the status word comes before the arguments (see `access_check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import arith, func, llvm, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    i8,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from padc.ir import tcp
from padc.ir.main_function import body_of
from padc.passes.buffers_to_llvm.access_check import AccessCheck
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    bounds_of,
    contiguous,
    dim,
    refined,
    scalar,
    size,
    whole,
)
from padc.passes.buffers_to_llvm.kernels import Kernel
from padc.passes.buffers_to_llvm.linalg_kernels import kernel_of
from padc.passes.buffers_to_llvm.llvm_builder import POINTER, LlvmBuilder, Size
from padc.passes.buffers_to_llvm.llvm_module import LlvmModule
from padc.passes.buffers_to_llvm.loop_fusion import kernel_of_ops
from padc.passes.buffers_to_llvm.loop_groups import groups
from padc.passes.buffers_to_llvm.looped_ops import LoopedOp, Move, looped_op
from padc.passes.buffers_to_llvm.products.fused_products import (
    FusedProduct,
    Start,
    is_on_result,
    start_of,
)
from padc.passes.buffers_to_llvm.products.kernel_choice import multiplied_type
from padc.passes.buffers_to_llvm.scalars import lower_scalar
from padc.passes.buffers_to_llvm.shared_calls import TABLE_HEAD, SharedCalls
from padc.passes.buffers_to_llvm.winograd.fused_winograd import FusedWinograd
from padc.passes.buffers_to_llvm.work_sharing import is_shared
from padc.passes.common.memref_builder import AnyMemRef, memref_type

UNROLLED = 8
"""The most steps of a loop over buffer ops that is unrolled."""


def lower_function(function: func.FuncOp, module: LlvmModule) -> None:
    """Add the LLVM function of `function` to `module`."""
    FunctionLowering(function, module).run()


class FunctionLowering:
    """A function of buffers while it is lowered."""

    def __init__(self, function: func.FuncOp, module: LlvmModule):
        self.function = function
        self.module = module
        self.region = Region(Block(arg_types=[POINTER]))
        self.build = LlvmBuilder(
            self.region,
            self.region.block,
            grain=module.grain,
            vector_bytes=module.vector_bytes,
        )
        self.shared = SharedCalls(self.build, self.region.block)
        self.values: dict[SSAValue, Value] = {}
        self.waiting: list[LoopedOp] = []
        """Ops not yet emitted, which may share loops with those that follow."""
        self.product: FusedProduct | FusedWinograd | None = None
        """Sums of products not yet emitted; no ops wait then."""

    def run(self) -> None:
        self.arguments()
        self.block(body_of(self.function))
        name = self.function.sym_name.data
        for function in self.shared.functions(name, self.region):
            self.module.add(function)

    def arguments(self) -> None:
        table = self.region.block.args[0]
        place = TABLE_HEAD

        def entry(type: Any) -> SSAValue:
            nonlocal place
            address = self.build.address(table, place, i64)
            place += 1
            return self.build.load(address, type)

        if self.module.checked is not None:
            self.build.check = AccessCheck(entry(POINTER), self.module.checked)
        for arg in body_of(self.function).args:
            if isa(type := arg.type, AnyMemRef):
                pointer = entry(POINTER)
                sizes = [
                    entry(i64) if size == DYNAMIC_INDEX else size
                    for size in type.get_shape()
                ]
                bounds = bounds_of(self.build, pointer, type.element_type, sizes)
                self.values[arg] = contiguous(
                    self.build, pointer, type.element_type, sizes, arg, bounds
                )
            elif arg.type in (IndexType(), i64):
                self.values[arg] = entry(i64)
            else:
                raise PassFailedException(
                    f"a compiled function takes buffers and indices, not {arg.type}"
                )

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)
        self.flush()

    def op(self, op: Operation) -> None:
        """
        Lower one op of a block.

        One with loops waits, since those that follow may share them.
        """
        if isinstance(op, LinalgStructuredOperation):
            looped = looped_op(op, self.values, self.build)
            if looped is None:
                return self.other(op)
            if self.product is not None:
                if self.ends_product(looped):
                    return
                self.flush()
            self.waiting.append(looped)
            return
        if isinstance(op, tcp.WinogradConvOp):
            return self.winograd(op)
        if isinstance(op, memref.LoadOp | memref.StoreOp | func.ReturnOp):
            self.flush()
        if isinstance(op, memref.LoadOp | memref.StoreOp) and self.build.check:
            self.build.check = self.build.check.of(op)
        match op:
            case scf.ForOp():
                self.loop(op)
            case scf.YieldOp():
                pass
            case func.ReturnOp():
                if op.operands:
                    raise PassFailedException(
                        "a compiled function returns nothing; run plan-buffers first"
                    )
                self.build.do(llvm.ReturnOp())
            case memref.AllocOp():
                raise PassFailedException(
                    "a compiled function allocates no buffers; run plan-buffers first"
                )
            case memref.StoreOp():
                buffer = self.buffer(op.memref)
                address = buffer.element(self.build, self.sizes(op.indices))
                value = scalar(self.build, self.values[op.value])
                buffer.store(self.build, value, address)
            case _:
                self.values[op.results[0]] = self.value(op)

    def ends_product(self, op: LoopedOp) -> bool:
        """Emit the product that waits together with `op`, if that is possible."""
        product = self.product
        if product is None or not isinstance(op, Move):
            return False
        if not is_on_result(op, product.op):
            return False
        fused = replace(product, end=op)
        kernel = fused.kernel(self.build, self.module.vector_bytes)
        if kernel is None:
            return False
        self.product = None
        self.call(kernel)
        return True

    def start(self, op: LinalgStructuredOperation | tcp.WinogradConvOp) -> Start | None:
        """The op before a product, if the sums may start from what it copies."""
        match self.waiting:
            case [*_, Move() as move]:
                return start_of(move, op)
            case _:
                return None

    def other(self, op: LinalgStructuredOperation) -> None:
        """
        Lower an op that is no move.

        Sums of products take the op before them, and wait for the one after them.
        """
        build, bytes = self.build, self.module.vector_bytes
        if multiplied_type(op) is None:
            self.flush()
            return self.call(kernel_of(op, self.values, build))
        product = FusedProduct(op, {x: self.values[x] for x in op.operands})
        if product.is_empty(build):
            return
        if (start := self.start(op)) is not None:
            started = replace(product, start=start)
            if started.is_possible(build, bytes):
                product = started
                self.waiting.pop()
        self.flush()
        self.product = product

    def winograd(self, op: tcp.WinogradConvOp) -> None:
        """Lower a convolution, which takes the op before it, as products do."""
        product = FusedWinograd(op, {x: self.values[x] for x in op.operands})
        if (start := self.start(op)) is not None:
            started = replace(product, start=start)
            if started.takes_start():
                product = started
                self.waiting.pop()
        self.flush()
        self.product = product

    def flush(self) -> None:
        """Emit the calls for the ops, or the product, that wait."""
        product, self.product = self.product, None
        if product is not None:
            kernel = product.kernel(self.build, self.module.vector_bytes)
            if kernel is None:
                assert isinstance(product, FusedProduct)
                kernel = kernel_of(product.op, product.values, self.build)
            self.call(kernel)
        waiting, self.waiting = self.waiting, []
        for together in groups(waiting):
            if len(together) > 1:
                self.call(kernel_of_ops(together, self.values, self.build))
                continue
            (op,) = together
            self.call(kernel_of(op.op, op.values, self.build))

    def call(self, kernel: Kernel) -> None:
        name, arguments = self.module.function(kernel)
        if is_shared(kernel.threads):
            self.shared.call(name, arguments, kernel.threads)
        else:
            self.build.do(llvm.CallOp(name, *arguments))

    def loop(self, op: scf.ForOp) -> None:
        if op.iter_args:
            raise PassFailedException("'scf.for' may not carry values")
        first, end, step = self.sizes([op.lb, op.ub, op.step])
        if isinstance(step, int) and step < 1:
            raise PassFailedException(
                f"'scf.for' has the step {step}, which is below 1"
            )
        count = None
        if isinstance(first, int) and isinstance(end, int) and isinstance(step, int):
            places = range(first, end, step)
            if len(places) <= UNROLLED and not has_products(op):
                # Unrolled, its moves can share loops with those around it.
                for place in places:
                    self.values[op.body.block.args[0]] = place
                    for inner in op.body.block.ops:
                        self.op(inner)
                return
            count = len(places)
        self.flush()

        def body(build: LlvmBuilder, place: SSAValue) -> None:
            self.values[op.body.block.args[0]] = place
            self.block(op.body.block)

        times = self.shared.times
        self.shared.times = None if times is None or count is None else times * count
        self.build.loop(first, end, step, body)
        self.shared.times = times

    def value(self, op: Operation) -> Value:
        """The result of an op that writes nothing."""
        build = self.build
        match op:
            case arith.ConstantOp(value=IntegerAttr() as number) if isinstance(
                number.type, IndexType
            ):
                return number.value.data
            case arith.AddiOp() if isinstance(op.result.type, IndexType):
                return build.add(*self.sizes(op.operands))
            case arith.MuliOp() if isinstance(op.result.type, IndexType):
                return build.mul(*self.sizes(op.operands))
            case memref.DimOp():
                return dim(self.values, op)
            case memref.LoadOp():
                buffer = self.buffer(op.memref)
                address = buffer.element(build, self.sizes(op.indices))
                return buffer.load(build, address)
            case memref.CastOp():
                buffer = self.buffer(op.source)
                sizes = refined(buffer.sizes, memref_type(op.dest).get_shape())
                return replace(buffer, sizes=sizes)
            case memref.SubviewOp():
                return self.subview(op)
            case memref.ViewOp():
                return self.view(op)
            case memref.ExpandShapeOp():
                return self.expand(op)
            case memref.CollapseShapeOp():
                buffer = self.buffer(op.src)
                sizes: list[Size] = []
                for group in op.reassociation:
                    total: Size = 1
                    for number in group:
                        total = build.mul(total, buffer.sizes[number.value.data])
                    sizes.append(total)
                sizes = refined(sizes, memref_type(op.result).get_shape())
                return contiguous(
                    build,
                    buffer.pointer,
                    buffer.element_type,
                    sizes,
                    buffer.memory,
                    buffer.bounds,
                )
            case _:
                args = [scalar(build, self.values[x]) for x in op.operands]
                return lower_scalar(build, op, args)

    def view(self, op: memref.ViewOp) -> BufferDescriptor:
        build, source, type = self.build, self.buffer(op.source), memref_type(op.result)
        pointer = build.address(source.pointer, self.size(op.byte_shift), i8)
        sizes = self.amounts(type.get_shape(), op.sizes)
        bounds = bounds_of(build, pointer, type.element_type, sizes)
        if bounds is not None and source.bounds is not None:
            bounds = bounds.within(build, source.bounds)
        return contiguous(build, pointer, type.element_type, sizes, op.result, bounds)

    def subview(self, op: memref.SubviewOp) -> BufferDescriptor:
        build, buffer = self.build, self.buffer(op.source)
        offsets = self.amounts(op.static_offsets.get_values(), op.offsets)
        sizes = self.amounts(op.static_sizes.get_values(), op.sizes)
        steps = self.amounts(op.static_strides.get_values(), op.strides)
        strides = [
            build.mul(step, stride)
            for step, stride in zip(steps, buffer.strides, strict=True)
        ]
        return replace(
            buffer,
            pointer=buffer.element(build, offsets),
            sizes=sizes,
            strides=strides,
            places=[
                build.add(place, build.mul(offset, spacing))
                for place, offset, spacing in zip(
                    buffer.places, offsets, buffer.spacing, strict=True
                )
            ],
            spacing=[
                build.mul(step, spacing)
                for step, spacing in zip(steps, buffer.spacing, strict=True)
            ],
        )

    def expand(self, op: memref.ExpandShapeOp) -> BufferDescriptor:
        build, buffer = self.build, self.buffer(op.src)
        sizes = self.amounts(op.static_output_shape.get_values(), op.output_shape)
        strides: list[Size] = []
        for group, stride in zip(op.reassociation, buffer.strides, strict=True):
            along: list[Size] = []
            for number in reversed(list(group)):
                along.append(stride)
                stride = build.mul(stride, sizes[number.value.data])
            strides += reversed(along)
        return whole(
            buffer.pointer,
            buffer.element_type,
            sizes,
            strides,
            buffer.memory,
            buffer.bounds,
        )

    def buffer(self, x: SSAValue) -> BufferDescriptor:
        buffer = self.values[x]
        assert isinstance(buffer, BufferDescriptor)
        return buffer

    def size(self, x: SSAValue) -> Size:
        return size(self.values[x])

    def sizes(self, xs: Sequence[SSAValue]) -> list[Size]:
        return [self.size(x) for x in xs]

    def amounts(self, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[Size]:
        known = iter(dynamic)
        return [
            self.size(next(known)) if amount == DYNAMIC_INDEX else amount
            for amount in static
        ]


def has_products(op: scf.ForOp) -> bool:
    """Whether there are sums of products in a loop, whose code is long."""
    return any(
        isinstance(inner, LinalgStructuredOperation)
        and multiplied_type(inner) is not None
        for inner in op.walk()
    )
