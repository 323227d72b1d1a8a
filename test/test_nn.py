# pyright: basic
"""`padc.nn`: SAME padding as documented, in eager PyTorch, exported and as Core ML."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import needs_export
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim
from xdsl.dialects.builtin import DYNAMIC_INDEX

import padc
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context, tcp
from padc.ir.weights import weights_of
from padc.nn import (
    AvgPool1dSame,
    AvgPool2dSame,
    AvgPool3dSame,
    Conv1dSame,
    Conv2dSame,
    Conv3dSame,
    MaxPool1dSame,
    MaxPool2dSame,
    MaxPool3dSame,
)
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.testing import compile_for_oracle

CONVS: list[Any] = [Conv1dSame, Conv2dSame, Conv3dSame]
MAX_POOLS: list[Any] = [MaxPool1dSame, MaxPool2dSame, MaxPool3dSame]
AVG_POOLS: list[Any] = [AvgPool1dSame, AvgPool2dSame, AvgPool3dSame]
STRIDED_RULES = ["tensorflow", "onnx_upper", "onnx_lower"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Run in one thread: more are slower on tensors as small as these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def documented(
    rule: str, size: int, kernel: int, stride: int, dilation: int
) -> tuple[int, int, int]:
    """
    The amounts below and above, and the size of the output.

    TensorFlow: "output size is ceil(input size / stride)", "total padding is max((output
    size - 1) * stride + extent - input size, 0)", "padding before is total // 2". ONNX:
    the same, "the extra padding at the end for SAME_UPPER and at the beginning for
    SAME_LOWER". PyTorch: amounts that keep the size, an odd one at the end.
    """
    output = math.ceil(size / stride)
    total = max((output - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    less, more = total // 2, total - total // 2
    return (more, less, output) if rule == "onnx_lower" else (less, more, output)


def windows(
    rule: str, size: int, kernel: int, stride: int, dilation: int
) -> list[list[int]]:
    """The elements of the input in each window."""
    lower, _, output = documented(rule, size, kernel, stride, dilation)
    return [
        [
            position
            for tap in range(kernel)
            if 0 <= (position := i * stride - lower + tap * dilation) < size
        ]
        for i in range(output)
    ]


def reduced(x: Tensor, case: "Case", reduce: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Apply `reduce` to each window, one dimension after the other."""
    for dim, window in enumerate(case.windows, start=-case.rank):
        parts = [
            reduce(x.index_select(dim, torch.tensor(elements, dtype=torch.int64)), dim)
            for elements in windows(case.rule, x.shape[dim], *window)
        ]
        x = torch.stack(parts, dim)
    return x


class Case:
    """A rule, and for each dimension a size and a window."""

    def __init__(self, rule: str, sizes: list[int], windows: list[tuple[int, ...]]):
        self.rule, self.sizes, self.windows = rule, sizes, windows
        self.rank = len(sizes)
        self.kernel, self.stride, self.dilation = (
            tuple(numbers) for numbers in zip(*windows, strict=True)
        )

    def __repr__(self) -> str:
        return f"{self.rule}, sizes {self.sizes}, windows {self.windows}"


@st.composite
def cases(draw: st.DrawFn, dilated: bool = True) -> Case:
    rank = draw(st.integers(1, 3))
    rule = draw(st.sampled_from(["pytorch", *STRIDED_RULES]))
    sizes = st.lists(st.integers(1, 9), min_size=rank, max_size=rank)
    window = st.tuples(
        st.integers(1, 5),
        st.integers(1, 1 if rule == "pytorch" else 5),
        st.integers(1, 3 if dilated else 1),
    )
    windows = st.lists(window, min_size=rank, max_size=rank)
    return Case(rule, draw(sizes), draw(windows))


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


@settings(deadline=None)
@given(cases(), st.booleans(), st.sampled_from([1, 2]), st.booleans())
def test_convolutions_pad_as_documented(
    case: Case, batched: bool, groups: int, bias: bool
):
    conv = CONVS[case.rank - 1](
        2, 4, case.kernel, case.stride, case.dilation, groups, bias,
        rule=case.rule, dtype=torch.float64,
    )  # fmt: skip
    x = numbers(*[3] * batched, 2, *case.sizes)

    actual = conv(x)

    sides = [
        documented(case.rule, size, *window)
        for size, window in zip(case.sizes, case.windows)
    ]
    flat = [amount for lower, upper, _ in reversed(sides) for amount in (lower, upper)]
    function: Any = [F.conv1d, F.conv2d, F.conv3d][case.rank - 1]
    expected = function(
        F.pad(x, flat), conv.weight, conv.bias, case.stride, 0, case.dilation, groups
    )
    assert list(actual.shape[-case.rank :]) == [output for _, _, output in sides]
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pytorchs_rule_is_pytorchs_padding_same(rank: int, mode: Any):
    conv: Any = [nn.Conv1d, nn.Conv2d, nn.Conv3d][rank - 1]
    for kernel, dilation in ((1, 1), (2, 1), (3, 2), (4, 1), (4, 2)):
        theirs = conv(
            2, 3, kernel, padding="same", dilation=dilation, padding_mode=mode
        )
        ours = CONVS[rank - 1](
            2, 3, kernel, 1, dilation, padding_mode=mode, rule="pytorch"
        )
        ours.load_state_dict(theirs.state_dict())
        x = numbers(2, 2, *[8] * rank, dtype=torch.float32)

        torch.testing.assert_close(ours(x), theirs(x))


