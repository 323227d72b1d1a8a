"""
Choose Core ML ops for `tcp` ops.

A pad is folded back into the convolution or pool that alone uses it where that
means the same; else it becomes Core ML's native `pad` where that is legal, and
slices and concatenations where it is not. The rules of legality are those of
coremltools' documentation of each op, and of what its runtime is known to refuse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    f16,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from padc.errors import (
    Obstacle,
    Problem,
    SourceLocation,
    UnsupportedError,
    origin,
)
from padc.ir import mil, padding, resampling, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import ConvDimsAttr, Coordinates, ResampleMode, tensor_type
from padc.ir.weights import numpy_dtype
from padc.passes.mil_builder import MilBuilder

Lowering: TypeAlias = Callable[[MilBuilder, Any], SSAValue]

LOWERINGS: dict[type[Operation], Lowering] = {}


def lowers(op_type: type[Operation]) -> Callable[[Lowering], Lowering]:
    """Register the lowering of a `tcp` op; it returns what replaces the result."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS[op_type] = lowering
        return lowering

    return register


# Pads.


def static_amounts(op: tcp.ExpandOp) -> list[Amounts]:
    amounts = op.static_amounts
    if amounts is None:
        raise Obstacle(
            "the amounts are computed; Core ML pads by constants only",
            "make them numbers, or the sizes that they come from static",
        )
    return amounts


def fill_of(op: tcp.PadOp) -> float | int:
    """The constant that a pad fills with."""
    owner = op.fill.owner
    if not isinstance(owner, ConstantOp):
        raise Obstacle(
            "the fill is computed; Core ML fills with constants only",
            "make it a number",
        )
    assert isinstance(owner.value, FloatAttr | IntegerAttr)
    return owner.value.value.data


@lowers(tcp.PadOp)
def lower_pad(build: MilBuilder, op: tcp.PadOp) -> SSAValue:
    """Insert the interior, then crop, then pad natively."""
    amounts, fill = static_amounts(op), fill_of(op)
    x = op.input
    for dim, amount in enumerate(amounts):
        if amount.interior:
            x = insert_between(build, x, dim, amount.interior, fill)
    x = crop(build, x, amounts)
    return pad_constant(build, x, [positive(amount) for amount in amounts], fill)


def positive(amount: Amounts) -> Amounts:
    """What is added, without what is cropped."""
    return Amounts(max(amount.lower, 0), max(amount.upper, 0))


def crop(build: MilBuilder, x: SSAValue, amounts: Sequence[Amounts]) -> SSAValue:
    """Slice off what negative amounts crop."""
    for dim, amount in enumerate(amounts):
        lower, upper = max(-amount.lower, 0), max(-amount.upper, 0)
        if lower or upper:
            x = build.slice(x, dim, lower, -upper if upper else None)
    return x


def pad_constant(
    build: MilBuilder, x: SSAValue, amounts: Sequence[Amounts], fill: float | int
) -> SSAValue:
    """Pad by amounts that are not negative, with a constant."""
    type = tensor_type(x)
    if type.element_type in (f16, f32):
        return native_pad(build, x, amounts, "constant", float(fill))
    # Core ML's pad takes floats only: put blocks of the fill beside the tensor.
    for dim, amount in enumerate(amounts):
        if (amount.lower, amount.upper) == (0, 0):
            continue
        shape = list(tensor_type(x).get_shape())
        if DYNAMIC_INDEX in (size for d, size in enumerate(shape) if d != dim):
            raise Obstacle(
                "Core ML pads floats only, and others are padded by a block of the "
                "fill, whose size is dynamic",
                "pad before converting to integers, or make the other sizes static",
            )
        blocks = [
            filled_like(build, x, [*shape[:dim], size, *shape[dim + 1 :]], fill)
            for size in (amount.lower, amount.upper)
        ]
        parts = [blocks[0], x, blocks[1]]
        x = build.concat([part for part in parts if part is not None], dim)
    return x


