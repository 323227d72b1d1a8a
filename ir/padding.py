"""
The arithmetic of padding, one dimension at a time: integers in, integers out.

Sizes are numbers of elements along one dimension. Parameters of type `Whole` may be
symbolic, or arrays (`padc.ir.arithmetic`): passes compile the same formulas that this
file computes with integers, and the tests prove most of them.

The names are those of every formula here: `size` of the input, `kernel`, `stride`,
`dilation`; `extent = dilation * (kernel - 1) + 1`, the elements a kernel spans; `lower`
and `upper`, what is added before and after (negative: cropped).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from padc.ir.arithmetic import Whole, ceil_div, clamp, is_zero, maximum, minimum


@dataclass(frozen=True)
class Amounts:
    """
    What a pad does to one dimension.

    Source: `PaddingConfig` of XLA's Pad (https://openxla.org/xla/operation_semantics),
    `lower`, `upper`, `interior` being its `edge_padding_low`, `edge_padding_high`,
    `interior_padding`: element `t` of the input comes to `lower + t * (interior + 1)`.
    """

    lower: int
    """Elements added before the first; negative: this many positions cropped."""
    upper: int
    """Elements added after the last; negative: this many positions cropped."""
    interior: int = 0
    """Elements added between any two neighbours, before either edge; never negative."""

    def then(self, outer: Amounts) -> Amounts:
        """The amounts of the one pad that this pad and then `outer` fold to."""
        step = outer.interior + 1
        return Amounts(
            self.lower * step + outer.lower,
            self.upper * step + outer.upper,
            (self.interior + 1) * step - 1,
        )

    @property
    def added(self) -> Amounts:
        """The amounts added on both sides; amounts that crop become 0."""
        return Amounts(max(self.lower, 0), max(self.upper, 0))

    @property
    def cropped(self) -> Amounts:
        """The amounts cropped on both sides, negative; amounts that add become 0."""
        return Amounts(min(self.lower, 0), min(self.upper, 0))


def padded_size(size: Whole, lower: Whole, upper: Whole, interior: Whole = 0) -> Whole:
    """
    The size after a pad. Negative: `check_constant` refuses these amounts.

    Source: XLA's Pad (https://openxla.org/xla/operation_semantics); without `interior`,
    `torch.nn.functional.pad`.
    """
    edges = size + lower + upper
    if is_zero(interior):
        return edges
    return edges + maximum(size - 1, 0) * interior


def cropped_size(size: Whole, lower: Whole, upper: Whole) -> Whole:
    """The elements that a pad's negative amounts leave; below 0: they crop more."""
    return size + minimum(lower, 0) + minimum(upper, 0)


# Which amounts are legal, and where a position of the output comes from.


def check_constant(size: int, lower: int, upper: int, interior: int = 0) -> None:
    """
    Raise ValueError if amounts crop more than there is, or crop between elements.

    What one side crops is never made up for by what the other side adds: -5 and 6 on
    four elements is refused. Source: `constant_pad_nd` of PyTorch's
    aten/src/ATen/native/PadNd.cpp, which narrows the input by each negative amount.
    """
    if interior < 0:
        raise ValueError(
            f"padding by {interior} between elements: it may not be negative"
        )
    available = padded_size(size, 0, 0, interior)
    if max(-lower, 0) + max(-upper, 0) > available:
        raise ValueError(
            f"padding by {lower} and {upper} crops more than the {available} elements "
            "there are"
        )


def check_reflection(size: int, lower: int, upper: int) -> None:
    """
    Raise ValueError unless lower, upper < size and there is as much as is cropped.

    Source: `reflection_pad1d` of PyTorch's aten/src/ATen/native/ReflectionPad.cpp.
    PyTorch refuses empty dimensions that are not padded too, except the batch's, and
    results that are empty in each dimension that it pads.
    """
    check_border("reflection", size, lower, upper)
    if max(lower, upper) >= size:
        raise ValueError(
            f"reflection padding by {lower} and {upper} of a dimension of size {size}: "
            f"each may be at most {size - 1}, the size less one"
        )


def check_replication(size: int, lower: int, upper: int) -> None:
    """
    Raise ValueError unless there is an element to repeat, and as much as is cropped.

    Source: `replication_pad1d` of PyTorch's
    aten/src/ATen/native/ReplicationPadding.cpp.
    PyTorch refuses empty dimensions that are not padded too, except the batch's, and
    results that are empty in each dimension that it pads.
    """
    check_border("replication", size, lower, upper)


