"""Upsampling: PyTorch's modes as `tcp.resample`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.tcp import Amount, Coordinates, ResampleMode, tensor_type
from padc.ir.torch import FloatType, IntType
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.operand_checks import check_length
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, last_dims, lowers

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
def lower_upsample(call: TcpCall) -> SSAValue | None:
    """`upsample(x, size, scales) -> tcp.resample(x, size)`."""
    name = call.name.removeprefix("aten.").removesuffix(".vec")
    mode, coordinates = UPSAMPLING[name]
    antialias = name.endswith("_aa")
    rank = int(name.removesuffix("_aa")[-2])
    vector = call.name.endswith(".vec")
    x = call.tensor("input" if vector else "self")
    type = tensor_type(x)
    if mode is not ResampleMode.NEAREST and not isinstance(type.element_type, AnyFloat):
        return None  # PyTorch interpolates bytes in fixed point.
    if "align_corners" in call.op.schema.positions and call.boolean("align_corners"):
        coordinates = Coordinates.ALIGN_CORNERS
    factors = scale_factors(call, rank, vector)
    dims = last_dims(x, rank)
    if vector and call.is_none("output_size"):
        sizes = [
            scaled_size(call, x, dim, factor)
            for dim, factor in zip(dims, factors, strict=True)
        ]
    else:
        sizes = call.amounts("output_size")
    check_length(sizes, rank, "output_size")
    if (mode, coordinates) == NEAREST and rank == 2:
        factors = nearest_factors(type.get_shape()[2:], sizes, factors)
    # PyTorch ignores scales with align_corners.
    given = None if coordinates is Coordinates.ALIGN_CORNERS else factors or None
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


def scale_factors(call: TcpCall, rank: int, vector: bool) -> list[float]:
    """The result elements per input element; None if the sizes decide."""
    if vector:
        scales = call.constant("scale_factors")
    else:
        names = ("scales_d", "scales_h", "scales_w")[-rank:]
        scales = [call.constant(name) for name in (names if rank > 1 else ["scales"])]
    given = scales if isinstance(scales, list) else []
    factors = [factor for factor in given if isinstance(factor, float)]
    if factors and len(factors) != rank:
        raise Obstacle(f"scales {scales} for {rank} dimensions; give all or none")
    return factors


def nearest_factors(
    sizes: Sequence[int], new_sizes: Sequence[Amount], factors: Sequence[float]
) -> list[float]:
    """
    The factors that PyTorch uses for nearest upsampling in two dimensions.

    For small results the ratios of the sizes replace the factors if they are 1 or 2:
    `nearest_idx` and `_use_vectorized_kernel_cond_2d` of PyTorch's UpSampleKernel.cpp.
    """
    known = [size for size in new_sizes if isinstance(size, int)]
    if DYNAMIC_INDEX in sizes or len(known) < 2 or sum(known) > 128:
        return list(factors)
    return [
        new_size / size if new_size in (size, 2 * size) else factor
        for size, new_size, factor in zip(sizes, known, factors)
    ]


def scaled_size(call: TcpCall, x: SSAValue, dim: int, factor: float) -> Amount:
    """`int(size * factor)`, `compute_output_size` of PyTorch's UpSample.cpp."""
    build = AtenBuilder(call.op)
    size = build.size(x, dim)
    if isinstance(size, int):
        return int(size * factor)
    if factor.is_integer():
        whole = build.emit("aten.mul.int", IntType(), {"a": size, "b": int(factor)})
        return call.amount(whole)
    real = build.emit("aten.Float.Scalar", FloatType(), {"a": size})
    scaled = build.emit("aten.mul.float", FloatType(), {"a": real, "b": factor})
    return call.amount(build.emit("aten.Int.float", IntType(), {"a": scaled}))
