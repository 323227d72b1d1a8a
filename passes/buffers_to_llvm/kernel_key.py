"""Keys of kernels: ops with equal keys become the same function."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue

from padc.passes.buffers_to_llvm.access_check import AccessCheck
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.llvm_builder import Size
from padc.passes.buffers_to_llvm.loops import Loop


class KernelKey:
    """
    Builds a key from the parts of a kernel.

    Values of the caller are numbered in the order of their first use.
    """

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, int] = {}

    @property
    def values(self) -> Sequence[SSAValue]:
        """The values of the caller, in the order of their numbers."""
        return list(self._numbers)

    def size(self, size: Size) -> Hashable:
        if isinstance(size, int):
            return size
        number = self._numbers.setdefault(size, len(self._numbers))
        return number, size.type

    def sizes(self, sizes: Iterable[Size]) -> Hashable:
        return tuple(map(self.size, sizes))

    def value(self, value: Value) -> Hashable:
        if not isinstance(value, BufferDescriptor):
            return self.size(value)
        layout = self.sizes(value.sizes), self.sizes(value.strides)
        bounds = value.bounds and self.sizes([value.bounds.begin, value.bounds.end])
        return self.size(value.pointer), value.element_type, layout, bounds

    def check(self, check: AccessCheck | None) -> Hashable:
        """How loads and stores are checked: kernels of other lines are others."""
        return check and (self.size(check.status), check.number)

    def loops(self, loops: Iterable[Loop]) -> Hashable:
        return tuple(
            (loop.dims, loop.reduces, self.size(loop.count), self.sizes(loop.steps))
            for loop in loops
        )

    def op(
        self, op: LinalgStructuredOperation, values: Mapping[SSAValue, Value]
    ) -> Hashable:
        """The operands and the body of `op`."""
        inside: dict[SSAValue, Hashable] = {}

        def enter(values: Iterable[SSAValue]) -> Hashable:
            for value in values:
                inside[value] = f"%{len(inside)}"
            return tuple(value.type for value in values)

        def use(value: SSAValue) -> Hashable:
            return inside[value] if value in inside else self.value(values[value])

        operands = tuple(self.value(values[x]) for x in op.operands)
        types = enter(op.body.block.args)
        body = [
            (
                inner.name,
                data(inner),
                tuple(map(use, inner.operands)),
                enter(inner.results),
                *(enter(b.args) for region in inner.regions for b in region.blocks),
            )
            for inner in op.body.walk()
        ]
        return len(op.outputs), operands, types, *body


def data(op: Operation) -> Hashable:
    """The attributes of an op; constants as text, which tells -0.0 from 0.0."""
    if isinstance(op, arith.ConstantOp):
        return str(op.value)
    return tuple(op.properties.items()), tuple(op.attributes.items())
