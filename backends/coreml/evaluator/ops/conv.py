"""Convolutions, by the docstrings of coremltools' mil/ops/defs/iOS15/conv.py and
iOS17/conv.py (which lets weight and bias be computed and have their own type).

The documentation of `same` contradicts itself for odd amounts: its formula puts the odd
element before, but says that `same_lower` does so. It is read as TensorFlow's SAME, for
which `same` exists: output sizes are
ceil(size / stride), as documented, and the odd element goes after.
"""

from typing import Literal

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.types import Array

PadType = Literal["valid", "custom", "same", "same_lower"]


def spatial_padding(
    pad_type: PadType,
    pad: list[int] | None,
    sizes: list[int],
    kernel: list[int],
    strides: list[int],
) -> list[tuple[int, int]]:
    """(before, after) of each spatial dimension; `kernel` counts its dilation."""
    match pad_type:
        case "valid":
            return [(0, 0)] * len(sizes)
        case "custom":
            amounts = pad or [0] * (2 * len(sizes))
            if len(amounts) != 2 * len(sizes) or min(amounts) < 0:
                raise ValueError(f"pad {amounts} for {len(sizes)} spatial dimensions")
            return list(zip(amounts[::2], amounts[1::2], strict=True))
        case "same" | "same_lower":
            extras = [
                max((-(-size // stride) - 1) * stride + extent - size, 0)
                for size, extent, stride in zip(sizes, kernel, strides, strict=True)
            ]
            halves = [(extra // 2, extra - extra // 2) for extra in extras]
            return halves if pad_type == "same" else [(b, a) for a, b in halves]


def _extents(
    x: Array, weight: Array, strides: list[int], dilations: list[int]
) -> list[int]:
    """The sizes of the dilated kernel; ValueError unless all ranks agree."""
    rank, sizes = x.ndim - 2, weight.shape[2:]
    if not len(sizes) == len(strides) == len(dilations) == rank:
        raise ValueError(
            f"x has {rank} spatial dimensions, the weight {len(sizes)}, strides "
            f"{strides}, dilations {dilations}"
        )
    for name, numbers in (("strides", strides), ("dilations", dilations)):
        if min(numbers, default=1) < 1:
            raise ValueError(f"{name} {numbers}; expected 1 or more")
    return [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]


@op()
def conv(
    x: Float,
    weight: Float,
    bias: Float | None = None,
    strides: list[int] | None = None,
    pad_type: PadType = "valid",
    pad: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Array:
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extents = _extents(x, weight, strides, dilations)
    padding = spatial_padding(pad_type, pad, list(x.shape[2:]), extents, strides)
    return kernels.convolution(x, weight, bias, strides, padding, dilations, groups)


@op()
def conv_quantized(
    x: Float,
    weight: Int,
    quantization_type: Literal["linear"],
    quant_scale: Float,
    quant_bias: Float,
    bias: Number | None = None,
    nbits: int = 8,
    strides: list[int] | None = None,
    pad_type: PadType = "valid",
    pad: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Array:
    """`W_float = W_quantized * scale + bias`, with a scalar or a value for each output
    channel. The packing of fewer than 8 bits is not documented."""
    if nbits != 8:
        raise UnknownValueError(f"nbits {nbits}")
    shape = [-1, *[1] * (weight.ndim - 1)]
    scale, offset = quant_scale.reshape(shape), quant_bias.reshape(shape)
    bias = None if bias is None else bias.astype(x.dtype)
    unpacked = weight.astype(x.dtype) * scale + offset
    return conv(x, unpacked, bias, strides, pad_type, pad, dilations, groups)


@op()
def conv_transpose(
    x: Float,
    weight: Float,
    bias: Float | None = None,
    pad: list[int] | None = None,
    output_shape: list[int] | None = None,
    pad_type: Literal["valid", "custom", "same"] = "valid",
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Array:
    """The convolution's adjoint, with `pad` cropped from its result.

    `same` crops the padding of the convolution from the output's size back to x's. x's
    size must be ceil(output / stride), or the shape contradicts the op.
    """
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extents = _extents(x, weight, strides, dilations)
    if output_shape is not None:
        channels = weight.shape[1] * groups
        if len(output_shape) != x.ndim or output_shape[1] != channels:
            raise ValueError(
                f"output_shape {output_shape}; expected {x.ndim} sizes, "
                f"{channels} channels"
            )
    totals = kernels.transposed_sizes(x.shape[2:], weight.shape[2:], strides, dilations)
    if pad_type == "same":
        sizes = [d * s for d, s in zip(x.shape[2:], strides, strict=True)]
        sizes = output_shape[2:] if output_shape else sizes
        crops = spatial_padding("same", None, sizes, extents, strides)
        # A stride longer than the kernel leaves zeros after the last element.
        crops = [
            (before, total - before - size)
            for (before, _), total, size in zip(crops, totals, sizes, strict=True)
        ]
        whole = [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
        if whole != list(x.shape[2:]):
            raise ValueError(f"output shape {output_shape} of x {list(x.shape)}")
    else:
        crops = spatial_padding(pad_type, pad, list(x.shape[2:]), extents, strides)
    y = kernels.transposed_convolution(x, weight, strides, dilations, groups)
    y = kernels.pad(y, [(-before, -after) for before, after in crops], 0.0)
    if output_shape and list(y.shape) != output_shape:
        raise UnknownValueError(
            f"output_shape {output_shape}, where pad gives {list(y.shape)}"
        )
    if bias is not None and bias.shape != y.shape[1:2]:
        raise ValueError(f"a bias of {list(bias.shape)} for {y.shape[1]} channels")
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)
