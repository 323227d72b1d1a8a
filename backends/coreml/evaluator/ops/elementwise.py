"""Elementwise ops, by the docstrings of coremltools' mil/ops/defs: iOS15's
elementwise_binary.py, elementwise_unary.py and control_flow.py (select), and
iOS17/elementwise_unary.py (epsilon's own float type, more types to cast to).

Operands broadcast as in numpy.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import (
    Bool,
    Float,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.types import FP16, TensorType


def _binary(name: str, compute: Callable[[Tensor, Tensor], Tensor]) -> None:
    @op(name)
    def kernel(x: Number, y: Number) -> Tensor:  # pyright: ignore[reportUnusedFunction]
        return compute(x, y)


def _unary(name: str, compute: Callable[[Tensor], Tensor]) -> None:
    @op(name)
    def kernel(x: Float) -> Tensor:  # pyright: ignore[reportUnusedFunction]
        return compute(x)


_binary("add", torch.add)
_binary("floor_div", lambda x, y: torch.div(x, y, rounding_mode="floor"))
_binary("greater", torch.gt)
_binary("greater_equal", torch.ge)
_binary("less", torch.lt)
_binary("less_equal", torch.le)
_binary("maximum", lambda x, y: torch.where(x > y, x, y))
_binary("minimum", lambda x, y: torch.where(x > y, y, x))
_binary("mod", torch.remainder)
_binary("mul", torch.mul)
_binary("pow", torch.pow)
_binary("sub", torch.sub)

_unary("acos", torch.acos)
_unary("asin", torch.asin)
_unary("atan", torch.atan)
_unary("atanh", torch.atanh)
_unary("ceil", torch.ceil)
_unary("cos", torch.cos)
_unary("cosh", torch.cosh)
_unary("erf", torch.erf)
_unary("exp", torch.exp)
_unary("floor", torch.floor)
_unary("round", torch.round)  # "0.5 is rounded to 0": half to even
_unary("sin", torch.sin)
_unary("sinh", torch.sinh)
_unary("sqrt", torch.sqrt)
_unary("tan", torch.tan)
_unary("tanh", torch.tanh)


@op()
def equal(x: Tensor, y: Tensor) -> Tensor:
    return x == y


@op()
def not_equal(x: Tensor, y: Tensor) -> Tensor:
    return x != y


@op()
def real_div(x: Number, y: Number) -> Tensor:
    """Integers lose the fraction (tests/iOS14/test_elementwise_binary.py,
    test_real_div_int_builder_to_backend)."""
    if x.is_floating_point() or y.is_floating_point():
        return torch.div(x, y)
    # The processor traps at the least integer divided by -1.
    by = torch.where(y == -1, 1, y)
    return torch.where(y == -1, -x, torch.div(x, by, rounding_mode="trunc"))


@op()
def logical_and(x: Bool, y: Bool) -> Tensor:
    return x & y


@op()
def logical_or(x: Bool, y: Bool) -> Tensor:
    return x | y


@op()
def logical_xor(x: Bool, y: Bool) -> Tensor:
    return x ^ y


@op()
def logical_not(x: Bool) -> Tensor:
    return ~x


@op("abs")
def absolute(x: Number) -> Tensor:
    return x.abs()


@op()
def exp2(x: Number) -> Tensor:
    return torch.pow(torch.tensor(2, dtype=x.dtype), x)


@op()
def sign(x: Number) -> Tensor:
    return x.sign()


@op()
def square(x: Number) -> Tensor:
    return x * x


@op()
def clip(x: Float, alpha: float, beta: float) -> Tensor:
    return x.clamp(alpha, beta)


@op()
def threshold(x: Number, alpha: Number) -> Tensor:
    return torch.maximum(x, alpha)


def _epsilon(given: float | None, default: float, result: TensorType) -> float:
    """`given`, or the default rounded to the op's float type (a tiny one becomes 0)."""
    if given is not None:
        return given
    return float(np.float16(default)) if result.dtype is FP16 else default


@op()
def inverse(x: Float, *, epsilon: float | None = None, result: TensorType) -> Tensor:
    return 1 / (x + _epsilon(epsilon, 1e-4, result))


@op()
def log(x: Float, *, epsilon: float | None = None, result: TensorType) -> Tensor:
    return torch.log(x + _epsilon(epsilon, 1e-45, result))


@op()
def rsqrt(x: Float, *, epsilon: float | None = None, result: TensorType) -> Tensor:
    return torch.rsqrt(x + _epsilon(epsilon, 1e-12, result))


@op()
def select(cond: Bool, a: Tensor | None = None, b: Tensor | None = None) -> Tensor:
    if a is None and b is None:
        return torch.nonzero(cond)
    if a is None or b is None:
        raise UnknownValueError("only one of a and b")
    return torch.where(cond, a, b)


CastType = Literal["int8", "uint8", "int16", "uint16", "int32", "fp16", "fp32", "bool"]


@op()
def cast(x: Tensor, dtype: CastType) -> Tensor:
    """Floats lose their fraction when they become integers.

    The result for a value outside of the integer type is not documented, so such a
    value is refused.
    """
    match dtype:
        case "bool":
            return x != 0
        case "fp16" | "fp32":
            return x.to(torch.float32)
        case _:
            limits = np.iinfo(dtype)
            whole = x.trunc() if x.is_floating_point() else x.to(torch.int64)
            if not ((whole >= limits.min) & (whole < limits.max + 1)).all():
                raise UnknownValueError(f"a value outside of {dtype}")
            return whole.to(torch.int32)
