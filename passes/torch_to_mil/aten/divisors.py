"""The greatest common divisor and the least common multiple of integers."""

from __future__ import annotations

import math

from padc.ir.element_types import width
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.tensor import Tensor

GOLDEN = (1 + math.sqrt(5)) / 2


def divisor(a: Tensor, b: Tensor) -> Tensor:
    """
    Euclid's algorithm, with as many steps as numbers of the type can take.

    Consecutive Fibonacci numbers take the most (G. Lame, 1844). The n-th is about
    `GOLDEN^n / sqrt(5)`.
    """
    bits = min(width(a.type), 32)
    count = math.ceil(math.log(2**bits * math.sqrt(5), GOLDEN)) + 1
    a, b = abs(a), abs(b)
    for _ in range(count):
        is_done = b.equals(0)
        rest = a.binary("mod", is_done.select(1, b))
        a, b = is_done.select(a, b), rest
    # abs() of the least integer is negative, and then a rest may be, too.
    return abs(a)


@lowers("aten.gcd")
def lower_gcd(call: MilCall) -> Tensor:
    return divisor(*operands(call))


@lowers("aten.lcm")
def lower_lcm(call: MilCall) -> Tensor:
    """`|a / gcd(a, b) * b|`; 0 if one is 0. Narrow types keep the low bits."""
    a, b = operands(call)
    common = divisor(a, b)
    common = common.equals(0).select(1, common)
    product = a.binary("floor_div", common).binary("mul", b)
    return a.wrapped(product.unary("abs"))


def operands(call: MilCall) -> tuple[Tensor, Tensor]:
    type = call.result_element_type()
    return call.tensor("self").to(type), call.tensor("other").to(type)
