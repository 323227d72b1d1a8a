"""Each `tcp` op as the reference computes it, against PyTorch."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import pad_last, padded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import (
    IndexType,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from padc.backends.reference import run
from padc.errors import InvalidProgramError, UnsupportedError, UsageError
from padc.ir import tcp
from padc.ir.tcp import ConvDimsAttr, Coordinates, ResampleMode
from padc.ir.weights import Weights

ELEMENT_TYPES: dict[torch.dtype, Attribute] = {
    torch.bool: i1,
    torch.uint8: IntegerType(8, Signedness.UNSIGNED),
    torch.int8: IntegerType(8),
    torch.int16: IntegerType(16),
    torch.int32: IntegerType(32),
    torch.int64: IntegerType(64),
    torch.bfloat16: bf16,
    torch.float16: f16,
    torch.float32: f32,
    torch.float64: f64,
}
FLOATS = [dtype for dtype in ELEMENT_TYPES if dtype.is_floating_point]
NUMBERS = [dtype for dtype in ELEMENT_TYPES if dtype != torch.bool]

dtypes = pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=str)
number_dtypes = pytest.mark.parametrize("dtype", NUMBERS, ids=str)
float_dtypes = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of few bits, so that sums of products are exact in any order."""
    generator = torch.Generator().manual_seed(sum(shape))
    values = torch.randint(-8, 9, shape, generator=generator)
    return values.div(4).to(dtype) if dtype.is_floating_point else values.to(dtype)


def type_like(x: Tensor) -> TensorType[Any]:
    return TensorType(ELEMENT_TYPES[x.dtype], x.shape)


def compute(make: Callable[..., Operation], *inputs: Tensor | int) -> Tensor:
    """What the op computes that `make` makes of values for `inputs`."""
    types = [type_like(x) if isinstance(x, Tensor) else IndexType() for x in inputs]
    block = Block(arg_types=types)
    with ImplicitBuilder(block):
        result = make(*block.args).results[0]
        ReturnOp(result)
    module = ModuleOp([FuncOp("main", (types, [result.type]), Region(block))])
    module.verify()
    (y,) = run(module, *inputs)
    assert type_like(y).element_type == tcp.tensor_type(result).element_type
    return y


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


# Pads.


def pad(x: SSAValue, fill: float, *amounts: Any) -> tcp.PadOp:
    element_type = tcp.tensor_type(x).element_type
    return tcp.PadOp(x, tcp.fill_constant(fill, element_type).result, *amounts)


def torch_amounts(lower: list[int], upper: list[int]) -> list[int]:
    return [n for pair in zip(lower[::-1], upper[::-1], strict=True) for n in pair]


@dtypes
def test_pad_of_each_dtype(dtype: torch.dtype):
    x = numbers(2, 3, 4, dtype=dtype)
    lower, upper = [1, 0, -2], [0, 2, 1]

    y = compute(lambda x: pad(x, 1, lower, upper), x)

    assert_equal(y, F.pad(x, torch_amounts(lower, upper), value=1))


@pytest.mark.parametrize("fill", [-0.0, torch.inf, torch.nan, 2**-24])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_fills_are_kept_to_the_bit(dtype: torch.dtype, fill: float):
    x = numbers(1, dtype=dtype)

    y = compute(lambda x: pad(x, fill, [1], [0]), x)

    expected = F.pad(x, [1, 0], value=fill)
    bits = {2: torch.int16, 8: torch.int64}[x.itemsize]
    assert_equal(y.view(bits), expected.view(bits))


def test_fill_of_unsigned_is_a_bit_pattern():
    x = torch.tensor([1, 254], dtype=torch.uint8)

    y = compute(lambda x: pad(x, 255, [1], [0]), x)

    assert y.tolist() == [255, 1, 254]


