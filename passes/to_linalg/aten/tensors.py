# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""Loops over tensors: each element on its own, or reduced along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir.tcp import Amount, fill_type, tensor_type
from padc.passes.aten.operand_checks import check_rank
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.to_linalg.build.numbers import Number, constant


@dataclass(frozen=True)
class Operand:
    """A signless tensor, and the type of its elements in PyTorch."""

    tensor: SSAValue
    type: Attribute
    dims: tuple[int, ...] | None = None
    """The loop that indexes each dimension; by default, the innermost ones."""

    @staticmethod
    def of(tensor: SSAValue) -> Operand:
        """A tensor of floats or signed integers."""
        return Operand(tensor, element_type(tensor))

    @property
    def rank(self) -> int:
        return tensor_type(self.tensor).get_num_dims()

    @property
    def shape(self) -> Sequence[int]:
        return tensor_type(self.tensor).get_shape()

    def along(self, *dims: int) -> Operand:
        """This tensor, each dimension indexed by the loop of `dims` at its place."""
        check_rank(self.rank, len(dims), "a per-channel parameter")
        return Operand(self.tensor, self.type, dims)

    def loops(self, rank: int) -> Sequence[int]:
        """The loop, of `rank` loops, that indexes each dimension."""
        return range(rank - self.rank, rank) if self.dims is None else self.dims

    def indexed(self, sizes: Sequence[Amount]) -> list[AffineExpr]:
        """Its index expressions in loops over `sizes`, to which it broadcasts."""
        return [
            AffineExpr.constant(0)
            if size == 1 and sizes[dim] != 1
            else AffineExpr.dimension(dim)
            for dim, size in zip(self.loops(len(sizes)), self.shape, strict=True)
        ]


def broadcast(
    build: LinalgBuilder, inputs: Sequence[Operand]
) -> tuple[list[Amount], list[list[AffineExpr]]]:
    """The broadcast sizes, and each tensor's index expressions."""
    rank = max((1 + max(x.dims or [x.rank - 1], default=-1) for x in inputs), default=0)
    sizes: list[Amount] = [1] * rank
    for x in inputs:
        for own, (dim, size) in enumerate(zip(x.loops(rank), x.shape, strict=True)):
            # PyTorch guards that a dynamic size is not 1.
            known = sizes[dim]
            if known == 1 or (size not in (1, DYNAMIC_INDEX) and known != size):
                sizes[dim] = build.size(x.tensor, own)
    return sizes, [x.indexed(sizes) for x in inputs]


def pointwise(
    build: LinalgBuilder,
    inputs: Sequence[Operand],
    result: Attribute,
    body: Callable[..., Number],
) -> SSAValue:
    """A tensor of type `result`, each element computed by `body`."""
    sizes, maps = broadcast(build, inputs)

    def compute(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        numbers = [
            Number(inner, arg, x.type) for arg, x in zip(args, inputs, strict=True)
        ]
        return body(*numbers).to(result).value

    operands = [(x.tensor, map) for x, map in zip(inputs, maps, strict=True)]
    return build.compute(sizes, fill_type(result), compute, operands)


def converted(build: LinalgBuilder, x: Operand, type: Attribute) -> SSAValue:
    """`x` with elements of `type`."""
    if fill_type(x.type) == fill_type(type):
        return x.tensor
    return pointwise(build, [x], type, lambda number: number)


def spread(
    build: LinalgBuilder, x: Operand, type: Attribute, sizes: Sequence[Amount]
) -> SSAValue:
    """`x`, broadcast to `sizes` and converted to `type`."""

    def body(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return Number(inner, args[0], x.type).to(type).value

    return build.compute(sizes, fill_type(type), body, [(x.tensor, x.indexed(sizes))])


def reduce(
    build: LinalgBuilder,
    inputs: Sequence[Operand],
    dims: Sequence[int],
    keepdim: bool,
    starts: Sequence[tuple[float, Attribute]],
    body: Callable[[Sequence[Number], Sequence[Number]], Sequence[Number]],
    init: Callable[[Sequence[Amount]], SSAValue] | None = None,
) -> list[SSAValue]:
    """
    Reduce `inputs` over `dims`, which keep size 1 if `keepdim`.

    `starts` are each result's initial value and type; `init` builds the initial tensor
    of a single result from its sizes. `body` computes the next values of the results
    from their current ones and an element of each input.
    """
    sizes, maps = broadcast(build, inputs)
    kept: list[Amount] = []
    exprs: list[AffineExpr] = []
    for dim, size in enumerate(sizes):
        if dim not in dims:
            kept.append(size)
            exprs.append(AffineExpr.dimension(dim))
        elif keepdim:
            kept.append(1)
            exprs.append(AffineExpr.constant(0))
    inits = [
        build.filled(kept, constant(build, start, type).value)
        if init is None
        else init(kept)
        for start, type in starts
    ]
    outputs = [(each, exprs) for each in inits]

    def step(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        types = [*(x.type for x in inputs), *(type for _, type in starts)]
        numbers = [Number(inner, arg, type) for arg, type in zip(args, types)]
        results = body(numbers[len(inputs) :], numbers[: len(inputs)])
        return [number.value for number in results]

    operands = [(x.tensor, map) for x, map in zip(inputs, maps, strict=True)]
    reductions = [dim in dims for dim in range(len(sizes))]
    return build.generic(operands, outputs, reductions, step)


def summed(
    build: LinalgBuilder,
    inputs: Sequence[Operand],
    dims: Sequence[int],
    keepdim: bool,
    type: Attribute,
    term: Callable[..., Number] = lambda x: x,
    init: Callable[[Sequence[Amount]], SSAValue] | None = None,
) -> SSAValue:
    """
    Sum `term` over `dims`, starting from `init`.

    `term` takes an element of each input, `init` the sizes of the result.
    """

    def body(so_far: Sequence[Number], numbers: Sequence[Number]) -> list[Number]:
        return [so_far[0] + term(*(number.to(type) for number in numbers))]

    (result,) = reduce(build, inputs, dims, keepdim, [(0, type)], body, init)
    return result
