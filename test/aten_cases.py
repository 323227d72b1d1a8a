# pyright: basic
"""Ordinary ATen ops as functions of tensors, for the tests of every path."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Functions
from torch import Tensor

AUTO, DYNAMIC = torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC


HALVES = tuple(
    pytest.param(dtype, marks=pytest.mark.slow)
    for dtype in (torch.float16, torch.bfloat16)
)
FLOATS = torch.float32, torch.float16, HALVES[1]
"""For ops that round halves in their own way; elsewhere all halves are slow tests."""


INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)


def named(module: Any, names: str) -> Functions:
    return {name: getattr(module, name) for name in names.split()}


def only(functions: Functions, names: str) -> Functions:
    return {name: functions[name] for name in names.split()}


def without(functions: Functions, names: str) -> Functions:
    return {k: f for k, f in functions.items() if k not in names.split()}


UNARY: Functions = {
    **named(
        torch,
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor "
        "log log10 log1p log2 round sin sinh sqrt tan tanh trunc neg reciprocal rsqrt "
        "sigmoid sign square relu frac isnan isinf isfinite signbit logical_not "
        "deg2rad rad2deg nan_to_num logit sinc isposinf isneginf",
    ),
    **named(
        F,
        "relu6 leaky_relu elu selu celu silu hardtanh hardswish hardsigmoid softplus "
        "mish logsigmoid hardshrink softshrink tanhshrink softsign",
    ),
    "gelu": lambda x: F.gelu(x.clamp(-9, 9)),
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "clamp": lambda x: x.clamp(-0.3, 0.7),
    "clamp to a number": lambda x: x.clamp(0.5, 0.5),
    "clamp, bounds swapped": lambda x: x.clamp(0.7, -0.3),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_max": lambda x: x.clamp(max=0.1),
    "add": lambda x: x + 0.3,
    "sub": lambda x: torch.sub(x, 0.3, alpha=2),
    "rsub": lambda x: 1.3 - x,
    "mul": lambda x: x * 0.7,
    "div": lambda x: x / 3,
    "div floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "div trunc": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "floor_divide": lambda x: x // 0.7,
    "pow 2": lambda x: x**2,
    "pow 3": lambda x: x**3,
    "pow 1/2": lambda x: x.abs() ** 0.5,
    "pow -1": lambda x: x**-1,
    "pow 2.5": lambda x: x**2.5,
    "pow of": lambda x: 2.0**x,
    "threshold": lambda x: F.threshold(x, 0.2, 0.5),
    "decimals": lambda x: torch.round(x, decimals=2),
    "many decimals": lambda x: torch.round(x, decimals=400),
    "eq": lambda x: x == 0.5,
    "lt": lambda x: x < 0.1,
    "masked_fill": lambda x: x.masked_fill(x > 0.3, 0.123),
    "where": lambda x: torch.where(x > 0, x, 0.25),
    "where of numbers": lambda x: torch.where(x > 0, 1.0, 0.25),
    "remainder": lambda x: x % 0.3,
    "fmod": lambda x: torch.fmod(x, 0.3),
    "float64": lambda x: x.double(),
    "float16": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "int8": lambda x: (x.nan_to_num(0, 3, -3) * 10).clamp(-99, 99).to(torch.int8),
    "int64": lambda x: x.nan_to_num(0, 3, -3).long(),
    "bool": lambda x: x.bool(),
    "elu 0.7": lambda x: F.elu(x, 0.7),
    "celu 0.7": lambda x: F.celu(x, 0.7),
    "softplus 2": lambda x: F.softplus(x, 2, 3),
    "logit eps": lambda x: torch.logit(x, 0.1),
    "glu": lambda x: F.glu(x, 0),
    "dropout": lambda x: F.dropout(x, training=False),
    "copies": lambda x: x.clone().contiguous().detach(),
}


SPECIAL: Functions = {
    **named(torch, "digamma erfc erfinv frexp i0 lgamma"),
    **named(
        torch.special,
        "entr i1 i1e log_ndtr ndtr ndtri bessel_j0 bessel_j1 bessel_y0 bessel_y1 "
        "spherical_bessel_j0 modified_bessel_k0 modified_bessel_k1 "
        "scaled_modified_bessel_k0 scaled_modified_bessel_k1",
    ),
    "airy_ai": torch.special.airy_ai,
    # PyTorch's exp(x^2) is rounded twice.
    "erfcx": lambda x: torch.special.erfcx(x.clamp(min=-2)),
    "mvlgamma": lambda x: torch.mvlgamma(x.abs() + 1.1, 2),
    "nextafter": lambda x: (torch.nextafter(x, x.flip(0)) - x) / x * 1e4,
    "trigamma": lambda x: torch.polygamma(1, x),
    "polygamma": lambda x: torch.polygamma(2, x),
    "zeta": lambda x: torch.special.zeta((x + x).round().clamp(max=90) / 2, x.flip(0)),
    "zeta_of_4": lambda x: torch.special.zeta(4, x.clamp(-9, 9)),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.4),
}
"""Of one tensor in float32."""


EDGES = torch.tensor(
    [
        *(math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.0),
        *(2.0, 2.09, -3.0, 3.0, 5.0, -5.0, 8.0, -8.0, 10.0, 0.999, -0.999, 1e-3, -1e-3),
        *(40.0, -40.5, 1e-7, -1e-7, 1e-30, -1e-30, 1e30),
    ]
)
"""Where special functions have poles, or change their formula."""


POLYNOMIALS: Functions = {
    **{
        f"{name} 5": lambda x, n, f=function: f(x, 5)
        for name, function in named(
            torch.special,
            "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
            "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
            "laguerre_polynomial_l legendre_polynomial_p",
        ).items()
    },
    **{
        f"legendre {degree}": lambda x, n, degree=degree: (
            torch.special.legendre_polynomial_p(x, degree)
        )
        for degree in (-1, 0, 1)
    },
    **named(
        torch.special,
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w",
    ),
    "of 0.3": lambda x, n: torch.special.chebyshev_polynomial_t(0.3, n),
    "of infinity": lambda x, n: torch.special.chebyshev_polynomial_t(math.inf, n),
}
"""Of a tensor, and of degrees."""


CLOSE: Functions = {
    "isclose": lambda x, y: torch.isclose(x, y),
    "isclose in all bits": lambda x, y: torch.isclose(x, y, rtol=0, atol=0),
    "isclose within 3": lambda x, y: torch.isclose(x, y, atol=3),
    "isclose of booleans": lambda x, y: torch.isclose(x.bool(), y.bool()),
}
"""Of integers."""


DEGREES = torch.tensor([-1.0, 0, 1, 2, 3.7, 6])
if platform.machine() == "x86_64":  # elsewhere PyTorch makes another integer of NaN
    DEGREES = torch.cat([DEGREES, torch.tensor([math.nan])])


BINARY: Functions = {
    **named(
        torch,
        "add sub mul div maximum minimum pow atan2 fmod remainder floor_divide eq ne "
        "lt le gt ge logical_and logical_or logical_xor copysign hypot fmax fmin "
        "heaviside xlogy logaddexp isclose max min rsub",
    ),
    "add 2": lambda a, b: torch.add(a, b, alpha=2),
    "sub 3": lambda a, b: torch.sub(a, b, alpha=3),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "lerp by tensor": lambda a, b: torch.lerp(a, b, b),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=2),
    "addcdiv": lambda a, b: torch.addcdiv(a, b, b + 4, value=2),
    "where": lambda a, b: torch.where(a > b, a, b),
    "clamp": lambda a, b: torch.clamp(a, b, b + 1),
    "clamp_min": lambda a, b: a.clamp_min(b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, a.new_ones(())),
    "arithmetic": lambda a, b: 2 * a - b / 2,
}


ARITHMETIC = "add sub mul div maximum minimum fmod remainder eq lt ge where arithmetic"


WHOLE: Functions = {
    **only(BINARY, ARITHMETIC),
    **named(
        torch,
        "floor_divide bitwise_and bitwise_or bitwise_xor logical_and "
        "bitwise_left_shift bitwise_right_shift",
    ),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "pow": lambda a, b: torch.pow(a, b.clamp(0, 7)),
    "pow 2": lambda a, b: a**2,
    "pow 5": lambda a, b: a**5,
    "neg": lambda a, b: -a,
    "not": lambda a, b: ~a,
    "abs": lambda a, b: a.abs(),
    "sign": lambda a, b: a.sign(),
    "float32": lambda a, b: a.float(),
    "float16": lambda a, b: a.half(),
    "int64": lambda a, b: a.long(),
    "int8": lambda a, b: a.to(torch.int8),
    "uint8": lambda a, b: a.to(torch.uint8),
    "bool": lambda a, b: a.bool(),
    "sqrt": lambda a, b: torch.sqrt(a),
    "sigmoid": lambda a, b: torch.sigmoid(a),
    "mul 2.5": lambda a, b: a * 2.5,
    "add 3": lambda a, b: a + 3,
    "relu": lambda a, b: torch.relu(a),
    "clamp": lambda a, b: a.clamp(1, 5),
    "round": lambda a, b: torch.round(a),
    "remainder 3": lambda a, b: a % 3,
    "floor_divide 2": lambda a, b: a // 2,
    "eq 2.5": lambda a, b: a == 2.5,
    "where 1": lambda a, b: torch.where(a > 2, a, 1),
    "pow 1/2": lambda a, b: a**0.5,
}


BOOLEAN = (
    "add mul div maximum minimum eq lt ge bitwise_and bitwise_or bitwise_xor "
    "logical_and not float32 float16 int64 uint8 bool mul#2.5 add#3 sign sigmoid"
)


SHAPES: Functions = {
    "view": lambda x: x.view(x.shape[0], -1),
    "reshape": lambda x: x.reshape(-1, x.shape[2]),
    "flatten": lambda x: x.flatten(1),
    "flatten inside": lambda x: x.flatten(1, 2),
    "flatten all": lambda x: x.flatten(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze last": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "squeeze all": lambda x: x.unsqueeze(0).unsqueeze(2).squeeze(),
    "permute": lambda x: x.permute(2, 0, 3, 1),
    "transpose": lambda x: x.transpose(1, 2),
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(1, -1),
    "movedims": lambda x: x.movedim((0, 1), (2, 0)),
    "slice": lambda x: x[:, 1:3],
    "slice steps": lambda x: x[:, :, 1::2],
    "slice from end": lambda x: x[..., -3:-1],
    "slice, add": lambda x: x[:, :, :, ::3] + 1,
    "select": lambda x: x[:, 1],
    "select last": lambda x: x[:, :, -1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :, ::2] + x[:, :, ::2], 2, 0, 9, 2),
    "slice_scatter, integers": lambda x: x.slice_scatter(x[..., :2].long(), -1, -2),
    "select_scatter": lambda x: (x + x).select_scatter(x[:, 1], 1, -1),
    "split": lambda x: x.split(2, 1),
    "split sizes": lambda x: x.split([1, 3], 1),
    "chunk": lambda x: x.chunk(3, 1),
    "unbind": lambda x: x.unbind(1),
    "tensor_split": lambda x: x.tensor_split(3, 1),
    "cat": lambda x: torch.cat([x, x[:, :1]], 1),
    "cat promotes": lambda x: torch.cat([x, x.long()], -1),
    "stack": lambda x: torch.stack([x, x + x], 2),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "repeat more": lambda x: x.repeat(2, 1, 1, 1, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll(2, 3),
    "roll two": lambda x: x.roll((1, -1), (1, 2)),
    "roll all": lambda x: x.roll(5),
    "rot90": lambda x: [torch.rot90(x, k, (2, 3)) for k in (1, 2, 3)],
    "unfold": lambda x: x.unfold(3, 2, 2),
    "unfold overlaps": lambda x: x.unfold(2, 3, 1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1, -1),
    "expand more": lambda x: x.expand(3, *x.shape),
    "copy": lambda x: torch.ops.aten.copy(torch.empty(2, *x.shape), x.long()),
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "diagonal above": lambda x: x.diagonal(1, 1, 2),
    "diagonal below": lambda x: x.diagonal(-2, 2, 1),
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0, 2])),
    "index": lambda x: x[:, torch.tensor([1, -1])],
    "index two": lambda x: x[:, torch.tensor([[0], [1]]), torch.tensor([1, 2])],
    "index apart": lambda x: x[:, torch.tensor([0, 1]), :, torch.tensor([1, 2])],
    "gather": lambda x: x.gather(1, (x[:, :2] > 0).long()),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "zeros_like": lambda x: torch.zeros_like(x),
    "new_ones": lambda x: x.new_ones(2, 3),
    "full": lambda x: torch.full((2, x.shape[2]), 0.3),
    "arange": lambda x: torch.arange(x.shape[2]) * x.sum(),
    "arange steps": lambda x: torch.arange(2, x.shape[3], 2),
    "arange floats": lambda x: torch.arange(0, 1, 0.1),
    "linspace": lambda x: torch.linspace(-1, 1, 7),
    "eye": lambda x: torch.eye(3, 4),
    "scalar_tensor": lambda x: torch.scalar_tensor(3.5) * x,
    "meshgrid": lambda x: torch.meshgrid(x[0, 0, 0], x[0, 0, :, 0], indexing="ij"),
    "meshgrid xy": lambda x: torch.meshgrid(x[0, 0, 0], x[0, :, 0, 0], indexing="xy"),
    "times a size": lambda x: x.float() * x.shape[3],
    "by a size": lambda x: x / x.shape[2],
}


def random(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(*shape).to(dtype)
    return torch.randint(0, 5, tuple(shape)).to(dtype)


EMPTY = (
    "view flatten permute slice split cat stack repeat flip roll expand#more "
    "unsqueeze zeros_like repeat_interleave unflatten"
)


def reductions() -> dict[str, Callable[..., Any]]:
    result: dict[str, Callable[..., Any]] = {}
    for name in "sum mean amax amin argmax argmin prod var std any all".split():
        f = getattr(torch, name)
        result[name] = f
        result[f"{name} 1"] = lambda x, f=f: f(x, 1)
        result[f"{name} kept"] = lambda x, f=f: f(x, -1, keepdim=True)
        if name not in ("argmax", "argmin", "prod"):
            result[f"{name} two"] = lambda x, f=f: f(x, (0, 2))
    return result


REDUCTIONS: Functions = {
    **reductions(),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "max 1": lambda x: x.max(1),
    "min kept": lambda x: x.min(2, True),
    "argmax kept": lambda x: x.argmax(keepdim=True),
    "aminmax": lambda x: torch.aminmax(x, dim=1),
    "sum of float64": lambda x: x.sum(1, dtype=torch.float64),
}


STATISTICS: Functions = {
    "var 0": lambda x: x.var(1, correction=0),
    "var_mean": lambda x: torch.var_mean(x, (1, 2)),
    "logsumexp": lambda x: x.logsumexp(1),
    "logsumexp two": lambda x: x.logsumexp((0, 2), keepdim=True),
    "norm": lambda x: x.norm(dim=1),
    "norm 1": lambda x: torch.linalg.vector_norm(x, 1, 2),
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3, 2),
    "norm inf": lambda x: torch.linalg.vector_norm(x, math.inf, 2),
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1, 1),
    "softmax": lambda x: x.softmax(1),
    "softmax last": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(1),
    "log_softmax last": lambda x: x.log_softmax(-1),
    "softmax in float64": lambda x: x.softmax(1, dtype=torch.float64),
}


# Numbers that float16 has.
W, B, M = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).half().float()


V = torch.tensor([0.125, 0.5, 1.0, 1.125])


def of(function: Callable[..., Tensor], *tensors: Tensor | None, **options: Any) -> Any:
    """A function of `x` and of constants, in its type."""
    return lambda x: function(
        x, *(t if t is None else t.to(x.dtype) for t in tensors), **options
    )


NORMS: Functions = {
    "batch_norm": of(F.batch_norm, M, V, W, B),
    "batch_norm without weight": of(F.batch_norm, M, V),
    "batch_norm in training": of(F.batch_norm, None, None, W, B, training=True),
    "group_norm": lambda x: F.group_norm(x, 2, W.to(x.dtype), B.to(x.dtype)),
    "group_norm of one": lambda x: F.group_norm(x, 4),
    "instance_norm": of(F.instance_norm, None, None, W, B),
    "instance_norm without weight": of(F.instance_norm),
    "instance_norm by statistics": of(
        F.instance_norm, M, V, W, B, use_input_stats=False
    ),
    "layer_norm": lambda x: F.layer_norm(
        x, x.shape[3:], x[0, 0, 0], x[0, 0, 1], eps=1e-3
    ),
    "layer_norm of two": lambda x: F.layer_norm(x, x.shape[2:]),
}


PRODUCTS: Functions = {
    "linear": lambda x: F.linear(x, x[0, 0], x[0, 0, :, 0]),
    "linear without bias": lambda x: F.linear(x, x[0, 0]),
    "matmul": lambda x: x @ x.mT,
    "mm": lambda x: x[0, 0] @ x[0, 1].T,
    "bmm": lambda x: torch.bmm(x[0], x[1].mT),
    "mv": lambda x: x @ x[0, 0, 0],
    "vm": lambda x: x[0, 0, :, 0] @ x,
    "dot": lambda x: x[0, 0, 0] @ x[0, 0, 1],
    "matmul of ranks 4 and 2": lambda x: x @ x[0, 0].mT,
    "matmul along one": lambda x: x[..., :1] @ x[..., :1, :],
    "addmm": lambda x: torch.addmm(x[0, 0, :, :6], x[0, 0], x[0, 1].T),
    "einsum": lambda x: torch.einsum("bchw,bdhw->bcd", x, x),
    "einsum with dots": lambda x: torch.einsum("...ij,...kj->...ik", x, x),
    "einsum without result": lambda x: torch.einsum("ij,jk", x[0, 0], x[0, 0].T),
    "einsum of one": lambda x: torch.einsum("abcd->dc", x),
    "einsum of three": lambda x: torch.einsum(
        "bchw,cd,hd->bdw", x, x[0, :, :, 0], x[0, 0, :, :6]
    ),
    "einsum of a diagonal": lambda x: torch.einsum("ii->i", x[0, 0, :, :6]),
    "outer": lambda x: torch.outer(x[0, 0, 0], x[0, 0, :, 0]),
}


SCALED: Functions = {
    "addmm scaled": lambda x: torch.addmm(
        x[0, 0, 0, :6], x[0, 0], x[0, 1].T, beta=0.5, alpha=2
    ),
    "baddbmm": lambda x: torch.baddbmm(x[0, :, :, :6], x[0], x[1].mT, alpha=0.3),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "causal attention": lambda x: F.scaled_dot_product_attention(
        x, x, x, is_causal=True
    ),
    "masked attention": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=x[..., : x.shape[2]] > 0
    ),
    "rms_norm": lambda x: F.rms_norm(x, (8,)),
}
