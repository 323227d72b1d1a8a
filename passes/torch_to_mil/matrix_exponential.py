"""The exponential of square matrices."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import DYNAMIC_INDEX, f16

from padc.errors import Obstacle
from padc.passes.torch_to_mil.contraction import matmul
from padc.passes.torch_to_mil.matrices import identity
from padc.passes.torch_to_mil.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.reductions import reduce
from padc.passes.torch_to_mil.tensor import Tensor

DEGREE = 18
NORM = 3.010066362817634
"""The 1-norm up to which the Taylor polynomial of that degree is exact in float32."""
SQUARINGS = 126
"""2^126 times `NORM` is the largest norm in float32; a smaller factor is denormal."""


@lowers("aten.linalg_matrix_exp", "aten.matrix_exp")
def lower_matrix_exp(call: MilCall) -> Tensor:
    """
    The Taylor polynomial of the matrix divided by 2^s, squared s times.

    s is the least number for which the 1-norm, divided by 2^s, is at most `NORM`.
    Source: P. Bader, S. Blanes and F. Casas, "Computing the matrix exponential with an
    optimized Taylor polynomial approximation" (Mathematics 7, 2019), which PyTorch
    follows too.
    """
    x = call.tensor("self")
    if x.type == f16:
        raise Obstacle(
            "the exponential of a float16 matrix, which PyTorch computes wrongly",
            "compute it in float32",
        )
    if DYNAMIC_INDEX in x.shape[-2:]:
        raise Obstacle("the exponential of a matrix of dynamic size", "give its size")
    columns = reduce("sum", abs(x), [x.rank - 2], True)
    size = reduce("max", columns, [x.rank - 1], True)
    power = (logarithm_of_2(size / NORM)).unary("ceil").maximum(0).minimum(SQUARINGS)
    y = taylor(x * (-power).unary("exp2"))
    for step in range(SQUARINGS):
        y = (power > step).select(matmul(y, y), y)
    return y


def logarithm_of_2(x: Tensor) -> Tensor:
    return x.unary("log", epsilon=0.0) / math.log(2)


def taylor(x: Tensor) -> Tensor:
    """The sum of `x^k / k!`, by Horner's rule in `x^3`."""
    one = identity(x)
    square = matmul(x, x)
    cube = matmul(square, x)
    factors = [1 / math.factorial(k) for k in range(DEGREE + 1)]
    y = cube * factors[DEGREE]
    for k in range(DEGREE - 3, -1, -3):
        part = one * factors[k] + x * factors[k + 1] + square * factors[k + 2]
        y = part + (y if k == DEGREE - 3 else matmul(cube, y))
    return y