def check_border(mode: str, size: int, lower: int, upper: int) -> None:
    """Raise ValueError if no element is there to show, or fewer than are cropped."""
    if size < 1:
        raise ValueError(f"{mode} padding of an empty dimension")
    if padded_size(size, lower, upper) < 0:
        raise ValueError(
            f"{mode} padding by {lower} and {upper} crops more than a dimension of "
            f"size {size}"
        )


def check_circular(size: int, lower: int, upper: int) -> None:
    """
    Raise ValueError unless lower, upper <= what is left after negative amounts crop.

    Source: `_pad_circular` of PyTorch's aten/src/ATen/native/PadNd.cpp. It compares
    with the size before cropping, and where that differs reads uninitialised memory
    (https://github.com/pytorch/pytorch/issues/176254).
    """
    cropped = cropped_size(size, lower, upper)
    if max(lower, upper, 0) > cropped:
        raise ValueError(
            f"circular padding by {lower} and {upper} of a dimension of size {size}: "
            f"each may be at most {max(cropped, 0)}, what cropping leaves of it"
        )


# The same as numbers that may be symbolic, each with the least that it may be.

Limits: TypeAlias = "list[tuple[Whole, Whole]]"


def constant_limits(size: Whole, lower: Whole, upper: Whole) -> Limits:
    """When `check_constant` accepts, without `interior`."""
    return [(cropped_size(size, lower, upper), 0)]


def reflection_limits(size: Whole, lower: Whole, upper: Whole) -> Limits:
    """When `check_reflection` accepts."""
    largest = maximum(maximum(lower, upper), 0)
    return [(size, largest + 1), (padded_size(size, lower, upper), 0)]


def replication_limits(size: Whole, lower: Whole, upper: Whole) -> Limits:
    """When `check_replication` accepts."""
    return [(size, 1), (padded_size(size, lower, upper), 0)]


def circular_limits(size: Whole, lower: Whole, upper: Whole) -> Limits:
    """When `check_circular` accepts."""
    largest = maximum(maximum(lower, upper), 0)
    return [(cropped_size(size, lower, upper), largest)]


PAD_LIMITS: Mapping[str, Callable[[Whole, Whole, Whole], Limits]] = {
    "constant": constant_limits,
    "reflect": reflection_limits,
    "replicate": replication_limits,
    "circular": circular_limits,
}
"""The limits of each mode, by PyTorch's name of it."""


def source_index_reflection(j: Whole, size: Whole, lower: Whole) -> Whole:
    """
    The position in the input that position `j` of a legal reflection pad shows.

    Mirrors once about the first and the last element. Negative amounts crop after
    mirroring. Source: `ReflectionPad` of PyTorch's
    aten/src/ATen/native/cpu/PaddingKernel.cpp; the closed form is `|i|` mirrored again.
    """
    last = size - 1
    return last - abs(last - abs(j - lower))


def source_index_replication(j: Whole, size: Whole, lower: Whole) -> Whole:
    """
    The position in the input that position `j` of a legal replication pad shows.

    Source: `ReplicationPad` of PyTorch's
    aten/src/ATen/native/cpu/PaddingKernel.cpp.
    """
    return clamp(j - lower, 0, size - 1)


def source_index_circular(j: Whole, size: Whole, lower: Whole, upper: Whole) -> Whole:
    """
    The position in the input that position `j` of a legal circular pad shows.

    Negative amounts crop before wrapping, unlike in the other modes.
    Source: `_pad_circular` of PyTorch's aten/src/ATen/native/PadNd.cpp.
    """
    cropped = cropped_size(size, lower, upper)
    return (j - maximum(lower, 0)) % cropped - minimum(lower, 0)


# Convolution and pooling.


def conv_output_size(
    size: Whole,
    kernel: Whole,
    stride: Whole = 1,
    dilation: Whole = 1,
    lower: Whole = 0,
    upper: Whole = 0,
) -> Whole:
    """
    The size of a convolution's output; below 1: the kernel does not fit.

    Source: "Shape" of `torch.nn.Conv2d`, with `padding` as `lower` and `upper`.
    """
    extent = dilation * (kernel - 1) + 1
    return (size + lower + upper - extent) // stride + 1


