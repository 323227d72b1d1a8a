"""Windows as columns, their sums, and ops that only move elements, end to end."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function, Functions, Several, check_each, needs_export
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter

import padc
from padc.backends.reference import run
from padc.errors import UnsupportedError
from padc.ir import make_context
from padc.ir.torch import (
    FromBuiltinTensorOp,
    ToBuiltinTensorOp,
    VTensorType,
    builtin_type,
)
from padc.passes.aten.builder import Argument, AtenBuilder
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.testing import compile_for_oracle


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of few bits, all different from their neighbours: sums are exact."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 7 % 31 - 15).reshape(shape)
    return values % 2 == 0 if dtype == torch.bool else values.to(dtype)


def check(
    functions: Callable[..., Any] | Functions, *inputs: Tensor, target: str = "iOS16"
) -> None:
    """All in PyTorch, in the reference, and as one Core ML package, are the same."""
    named = functions if isinstance(functions, Mapping) else {"": functions}
    exported = torch.export.export(Several(named), inputs)
    program = padc.convert(exported, target=target)

    reference = compile_for_oracle(exported)(*inputs)
    package = program.run(*inputs)

    check_each(named, reference, *inputs, note="reference", rtol=0, atol=0)
    check_each(named, package, *inputs, note="package", rtol=0, atol=0)
    assert program.check() == []


# What a converter could mistake: the two dimensions for one another, a rest that no
# window reaches, windows that overlap, leave gaps, or lie in the padding.
WINDOWS: dict[str, dict[str, Any]] = {
    "overlapping": dict(kernel_size=3),
    "side by side": dict(kernel_size=(2, 3), stride=(2, 3)),
    "side by side, padded": dict(kernel_size=2, stride=2, padding=1),
    "with gaps": dict(kernel_size=2, stride=(3, 4)),
    "dilated": dict(kernel_size=(2, 3), dilation=(3, 2), padding=(1, 2)),
    "dilated, strided": dict(kernel_size=3, dilation=2, stride=(2, 3), padding=(3, 2)),
    "a single row": dict(kernel_size=(1, 4), stride=(2, 1), padding=(0, 3)),
    "wider padding than kernel": dict(kernel_size=2, stride=3, padding=(4, 5)),
}
SIZE = (7, 10)


def test_unfold():
    functions = {
        case: lambda x, options=options: F.unfold(x, **options)
        for case, options in WINDOWS.items()
    }

    check(functions, numbers(2, 3, *SIZE))


def test_fold():
    image = torch.zeros(2, 3, *SIZE)
    functions = {
        case: lambda *xs, i=i, options=options: F.fold(xs[i], SIZE, **options)
        for i, (case, options) in enumerate(WINDOWS.items())
    }

    check(
        functions,
        *(numbers(*F.unfold(image, **options).shape) for options in WINDOWS.values()),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bool], ids=str)
def test_fold_and_unfold_of_other_dtypes(dtype: torch.dtype):
    options = WINDOWS["dilated, strided"]
    x = numbers(3, *SIZE, dtype=dtype)

    check(
        {
            "unfold": lambda x, y: F.unfold(x, **options),
            "fold": lambda x, y: F.fold(y, SIZE, **options),
        },
        x,
        F.unfold(x, **options),
    )


def test_infinity_and_nan_stay_where_they_are():
    x = numbers(1, 2, *SIZE)
    x[0, 0, 3, 4], x[0, 1, 0, 0], x[0, 1, 6, 9] = torch.inf, torch.nan, -torch.inf
    exported = torch.export.export(Function(lambda x: F.unfold(x, 3, padding=1)), (x,))

    (columns,) = padc.convert(exported).run(x)

    expected = F.unfold(x, 3, padding=1)
    torch.testing.assert_close(columns, expected, rtol=0, atol=0, equal_nan=True)


def test_dynamic_batch_and_sizes():
    batch = Dim("batch", min=1, max=8)
    height, width = Dim("height", min=5, max=20), Dim("width", min=5, max=20)
    options = WINDOWS["dilated, strided"]

    def forward(x: Tensor) -> Tensor:
        return F.unfold(x, **options)

    model, example = Function(forward), (numbers(2, 3, 8, 9),)
    shapes = (({0: batch, 2: height, 3: width},),)
    needs_export(model, example, shapes)

    program = padc.convert(model, example, dynamic_shapes=shapes)

    for shape in (2, 3, 8, 9), (1, 3, 5, 14), (5, 3, 20, 6):
        x = numbers(*shape)
        assert torch.equal(program.run(x)[0], forward(x))


Sizes = tuple[int, int]


FOLDED: list[dict[str, Any]] = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (2, 3), "stride": (2, 3), "padding": (1, 0)},
    {"kernel_size": (3, 2), "stride": 2, "dilation": (1, 2), "padding": (2, 0)},
]


def test_fold_of_dynamic_sizes():
    def sums(x: Tensor, options: dict[str, Any]) -> Tensor:
        return F.fold(F.unfold(x, **options), x.shape[2:], **options)

    functions = {
        str(options): lambda x, options=options: sums(x, options) for options in FOLDED
    }
    sizes = {
        0: Dim("batch", min=2, max=5),
        1: Dim("channels", min=2, max=5),
        2: Dim("rows", min=8, max=12),
        3: Dim("columns", min=8, max=12),
    }
    exported = torch.export.export(
        Several(functions), (numbers(2, 3, 10, 11),), dynamic_shapes=((sizes,),)
    )
    program = padc.convert(exported)
    oracle = compile_for_oracle(exported)

    assert program.check() == []
    for shape in (3, 2, 8, 9), (2, 5, 11, 12):
        x = numbers(*shape)
        for compiled in program.run, oracle:
            check_each(functions, compiled(x), x, rtol=0, atol=0)


@st.composite
def folds(draw: st.DrawFn) -> tuple[Sizes, list[Sizes]]:
    """An image's size, and kernel, dilation, padding and stride of windows on it."""
    size = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    options: list[list[int]] = [[], [], [], []]
    for length in size:
        kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        # At least one window fits.
        needed = max(0, (kernel - 1) * dilation + 1 - length)
        padding = draw(st.integers((needed + 1) // 2, 6))
        drawn = (kernel, dilation, padding, draw(st.integers(1, 4)))
        for both, one in zip(options, drawn, strict=True):
            both.append(one)
    return size, [(first, second) for first, second in options]


def windows_of(x: Tensor, *inputs: Tensor, **arguments: Argument) -> ModuleOp:
    """A program that is `aten.im2col` or `col2im`, giving what is like `x`."""
    types = [VTensorType.get(f32, tuple(t.shape)) for t in (*inputs, x)]
    block = Block([end := ReturnOp()], arg_types=types[:-1])
    build = AtenBuilder(end)
    name = "col2im" if "output_size" in arguments else "im2col"
    given = build.insert(ToBuiltinTensorOp(block.args[0]))
    result = build.call(name, builtin_type(types[-1]), self=given, **arguments)
    Rewriter.replace_op(end, ReturnOp(build.insert(FromBuiltinTensorOp(result))))
    module = ModuleOp([FuncOp("main", (types[:-1], types[-1:]), Region(block))])
    ConvertTorchToTcpPass().apply(make_context(), module)
    module.verify()
    assert not any("col" in op.name for op in module.walk())
    return module


def test_kernels_that_are_too_long():
    arguments: Any = dict(
        kernel_size=[5000, 1], stride=[1, 1], dilation=[1, 1], padding=[5000, 0]
    )

    with pytest.raises(UnsupportedError, match="a kernel of 5000 rows or columns"):
        windows_of(numbers(1, 5000, 1), numbers(1, 1, 1, 1), **arguments)


@settings(max_examples=50, deadline=None)
@given(folds())
def test_any_windows(case: tuple[Sizes, list[Sizes]]):
    size, (kernel, dilation, padding, stride) = case
    options: Any = dict(
        kernel_size=kernel, dilation=dilation, padding=padding, stride=stride
    )
    image = numbers(2, 2, *size)
    columns = F.unfold(image, **options)
    folded = F.fold(columns, size, **options)

    (unfolded,) = run(windows_of(columns, image, **options), image)
    (actual,) = run(windows_of(folded, columns, output_size=size, **options), columns)

    assert torch.equal(unfolded, columns)
    assert torch.equal(actual, folded)


MOVES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "roll": (lambda x: x.roll((1, -9), (0, -1)), (2, 3, 4)),
    "roll one dimension twice": (lambda x: x.roll((1, 1), (2, 2)), (2, 3, 4)),
    "roll all": (lambda x: x.roll(-5), (2, 3, 4)),
    "roll rank 0": (lambda x: x.roll(2), ()),
    "roll rank 5": (lambda x: x.roll(2, 0), (3, 1, 2, 1, 2)),
    "shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 12, 3, 5)),
    "shuffle rank 3": (lambda x: F.pixel_shuffle(x, 3), (18, 2, 1)),
    "shuffle rank 5": (lambda x: F.pixel_shuffle(x, 2), (2, 3, 8, 2, 3)),
    "unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (2, 3, 4, 6)),
    "unshuffle rank 3": (lambda x: F.pixel_unshuffle(x, 3), (2, 3, 6)),
    "unshuffle rank 5": (lambda x: F.pixel_unshuffle(x, 2), (2, 3, 1, 2, 4)),
    "flip": (lambda x: x.flip(0, -1), (2, 3, 4)),
    "flip nothing": (lambda x: x.flip(()), (2, 3)),
    "flipud": (torch.flipud, (3, 2)),
    "fliplr": (torch.fliplr, (3, 2)),
    "narrow": (lambda x: x.narrow(-1, -3, 2), (2, 5)),
    "narrow_copy": (lambda x: torch.narrow_copy(x, -1, -3, 2), (2, 5)),
    "slice": (lambda x: x[:, 1:-1:2], (2, 7)),
    "slices of everything": (lambda x: F.pad(x[:, :], (1, 0))[:, :], (2, 7)),
    "slice_scatter": (
        lambda x: x.slice_scatter(x[:, :4:2].flip(1), 1, 1, 5, 2),
        (2, 6),
    ),
    "windows": (lambda x: x.unfold(1, 3, 2), (2, 9, 4)),
    "windows of rank 0": (lambda x: x.unfold(0, 1, 1), ()),
    "windows of rank 4": (lambda x: x.unfold(-2, 2, 1), (2, 3, 4, 5)),
}


@pytest.mark.parametrize(
    "target, dtypes",
    [
        ("iOS16", (torch.float32, torch.int64, torch.bool)),
        ("iOS17", (torch.int8,)),
    ],
)
def test_moves(target: str, dtypes: tuple[torch.dtype, ...]):
    cases = [(case, dtype) for case in MOVES for dtype in dtypes]
    functions = {
        f"{case}, {dtype}": lambda *xs, i=i, case=case: MOVES[case][0](xs[i])
        for i, (case, dtype) in enumerate(cases)
    }

    check(
        functions,
        *(numbers(*MOVES[case][1], dtype=dtype) for case, dtype in cases),
        target=target,
    )


def test_roll_by_a_computed_shift():
    def by_size(x: Tensor, dims: Any) -> Tensor:
        shifts = (
            (3 - 2 * x.size(0), x.size(0)) if isinstance(dims, tuple) else x.size(0) - 7
        )
        return x.roll(shifts, dims).roll((x.size(0), 1), (0, 1))

    functions = {
        f"{dims}, {i}": lambda *xs, i=i, dims=dims: by_size(xs[i], dims)
        for dims in (0, (0, 1), None)
        for i in (0, 1)
    }
    sizes = {0: Dim("rows", min=2, max=9), 1: Dim("columns", min=2, max=9)}
    program = padc.convert(
        Several(functions),
        (numbers(2, 3, 2), numbers(2, 3, 2, dtype=torch.bool)),
        dynamic_shapes=((sizes, sizes),),
    )

    assert program.check() == []
    for shape in (2, 5, 2), (9, 2, 2), (7, 3, 2):
        xs = numbers(*shape), numbers(*shape, dtype=torch.bool)
        check_each(functions, program.run(*xs), *xs, rtol=0, atol=0)


def test_roll_of_a_dynamic_dimension():
    functions: Functions = {
        "floats": lambda x, y: x.roll(-5, 1),
        "booleans": lambda x, y: y.roll(-5, 1),
    }
    sizes = {1: Dim("size", min=2, max=9)}
    program = padc.convert(
        Several(functions),
        (numbers(2, 3), numbers(2, 3, dtype=torch.bool)),
        dynamic_shapes=((sizes, sizes),),
    )

    for size in 2, 5, 9:
        xs = numbers(2, size), numbers(2, size, dtype=torch.bool)
        check_each(functions, program.run(*xs), *xs, rtol=0, atol=0)


def partition(x: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    x = x.view(batch, height // 4, 4, width // 4, 4, channels)
    return x.permute(0, 1, 3, 2, -2, -1).contiguous().view(-1, 4, 4, channels)


@pytest.mark.parametrize(
    "function, dims",
    [
        (partition, (1, 2)),
        (lambda x: F.pixel_shuffle(x, 2), (2, 3)),
        (lambda x: F.pixel_unshuffle(x, 2), (2, 3)),
        (lambda x: F.unfold(x, (2, 3), padding=1, dilation=(1, 2)), (2, 3)),
        (lambda x: x[:, :, [[[[-2]], [[1]]], [[[3]], [[-1]]]], [[0, -3]]], (0, 1)),
    ],
    ids=["partition", "shuffle", "unshuffle", "unfold", "indices"],
)
def test_more_dimensions_than_core_ml_has(
    function: Callable[[Tensor], Tensor], dims: tuple[int, int]
):
    def six_at_most(x: Tensor) -> Tensor:
        y = function(x)
        if y.dim() == 6:  # It orders and joins them again.
            y = y.permute(0, 1, 2, 4, 3, 5).reshape(*y.shape[:2], -1)
        return y

    halves = [Dim(name, min=1, max=6) for name in ("first", "second")]
    shapes = {dim: 4 * half for dim, half in zip(dims, halves, strict=True)}
    exported = torch.export.export(
        Function(six_at_most), (numbers(8, 8, 8, 12),), dynamic_shapes=((shapes,),)
    ).run_decompositions()
    program, reference = padc.convert(exported), compile_for_oracle(exported)

    for sizes in (8, 8), (12, 16), (24, 20):
        shape = [8, 8, 8, 12]
        for dim, size in zip(dims, sizes, strict=True):
            shape[dim] = size
        x = numbers(*shape)
        expected = six_at_most(x)
        assert torch.equal(reference(x)[0], expected)
        assert torch.equal(program.run(x)[0], expected)
    assert program.check() == []