def filled_like(
    build: MilBuilder, x: SSAValue, shape: Sequence[int], fill: float | int
) -> SSAValue | None:
    """A constant of `x`'s element type, or None where it would be empty."""
    if 0 in shape:
        return None
    type = tensor_type(x)
    value = np.array(fill).astype(numpy_dtype(type.element_type))
    return build.emit("fill", type, shape, shape=list(shape), value=value)


def native_pad(
    build: MilBuilder,
    x: SSAValue,
    amounts: Sequence[Amounts],
    mode: str,
    fill: float | None = None,
) -> SSAValue:
    """Core ML's own `pad`, of no more of the last dimensions than needed."""
    padded = [i for i, a in enumerate(amounts) if (a.lower, a.upper) != (0, 0)]
    if not padded:
        return x
    type = tensor_type(x)
    expansions = [(a.lower, a.upper, 0) for a in amounts]
    return build.emit(
        "pad",
        type,
        tcp.padded_type(type, expansions).get_shape(),
        x=x,
        pad=[n for a in amounts[padded[0] :] for n in (a.lower, a.upper)],
        mode=mode,
        constant_val=fill,
    )


def insert_between(
    build: MilBuilder, x: SSAValue, dim: int, count: int, fill: float | int
) -> SSAValue:
    """Insert `count` fills between neighbours: `[D] -> [D, 1] -> [D, 1 + count]`."""
    shape = list(tensor_type(x).get_shape())
    if DYNAMIC_INDEX in shape:
        raise Obstacle(
            "elements are inserted between those of a tensor of dynamic size",
            "make its sizes static",
        )
    before, size, after = shape[:dim], shape[dim], shape[dim + 1 :]
    y = build.reshape(x, [math.prod(before), size, 1, math.prod(after)])
    none = Amounts(0, 0)
    y = pad_constant(build, y, [none, none, Amounts(0, count), none], fill)
    y = build.reshape(y, [*before, size * (1 + count), *after])
    return build.slice(y, dim, 0, size * (1 + count) - count)


@lowers(tcp.ReplicationPadOp)
def lower_replication_pad(build: MilBuilder, op: tcp.ReplicationPadOp) -> SSAValue:
    return border_pad(build, op, "replicate", replicated_sides)


@lowers(tcp.ReflectionPadOp)
def lower_reflection_pad(build: MilBuilder, op: tcp.ReflectionPadOp) -> SSAValue:
    return border_pad(build, op, "reflect", reflected_sides)


@lowers(tcp.CircularPadOp)
def lower_circular_pad(build: MilBuilder, op: tcp.CircularPadOp) -> SSAValue:
    """Crop, then put a slice of each end behind the other."""
    amounts = static_amounts(op)
    x = crop(build, op.input, amounts)
    for dim, amount in enumerate(map(positive, amounts)):
        x = pad_by_slices(build, x, dim, amount, wrapped_sides)
    return x


Sides: TypeAlias = Callable[
    [MilBuilder, SSAValue, int, Amounts], tuple[SSAValue | None, SSAValue | None]
]
"""What a border pad puts below and above a dimension; None where that is nothing."""


def border_pad(
    build: MilBuilder, op: tcp.BorderPadOp, mode: str, sides: Sides
) -> SSAValue:
    """Pad natively where Core ML can, by slices elsewhere; then crop."""
    amounts = static_amounts(op)
    x = op.input
    native: list[Amounts] = []
    for dim, amount in enumerate(map(positive, amounts)):
        is_native = can_pad_natively(op, dim, amount)
        native.append(amount if is_native else Amounts(0, 0))
        if not is_native:
            x = pad_by_slices(build, x, dim, amount, sides)
    return crop(build, native_pad(build, x, native, mode), amounts)