@given(st.data())
def test_pad_inserts_then_crops_or_adds(data: st.DataObject):
    shape = data.draw(st.lists(st.integers(0, 4), max_size=6))
    amounts: list[tuple[int, int, int]] = []
    for size in shape:
        interior = data.draw(st.integers(0, 3))
        spread = size + max(size - 1, 0) * interior
        lower = data.draw(st.integers(-spread, 3))
        upper = data.draw(st.integers(-spread - min(lower, 0), 3))
        amounts.append((lower, upper, interior))
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    lower, upper, interior = ([a[i] for a in amounts] for i in range(3))

    y = compute(lambda x: pad(x, -1, lower, upper, interior), x)

    spread = x
    for dim, (size, between) in enumerate(zip(shape, interior, strict=True)):
        # Fill follows every element, and is removed after the last one.
        parts = [spread.unsqueeze(dim + 1)]
        fills = [
            *x.shape[:0],
            *spread.shape[: dim + 1],
            between,
            *spread.shape[dim + 1 :],
        ]
        parts.append(torch.full(fills, -1.0))
        joined = torch.cat(parts, dim + 1).flatten(dim, dim + 1)
        spread = joined.narrow(dim, 0, size + max(size - 1, 0) * between)
    expected = padded(spread, torch_amounts(lower, upper), "constant", -1)
    assert_equal(y, expected)


MODES = {
    "replicate": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "circular": tcp.CircularPadOp,
}


def test_symmetric_pads_repeat_the_edge():
    x = torch.tensor([1, 2, 3])

    for amounts, expected in {
        (3, 2): [3, 2, 1, 1, 2, 3, 3, 2],
        (-1, 3): [2, 3, 3, 2, 1],
        (2, -4): [2],
    }.items():
        lower, upper = ([amount] for amount in amounts)

        y = compute(lambda x: tcp.SymmetricPadOp(x, lower, upper), x)

        assert_equal(y, torch.tensor(expected))


@pytest.mark.parametrize("mode", MODES)
@number_dtypes
def test_border_pads_of_each_dtype(mode: str, dtype: torch.dtype):
    x = numbers(1, 2, 4, 5, dtype=dtype)
    lower, upper = [0, 0, 3, -1], [0, 0, 1, 3]

    y = compute(lambda x: MODES[mode](x, lower, upper), x)

    assert_equal(y, F.pad(x, torch_amounts(lower, upper)[:4], mode))


@pytest.mark.parametrize("mode", MODES)
def test_border_pads_by_each_pair_of_amounts(mode: str):
    refused = 0
    for size, lower, upper in itertools.product((1, 2, 4), range(-4, 6), range(-4, 6)):
        x = torch.arange(float(size)).reshape(1, 1, 1, size)
        expected = pad_last(x, lower, upper, mode)
        cropped = size + min(lower, 0) + min(upper, 0)
        if mode == "circular" and max(lower, upper) > cropped:
            expected = None  # PyTorch reads uninitialised memory.

        def make(x: SSAValue, a: SSAValue, b: SSAValue) -> Operation:
            return MODES[mode](x, [0, 0, 0, a], [0, 0, 0, b])

        if expected is None:
            with pytest.raises(UsageError, match="padding"):
                compute(make, x, lower, upper)
            refused += 1
        else:
            assert_equal(compute(make, x, lower, upper), expected)
    assert refused


@pytest.mark.parametrize("mode", MODES)
def test_border_pads_of_any_dimensions(mode: str):
    """PyTorch pads the last three at most, and no more than two before: one by one."""
    x = numbers(3, 2, 2, 3, 2, 4)
    lower, upper = [2, 1, 0, -1, 1, 3], [0, 1, 1, 2, 0, 0]

    y = compute(lambda x: MODES[mode](x, lower, upper), x)

    expected = x
    for dim, amounts in enumerate(zip(lower, upper, strict=True)):
        last = expected.movedim(dim, -1)
        padded = F.pad(last.reshape(1, -1, last.shape[-1]), amounts, mode)
        expected = padded.reshape(*last.shape[:-1], -1).movedim(-1, dim)
    assert_equal(y, expected)


@pytest.mark.parametrize("mode", MODES)
def test_border_pads_of_no_amount_give_each_element_its_memory(mode: str):
    """Elements of a view may share it, and an op may write to a copy of such a view."""
    windows = numbers(4).unfold(0, 3, 1)

    y = compute(lambda x: MODES[mode](x, [0, 0], [0, 0]), windows)

    assert_equal(y, windows)
    assert y.untyped_storage().nbytes() == y.nbytes