def test_other_padding_modes_pad_by_the_same_amounts():
    conv = Conv2dSame(1, 1, (3, 4), 2, padding_mode="reflect", rule="onnx_lower")
    x = numbers(1, 1, 8, 7, dtype=torch.float32)

    # A size of 8 takes 1 in all at stride 2, a size of 7 takes 3.
    padded = F.pad(x, (2, 1, 1, 0), mode="reflect")
    torch.testing.assert_close(conv(x), F.conv2d(padded, conv.weight, conv.bias, 2))


@settings(deadline=None)
@given(cases(), st.sampled_from([torch.float64, torch.int64, torch.uint8]))
def test_max_pools_take_what_is_inside_each_window(case: Case, dtype: torch.dtype):
    assume(dtype.is_floating_point or case.rank > 1)  # as torch.max_pool1d does
    x = (100 * numbers(2, 3, *case.sizes)).to(dtype)
    least = -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min

    def greatest(part: Tensor, dim: int) -> Tensor:
        # With a large dilation, a window can have no element inside the input.
        if part.shape[dim] == 0:
            return part.sum(dim).to(dtype) + least
        return part.amax(dim)

    pool = MAX_POOLS[case.rank - 1](
        case.kernel, case.stride, case.dilation, rule=case.rule
    )
    assert torch.equal(pool(x), reduced(x, case, greatest))


@settings(deadline=None)
@given(cases(dilated=False))
def test_average_pools_divide_by_what_is_inside_each_window(case: Case):
    x = numbers(2, 3, *case.sizes)
    pool = AVG_POOLS[case.rank - 1](case.kernel, case.stride, rule=case.rule)

    expected = reduced(x, case, lambda part, dim: part.mean(dim))

    torch.testing.assert_close(pool(x), expected)
    # The computation for symbolic sizes.
    amounts = pool.amounts(x)
    inside = pool._pool_padded(torch.ones_like(x), amounts)
    torch.testing.assert_close(pool._pool_padded(x, amounts) / inside, expected)


def test_average_pools_take_floats_only():
    with pytest.raises(
        TypeError, match=r"average pool of torch.int64: expected floats"
    ):
        AvgPool1dSame(2)(torch.ones(1, 4, dtype=torch.int64))


def test_the_stride_of_a_pool_is_its_kernel_if_not_given():
    x = torch.arange(5.0).reshape(1, 5)

    assert MaxPool1dSame(2)(x).tolist() == [[1, 3, 4]]
    assert MaxPool1dSame(2, rule="onnx_lower")(x).tolist() == [[0, 2, 4]]
    assert AvgPool1dSame(2)(x).tolist() == [[0.5, 2.5, 4]]
    assert AvgPool1dSame(2, rule="onnx_lower")(x).tolist() == [[0, 1.5, 3.5]]


def test_what_is_documented_for_tensorflow():
    # Keras' padding="same" of 100x20 by a kernel of 4x1 is F.pad by (0, 0, 1, 2).
    (height, width) = Conv2dSame(1, 1, (4, 1)).amounts(torch.empty(1, 1, 100, 20))
    assert (width.lower, width.upper, height.lower, height.upper) == (0, 0, 1, 2)


def test_they_are_pytorchs_modules():
    conv, theirs = Conv2dSame(2, 4, 3, 2, groups=2), nn.Conv2d(2, 4, 3, 2, groups=2)

    theirs.load_state_dict(conv.state_dict())

    assert isinstance(conv, nn.Conv2d)
    assert isinstance(MaxPool3dSame(2), nn.MaxPool3d)
    assert isinstance(AvgPool1dSame(2), nn.AvgPool1d)
    assert torch.equal(theirs.weight, conv.weight)
    assert repr(conv) == (
        "Conv2dSame(2, 4, kernel_size=(3, 3), stride=(2, 2), groups=2, "
        "rule='tensorflow')"
    )
    assert padc.nn.Conv2dSame is Conv2dSame


@pytest.mark.parametrize("make", [Conv2dSame, lambda *_, **k: MaxPool2dSame(3, 2, **k)])
def test_what_is_refused(make: Any):
    with pytest.raises(ValueError) as ours:
        make(1, 1, 3, 2, rule="pytorch")
    with pytest.raises(ValueError) as theirs:
        nn.Conv2d(1, 1, 3, 2, padding="same")
    assert str(ours.value) == str(theirs.value)
    with pytest.raises(ValueError, match=r"no rule 'keras' .* but tensorflow, pytorch"):
        make(1, 1, 3, 2, rule="keras")
    with pytest.raises(ValueError, match=r"expected one number or 2, got \(3, 3, 3\)"):
        AvgPool2dSame((3, 3, 3))  # type: ignore