def can_pad_natively(op: tcp.BorderPadOp, dim: int, amount: Amounts) -> bool:
    """
    Whether Core ML's `pad` can expand this dimension in the op's mode.

    The runtime refuses modes other than constant off the last two dimensions
    (https://github.com/apple/coremltools/issues/2701); `pad` takes floats, and
    replicates at most as much as there is (its documentation in coremltools).
    """
    type = op.input_type
    size = type.get_shape()[dim]
    fits = isinstance(op, tcp.ReflectionPadOp) or (
        size != DYNAMIC_INDEX and max(amount.lower, amount.upper) <= size
    )
    is_last = dim >= type.get_num_dims() - 2
    return is_last and fits and type.element_type in (f16, f32)


def pad_by_slices(
    build: MilBuilder, x: SSAValue, dim: int, amount: Amounts, sides: Sides
) -> SSAValue:
    """Put what `sides` makes of slices of `x` below and above it."""
    if (amount.lower, amount.upper) == (0, 0):
        return x
    below, above = sides(build, x, dim, amount)
    return build.concat([part for part in (below, x, above) if part is not None], dim)


def replicated_sides(
    build: MilBuilder, x: SSAValue, dim: int, amount: Amounts
) -> tuple[SSAValue | None, SSAValue | None]:
    below = above = None
    if amount.lower:
        below = build.repeat(build.slice(x, dim, 0, 1), dim, amount.lower)
    if amount.upper:
        above = build.repeat(build.slice(x, dim, -1, None), dim, amount.upper)
    return below, above


def reflected_sides(
    build: MilBuilder, x: SSAValue, dim: int, amount: Amounts
) -> tuple[SSAValue | None, SSAValue | None]:
    below = above = None
    if amount.lower:
        below = build.reverse(build.slice(x, dim, 1, amount.lower + 1), dim)
    if amount.upper:
        above = build.reverse(build.slice(x, dim, -amount.upper - 1, -1), dim)
    return below, above


def wrapped_sides(
    build: MilBuilder, x: SSAValue, dim: int, amount: Amounts
) -> tuple[SSAValue | None, SSAValue | None]:
    below = above = None
    if amount.lower:
        below = build.slice(x, dim, -amount.lower, None)
    if amount.upper:
        above = build.slice(x, dim, 0, amount.upper)
    return below, above


# Folding a pad into what uses it.


@dataclass(frozen=True)
class Padded:
    """The input of a window op, and the padding that the op itself is to do."""

    input: SSAValue
    amounts: list[Amounts]
    """For each of the window's dimensions; never negative, no interior."""

    @property
    def pad(self) -> list[int]:
        """As Core ML's convolutions and pools take it."""
        return [n for a in self.amounts for n in (a.lower, a.upper)]


def fold_pad(op: Operation, dims: Sequence[int]) -> Padded:
    """
    The input of a convolution or pool without the pad that can be folded into it.

    That is a pad that only `op` uses, of nothing but the window's dimensions, by
    what is implied there: zeros in a convolution or average, the least value in a
    maximum.
    """
    x = op.operands[0]
    unpadded = Padded(x, [Amounts(0, 0)] * len(dims))
    if not isinstance(pad := x.owner, tcp.PadOp) or not x.has_one_use():
        return unpadded
    amounts = pad.static_amounts
    if amounts is None or not isinstance(fill := pad.fill.owner, ConstantOp):
        return unpadded
    value = fill.value
    if not isinstance(value, FloatAttr) or value.value.data != implied_fill(op):
        return unpadded
    for dim, amount in enumerate(amounts):
        if amount.interior or min(amount.lower, amount.upper) < 0:
            return unpadded
        if dim not in dims and (amount.lower, amount.upper) != (0, 0):
            return unpadded
    folded = [amounts[dim] for dim in dims]
    if isinstance(op, tcp.PoolOp) and not pool_can_fold(op, folded):
        return unpadded
    return Padded(pad.input, folded)


def implied_fill(op: Operation) -> float:
    """What the padding of Core ML's own op means."""
    return -math.inf if isinstance(op, tcp.MaxPoolOp) else 0.0