def test_amounts_may_be_computed():
    x = numbers(2, 3)

    y = compute(lambda x, a, b, c: pad(x, 7, [0, a], [b, 1], [0, c]), x, -2, 3, 1)

    assert y.shape == (5, 4)
    expected = torch.full((5, 4), 7.0)
    expected[:2, [0, 2]] = x[:, 1:]
    assert_equal(y, expected)


@pytest.mark.parametrize("amounts", [(-3, 0), (-2, -1), (-3, 5)])
def test_computed_amounts_that_crop_too_much_are_refused(amounts: tuple[int, int]):
    with pytest.raises(UsageError, match="crops more than the 2 elements there are"):
        compute(lambda x, a, b: pad(x, 0, [a], [b]), numbers(2), *amounts)


# Convolutions.


@number_dtypes
def test_conv_of_each_dtype(dtype: torch.dtype):
    x, w = numbers(2, 4, 5, 6, dtype=dtype), numbers(6, 2, 2, 3, dtype=dtype)
    b = numbers(6, dtype=dtype)
    # PyTorch has no dilated convolution of small integers; it wraps them around.
    wide = dtype if dtype.is_floating_point else torch.int64
    expected = F.conv2d(x.to(wide), w.to(wide), b.to(wide), (2, 1), 0, (1, 2), 2)
    expected = expected.to(dtype)

    y = compute(
        lambda x, w, b: tcp.ConvOp(
            x,
            w,
            b,
            (2, 1),
            (1, 2),
            2,
            ConvDimsAttr.channels_first(2),
            type_like(expected),
        ),
        *(x, w, b),
    )

    assert_equal(y, expected)


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_conv_in_each_order_of_dimensions(data: st.DataObject):
    rank = data.draw(st.integers(1, 3))
    batched = data.draw(st.booleans())
    groups = data.draw(st.integers(1, 2))
    sizes = data.draw(st.lists(st.integers(3, 6), min_size=rank, max_size=rank))
    kernel, strides, dilations = (
        data.draw(st.lists(st.integers(1, most), min_size=rank, max_size=rank))
        for most in (2, 3, 2)
    )
    first = ConvDimsAttr.channels_first(rank, batched)
    dims = ConvDimsAttr(
        tuple(
            tuple(data.draw(st.permutations(roles)))
            for roles in (first.input, first.kernel, first.result)
        )
    )
    x = numbers(*[2] * batched, 2 * groups, *sizes)
    w = numbers(3 * groups, 2, *kernel)
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    expected = conv(x, w, None, strides, 0, dilations, groups)
    expected = expected.permute([first.result.index(role) for role in dims.result])

    y = compute(
        lambda x, w: tcp.ConvOp(
            x, w, None, strides, dilations, groups, dims, type_like(expected)
        ),
        x.permute([first.input.index(role) for role in dims.input]),
        w.permute([first.kernel.index(role) for role in dims.kernel]),
    )

    assert_equal(y, expected)


@pytest.mark.parametrize(("batch", "features"), [(0, 2), (1, 0), (0, 0)])
def test_conv_without_features_or_batches(batch: int, features: int):
    x, w, b = numbers(batch, features, 4), numbers(3, features, 2), numbers(3)

    y = compute(
        lambda x, w, b: tcp.ConvOp(
            x,
            w,
            b,
            (1,),
            (1,),
            1,
            ConvDimsAttr.channels_first(1),
            TensorType(f32, [batch, 3, 3]),
        ),
        *(x, w, b),
    )

    assert_equal(y, b.reshape(3, 1).expand(batch, 3, 3))


def test_integer_convolution_wraps():
    x, w = (
        torch.full((1, 1, 2), 100, dtype=torch.int8),
        torch.ones(1, 1, 2).to(torch.int8),
    )

    y = compute(
        lambda x, w: tcp.ConvOp(
            x,
            w,
            None,
            (1,),
            (1,),
            1,
            ConvDimsAttr.channels_first(1),
            TensorType(IntegerType(8), [1, 1, 1]),
        ),
        *(x, w),
    )

    assert y.tolist() == [[[-56]]]


