"""Upsampling: each of PyTorch's kinds, by the coordinates that it takes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    f64,
    i64,
)
from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.tcp import Amount, Coordinates, ResampleMode, tensor_type
from padc.passes.aten_builder import LARGEST_SIZE, AtenBuilder
from padc.passes.torch_to_tcp.call import Lowered, last_dims, lowers

NEAREST = (ResampleMode.NEAREST, Coordinates.ASYMMETRIC)
NEAREST_EXACT = (ResampleMode.NEAREST, Coordinates.HALF_PIXEL)
LINEAR = (ResampleMode.LINEAR, Coordinates.HALF_PIXEL)
CUBIC = (ResampleMode.CUBIC, Coordinates.HALF_PIXEL)
LANCZOS = (ResampleMode.LANCZOS, Coordinates.HALF_PIXEL)
UPSAMPLING: dict[str, tuple[ResampleMode, Coordinates]] = {
    "upsample_nearest1d": NEAREST,
    "upsample_nearest2d": NEAREST,
    "upsample_nearest3d": NEAREST,
    "_upsample_nearest_exact1d": NEAREST_EXACT,
    "_upsample_nearest_exact2d": NEAREST_EXACT,
    "_upsample_nearest_exact3d": NEAREST_EXACT,
    "upsample_linear1d": LINEAR,
    "upsample_bilinear2d": LINEAR,
    "upsample_trilinear3d": LINEAR,
    "upsample_bicubic2d": CUBIC,
    "_upsample_bilinear2d_aa": LINEAR,
    "_upsample_bicubic2d_aa": CUBIC,
    "_upsample_lanczos2d_aa": LANCZOS,
}


@lowers(
    *(f"aten.{name}" for name in UPSAMPLING),
    *(f"aten.{name}.vec" for name in UPSAMPLING),
)
def lower_upsample(call: Lowered) -> SSAValue | None:
    """`upsample(x, size, scales) -> tcp.resample(x, size)`."""
    name = call.op.schema.name.removeprefix("aten.").removesuffix(".vec")
    mode, coordinates = UPSAMPLING[name]
    antialias = name.endswith("_aa")
    rank = int(name.removesuffix("_aa")[-2])
    vector = call.op.schema.name.endswith(".vec")
    x = call.tensor("input" if vector else "self")
    type = tensor_type(x)
    if mode is not ResampleMode.NEAREST and not isinstance(type.element_type, AnyFloat):
        return None  # PyTorch interpolates bytes in fixed point.
    if "align_corners" in call.op.schema.positions and call.boolean("align_corners"):
        coordinates = Coordinates.ALIGN_CORNERS
    factors = scale_factors(call, rank, vector)
    # PyTorch takes a scale for what it is only where corners do not align.
    given = None if coordinates is Coordinates.ALIGN_CORNERS else factors or None
    dims = last_dims(x, rank)
    if vector and call.is_none("output_size"):
        sizes = [
            scaled_size(call, x, dim, factor)
            for dim, factor in zip(dims, factors, strict=True)
        ]
    else:
        sizes = call.amounts("output_size")
    return call.insert(
        tcp.ResampleOp(
            x,
            sizes,
            dims,
            mode,
            coordinates,
            given,
            call.result_type(),
            antialias=antialias,
        )
    )


def scale_factors(call: Lowered, rank: int, vector: bool) -> list[float]:
    """The result's elements for one of the input's; none where sizes decide."""
    if vector:
        scales = call.constant("scale_factors")
    else:
        names = ("scales_d", "scales_h", "scales_w")[-rank:]
        scales = [call.constant(name) for name in (names if rank > 1 else ["scales"])]
    given = scales if isinstance(scales, list) else []
    factors = [factor for factor in given if isinstance(factor, float)]
    if factors and len(factors) != rank:
        raise ValueError(f"scales {scales} for {rank} dimensions; give all or none")
    return factors


def scaled_size(call: Lowered, x: SSAValue, dim: int, factor: float) -> Amount:
    """`floor(size * factor)`, `compute_output_size` of PyTorch's UpSample.cpp."""
    build = AtenBuilder(call.op)
    size = build.size(x, dim)
    if isinstance(size, int):
        return int(size * factor)
    if (ratio := ratio_of(factor)) is not None:
        size = build.integer("aten.mul", size, ratio.numerator)
        size = build.integer("aten.floordiv", size, ratio.denominator)
        assert isinstance(size, SSAValue)
        return call.amount(size)
    index = call.amount(size)
    assert isinstance(index, SSAValue)
    real = call.insert(arith.SIToFPOp(call.insert(arith.IndexCastOp(index, i64)), f64))
    times = call.insert(tcp.fill_constant(factor, f64))
    scaled = call.insert(arith.MulfOp(real, times))
    return call.insert(
        arith.IndexCastOp(call.insert(arith.FPToSIOp(scaled, i64)), IndexType())
    )


def ratio_of(factor: float) -> Fraction | None:
    """
    A ratio of integers by which all sizes up to `LARGEST_SIZE` become the same.

    That is the largest of a size and what it becomes, or none: PyTorch multiplies in
    float64, where 100 * 0.29 is less than 29.
    """
    sizes = np.arange(1, LARGEST_SIZE + 1)
    scaled = np.floor(sizes * factor).astype(np.int64)
    i = np.argmax(scaled / sizes)
    ratio = Fraction(int(scaled[i]), int(sizes[i]))
    again = sizes * ratio.numerator // ratio.denominator
    fits = ratio.numerator * LARGEST_SIZE < 2**31
    return ratio if fits and np.array_equal(scaled, again) else None