def pool_can_fold(op: tcp.PoolOp, amounts: Sequence[Amounts]) -> bool:
    """Whether every window keeps an element, and an average counts as Core ML does."""
    if any(dilation != 1 for dilation in op.dilations.get_values()):
        return False
    for amount, kernel in zip(amounts, op.kernel.get_values(), strict=True):
        if max(amount.lower, amount.upper) >= kernel:
            return False
    return not isinstance(op, tcp.AvgPoolOp) or op.uncounted in (
        [(0, 0)] * len(amounts),
        [(amount.lower, amount.upper) for amount in amounts],
    )


# Convolutions and pools.


@lowers(tcp.ConvOp)
def lower_conv(build: MilBuilder, op: tcp.ConvOp) -> SSAValue:
    """`conv` with `pad_type` custom always: its `same` is not what others call so."""
    dims = op.dims
    if dims.spatial_rank > 3:
        raise Obstacle(
            f"Core ML convolves 3 dimensions at most, not {dims.spatial_rank}",
            "split the convolution into ones of fewer dimensions",
        )
    padded = fold_pad(op, ConvDimsAttr.spatial(dims.input))
    batched = "b" in dims.input
    first = ConvDimsAttr.channels_first(dims.spatial_rank)
    x = build.transpose(
        padded.input,
        [dims.input.index(role) for role in first.input if role in dims.input],
    )
    if not batched:
        x = expand(build, x)
    kernel = build.transpose(
        op.kernel, [dims.kernel.index(role) for role in first.kernel]
    )
    result = op.result.type
    sizes = dict(zip(dims.result, result.get_shape(), strict=True))
    y = build.emit(
        "conv",
        result,
        [sizes.get(role, 1) for role in first.result],
        x=x,
        weight=kernel,
        bias=op.bias,
        strides=list(op.strides.get_values()),
        pad_type="custom",
        pad=padded.pad,
        dilations=list(op.dilations.get_values()),
        groups=op.groups.value.data,
    )
    if not batched:
        y = squeeze(build, y)
    order = [role for role in first.result if role in dims.result]
    return build.transpose(y, [order.index(role) for role in dims.result])


def expand(build: MilBuilder, x: SSAValue) -> SSAValue:
    """A batch of one."""
    type = tensor_type(x)
    return build.emit("expand_dims", type, [1, *type.get_shape()], x=x, axes=[0])


def squeeze(build: MilBuilder, x: SSAValue) -> SSAValue:
    """The one of a batch of one."""
    type = tensor_type(x)
    return build.emit("squeeze", type, type.get_shape()[1:], x=x, axes=[0])


@lowers(tcp.MaxPoolOp)
def lower_max_pool(build: MilBuilder, op: tcp.MaxPoolOp) -> SSAValue:
    if not is_native_pool(op):
        return build.total(taps(build, op, op.input), "maximum")
    return native_pool(build, op, "max_pool", fold_pad(op, op.dims.get_values()))


@lowers(tcp.AvgPoolOp)
def lower_avg_pool(build: MilBuilder, op: tcp.AvgPoolOp) -> SSAValue:
    """The mean of whole windows, times what makes it that of the elements counted."""
    if op.input_type.element_type not in (f16, f32):
        raise Obstacle(
            "Core ML averages floats only", "convert the tensor to float32 first"
        )
    elements = math.prod(op.kernel.get_values())
    exclude: bool | None = None
    if is_native_pool(op):
        padded = fold_pad(op, op.dims.get_values())
        folded = [(amount.lower, amount.upper) for amount in padded.amounts]
        exclude = op.uncounted == folded and op.divisor is None
        y = native_pool(
            build, op, "avg_pool", padded, exclude_padding_from_average=exclude
        )
    else:
        y = mean_of_all(build, op, op.input)
    if op.divisor is not None:
        return build.scale(y, np.array(elements / op.divisor.value.data))
    if exclude or not any(itertools.chain(*op.uncounted)):
        return y
    if (counts := op.counts()) is None:
        counted = mean_of_all(build, op, mask_of_counted(build, op))
        return build.binary("real_div", y, counted)
    factor = np.array(float(elements))
    for dim, along in zip(op.dims.get_values(), counts, strict=True):
        shape = [-1 if d == dim else 1 for d in range(op.input_type.get_num_dims())]
        factor = factor / np.reshape(along, shape)
    return build.scale(y, factor)


