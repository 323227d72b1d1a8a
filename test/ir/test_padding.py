"""Padding arithmetic against PyTorch, and what holds for all sizes proved by z3."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import z3
from functions import pad_last
from hypothesis import given
from hypothesis import strategies as st
from proofs import holds, ints, largest, proves
from torch import Tensor

from padc.ir import padding
from padc.ir.padding import Amounts, place

CHECKS: dict[str, Callable[[int, int, int], None]] = {
    "constant": padding.check_constant,
    "reflect": padding.check_reflection,
    "replicate": padding.check_replication,
    "circular": padding.check_circular,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads only cost time on tensors as small as these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def numbers(*shape: int) -> Tensor:
    """Different float64 numbers, none of them zero."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator())


def spread(x: Tensor, amounts: Amounts, fill: float = 0.0) -> Tensor:
    """The last dimension of `x` padded, also between elements."""
    step = amounts.interior + 1
    y = x.new_full((*x.shape[:-1], max((x.shape[-1] - 1) * step + 1, 0)), fill)
    y[..., ::step] = x
    return F.pad(y, (amounts.lower, amounts.upper), value=fill)


# Pads.


@pytest.mark.parametrize("mode", CHECKS)
def test_pads_and_their_limits_are_those_of_pytorch(mode: str):
    for size, lower, upper in itertools.product(range(6), range(-7, 8), range(-7, 8)):
        x = torch.arange(float(size)).reshape(1, 1, 1, size)
        fill = 9.0 if mode == "constant" else None
        expected = pad_last(x, lower, upper, mode, fill)
        # PyTorch does not refuse, but returns uninitialised memory.
        if mode == "circular" and lower * upper < 0:
            cropped = size + min(lower, upper)
            expected = expected if max(lower, upper) <= cropped else None

        limits = padding.PAD_LIMITS[mode](size, lower, upper)
        assert all(value >= least for value, least in limits) == (expected is not None)
        if expected is None:
            with pytest.raises(ValueError, match=f"{lower} and {upper}|empty"):
                CHECKS[mode](size, lower, upper)
            continue
        CHECKS[mode](size, lower, upper)
        positions = range(padding.padded_size(size, lower, upper))
        match mode:
            case "reflect":
                source = [
                    padding.source_index_reflection(j, size, lower) for j in positions
                ]
            case "replicate":
                source = [
                    padding.source_index_replication(j, size, lower) for j in positions
                ]
            case "circular":
                source = [
                    padding.source_index_circular(j, size, lower, upper)
                    for j in positions
                ]
            case _:
                inside = (j - lower for j in positions)
                source = [i if 0 <= i < size else 9 for i in inside]
        assert expected.flatten().tolist() == source


def test_interior_padding_is_inserted_before_the_edges():
    for size, lower, upper, interior in itertools.product(
        range(1, 5), range(-3, 4), range(-3, 4), range(4)
    ):
        x = numbers(1, 1, size)
        spaced = F.conv_transpose1d(x, x.new_ones(1, 1, 1), stride=interior + 1)
        try:
            expected = F.pad(spaced, (lower, upper))
        except RuntimeError:
            with pytest.raises(ValueError, match="crops more than the"):
                padding.check_constant(size, lower, upper, interior)
            continue

        padding.check_constant(size, lower, upper, interior)
        assert padding.padded_size(size, lower, upper, interior) == expected.shape[-1]
        torch.testing.assert_close(
            spread(x, Amounts(lower, upper, interior)), expected, rtol=0, atol=0
        )


def test_nothing_is_between_no_elements():
    assert padding.padded_size(0, 2, 3, interior=5) == 5


@pytest.mark.parametrize(
    ("check", "amounts", "message"),
    [
        (padding.check_constant, (4, -5, 6), "by -5 and 6 crops more than the 4 elements"),
        (padding.check_reflection, (4, 4, 0), "of a dimension of size 4: each may be at most 3, the size less one"),
        (padding.check_reflection, (4, -2, -3), "reflection padding by -2 and -3 crops more than a dimension of size 4"),
        (padding.check_replication, (0, 1, 1), "replication padding of an empty dimension"),
        (padding.check_circular, (4, -2, 3), "of a dimension of size 4: each may be at most 2, what cropping leaves of it"),
    ],
)  # fmt: skip
def test_refusals_name_the_limit(
    check: Callable[[int, int, int], None], amounts: tuple[int, int, int], message: str
):
    with pytest.raises(ValueError, match=message):
        check(*amounts)


