# pyright: basic, reportMissingTypeStubs=false
"""`tcp` programs in upstream's ops, run by upstream, against the reference."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tcp_programs import ELEMENT_TYPES, MAKERS, UI8, Draw, tolerance
from torch import Tensor
from upstream import canonicalized, compiled, run_upstream
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ModuleOp,
    TensorType,
    f32,
    i64,
)
from xdsl.dialects.linalg.ops import Conv2DNchwFchwOp
from xdsl.ir import Attribute, Operation, SSAValue

from padc.backends.reference import run
from padc.ir import make_context, tcp
from padc.ir.tcp import (
    ConvDimsAttr,
    Coordinates,
    GridPadding,
    ResampleMode,
    tensor_type,
)
from padc.passes.to_linalg.build.grid_rows import MOST_COPIES
from padc.passes.to_linalg.convert_tcp_to_linalg import ConvertTcpToLinalgPass

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "7"))
"""How many programs of each kind are made."""


def lowered(module: ModuleOp) -> ModuleOp:
    module = module.clone()
    ConvertTcpToLinalgPass().apply(make_context(), module)
    module.verify()
    assert not any(op.name.startswith("tcp.") for op in module.walk())
    return module


@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.parametrize("kind", range(len(MAKERS)))
def test_upstream_computes_what_the_reference_does(kind: int, seed: int):
    make = MAKERS[kind]
    draw = Draw(random.Random(1000 * kind + seed))
    module = make(draw)
    (expected,) = run(module, *draw.inputs)

    rewrite = canonicalized if seed % 2 else str
    (actual,) = run_upstream(lowered(module), *draw.inputs, rewrite=rewrite)

    assert actual.dtype == expected.dtype
    x = draw.inputs[0]
    assert isinstance(x, Tensor)
    largest = max([0.0, *x.double().nan_to_num(0, 0, 0).abs().flatten().tolist()])
    torch.testing.assert_close(
        actual,
        expected,
        rtol=0,
        atol=tolerance(make, actual.dtype) * largest,
        equal_nan=True,
    )


# What a program of chance seldom meets.


def check(
    types: Sequence[Attribute],
    make: Callable[[Sequence[SSAValue]], Operation],
    *inputs: Tensor,
    atol: float = 0.0,
) -> ModuleOp:
    """Check that upstream computes what the reference does; the lowered program."""
    draw = Draw(random.Random(0), list(inputs), list(types))
    module = draw.program(make)
    (expected,) = run(module, *inputs)
    linalg = lowered(module)

    for rewrite in (str, canonicalized):
        (actual,) = run_upstream(linalg, *inputs, rewrite=rewrite)
        torch.testing.assert_close(actual, expected, rtol=0, atol=atol, equal_nan=True)
    return linalg


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", list(GridPadding))
@pytest.mark.parametrize(
    "mode", [ResampleMode.NEAREST, ResampleMode.LINEAR, ResampleMode.CUBIC]
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_points_far_out_and_none(
    mode: ResampleMode, padding: GridPadding, aligned: bool, dynamic: bool
):
    far = [math.nan, math.inf, -math.inf, -0.3, 1.0, 2.5, -1e4]
    if padding is not GridPadding.REFLECTION:
        # What a reflection of these shows is not specified.
        far += [1e9, -1e30, 3e38, -3e38]
    values = torch.tensor(far)
    grid = torch.cartesian_prod(values, values).reshape(1, len(far), len(far), 2)
    # An infinity at each corner would show where it was multiplied by 0.
    x = torch.randn(1, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    x[..., ::2, ::3] = math.inf
    shape = [DYNAMIC_INDEX] * 4
    types = [
        TensorType(f32, shape if dynamic else x.shape),
        TensorType(f32, shape if dynamic else grid.shape),
    ]
    result = TensorType(f32, shape if dynamic else [1, 1, len(far), len(far)])

    check(
        types,
        lambda args: tcp.GridSampleOp(args[0], args[1], mode, padding, aligned, result),
        x,
        grid,
        atol=1e-5,
    )


def test_grid_sample_of_five_dimensions():
    x = torch.randn(2, 2, *[3] * 5, generator=torch.Generator().manual_seed(0))
    grid = (
        torch.rand(2, *[2] * 5, 5, generator=torch.Generator().manual_seed(1)) * 3 - 1.5
    )
    types = [TensorType(f32, x.shape), TensorType(f32, grid.shape)]
    result = TensorType(f32, [2, 2, *[2] * 5])

    check(
        types,
        lambda args: tcp.GridSampleOp(
            args[0], args[1], ResampleMode.LINEAR, GridPadding.REFLECTION, False, result
        ),
        x,
        grid,
        atol=1e-5,
    )


@pytest.mark.parametrize("mode", [ResampleMode.NEAREST, ResampleMode.LINEAR])
@pytest.mark.parametrize("channels", [2**30, 2**30 + 1])
def test_there_are_few_copies_of_many_channels(mode: ResampleMode, channels: int):
    types = [TensorType(f32, shape) for shape in ([1, channels, 9, 9], [1, 4, 4, 2])]
    result = TensorType(f32, [1, channels, 4, 4])

    program = Draw(random.Random(0), [], [*types]).program(
        lambda args: tcp.GridSampleOp(
            args[0], args[1], mode, GridPadding.ZEROS, False, result
        )
    )

    ops = [op.name for op in lowered(program).walk()]
    assert ops.count("tensor.insert_slice") <= MOST_COPIES


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_images_are_convolved_by_the_named_op(dtype: torch.dtype):
    draw = Draw(random.Random(0))
    x, w = draw.numbers([1, 3, 7, 8], dtype), draw.numbers([4, 3, 3, 3], dtype)
    dims = ConvDimsAttr.channels_first(2)
    element_type = ELEMENT_TYPES[dtype]
    types = [TensorType(element_type, x.shape), TensorType(element_type, w.shape)]
    result = TensorType(element_type, [1, 4, 3, 3])

    linalg = check(
        types,
        lambda args: tcp.ConvOp(
            args[0], args[1], None, [2, 2], [1, 1], 1, dims, result
        ),
        x,
        w,
    )

    (conv,) = (op for op in linalg.walk() if isinstance(op, Conv2DNchwFchwOp))
    # Halves would be added up as halves.
    assert tensor_type(conv.results[0]).element_type == f32


def test_sums_of_bytes_have_no_sign():
    x = torch.full([4, 4], 255, dtype=torch.uint8)

    check(
        [TensorType(UI8, [4, 4])],
        lambda args: tcp.AvgPoolOp(
            args[0], [2, 2], [1, 1], [1, 1], [0, 1], TensorType(UI8, [3, 3])
        ),
        x,
    )


NETWORK = """
func.func @main(%x: tensor<?x3x?x?xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>, %size: index) -> tensor<?x4x?x?xf32> {
  %p = tcp.reflection_pad %x lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<?x3x?x?xf32> -> tensor<?x3x?x?xf32>
  %c = tcp.conv %p, %w, %b strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<?x3x?x?xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<?x4x?x?xf32>
  %m = tcp.max_pool %c kernel [2, 2] strides [2, 2] dilations [1, 1] dims [2, 3] : tensor<?x4x?x?xf32> -> tensor<?x4x?x?xf32>
  %r = tcp.resample %m size [%size, %size] dims [2, 3] mode linear coordinates half_pixel : tensor<?x4x?x?xf32> -> tensor<?x4x?x?xf32>
  return %r : tensor<?x4x?x?xf32>
}
"""


def test_sizes_change_from_call_to_call(parse: Callable[[str], ModuleOp]):
    module = parse(NETWORK)
    function = compiled(lowered(module), canonicalized)
    draw = Draw(random.Random(0))
    w, b = draw.numbers([4, 3, 3, 3], torch.float32), draw.numbers([4], torch.float32)

    for *shape, size in ([1, 3, 5, 8, 4], [2, 3, 4, 4, 9], [0, 3, 6, 2, 1]):
        x = draw.numbers(shape, torch.float32)
        (expected,) = run(module, x, w, b, size)
        (actual,) = function(x, w, b, size)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [tcp.MaxPoolOp, tcp.AvgPoolOp, tcp.ArgMaxPoolOp])
def test_pools_of_no_dimensions(kind: Any):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    type = TensorType(f32, [3, DYNAMIC_INDEX])
    element_type = i64 if kind is tcp.ArgMaxPoolOp else f32
    result = TensorType(element_type, [3, DYNAMIC_INDEX])

    check([type], lambda args: kind(args[0], [], [], [], [], result), x)


@pytest.mark.parametrize(
    "mode, dtype",
    [
        (ResampleMode.NEAREST, torch.bool),
        (ResampleMode.NEAREST, torch.uint8),
        (ResampleMode.LINEAR, torch.uint8),
        (ResampleMode.LINEAR, torch.int32),
        (ResampleMode.CUBIC, torch.uint8),
        (ResampleMode.CUBIC, torch.int32),
    ],
)
def test_integers_are_resampled_and_truncated(mode: ResampleMode, dtype: torch.dtype):
    x = torch.arange(21).mul(5).reshape(3, 7).to(dtype)
    type = TensorType(ELEMENT_TYPES[dtype], [3, 7])
    result = TensorType(ELEMENT_TYPES[dtype], [5, 9])

    check(
        [type],
        lambda args: tcp.ResampleOp(
            args[0], [5, 9], [0, 1], mode, Coordinates.HALF_PIXEL, None, result
        ),
        x,
    )
