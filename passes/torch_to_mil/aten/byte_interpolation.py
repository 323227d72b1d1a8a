"""Interpolations that `tcp` does not compute: those of bytes."""

from __future__ import annotations

from typing import NoReturn

from padc.errors import Obstacle
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers

NAMES = (
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
    *("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
)


@lowers(*(f"aten.{name}{overload}" for name in NAMES for overload in ("", ".vec")))
def lower_interpolation(call: MilCall) -> NoReturn:
    raise Obstacle(
        "PyTorch interpolates bytes in fixed point, which Core ML does not have",
        "interpolate floats: x.float()",
    )
