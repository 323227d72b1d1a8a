"""An ATen op on tensors of more dimensions than Core ML has, and the table of rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.torch import (
    AtenOp,
    ToBuiltinTensorOp,
    VTensorType,
    aten_op,
    vtensor_type,
)
from padc.passes.aten.aten_call import AtenCall, known
from padc.passes.aten.builder import Argument, AtenBuilder, Integer, sizes_in_type
from padc.passes.common.lowering import LoweringTable, Replacement
from padc.passes.tcp_to_mil.ranks.carrier import (
    Carrier,
    given_sizes,
    is_high,
    rank_of,
    shape_of,
    stripped,
    symbols,
    viewed,
)
from padc.passes.tcp_to_mil.ranks.grouping import (
    Groups,
    apart,
    grouped,
    matching,
    refines,
    without_ones,
)

TOO_MANY = (
    "split the op into several, or join dimensions before it with flatten: those that "
    "are next to each other and that the op treats alike"
)


class RefusedOperandError(Exception):
    """The op that computes an operand has been refused."""


@dataclass(frozen=True)
class Views:
    """The views that the pass knows."""

    groups: dict[Operation, Groups | None] = field(
        default_factory=dict[Operation, Groups | None]
    )
    """For each view, which of its dimensions each dimension of the operand holds."""
    builtin: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Values of the torch dialect as builtin tensors."""
    made: dict[Any, SSAValue] = field(default_factory=dict[Any, SSAValue])
    """Views of carriers, by the operand, the type and the sizes."""


@dataclass(frozen=True)
class RankBuilder(AtenBuilder):
    """Inserts ops on carriers."""

    views: Views = field(default_factory=Views)

    def builtin(self, x: SSAValue) -> SSAValue:
        """`x` as a builtin tensor."""
        x = stripped(x)
        if not isinstance(x.type, VTensorType):
            return x
        if x not in self.views.builtin:
            self.views.builtin[x] = self.insert(ToBuiltinTensorOp(x))
        return self.views.builtin[x]

    # --- carriers ---------------------------------------------------------------

    def carrier(self, x: SSAValue) -> Carrier:
        """The carrier of the tensor `x`."""
        if not is_high(x):
            value = self.builtin(x)
            sizes = self.sizes(value)
            return Carrier(value, sizes, tuple((dim,) for dim in range(len(sizes))))
        view = viewed(x)
        if view is None or is_high(view.arg("self")):
            if isinstance(x.owner, Operation):
                raise RefusedOperandError
            raise Obstacle(
                f"the input has rank {rank_of(x.type)}; Core ML's tensors have rank "
                f"{mil.MAX_RANK} at most",
                "join dimensions of the input, and reshape it in the model",
            )
        value = self.builtin(view.arg("self"))
        sizes = self.sizes_of_view(view)
        if view not in self.views.groups:
            merged = symbols(self.sizes(value))
            self.views.groups[view] = matching(merged, symbols(sizes))
        return Carrier(value, sizes, self.views.groups[view])

    def sizes_of_view(self, view: AtenOp) -> list[Integer]:
        """The sizes of a view, each as exactly as it is known."""
        (type,) = view.result_types
        assert isinstance(type, VTensorType)
        sizes = list(type.get_shape())
        given = given_sizes(view) or sizes
        known_sizes = [
            wanted if size == DYNAMIC_INDEX else size
            for size, wanted in zip(sizes, given, strict=True)
        ]
        if -1 in known_sizes:
            others = self.product([s for s in known_sizes if s != -1])
            all = self.product(self.sizes(self.builtin(view.arg("self"))))
            known_sizes[known_sizes.index(-1)] = self.floordiv(all, others)
        return known_sizes

    def merged(self, x: Carrier, groups: Groups) -> SSAValue:
        """A tensor with a dimension for each group; of rank 1 without groups."""
        if x.groups is not None and groups:
            if without_ones(x.groups, x.shape) == without_ones(groups, x.shape):
                return x.value
        sizes = [tuple(x.sizes[dim] for dim in group) for group in groups] or [()]
        return self.reshaped(x.value, sizes)

    def flat(self, x: Carrier) -> SSAValue:
        """All elements in one dimension."""
        return self.merged(x, (tuple(range(x.rank)),))

    def reshaped(
        self,
        x: SSAValue,
        sizes: Sequence[tuple[Integer, ...]],
        type: AnyTensor | None = None,
    ) -> SSAValue:
        """`x` with a dimension for each product of sizes; one size may be -1."""
        shape = [*map(product_in_type, sizes)]
        x = self.source(x)
        if shape_of(x) == shape and shape.count(DYNAMIC_INDEX) < 2:
            return x if type is None else self.refined(x, type)
        type = type or TensorType(tensor_type(x).element_type, shape)
        key = x, type, tuple(sizes)
        if key not in self.views.made:
            shape = self.given_shape(sizes)
            self.views.made[key] = self.call("reshape", type, self=x, shape=shape)
        return self.views.made[key]

    def given_shape(self, sizes: Sequence[tuple[Integer, ...]]) -> list[Integer]:
        """The products of sizes; -1 for the one that takes most multiplications."""
        dynamic = [dim for dim, each in enumerate(sizes) if product_in_type(each) < 0]
        if not any(-1 in each for each in sizes):
            rest = max(dynamic, key=lambda dim: len(sizes[dim]), default=None)
            sizes = [(-1,) if dim == rest else each for dim, each in enumerate(sizes)]
        return [*map(self.product, sizes)]

    def source(self, x: SSAValue) -> SSAValue:
        """The value that `x` is a view of; `x` itself if it is not a view."""
        while (view := viewed(x)) is not None and not is_high(view.arg("self")):
            x = self.builtin(view.arg("self"))
        return x

    def choose(
        self,
        required: Groups,
        carriers: Sequence[Carrier],
        most: int = mil.MAX_RANK,
    ) -> Groups:
        """
        Groups for an op that takes each group of `required` as one dimension or more.

        Of the operands' groups that fit, those that most operands have; without any,
        `required`. There are at most `most`.
        """
        dims = set(sum(required, ()))
        own = [only(x.groups, dims) for x in carriers if x.groups is not None]
        fitting = [g for g in own if refines(g, required) and len(g) <= most]
        if fitting:
            return max(fitting, key=own.count)
        if len(required) > most:
            raise Obstacle(
                f"it needs {len(required)} dimensions apart from each other, and Core "
                f"ML's tensors have rank {mil.MAX_RANK} at most",
                TOO_MANY,
            )
        return required

    # --- tensors ----------------------------------------------------------------

    def view(
        self,
        x: SSAValue,
        sizes: Sequence[Integer],
        type: AnyTensor,
        groups: Groups | None = None,
    ) -> SSAValue:
        """
        The tensor of type `type` that `x` carries.

        With more than `mil.MAX_RANK` dimensions it is a view that the next op removes.
        """
        sizes = [
            size if own == DYNAMIC_INDEX else own
            for size, own in zip(sizes, type.get_shape(), strict=True)
        ]
        if type.get_num_dims() <= mil.MAX_RANK:
            return self.reshaped(x, [(size,) for size in sizes], type)
        arguments: dict[str, Argument] = {"self": x, "size": sizes}
        result = self.emit("aten.view", vtensor_type(type), arguments)
        assert isinstance(result.owner, AtenOp)
        self.views.groups[result.owner] = groups
        return self.builtin(result)


