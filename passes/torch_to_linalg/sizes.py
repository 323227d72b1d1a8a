"""Integers that are computed from sizes: what PyTorch's symbolic sizes become."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp, i64
from xdsl.ir import SSAValue

from padc.ir.tcp import Amount, tensor_type
from padc.ir.torch import IntType
from padc.passes.linalg_builder import LinalgBuilder
from padc.passes.torch_to_linalg.call import LinalgCall, lowers


def integer(build: LinalgBuilder, amount: Amount) -> SSAValue:
    """A size as the integer of the torch dialect."""
    number = build.insert(arith.IndexCastOp(build.index(amount), i64))
    return build.insert(UnrealizedConversionCastOp.get([number], [IntType()]))


@lowers("aten.size.int")
def lower_size(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    dim = call.integer("dim") % tensor_type(x).get_num_dims()
    return integer(call.build, call.build.size(x, dim))


@lowers("aten.numel")
def lower_numel(call: LinalgCall) -> SSAValue:
    total: Amount = 1
    for size in call.build.sizes(call.tensor("self")):
        total = call.build.mul(total, size)
    return integer(call.build, total)


def binary(
    *names: str,
) -> Callable[[Callable[[LinalgBuilder, Amount, Amount], Amount]], None]:
    """Register the arithmetic of two integers."""

    def register(compute: Callable[[LinalgBuilder, Amount, Amount], Amount]) -> None:
        @lowers(*names)
        def lower(call: LinalgCall) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
            a, b = map(call.amount, call.op.operands)
            return integer(call.build, compute(call.build, a, b))

    return register


binary("aten.add.int")(LinalgBuilder.add)
binary("aten.sub.int")(LinalgBuilder.sub)
binary("aten.mul.int")(LinalgBuilder.mul)
binary("aten.floordiv.int")(LinalgBuilder.floordiv)
binary("prim.max.int")(LinalgBuilder.maximum)
binary("prim.min.int")(LinalgBuilder.minimum)


@binary("aten.remainder.int")
def remainder(build: LinalgBuilder, a: Amount, b: Amount) -> Amount:
    """With the sign of `b`, as Python has it."""
    return build.sub(a, build.mul(build.floordiv(a, b), b))


@lowers("aten.neg.int")
def lower_neg(call: LinalgCall) -> SSAValue:
    (x,) = map(call.amount, call.op.operands)
    return integer(call.build, call.build.sub(0, x))
