"""`padc same`: amounts of SAME padding, and transposed convolutions elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from padc.errors import UsageError
from padc.ir import padding
from padc.ir.arithmetic import ceil_div
from padc.ir.padding import Amounts, SameRule

EPILOG = """\
One number stands for all dimensions. Without --transposed: the amounts that SAME of
each system adds to an input of this size, for a convolution or a pool. With
--transposed: how TensorFlow, Keras and ONNX compute PyTorch's ConvTranspose (of one
group).
"""

SYSTEMS: dict[SameRule, str] = {
    "tensorflow": "SAME of TensorFlow, Keras and JAX",
    "pytorch": "padding='same' of PyTorch",
    "onnx_upper": "SAME_UPPER of ONNX",
    "onnx_lower": "SAME_LOWER of ONNX",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter

    def numbers(name: str, default: int | None, help: str) -> None:
        parser.add_argument(
            f"--{name}",
            type=int,
            nargs="+",
            metavar="N",
            required=default is None,
            default=None if default is None else [default],
            help=help if default is None else f"{help}; {default} if not given",
        )

    numbers("size", None, "size of the input, without batch and channels")
    numbers("kernel", None, "size of the kernel or window")
    numbers("stride", 1, "distance between windows")
    numbers("dilation", 1, "distance between elements of a window")
    parser.add_argument(
        "--rule",
        choices=get_args(SameRule),
        help="the system that is shown in full (default: tensorflow)",
    )
    parser.add_argument(
        "--transposed",
        action="store_true",
        help="explain a ConvTranspose of PyTorch instead",
    )
    numbers("padding", 0, "padding of the ConvTranspose")
    numbers("output-padding", 0, "output_padding of the ConvTranspose")


def run(arguments: argparse.Namespace) -> None:
    """Print the answer; raises UsageError for numbers that make no sense."""
    dims = dimensions(arguments)
    if not arguments.transposed:
        for name in ("padding", "output_padding"):
            if any(getattr(arguments, name)):
                option = name.replace("_", "-")
                raise UsageError(f"--{option} is for --transposed only")
        lines = same(dims, arguments.rule or "tensorflow")
    elif arguments.rule is not None:
        raise UsageError("--rule is not for --transposed, which knows one rule only")
    else:
        lines = transposed(dims)
    print("\n".join(lines))


@dataclass(frozen=True)
class Dim:
    """The parameters of one spatial dimension."""

    size: int
    kernel: int
    stride: int
    dilation: int
    padding: int
    output_padding: int


LEAST = {"size": 1, "kernel": 1, "stride": 1, "dilation": 1}


def dimensions(arguments: argparse.Namespace) -> list[Dim]:
    given: dict[str, list[int]] = {
        name: getattr(arguments, name) for name in Dim.__annotations__
    }
    rank = max(map(len, given.values()))
    for name, values in given.items():
        option = f"--{name.replace('_', '-')} {' '.join(map(str, values))}"
        if len(values) not in (1, rank):
            raise UsageError(
                f"{option}: {len(values)} numbers for {rank} dimensions",
                hint="give one for each dimension, or one for all",
            )
        if min(values) < (least := LEAST.get(name, 0)):
            raise UsageError(f"{option}: must be {least} or more")
    return [
        Dim(**{name: values[i % len(values)] for name, values in given.items()})
        for i in range(rank)
    ]


def table(headings: Sequence[str], rows: Iterable[Sequence[int]]) -> list[str]:
    """Columns of numbers, each as wide as its heading or widest number."""
    cells = [list(headings), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]


# SAME.


def same(dims: Sequence[Dim], rule: SameRule) -> list[str]:
    try:
        amounts = same_amounts(dims, rule)
    except ValueError as error:
        raise UsageError(
            f"--rule {rule}: {error}", hint="PyTorch's SAME is for stride 1"
        ) from error
    rows = [
        (dim.size, a.lower, a.upper, ceil_div(dim.size, dim.stride))
        for dim, a in zip(dims, amounts, strict=True)
    ]
    others: list[SameRule] = [other for other in SYSTEMS if other != rule]
    strided = any(dim.stride > 1 for dim in dims)
    return [
        f"{SYSTEMS[rule]}:",
        "",
        *table(("size", "before", "after", "output"), rows),
        "",
        f"{f_pad(amounts)}  # before a max pool: value=-float('inf')",
        *(["# With a stride, the amounts depend on the size."] if strided else []),
        "",
        *(f"{SYSTEMS[other]}: {difference(dims, amounts, other)}" for other in others),
    ]


def same_amounts(dims: Sequence[Dim], rule: SameRule) -> list[Amounts]:
    padding.check_same(rule, [dim.stride for dim in dims])
    return [
        padding.same(rule, dim.size, dim.kernel, dim.stride, dim.dilation)
        for dim in dims
    ]


def f_pad(amounts: Sequence[Amounts]) -> str:
    """The call of PyTorch, whose amounts begin with the last dimension."""
    flat = [str(side) for a in reversed(amounts) for side in (a.lower, a.upper)]
    return f"F.pad(x, ({', '.join(flat)}))"


def difference(dims: Sequence[Dim], amounts: Sequence[Amounts], rule: SameRule) -> str:
    """How another rule compares."""
    try:
        others = same_amounts(dims, rule)
    except ValueError as error:
        return f"refused, {error}"
    differ = [
        f"dimension {i} ({other.lower} before, {other.upper} after)"
        for i, (a, other) in enumerate(zip(amounts, others, strict=True))
        if a != other
    ]
    return f"{f_pad(others)}, differs in {', '.join(differ)}" if differ else "the same"


# Transposed convolution.


def transposed(dims: Sequence[Dim]) -> list[str]:
    if len(dims) > 3:
        raise UsageError(
            f"--transposed of {len(dims)} dimensions",
            hint="PyTorch and TensorFlow have transposed convolutions of 1 to 3",
        )
    sizes = [output_size(dim) for dim in dims]
    keras = in_keras(dims, sizes, "same") or in_keras(dims, sizes, "valid")
    return [
        f"torch.nn.ConvTranspose{len(dims)}d: {by(dim.size for dim in dims)} -> "
        f"{by(sizes)}",
        "",
        "# TensorFlow: x is channels-last, weight and bias are as PyTorch has them",
        *in_tensorflow(dims, sizes),
        "",
        f"# Keras: {keras or 'no layer does this alone'}",
        f"# ONNX: {in_onnx(dims)}",
    ]


def by(sizes: Iterable[int]) -> str:
    return "x".join(map(str, sizes))


def output_size(dim: Dim) -> int:
    """The size that PyTorch computes; UsageError if PyTorch refuses the options."""
    if dim.output_padding >= max(dim.stride, dim.dilation):
        raise UsageError(
            f"--output-padding {dim.output_padding}: PyTorch wants it less than the "
            f"stride or the dilation, {dim.stride} and {dim.dilation}"
        )
    size = padding.conv_transpose_output_size(
        dim.size,
        dim.kernel,
        dim.stride,
        dim.dilation,
        dim.padding,
        dim.output_padding,
    )
    if size < 1:
        raise UsageError(
            f"the output of size {dim.size} would have size {size}",
            hint=f"--padding {dim.padding} crops more than there is",
        )
    return size


def in_tensorflow(dims: Sequence[Dim], sizes: Sequence[int]) -> list[str]:
    """
    Statements that compute `y` from `x`, `weight` and `bias`.

    `tf.nn.conv_transpose` is the gradient of `tf.nn.convolution`. With "VALID" its
    result has all positions that a kernel touches, and up to `stride - 1` zeros after
    them if `output_shape` asks for them. With "SAME" it is cropped by the amounts that
    SAME adds to the output.
    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv_transpose.
    """
    rank = len(dims)
    steps = [f"filters = tf.transpose(weight, {[*range(2, rank + 2), 1, 0]})"]
    if any(dim.dilation > 1 for dim in dims):
        steps.append("# On CPUs, TensorFlow refuses dilations above 1.")
    if all(
        ceil_div(size, dim.stride) == dim.size
        and padding.same_upper(size, dim.kernel, dim.stride, dim.dilation).lower
        == dim.padding
        for dim, size in zip(dims, sizes, strict=True)
    ):
        return [*steps, *call(dims, sizes, "SAME"), "y = y + bias"]
    # The end of the output, in the result before padding crops it.
    ends = [dim.padding + size for dim, size in zip(dims, sizes, strict=True)]
    wholes = [
        padding.conv_transpose_output_size(d.size, d.kernel, d.stride, d.dilation)
        for d in dims
    ]
    made = [
        max(whole, min(end, whole + dim.stride - 1))
        for dim, whole, end in zip(dims, wholes, ends, strict=True)
    ]
    steps += call(dims, made, "VALID")
    missing = [max(end - size, 0) for end, size in zip(ends, made, strict=True)]
    if any(missing):
        amounts = listed([0, amount] for amount in missing)
        steps.append(f"y = tf.pad(y, [[0, 0], {amounts}, [0, 0]])")
    if any(dim.padding for dim in dims):
        slices = [f"{d.padding}:{end}" for d, end in zip(dims, ends, strict=True)]
        steps.append(f"y = y[:, {listed(slices)}, :]")
    return [*steps, "y = y + bias"]


def call(dims: Sequence[Dim], shape: Sequence[int], mode: str) -> list[str]:
    return [
        "y = tf.nn.conv_transpose(",
        f"    x, filters, [x.shape[0], {listed(shape)}, weight.shape[1]],",
        f'    {[dim.stride for dim in dims]}, padding="{mode}", '
        f"dilations={[dim.dilation for dim in dims]},",
        ")",
    ]


def listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def in_keras(
    dims: Sequence[Dim], sizes: Sequence[int], mode: Literal["same", "valid"]
) -> str | None:
    """
    The Keras layer that crops and adds as PyTorch does; None if Keras lacks it.

    Source for what Keras refuses: `BaseConvTranspose` of Keras 3's
    keras/src/layers/convolutional/base_conv_transpose.py. TensorFlow refuses output
    sizes from which a convolution does not return to the input size.
    """
    strides, dilations = [d.stride for d in dims], [d.dilation for d in dims]
    if max(strides) > 1 and max(dilations) > 1:
        return None
    least = [
        padding.keras_conv_transpose_output_size(
            dim.size, dim.kernel, dim.stride, dim.dilation, mode, 0
        )
        for dim in dims
    ]
    explicit = [size - base for size, base in zip(sizes, least, strict=True)]
    for extras in ([None] * len(dims), explicit):
        if all(
            keras_agrees(dim, size, mode, extra)
            for dim, size, extra in zip(dims, sizes, extras, strict=True)
        ):
            given = "" if extras is not explicit else f", output_padding={explicit}"
            return (
                f"Conv{len(dims)}DTranspose(out_channels, {[d.kernel for d in dims]}, "
                f'{strides}, "{mode}"{given}, dilation_rate={dilations})'
            )
    return None


def keras_agrees(
    dim: Dim, size: int, mode: Literal["same", "valid"], output_padding: int | None
) -> bool:
    """Whether Keras accepts this output padding and gives the output of PyTorch."""
    window = dim.kernel, dim.stride, dim.dilation
    if output_padding is not None and not 0 <= output_padding < dim.stride:
        return False
    back = padding.same_upper(size, *window) if mode == "same" else Amounts(0, 0)
    return padding.conv_output_size(
        size, *window, back.lower, back.upper
    ) == dim.size and padding.keras_conv_transpose_amounts(
        *window, mode, output_padding
    ) == torch_amounts(dim)


def torch_amounts(dim: Dim) -> Amounts:
    return padding.conv_transpose_amounts(
        dim.kernel, dim.stride, dim.dilation, dim.padding, dim.output_padding
    )


def in_onnx(dims: Sequence[Dim]) -> str:
    """ONNX's ConvTranspose with PyTorch's attributes, and the `auto_pad` for them."""
    pads = [dim.padding for dim in dims] * 2
    attributes = {
        "strides": [dim.stride for dim in dims],
        "dilations": [dim.dilation for dim in dims],
        "output_padding": [dim.output_padding for dim in dims],
        "pads": pads,
    }
    text = ", ".join(f"{name}={value}" for name, value in attributes.items())
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        if all(onnx_agrees(dim, mode) for dim in dims):
            return f'ConvTranspose({text}); auto_pad="{mode}" gives these pads'
    return f"ConvTranspose({text})"


def onnx_agrees(dim: Dim, mode: Literal["SAME_UPPER", "SAME_LOWER"]) -> bool:
    extent = dim.dilation * (dim.kernel - 1) + 1
    # Otherwise ONNX asks for negative pads, which onnxruntime does not implement.
    return extent + dim.output_padding >= dim.stride and torch_amounts(
        dim
    ) == padding.onnx_conv_transpose_amounts(
        dim.kernel, dim.stride, dim.dilation, dim.output_padding, mode
    )