def mean_of_all(build: MilBuilder, op: tcp.AvgPoolOp, x: SSAValue) -> SSAValue:
    """The mean of all elements of each window of `x`, which has the input's shape."""
    if is_native_pool(op):
        nothing = [Amounts(0, 0)] * len(op.dims)
        return native_pool(
            build,
            op,
            "avg_pool",
            Padded(x, nothing),
            exclude_padding_from_average=False,
        )
    total = build.total(taps(build, op, x), "add")
    return build.scale(total, np.array(1 / math.prod(op.kernel.get_values())))


def mask_of_counted(build: MilBuilder, op: tcp.AvgPoolOp) -> SSAValue:
    """1 where an element of the input counts, 0 where it does not."""
    ones = build.ones_like(op.input)
    amounts = [Amounts(0, 0)] * op.input_type.get_num_dims()
    for dim, (lower, upper) in zip(op.dims.get_values(), op.uncounted, strict=True):
        amounts[dim] = Amounts(lower, upper)
    inner = crop(build, ones, [Amounts(-a.lower, -a.upper) for a in amounts])
    return native_pad(build, inner, amounts, "constant", 0.0)


def is_native_pool(op: tcp.PoolOp) -> bool:
    """Whether Core ML has this pool: floats, 1 to 3 dimensions, no dilation."""
    return (
        1 <= len(op.dims) <= 3
        and all(dilation == 1 for dilation in op.dilations.get_values())
        and op.input_type.element_type in (f16, f32)
    )


def native_pool(
    build: MilBuilder, op: tcp.PoolOp, name: str, padded: Padded, **options: Any
) -> SSAValue:
    """Core ML's own pool, of a tensor `[n, c, *window]`."""
    dims = list(op.dims.get_values())
    rank = op.input_type.get_num_dims()
    others = [dim for dim in range(rank) if dim not in dims]
    perm = [*others, *dims]
    x = build.transpose(padded.input, perm)
    shape = tensor_type(x).get_shape()
    leading = two_of(shape[: len(others)])
    x = build.reshape(x, [*leading, *shape[len(others) :]])
    result_shape = [op.result.type.get_shape()[dim] for dim in perm]
    y = build.emit(
        name,
        op.result.type,
        [*leading, *result_shape[len(others) :]],
        x=x,
        kernel_sizes=list(op.kernel.get_values()),
        strides=list(op.strides.get_values()),
        pad_type="custom",
        pad=padded.pad,
        ceil_mode=False,
        **options,
    )
    y = build.reshape(y, result_shape)
    return build.transpose(y, [perm.index(dim) for dim in range(rank)])


def two_of(sizes: Sequence[int]) -> list[int]:
    """Two sizes with as many elements as `sizes`, dynamic where any is."""
    if len(sizes) == 2:
        return list(sizes)
    if DYNAMIC_INDEX in sizes:
        return [1, DYNAMIC_INDEX]
    return [1, math.prod(sizes)]


def taps(build: MilBuilder, op: tcp.PoolOp, x: SSAValue) -> list[SSAValue]:
    """For each position in the kernel, the elements it meets, window by window."""
    result: list[SSAValue] = []
    for offsets in itertools.product(*map(range, op.kernel.get_values())):
        tap = x
        for dim, offset, kernel, stride, dilation in zip(
            op.dims.get_values(),
            offsets,
            op.kernel.get_values(),
            op.strides.get_values(),
            op.dilations.get_values(),
            strict=True,
        ):
            size = tensor_type(tap).get_shape()[dim]
            if size == DYNAMIC_INDEX:
                stop = (offset - kernel + 1) * dilation or None
            else:
                count = padding.conv_output_size(size, kernel, stride, dilation)
                stop = offset * dilation + (count - 1) * stride + 1
            tap = build.slice(tap, dim, offset * dilation, stop, stride)
        result.append(tap)
    return result


