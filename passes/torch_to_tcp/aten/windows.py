"""
Windows as columns (`im2col`, `nn.Unfold`) and their sum (`col2im`, `nn.Fold`).

Both handle one dimension at a time, so a kernel of k x k elements takes 2k slices or
pads, not k * k, and no tensor has more than 5 dimensions: at each step, dim 1 holds the
channels and the positions in the kernel along the dimensions that are done.
"""

from __future__ import annotations

from functools import reduce

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.arithmetic import clamp
from padc.ir.padding import Amounts, conv_output_size
from padc.ir.tcp import Amount, tensor_type
from padc.passes.aten.aten_call import known
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, lowers

ARGUMENTS = ("kernel_size", "stride", "dilation", "padding")
LONGEST = 4096
"""The most rows or columns of a kernel, each of which is a slice or a pad."""


@lowers("aten.im2col")
def lower_im2col(call: TcpCall) -> SSAValue:
    """
    The windows of `[N, C, H, W]` as `[N, C * kernel elements, windows]`.

    A pad, then a slice of each dimension for each position in the kernel.
    """
    build, x = AtenBuilder(call.op), call.tensor("self")
    options = options_of(call)
    x = call.pad(x, 0, [Amounts(p, p) for *_, p in options])
    is_batched = tensor_type(x).get_num_dims() == 4
    x = x if is_batched else build.unsqueeze(x, 0)
    for dim, (kernel, stride, dilation, _) in enumerate(options, 2):
        extent = dilation * (kernel - 1)
        taps = [
            # The end counts from the last element, which is right for every size.
            build.slice(x, dim, i * dilation, i * dilation - extent or None, stride)
            for i in range(kernel)
        ]
        x = build.flatten(build.stack(taps, 2), 1, 2)
    x = build.flatten(x, 2, 3)
    return x if is_batched else build.select(x, 0, 0)


@lowers("aten.col2im")
def lower_col2im(call: TcpCall) -> SSAValue:
    """
    The sum of windows `[N, C * kernel elements, windows]` as an image `[N, C, H, W]`.

    The transpose of `lower_im2col`: for each position in the kernel, a pad spreads the
    elements `stride` apart, moves them into place, and crops by PyTorch's padding.
    """
    build, x = AtenBuilder(call.op), call.tensor("self")
    sizes = [known(size) for size in call.elements("output_size")]
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    options = options_of(call)
    is_batched = tensor_type(x).get_num_dims() == 3
    x = x if is_batched else build.unsqueeze(x, 0)
    windows = [
        count_windows(build, size, *option)
        for size, option in zip(sizes, options, strict=True)
    ]
    x = build.reshape(x, [build.size(x, 0), build.size(x, 1), *windows])
    for dim in (3, 2):
        x = add_up(build, call, x, dim, sizes[dim - 2], *options[dim - 2])
    return x if is_batched else build.select(x, 0, 0)


def options_of(call: TcpCall) -> list[tuple[int, int, int, int]]:
    """The `ARGUMENTS` of each of the two dimensions."""
    options = list(zip(*(call.integers(name, 2) for name in ARGUMENTS), strict=True))
    if (longest := max(kernel for kernel, *_ in options)) > LONGEST:
        raise Obstacle(f"a kernel of {longest} rows or columns", f"use up to {LONGEST}")
    return options


def count_windows(
    build: AtenBuilder,
    size: Integer,
    kernel: int,
    stride: int,
    dilation: int,
    padding: int,
) -> Integer:
    """The number of windows along a dimension of an image."""
    window = kernel, stride, dilation, padding, padding
    return conv_output_size(build.wrap(size), *window).value


def add_up(
    build: AtenBuilder,
    call: TcpCall,
    x: SSAValue,
    dim: int,
    size: Integer,
    kernel: int,
    stride: int,
    dilation: int,
    crop: int,
) -> SSAValue:
    """`[N, C * kernel, .., windows, ..]` to `[N, C, .., size, ..]`, at `dim`."""
    batch, channels, *others = (build.size(x, i) for i in range(4))
    count = others[dim - 2]
    channels = (build.wrap(channels) // kernel).value
    x = build.reshape(x, [batch, channels, kernel, *others])
    if stride == kernel and dilation == 1:
        # The windows are side by side.
        order = [d for d in range(5) if d != 2]
        order.insert(dim + 1, 2)
        x = build.flatten(build.permute(x, order), dim, dim + 1)
        end = build.wrap(size) + crop - build.wrap(count) * kernel
        return pad(call, x, dim, -crop, end.value)
    spread = build.wrap(count) * stride - (stride - 1)
    places = [i * dilation - crop for i in range(kernel)]
    seen = list(range(kernel))
    if isinstance(spread.value, int) and isinstance(size, int):
        # A position that is in the padding for all windows adds nothing.
        seen = [i for i in seen if -spread.value < places[i] < size] or [0]
    terms: list[SSAValue] = []
    for i in seen:
        lower = clamp(places[i], -spread, build.wrap(size))
        upper = build.wrap(size) - spread - lower
        tap = build.select(x, 2, i)
        terms.append(pad(call, tap, dim, lower.value, upper.value, stride - 1))
    type = tensor_type(terms[0])
    add = "logical_or" if type.element_type == i1 else "add.Tensor"
    return reduce(lambda a, b: build.call(add, type, self=a, other=b), terms)


def pad(
    call: TcpCall,
    x: SSAValue,
    dim: int,
    lower: Integer,
    upper: Integer,
    interior: int = 0,
) -> SSAValue:
    """Pad `x` with zeros along `dim`."""
    if (lower, upper, interior) == (0, 0, 0):
        return x
    type = tensor_type(x)
    rank = type.get_num_dims()

    def along(amount: Integer) -> list[Amount]:
        index = amount if isinstance(amount, int) else call.amount(amount)
        return [index if d == dim else 0 for d in range(rank)]

    fill = call.insert(tcp.fill_constant(0, type.element_type))
    interiors = [interior if d == dim else 0 for d in range(rank)]
    return call.insert(tcp.PadOp(x, fill, along(lower), along(upper), interiors))