# Pools.


@number_dtypes
def test_max_pool_of_each_dtype(dtype: torch.dtype):
    x = numbers(2, 3, 7, 8, dtype=dtype)
    expected = F.max_pool2d(x, (2, 3), (3, 1), 0, (2, 1))

    y = compute(
        lambda x: tcp.MaxPoolOp(x, (2, 3), (3, 1), (2, 1), (2, 3), type_like(expected)),
        x,
    )

    assert_equal(y, expected)


def test_nan_is_the_largest():
    x = torch.tensor([[1.0, torch.nan, 3.0, -torch.inf]])
    expected = F.max_pool1d(x, 2, 1)

    y = compute(
        lambda x: tcp.MaxPoolOp(x, (2,), (1,), (1,), (1,), type_like(expected)), x
    )

    assert_equal(y, expected)
    assert y.isnan().tolist() == [[True, True, False]]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
@pytest.mark.parametrize("divisor", [None, 5, -3])
def test_avg_pool_of_each_dtype(dtype: torch.dtype, divisor: int | None):
    x = numbers(2, 3, 7, 8, dtype=dtype)
    expected = F.avg_pool2d(x, (2, 3), (3, 1), divisor_override=divisor)

    y = compute(
        lambda x: tcp.AvgPoolOp(
            x, (2, 3), (3, 1), (1, 1), (2, 3), type_like(expected), divisor=divisor
        ),
        x,
    )

    torch.testing.assert_close(y, expected)


def test_avg_pool_divides_by_what_counts():
    x = numbers(1, 1, 5, 4)
    padded = F.pad(x, [1, 1, 2, 2])
    expected = F.avg_pool2d(x, (4, 3), (2, 1), (2, 1), count_include_pad=False)

    y = compute(
        lambda x: tcp.AvgPoolOp(
            x, (4, 3), (2, 1), (1, 1), (2, 3), type_like(expected),
            uncounted_lower=(2, 1), uncounted_upper=(2, 1),
        ),
        padded,
    )  # fmt: skip

    torch.testing.assert_close(y, expected)


def test_pools_take_any_dimensions_and_dilation():
    x = numbers(7, 2, 9)
    windows = [x[i : i + 3 : 2, :, j : j + 7 : 3] for i in range(5) for j in (0, 2)]
    shape = TensorType(f32, [5, 2, 2])

    largest = compute(
        lambda x: tcp.MaxPoolOp(x, (2, 3), (1, 2), (2, 3), (0, 2), shape), x
    )
    mean = compute(lambda x: tcp.AvgPoolOp(x, (2, 3), (1, 2), (2, 3), (0, 2), shape), x)

    expected = torch.stack([window.amax((0, 2)) for window in windows])
    assert_equal(largest, expected.reshape(5, 2, 2).mT)
    expected = torch.stack([window.mean((0, 2)) for window in windows])
    torch.testing.assert_close(mean, expected.reshape(5, 2, 2).mT)


# Resampling.

MODE_NAMES = {
    (ResampleMode.NEAREST, Coordinates.ASYMMETRIC): ("nearest", None),
    (ResampleMode.NEAREST, Coordinates.HALF_PIXEL): ("nearest-exact", None),
    (ResampleMode.LINEAR, Coordinates.HALF_PIXEL): ("bilinear", False),
    (ResampleMode.LINEAR, Coordinates.ALIGN_CORNERS): ("bilinear", True),
    (ResampleMode.CUBIC, Coordinates.HALF_PIXEL): ("bicubic", False),
    (ResampleMode.CUBIC, Coordinates.ALIGN_CORNERS): ("bicubic", True),
}
each_mode = pytest.mark.parametrize(("mode", "coordinates"), MODE_NAMES, ids=str)