# Convolution and pooling.


def test_conv_output_size():
    for size, kernel, stride, dilation, lower, upper in itertools.product(
        range(1, 8), range(1, 4), range(1, 4), range(1, 4), range(3), range(3)
    ):
        x = F.pad(numbers(1, 1, size), (lower, upper))
        size_of = padding.conv_output_size(size, kernel, stride, dilation, lower, upper)
        if x.shape[-1] < dilation * (kernel - 1) + 1:
            assert size_of < 1
        else:
            y = F.conv1d(x, numbers(1, 1, kernel), stride=stride, dilation=dilation)
            assert size_of == y.shape[-1]


def pools() -> Iterator[tuple[int, int, int, int, int, bool]]:
    for size, kernel, stride, dilation, ceil_mode in itertools.product(
        range(1, 9), range(1, 5), range(1, 6), range(1, 4), (False, True)
    ):
        for pad in range(kernel // 2 + 1):
            yield size, kernel, stride, dilation, pad, ceil_mode


def test_a_max_pool_is_a_pad_and_a_pool_without_padding():
    for size, kernel, stride, dilation, pad, ceil_mode in pools():
        x = numbers(1, 1, size)
        windows = padding.pool_output_size(
            size, kernel, stride, dilation, pad, ceil_mode
        )
        try:
            expected = F.max_pool1d(x, kernel, stride, pad, dilation, ceil_mode)
        except RuntimeError:
            assert windows < 1
            continue

        amounts = padding.pool_amounts(kernel, stride, dilation, pad, ceil_mode)
        padded = spread(x, amounts, -torch.inf)
        actual = F.max_pool1d(padded, kernel, stride, 0, dilation)

        assert windows == expected.shape[-1] == actual.shape[-1]
        assert torch.equal(actual, expected)


def avg_pool_divisors(
    size: int, kernel: int, stride: int, pad: int, amounts: Amounts, include_pad: bool
) -> Tensor:
    lower, upper = (0, amounts.upper - pad) if include_pad else (pad, amounts.upper)
    padded = padding.padded_size(size, amounts.lower, amounts.upper)
    counts = padding.window_counts(padded, kernel, stride, 1, lower, upper)
    return torch.tensor(counts, dtype=torch.float64)


@pytest.mark.parametrize("include_pad", [False, True])
def test_an_average_pool_is_a_pad_and_a_sum_and_its_counts(include_pad: bool):
    for size, kernel, stride, dilation, pad, ceil_mode in pools():
        windows = padding.pool_output_size(size, kernel, stride, 1, pad, ceil_mode)
        if dilation != 1 or windows < 1:
            continue
        x = numbers(1, 1, size)

        amounts = padding.pool_amounts(kernel, stride, 1, pad, ceil_mode)
        sums = F.conv1d(spread(x, amounts), x.new_ones(1, 1, kernel), stride=stride)
        divisors = avg_pool_divisors(size, kernel, stride, pad, amounts, include_pad)

        torch.testing.assert_close(
            sums / divisors,
            F.avg_pool1d(x, kernel, stride, pad, ceil_mode, include_pad),
        )


@given(st.data(), st.booleans(), st.booleans())
def test_counts_of_several_dimensions_multiply(
    data: st.DataObject, ceil_mode: bool, include_pad: bool
):
    kernels = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    pads = [data.draw(st.integers(0, kernel // 2)) for kernel in kernels]
    strides = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    sizes = [data.draw(st.integers(kernel, 12)) for kernel in kernels]
    x = numbers(1, 1, *sizes)

    amounts = [
        padding.pool_amounts(kernel, stride, 1, pad, ceil_mode)
        for kernel, stride, pad in zip(kernels, strides, pads, strict=True)
    ]
    divisors = [
        avg_pool_divisors(*dimension, include_pad)
        for dimension in zip(sizes, kernels, strides, pads, amounts, strict=True)
    ]
    padded = spread(spread(x, amounts[1]).mT, amounts[0]).mT
    sums = F.conv2d(padded, x.new_ones(1, 1, *kernels), stride=strides)

    torch.testing.assert_close(
        sums / torch.outer(*divisors),
        F.avg_pool2d(x, kernels, strides, pads, ceil_mode, include_pad),
    )


def test_window_counts_are_those_of_counting():
    ranges = range(1, 9), range(1, 4), range(1, 4), range(1, 4), range(4), range(4)
    for size, kernel, stride, dilation, lower, upper in itertools.product(*ranges):
        counted = range(lower, size - upper)
        starts = range(0, size - dilation * (kernel - 1), stride)
        expected = [
            sum(start + tap * dilation in counted for tap in range(kernel))
            for start in starts
        ]

        actual = padding.window_counts(size, kernel, stride, dilation, lower, upper)
        assert actual == expected


def test_counts_of_dilated_windows():
    # Windows on 0, 2, 4 and on 1, 3, 5, of which 0 and 5 do not count.
    assert padding.window_counts(6, 3, 1, 2, 1, 1) == [2, 2]
    # Windows on 0, 3 and on 2, 5, of which 0 and 1 do not count.
    assert padding.window_counts(6, 2, 2, 3, 2, 0) == [1, 2]


# SAME.


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_same_pytorch():
    for size, kernel, dilation in itertools.product(
        range(1, 8), range(1, 7), range(1, 4)
    ):
        x, weight = numbers(1, 1, size), numbers(1, 1, kernel)

        padded = spread(x, padding.same_pytorch(kernel, dilation))

        torch.testing.assert_close(
            F.conv1d(padded, weight, dilation=dilation),
            F.conv1d(x, weight, padding="same", dilation=dilation),
        )


def test_same_adds_the_least_that_gives_one_window_per_stride():
    for size, kernel, stride, dilation in itertools.product(
        range(1, 12), range(1, 7), range(1, 5), range(1, 4)
    ):
        windows = -(-size // stride)
        least = next(
            total
            for total in itertools.count()
            if padding.conv_output_size(size, kernel, stride, dilation, total)
            == windows
        )

        upper = padding.same_upper(size, kernel, stride, dilation)
        lower = padding.same_lower(size, kernel, stride, dilation)

        assert upper == Amounts(least // 2, least - least // 2)
        assert lower == Amounts(upper.upper, upper.lower)


def test_same_as_tensorflow_documents_it():
    # https://www.tensorflow.org/api_docs/python/tf/nn#same_padding
    assert padding.same_upper(5, 3, 2) == Amounts(1, 1)
    assert padding.same_upper(13, 6, 5) == Amounts(1, 2)
    assert padding.same_upper(28, 1, 2) == Amounts(0, 0)


# Transposed convolution.


def transposed(x: Tensor, weight: Tensor, amounts: Amounts, dilation: int) -> Tensor:
    """A transposed convolution, `weight` in [Cin, Cout, k], as a convolution."""
    return F.conv1d(
        spread(x, amounts), weight.transpose(0, 1).flip(-1), dilation=dilation
    )


def test_conv_transpose_is_a_convolution_of_the_spread_input():
    for size, kernel, stride, dilation, pad in itertools.product(
        range(1, 5), range(1, 5), range(1, 4), range(1, 4), range(4)
    ):
        for output_padding in range(max(stride, dilation)):
            x, weight = numbers(1, 2, size), numbers(2, 3, kernel)
            expected_size = padding.conv_transpose_output_size(
                size, kernel, stride, dilation, pad, output_padding
            )
            if expected_size < 1:
                with pytest.raises(RuntimeError):
                    F.conv_transpose1d(
                        x, weight, None, stride, pad, output_padding, 1, dilation
                    )
                continue

            amounts = padding.conv_transpose_amounts(
                kernel, stride, dilation, pad, output_padding
            )

            padding.check_constant(size, amounts.lower, amounts.upper, amounts.interior)
            expected = F.conv_transpose1d(
                x, weight, None, stride, pad, output_padding, 1, dilation
            )
            assert expected.shape[-1] == expected_size
            torch.testing.assert_close(
                transposed(x, weight, amounts, dilation), expected
            )


@pytest.mark.parametrize("mode", ["valid", "same"])
def test_keras_conv_transpose_is_the_gradient_of_tensorflows_convolution(mode: Any):
    for size, kernel, stride, dilation in itertools.product(
        range(1, 5), range(1, 6), range(1, 5), range(1, 3)
    ):
        for output_padding in (None, *range(stride)):
            arguments = kernel, stride, dilation, mode, output_padding
            wanted = padding.keras_conv_transpose_output_size(size, *arguments)
            same = mode == "same"
            forward = (
                padding.same_upper(wanted, kernel, stride, dilation)
                if same
                else Amounts(0, 0)
            )
            # TensorFlow refuses output paddings that do not lead back.
            if wanted == 0 or size != padding.conv_output_size(
                wanted, kernel, stride, dilation, forward.lower, forward.upper
            ):
                assert output_padding is not None
                continue
            weight = numbers(2, 3, kernel)
            y = numbers(1, 3, wanted).requires_grad_()
            x = F.conv1d(spread(y, forward), weight, None, stride, 0, dilation)
            gradient = numbers(*x.shape)
            x.backward(gradient)

            amounts = padding.keras_conv_transpose_amounts(*arguments)

            torch.testing.assert_close(
                transposed(gradient, weight, amounts, dilation), y.grad
            )


def test_keras_conv_transpose_sizes():
    # https://keras.io/api/layers/convolution_layers/convolution2d_transpose
    size = padding.keras_conv_transpose_output_size
    assert size(10, 3, 2, 1, "valid") == 21
    assert size(10, 3, 2, 1, "same") == size(10, 4, 2, 1, "same") == 20
    assert size(10, 2, 5, 1, "valid") == 50
    assert size(10, 3, 2, 1, "same", 0) == 19
    assert size(10, 4, 2, 1, "same", 1) == 19


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_onnx_conv_transpose_crops_what_the_specification_says(auto_pad: Any):
    for size, kernel, stride, dilation in itertools.product(
        range(1, 5), range(1, 6), range(1, 5), range(1, 3)
    ):
        for output_padding in range(stride):
            x, weight = numbers(1, 2, size), numbers(2, 3, kernel)
            whole = F.conv_transpose1d(x, weight, None, stride, dilation=dilation)
            whole = F.pad(whole, (0, output_padding))
            total = max(whole.shape[-1] - size * stride, 0)
            half, rest = total // 2, total - total // 2
            start, end = (half, rest) if auto_pad == "SAME_UPPER" else (rest, half)

            amounts = padding.onnx_conv_transpose_amounts(
                kernel, stride, dilation, output_padding, auto_pad
            )

            torch.testing.assert_close(
                transposed(x, weight, amounts, dilation), F.pad(whole, (-start, -end))
            )


def test_defaults_are_stride_1_dilation_1_and_no_padding():
    assert padding.conv_output_size(5, 3) == padding.pool_output_size(5, 3) == 3
    assert padding.same_pytorch(4) == padding.same_upper(8, 4) == Amounts(1, 2)
    assert padding.same_lower(8, 4) == Amounts(2, 1)
    assert padding.conv_transpose_output_size(5, 3) == 7
    assert padding.conv_transpose_amounts(3) == Amounts(2, 2, 0)


# Proofs, over all integers: the functions themselves are run on z3's. With each proof
# comes a claim that goes one step too far, which z3 must refute.


def size_after(size: Any, amounts: Any) -> Any:
    return padding.padded_size(size, amounts.lower, amounts.upper, amounts.interior)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_pool_windows_are_those_of_pytorch_for_all_sizes(stride: int, symbolic: None):
    size, kernel, dilation, pad = ints("size kernel dilation pad")
    extent = dilation * (kernel - 1) + 1
    # Pool.h: round up, then take a window away that starts beyond.
    ceil = (size + 2 * pad - extent + stride - 1) / stride + 1
    pytorch = z3.If((ceil - 1) * stride >= size + pad, ceil - 1, ceil)
    windows = padding.pool_output_size(size, kernel, stride, dilation, pad, True)
    positive = z3.And(size > 0, kernel > 0, dilation > 0, pad >= 0)
    amounts = padding.pool_amounts(kernel, stride, dilation, pad, True)
    valid = padding.conv_output_size(
        size, kernel, stride, dilation, amounts.lower, amounts.upper
    )

    assert holds(windows == pytorch, positive, 2 * pad <= kernel)
    assert not holds(windows == pytorch, positive)
    assert holds(valid == windows, positive, 2 * pad <= kernel)
    symmetric = padding.conv_output_size(size, kernel, stride, dilation, pad, pad)
    assert holds(symmetric == windows, positive, 2 * pad <= kernel) == (stride == 1)


@pytest.mark.parametrize("dilation", [1, 2, 3, 5])
def test_a_search_starts_at_the_first_tap_from_0_on(dilation: int, symbolic: None):
    (first,) = ints("first")
    start: Any = padding.search_start(first, dilation)
    is_tap = z3.And(start >= 0, start % dilation == 0)
    is_first = z3.Or(start == 0, first + start - dilation < 0)

    assert holds(z3.And(is_tap, first + start >= 0, is_first))
    assert not holds(first + start - dilation < 0)


def test_same_depends_on_the_size_only_with_a_stride(symbolic: None):
    size, kernel, dilation = ints("size kernel dilation")
    positive = z3.And(size > 0, kernel > 0, dilation > 0)
    pytorch: Any = padding.same_pytorch(kernel, dilation)

    def same(amounts: Any) -> Any:
        return z3.And(amounts.lower == pytorch.lower, amounts.upper == pytorch.upper)

    upper = padding.same_upper(size, kernel, 1, dilation, largest)
    lower = padding.same_lower(size, kernel, 1, dilation, largest)
    strided = padding.same_upper(size, kernel, 2, dilation, largest)
    assert holds(same(upper), positive)
    assert not holds(same(lower), positive)
    assert not holds(same(strided), positive)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_same_is_what_tensorflow_documents_for_all_sizes(stride: int, symbolic: None):
    size, kernel, dilation = ints("size kernel dilation")
    positive = z3.And(size > 0, kernel > 0, dilation > 0)
    # "The total padding", o being ceil(size / stride).
    o, extent = (size + stride - 1) / stride, dilation * (kernel - 1) + 1
    total = largest((o - 1) * stride + extent - size, 0)
    amounts: Any = padding.same_upper(size, kernel, stride, dilation, largest)
    windows: Any = padding.conv_output_size(
        size, kernel, stride, dilation, amounts.lower, amounts.upper
    )

    assert holds(amounts.lower == total / 2, positive)
    assert holds(amounts.lower + amounts.upper == total, positive)
    assert holds(windows == o, positive)
    assert not holds(amounts.upper == total / 2, positive)


def test_conv_transpose_size_is_that_of_the_convolution(symbolic: None):
    size, kernel, stride, dilation, pad, more = ints(
        "size kernel stride dilation pad o"
    )
    positive = z3.And(size > 0, kernel > 0, stride > 0, dilation > 0, pad >= 0)
    expected = padding.conv_transpose_output_size(
        size, kernel, stride, dilation, pad, more
    )

    def size_of(size: Any, amounts: Any) -> Any:
        return padding.conv_output_size(size_after(size, amounts), kernel, 1, dilation)

    amounts = padding.conv_transpose_amounts(kernel, stride, dilation, pad, more)
    assert holds(size_of(size, amounts) == expected, positive)
    # `output_padding` is not padding of the input.
    without = padding.conv_transpose_amounts(kernel, stride, dilation, pad)
    assert not holds(size_of(size + more, without) == expected, positive)


@proves("decompose-conv-transpose", "convert-tcp-to-linalg: transposed convolutions")
def test_a_convolution_of_the_spread_input_reads_what_the_transposed_one_adds(
    symbolic: None,
):
    """
    Tap k of a transposed convolution adds element i to `i * stride + k * dilation -
    pad`. The convolution reads it there, with the tap of the flipped kernel.
    """
    i, j, tap, kernel, pad, more = ints("i j tap kernel pad more")
    for stride, dilation in itertools.product(range(1, 5), repeat=2):
        amounts: Any = padding.conv_transpose_amounts(
            kernel, stride, dilation, pad, more
        )
        adds = i * stride + tap * dilation - pad == j

        def reads(flipped: Any, j: Any = j, d: int = dilation, a: Any = amounts) -> Any:
            return place(i, a) == j + flipped * d

        assert holds(adds == reads(kernel - 1 - tap))
        assert not holds(adds == reads(tap))
