# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""The body of each elementwise ATen op, in tables by the type they compute in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import i1

from padc.ir.torch import schema_of
from padc.passes.aten import bessel, error_functions, gamma, polynomials
from padc.passes.aten.elementwise_bodies import (
    Body,
    add,
    addcdiv,
    addcmul,
    celu,
    clamp,
    comparison,
    divide,
    elu,
    entr,
    floor_divide,
    fmax,
    fmin,
    function,
    gelu,
    heaviside,
    hypot,
    is_finite,
    is_infinite,
    isclose,
    lerp,
    log_sigmoid,
    logaddexp,
    logit,
    maximum,
    minimum,
    mish,
    nan_to_num,
    nextafter,
    power,
    power_in_float16,
    relu6,
    remainder,
    round_decimals,
    rrelu,
    rsub,
    selu,
    sigmoid,
    sign,
    signbit,
    sinc,
    softplus,
    softshrink,
    sub,
    xlogy,
)

IN_RESULT_TYPE: Mapping[str, Body] = {
    **{
        name: function(name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil"),
            *("cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log10"),
            *("log1p", "log2", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
    "_prelu_kernel": lambda x, slope: (x > 0).select(x, x * slope),
    "addcdiv": addcdiv,
    "addcmul": addcmul,
    "celu": celu,
    "copysign": lambda x, y: x.apply("copysign", y),
    "deg2rad": lambda x: x * (math.pi / 180),
    "digamma": gamma.digamma,
    "div": lambda x, y, rounding=None: divide(x, y, rounding),
    "elu": elu,
    "erfc": error_functions.erfc,
    "erfinv": error_functions.erfinv,
    "fix": function("trunc"),
    "floor_divide": floor_divide,
    "frac": lambda x: x - x.apply("trunc"),
    "gelu": gelu,
    "hardsigmoid": lambda x: relu6(x + 3) / 6,
    "hardswish": lambda x: x * relu6(x + 3) / 6,
    "hypot": hypot,
    "i0": bessel.i0,
    "leaky_relu": lambda x, slope: (x > 0).select(x, x * slope),
    "lerp": lerp,
    "lgamma": gamma.lgamma,
    "log_sigmoid": log_sigmoid,
    "logaddexp": logaddexp,
    "mish": mish,
    "mul": lambda x, y: x * y,
    "mvlgamma": gamma.mvlgamma,
    "polygamma": gamma.polygamma,
    "pow": power,
    "rad2deg": lambda x: x * (180 / math.pi),
    "reciprocal": lambda x: 1 / x,
    "round.decimals": round_decimals,
    "rrelu": rrelu,
    "rsqrt": lambda x: 1 / x.apply("sqrt"),
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "sinc": sinc,
    "softplus": softplus,
    "softshrink": softshrink,
    "special_airy_ai": bessel.airy_ai,
    "special_bessel_j0": bessel.j0,
    "special_bessel_j1": bessel.j1,
    "special_bessel_y0": bessel.y0,
    "special_bessel_y1": bessel.y1,
    "special_chebyshev_polynomial_t": polynomials.chebyshev_t,
    "special_chebyshev_polynomial_u": polynomials.chebyshev_u,
    "special_chebyshev_polynomial_v": polynomials.chebyshev_v,
    "special_chebyshev_polynomial_w": polynomials.chebyshev_w,
    "special_erfcx": error_functions.erfcx,
    "special_hermite_polynomial_h": polynomials.hermite_h,
    "special_hermite_polynomial_he": polynomials.hermite_he,
    "special_i0e": bessel.i0e,
    "special_i1": bessel.i1,
    "special_i1e": bessel.i1e,
    "special_laguerre_polynomial_l": polynomials.laguerre_l,
    "special_legendre_polynomial_p": polynomials.legendre_p,
    "special_log_ndtr": error_functions.log_ndtr,
    "special_modified_bessel_i0": bessel.i0,
    "special_modified_bessel_i1": bessel.i1,
    "special_modified_bessel_k0": bessel.k0,
    "special_modified_bessel_k1": bessel.k1,
    "special_ndtr": error_functions.ndtr,
    "special_ndtri": error_functions.ndtri,
    "special_scaled_modified_bessel_k0": bessel.scaled_k0,
    "special_scaled_modified_bessel_k1": bessel.scaled_k1,
    "special_shifted_chebyshev_polynomial_t": polynomials.shifted(
        polynomials.chebyshev_t
    ),
    "special_shifted_chebyshev_polynomial_u": polynomials.shifted(
        polynomials.chebyshev_u
    ),
    "special_shifted_chebyshev_polynomial_v": polynomials.shifted(
        polynomials.chebyshev_v
    ),
    "special_shifted_chebyshev_polynomial_w": polynomials.shifted(
        polynomials.chebyshev_w
    ),
    "special_spherical_bessel_j0": bessel.spherical_j0,
    "special_zeta": gamma.zeta,
    "square": lambda x: x * x,
    "threshold": lambda x, threshold, y: (x <= threshold).select(y, x),
    "xlogy": xlogy,
}
"""Ops computed in the result type, or in f32 if that is f16 or bf16."""

OF_FLOAT16: Mapping[str, Body] = {"pow": power_in_float16}
"""The bodies for a result of f16, where PyTorch computes something else there."""

ROUNDED_EACH_STEP: Mapping[str, Body] = {
    "abs": lambda x: abs(x),
    "add": add,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_left_shift": lambda x, y: x.shifted(y, left=True),
    "bitwise_not": lambda x: ~x,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_right_shift": lambda x, y: x.shifted(y, left=False),
    "bitwise_xor": lambda x, y: x ^ y,
    "clamp": clamp,
    "clamp_max": minimum,
    "clamp_min": maximum,
    "fmax": fmax,
    "fmin": fmin,
    "fmod": lambda x, y: x.rest(y),
    "hardshrink": lambda x, by: ((x >= -by) & (x <= by)).select(0, x),
    "hardtanh": clamp,
    "heaviside": heaviside,
    "logit": logit,
    "masked_fill": lambda x, mask, y: mask.select(y, x),
    "max.other": maximum,
    "maximum": maximum,
    "min.other": minimum,
    "minimum": minimum,
    "nan_to_num": nan_to_num,
    "neg": lambda x: -x,
    "nextafter": nextafter,
    "relu": lambda x: x.maximum(0),
    "relu6": relu6,
    "remainder": remainder,
    "rsub": rsub,
    "sgn": sign,
    "sign": sign,
    "special_entr": entr,
    "sub": sub,
}
"""Ops computed in the result type: scalars and every step are rounded to it."""

IN_PROMOTED_TYPE: Mapping[str, Body] = {
    **{name: comparison(name) for name in ("eq", "ge", "gt", "le", "lt", "ne")},
    "isclose": isclose,
}
"""Ops computed in the type that PyTorch promotes their operands to."""

IN_OPERAND_TYPES: Mapping[str, Body] = {
    "isfinite": is_finite,
    "isinf": is_infinite,
    "isnan": lambda x: x.is_nan(),
    "isneginf": lambda x: is_infinite(x) & (x < 0),
    "isposinf": lambda x: is_infinite(x) & (x > 0),
    "logical_and": lambda x, y: x.to(i1) & y.to(i1),
    "logical_not": lambda x: ~x.to(i1),
    "logical_or": lambda x, y: x.to(i1) | y.to(i1),
    "logical_xor": lambda x, y: x.to(i1) ^ y.to(i1),
    "signbit": signbit,
}
"""Ops that take each operand in its own type."""

ALIASES: Mapping[str, Sequence[str]] = {
    "abs": ["absolute"],
    "acos": ["arccos"],
    "acosh": ["arccosh"],
    "asin": ["arcsin"],
    "asinh": ["arcsinh"],
    "atan": ["arctan"],
    "atan2": ["arctan2"],
    "atanh": ["arctanh"],
    "clamp": ["clip"],
    "bitwise_and": ["__and__"],
    "bitwise_or": ["__or__"],
    "bitwise_xor": ["__xor__"],
    "bitwise_left_shift": ["__lshift__"],
    "bitwise_right_shift": ["__rshift__"],
    "digamma": ["special_digamma", "special_psi"],
    "div": ["divide", "true_divide"],
    "erf": ["special_erf"],
    "erfc": ["special_erfc"],
    "erfinv": ["special_erfinv"],
    "exp2": ["special_exp2"],
    "expm1": ["special_expm1"],
    "ge": ["greater_equal"],
    "gt": ["greater"],
    "i0": ["special_i0"],
    "le": ["less_equal"],
    "lt": ["less"],
    "lgamma": ["special_gammaln"],
    "log1p": ["special_log1p"],
    "logit": ["special_logit"],
    "mul": ["multiply"],
    "mvlgamma": ["special_multigammaln"],
    "ne": ["not_equal"],
    "neg": ["negative"],
    "polygamma": ["special_polygamma"],
    "sigmoid": ["special_expit"],
    "sub": ["subtract"],
    "xlogy": ["special_xlogy"],
}
"""Other ATen names of the same op."""

OVERLOADS = (
    *("", ".Tensor", ".Scalar", ".Tensor_mode", ".Scalar_mode", ".Tensor_Tensor"),
    *(".Tensor_Scalar", ".Scalar_Tensor", ".other_scalar", ".Scalar_Other"),
    *(".self_scalar", ".n_scalar", ".x_scalar"),
)
"""Overloads to register for a name without one, if the op has them."""


def names_of(key: str) -> list[str]:
    """
    The ATen names of a key of the tables: overloads that return a tensor, and aliases.

    A key or an alias that has an overload stands for that one only.
    """
    names = [
        f"aten.{name}{overload}"
        for name in (key, *ALIASES.get(key, ()))
        for overload in ([""] if "." in name else OVERLOADS)
    ]
    schemas = [schema for each in names if (schema := schema_of(each)) is not None]
    return [each.name for each in schemas if each.returns[0].type == "Tensor"]


CASTS = (
    *(
        f"aten.{name}"
        for name in (
            *("_to_copy", "alias", "clone", "contiguous", "detach", "lift"),
            *("lift_fresh", "lift_fresh_copy", "positive", "to.device", "to.dtype"),
            *("to.dtype_layout", "to.other", "type_as", "_cast_Float", "_cast_Long"),
            *("_cast_Double", "_cast_Half", "_cast_Int", "_cast_Byte", "alias_copy"),
            *("detach_copy", "resolve_conj", "resolve_neg", "real", "conj"),
        )
    ),
    "prims.convert_element_type",
    "prims.view_of",
)
"""Ops whose result is their first argument, in another type or the same."""
