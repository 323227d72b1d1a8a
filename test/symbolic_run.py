# pyright: basic
"""
Runs a function at the level of linalg and tensor on z3's terms.

A tensor is its sizes, and a function from indices to its element. So a proof is of the
ops that a pass writes, for all sizes, amounts and places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import z3
from pad_modes import within
from proofs import choose, holds, largest, smallest
from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from padc.ir import make_context
from padc.passes.to_linalg.convert_tcp_to_linalg import ConvertTcpToLinalgPass


@dataclass(frozen=True)
class Array:
    """A tensor."""

    sizes: Sequence[Any]
    at: Callable[[Sequence[Any]], Any]


def argument(name: str, rank: int) -> Array:
    """A tensor of symbolic sizes and elements."""
    places = [z3.IntSort()] * rank
    elements = z3.Function(name, *places, z3.IntSort())
    sizes = [z3.Int(f"{name}_size{dim}") for dim in range(rank)]
    return Array(sizes, lambda indices: elements(*indices))


def with_sizes(x: Array, shape: Sequence[int]) -> Array:
    """`x`, with the sizes of `shape` that are static."""
    sizes = [
        own if size == DYNAMIC_INDEX else size
        for own, size in zip(x.sizes, shape, strict=True)
    ]
    return Array(sizes, x.at)


def lowered(types: Sequence[Attribute], make: Any) -> func.FuncOp:
    """A function of arguments of `types` that returns what `make` builds, lowered."""
    block = Block(arg_types=types)
    op: Operation = make(*block.args)
    block.add_op(op)
    block.add_op(func.ReturnOp(op.results[0]))
    types = [*block.arg_types]
    function = func.FuncOp("main", (types, [op.results[0].type]), Region(block))
    ConvertTcpToLinalgPass().apply(make_context(), ModuleOp([function]))
    return function


def same(a: Array, b: Array, places: Sequence[Any]) -> Any:
    """The claim that two tensors have the same sizes, and the same element there."""
    sizes = z3.And(*(x == y for x, y in zip(a.sizes, b.sizes, strict=True)))
    inside = z3.And(*map(within, places, a.sizes))
    return z3.And(sizes, z3.Implies(inside, a.at(places) == b.at(places)))


def integers(*shape: int) -> TensorType[Any]:
    """The type of a tensor of integers."""
    return TensorType(i64, shape)


@dataclass
class SymbolicRun:
    """What the ops compute, and what has to be true for them to be legal."""

    values: dict[SSAValue, Any] = field(default_factory=dict)
    obligations: list[Any] = field(default_factory=list)
    loops: Sequence[Any] = ()
    """The indices of the loops around the op."""

    @staticmethod
    def of(function: func.FuncOp, *arguments: Any) -> tuple[SymbolicRun, list[Any]]:
        """A run of a function of one block, and its results."""
        run = SymbolicRun()
        run.values.update(zip(function.args, arguments, strict=True))
        return run, run.block(function.body.block.ops)

    def block(self, ops: Any) -> list[Any]:
        """Run ops up to the last, and return the operands of that."""
        operands: list[Any] = []
        for op in ops:
            operands = [self.values[x] for x in op.operands]
            if op.next_op is not None:
                found = rule_of(op)(self, op, operands)
                results = found if isinstance(found, list) else [found]
                self.values.update(zip(op.results, results, strict=True))
        return operands

    def amounts(self, static: Any, dynamic: Sequence[SSAValue]) -> list[Any]:
        """A list of integers, of which some are operands."""
        rest = iter(dynamic)
        return [
            self.values[next(rest)] if each == DYNAMIC_INDEX else each
            for each in static.get_values()
        ]


def is_computed(
    run: SymbolicRun, result: Array, sizes: Sequence[Any], element: Any, given: Any
) -> bool:
    """Whether the result is that of `element`, and no op reads outside of operands."""
    places = z3.Ints([f"at{dim}" for dim in range(len(sizes))])
    inside = z3.And(*map(within, places, sizes))
    others = [*places[:-1], places[-1] + 1]
    assert not holds(z3.Implies(inside, result.at(places) == element(others)), given)
    return holds(same(Array(sizes, element), result, places), given) and all(
        holds(each, given, inside) for each in run.obligations
    )


Rule = Callable[[SymbolicRun, Any, Sequence[Any]], Any]


def unknown(run: SymbolicRun, op: Operation, args: Sequence[Any]) -> Any:
    """An op on scalars, of which only its name, attributes and operands matter."""
    (type,) = op.result_types
    assert not isinstance(type, TensorType) and not op.regions, op.name
    name = f"{op.name} {op.properties} {op.attributes} {type}"
    sorts = [arg.sort() for arg in args]
    return z3.Function(name, *sorts, z3.IntSort())(*args)


def constant(run: SymbolicRun, op: arith.ConstantOp, _: Any) -> Any:
    if isinstance(op.value, IntegerAttr):
        return z3.IntVal(op.value.value.data)
    return z3.Int(str(op.value))


def quotient(run: SymbolicRun, op: Operation, args: Sequence[Any]) -> Any:
    """Rounded down, for small quotients or known divisors: z3 is weak at others."""
    a, b = args
    if z3.is_int_value(b):
        run.obligations.append(b > 0)
        return a / b
    run.obligations.append(z3.And(b > 0, -b <= a, a < 2 * b))
    return choose(a < 0, z3.IntVal(-1), choose(a < b, z3.IntVal(0), z3.IntVal(1)))


def dim_of(run: SymbolicRun, op: tensor.DimOp, args: Sequence[Any]) -> Any:
    x, dim = args
    return x.sizes[number_of(dim)]


def empty(run: SymbolicRun, op: tensor.EmptyOp, args: Sequence[Any]) -> Array:
    (type,), rest = op.result_types, iter(args)
    assert isinstance(type, TensorType)
    sizes = [next(rest) if n == DYNAMIC_INDEX else n for n in type.get_shape()]
    run.obligations += [size >= 0 for size in sizes]
    sorts = [z3.IntSort()] * (len(sizes) + 2)
    # Elements that nothing wrote are equal to those of a tensor of the same name only.
    hint = op.tensor.name_hint
    made = z3.FreshFunction if hint is None else partial(z3.Function, f"empty {hint}")
    elements = made(*sorts)
    return Array(sizes, lambda indices: elements(0, *indices))


def cast(run: SymbolicRun, op: tensor.CastOp, args: Sequence[Any]) -> Array:
    (type,) = op.result_types
    assert isinstance(type, TensorType)
    for size, static in zip(args[0].sizes, type.get_shape(), strict=True):
        if static != DYNAMIC_INDEX:
            run.obligations.append(size == static)
    return args[0]


def slices(run: SymbolicRun, op: Any, x: Array) -> tuple[list[Any], ...]:
    """The offsets, sizes and strides of a slice of `x`, all inside."""
    offsets = run.amounts(op.static_offsets, op.offsets)
    sizes = run.amounts(op.static_sizes, op.sizes)
    strides = run.amounts(op.static_strides, op.strides)
    for offset, size, stride, whole in zip(
        offsets, sizes, strides, x.sizes, strict=True
    ):
        last = offset + (size - 1) * stride
        run.obligations.append(z3.And(offset >= 0, size >= 0))
        run.obligations.append(z3.Or(size == 0, last < whole))
    return offsets, sizes, strides


def extract_slice(
    run: SymbolicRun, op: tensor.ExtractSliceOp, args: Sequence[Any]
) -> Array:
    offsets, sizes, strides = slices(run, op, x := args[0])

    def at(indices: Sequence[Any]) -> Any:
        return x.at(
            [
                offset + index * stride
                for offset, index, stride in zip(offsets, indices, strides, strict=True)
            ]
        )

    return Array(sizes, at)


def insert_slice(
    run: SymbolicRun, op: tensor.InsertSliceOp, args: Sequence[Any]
) -> Array:
    part, x = args[:2]
    offsets, sizes, strides = slices(run, op, x)
    for size, expected in zip(part.sizes, sizes, strict=True):
        run.obligations.append(size == expected)

    def at(indices: Sequence[Any]) -> Any:
        moved = [i - offset for i, offset in zip(indices, offsets, strict=True)]
        places = [i / n if n != 1 else i for i, n in zip(moved, strides, strict=True)]
        inside = [
            z3.And(i % step == 0 if step != 1 else True, within(place, size))
            for i, place, step, size in zip(moved, places, strides, sizes, strict=True)
        ]
        return choose(z3.And(*inside), part.at(places), x.at(indices))

    return Array(x.sizes, at)


def pad(run: SymbolicRun, op: tensor.PadOp, args: Sequence[Any]) -> Array:
    x: Array = args[0]
    lower = run.amounts(op.static_low, op.low)
    upper = run.amounts(op.static_high, op.high)
    run.obligations += [amount >= 0 for amount in (*lower, *upper)]
    (fill,) = run.block(op.region.block.ops)
    sizes = [sum(each) for each in zip(lower, x.sizes, upper, strict=True)]

    def at(indices: Sequence[Any]) -> Any:
        places = [i - low for i, low in zip(indices, lower, strict=True)]
        inside = map(within, places, x.sizes)
        return choose(z3.And(*inside), x.at(places), fill)

    return Array(sizes, at)


def fill(run: SymbolicRun, op: linalg.FillOp, args: Sequence[Any]) -> Array:
    value, x = args
    return Array(x.sizes, lambda indices: value)


def extract(run: SymbolicRun, op: tensor.ExtractOp, args: Sequence[Any]) -> Any:
    x, *indices = args
    run.obligations += map(within, indices, x.sizes)
    return x.at(indices)


def collapse_shape(
    run: SymbolicRun, op: tensor.CollapseShapeOp, args: Sequence[Any]
) -> Array:
    x: Array = args[0]
    groups = [[dim.value.data for dim in group] for group in op.reassociation]

    def at(indices: Sequence[Any]) -> Any:
        places: dict[int, Any] = {}
        for index, group in zip(indices, groups, strict=True):
            for dim in reversed(group[1:]):
                places[dim], index = index % x.sizes[dim], index / x.sizes[dim]
            places[group[0]] = index
        return x.at([places[dim] for dim in range(len(x.sizes))])

    return Array([math.prod(x.sizes[dim] for dim in group) for group in groups], at)


def expand_shape(
    run: SymbolicRun, op: tensor.ExpandShapeOp, args: Sequence[Any]
) -> Array:
    x, *dynamic = args
    rest = iter(dynamic)
    static = op.static_output_shape.get_values()
    sizes = [next(rest) if n == DYNAMIC_INDEX else n for n in static]
    groups = [[dim.value.data for dim in group] for group in op.reassociation]
    for size, group in zip(x.sizes, groups, strict=True):
        run.obligations.append(size == math.prod(sizes[dim] for dim in group))

    def at(indices: Sequence[Any]) -> Any:
        places = [0] * len(groups)
        for number, group in enumerate(groups):
            for dim in group:
                places[number] = places[number] * sizes[dim] + indices[dim]
        return x.at(places)

    return Array(sizes, at)


def structured(
    run: SymbolicRun, op: LinalgStructuredOperation, args: Sequence[Any]
) -> list[Array]:
    """
    Loops that compute each element of the results; those that reduce have few steps.

    All elements that they take must be inside of their operands.
    """
    maps = [map.data for map in op.get_indexing_maps()]
    kinds = [kind.data for kind in op.get_iterator_types()]
    counts: dict[int, Any] = {}
    arrays = [(x, map) for x, map in zip(args, maps, strict=True) if map.results]
    for array, map in arrays:
        for size, each in zip(array.sizes, map.results, strict=True):
            if isinstance(each, AffineDimExpr):
                run.obligations.append(size == counts.setdefault(each.position, size))
    assert counts.keys() == set(range(len(kinds)))
    loops: Any = [z3.FreshInt("loop") for _ in kinds]
    inside = z3.And(*(within(loop, counts[i]) for i, loop in enumerate(loops)))
    for array, map in arrays:
        for size, each in zip(array.sizes, map.results, strict=True):
            taken = within(each.eval(loops, []), size)
            run.obligations.append(z3.Implies(inside, taken))
    for array, map in arrays[-len(op.outputs) :]:
        for size, each in zip(array.sizes, map.results, strict=True):
            if not isinstance(each, AffineDimExpr):
                run.obligations.append(size == 1)
    reduced = [i for i, kind in enumerate(kinds) if kind is IteratorType.REDUCTION]
    ranges = [range(number_of(counts[i])) for i in reduced]
    inputs = len(op.inputs)

    def element(number: int, places: Sequence[Any]) -> Any:
        """That of an operand, which may be a scalar."""
        x, map = args[number], maps[number]
        indices = [each.eval(places, []) for each in map.results]
        return x.at(indices) if isinstance(x, Array) else x

    def result(number: int, indices: Sequence[Any]) -> Any:
        places: list[Any] = [None] * len(kinds)
        for index, each in zip(indices, maps[inputs + number].results, strict=True):
            if isinstance(each, AffineDimExpr):
                places[each.position] = index
            else:
                assert each == AffineExpr.constant(0), "a dimension of one element"
        for i in reduced:
            places[i] = z3.IntVal(0)
        totals = [element(i, places) for i in range(inputs, len(args))]
        for steps in itertools.product(*ranges):
            for i, step in zip(reduced, steps, strict=True):
                places[i] = z3.IntVal(step)
            inner = SymbolicRun(run.values, run.obligations, list(places))
            elements = [element(i, places) for i in range(inputs)]
            block = op.body.block
            inner.values.update(zip(block.args, [*elements, *totals], strict=True))
            totals = inner.block(block.ops)
        return totals[number]

    return [
        Array(x.sizes, partial(result, number))
        for number, x in enumerate(args[inputs:])
    ]


def number_of(size: Any) -> int:
    """A size that is known."""
    if isinstance(size, int):
        return size
    known: Any = z3.simplify(size)
    return known.as_long()


def towards_zero(run: SymbolicRun, op: Operation, args: Sequence[Any]) -> Any:
    a, b = args
    run.obligations.append(b > 0)
    return choose(a < 0, -(-a / b), a / b)


def concat(run: SymbolicRun, op: tensor.ConcatOp, args: Sequence[Array]) -> Array:
    dim = op.dim.value.data

    def at(indices: Sequence[Any]) -> Any:
        places = list(indices)
        values: list[tuple[Any, Any]] = []
        for x in args:
            values.append((places[dim] < x.sizes[dim], x.at(places)))
            places = [*places]
            places[dim] -= x.sizes[dim]
        (_, found), *others = reversed(values)
        for is_here, value in others:
            found = choose(is_here, value, found)
        return found

    for x in args[1:]:
        pairs = enumerate(zip(x.sizes, args[0].sizes, strict=True))
        run.obligations += [a == b for other, (a, b) in pairs if other != dim]
    sizes = list(args[0].sizes)
    sizes[dim] = sum(x.sizes[dim] for x in args)
    return Array(sizes, at)


def branches(run: SymbolicRun, op: Operation, args: Sequence[Any]) -> list[Any]:
    """Values of one of two regions, neither of which has an effect."""
    yes, no = (run.block(region.block.ops) for region in op.regions)

    def one_of(a: Any, b: Any) -> Any:
        if isinstance(a, Array):
            run.obligations += [x == y for x, y in zip(a.sizes, b.sizes, strict=True)]
            return Array(a.sizes, lambda indices: one_of(a.at(indices), b.at(indices)))
        return choose(args[0] != 0, a, b)

    return [*map(one_of, yes, no)]


def of_integers(operation: Callable[..., Any]) -> Rule:
    return lambda run, op, args: operation(*args)


RULES: Mapping[type[Operation], Rule] = {
    arith.ConstantOp: constant,
    arith.AddiOp: of_integers(lambda a, b: a + b),
    arith.SubiOp: of_integers(lambda a, b: a - b),
    arith.MuliOp: of_integers(lambda a, b: a * b),
    arith.MaxSIOp: of_integers(largest),
    arith.MinSIOp: of_integers(smallest),
    arith.FloorDivSIOp: quotient,
    arith.DivSIOp: towards_zero,
    arith.IndexCastOp: of_integers(lambda a: a),
    linalg.FillOp: fill,
    linalg.IndexOp: lambda run, op, args: run.loops[op.dim.value.data],
    scf.IfOp: branches,
    tensor.CastOp: cast,
    tensor.CollapseShapeOp: collapse_shape,
    tensor.ConcatOp: concat,
    tensor.DimOp: dim_of,
    tensor.EmptyOp: empty,
    tensor.ExpandShapeOp: expand_shape,
    tensor.ExtractOp: extract,
    tensor.ExtractSliceOp: extract_slice,
    tensor.InsertSliceOp: insert_slice,
    tensor.PadOp: pad,
}
BY_NAME = {kind.name: rule for kind, rule in RULES.items()}


def rule_of(op: Operation) -> Rule:
    """By name: padc's classes of some ops verify more than upstream's."""
    if (rule := BY_NAME.get(op.name)) is not None:
        return rule
    return structured if isinstance(op, LinalgStructuredOperation) else unknown
