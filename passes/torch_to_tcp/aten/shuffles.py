"""Ops that only move elements, in cases that Core ML's own op does not take."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat
from xdsl.ir import SSAValue

from padc.ir import mil
from padc.ir.tcp import tensor_type
from padc.passes.aten.aten_call import known
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, lowers


@lowers("aten.roll")
def lower_roll(call: TcpCall) -> SSAValue | None:
    """
    `roll(x, n) -> cat([x[-n:], x[:-n]])`; without dims, of the flattened tensor.

    A gather if the shift or the size is dynamic. Targets have rows for dynamic sizes,
    Core ML's for five dimensions at most.
    """
    build, x = AtenBuilder(call.op), call.tensor("self")
    shape = tensor_type(x).get_shape()
    if not shape:
        return x
    dims = call.integers("dims", 1)
    shifts = [known(shift) for shift in call.elements("shifts")]
    computed = not all(isinstance(shift, int) for shift in shifts)
    is_dynamic = DYNAMIC_INDEX in ([shape[dim] for dim in dims] or shape)
    if is_dynamic and not computed and len(shape) <= mil.MAX_RANK:
        return None
    sizes = build.sizes(x)
    if not dims:
        x, dims = build.flatten(x, 0, len(shape) - 1), [0]
    for dim, shift in zip(dims, shifts, strict=True):
        x = rolled(build, x, dim % tensor_type(x).get_num_dims(), shift)
    return build.reshape(x, sizes)


def rolled(build: AtenBuilder, x: SSAValue, dim: int, shift: Integer) -> SSAValue:
    """`x` with each element moved by `shift` along `dim`, around the end."""
    size = build.size(x, dim)
    if not isinstance(shift, int) or not isinstance(size, int):
        first, end = -build.wrap(shift), build.wrap(size) - build.wrap(shift)
        places = build.arange(first.value, end.value)
        places = build.elementwise("remainder.Scalar", places, other=size)
        return build.index_select(x, dim, places)
    if size == 0 or shift % size == 0:
        return x
    tail = build.slice(x, dim, -(shift % size), None)
    return build.cat([tail, build.slice(x, dim, 0, -(shift % size))], dim)


@lowers("aten.pixel_shuffle")
def lower_pixel_shuffle(call: TcpCall) -> SSAValue | None:
    """`[.., C * r * r, H, W] -> [.., C, H * r, W * r]`, if Core ML's op cannot."""
    build, x = AtenBuilder(call.op), call.tensor("self")
    factor = call.constant("upscale_factor")
    assert isinstance(factor, int)
    if is_native(x):
        return None
    *batch, channels, height, width = build.sizes(x)
    channels = (build.wrap(channels) // factor**2).value
    planes = build.product([*batch, channels])
    x = build.reshape(x, [planes, factor, factor, height, width])
    height, width = (build.mul(size, factor) for size in (height, width))
    x = build.permute(x, [0, 3, 1, 4, 2])
    return build.reshape(x, [*batch, channels, height, width])


@lowers("aten.pixel_unshuffle")
def lower_pixel_unshuffle(call: TcpCall) -> SSAValue | None:
    """`[.., C, H * r, W * r] -> [.., C * r * r, H, W]`, if Core ML's op cannot."""
    build, x = AtenBuilder(call.op), call.tensor("self")
    factor = call.constant("downscale_factor")
    assert isinstance(factor, int)
    if is_native(x):
        return None
    *batch, channels, height, width = build.sizes(x)
    height, width = ((build.wrap(size) // factor).value for size in (height, width))
    planes = build.product([*batch, channels])
    x = build.reshape(x, [planes, height, factor, width, factor])
    x = build.permute(x, [0, 2, 4, 1, 3])
    channels = build.mul(channels, factor**2)
    x = build.reshape(x, [*batch, channels, height, width])
    # PyTorch computes the channels, even those that are known, from all sizes.
    return build.refined(x, call.result_type())


def is_native(x: SSAValue) -> bool:
    """Whether Core ML's `pixel_shuffle` and `pixel_unshuffle` take `x`."""
    type = tensor_type(x)
    return type.get_num_dims() == 4 and isinstance(type.element_type, AnyFloat)
