# pyright: basic, reportMissingTypeStubs=false
"""Interpolation end to end, by the reference and as Core ML packages."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import Function, Functions, Several, check_each, needs_export
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.export import Dim

from padc import convert
from padc.errors import UnsupportedError
from padc.ir import resampling
from padc.ir.tcp import Coordinates, ResampleMode, Sampling
from padc.passes.aten.builder import LARGEST_SIZE
from padc.passes.tcp_to_mil.tabulate_scaled_sizes import ratio_of
from padc.testing import compile_for_coreml, compile_for_native, compile_for_oracle

BACKENDS = {"reference": compile_for_oracle, "coreml": compile_for_coreml}
INF = float("inf")
ALL = BACKENDS | {"native": compile_for_native}


def exported(function: Callable[..., Any], x: Tensor, dynamic: Any = None):
    return torch.export.export(
        Function(function), (x,), dynamic_shapes=dynamic, strict=False
    )


def check(functions: Callable[..., Any] | Functions, x: Tensor) -> None:
    """All functions, exported together, give PyTorch's results in both backends."""
    named = functions if isinstance(functions, Mapping) else {"": functions}
    program = torch.export.export(Several(named), (x,), strict=False)
    for backend, compile in BACKENDS.items():
        results = compile(program)(x)
        check_each(
            named, results, x, note=backend, rtol=1e-5, atol=1e-5, equal_nan=True
        )


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


ANTIALIASED = {
    "bilinear": {"mode": "bilinear"},
    "bilinear_corners": {"mode": "bilinear", "align_corners": True},
    "bicubic": {"mode": "bicubic"},
    "bicubic_corners": {"mode": "bicubic", "align_corners": True},
}
needs_lanczos = pytest.mark.skipif(
    not hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"),
    reason=f"PyTorch {torch.__version__} does not have lanczos",
)


def several_sizes(options: Mapping[str, Any]) -> Callable[[Tensor], list[Tensor]]:
    return lambda x: [
        F.interpolate(x, size=size, **options, antialias=True)
        for size in ((5, 6), (1, 30), (23, 2))
    ]


def test_antialias():
    check(
        {name: several_sizes(options) for name, options in ANTIALIASED.items()},
        numbers(1, 2, 11, 13),
    )


@needs_lanczos
def test_antialias_by_lanczos():
    check(several_sizes({"mode": "lanczos"}), numbers(1, 2, 11, 13))


def interpolations(modes: Sequence[str], **options: Any) -> Functions:
    return {
        mode: lambda x, mode=mode: F.interpolate(x, mode=mode, **options)
        for mode in modes
    }


def test_antialias_by_scales():
    check(
        interpolations(
            ["bilinear", "bicubic"], scale_factor=(0.37, 1.7), antialias=True
        ),
        numbers(1, 2, 11, 13),
    )


