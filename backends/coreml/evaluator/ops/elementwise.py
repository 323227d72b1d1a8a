"""Elementwise ops, by the docstrings of coremltools' mil/ops/defs: iOS15's
elementwise_binary.py, elementwise_unary.py and control_flow.py (select), and
iOS17/elementwise_unary.py (epsilon's own float type, more types to cast to).

Operands broadcast as in numpy.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import (
    Bool,
    Float,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import is_dataless
from padc.backends.coreml.evaluator.values.types import FP16, Array, TensorType
from padc.errors import Obstacle


def promoted(x: Array, y: Array) -> tuple[Array, Array]:
    """The operands; integers as floats if the other one is a float."""
    if x.dtype.kind == y.dtype.kind or "f" not in x.dtype.kind + y.dtype.kind:
        return x, y
    return x.astype(np.float32), y.astype(np.float32)


def _divisor(y: Array) -> Array:
    """`y`; ValueError if it is an integer 0."""
    if y.dtype.kind != "f" and not is_dataless(y) and np.any(y == 0):
        raise ValueError("an integer is divided by 0")
    return y


def _power(x: Array, y: Array) -> Array:
    """`x ** y`; for integers, 1 / x is rounded towards 0."""
    if x.dtype.kind == "f":
        return kernels.power(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0))
    powers = np.power(x, np.maximum(y, 0))
    return np.where(y < 0, inverse.astype(powers.dtype), powers)


def _binary(name: str, compute: Callable[[Array, Array], Array]) -> None:
    @op(name)
    def kernel(x: Number, y: Number) -> Array:  # pyright: ignore[reportUnusedFunction]
        return compute(*promoted(x, y))


def _unary(name: str, compute: Callable[[Array], Array]) -> None:
    @op(name)
    def kernel(x: Float) -> Array:  # pyright: ignore[reportUnusedFunction]
        return compute(x)


_binary("add", np.add)
_binary("floor_div", lambda x, y: kernels.floor_divide(x, _divisor(y)))
_binary("greater", np.greater)
_binary("greater_equal", np.greater_equal)
_binary("less", np.less)
_binary("less_equal", np.less_equal)
_binary("maximum", lambda x, y: np.where(x > y, x, y))
_binary("minimum", lambda x, y: np.where(x > y, y, x))
_binary("mod", lambda x, y: kernels.remainder(x, _divisor(y)))
_binary("mul", np.multiply)
_binary("pow", _power)
_binary("sub", np.subtract)

_unary("acos", np.arccos)
_unary("asin", np.arcsin)
_unary("atan", np.arctan)
_unary("atanh", np.arctanh)
_unary("ceil", np.ceil)
_unary("cos", np.cos)
_unary("cosh", np.cosh)
_unary("erf", kernels.erf)
_unary("exp", np.exp)
_unary("floor", np.floor)
_unary("round", np.rint)  # "0.5 is rounded to 0": half to even
_unary("sin", np.sin)
_unary("sinh", np.sinh)
_unary("sqrt", np.sqrt)
_unary("tan", np.tan)
_unary("tanh", np.tanh)


@op()
def equal(x: Array, y: Array) -> Array:
    x, y = promoted(x, y)
    return x == y


@op()
def not_equal(x: Array, y: Array) -> Array:
    x, y = promoted(x, y)
    return x != y


@op()
def real_div(x: Number, y: Number) -> Array:
    """Integers lose the fraction (tests/iOS14/test_elementwise_binary.py,
    test_real_div_int_builder_to_backend)."""
    x, y = promoted(x, y)
    if x.dtype.kind == "f":
        return x / y
    # In int64, where the least int32 divided by -1 does not overflow.
    size, by = np.abs(x.astype(np.int64)), np.abs(_divisor(y).astype(np.int64))
    return (np.sign(x) * np.sign(y) * (size // by)).astype(x.dtype)


@op()
def logical_and(x: Bool, y: Bool) -> Array:
    return x & y


@op()
def logical_or(x: Bool, y: Bool) -> Array:
    return x | y


@op()
def logical_xor(x: Bool, y: Bool) -> Array:
    return x ^ y


@op()
def logical_not(x: Bool) -> Array:
    return ~x


@op("abs")
def absolute(x: Number) -> Array:
    return np.abs(x)


@op()
def exp2(x: Number) -> Array:
    return _power(np.array(2, x.dtype), x)


@op()
def sign(x: Number) -> Array:
    # 0 for NaN, as in PyTorch.
    signs = (x > 0).astype(np.int8) - (x < 0).astype(np.int8)
    return signs.astype(x.dtype)


@op()
def square(x: Number) -> Array:
    return x * x


@op()
def clip(x: Float, alpha: float, beta: float) -> Array:
    return np.clip(x, alpha, beta)


@op()
def threshold(x: Number, alpha: Number) -> Array:
    return np.maximum(*promoted(x, alpha))


def _epsilon(given: float | None, default: float, result: TensorType) -> float:
    """`given`, or the default rounded to the op's float type (a tiny one becomes 0)."""
    if given is not None:
        return given
    return float(np.float16(default)) if result.dtype is FP16 else default


@op()
def inverse(x: Float, *, epsilon: float | None = None, result: TensorType) -> Array:
    return 1 / (x + _epsilon(epsilon, 1e-4, result))


@op()
def log(x: Float, *, epsilon: float | None = None, result: TensorType) -> Array:
    return np.log(x + _epsilon(epsilon, 1e-45, result))


@op()
def rsqrt(x: Float, *, epsilon: float | None = None, result: TensorType) -> Array:
    return 1 / np.sqrt(x + _epsilon(epsilon, 1e-12, result))


@op()
def select(cond: Bool, a: Array | None = None, b: Array | None = None) -> Array:
    if a is None and b is None:
        return np.argwhere(cond)
    if a is None or b is None:
        raise UnknownValueError("only one of a and b")
    return np.where(cond, *promoted(a, b))


CastType = Literal["int8", "uint8", "int16", "uint16", "int32", "fp16", "fp32", "bool"]


@op()
def cast(x: Array, dtype: CastType) -> Array:
    """Floats lose their fraction when they become integers.

    The result for a value outside of the integer type is not documented, so such a
    value is refused.
    """
    match dtype:
        case "bool":
            return x != 0
        case "fp16" | "fp32":
            return x.astype(np.float32)
        case _:
            limits = np.iinfo(dtype)
            whole = np.trunc(x) if x.dtype.kind == "f" else x.astype(np.int64)
            is_inside = (whole >= limits.min) & (whole < limits.max + 1)
            if not is_dataless(x) and not np.all(is_inside):
                raise Obstacle(
                    f"a value outside of {dtype}, whose cast is not documented",
                    "clamp the values before the cast",
                )
            return whole.astype(np.int32)