def product_in_type(sizes: Sequence[Integer]) -> int:
    """The product of sizes, as a size of a type."""
    shape = sizes_in_type(sizes)
    is_dynamic = DYNAMIC_INDEX in shape or -1 in shape
    return DYNAMIC_INDEX if is_dynamic else math.prod(shape)


def only(groups: Groups, dims: set[int]) -> Groups:
    """The groups without dimensions that are not in `dims`."""
    return tuple(tuple(dim for dim in group if dim in dims) for group in groups)


@dataclass(frozen=True)
class RankCall(AtenCall):
    """An ATen op whose tensors are carried by ones of fewer dimensions."""

    build: RankBuilder

    def insert(self, op: Operation) -> SSAValue:
        return self.build.insert(op)

    def carrier(self, name: str) -> Carrier:
        return self.build.carrier(self.op.arg(name))

    def dims(self, name: str, rank: int) -> list[int]:
        """A dimension or a list of them, counted from 0."""
        value = self.constant(name)
        values = value if isinstance(value, list) else [value]
        return [dim % max(rank, 1) for dim in values if isinstance(dim, int)]

    def sizes(self, name: str) -> list[Integer]:
        return [*map(known, self.elements(name))]

    @property
    def result_shape(self) -> list[int]:
        return list(self.result_type().get_shape())

    def again(self, /, *shapes: Sequence[int], **arguments: Argument) -> list[SSAValue]:
        """The op on other arguments, with results of other shapes."""
        types = [
            VTensorType.get(self.result_element(index), tuple(shape))
            for index, shape in enumerate(shapes)
        ]
        new = self.rebuilt(types, **arguments)
        return [self.build.builtin(result) for result in new.results]

    def rebuilt(self, types: Sequence[Attribute], /, **arguments: Argument) -> AtenOp:
        """The op on other arguments, with results of other types."""
        operands = [
            self.build.operand(arguments[each.name], each.type)
            if each.name in arguments
            else self.op.arg(each.name)
            for each in self.op.schema.arguments
        ]
        new = aten_op(self.name, operands, types)
        self.build.insert(new)
        return new

    def result_element(self, index: int) -> Attribute:
        type = self.op.results[index].type
        assert isinstance(type, VTensorType)
        return type.element_type

    def view(
        self,
        x: SSAValue,
        sizes: Sequence[Integer],
        groups: Groups | None = None,
        index: int = 0,
    ) -> SSAValue:
        """The result that `x` carries."""
        return self.build.view(x, sizes, self.result_type(index), groups)


def batches(changes: Sequence[bool], sizes: Sequence[Integer]) -> list[set[int]]:
    """The changed dimensions in parts, each of which needs no more than `MAX_RANK`."""
    parts: list[set[int]] = []
    for dim in [dim for dim, changed in enumerate(changes) if changed]:
        part = {*parts[-1], dim} if parts else {dim}
        each = [[dim] for dim in part]
        if parts and len(grouped(apart(sizes, *each))) <= mil.MAX_RANK:
            parts[-1] = part
        else:
            parts.append({dim})
    return parts


Rule: TypeAlias = Callable[[RankCall], Replacement]
"""Builds what replaces an op's first results from ops on carriers."""

RULES = LoweringTable[str, Rule]()
"""By the names of ATen schemas."""

rewrites = RULES.lowers