def pool_output_size(
    size: Whole,
    kernel: Whole,
    stride: Whole = 1,
    dilation: Whole = 1,
    padding: Whole = 0,
    ceil_mode: bool = False,
) -> Whole:
    """
    The size of a pool's output; below 1: the window does not fit.

    Source: `pooling_output_shape` of PyTorch's aten/src/ATen/native/Pool.h. In ceil
    mode, windows must start inside the input or the lower padding: PyTorch
    removes a last one that does not, the second argument of `min` here. `padding` is at
    most half the kernel, which PyTorch demands.
    """
    floor = conv_output_size(size, kernel, stride, dilation, padding, padding)
    if not ceil_mode:
        return floor
    rest = stride - 1
    ceil = conv_output_size(size, kernel, stride, dilation, padding, padding + rest)
    return minimum(ceil, (size + padding + rest) // stride)


def pool_amounts(
    kernel: Whole, stride: Whole, dilation: Whole, padding: Whole, ceil_mode: bool
) -> Amounts:
    """
    The padding that leaves a pool without padding `pool_output_size` windows.

    It holds for every size of the input. A max pool's is filled with the least value,
    an average pool's with 0. In ceil mode the last window ends at most `stride - 1`
    after the padding. It must start inside the input or the lower padding, so it also
    ends at most `extent - 1` after the input.
    Source: `pooling_output_shape` of PyTorch's aten/src/ATen/native/Pool.h.
    """
    if not ceil_mode:
        return Amounts(padding, padding)
    return Amounts(padding, minimum(padding + stride - 1, dilation * (kernel - 1)))


def window_count(
    window: Whole,
    size: Whole,
    kernel: Whole,
    stride: Whole,
    dilation: Whole,
    uncounted_lower: Whole,
    uncounted_upper: Whole,
) -> Whole:
    """
    The number of elements that count in a VALID window, along one dimension.

    The first `uncounted_lower` and last `uncounted_upper` elements of `size` do not
    count. With the elements that a pool's padding added as these, this is the divisor
    of an average pool: all of them without `count_include_pad`, else only those after
    `padding`.
    Source: `cpu_avg_pool2d` of PyTorch's aten/src/ATen/native/cpu/AvgPoolKernel.cpp.
    """
    if is_zero(uncounted_lower) and is_zero(uncounted_upper):
        return kernel
    start = window * stride
    # Taps are `dilation` apart: `ceil_div(n, dilation)` are among the next n elements.
    end = minimum(ceil_div(size - uncounted_upper - start, dilation), kernel)
    if is_zero(uncounted_lower):
        return maximum(end, 0)
    first = maximum(ceil_div(uncounted_lower - start, dilation), 0)
    return maximum(end - first, 0)


@dataclass(frozen=True)
class NeededTaps:
    """VALID windows without some taps at both of their ends."""

    count: int
    """The number of taps that are left."""
    below: int
    """The number of positions that are dropped at the input's lower end."""
    size: int
    """The size of the input that is left."""


def needed_taps(
    start: Whole,
    end: Whole,
    windows: Whole,
    kernel: Whole,
    stride: Whole,
    dilation: Whole,
) -> NeededTaps:
    """
    The taps of VALID windows, without those that never meet `start` to `end`.

    There is at least one window, and one position from `start` to before `end`. Dilated
    windows may keep one such tap on either side, so that none of the positions goes.
    """
    last = (windows - 1) * stride
    first = clamp((start - last) // dilation, 0, kernel - 1)
    count = minimum(ceil_div(end - 1, dilation) + 1, kernel) - first
    below = first * dilation
    extent = dilation * (count - 1) + 1
    return NeededTaps(count, below, maximum(end - below, last + extent))


def search_start(first: Whole, dilation: Whole) -> Whole:
    """The distance from position `first` of a window to its first tap from 0 on."""
    return maximum(ceil_div(-first, dilation), 0) * dilation


def window_counts(
    size: int,
    kernel: int,
    stride: int,
    dilation: int,
    uncounted_lower: int,
    uncounted_upper: int,
) -> list[int]:
    """`window_count` of each VALID window."""
    uncounted = uncounted_lower, uncounted_upper
    return [
        window_count(window, size, kernel, stride, dilation, *uncounted)
        for window in range(conv_output_size(size, kernel, stride, dilation))
    ]


# SAME padding, as each framework computes it.


def same_pytorch(kernel: int, dilation: int = 1) -> Amounts:
    """
    PyTorch's `padding="same"`, which takes stride 1 only: the odd one goes above.

    Source: `_reversed_padding_repeated_twice` of torch/nn/modules/conv.py.
    """
    total = dilation * (kernel - 1)
    return Amounts(total // 2, total - total // 2)


def same_upper(
    size: int,
    kernel: int,
    stride: int = 1,
    dilation: int = 1,
    maximum: Callable[[Any, Any], Any] = max,
) -> Amounts:
    """
    SAME of TensorFlow, Keras and JAX, SAME_UPPER of ONNX: the odd one goes above.

    The output has `ceil(size / stride)` elements. A symbolic `size` needs a `maximum`
    that takes symbolic integers. Source: "Notes on padding" of
    https://www.tensorflow.org/api_docs/python/tf/nn; `auto_pad` of ONNX' Conv.
    """
    total = _same_total(size, kernel, stride, dilation, maximum)
    return Amounts(total // 2, total - total // 2)


def same_lower(
    size: int,
    kernel: int,
    stride: int = 1,
    dilation: int = 1,
    maximum: Callable[[Any, Any], Any] = max,
) -> Amounts:
    """
    SAME_LOWER of ONNX: as `same_upper`, but the odd one goes below.

    Source: `auto_pad` of https://onnx.ai/onnx/operators/onnx__Conv.html.
    """
    total = _same_total(size, kernel, stride, dilation, maximum)
    return Amounts(total - total // 2, total // 2)


def _same_total(
    size: int,
    kernel: int,
    stride: int,
    dilation: int,
    maximum: Callable[[Any, Any], Any],
) -> int:
    # The sources' (ceil(size / stride) - 1) * stride + extent - size, with one division
    # less: the last window starts this remainder before the last element.
    return maximum(dilation * (kernel - 1) - (size - 1) % stride, 0)


SameRule: TypeAlias = Literal["tensorflow", "pytorch", "onnx_upper", "onnx_lower"]
"""The systems whose SAME differs; Keras and JAX do as TensorFlow, as `onnx_upper`."""


def check_same(rule: str, strides: Iterable[int]) -> None:
    """Raise ValueError unless `rule` is a `SameRule` that takes these strides."""
    if rule not in get_args(SameRule):
        rules = ", ".join(get_args(SameRule))
        raise ValueError(f"there is no rule '{rule}' for SAME padding, but {rules}")
    if rule == "pytorch" and any(stride != 1 for stride in strides):
        # In the words of torch.nn.Conv2d.
        raise ValueError("padding='same' is not supported for strided convolutions")


def same(
    rule: SameRule,
    size: int,
    kernel: int,
    stride: int = 1,
    dilation: int = 1,
    maximum: Callable[[Any, Any], Any] = max,
) -> Amounts:
    """The padding of one of the systems: `same_pytorch` and the two after it."""
    match rule:
        case "pytorch":
            return same_pytorch(kernel, dilation)
        case "tensorflow" | "onnx_upper":
            return same_upper(size, kernel, stride, dilation, maximum)
        case "onnx_lower":
            return same_lower(size, kernel, stride, dilation, maximum)


# Transposed convolution: a convolution with stride 1, the same dilation and the kernel
# flipped, of the input padded with zeros by these amounts. `interior` spreads the
# elements `stride` apart; `extent - 1` on either side gives all positions a kernel
# touches, and each framework crops these differently.


def conv_transpose_output_size(
    size: Whole,
    kernel: Whole,
    stride: Whole = 1,
    dilation: Whole = 1,
    padding: Whole = 0,
    output_padding: Whole = 0,
) -> Whole:
    """
    The size of PyTorch's transposed convolution's output; below 1: PyTorch refuses.

    Source: "Shape" of `torch.nn.ConvTranspose2d`.
    """
    return (
        (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1
    )


def conv_transpose_amounts(
    kernel: Whole,
    stride: Whole = 1,
    dilation: Whole = 1,
    padding: Whole = 0,
    output_padding: Whole = 0,
) -> Amounts:
    """
    The zero insertion that makes PyTorch's transposed convolution a convolution.

    Source: the relationship of a transposed to a direct convolution in V. Dumoulin and
    F. Visin, "A guide to convolution arithmetic for deep learning"
    (https://arxiv.org/abs/1603.07285), 4; `torch.nn.ConvTranspose2d` for
    `output_padding`. More padding than `extent - 1` makes the amounts negative.
    """
    edge = dilation * (kernel - 1) - padding
    return Amounts(edge, edge + output_padding, stride - 1)


def keras_conv_transpose_output_size(
    size: int,
    kernel: int,
    stride: int,
    dilation: int,
    padding: Literal["valid", "same"],
    output_padding: int | None = None,
) -> int:
    """
    The size of a Keras `Conv2DTranspose`'s output.

    Source: `_get_output_shape_given_tf_padding` of Keras 3's
    keras/src/backend/common/backend_utils.py.
    """
    extent = dilation * (kernel - 1) + 1
    if padding == "valid":
        base, default = extent, max(stride - extent, 0)
    else:
        base, default = extent % 2, stride - extent % 2
    return (
        (size - 1) * stride
        + base
        + (default if output_padding is None else output_padding)
    )


def keras_conv_transpose_amounts(
    kernel: int,
    stride: int,
    dilation: int,
    padding: Literal["valid", "same"],
    output_padding: int | None = None,
) -> Amounts:
    """
    The zero insertion that makes Keras' `Conv2DTranspose` a convolution.

    With "same" it crops what `same_upper` pads for the convolution that leads from the
    output back to the input, which is what TensorFlow computes the gradient of.
    Source: `_convert_conv_transpose_padding_args_from_keras_to_jax` of Keras 3's
    keras/src/backend/common/backend_utils.py.
    """
    edge = dilation * (kernel - 1)
    # Of the `extent` positions that a single element comes to, Keras wants this many.
    wanted = keras_conv_transpose_output_size(
        1, kernel, stride, dilation, padding, output_padding
    )
    crop = max(edge + 1 - wanted, 0) // 2
    return Amounts(edge - crop, wanted - 1 + crop, stride - 1)


def onnx_conv_transpose_amounts(
    kernel: int,
    stride: int,
    dilation: int,
    output_padding: int,
    auto_pad: Literal["SAME_UPPER", "SAME_LOWER"],
) -> Amounts:
    """
    The zero insertion that makes ONNX' ConvTranspose a convolution.

    The output has `size * stride` elements, fewer where `extent + output_padding` is
    less than the stride: ONNX asks for negative `pads` there, onnxruntime crops none,
    and so does this. For other values of `auto_pad` see `conv_transpose_amounts`.
    Source: `pads` of https://onnx.ai/onnx/operators/onnx__ConvTranspose.html;
    `ComputeTotalPad` in conv_transpose_attributes.h of onnxruntime.
    """
    edge = dilation * (kernel - 1)
    total = max(edge + 1 + output_padding - stride, 0)
    start = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return Amounts(edge - start, edge + output_padding - (total - start), stride - 1)


# When pads can be simplified. `&` and `|` so that the conditions can be evaluated, and
# so proved, on symbolic integers.


def place(position: int, amounts: Amounts) -> int:
    """Where a constant pad brings the element at `position` of its input."""
    return amounts.lower + position * (amounts.interior + 1)


def sliced_amounts(size: int, start: int, end: int) -> Amounts:
    """
    The constant pad that is `x[start:end]`, of `size` elements.

    `start` and `end` count from the first element, and may be out of bounds.
    """
    start = clamp(start, 0, size)
    end = clamp(end, start, size)
    return Amounts(-start, end - size)


def is_crop(amounts: Amounts) -> bool:
    """Whether a constant pad adds nothing: all it shows are elements of its input."""
    return (amounts.lower <= 0) & (amounts.upper <= 0) & (amounts.interior == 0)


def is_all_fill(size: int, amounts: Amounts) -> bool:
    """Whether a constant pad shows no element of its input, which may have none."""
    reach = (size - 1) * (amounts.interior + 1)
    return (size == 0) | (amounts.lower + reach < 0) | (amounts.upper + reach < 0)


def has_no_interior(size: int) -> bool:
    """Whether there is nothing between elements, whatever a pad wants to put there."""
    return size <= 1


def concatenated_pads_fold(first: Amounts, second: Amounts) -> bool:
    """
    Whether a concatenation of two constant pads is one pad of the two inputs.

    The fills are equal, and the amounts are those along the dimension of the
    concatenation. Only its two ends, `first.lower` and `second.upper`, may add or crop.
    """
    return (
        (first.upper == 0)
        & (second.lower == 0)
        & (first.interior == 0)
        & (second.interior == 0)
    )


def constant_pads_fold(inner: Amounts, outer: Amounts, least: int = 0) -> bool:
    """
    Whether two constant pads with equal fills are one, by `inner.then(outer)`.

    True only if for all sizes from `least` for which both are legal the one pad is
    legal and has the same elements at the same positions. Not so: `outer` fills what
    `inner` cropped; `outer` crops, through the whole input, what `inner` added on the
    other side; `outer` inserts between elements of which `inner` added some and cropped
    others, or may have added all.
    Source: XLA's Pad (https://openxla.org/xla/operation_semantics), composed.
    """
    total = inner.then(outer)
    adds = (inner.lower >= 0) & (inner.upper >= 0)
    adds_nothing = (inner.lower == 0) & (inner.upper == 0)
    fills_no_crop = ((inner.lower >= 0) | (outer.lower <= 0)) & (
        (inner.upper >= 0) | (outer.upper <= 0)
    )
    crops_within_input = (
        (total.lower + least >= 0)
        & (total.upper + least >= 0)
        & (total.lower + total.upper + least >= 0)
    )
    crops_one_side = (
        ((outer.lower >= 0) | (total.lower >= 0))
        | ((inner.upper <= 0) | (total.upper <= 0))
    ) & (
        ((outer.upper >= 0) | (total.upper >= 0))
        | ((inner.lower <= 0) | (total.lower <= 0))
    )
    return (
        ((outer.interior == 0) | (adds & (adds_nothing | (least >= 1))))
        & fills_no_crop
        & (crops_within_input | crops_one_side)
    )


# Two pads in the same mode, of which one may be a crop: a constant pad with amounts
# that are not positive, which has the same meaning in every mode.


def replication_pads_fold(inner: Amounts, outer: Amounts) -> bool:
    """
    Whether two replication pads are one, by their sum, for all legal sizes.

    Not so where `outer` repeats an edge that `inner` cropped to: one pad would show
    what was cropped. Source: `source_index_replication`, composed.
    """
    return ((inner.lower >= 0) | (outer.lower <= 0)) & (
        (inner.upper >= 0) | (outer.upper <= 0)
    )


def reflection_pads_fold(inner: Amounts, outer: Amounts) -> bool:
    """
    Whether two reflection pads are one, by their sum, for all legal sizes.

    What `outer` adds must mirror the input's own edge and elements, not those that
    `inner` added, nor an edge that it cropped to. For `inner` to be legal, the input
    has more elements than it adds. Source: `source_index_reflection`, composed.
    """
    mirrors_below = (inner.lower == 0) & (
        (inner.upper <= 0) | (outer.lower <= inner.upper)
    )
    mirrors_above = (inner.upper == 0) & (
        (inner.lower <= 0) | (outer.upper <= inner.lower)
    )
    return ((outer.lower <= 0) | mirrors_below) & ((outer.upper <= 0) | mirrors_above)


def circular_pads_fold(inner: Amounts, outer: Amounts) -> bool:
    """
    Whether two circular pads are one, by their sum, for all legal sizes.

    A circular pad crops, then wraps. Either `outer` only crops, and no more than
    `inner` wrapped around; or it crops all of that, and wraps around what is left of
    the input on sides that nothing was cropped from.
    Source: `source_index_circular`, composed.
    """
    total = inner.then(outer)
    crops_less = (
        (outer.lower <= 0)
        & (outer.upper <= 0)
        & ((outer.lower == 0) | (total.lower >= 0))
        & ((outer.upper == 0) | (total.upper >= 0))
    )
    crops_all = (
        ((inner.lower <= 0) | (total.lower <= 0))
        & ((inner.upper <= 0) | (total.upper <= 0))
        & ((inner.lower == 0) | (outer.lower <= 0))
        & ((inner.upper == 0) | (outer.upper <= 0))
    )
    return crops_less | crops_all