# Resampling.


@lowers(tcp.ResampleOp)
def lower_resample(build: MilBuilder, op: tcp.ResampleOp) -> SSAValue:
    """Core ML's own upsampling where it means the same, else gathers and weights."""
    if (y := native_resample(build, op)) is not None:
        return y
    x = op.input
    sizes = op.static_size.get_values()
    for i, dim in enumerate(op.dims.get_values()):
        x = resample_dimension(build, op, x, i, dim, sizes[i])
    return x


def native_resample(build: MilBuilder, op: tcp.ResampleOp) -> SSAValue | None:
    """
    Upsampling of the last one or two dimensions, or None where no op does the same.

    Nearest agrees where it repeats every element as often. Bilinear agrees where the
    factors are the ratio of the sizes, which may be dynamic if these are whole numbers.
    """
    type = op.input_type
    rank = type.get_num_dims()
    dims = list(op.dims.get_values())
    if rank < 3 or type.element_type not in (f16, f32) or len(dims) > 2:
        return None
    if dims != list(range(rank - len(dims), rank)):
        return None
    mode, coordinates = op.mode.data, op.coordinates.data
    shape = op.result.type.get_shape()
    factors = [whole_factor(op, i) for i in range(len(dims))]
    if None not in factors:
        height, width = [1, *factors][-2:]
        scale = {"scale_factor_height": height, "scale_factor_width": width}
        if mode is ResampleMode.NEAREST and all(
            repeats(op, i, number) for i, number in enumerate(factors) if number
        ):
            name = "upsample_nearest_neighbor"
            return build.emit(name, type, shape, x=op.input, **scale)
        if mode is ResampleMode.LINEAR and coordinates is HALF_PIXEL:
            name = "upsample_bilinear"
            return build.emit(
                name, type, shape, x=op.input, align_corners=False, **scale
            )
    if mode is not ResampleMode.LINEAR or coordinates not in SAMPLING_MODES:
        return None
    if DYNAMIC_INDEX in (*shape[-2:], *type.get_shape()[-2:]):
        return None
    if any(factor(op, i) is None for i in range(len(dims))):
        return None
    return build.emit(
        "resize_bilinear",
        type,
        shape,
        x=op.input,
        target_size_height=shape[-2],
        target_size_width=shape[-1],
        sampling_mode=SAMPLING_MODES[coordinates],
    )


HALF_PIXEL, ALIGN_CORNERS = Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS
SAMPLING_MODES = {
    HALF_PIXEL: "UNALIGN_CORNERS",
    ALIGN_CORNERS: "STRICT_ALIGN_CORNERS",
}


def factor(op: tcp.ResampleOp, i: int) -> float | None:
    """How many elements there are for each one; None where sizes and scale differ."""
    scale = None if op.scales is None else op.scales.get_values()[i]
    size = op.input_type.get_shape()[op.dims.get_values()[i]]
    new_size = op.static_size.get_values()[i]
    if DYNAMIC_INDEX in (size, new_size):
        return scale
    return new_size / size if scale is None or new_size == size * scale else None


def whole_factor(op: tcp.ResampleOp, i: int) -> int | None:
    """The factor where it is a whole number."""
    number = factor(op, i)
    return int(number) if number is not None and number.is_integer() else None


