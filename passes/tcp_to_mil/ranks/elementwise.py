"""Elementwise ops, whose operands broadcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.ir import mil
from padc.ir.torch import VTensorType, schema_of
from padc.passes.aten.builder import Argument, Integer
from padc.passes.aten.elementwise_tables import (
    CASTS,
    IN_OPERAND_TYPES,
    IN_PROMOTED_TYPE,
    IN_RESULT_TYPE,
    ROUNDED_EACH_STEP,
    names_of,
)
from padc.passes.tcp_to_mil.ranks.carrier import Carrier, shape_of
from padc.passes.tcp_to_mil.ranks.grouping import Groups, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RULES,
    RankCall,
    product_in_type,
    rewrites,
)
from padc.passes.tcp_to_mil.ranks.repeats import expanded
from padc.passes.tcp_to_mil.ranks.views import COPIES

TABLES = IN_RESULT_TYPE, ROUNDED_EACH_STEP, IN_PROMOTED_TYPE, IN_OPERAND_TYPES
OTHERS = (
    *("digamma", "dropout", "empty_like", "erfc", "erfinv", "fill.Scalar", "i0"),
    *("fill.Tensor", "full_like", "lerp.Scalar", "lerp.Tensor", "lgamma", "ones_like"),
    *("masked_fill.Scalar", "masked_fill.Tensor", "tanhshrink", "where.Scalar"),
    *("where.ScalarOther", "where.ScalarSelf", "where.self", "zeros_like"),
)
"""Elementwise ops that are not in the tables, or not in all overloads."""


def rewrite_elementwise(call: RankCall) -> SSAValue:
    """The op on operands in which the dimensions that broadcast alike are merged."""
    given = {
        argument.name: call.carrier(argument.name)
        for argument in call.op.schema.arguments
        if isinstance(call.op.arg(argument.name).type, VTensorType)
    }
    rank = len(call.result_shape)
    operands = {n: x.aligned(rank) for n, x in given.items() if not x.is_single}
    sizes = broadcast([x.sizes for x in operands.values()] or [[1] * rank])
    arguments: dict[str, Argument] = {
        # Tensors of rank 0 stay: they count less where types are promoted.
        name: call.build.merged(x, ((),)) if x.rank else x.value
        for name, x in given.items()
        if name not in operands
    }
    groups = same_groups(list(operands.values()))
    if groups is not None or have_one_shape(list(operands.values())):
        arguments |= {name: x.value for name, x in operands.items()}
        shape = shape_of(next(iter(operands.values())).value)
    else:
        operands = fitting(call, operands, sizes)
        carriers = list(operands.values())
        groups = call.build.choose(common(carriers, sizes), carriers)
        # The op would drop leading ones that no operand keeps.
        groups = groups[min([leading_ones(x, groups) for x in carriers], default=0) :]
        arguments |= {
            name: call.build.merged(x, groups[leading_ones(x, groups) :])
            for name, x in operands.items()
        }
        shape = [product_in_type([sizes[dim] for dim in g]) for g in groups] or [1]
    (y,) = call.again(shape, **arguments)
    return call.view(y, sizes, groups)


def broadcast(shapes: Sequence[Sequence[Integer]]) -> list[Integer]:
    """The sizes that tensors of equal rank broadcast to, the known ones preferred."""
    return [
        max(sizes, key=lambda size: (size != 1, isinstance(size, int)))
        for sizes in zip(*shapes, strict=True)
    ]


def same_groups(carriers: Sequence[Carrier]) -> Groups | None:
    """The groups of all carriers; None if they differ, or a tensor broadcasts."""
    if not have_one_shape(carriers):
        return None
    known = [x.groups for x in carriers if x.groups is not None]
    return known[0] if known else None


def have_one_shape(carriers: Sequence[Carrier]) -> bool:
    """Whether no tensor broadcasts, and the carriers have one shape, too."""
    if not carriers:
        return False
    first, *others = carriers
    shape = shape_of(first.value)
    return all(
        shape_of(x.value) == shape
        and [size == 1 for size in x.sizes] == [size == 1 for size in first.sizes]
        for x in others
    ) and (not others or shape.count(DYNAMIC_INDEX) < 2)


def common(carriers: Sequence[Carrier], sizes: Sequence[Integer]) -> Groups:
    """Groups of dimensions that the same operands broadcast."""
    return grouped(
        [
            None if size == 1 else tuple(x.sizes[dim] == 1 for x in carriers)
            for dim, size in enumerate(sizes)
        ]
    )


def fitting(
    call: RankCall, operands: Mapping[str, Carrier], sizes: Sequence[Integer]
) -> dict[str, Carrier]:
    """The operands, expanded one after the other until few groups are left."""
    found = dict(operands)
    for name, x in operands.items():
        if len(common(list(found.values()), sizes)) <= mil.MAX_RANK:
            break
        found[name] = expanded(call.build, x, sizes)
    return found


def leading_ones(x: Carrier, groups: Groups) -> int:
    """The number of groups before the first in which `x` has a size other than 1."""
    return next(
        i for i, group in enumerate(groups) if any(x.sizes[dim] != 1 for dim in group)
    )


def elementwise_names() -> set[str]:
    """The names of all elementwise ops."""
    names = {name for table in TABLES for key in table for name in names_of(key)}
    others = {f"aten.{name}" for name in OTHERS}
    known = names | others | {*CASTS} - {*COPIES}
    return {each for each in known if schema_of(each) is not None}


rewrites(*(elementwise_names() - RULES.keys()))(rewrite_elementwise)
