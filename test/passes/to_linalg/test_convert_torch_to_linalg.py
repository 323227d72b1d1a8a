# pyright: basic
"""Ordinary ATen ops, compiled, against PyTorch's eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
import scipy.special
import torch
import torch.nn.functional as F
from aten_cases import (
    ARITHMETIC,
    AUTO,
    BINARY,
    BOOLEAN,
    CLOSE,
    DEGREES,
    DYNAMIC,
    EDGES,
    EMPTY,
    FLOATS,
    HALVES,
    INTEGERS,
    NORMS,
    POLYNOMIALS,
    PRODUCTS,
    REDUCTIONS,
    SCALED,
    SHAPES,
    SPECIAL,
    STATISTICS,
    UNARY,
    WHOLE,
    only,
    random,
    without,
)
from functions import Functions, Several, check_each, needs_export
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.canonicalize import CanonicalizePass

import padc
from padc.backends.native.compile_program import compile_program
from padc.backends.native.loaded_program import LoadedProgram
from padc.errors import UnsupportedError
from padc.frontends.torch_export import export_module, import_exported_program
from padc.ir import make_context
from padc.ir.torch import schema_of
from padc.ir.weights import weights_of
from padc.passes.to_linalg.aten import LOWERINGS
from padc.passes.to_linalg.convert_torch_to_linalg import ConvertTorchToLinalgPass
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def lowered_to_tcp(model: nn.Module, inputs: Sequence[Tensor], dynamic: Any = None):
    ctx = make_context()
    shapes = None if dynamic is None else (tuple(dynamic),)
    exported = export_module(model, tuple(inputs), dynamic_shapes=shapes)
    module = import_exported_program(exported, weights_of(ctx))
    ConvertTorchToTcpPass().apply(ctx, module)
    CanonicalizePass().apply(ctx, module)
    return ctx, module


def check(
    functions: Functions,
    *inputs: Tensor,
    dynamic: Sequence[Mapping[int, Any]] | None = None,
    others: Sequence[Sequence[Tensor]] = (),
) -> None:
    """All functions are compiled, to one native one, and give what eager mode gives."""
    if dynamic is not None:
        needs_export(Several(functions), inputs, (tuple(dynamic),))
    ctx, module = lowered_to_tcp(Several(functions), inputs, dynamic)
    stored = compile_program(ctx, module)
    assert list(stored.reasons) == []
    program = LoadedProgram(ctx, stored)
    for given in (inputs, *others):
        check_each(functions, program(given), *given, equal_nan=True)


# --- elementwise ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_one_tensor(dtype: torch.dtype) -> None:
    x = torch.randn(4, 33).to(dtype)
    x[0, :5] = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0]).to(dtype)
    x[1] *= 20

    check(UNARY, x)


def test_special_functions() -> None:
    check(SPECIAL, torch.cat([EDGES, torch.randn(65) * 4]))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        pytest.param(torch.float16, marks=pytest.mark.slow),
        pytest.param(torch.int64, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_special_functions_of_other_types(dtype: torch.dtype) -> None:
    names = "digamma erfc erfinv i1e lgamma"
    if dtype == torch.float16:
        names += " frexp nextafter"
    if dtype == torch.float64:
        names += " erfcx ndtri modified_bessel_k1 mvlgamma zeta"

    check(only(SPECIAL, names), torch.cat([EDGES[3:], torch.randn(65) * 4]).to(dtype))


def test_bessel_functions_of_float64() -> None:
    """Against SciPy: PyTorch's float64 has 6 digits only."""
    expected = {
        **{
            f"bessel_{name}": getattr(scipy.special, name)
            for name in ("j0", "j1", "y0", "y1")
        },
        "airy_ai": lambda x: scipy.special.airy(x)[0],
    }
    x = torch.cat([EDGES[3:-1], torch.randn(65) * 4]).double()
    functions = only(SPECIAL, " ".join(expected))
    ctx, module = lowered_to_tcp(Several(functions), (x,))

    results = LoadedProgram(ctx, compile_program(ctx, module))((x,))

    for result, function in zip(results, expected.values(), strict=True):
        y = torch.from_numpy(function(x.numpy()))
        torch.testing.assert_close(result, y, rtol=1e-12, atol=1e-13, equal_nan=True)


