"""Rewriting a function of tensors as a function of buffers, op by op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import func, memref, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FunctionType,
    MemRefType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.utils.dynamic_index_list import get_dynamic_index_list
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from padc.ir.main_function import body_of
from padc.ir.tcp import Amount, AnyTensor, fill_type
from padc.ir.type_tests import is_integer
from padc.passes.buffers.deallocation import place_deallocs
from padc.passes.buffers.hoisting import hoist
from padc.passes.common.lowering import LoweringTable
from padc.passes.common.memref_builder import AnyMemRef, MemRefBuilder, memref_type

Lowering: TypeAlias = "Callable[[FunctionBufferizer, Any], SSAValue]"
"""From an op on tensors to the buffer, or view, that holds its result."""

LOWERINGS = LoweringTable[type[Operation], Lowering]()
bufferizes = LOWERINGS.lowers

RESHAPES = tensor.CollapseShapeOp, tensor.ExpandShapeOp
RESHAPED_BUFFERS = memref.CollapseShapeOp, memref.ExpandShapeOp


def buffer_type(type: AnyTensor) -> AnyMemRef:
    """The type of a new buffer for tensors of `type`: signless and contiguous."""
    element_type = fill_type(type.element_type)
    if not isinstance(element_type, AnyFloat) and not is_integer(element_type):
        raise PassFailedException(
            f"there are no buffers for elements of {element_type}"
        )
    return MemRefType(element_type, type.get_shape())


class FunctionBufferizer:
    """A function while its tensors become buffers."""

    def __init__(self, function: func.FuncOp):
        self.function = function
        self.old = body_of(function)
        types = [
            buffer_type(type) if isa(type := arg.type, AnyTensor) else type
            for arg in self.old.args
        ]
        self.new = Block(arg_types=types)
        self.build = MemRefBuilder(Builder(InsertPoint.at_end(self.new)))
        self.values: dict[SSAValue, SSAValue] = {}
        """The buffer of each tensor, and the new value of each other value."""
        self.made_for: dict[SSAValue, SSAValue] = {}
        """For each buffer that the function allocates, the tensor that it holds."""
        for old, new in zip(self.old.args, self.new.args, strict=True):
            new.name_hint = old.name_hint
            self.values[old] = new

    def run(self) -> None:
        for op in self.old.ops:
            before = self.new.last_op
            self.lower(op)
            made = self.new.first_op if before is None else before.next_op
            while made is not None:
                made.location = op.location
                made = made.next_op
        self.function.body.detach_block(self.old)
        self.old.erase()
        self.function.body.add_block(self.new)
        last = self.new.last_op
        assert last is not None
        self.function.function_type = FunctionType.from_lists(
            list(self.new.arg_types), [value.type for value in last.operands]
        )
        region_dce(self.function.body)
        place_deallocs(self.function)

    def lower(self, op: Operation) -> None:
        if isinstance(op, func.ReturnOp):
            self.build.builder.insert(func.ReturnOp(*self.returned(op)))
        elif isinstance(op, LinalgStructuredOperation):
            self.structured(op)
        elif type(op) in LOWERINGS:
            buffer = LOWERINGS[type(op)](self, op)
            buffer.name_hint = buffer.name_hint or op.results[0].name_hint
            self.values[op.results[0]] = buffer
            maker = self.made_for.get(buffer)
            handed_on = (
                maker is not None and maker in op.operands and maker.has_one_use()
            )
            if isinstance(buffer.owner, memref.AllocOp) and (
                maker is None or handed_on
            ):
                self.made_for[buffer] = op.results[0]
        elif not any(isa(v.type, AnyTensor) for v in (*op.operands, *op.results)):
            self.build.builder.insert(op.clone(self.values))
        else:
            raise PassFailedException(
                f"bufferize-tcp does not take '{op.name}'; run convert-torch-to-linalg "
                "and convert-tcp-to-linalg{border-pads=false} first"
            )

    def amounts(
        self, static: Sequence[int], dynamic: Sequence[SSAValue]
    ) -> list[Amount]:
        """A list of sizes, offsets or strides of an op on tensors."""
        return get_dynamic_index_list(
            static, [self.values[value] for value in dynamic], DYNAMIC_INDEX
        )

    def new_like(self, buffer: SSAValue) -> SSAValue:
        return self.build.alloc(
            self.build.sizes(buffer), memref_type(buffer).element_type
        )

    def copied(self, buffer: SSAValue) -> SSAValue:
        copy = self.new_like(buffer)
        self.build.copy(buffer, copy)
        return copy

    def target(self, init: SSAValue, reads: bool = True) -> SSAValue:
        """
        The buffer that an op may write to instead of the tensor `init`.

        It holds the elements of `init` if the op `reads` them. It is the buffer of
        `init` itself if the op is the only use of `init`.
        """
        buffer = self.values[init]
        if self.made_for.get(buffer) is init and init.has_one_use():
            del self.made_for[buffer]
            return buffer
        if reads and not isinstance(init.owner, tensor.EmptyOp):
            return self.copied(buffer)
        return self.new_like(buffer)

    def structured(self, op: LinalgStructuredOperation) -> None:
        """Lower a linalg op to one that writes to its output buffers."""
        if len(op.results) != len(op.outputs):
            raise PassFailedException(
                f"bufferize-tcp takes '{op.name}' of tensors, and this has outputs "
                f"of {', '.join(str(x.type) for x in op.outputs)}"
            )
        places = op.body.block.args[len(op.inputs) :]
        outputs = [
            self.target(init, reads=place.first_use is not None)
            for init, place in zip(op.outputs, places, strict=True)
        ]
        region = Region()
        op.body.clone_into(region, value_mapper=dict(self.values))
        new = type(op).create(
            operands=[*[self.values[x] for x in op.inputs], *outputs],
            properties=op.properties,
            attributes=op.attributes,
            regions=[region],
        )
        self.build.builder.insert(new)
        for inner in list(region.walk()):
            replace_access(inner)
        for result, output in zip(op.results, outputs, strict=True):
            self.values[result] = output
            self.made_for[output] = result

    def returned(self, op: func.ReturnOp) -> list[SSAValue]:
        """
        The values to return instead of the operands of `op`.

        A returned buffer is allocated here, whole, and returned once.
        """
        results: list[SSAValue] = []
        buffers: set[SSAValue] = set()
        for value in op.operands:
            new = self.values[value]
            if isa(type := value.type, AnyTensor):
                if self.made_for.get(new) is not value or new in buffers:
                    viewed = self.reshaped_result(value, buffers)
                    new = self.copied(new) if viewed is None else viewed
                buffers.add(new)
                new = cast(self.build, new, type)
            results.append(new)
        return results

    def reshaped_result(
        self, value: SSAValue, returned: Collection[SSAValue]
    ) -> SSAValue | None:
        """
        A buffer of the shape of `value`, of which the one that it reshapes is a view.

            %a = alloc : 2x3    %b = collapse %a : 6    return a copy of %b

        becomes

            %b = alloc : 6    %a = expand %b : 2x3    return %b

        None if `value` does not reshape a tensor for which the function has allocated a
        buffer that is not `returned`, or if its sizes are not known there; and for a
        number, of which the copy takes no time.
        """
        tensors = [value]
        while isinstance(op := tensors[-1].owner, RESHAPES):
            tensors.append(op.operands[0])
        *views, old = [self.values[x] for x in tensors]
        made = self.made_for.get(old) is tensors[-1] and old not in returned
        if not made or not isinstance(alloc := old.owner, memref.AllocOp):
            return None
        reshapes = [
            view.owner for view in views if isinstance(view.owner, RESHAPED_BUFFERS)
        ]
        if len(reshapes) != len(views):
            return None
        sizes = [self.build.sizes(x) for x in (*views, old)]
        if not all(sizes):
            return None
        computed = [x.owner for each in sizes for x in each if isinstance(x, SSAValue)]
        ops = [op for op in computed if isinstance(op, Operation)]
        if not hoist(self.new, ops, alloc):
            return None
        build = MemRefBuilder(Builder(InsertPoint.before(alloc)))
        new = build.alloc(sizes[0], memref_type(old).element_type)
        x = new
        for op, shape in zip(reshapes, sizes[1:], strict=True):
            is_collapsed = isinstance(op, memref.CollapseShapeOp)
            back = build.expanded if is_collapsed else build.collapsed
            x = back(x, op.reassociation, shape)
        views[0].replace_all_uses_with(new)
        old.replace_all_uses_with(x)
        Rewriter.erase_op(alloc)
        self.values |= {tensors[0]: new, tensors[-1]: x}
        return new


def cast(build: MemRefBuilder, x: SSAValue, type: AnyTensor) -> SSAValue:
    """`x` with the static sizes of `type`."""
    old = memref_type(x)
    new = MemRefType(old.element_type, type.get_shape(), old.layout)
    return x if new == old else build.insert(memref.CastOp.get(x, new))


def replace_access(op: Operation) -> None:
    """Replace an access to a tensor, in the body of a linalg op, by one to a buffer."""
    match op:
        case tensor.ExtractOp():
            new = memref.LoadOp.get(op.tensor, list(op.indices))
        case tensor.DimOp():
            new = memref.DimOp(op.source, op.index)
        case _:
            return
    Rewriter.replace_op(op, new)