def test_an_infinity_stays_where_it_has_a_weight():
    x = numbers(1, 1, 11, 13)
    x[0, 0, 5, 6] = torch.inf

    check(
        lambda x: F.interpolate(x, size=(5, 4), mode="bilinear", antialias=True),
        x,
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_rows_of_one_antialiased_column_differ(mode: str):
    def function(x: Tensor) -> Tensor:
        return F.interpolate(x, size=(2, 1), mode=mode, antialias=True)

    x = numbers(1, 3, 5, 4)
    # Where channels are not last, PyTorch repeats the first row: see the README.
    expected = function(x.to(memory_format=torch.channels_last))
    assert not torch.equal(function(x), expected)

    program = exported(function, x)

    for compile in BACKENDS.values():
        torch.testing.assert_close(compile(program)(x)[0], expected)


def rounds_once() -> bool:
    """
    Whether PyTorch rounds a product and a sum at once where it computes coordinates.

    Its compiler decides, so builds differ: 2.13 for the CPU does, 2.8 and 2.15 with
    CUDA do not.
    """
    step = np.float32(345 / 270)
    once = np.float32(np.float64(step) * 200.5 - 0.5)
    twice = step * np.float32(200.5) - np.float32(0.5)
    x = torch.zeros(1, 1, 2, 345)
    x[..., 256] = 1
    y = F.interpolate(x, size=(2, 270), mode="bilinear")
    coordinate = np.float32(255 + y[0, 0, 0, 200].item())
    assert once != twice and coordinate in (once, twice)
    return bool(coordinate == once)


@pytest.mark.parametrize("height", [345, 456])
def test_coordinates_round_as_in_pytorch(height: int):
    """Sizes for which float64 coordinates are off by 4e-4."""
    if height == 345 and not rounds_once():
        pytest.skip(f"PyTorch {torch.__version__} rounds a coordinate of 345 twice")
    check(
        {
            f"align_corners={aligned}": lambda x, aligned=aligned: F.interpolate(
                x, size=(270, 270), mode="bilinear", align_corners=aligned
            )
            for aligned in (False, True)
        },
        numbers(1, 1, height, 456),
    )


def test_area():
    check(
        {
            str(size): lambda x, size=size: F.interpolate(x, size=size, mode="area")
            for size in ((2, 3, 4), (9, 11, 7))
        },
        numbers(1, 2, 5, 6, 7),
    )


def test_half_precision_is_rounded_once():
    functions = interpolations(["bicubic", "area"], size=(3, 5))
    x = numbers(1, 2, 7, 8).half()

    program = torch.export.export(Several(functions), (x,))

    for compile in BACKENDS.values():
        for actual, function in zip(
            compile(program)(x), functions.values(), strict=True
        ):
            expected = function(x.double())
            assert (actual - expected).abs().max() <= 2**-11 * expected.abs().max()


def test_to_a_size_from_a_dynamic_one():
    function = lambda x: F.interpolate(x, size=(7, 9), mode="bilinear")  # noqa: E731
    sizes = {2: Dim("h", min=2, max=40), 3: Dim("w", min=2, max=40)}
    xs = numbers(1, 2, 5, 6), numbers(1, 2, 17, 4)
    program = exported(function, xs[0], ((sizes,),))

    for compile in BACKENDS.values():
        compiled = compile(program)
        for x in xs:
            torch.testing.assert_close(compiled(x)[0], function(x))


DYNAMIC: dict[str, Functions] = {
    "nearest": {
        "": lambda x, y: F.interpolate(x, y.shape[-2:]),
        "exact": lambda x, y: F.interpolate(x, y.shape[-2:], mode="nearest-exact"),
        "of integers": lambda x, y: F.interpolate(
            (x * 9).to(torch.uint8), (9, 7)
        ).float(),
        "to fixed ones": lambda x, y: F.interpolate(x, (9, 7)),
        "by smaller scales": lambda x, y: F.interpolate(x, scale_factor=(0.6, 1.5)),
    },
    "linear": {
        "": lambda x, y: F.interpolate(x, y.shape[-2:], mode="bilinear"),
        "corners": lambda x, y: F.interpolate(
            x, y.shape[-2:], mode="bilinear", align_corners=True
        ),
        "of float16": lambda x, y: F.interpolate(
            x.half(), y.shape[-2:], mode="bilinear"
        ),
        "by scales": lambda x, y: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    },
    "cubic": {
        "": lambda x, y: F.interpolate(x, y.shape[-2:], mode="bicubic"),
        "corners": lambda x, y: F.interpolate(
            x, y.shape[-2:], mode="bicubic", align_corners=True
        ),
        "of one": lambda x, y: F.interpolate(x, (7, y.shape[3] + 1), mode="bicubic"),
        "by a whole scale": lambda x, y: F.interpolate(
            x, scale_factor=3, mode="bicubic"
        ),
    },
    "area": {
        "": lambda x, y: F.interpolate(x, y.shape[-2:], mode="area"),
        "to fixed ones": lambda x, y: F.interpolate(x, (7, 1), mode="area"),
    },
    "antialiased": {
        "": lambda x, y: F.interpolate(
            x, y.shape[-2:], mode="bilinear", antialias=True
        ),
        "corners": lambda x, y: F.interpolate(
            x, y.shape[-2:], mode="bicubic", antialias=True, align_corners=True
        ),
        "one": lambda x, y: F.interpolate(
            x, (1, 3), mode="bicubic", antialias=True, align_corners=True
        ),
        "by scales": lambda x, y: F.interpolate(
            x, scale_factor=(0.6, 1.7), mode="bicubic", antialias=True
        ),
    },
    "lanczos": {
        "": lambda x, y: torch.ops.aten._upsample_lanczos2d_aa(x, y.shape[-2:], False)
    },
}
MARKS = {
    "lanczos": needs_lanczos,
    "linear": pytest.mark.slow,
    "cubic": pytest.mark.slow,
}
KINDS = [
    pytest.param(kind, marks=MARKS[kind]) if kind in MARKS else kind for kind in DYNAMIC
]


@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_sizes(kind: str):
    functions = DYNAMIC[kind]
    sizes = [{i: Dim(f"{x}{i}", min=4, max=99) for i in (2, 3)} for x in "xy"]
    samples = [
        (numbers(1, 2, *shape[:2]).abs(), numbers(1, 1, *shape[2:]))
        for shape in ((7, 9, 11, 5), (41, 33, 20, 82), (5, 4, 4, 60), (49, 45, 9, 7))
    ]
    needs_export(Several(functions), samples[0], (tuple(sizes),))

    ep = torch.export.export(
        Several(functions), samples[0], dynamic_shapes=(tuple(sizes),)
    )

    for backend, compile in BACKENDS.items():
        compiled = compile(ep)
        for x, y in samples:
            check_each(functions, compiled(x, y), x, y, note=backend)


def test_dynamic_sizes_of_other_ranks():
    functions: Functions = {
        "linear": lambda x, y: F.interpolate(x, x.shape[2] * 2 + 1, mode="linear"),
        "trilinear": lambda x, y: F.interpolate(y, scale_factor=1.5, mode="trilinear"),
    }
    dims = [Dim(name, min=2, max=20) for name in "abcd"]
    ep = torch.export.export(
        Several(functions),
        (numbers(1, 2, 7), numbers(1, 2, 7, 5, 4)),
        dynamic_shapes=(({2: dims[0]}, dict(zip((2, 3, 4), dims[1:]))),),
    )

    for backend, compile in BACKENDS.items():
        compiled = compile(ep)
        for inputs in (
            (numbers(1, 2, 19), numbers(1, 2, 3, 2, 9)),
            (numbers(1, 2, 2), numbers(1, 2, 7, 8, 4)),
        ):
            check_each(functions, compiled(*inputs), *inputs, note=backend)


def test_coordinates_are_float32_in_a_program_of_float16():
    model = Function(lambda x: F.interpolate(x, (x.shape[2] // 2,), mode="nearest"))
    x = torch.arange(4000.0).remainder(7).reshape(1, 1, -1)
    sizes = {2: Dim("n", min=10, max=4000)}

    program = convert(model, (x,), dynamic_shapes=((sizes,),), precision="float16")

    assert torch.equal(program.run(x)[0], model(x))


# Of n * 0.29, which is less than 29 for 100, no ratio of integers is the floor.
@pytest.mark.parametrize(
    ("factor", "recompute"), [(0.29, False), (0.29, True), (0.7, True)]
)
def test_dynamic_sizes_scaled(factor: float, recompute: bool):
    def function(x: Tensor) -> Tensor:
        return F.interpolate(
            x, scale_factor=factor, mode="nearest", recompute_scale_factor=recompute
        )

    xs = [numbers(1, 2, size) for size in (30, 7, 100, 200, 9000)]
    sizes = {2: Dim("n", min=7, max=9000)}

    ep = exported(function, xs[0], ((sizes,),))

    for compile in ALL.values():
        compiled = compile(ep)
        for x in xs:
            torch.testing.assert_close(compiled(x)[0], function(x))


EQUAL: dict[str, Callable[[Tensor], Tensor]] = {
    mode: lambda x, mode=mode: F.interpolate(x, scale_factor=(1.1, 2.1), mode=mode)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
} | {
    f"{mode}, antialiased": lambda x, mode=mode: F.interpolate(
        x, scale_factor=(1.1, 2.1), mode=mode, antialias=True
    )
    for mode in ("bilinear", "bicubic")
}


# Of the nearest, PyTorch's kernels differ, and it chooses one by the result's size.
@pytest.mark.parametrize(
    ("names", "dynamic"), [([*EQUAL], False), ([*EQUAL][1:], True)], ids=str
)
def test_as_many_elements_as_before(names: list[str], dynamic: bool):
    """Which PyTorch mostly keeps, whatever the scale; the nearest also twice as many."""
    functions = {name: EQUAL[name] for name in names}
    sizes = {2: Dim("h", min=4, max=40), 3: Dim("w", min=4, max=40)}
    xs = numbers(1, 2, 20, 30), numbers(1, 2, 7, 6), numbers(1, 2, 9, 11)
    xs[1][0, 0, 2, 3] = INF
    if not dynamic:
        xs = xs[1:2]
    dynamic_shapes = ((sizes,),) if dynamic else None
    needs_export(Several(functions), (xs[0],), dynamic_shapes)

    ep = torch.export.export(
        Several(functions), (xs[0],), dynamic_shapes=dynamic_shapes, strict=False
    )

    for backend, compile in ALL.items():
        compiled = compile(ep)
        for x in xs:
            check_each(functions, compiled(x), x, note=backend, equal_nan=True)


COMPUTED: Functions = {
    "plus 1": lambda x: F.interpolate(x, math.floor(x.shape[2] * 0.3 + 1)),
    "rounded up": lambda x: F.interpolate(x, math.ceil(x.shape[2] / 3)),
    "on a tensor": lambda x: x * (1 / x.shape[2]),
    "powers": lambda x: [
        F.pad(x, (0, x.shape[2] ** 2)),
        F.pad(x, (0, x.shape[2] ** 3)),
    ],
}


def test_computed_sizes():
    xs = [numbers(1, 2, size) for size in (30, 8, 11, 39)]
    dynamic = (({2: Dim("n", min=8, max=40)},),)

    ep = torch.export.export(
        Several(COMPUTED), (xs[0],), dynamic_shapes=dynamic, strict=False
    )

    for backend, compile in BACKENDS.items():
        compiled = compile(ep)
        for x in xs:
            check_each(COMPUTED, compiled(x), x, note=backend)


def test_float_arithmetic_on_two_sizes_is_refused_for_core_ml():
    sizes = {2: Dim("h", min=8, max=40), 3: Dim("w", min=8, max=40)}
    ep = exported(
        lambda x: F.interpolate(x, (math.floor(x.shape[2] / x.shape[3]) + 4, 3)),
        numbers(1, 2, 8, 9),
        ((sizes,),),
    )

    with pytest.raises(
        UnsupportedError, match="floats compute from more than one size"
    ):
        compile_for_coreml(ep)


FACTORS = st.floats(0.01, 30) | st.integers(1, 400).map(lambda n: n / 100)


@given(FACTORS)
def test_ratios_scale_as_float64_does(factor: float):
    scaled = [int(size * factor) for size in range(LARGEST_SIZE + 1)]

    if (ratio := ratio_of(scaled)) is not None:
        a, b = ratio.numerator, ratio.denominator
        assert scaled == [size * a // b for size in range(LARGEST_SIZE + 1)]


def test_bytes_are_interpolated_by_pytorch():
    x = (numbers(1, 2, 5, 6) * 40 + 128).to(torch.uint8)

    function = lambda x: F.interpolate(x, size=(7, 9), mode="bilinear")  # noqa: E731
    (actual,) = compile_for_oracle(exported(function, x))(x)

    assert torch.equal(actual, function(x))


def test_bytes_are_refused_for_core_ml():
    x = (numbers(1, 2, 5, 6) * 40 + 128).to(torch.uint8)
    ep = exported(lambda x: F.interpolate(x, size=(7, 9), mode="bilinear").float(), x)

    with pytest.raises(UnsupportedError, match="bytes in fixed point"):
        compile_for_coreml(ep)


SAMPLINGS = [
    Sampling(mode, coordinates, antialias=antialias)
    for mode in ResampleMode
    for coordinates in Coordinates
    for antialias in (False, True)
    if antialias == (mode is ResampleMode.LANCZOS)
    or (antialias and mode in (ResampleMode.LINEAR, ResampleMode.CUBIC))
]


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from(SAMPLINGS))
def test_weights_add_up_to_1(size: int, new_size: int, sampling: Sampling):
    taps = resampling.taps(size, new_size, sampling)

    for positions, _ in taps:
        assert positions.shape == (new_size,)
        assert 0 <= positions.min() <= positions.max() < size
    weights = [np.ones(new_size) if weight is None else weight for _, weight in taps]
    np.testing.assert_allclose(np.sum(weights, 0), 1, rtol=1e-5)