@each_mode
@float_dtypes
def test_resample_to_sizes(
    mode: ResampleMode, coordinates: Coordinates, dtype: torch.dtype
):
    name, align_corners = MODE_NAMES[mode, coordinates]
    x = numbers(2, 3, 5, 6, dtype=dtype)
    for size in ((8, 3), (1, 13), (5, 12)):
        expected = F.interpolate(x, size, mode=name, align_corners=align_corners)

        y = compute(
            lambda x: tcp.ResampleOp(
                x, size, (2, 3), mode, coordinates, None, type_like(expected)
            ),
            x,
        )

        # PyTorch rounds once for each dimension.
        atol = 32 * torch.finfo(dtype).eps
        torch.testing.assert_close(y, expected, rtol=0, atol=atol)


@each_mode
def test_resample_by_scales(mode: ResampleMode, coordinates: Coordinates):
    if coordinates is Coordinates.ALIGN_CORNERS:
        pytest.skip("PyTorch ignores scales there")
    name, align_corners = MODE_NAMES[mode, coordinates]
    x = numbers(2, 3, 5, 6)
    for scales in ((1.7, 0.4), (2.0, 3.0), (1.0, 2.9)):
        expected = F.interpolate(
            x, scale_factor=scales, mode=name, align_corners=align_corners
        )

        y = compute(
            lambda x: tcp.ResampleOp(
                x,
                expected.shape[2:],
                (2, 3),
                mode,
                coordinates,
                scales,
                type_like(expected),
            ),
            x,
        )

        torch.testing.assert_close(y, expected)


def test_resample_other_dimensions_to_computed_sizes():
    x = torch.arange(6, dtype=torch.uint8).reshape(3, 2)

    y = compute(
        lambda x, n: tcp.ResampleOp(
            x, (n,), (0,), ResampleMode.NEAREST, Coordinates.ASYMMETRIC, None,
            TensorType(ELEMENT_TYPES[torch.uint8], [-9223372036854775808, 2]),
        ),
        *(x, 6),
    )  # fmt: skip

    assert_equal(y, x.repeat_interleave(2, 0))


# Programs.

Parse = Callable[[str], ModuleOp]


def test_weights_of_each_dtype(parse: Parse):
    module = parse(
        """
        func.func @main() -> (!torch.vtensor<[2],bf16>, !torch.vtensor<[2,1],ui8>, !torch.vtensor<[3],i1>, !torch.vtensor<[2],si64>) {
          %0 = torch.vtensor.literal(dense_resource<a> : tensor<2xbf16>) : !torch.vtensor<[2],bf16>
          %1 = torch.vtensor.literal(dense_resource<b> : tensor<2x1xui8>) : !torch.vtensor<[2,1],ui8>
          %2 = torch.vtensor.literal(dense<[true, false, true]> : tensor<3xi1>) : !torch.vtensor<[3],i1>
          %3 = torch.vtensor.literal(dense<-7> : tensor<2xsi64>) : !torch.vtensor<[2],si64>
          return %0, %1, %2, %3 : !torch.vtensor<[2],bf16>, !torch.vtensor<[2,1],ui8>, !torch.vtensor<[3],i1>, !torch.vtensor<[2],si64>
        }
        """
    )
    weights = Weights(
        {
            "a": np.array([0x3F80, 0xC000], np.uint16),
            "b": np.array([[255], [0]], np.uint8),
        }
    )

    a, b, c, d = run(module, weights=weights)

    assert_equal(a, torch.tensor([1, -2], dtype=torch.bfloat16))
    assert_equal(b, torch.tensor([[255], [0]], dtype=torch.uint8))
    assert_equal(c, torch.tensor([True, False, True]))
    assert c.sum() == 2
    assert_equal(d, torch.tensor([-7, -7]))


def test_a_missing_weight_is_named(parse: Parse):
    module = parse(
        """
        func.func @main() -> !torch.vtensor<[2],f32> {
          %0 = torch.vtensor.literal(dense_resource<fc.bias> : tensor<2xf32>) : !torch.vtensor<[2],f32>
          return %0 : !torch.vtensor<[2],f32>
        }
        """
    )

    with pytest.raises(InvalidProgramError, match=r"no data for the weight 'fc\.bias'"):
        run(module)


