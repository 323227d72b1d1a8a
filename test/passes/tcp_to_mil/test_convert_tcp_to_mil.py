# pyright: basic, reportMissingTypeStubs=false
"""`tcp` programs as Core ML packages, evaluated, against the reference."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import Function, needs_export
from hypothesis import given, settings
from hypothesis import strategies as st
from tcp_programs import legal_amounts
from torch import Tensor, nn
from torch.export import Dim
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f16,
    f32,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from padc import convert
from padc.backends.coreml.emit import emit
from padc.backends.coreml.evaluator import Model, load
from padc.backends.coreml.optimize import optimize
from padc.backends.coreml.save import save_package
from padc.backends.reference import run
from padc.errors import UnsupportedError, UsageError
from padc.frontends.torch_export import export_module, import_exported_program
from padc.ir import make_context, tcp
from padc.ir.padding import conv_output_size
from padc.ir.tcp import ConvDimsAttr, Coordinates, ResampleMode
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.ir.weights import Weights, weights_of
from padc.passes.tcp_to_mil.convert_tcp_to_mil import ConvertTcpToMilPass
from padc.passes.tcp_to_mil.decompose_pads import DecomposePadsPass
from padc.passes.torch_to_mil.convert_torch_to_mil import ConvertTorchToMilPass
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass

TARGETS = ("iOS15", "iOS18")
ELEMENT_TYPES = {torch.float16: f16, torch.float32: f32, torch.int32: i32}

Make = Callable[..., Operation]


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-8, 9, shape, generator=generator).div(4).to(dtype)


def program(make: Make, *inputs: Tensor) -> ModuleOp:
    """A program of the op that `make` makes, and what it makes around it."""
    types = [TensorType(ELEMENT_TYPES[x.dtype], x.shape) for x in inputs]
    block = Block(arg_types=types)
    with ImplicitBuilder(block):
        result = make(*block.args).results[0]
        ReturnOp(result)
    module = ModuleOp([FuncOp("main", (types, [result.type]), Region(block))])
    module.verify()
    return module


def package(module: ModuleOp, weights: Weights, target: str) -> Model:
    """The Core ML model of a program, back from disk."""
    DecomposePadsPass().apply(make_context(), module)
    ctx = make_context()
    ConvertTcpToMilPass(target=target).apply(ctx, module)
    ConvertTorchToMilPass(target=target).apply(ctx, module)
    module.verify()
    assert not any(op.name.startswith("tcp.") for op in module.walk())
    emitted = emit(module, weights, target)
    optimize(emitted)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.mlpackage"
        save_package(emitted, path)
        return load(path)


def predict(model: Model, *inputs: Tensor) -> Tensor:
    names = [feature.name for feature in model.inputs]
    arrays = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    (y,) = model.predict(arrays).values()
    return torch.from_numpy(np.array(y))


def assert_close(actual: Tensor, expected: Tensor) -> None:
    atol = 0.0
    if expected.is_floating_point():
        finite = expected[expected.isfinite()]
        atol = 1e-5 * max([1.0, *finite.abs().flatten().tolist()])
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def check(make: Make, *inputs: Tensor, target: str = "iOS15") -> None:
    """Check that Core ML computes of `inputs` what the reference does."""
    module = program(make, *inputs)
    (expected,) = run(module, *inputs)

    actual = predict(package(module, Weights(), target), *inputs)

    assert_close(actual, expected)


def literal(x: Tensor) -> SSAValue:
    data = DenseIntOrFPElementsAttr.from_list(
        TensorType(f32, x.shape), x.flatten().tolist()
    )
    return ToBuiltinTensorOp(LiteralOp(data).result).result


def pad(x: SSAValue, fill: float, *amounts: Any) -> tcp.PadOp:
    element_type = tcp.tensor_type(x).element_type
    return tcp.PadOp(x, tcp.fill_constant(fill, element_type).result, *amounts)


def lists(size: int, least: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(least, most), min_size=size, max_size=size)


# Pads.


@given(
    st.data(), st.sampled_from(TARGETS), st.sampled_from([torch.float32, torch.int32])
)
@settings(max_examples=50, deadline=None)
def test_pad(data: st.DataObject, target: str, dtype: torch.dtype):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    amounts: list[tuple[int, int, int]] = []
    for size in shape:
        interior = data.draw(st.sampled_from([0, 0, 0, 2]))
        spread = size + (size - 1) * interior
        lower = data.draw(st.integers(1 - spread, 3))
        upper = data.draw(st.integers(1 - spread - min(lower, 0), 3))
        amounts.append((lower, upper, interior))
    fill = data.draw(st.sampled_from([0, -3]))

    check(
        lambda x: pad(x, fill, *([a[i] for a in amounts] for i in range(3))),
        numbers(*shape, dtype=dtype),
        target=target,
    )


@pytest.mark.parametrize("op_type", tcp.BORDER_PADS)
@given(
    st.data(), st.sampled_from(TARGETS), st.sampled_from([torch.float32, torch.int32])
)
@settings(max_examples=25, deadline=None)
def test_border_pad(
    op_type: type[tcp.BorderPadOp], data: st.DataObject, target: str, dtype: torch.dtype
):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    amounts = [data.draw(st.sampled_from(legal_amounts(op_type, n))) for n in shape]
    lower, upper = zip(*amounts, strict=True)

    check(
        lambda x: op_type(x, lower, upper), numbers(*shape, dtype=dtype), target=target
    )


# Convolutions and pools, with a pad that can be folded into them or one that cannot.


Sides = tuple[list[int], list[int]]


def pad_dims(x: SSAValue, fill: float, dims: list[int], sides: Sides) -> SSAValue:
    amounts = [[0] * len(tcp.tensor_type(x).get_shape()) for _ in sides]
    for side, counts in zip(amounts, sides, strict=True):
        for dim, count in zip(dims, counts, strict=True):
            side[dim] = count
    return pad(x, fill, *amounts).result


def sides_of(count: int) -> st.SearchStrategy[Sides]:
    return st.tuples(lists(count, 0, 2), lists(count, 0, 2))


@given(st.data(), st.sampled_from(TARGETS))
@settings(max_examples=50, deadline=None)
def test_conv(data: st.DataObject, target: str):
    rank = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 2))
    first = ConvDimsAttr.channels_first(rank, data.draw(st.booleans()))
    dims = first
    if data.draw(st.booleans()):
        dims = ConvDimsAttr(
            tuple(
                tuple(data.draw(st.permutations(roles)))
                for roles in (first.input, first.kernel, first.result)
            )
        )
    kernel, strides, dilations = (data.draw(lists(rank, 1, n)) for n in (3, 2, 2))
    sizes = dict(enumerate(data.draw(lists(rank, 5, 7)))) | {"b": 2, "f": 2 * groups}
    taps = dict(enumerate(kernel)) | {"o": groups, "i": 2}
    fill = data.draw(st.sampled_from([0.0, 0.0, 1.5]))
    bias = data.draw(st.booleans())
    sides = data.draw(sides_of(rank))
    weight = numbers(*(taps[role] for role in dims.kernel))

    def make(x: SSAValue) -> tcp.ConvOp:
        x = pad_dims(x, fill, list(ConvDimsAttr.spatial(dims.input)), sides)
        shape = tcp.tensor_type(x).get_shape()
        results = {"b": 2, "f": groups} | {
            i: conv_output_size(
                shape[dims.input.index(i)], kernel[i], strides[i], dilations[i]
            )
            for i in range(rank)
        }
        return tcp.ConvOp(
            x, literal(weight), literal(numbers(groups)) if bias else None,
            strides, dilations, groups, dims,
            TensorType(f32, [results[role] for role in dims.result]),
        )  # fmt: skip

    check(make, numbers(*(sizes[role] for role in dims.input)), target=target)


def pooled(x: SSAValue, dims: list[int], windows: list[list[int]]) -> TensorType[Any]:
    shape = list(tcp.tensor_type(x).get_shape())
    for dim, window in zip(dims, zip(*windows, strict=True), strict=True):
        shape[dim] = conv_output_size(shape[dim], *window)
    return TensorType(f32, shape)


@given(st.data(), st.sampled_from(TARGETS))
@settings(max_examples=50, deadline=None)
def test_max_pool(data: st.DataObject, target: str):
    shape = data.draw(st.lists(st.integers(3, 6), min_size=1, max_size=5))
    rank = len(shape)
    dims = data.draw(
        st.lists(
            st.integers(0, rank - 1), min_size=1, max_size=min(rank, 3), unique=True
        )
    )
    windows = [data.draw(lists(len(dims), 1, n)) for n in (2, 3, 2)]
    fill = data.draw(st.sampled_from([-np.inf, -np.inf, -0.5]))

    sides = data.draw(sides_of(len(dims)))

    def make(x: SSAValue) -> tcp.MaxPoolOp:
        x = pad_dims(x, fill, dims, sides)
        return tcp.MaxPoolOp(
            x, windows[0], windows[1], windows[2], dims, pooled(x, dims, windows)
        )

    check(make, numbers(*shape), target=target)


@given(st.data(), st.sampled_from(TARGETS))
@settings(max_examples=40, deadline=None)
def test_avg_pool(data: st.DataObject, target: str):
    shape = data.draw(st.lists(st.integers(3, 6), min_size=1, max_size=5))
    rank = len(shape)
    dims = data.draw(
        st.lists(
            st.integers(0, rank - 1), min_size=1, max_size=min(rank, 3), unique=True
        )
    )
    windows = [
        data.draw(lists(len(dims), 2, 3)),
        data.draw(lists(len(dims), 1, 3)),
        [1] * len(dims),
    ]
    if data.draw(st.booleans()):
        windows[2] = [data.draw(st.integers(1, 2)) for _ in dims]
    above = [data.draw(st.integers(0, k - 1)) for k in windows[0]]
    sides = data.draw(lists(len(dims), 0, 1)), above
    for dim, kernel, _, dilation in zip(dims, *windows, strict=True):
        shape[dim] = max(shape[dim], dilation * (kernel - 1) + 1)
    counted = data.draw(st.sampled_from(["all", "none", "lower"]))
    divisor = data.draw(st.sampled_from([None, None, 3]))
    uncounted = {"all": (None, None), "none": sides, "lower": (None, sides[1])}[counted]

    def make(x: SSAValue) -> tcp.AvgPoolOp:
        x = pad_dims(x, 0.0, dims, sides)
        return tcp.AvgPoolOp(
            x, windows[0], windows[1], windows[2], dims, pooled(x, dims, windows),
            uncounted_lower=uncounted[0], uncounted_upper=uncounted[1], divisor=divisor,
        )  # fmt: skip

    check(make, numbers(*shape), target=target)


# Resampling.


@given(st.data(), st.sampled_from(TARGETS))
@settings(max_examples=40, deadline=None)
def test_resample(data: st.DataObject, target: str):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    rank = len(shape)
    if data.draw(st.booleans()):
        count = min(rank, data.draw(st.integers(1, 3)))
        dims = list(range(rank - count, rank))
    else:
        dims = data.draw(
            st.lists(
                st.integers(0, rank - 1), min_size=1, max_size=min(rank, 3), unique=True
            )
        )
    sizes = [
        data.draw(st.sampled_from([1, 3, 7, 2 * shape[dim], 3 * shape[dim]]))
        for dim in dims
    ]
    mode = data.draw(st.sampled_from(list(ResampleMode)))
    antialias = mode is ResampleMode.LANCZOS or (
        mode in (ResampleMode.LINEAR, ResampleMode.CUBIC) and data.draw(st.booleans())
    )
    is_area = mode is ResampleMode.AREA
    coordinates = (
        Coordinates.HALF_PIXEL
        if is_area
        else data.draw(st.sampled_from(list(Coordinates)))
    )
    scales = [
        m / shape[d] + data.draw(st.sampled_from([0, 0, 0.1]))
        for m, d in zip(sizes, dims, strict=True)
    ]
    given_scales = (
        None
        if is_area or coordinates is Coordinates.ALIGN_CORNERS
        else data.draw(st.sampled_from([None, scales]))
    )
    result = [
        dict(zip(dims, sizes, strict=True)).get(d, n) for d, n in enumerate(shape)
    ]

    check(
        lambda x: tcp.ResampleOp(
            x,
            sizes,
            dims,
            mode,
            coordinates,
            given_scales,
            TensorType(f32, result),
            antialias=antialias,
        ),
        numbers(*shape),
        target=target,
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", [ResampleMode.NEAREST, ResampleMode.LINEAR])
@pytest.mark.parametrize("coordinates", Coordinates)
def test_resample_natively(mode: ResampleMode, coordinates: Coordinates, target: str):
    for sizes in ((6, 12), (3, 8), (7, 5)):
        check(
            lambda x: tcp.ResampleOp(
                x,
                sizes,
                (2, 3),
                mode,
                coordinates,
                None,
                TensorType(f32, [1, 2, *sizes]),
            ),
            numbers(1, 2, 3, 4),
            target=target,
        )


# Dynamic sizes, and what is not f32, by way of whole models.


def compile_model(
    model: nn.Module, *args: Tensor, target: str = "iOS15", **options: Any
) -> Model:
    ctx = make_context()
    module = import_exported_program(
        export_module(model, args, **options), weights_of(ctx)
    )
    ConvertTorchToTcpPass().apply(ctx, module)
    return package(module, weights_of(ctx), target)


W = numbers(3, 2, 2, 3)

DYNAMIC: dict[str, Callable[[Tensor], Tensor]] = {
    "conv": lambda x: F.conv2d(x, W, stride=2, padding=(1, 2)),
    "same": lambda x: F.conv2d(x, W, padding="same"),
    "pad": lambda x: F.pad(x, [1, -2, -1, 2, 1, 0], value=3.0),
    "reflect": lambda x: F.pad(x, [1, 2, 3, -1], "reflect"),
    "replicate": lambda x: F.pad(x, [1, 2, 3, -1], "replicate"),
    "circular": lambda x: F.pad(x, [1, 2, 3, -1], "circular"),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "dilated_max_pool": lambda x: F.max_pool2d(x, 2, 1, 1, 2),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool_uncounted": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool_ceil": lambda x: F.avg_pool2d(x, (2, 3), (1, 2), (0, 1), True, True),
    "unbatched avg_pool": lambda x: F.avg_pool2d(x[0], 3, 2, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=(2, 3)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
}  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes(name: str):
    model = Function(DYNAMIC[name])
    width = Dim("w", min=3, max=15)
    sizes = {2: Dim("h", min=5, max=30), 3: 2 * width + 1 if "ceil" in name else width}
    needs_export(model, (numbers(1, 2, 7, 9),), ((sizes,),))

    compiled = compile_model(model, numbers(1, 2, 7, 9), dynamic_shapes=((sizes,),))

    for height, width in ((7, 9), (5, 11), (11, 7)):
        x = numbers(1, 2, height, width)
        assert_close(predict(compiled, x), model(x))


CROPPED: dict[str, tuple[Callable[[Tensor], Any], list[str]]] = {
    "conv": (
        lambda x: F.conv2d(F.pad(x, (-1, 2, 3, -2)), W),
        ["slice_by_index", "slice_by_index", "conv"],
    ),
    "slice, pad, conv": (
        lambda x: F.conv2d(F.pad(x[..., 1:], (0, 2, 1, 1)), W),
        ["slice_by_index", "conv"],
    ),
    "two convs": (
        lambda x: [F.conv2d(y := F.pad(x, (-1, 2)), W), F.conv2d(y, 2 * W)],
        ["slice_by_index", "conv", "conv"],
    ),
    "max_pool": (
        lambda x: F.max_pool2d(F.pad(x, (-1, 2), value=-torch.inf), 3),
        ["slice_by_index", "max_pool"],
    ),
    "avg_pool": (
        lambda x: F.avg_pool2d(F.pad(x, (-1, 2)), 3),
        ["slice_by_index", "avg_pool"],
    ),
}


@pytest.mark.parametrize("name", CROPPED)
def test_what_is_cropped_does_not_keep_a_pad_from_folding(name: str):
    function, expected = CROPPED[name]
    model, x = Function(function), numbers(1, 2, 8, 9)

    program = convert(model, (x,))

    operations = program._pymil.functions["main"].operations
    made = [op.op_type for op in operations if op.op_type != "const"]
    assert sorted(made) == sorted(expected)
    assert program.check() == []
    y = model(x)
    for actual, other in zip(program.run(x), [y] if len(y) == 1 else y, strict=True):
        assert_close(actual, other)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["constant", "circular"])
def test_pads_of_booleans(mode: str, target: str):
    value = True if mode == "constant" else None
    model = Function(lambda x: F.pad(x > 0, [2, 1, -1, 3], mode, value).to(torch.int32))
    x = numbers(1, 2, 4, 5)

    assert_close(predict(compile_model(model, x, target=target), x), model(x))


@pytest.mark.parametrize("factor", [3, 41])
def test_nearest_by_factors_that_pytorch_rounds(factor: int):
    # In float32 41 does not take every element 41 times.
    model = nn.Upsample(scale_factor=factor)
    x = numbers(1, 1, 200)

    compiled = compile_model(model, x)

    assert torch.equal(predict(compiled, x), model(x))


# What Core ML cannot do.


def test_an_unknown_target_is_refused():
    with pytest.raises(UsageError, match="no target 'iOS3'"):
        ConvertTcpToMilPass(target="iOS3").apply(make_context(), ModuleOp([]))


def test_all_problems_are_raised_at_once(parse: Callable[[str], ModuleOp]):
    module = parse(
        """
        func.func @main(%x : tensor<4x4xf32>, %d : tensor<1x2x2x2x2x2xf32>, %i : tensor<?xi32>, %f : f32, %n : index, %s : tensor<?x4xf32>, %y : tensor<4xf64>) -> (tensor<5x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<2x2x2x2x2x2xf32>, tensor<?x4xf32>, tensor<5xf64>) {
          %zero = arith.constant 0.0 : f32
          %double = arith.constant 0.0 : f64
          %0 = tcp.pad %x, %f lowerExpansion [1, 0] upperExpansion [0, 0] : tensor<4x4xf32>, f32 -> tensor<5x4xf32>
          %1 = tcp.pad %x, %zero lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<4x4xf32>, f32 -> tensor<?x4xf32>
          %2 = tcp.circular_pad %x lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<4x4xf32> -> tensor<?x4xf32>
          %3 = tcp.circular_pad %d lowerExpansion [1, 0, 0, 0, 0, 0] upperExpansion [0, 0, 0, 0, 0, 0] : tensor<1x2x2x2x2x2xf32> -> tensor<2x2x2x2x2x2xf32>
          %4 = tcp.resample %s size [%n] dims [0] mode cubic coordinates half_pixel : tensor<?x4xf32> -> tensor<?x4xf32>
          %5 = tcp.pad %y, %double lowerExpansion [1] upperExpansion [0] : tensor<4xf64>, f64 -> tensor<5xf64>
          return %0, %1, %2, %3, %4, %5 : tensor<5x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<2x2x2x2x2x2xf32>, tensor<?x4xf32>, tensor<5xf64>
        }
        """
    )

    with pytest.raises(UnsupportedError) as raised:
        ConvertTcpToMilPass(target="iOS15").apply(make_context(), module)

    messages = [problem.message for problem in raised.value.problems]
    expected = [
        "'tcp.pad' of float32[4,4]: the fill is computed",
        "'tcp.pad' of float32[4,4]: the amounts are computed",
        "'tcp.circular_pad' of float32[4,4]: the amounts are computed",
        "rank 5 at most",
        "'tcp.resample' of float32[?,4]: no integer arithmetic of ATen",
        "'tcp.pad' of float64[4]: Core ML has no f64",
    ]
    assert len(messages) == len(expected)
    for message, part in zip(messages, expected, strict=True):
        assert part in message
    assert all(problem.hint for problem in raised.value.problems)


def test_a_problem_names_the_aten_op_and_its_line():
    model = Function(lambda x: F.pad(x, (1, 1)))

    with pytest.raises(
        UnsupportedError, match=r"aten\.pad, which is 'tcp\.pad'"
    ) as raised:
        compile_model(model, numbers(1, 2, 4, 5).double())

    # PyTorch 2.8 keeps the line of `forward`.
    assert re.search(r"lambda x: F.pad\(x|return self.function", str(raised.value))