DYNAMIC: list[Callable[[Any], Any]] = [
    lambda rule: Conv1dSame(2, 3, 5, 4, rule=rule),
    lambda rule: Conv2dSame(2, 3, (4, 1), (1, 2), (2, 1), rule=rule),
    lambda rule: Conv2dSame(2, 4, 2, 3, groups=2, padding_mode="replicate", rule=rule),
    lambda rule: Conv3dSame(2, 3, 3, 2, rule=rule),
    lambda rule: MaxPool2dSame((3, 2), (2, 3), rule=rule),
    lambda rule: AvgPool2dSame((3, 2), (2, 3), rule=rule),
    lambda rule: AvgPool2dSame((4, 3), 1, rule=rule),
    lambda rule: AvgPool3dSame(2, 1, rule=rule),
]


@pytest.mark.parametrize("rule", ["tensorflow", "onnx_lower"])
@pytest.mark.parametrize("make", DYNAMIC)
def test_dynamic_sizes_are_arithmetic_on_them(make: Any, rule: str):
    module = make(rule)
    low, high = Dim("low", min=8, max=64), Dim("high", min=8, max=64)
    sizes = [13, 9, 4][: module.rank]
    x = numbers(1, 2, *sizes, dtype=torch.float32)
    dims = {2: low, 3: high} if module.rank > 1 else {2: low}
    needs_export(module, (x,), (dims,))

    program = torch.export.export(module, (x,), dynamic_shapes=(dims,))
    run = compile_for_oracle(program)

    for height in range(8, 16):
        sizes = [height, 2 * height - 7, 4][: module.rank]
        x = numbers(1, 2, *sizes, dtype=torch.float32)
        torch.testing.assert_close(run(x)[0], module(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_exported_they_are_a_pad_and_what_has_no_padding(dynamic: bool):
    dim = {2: Dim("height", min=6, max=64)} if dynamic else None
    x = numbers(1, 2, 13, 9, dtype=torch.float32)
    conv = Conv2dSame(2, 3, 4, 2, rule="onnx_lower")
    ctx = make_context()

    program = torch.export.export(conv, (x,), dynamic_shapes=(dim,))
    module = import_exported_program(program, weights_of(ctx))
    ConvertTorchToTcpPass().apply(ctx, module)

    (pad,) = [op for op in module.walk() if isinstance(op, tcp.PadOp)]
    assert any(isinstance(op, tcp.ConvOp) for op in module.walk())
    heights = [DYNAMIC_INDEX, DYNAMIC_INDEX] if dynamic else [2, 1]
    assert pad.static_lower.get_values() == (0, 0, heights[0], 2)
    assert pad.static_upper.get_values() == (0, 0, heights[1], 1)


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.average = AvgPool2dSame((3, 2), (2, 1))
        self.greatest = MaxPool2dSame((3, 2), (2, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.average(x), self.greatest(x)


@pytest.mark.parametrize("module", [Conv1dSame, Conv2dSame, Conv3dSame])
def test_a_strict_export_of_a_convolution_agrees(module: Any):
    x = numbers(1, 2, *[9] * module.rank, dtype=torch.float32)
    convolution = module(2, 3, 3, 2)

    program = torch.export.export(convolution, (x,), strict=True)

    torch.testing.assert_close(program.module()(x), convolution(x))


def test_a_strict_export_agrees():
    dim = {2: Dim("height", min=6, max=64)}
    needs_export(Both(), (torch.ones(1, 2, 13, 9),), (dim,))

    program = torch.export.export(
        Both(), (torch.ones(1, 2, 13, 9),), dynamic_shapes=(dim,), strict=True
    )
    run = compile_for_oracle(program)

    for height in range(6, 14):
        x = numbers(1, 2, height, 9, dtype=torch.float32)
        for actual, expected in zip(run(x), Both()(x), strict=True):
            torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(
    "module",
    [
        Conv1dSame(2, 3, 4, 2),
        Conv2dSame(2, 4, (3, 4), 2, groups=2, rule="onnx_lower"),
        Conv2dSame(2, 3, (4, 1), rule="pytorch"),
        Conv3dSame(2, 3, 2, 2, 2),
        MaxPool1dSame(2, 1, rule="onnx_lower"),
        MaxPool2dSame(3, 2),
        MaxPool3dSame(2),
        AvgPool1dSame(2, 1),
        AvgPool2dSame((3, 2), (2, 1), rule="onnx_lower"),
        AvgPool2dSame(2, 2),
        AvgPool3dSame(2, 1),
    ],
    ids=repr,
)
def test_packages_agree_and_break_no_rule(module: Any):
    x = numbers(1, 2, *[9, 5, 4][: module.rank], dtype=torch.float32)

    program = padc.convert(module, (x,))

    torch.testing.assert_close(program.run(x)[0], module(x), rtol=1e-5, atol=1e-5)
    assert program.check() == []