def test_polynomials() -> None:
    x = torch.cat([torch.tensor([0.0, 0.5, 1, -1]), torch.randn(20)])

    check(POLYNOMIALS, x[:, None], DEGREES)


def test_integers_that_are_close() -> None:
    x = torch.tensor([1, 100000, 100000, 0, 2**31 - 1, -3, 2**24 + 1])
    y = torch.tensor([1, 100001, 100002, 0, -(2**31) + 5, -3, 2**24])

    check(CLOSE, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_functions_of_two_tensors(dtype: torch.dtype) -> None:
    check(BINARY, torch.randn(3, 1, 5).to(dtype), torch.randn(4, 5).to(dtype))


def test_broadcasting_of_dynamic_sizes() -> None:
    dims = [{0: AUTO, 1: AUTO, 2: AUTO}, {0: AUTO, 1: AUTO}]
    other = torch.randn(7, 3, 2), torch.randn(3, 2)

    check(
        BINARY,
        *(torch.randn(3, 4, 5), torch.randn(4, 5)),
        dynamic=dims,
        others=[other],
    )


@pytest.mark.parametrize(
    "a, b",
    [
        (torch.randn(()), torch.randn(())),
        (torch.randn(0, 3), torch.randn(3)),
        (torch.randn(3, 4).half(), torch.randn(())),
        (torch.randn(3, 4).half(), torch.randn(4)),
        (torch.randn(3, 4).half(), torch.randn(4).bfloat16()),
        (torch.randn(3, 4), torch.randint(1, 5, (4,))),
        (torch.randint(-9, 9, (3, 4)), torch.randint(1, 5, (4,)).to(torch.uint8)),
        (torch.randint(-9, 9, (3, 4)).to(torch.int8), torch.tensor(3)),
    ],
)
def test_promotion(a: Tensor, b: Tensor) -> None:
    check(only(BINARY, ARITHMETIC), a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_integers(dtype: torch.dtype) -> None:
    least = 0 if dtype == torch.uint8 else -9

    check(
        WHOLE,
        torch.randint(least, 9, (3, 4)).to(dtype),
        torch.randint(1, 7, (3, 1)).to(dtype),
    )


def test_functions_of_booleans() -> None:
    names = BOOLEAN.split()
    functions = {name: WHOLE[name.replace("#", " ")] for name in names}

    check(functions, torch.rand(3, 5) > 0.5, torch.rand(5) > 0.5)


def test_integers_divided_by_what_the_cpu_traps_on() -> None:
    """PyTorch raises an error, or overflows; here there must be some number."""
    a = torch.tensor([5, -(2**63), 7])
    b = torch.tensor([0, -1, 2])
    functions = [torch.floor_divide, torch.remainder, torch.fmod]
    model = Several(dict(enumerate(functions)))  # type: ignore[arg-type]
    ctx, module = lowered_to_tcp(model, (a, torch.ones_like(b)))

    results = LoadedProgram(ctx, compile_program(ctx, module))((a, b))

    assert [result[2].item() for result in results] == [3, 1, 1]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_large_unsigned_integers(dtype: torch.dtype) -> None:
    x = torch.arange(-4, 4).to(dtype)
    functions = {
        **{name: WHOLE[name] for name in ("float32", "float16", "int64", "bool")},
        "float64": lambda a, b: a.double(),
        "half": lambda a, b: (a.double() / 2).to(dtype),
        "eq": lambda a, b: a == b,
    }

    check(functions, x, torch.arange(3, -5, -1).to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_where_of_large_unsigned_integers(dtype: torch.dtype) -> None:
    x, y = torch.arange(-4, 4).to(dtype), torch.arange(3, -5, -1).to(dtype)
    try:
        torch.where(x == y, x, y)
    except NotImplementedError as error:
        pytest.skip(f"PyTorch {torch.__version__}: {error}")

    check({"where": lambda a, b: torch.where(a == b, a, b)}, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_floats_to_unsigned_integers(dtype: torch.dtype) -> None:
    x = torch.tensor([1e19, 1.8e19, 9.3e18, 9.2e18, 3.7, -1.5, -3e3], dtype=dtype)

    check({"uint64": lambda a, b: a.to(torch.uint64)}, x, x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_that_are_roots(dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0, -math.inf, math.inf, 4, -1], dtype=dtype)
    functions = {
        "signs of zero": lambda a, b: 1 / a.pow(0.5),
        **{str(y): lambda a, b, y=y: a.pow(y) for y in (0.5, -0.5)},
    }

    check(functions, x, x)


def test_halves_next_to_numbers_that_halves_cannot_hold() -> None:
    x = torch.tensor([1.0, 6e4, -6e4, math.inf, -math.inf, math.nan]).half()
    functions = {
        "gt": lambda a, b: a > 1e5,
        "ge": lambda a, b: a >= -1e6,
        "eq": lambda a, b: a == 1e6,
        "add": lambda a, b: a + 1e5,
        "rsub": lambda a, b: 1e5 - a,
        "mul": lambda a, b: a * 1e5,
        "where": lambda a, b: torch.where(a > 0, a, -1e9),
        "nan_to_num": lambda a, b: torch.nan_to_num(a, posinf=1e9),
        "uint64": lambda a, b: torch.nan_to_num(a.clamp(-9, 9)).to(torch.uint64),
    }

    check(functions, x, x)


# --- shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.uint8, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, marks=pytest.mark.slow),
    ],
)
def test_shapes(dtype: torch.dtype) -> None:
    check(SHAPES, random((2, 4, 6, 8), dtype))


def test_shapes_of_booleans() -> None:
    check(SHAPES, torch.rand(2, 4, 6, 8) > 0.5)


def test_shapes_of_dynamic_sizes() -> None:
    check(
        SHAPES,
        torch.randn(2, 4, 6, 8),
        dynamic=[{0: DYNAMIC, 2: AUTO, 3: AUTO}],
        others=[[torch.randn(3, 4, 8, 12)]],
    )


@pytest.mark.parametrize("shape", [(0, 4, 6, 8), (2, 4, 6, 0)])
def test_shapes_of_nothing(shape: tuple[int, ...]) -> None:
    functions = {k: SHAPES[k.replace("#", " ")] for k in EMPTY.split()}
    if shape[0] == 0:
        functions = without(functions, "view")

    check(functions, torch.randn(shape))


CUMULATIVE: Functions = {
    "cumsum": lambda x: x.cumsum(1),
    "cumsum last": lambda x: x.cumsum(-1),
    "cumsum first": lambda x: x.cumsum(0),
    "cumsum of a number": lambda x: x[0, 0, 0].cumsum(0),
    "cumsum in float64": lambda x: x.cumsum(1, dtype=torch.float64),
    "cumsum of a row": lambda x: x[0, :, 0].cumsum(0),
    "cumsum of nothing": lambda x: x[:, :0].cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8, torch.bool])
def test_cumulative_ops(dtype: torch.dtype) -> None:
    check(CUMULATIVE, random((2, 70, 3), dtype))


def test_cumulative_ops_of_dynamic_sizes() -> None:
    check(
        without(CUMULATIVE, "cumsum of nothing"),
        torch.randn(2, 5, 3),
        dynamic=[{0: AUTO, 1: AUTO}],
        others=[[torch.randn(4, 9, 3)]],
    )


def test_cumulative_ops_of_special_numbers() -> None:
    x = torch.tensor([1.0, math.inf, 2, -math.inf, 0, math.nan, 1e38, 3e38])

    check({"sum": lambda x: x.cumsum(0), "product": lambda x: x.cumprod(0)}, x)
    assert float(x[-2:].cumsum(0)[1]) == math.inf


def test_one_hot() -> None:
    functions: Functions = {
        "rows": lambda x: F.one_hot(x, 7),
        "of a number": lambda x: F.one_hot(x[0, 0], 7),
    }

    check(functions, torch.randint(0, 7, (2, 5)))
    check(
        functions,
        torch.randint(0, 7, (2, 5)),
        dynamic=[{1: AUTO}],
        others=[[torch.randint(0, 7, (2, 9))]],
    )


def test_tensors_of_rank_0() -> None:
    functions = {
        **only(REDUCTIONS, "sum mean amax amin argmax argmin any all prod"),
        "sum 0": lambda x: x.sum(0),
        "max 0": lambda x: x.max(0),
        "softmax": lambda x: x.softmax(0),
        "log_softmax": lambda x: x.log_softmax(-1),
        "view": lambda x: x.view(1, 1),
        "reshape": lambda x: x.reshape(-1),
        "and back": lambda x: x.view(1, 1).view(()),
        "flatten": lambda x: x.flatten(),
        "squeeze": lambda x: x.squeeze(),
        "expand": lambda x: x.expand(2, 3),
        "repeat": lambda x: x.repeat(2, 2),
        "stack": lambda x: torch.stack([x, x + 1]),
        "index_select": lambda x: x.index_select(0, torch.tensor([0])),
        "unfold": lambda x: x.unfold(0, 1, 1),
        "t": lambda x: x.t(),
        "transpose": lambda x: x.transpose(0, -1),
        "logsumexp": lambda x: x.logsumexp(0),
    }

    check(functions, torch.randn(()))


def test_vectors_of_dynamic_sizes() -> None:
    functions: Functions = {
        "softmax": lambda x: x.softmax(0),
        "cat of nothing": lambda x: torch.cat([x, x[:0]]),
        "roll": lambda x: x.roll(-2),
        "unfold": lambda x: x.unfold(0, 3, 2),
        "outer": lambda x: x[:, None] * x,
        "from end": lambda x: x[-4:-1],
        "too far": lambda x: x[2:100],
        "dot": lambda x: x @ x,
        "steps": lambda x: x[::3],
        "slice_scatter": lambda x: x.slice_scatter(x[:4] + 1, 0, -9, -1, 2),
        "select_scatter": lambda x: x.select_scatter(x[3], 0, -2) + x,
        "steps, mul": lambda x: x[1::2] * 2,
    }

    check(functions, torch.randn(17), dynamic=[{0: AUTO}], others=[[torch.randn(101)]])


# --- reductions -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_reductions(dtype: torch.dtype) -> None:
    check({**REDUCTIONS, **STATISTICS}, torch.randn(2, 4, 6, 8).to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_reductions_of_integers(dtype: torch.dtype) -> None:
    functions = {
        k: f for k, f in REDUCTIONS.items() if k[:3] not in ("mea", "var", "std")
    }

    check(functions, random((2, 4, 6, 8), dtype))


@pytest.mark.parametrize(
    "functions",
    [
        only(REDUCTIONS, "sum mean prod any all amax argmin"),
        pytest.param(REDUCTIONS, marks=pytest.mark.slow),
        pytest.param(STATISTICS, marks=pytest.mark.slow),
    ],
    ids=["some", "all", "statistics"],
)
def test_reductions_of_dynamic_sizes(functions: Functions) -> None:
    check(
        functions,
        torch.randn(2, 4, 6, 8),
        dynamic=[{0: AUTO, 1: AUTO, 2: AUTO, 3: AUTO}],
        others=[[torch.randn(3, 7, 4, 9)]],
    )


def test_reductions_of_nothing() -> None:
    names = "sum mean prod any all"

    check(only(REDUCTIONS, names), torch.randn(2, 0))
    check(
        {"sum 1": REDUCTIONS["sum 1"], "max 1": REDUCTIONS["max 1"]}, torch.randn(0, 3)
    )


def test_what_is_not_a_number_is_the_greatest_and_the_least() -> None:
    x = torch.randn(3, 5)
    x[1, 2:4] = math.nan
    x[2] = -math.inf

    check(only(REDUCTIONS, "amax amin argmax argmin max min"), x)
    check({"max": lambda x: x.max(1), "log_softmax": lambda x: x.log_softmax(1)}, x)


def test_softmax_of_large_numbers_is_finite() -> None:
    check(only(STATISTICS, "softmax log_softmax logsumexp"), torch.randn(3, 5) * 1e4)


# --- normalization and products -------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_normalization_and_products(dtype: torch.dtype) -> None:
    functions = {**NORMS, **PRODUCTS, **SCALED}
    if dtype != torch.float32:
        del functions["linear"]  # see the next test
    check(functions, torch.randn(2, 4, 6, 8).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_products_of_halves_are_rounded_before_a_bias_is_added(
    dtype: torch.dtype,
) -> None:
    x, linear = torch.randn(2, 4, 6, 8).to(dtype), PRODUCTS["linear"]
    if not torch.equal(linear(x), F.linear(x, x[0, 0]) + x[0, 0, :, 0]):
        pytest.skip(f"PyTorch {torch.__version__} rounds only once")

    check({"linear": linear}, x)


@pytest.mark.parametrize(
    "dtype", [torch.int64, pytest.param(torch.uint8, marks=pytest.mark.slow)]
)
def test_products_of_integers(dtype: torch.dtype) -> None:
    check(PRODUCTS, random((2, 4, 6, 8), dtype))


def test_float64() -> None:
    functions = {
        **only(UNARY, "acos exp erf tanh log1p sigmoid silu logit nan_to_num float16"),
        **only(STATISTICS, "logsumexp cosine_similarity softmax norm"),
        **only(NORMS, "batch_norm layer_norm"),
        **only(PRODUCTS, "linear matmul"),
        "attention": SCALED["attention"],
    }

    check(functions, torch.randn(2, 4, 6, 8).double())


def test_normalization_and_products_of_dynamic_sizes() -> None:
    names = "batch_norm instance_norm group_norm matmul bmm mv attention linear"
    functions = only({**NORMS, **PRODUCTS, **SCALED}, names)

    check(
        functions,
        torch.randn(2, 4, 6, 8),
        dynamic=[{0: AUTO, 3: AUTO}],
        others=[[torch.randn(5, 4, 6, 9)]],
    )


def test_products_of_nothing() -> None:
    functions: Functions = {
        "sums of nothing": lambda x: x @ x.T,
        "nothing": lambda x: x.T @ x,
        "linear": lambda x: F.linear(x, x, x.new_ones(3)),
    }

    check(functions, torch.randn(3, 0))


@pytest.mark.parametrize("queries", [0, 5])
def test_attention_without_keys(queries: int) -> None:
    query, key = torch.randn(1, 2, queries, 8), torch.randn(1, 2, 0, 8)
    functions: Functions = {
        "attention": lambda q, k: F.scaled_dot_product_attention(q, k, k),
        "in steps": lambda q, k: (q @ k.mT).softmax(-1) @ k,
        "of keys": lambda q, k: F.scaled_dot_product_attention(k, q, q),
    }

    check(functions, query, key)
    check(
        functions,
        torch.randn(1, 2, 3, 8),
        torch.randn(1, 2, 4, 8),
        dynamic=[{2: AUTO}, {2: AUTO}],
        others=[[query, key]],
    )


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_of_grouped_heads(groups: int, dynamic: bool) -> None:
    attention = partial(F.scaled_dot_product_attention, enable_gqa=True)

    functions: Functions = {
        "attention": lambda q, k, v, m: attention(q, k, v, scale=0.2),
        "of one batch": lambda q, k, v, m: attention(q[0], k[0], v[0]),
        "causal": lambda q, k, v, m: attention(q, k, v, is_causal=True),
        "masked": lambda q, k, v, m: attention(q, k, v, m > 0),
        "masked for each head": lambda q, k, v, m: attention(
            q, k, v, m[:, :1] + q[..., :1]
        ),
        "masked for all heads": lambda q, k, v, m: attention(q, k, v, m[0, 0]),
    }

    def inputs(rows: int, keys: int) -> list[Tensor]:
        sizes = (6, rows, 8), (groups, keys, 8), (groups, keys, 5), (1, rows, keys)
        return [torch.randn(2, *each) for each in sizes]

    sizes = [{2: AUTO}, {2: AUTO}, {2: AUTO}, {2: AUTO, 3: AUTO}]
    check(
        functions,
        *inputs(7, 9),
        dynamic=sizes if dynamic else None,
        others=[inputs(3, 20)] if dynamic else [],
    )


@pytest.mark.parametrize("channels", [1, 4])
def test_prelu(channels: int) -> None:
    check(
        {"prelu": lambda x: F.prelu(x, torch.arange(channels) / 4)},
        torch.randn(2, 4, 3),
    )


def test_embedding() -> None:
    table = torch.randn(5, 3)

    check({"embedding": lambda i: F.embedding(i, table)}, torch.randint(0, 5, (2, 4)))


def test_indices_out_of_range_read_nothing_else() -> None:
    ctx, module = lowered_to_tcp(
        Several({"index": lambda x, i: x[i]}), (torch.arange(4), torch.tensor([0, 1]))
    )

    program = LoadedProgram(ctx, compile_program(ctx, module))

    far = torch.tensor([2**62, -(2**62)])
    assert program((torch.arange(4), far))[0].tolist() == [3, 0]


def test_every_lowering_is_of_an_op_that_there_is() -> None:
    assert [name for name in LOWERINGS if schema_of(name) is None] == []


def test_ops_without_lowering_are_named() -> None:
    ctx, module = lowered_to_tcp(Several({"sort": torch.sort}), (torch.randn(3),))

    with pytest.raises(UnsupportedError, match=r"aten.sort of .*: there is no native"):
        ConvertTorchToLinalgPass().apply(ctx, module)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_integers_that_pytorch_refuses_are_problems(value: float) -> None:
    ctx, module = lowered_to_tcp(
        Several({"full": lambda x: torch.full_like(x, value)}), (torch.arange(3),)
    )

    with pytest.raises(UnsupportedError, match=rf"full_like of .*: {value} is not an"):
        ConvertTorchToLinalgPass().apply(ctx, module)


def test_a_rounding_mode_that_pytorch_refuses_is_a_problem(
    ctx: Context, parse: Callable[[str], ModuleOp]
):
    module = parse("""
        func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
          %mode = torch.constant.str "ceil"
          %y = torch.aten.div.Tensor_mode %x, %x, %mode
            : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>, !torch.str
            -> !torch.vtensor<[2],f32>
          func.return %y : !torch.vtensor<[2],f32>
        }
    """)

    with pytest.raises(UnsupportedError, match="rounding_mode is 'ceil'"):
        ConvertTorchToLinalgPass().apply(ctx, module)


def test_lgamma_of_numbers_next_to_0():
    """pi divided by the sine is larger than float32's largest number."""
    x = torch.tensor([-2.92e-39, 2.92e-39, -1e-40, -1e-43, -1.2e-38, -1e-20, -0.0])

    actual = padc.compile(Several({"lgamma": torch.lgamma}), (x,))(x)[0]

    torch.testing.assert_close(actual, torch.lgamma(x), rtol=1e-4, atol=0)