def test_integer_ops_of_symbolic_shapes(parse: Parse):
    module = parse(
        """
        func.func @main(%x : !torch.vtensor<[?],f32>) -> !torch.vtensor<[?],f32> {
          %zero = torch.constant.int 0
          %five = torch.constant.int 5
          %size = torch.aten.size.int %x, %zero : !torch.vtensor<[?],f32>, !torch.int -> !torch.int
          %most = torch.prim.max.int %size, %five : !torch.int, !torch.int -> !torch.int
          %i64 = torch_c.to_i64 %most
          %n = arith.index_cast %i64 : i64 to index
          %t = torch_c.to_builtin_tensor %x : !torch.vtensor<[?],f32> -> tensor<?xf32>
          %f = arith.constant 1.0 : f32
          %p = tcp.pad %t, %f lowerExpansion [%n] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
          %y = torch_c.from_builtin_tensor %p : tensor<?xf32> -> !torch.vtensor<[?],f32>
          return %y : !torch.vtensor<[?],f32>
        }
        """
    )

    assert run(module, torch.zeros(2))[0].tolist() == [1.0] * 5 + [0.0] * 2
    assert run(module, torch.zeros(6))[0].tolist() == [1.0] * 6 + [0.0] * 6


IDENTITY = """
func.func @main(%x : tensor<2x?xf32>) -> tensor<2x?xf32> {
  return %x : tensor<2x?xf32>
}
"""


def test_all_unknown_ops_are_named(parse: Parse):
    module = parse(
        """
        func.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {
          %0 = mil.relu(x = %x) : (tensor<2xf32>) -> tensor<2xf32>
          %1 = "test.op"(%0) : (tensor<2xf32>) -> tensor<2xf32>
          return %1 : tensor<2xf32>
        }
        """
    )

    with pytest.raises(UnsupportedError) as raised:
        run(module, torch.zeros(2))

    assert [problem.message for problem in raised.value.problems] == [
        "the reference cannot run 'mil.relu'",
        "the reference cannot run 'test.op'",
    ]


def test_a_missing_function_is_named(parse: Parse):
    with pytest.raises(InvalidProgramError, match="no function @other"):
        run(parse(IDENTITY), entry="other")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "takes 1 inputs, got 0"),
        ([torch.zeros(3, 2)], r"tensor<2x\?xf32>, got torch.float32 of shape \[3, 2\]"),
        ([torch.zeros(2)], r"got torch.float32 of shape \[2\]"),
        ([torch.zeros(2, 3).int()], r"got torch.int32 of shape \[2, 3\]"),
    ],
)
def test_other_inputs_are_refused(parse: Parse, inputs: list[Tensor], message: str):
    with pytest.raises(UsageError, match=message):
        run(parse(IDENTITY), *inputs)


def test_windows_that_do_not_fit_are_refused(parse: Parse):
    module = parse(
        """
        func.func @main(%x : tensor<?xf32>) -> tensor<?xf32> {
          %y = tcp.max_pool %x kernel [3] strides [1] dilations [2] dims [0] : tensor<?xf32> -> tensor<?xf32>
          return %y : tensor<?xf32>
        }
        """
    )

    assert run(module, torch.arange(5.0))[0].tolist() == [4.0]
    with pytest.raises(
        UsageError,
        match=r"'tcp\.max_pool': a window of 5 elements does not fit into dimension 0, of 4",
    ):
        run(module, torch.zeros(4))


def test_what_pytorch_refuses_is_said(parse: Parse):
    module = parse(
        """
        func.func @main(%x : !torch.vtensor<[?],f32>, %y : !torch.vtensor<[?],f32>) -> !torch.vtensor<[?],f32> {
          %z = torch.aten.maximum %x, %y : !torch.vtensor<[?],f32>, !torch.vtensor<[?],f32> -> !torch.vtensor<[?],f32>
          return %z : !torch.vtensor<[?],f32>
        }
        """
    )

    with pytest.raises(
        UsageError, match=r"'torch\.aten\.maximum': The size of tensor a"
    ):
        run(module, torch.zeros(2), torch.zeros(3))