def repeats(op: tcp.ResampleOp, i: int, times: int) -> bool:
    """
    Whether nearest resampling takes every element that often, in order.

    PyTorch's coordinates are float32: of 41 it takes some elements 40 or 42 times.
    """
    size = op.input_type.get_shape()[op.dims.get_values()[i]]
    size = LARGE if size == DYNAMIC_INDEX else size
    scale = None if op.scales is None else op.scales.get_values()[i]
    ((positions, _),) = resampling.taps(
        size, size * times, op.mode.data, op.coordinates.data, scale
    )
    return np.array_equal(positions, np.arange(size).repeat(times))


LARGE = 2**13
"""A dynamic size is taken to be no larger where that has to be known."""


def resample_dimension(
    build: MilBuilder, op: tcp.ResampleOp, x: SSAValue, i: int, dim: int, new_size: int
) -> SSAValue:
    """The weighted sum of the elements around each coordinate, along one dimension."""
    type = tensor_type(x)
    size = type.get_shape()[dim]
    if DYNAMIC_INDEX in (size, new_size):
        raise Obstacle(
            f"Core ML resamples sizes that are dynamic by whole factors only, and "
            f"only the last two dimensions; this is {op.mode.data.value}, "
            f"{op.coordinates.data.value}",
            "make the sizes static, or use a whole scale_factor",
        )
    scale = None if op.scales is None else op.scales.get_values()[i]
    shape = [*type.get_shape()[:dim], new_size, *type.get_shape()[dim + 1 :]]
    parts: list[SSAValue] = []
    for index, weight in resampling.taps(
        size, new_size, op.mode.data, op.coordinates.data, scale
    ):
        part = build.emit(
            "gather", type, shape, x=x, indices=index.astype(np.int32), axis=dim
        )
        if weight is not None:
            along = [-1 if d == dim else 1 for d in range(len(shape))]
            part = build.scale(part, weight.reshape(along))
        parts.append(part)
    return build.total(parts, "add")


@dataclass(frozen=True)
class ConvertTcpToMilPass(ModulePass):
    """Lower `tcp` ops to Core ML's."""

    name = "convert-tcp-to-mil"

    target: str = "iOS17"
    """The oldest system the program is to run on: iOS15, iOS16, iOS17, iOS18, ..."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = mil.resolve_target(self.target)
        problems: list[Problem] = []
        # Users first, so that a convolution still sees the pad that it may fold.
        for old in reversed([old for old in op.walk() if type(old) in LOWERINGS]):
            if isinstance(old, tcp.PadOp) and old.result.first_use is None:
                continue  # folded
            try:
                check_types(old)
                new = LOWERINGS[type(old)](MilBuilder(old, target), old)
            except Obstacle as error:
                problems.append(problem(old, error.message, error.hint))
                continue
            except VerifyException as error:
                problems.append(problem(old, str(error), None))
                continue
            new.name_hint = old.results[0].name_hint
            old.results[0].replace_all_uses_with(new)
            old.detach()
            old.erase()
        if problems:
            raise UnsupportedError(problems[::-1])
        region_dce(op.body)


def check_types(op: Operation) -> None:
    """Raise where a tensor is of a type that Core ML does not have."""
    for value in (*op.operands, *op.results):
        if not isa(type := value.type, TensorType[Attribute]):
            continue
        if type.element_type not in mil.ELEMENT_TYPES:
            raise Obstacle(
                f"Core ML has no {type.element_type}",
                "convert the model first, with model.float()",
            )
        if type.get_num_dims() > mil.MAX_RANK:
            raise Obstacle(
                f"Core ML's tensors have rank {mil.MAX_RANK} at most, this is {type}",
                "join dimensions before it",
            )
        if 0 in type.get_shape():
            raise Obstacle(
                f"Core ML has no empty tensors, this is {type}", "leave it out"
            )


def problem(op: Operation, message: str, hint: str | None) -> Problem:
    types = [str(type) for type in op.operand_types if isa(type, TensorType[Attribute])]
    made_from = "" if origin(op) == op.name else f"{origin(op)}, which is "
    return Problem(
        f"{made_from}'{op.name}' of {', '.join(types)}: {message}",
        SourceLocation.of(op.location),
        hint,
    )
