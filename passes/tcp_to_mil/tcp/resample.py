"""Resampling: Core ML's upsampling if it computes the same, otherwise gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f16, f32
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir import resampling, tcp
from padc.ir.tcp import Amount, Coordinates, ResampleMode, tensor_type
from padc.ir.torch import (
    AtenOp,
    ConstantIntOp,
    FromBuiltinTensorOp,
    ToBuiltinTensorOp,
)
from padc.passes.aten.builder import LARGEST_SIZE, Integer, integer_of
from padc.passes.common.mil_builder import MilBuilder, product
from padc.passes.tcp_to_mil.tcp.dynamic_resample import resample_dynamic
from padc.passes.tcp_to_mil.tcp.dynamic_windows import resample_windows
from padc.passes.tcp_to_mil.tcp.mil_lowering import lowers


@lowers(tcp.ResampleOp)
def lower_resample(build: MilBuilder, op: tcp.ResampleOp) -> SSAValue:
    """Core ML's upsampling if it computes the same, otherwise gathers and weights."""
    if (y := native_resample(build, op)) is not None:
        return y
    # PyTorch rounds to float16 once, at the end.
    is_half = op.input_type.element_type == f16 and (
        op.mode.data is not ResampleMode.NEAREST
    )
    x = cast(build, op.input, f32) if is_half else op.input
    dims, new_sizes = op.dims.get_values(), list(map(new_size_of, op.sizes))
    if op.mode.data is ResampleMode.AREA and set(new_sizes) == {1}:
        x = mean(build, x, dims)
    else:
        for i, (dim, new_size) in enumerate(zip(dims, new_sizes, strict=True)):
            x = resample_dimension(build, op, x, i, dim, new_size)
    return cast(build, x, f16) if is_half else x


def new_size_of(size: Amount) -> Integer:
    """The size as a number or a computed value; raises Obstacle if it is neither."""
    if (new_size := integer_of(size)) is None:
        raise Obstacle(
            "no integer arithmetic of ATen computes the new size",
            "give a size that is computed by +, -, * and //",
        )
    return new_size


