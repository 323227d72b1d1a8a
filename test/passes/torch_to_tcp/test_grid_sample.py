"""Grid sampling: torch -> tcp -> reference, decomposed, and as a Core ML package."""

import copy
import itertools
import math
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import padc
from padc.backends.reference import run
from padc.errors import UnsupportedError, UsageError
from padc.frontends.torch_export import export_module, import_exported_program
from padc.ir import make_context
from padc.ir.weights import weights_of
from padc.passes.tcp_to_mil.decompose_grid_sample import DecomposeGridSamplePass
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
KINDS = [
    (rank, mode, padding, aligned)
    for rank, mode, padding, aligned in itertools.product(
        (2, 3), MODES, PADDINGS, (True, False)
    )
    if rank == 2 or mode != "bicubic"
]
# The pairs that differ in `aligned` only have a slow one each, in turn the first and
# the second.
HALF = [
    pytest.param(*kind, marks=[pytest.mark.slow] if (i + i // 2) % 2 else [])
    for i, kind in enumerate(KINDS)
]
EXAMPLES = int(os.environ.get("PADC_EXAMPLES", "40"))
"""How many cases Hypothesis draws; `make conformance` asks for 2000."""


class Sampler(nn.Module):
    def __init__(self, mode: str, padding: str, align_corners: bool):
        super().__init__()
        self.options: dict[str, Any] = {
            "mode": mode,
            "padding_mode": padding,
            "align_corners": align_corners,
        }

    def forward(self, x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, **self.options)


def inputs(rank: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Two images or volumes of three channels, and points from -3 to 3."""
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(2, 3, *(5, 6, 4)[:rank], generator=generator)
    grid = torch.rand(2, *(4, 3, 2)[:rank], rank, generator=generator) * 6 - 3
    return x.to(dtype), grid.to(dtype)


def interpreters(
    exported: ExportedProgram,
) -> list[Callable[..., tuple[Tensor, ...]]]:
    """The model in the reference: as `tcp.grid_sample`, and decomposed."""
    ctx = make_context()
    weights = weights_of(ctx)
    module = import_exported_program(exported, weights)
    ConvertTorchToTcpPass().apply(ctx, module)
    assert "tcp.grid_sample" in {op.name for op in module.walk()}
    decomposed = module.clone()
    DecomposeGridSamplePass("decompose").apply(ctx, decomposed)
    decomposed.verify()
    assert "tcp.grid_sample" not in {op.name for op in decomposed.walk()}
    return [partial(run, it, weights=weights) for it in (module, decomposed)]


def interpreted(model: nn.Module, x: tuple[Tensor, ...]) -> list[Tensor]:
    """What the interpreters make of these inputs."""
    return [compiled(*x)[0] for compiled in interpreters(export_module(model, x))]


@cache
def exported_kind(
    rank: int, mode: str, padding: str, aligned: bool
) -> tuple[Sampler, ExportedProgram]:
    """A sampler of `inputs(rank)`, and its export."""
    model = Sampler(mode, padding, aligned)
    return model, export_module(model, inputs(rank))


@cache
def interpreters_of_kind(
    rank: int, mode: str, padding: str, aligned: bool
) -> tuple[Sampler, list[Callable[..., tuple[Tensor, ...]]]]:
    model, exported = exported_kind(rank, mode, padding, aligned)
    return model, interpreters(exported)


@pytest.mark.parametrize("rank, mode, padding, aligned", HALF)
def test_each_kind_agrees_with_pytorch(
    rank: int, mode: str, padding: str, aligned: bool, tmp_path: Path
):
    model, exported = exported_kind(rank, mode, padding, aligned)
    _, compiled = interpreters_of_kind(rank, mode, padding, aligned)
    x = inputs(rank)
    expected = model(*x)

    for run_it in compiled:
        torch.testing.assert_close(run_it(*x)[0], expected, atol=1e-5, rtol=0)
    for policy in ("auto", "decompose"):
        program = padc.convert(exported, grid_sample_policy=policy)
        assert program.check() == []
        (actual,) = program.run(*x)
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)
        # coremltools makes 81 ops of bilinear and 325 of bicubic, by PyTorch's own
        # decomposition.
        assert program.operation_count < 60


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rank, mode, padding, aligned", KINDS[::5])
def test_dtypes_in_the_reference(
    rank: int, mode: str, padding: str, aligned: bool, dtype: torch.dtype
):
    model, x = Sampler(mode, padding, aligned), inputs(rank, dtype)
    # Of the same points in float64: PyTorch computes coordinates in float16.
    expected = model(*(tensor.double() for tensor in x))

    for actual in interpreted(model, x):
        assert actual.dtype == dtype
        torch.testing.assert_close(actual, expected.to(dtype))


def test_points_halfway_are_of_the_even_pixel():
    x = torch.arange(8.0).reshape(1, 1, 1, 8)
    at = torch.arange(7) + 0.5
    grid = torch.stack([(2 * at + 1) / 8 - 1, torch.zeros(7)], -1)[None, None]
    model = Sampler("nearest", "border", False)

    results = interpreted(model, (x, grid)) + list(
        padc.convert(model, (x, grid)).run(x, grid)
    )

    for actual in results:
        assert actual.flatten().tolist() == [0, 2, 2, 4, 4, 6, 6]


@st.composite
def quarter_grids(draw: st.DrawFn) -> tuple[Sampler, Tensor, Tensor]:
    """Points on quarters of pixels: ties, borders and where reflections meet."""
    rank = draw(st.sampled_from([2, 2, 3]))
    sizes = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    shape = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    mode = draw(st.sampled_from(MODES[: 3 if rank == 2 else 2]))
    padding, aligned = draw(st.sampled_from(PADDINGS)), draw(st.booleans())
    count = rank * math.prod(shape)
    quarters = draw(st.lists(st.integers(-20, 24), min_size=count, max_size=count))
    at = torch.tensor(quarters, dtype=torch.float64).reshape(1, *shape, rank) / 4
    extents = torch.tensor(sizes[::-1], dtype=torch.float64)
    if aligned:
        grid = 2 * at / (extents - 1).clamp(min=1) - 1
    else:
        grid = (2 * at + 1) / extents - 1
    generator = torch.Generator().manual_seed(len(quarters))
    x = torch.randn(1, 2, *sizes, generator=generator)
    return Sampler(mode, padding, aligned), x, grid.float()


@settings(max_examples=EXAMPLES, deadline=None)
@given(quarter_grids())
def test_quarters_of_pixels(case: tuple[Sampler, Tensor, Tensor]):
    model, *x = case
    expected = model(*x)
    nearest = model.options["mode"] == "nearest"

    for actual in interpreted(model, (x[0], x[1])):
        tolerance = 0 if nearest else 1e-5
        torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("rank, mode, padding, aligned", KINDS)
def test_nothing_around_the_input_is_read(
    rank: int, mode: str, padding: str, aligned: bool
):
    x, grid = inputs(rank)
    around = torch.full((2, 3, *(size + 6 for size in x.shape[2:])), math.nan)
    inner = around[(..., *[slice(3, -3)] * rank)]
    inner.copy_(x)
    model, compiled = interpreters_of_kind(rank, mode, padding, aligned)

    for run_it in compiled:
        (actual,) = run_it(inner, grid)
        torch.testing.assert_close(actual, model(x, grid), atol=1e-5, rtol=0)


FAR = torch.tensor([1e4, -1e30, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize("rank, mode, padding, aligned", KINDS)
def test_no_gather_is_out_of_range(rank: int, mode: str, padding: str, aligned: bool):
    x, grid = inputs(rank)
    generator = torch.Generator().manual_seed(0)
    far = FAR[torch.randint(len(FAR), grid.shape, generator=generator)]
    is_far = torch.rand(grid.shape, generator=generator) < 0.3
    model, (_, run_decomposed) = interpreters_of_kind(rank, mode, padding, aligned)

    # PyTorch's index_select refuses an index out of range, and so does the evaluator.
    (decomposed,) = run_decomposed(x, torch.where(is_far, far, grid))

    near = ~is_far.any(-1)[:, None].expand_as(decomposed)
    expected = model(x, grid)
    torch.testing.assert_close(decomposed[near], expected[near], atol=1e-5, rtol=0)
    if mode == "nearest":
        assert decomposed.isfinite().all()


@pytest.mark.parametrize("rank, mode, padding, aligned", KINDS[::4])
def test_no_gather_of_a_package_is_out_of_range(
    rank: int, mode: str, padding: str, aligned: bool
):
    x, grid = inputs(rank)
    _, exported = exported_kind(rank, mode, padding, aligned)
    program = padc.convert(exported, grid_sample_policy="decompose")

    for far in FAR:
        (actual,) = program.run(x, torch.full_like(grid, far.item()))
        if mode == "nearest":
            assert actual.isfinite().all()


@pytest.mark.parametrize("rank, mode, padding, aligned", KINDS)
def test_nan_and_infinities_are_those_of_images(
    rank: int, mode: str, padding: str, aligned: bool
):
    """In a volume too, whose points here are in its middle image."""
    volume, _ = inputs(3)
    volume = volume[:, :, :5]
    image, model = volume[:, :, 2], Sampler(mode, padding, aligned)
    far = torch.tensor([math.nan, math.inf, -math.inf, 0.3])
    grid = torch.cartesian_prod(far, far).expand(2, 1, -1, -1)
    expected = model(image, grid)
    x = image, grid
    if rank == 3:
        x = volume, F.pad(grid, (0, 1))[:, None]
    exported = export_module(model, x)

    for run_it in interpreters(exported)[0], padc.compile(exported):
        results = run_it(*x)
        actual = results if isinstance(results, Tensor) else results[0]
        torch.testing.assert_close(
            actual.view_as(expected), expected, equal_nan=True, atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("mode", MODES)
def test_coordinates_are_not_of_half_precision(mode: str):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1, 1, 300, 300, generator=generator).half().float()
    grid = torch.rand(1, 20, 20, 2, generator=generator).half().float() * 2 - 1
    model = Sampler(mode, "border", False)

    for policy in ("auto", "decompose"):
        program = padc.convert(
            model, (x, grid), precision="float16", grid_sample_policy=policy
        )
        (actual,) = program.run(x, grid)
        torch.testing.assert_close(actual, model(x, grid), atol=2e-3, rtol=0)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(
    "mode, padding", [("bilinear", "reflection"), ("bicubic", "border")]
)
def test_steep_images_show_no_rounding(mode: str, padding: str, aligned: bool):
    # An error of one unit in the last place of a coordinate, or of a weight, is more.
    x = torch.arange(2 * 345 * 456).reshape(1, 2, 345, 456).to(torch.uint8).float()
    theta = torch.tensor([[[0.575, 0.707, 0.0], [-0.707, 0.528, 0.0]]])
    grid = F.affine_grid(theta, list(x.shape), align_corners=aligned)
    model = Sampler(mode, padding, aligned)

    (actual,) = padc.convert(model, (x, grid)).run(x, grid)

    torch.testing.assert_close(actual, model(x, grid), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_far_points_are_of_the_border(mode: str, aligned: bool):
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    grid = torch.tensor([[[[3e38, -3e38], [-3e38, math.inf], [-math.inf, 1e30]]]])
    model = Sampler(mode, "border", aligned)
    results = interpreted(model, (x, grid))

    for policy in ("decompose", "native"):
        program = padc.convert(model, (x, grid), grid_sample_policy=policy)
        results += program.run(x, grid)

    for actual in results:
        assert actual.flatten().tolist() == [3, 8, 8]


def test_infinities_outside_do_not_leak():
    x = torch.full((1, 1, 2, 2), math.inf)
    grid = torch.full((1, 1, 1, 2), 9.0)
    model = Sampler("bilinear", "zeros", False)

    for actual in interpreted(model, (x, grid)):
        assert actual.item() == 0


@pytest.mark.parametrize(
    "mode, padding", [("bilinear", "zeros"), ("bicubic", "border")]
)
def test_the_number_of_points_may_be_dynamic(mode: str, padding: str):
    model, x = Sampler(mode, padding, False), inputs(2)
    dynamic = (None, {1: Dim("height", min=2, max=9), 2: Dim("width", min=2, max=9)})
    program = padc.convert(
        model, x, dynamic_shapes=dynamic, grid_sample_policy="decompose"
    )

    for shape in [(4, 3), (7, 2)]:
        grid = torch.rand(2, *shape, 2) * 4 - 2
        (actual,) = program.run(x[0], grid)
        torch.testing.assert_close(actual, model(x[0], grid), atol=1e-5, rtol=0)


@cache
def exported_of_dynamic_sizes(rank: int) -> ExportedProgram:
    batch, channels = Dim("batch", min=2, max=9), Dim("channels", min=2, max=9)
    sizes = [Dim(f"size{i}", min=2, max=9) for i in range(2 * rank)]
    dynamic = (
        {**dict(enumerate((batch, channels, *sizes[:rank])))},
        {**dict(enumerate((batch, *sizes[rank:])))},
    )
    model = Sampler(MODES[0], PADDINGS[0], False)
    return export_module(model, inputs(rank), dynamic_shapes=dynamic)


def with_options(
    exported: ExportedProgram, mode: str, padding: str, aligned: bool
) -> ExportedProgram:
    """The same with other options, which are constants of one call in its graph."""
    exported = copy.deepcopy(exported)
    (call,) = (n for n in exported.graph.nodes if "grid_sampler" in str(n.target))
    x, grid, *_ = call.args
    call.args = (x, grid, MODES.index(mode), PADDINGS.index(padding), aligned)
    return exported


# Each is exported by itself in `test_each_kind_agrees_with_pytorch`, of fixed sizes:
# where sizes are dynamic, PyTorch takes up to four seconds for one.
@pytest.mark.parametrize("rank, mode, padding, aligned", HALF)
def test_all_sizes_may_be_dynamic(rank: int, mode: str, padding: str, aligned: bool):
    model = Sampler(mode, padding, aligned)
    template = exported_of_dynamic_sizes(rank)
    exported = with_options(template, mode, padding, aligned)
    program = padc.convert(exported, grid_sample_policy="decompose")

    assert program.check() == []
    for compiled in [*interpreters(exported), program.run]:
        for shape, points in [
            ((2, 3, 5, 6, 4), (4, 3, 2)),
            ((3, 2, 4, 2, 7), (2, 6, 9)),
        ]:
            image = torch.randn(shape[: rank + 2])
            grid = torch.rand(shape[0], *points[:rank], rank) * 6 - 3
            (actual,) = compiled(image, grid)
            expected = model(image, grid)
            torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "dynamic", [{0: Dim("batch", min=2, max=9)}, {2: Dim("height", min=2, max=9)}]
)
def test_some_sizes_may_be_dynamic(dynamic: dict[int, Any]):
    model, x = Sampler("nearest", "zeros", False), inputs(2)
    of_grid = {dim: size for dim, size in dynamic.items() if dim == 0}
    exported = export_module(model, x, dynamic_shapes=(dynamic, of_grid))

    for compiled in [*interpreters(exported), padc.convert(exported).run]:
        (actual,) = compiled(*x)
        torch.testing.assert_close(actual, model(*x))


def test_a_single_pixel_of_a_dynamic_size_is_reflected():
    model, x = Sampler("nearest", "reflection", True), inputs(2)
    sizes = {2: Dim("height", min=1, max=9), 3: Dim("width", min=1, max=9)}
    image = torch.randn(2, 3, 1, 1)

    exported = export_module(model, x, dynamic_shapes=(sizes, None))
    for compiled in interpreters(exported):
        (actual,) = compiled(image, x[1])
        torch.testing.assert_close(actual, model(image, x[1]))


def test_policies():
    x = inputs(2)
    nearest = Sampler("nearest", "zeros", True)

    native = padc.convert(nearest, x, grid_sample_policy="native")

    assert native.operation_count == 1
    with pytest.raises(UnsupportedError, match="images only"):
        padc.convert(Sampler("bicubic", "zeros", True), x, grid_sample_policy="native")
    unknown: Any = "never"
    with pytest.raises(UsageError, match="there is no grid sample policy 'never'"):
        padc.convert(nearest, x, grid_sample_policy=unknown)


class Affine(nn.Module):
    def __init__(self, size: tuple[int, ...], align_corners: bool):
        super().__init__()
        self.size, self.align_corners = size, align_corners

    def forward(self, theta: Tensor) -> Tensor:
        return F.affine_grid(theta, list(self.size), self.align_corners)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("size", [(2, 1, 4, 5), (1, 3, 1, 2), (2, 1, 3, 1, 4)])
def test_affine_grids(size: tuple[int, ...], aligned: bool):
    rank = len(size) - 2
    theta = torch.randn(size[0], rank, rank + 1)
    model = Affine(size, aligned)

    program = padc.convert(model, (theta,))

    assert program.check() == []
    (actual,) = program.run(theta)
    torch.testing.assert_close(actual, model(theta))


class FromConstants(nn.Module):
    """Warps by a grid that no input changes."""

    def __init__(self, make_grid: Callable[[], Tensor], mode: str):
        super().__init__()
        self.make_grid, self.mode = make_grid, mode

    def forward(self, x: Tensor) -> Tensor:
        return F.grid_sample(x, self.make_grid(), mode=self.mode, align_corners=False)


def rotated() -> Tensor:
    theta = torch.tensor([[[0.8, -0.6, 0.1], [0.6, 0.8, 0.0]]])
    return F.affine_grid(theta, [1, 2, 5, 6], align_corners=False)


def shifted() -> Tensor:
    rows, columns = torch.meshgrid(torch.arange(5), torch.arange(6), indexing="ij")
    points = torch.stack([columns + 0.25, rows - 0.75], -1)[None]
    return (2 * points + 1) / torch.tensor([6.0, 5.0]) - 1


@pytest.mark.parametrize("make_grid", [rotated, shifted])
@pytest.mark.parametrize("mode, most", [("bilinear", 1), ("bicubic", 8)])
def test_constant_grids_are_folded(
    make_grid: Callable[[], Tensor], mode: str, most: int
):
    model, x = FromConstants(make_grid, mode), torch.randn(1, 2, 5, 6)

    program = padc.convert(model, (x,))

    assert program.operation_count <= most
    (actual,) = program.run(x)
    torch.testing.assert_close(actual, model(x), atol=1e-5, rtol=0)


def test_an_image_of_dynamic_size_has_many_pixels_in_half_precision():
    x = torch.rand(1, 1, 300, 300).half().float()
    grid = torch.rand(1, 20, 20, 2) * 2 - 1
    model = Sampler("nearest", "zeros", False)
    sizes = {2: Dim("height", min=2, max=400), 3: Dim("width", min=2, max=400)}
    program = padc.convert(
        model, (x, grid), precision="float16", dynamic_shapes=(sizes, None)
    )

    (actual,) = program.run(x, grid)

    torch.testing.assert_close(actual, model(x, grid))