def mean(build: MilBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """The mean over `dims`, which stay, with size 1."""
    type = tensor_type(x)
    shape = [1 if i in dims else size for i, size in enumerate(type.get_shape())]
    return build.emit("reduce_mean", type, shape, x=x, axes=list(dims), keep_dims=True)


def cast(build: MilBuilder, x: SSAValue, element_type: Attribute) -> SSAValue:
    shape = tensor_type(x).get_shape()
    type = TensorType(element_type, shape)
    name = "fp16" if element_type == f16 else "fp32"
    return build.emit("cast", type, shape, x=x, dtype=name)


def native_resample(build: MilBuilder, op: tcp.ResampleOp) -> SSAValue | None:
    """
    Upsampling of the last one or two dimensions; None if no op computes the same.

    Nearest agrees if it repeats every element equally often. Bilinear agrees if the
    factors are the ratios of the sizes; whole factors allow dynamic sizes.
    """
    type = op.input_type
    rank = type.get_num_dims()
    dims = list(op.dims.get_values())
    if rank < 3 or type.element_type not in (f16, f32) or len(dims) > 2:
        return None
    if dims != list(range(rank - len(dims), rank)):
        return None
    mode, coordinates = op.mode.data, op.coordinates.data
    if op.antialias is not None:
        return None
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
        is_aligned = coordinates is ALIGN_CORNERS and DYNAMIC_INDEX in shape[-2:]
        if mode is ResampleMode.LINEAR and (is_aligned or coordinates is HALF_PIXEL):
            name = "upsample_bilinear"
            return build.emit(
                name, type, shape, x=op.input, align_corners=is_aligned, **scale
            )
    if mode is not ResampleMode.LINEAR or coordinates not in RESIZE_SAMPLING_MODES:
        return None
    if DYNAMIC_INDEX in shape[-2:] or not all(
        op.sampling(i).scale is None or factor(op, i) is not None
        for i in range(len(dims))
    ):
        return None
    return build.emit(
        "resize_bilinear",
        type,
        shape,
        x=op.input,
        target_size_height=shape[-2],
        target_size_width=shape[-1],
        sampling_mode=RESIZE_SAMPLING_MODES[coordinates],
    )


SIZE, TIMES = "aten.size.int", "aten.mul.int"
HALF_PIXEL, ALIGN_CORNERS = Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS
RESIZE_SAMPLING_MODES = {
    HALF_PIXEL: "UNALIGN_CORNERS",
    ALIGN_CORNERS: "STRICT_ALIGN_CORNERS",
}


def factor(op: tcp.ResampleOp, i: int) -> float | None:
    """Result elements per input element; None if sizes and scale disagree."""
    scale = op.sampling(i).scale
    size = op.input_type.get_shape()[op.dims.get_values()[i]]
    new_size = op.static_size.get_values()[i]
    if DYNAMIC_INDEX in (size, new_size):
        return written_factor(op, i) if scale is None else scale
    return new_size / size if scale is None or new_size == size * scale else None


def written_factor(op: tcp.ResampleOp, i: int) -> float | None:
    """The `k` of a new size that is written as the input's size times `k`."""
    match integer_of(op.sizes[i]):
        case SSAValue(owner=AtenOp() as product) if product.schema.name == TIMES:
            size, times = product.operands
        case _:
            return None
    match size.owner, times.owner:
        case AtenOp() as old, ConstantIntOp() as factor if old.schema.name == SIZE:
            x, dim = old.arg("self"), old.constant("dim")
            is_same = without_cast(x) is without_cast(op.input)
            if is_same and dim == op.dims.get_values()[i]:
                return float(factor.value.value.data)
        case _:
            pass
    return None


def without_cast(x: SSAValue) -> SSAValue:
    """The value that is cast between torch's and MLIR's tensors to give `x`."""
    if isinstance(op := x.owner, FromBuiltinTensorOp | ToBuiltinTensorOp):
        return without_cast(op.operand)
    return x


def whole_factor(op: tcp.ResampleOp, i: int) -> int | None:
    """The factor if it is a whole number, otherwise None."""
    number = factor(op, i)
    return int(number) if number is not None and number.is_integer() else None


def repeats(op: tcp.ResampleOp, i: int, times: int) -> bool:
    """
    Whether nearest resampling repeats every element that often, in order.

    PyTorch's coordinates are float32: with factor 41, it repeats some 40 or 42 times.
    """
    size = op.input_type.get_shape()[op.dims.get_values()[i]]
    size = LARGEST_SIZE if size == DYNAMIC_INDEX else size
    ((positions, _),) = resampling.taps(size, size * times, op.sampling(i))
    return np.array_equal(positions, np.arange(size).repeat(times))


def resample_dimension(
    build: MilBuilder,
    op: tcp.ResampleOp,
    x: SSAValue,
    i: int,
    dim: int,
    new_size: Integer,
) -> SSAValue:
    """
    The weighted sum of the elements around each coordinate, along one dimension.

    One gather reads all of them. Core ML's sums of products, `matmul` and `conv`, would
    give NaN for an infinite element with weight 0.
    """
    type, sampling = tensor_type(x), op.sampling(i)
    sizes = list(type.get_shape())
    before, size, after = sizes[:dim], sizes[dim], sizes[dim + 1 :]
    if sampling.mode is ResampleMode.AREA and new_size == 1:
        return mean(build, x, [dim])
    if size == DYNAMIC_INDEX or not isinstance(new_size, int):
        is_average = sampling.antialias or sampling.mode is ResampleMode.AREA
        resample = resample_windows if is_average else resample_dynamic
        return resample(op, x, dim, new_size, sampling)
    if [*before, *after].count(DYNAMIC_INDEX) > 1:
        return resample_dynamic(op, x, dim, new_size, sampling)
    taps = resampling.taps(size, new_size, sampling)
    positions = np.stack([position for position, _ in taps], -1).astype(np.int32)
    weights = [weight for _, weight in taps if weight is not None]
    if not weights:
        shape = [*before, new_size, *after]
        return gather(build, x, positions.ravel(), dim, shape)
    first, last = product(before), product(after)
    flat = build.reshape(x, [first, size, last])
    shape = [first, positions.size, last]
    gathered = gather(build, flat, positions.ravel(), 1, shape)
    apart = build.reshape(gathered, [first, *positions.shape, last])
    weighted = build.scale(apart, np.stack(weights, -1)[..., None])
    y = build.emit(
        "reduce_sum",
        type,
        [first, new_size, last],
        x=weighted,
        axes=[2],
        keep_dims=False,
    )
    return build.reshape(y, [*before, new_size, *after])


def gather(
    build: MilBuilder,
    x: SSAValue,
    positions: npt.NDArray[np.int32],
    dim: int,
    shape: Sequence[int],
) -> SSAValue:
    """The elements at these positions along `dim`."""
    type = tensor_type(x)
    return build.emit("gather", type, shape, x=x, indices=positions, axis=dim)
