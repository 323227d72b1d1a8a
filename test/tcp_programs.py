# pyright: basic
"""Random `tcp` programs, mostly of one op, their inputs, and their tolerances."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from choices import Choices
from torch import Tensor
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from padc.ir import tcp
from padc.ir.padding import Amounts, conv_output_size
from padc.ir.tcp import (
    ConvDimsAttr,
    Coordinates,
    GridPadding,
    ResampleMode,
)

UI8 = IntegerType(8, Signedness.UNSIGNED)
ELEMENT_TYPES = {
    torch.float32: f32,
    torch.float64: f64,
    torch.float16: f16,
    torch.bfloat16: bf16,
    torch.int8: i8,
    torch.int16: i16,
    torch.int32: i32,
    torch.int64: i64,
    torch.uint8: UI8,
    torch.bool: i1,
}
FLOATS = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
SPECIALS = (math.nan, math.inf, -math.inf)


@dataclass
class Draw(Choices):
    """Random choices, and the inputs of the program drawn so far."""

    random: random.Random
    inputs: list[Tensor | int] = field(default_factory=list)
    types: list[Attribute] = field(default_factory=list)
    FACTOR: ClassVar[int] = 13

    def sizes(self, rank: int, most: int) -> list[int]:
        """Sizes of dimensions, seldom 0."""
        return [self.integer(min(1, self.integer(0, 20)), most) for _ in range(rank)]

    def special(self, x: Tensor) -> Tensor:
        """`x` with infinities and NaN in some places."""
        if x.is_floating_point() and x.numel() > 0:
            for _ in range(self.integer(0, 3)):
                x.view(-1)[self.integer(0, x.numel() - 1)] = self.choice(SPECIALS)
        return x

    def tensor(self, x: Tensor, dynamic: Sequence[bool] | None = None) -> int:
        """Add an input, some of whose sizes are dynamic; its number."""
        if dynamic is None:
            dynamic = self.dynamic(x.dim())
        shape = [
            DYNAMIC_INDEX if is_dynamic else size
            for size, is_dynamic in zip(x.shape, dynamic, strict=True)
        ]
        self.inputs.append(x)
        self.types.append(TensorType(ELEMENT_TYPES[x.dtype], shape))
        return len(self.inputs) - 1

    def dynamic(self, rank: int) -> list[bool]:
        """Which sizes are dynamic: in half of the programs none."""
        often = self.choice([0.0, 0.0, 0.4, 1.0])
        return [self.random.random() < often for _ in range(rank)]

    def amount(self, amount: int, often: float) -> Callable[[Sequence[SSAValue]], Any]:
        """An amount, either static or an input."""
        if self.random.random() >= often:
            return lambda args: amount
        self.inputs.append(amount)
        self.types.append(IndexType())
        number = len(self.inputs) - 1
        return lambda args: args[number]

    def program(self, make: Callable[[Sequence[SSAValue]], Operation]) -> ModuleOp:
        """The program whose only op `make` builds."""
        block = Block(arg_types=self.types)
        with ImplicitBuilder(block):
            result = make(block.args).results[0]
            ReturnOp(result)
        function = FuncOp("main", (self.types, [result.type]), Region(block))
        module = ModuleOp([function])
        module.verify()
        return module


def sized(x: SSAValue, sizes: dict[int, int]) -> TensorType:
    """The type of `x` with other sizes in its static dimensions."""
    type = tcp.tensor_type(x)
    shape = list(type.get_shape())
    for dim, size in sizes.items():
        shape[dim] = size if shape[dim] != DYNAMIC_INDEX else DYNAMIC_INDEX
    return TensorType(type.element_type, shape)


def make_pad(draw: Draw) -> ModuleOp:
    rank = draw.integer(0, 5)
    shape = draw.sizes(rank, 4)
    x = draw.tensor(
        draw.special(draw.numbers(shape, draw.choice([*FLOATS, *INTEGERS, torch.bool])))
    )
    lists: list[list[Any]] = [[], [], []]
    often = draw.choice([0.0, 0.5])
    for size in shape:
        interior = draw.choice([0, 0, 0, 1, 2])
        spread = size + max(size - 1, 0) * interior
        lower = draw.integer(-spread, 3)
        upper = draw.integer(-spread - min(lower, 0), 3)
        for amounts, amount in zip(lists, (lower, upper, interior), strict=True):
            amounts.append(draw.amount(amount, often))
    fill = draw.choice([0, 1])

    def make(args: Sequence[SSAValue]) -> Operation:
        type = tcp.tensor_type(args[x]).element_type
        lower, upper, interior = ([amount(args) for amount in each] for each in lists)
        return tcp.PadOp(
            args[x], tcp.fill_constant(fill, type).result, lower, upper, interior
        )

    return draw.program(make)


@functools.cache
def legal_amounts(mode: type[tcp.BorderPadOp], size: int) -> list[tuple[int, int]]:
    """All lower and upper amounts of a dimension that leave some of its elements."""
    found: list[tuple[int, int]] = []
    for lower, upper in itertools.product(range(1 - size, 2 * size + 1), repeat=2):
        try:
            mode.check_amounts(size, lower, upper)
        except ValueError:
            continue
        if min(lower, 0) + min(upper, 0) + size > 0:
            found.append((lower, upper))
    return found


def make_border_pad(draw: Draw) -> ModuleOp:
    kind = draw.choice(tcp.BORDER_PADS)
    rank = draw.integer(1, 5)
    shape = draw.integers(rank, 2, 4)
    x = draw.tensor(
        draw.special(draw.numbers(shape, draw.choice([*FLOATS, *INTEGERS])))
    )
    lower: list[Any] = []
    upper: list[Any] = []
    often = draw.choice([0.0, 0.5])
    for size in shape:
        low, high = draw.choice(legal_amounts(kind, size))
        lower.append(draw.amount(low, often))
        upper.append(draw.amount(high, often))
    return draw.program(
        lambda args: kind(
            args[x], [each(args) for each in lower], [each(args) for each in upper]
        )
    )


def shuffled(draw: Draw, roles: Sequence[Any]) -> tuple[Any, ...]:
    roles = list(roles)
    if draw.integer(0, 1):
        draw.random.shuffle(roles)
    return tuple(roles)


def make_conv(draw: Draw, transposed: bool = False) -> ModuleOp:
    rank = draw.choice([1, 2, 2, 3])
    spatial = range(rank)
    groups = draw.choice([1, 1, 2, 3])
    features = draw.sizes(2, 2)
    kernel = draw.integers(rank, 1, 3)
    strides, dilations = draw.integers(rank, 1, 2), draw.integers(rank, 1, 2)
    batch = ["b"] if draw.integer(0, 3) else []
    if draw.integer(0, 1):
        make_dims = (
            ConvDimsAttr.transposed if transposed else ConvDimsAttr.channels_first
        )
        dims = make_dims(rank, bool(batch))
    else:
        dims = ConvDimsAttr(
            (
                shuffled(draw, [*batch, "f", *spatial]),
                shuffled(draw, ["o", "i", *spatial]),
                shuffled(draw, [*batch, "f", *spatial]),
            )
        )
    sizes: dict[Any, int] = {"b": draw.sizes(1, 2)[0], "f": groups * features[0]}
    for number in spatial:
        extent = dilations[number] * (kernel[number] - 1) + 1
        sizes[number] = draw.integer(1 if transposed else extent, extent + 4)
    kernel_sizes: dict[Any, int] = dict(enumerate(kernel))
    kernel_sizes["i"], kernel_sizes["o"] = features
    kernel_sizes["i" if transposed else "o"] *= groups
    dtype = draw.choice([*FLOATS, torch.int8, torch.int32, torch.uint8])
    often = draw.choice([0.0, 0.5])

    def operand(shape: Sequence[int], often: float) -> int:
        dynamic = [draw.random.random() < often for _ in shape]
        return draw.tensor(draw.numbers(shape, dtype), dynamic)

    x = operand([sizes[role] for role in dims.input], often)
    w = operand([kernel_sizes[role] for role in dims.kernel], often)
    bias = operand([groups * features[1]], 0.0) if draw.integer(0, 1) else None
    window = strides, dilations, groups, dims
    expansions: list[list[Amounts]] = []
    if transposed:
        expansions.append([])
        for number in spatial:
            size = (sizes[number] - 1) * strides[number] + dilations[number] * (
                kernel[number] - 1
            )
            lower = draw.integer(-size, 2)
            upper = draw.integer(-size - min(lower, 0), 2)
            expansions[0].append(Amounts(lower, upper))
    kind = tcp.ConvTransposeOp if transposed else tcp.ConvOp

    def make(args: Sequence[SSAValue]) -> Operation:
        operands = args[x], args[w], None if bias is None else args[bias]
        any_type = TensorType(f32, [])
        unverified = kind(*operands, *window, any_type, *expansions)
        type = unverified.infer_type()
        unverified.detach()
        return kind(*operands, *window, type, *expansions)

    return draw.program(make)


def make_conv_transpose(draw: Draw) -> ModuleOp:
    return make_conv(draw, transposed=True)


def make_pool(draw: Draw) -> ModuleOp:
    kind = draw.choice([tcp.MaxPoolOp, tcp.AvgPoolOp, tcp.ArgMaxPoolOp])
    rank = draw.integer(1, 5)
    count = draw.integer(1, min(rank, 3))
    dims = draw.random.sample(range(rank), count)
    kernel = draw.integers(count, 1, 3)
    strides, dilations = draw.integers(count, 1, 3), draw.integers(count, 1, 2)
    shape = draw.sizes(rank, 3)
    options: dict[str, Any] = {}
    lower, upper = [0] * count, [0] * count
    for i, dim in enumerate(dims):
        extent = dilations[i] * (kernel[i] - 1) + 1
        shape[dim] = draw.integer(extent, extent + 4)
        if kind is not tcp.MaxPoolOp and kernel[i] > 1:
            # At least one element of each window counts.
            lower[i] = draw.integer(0, extent - 1) if dilations[i] == 1 else 0
            upper[i] = draw.integer(0, extent - 1 - lower[i])
    if kind is not tcp.MaxPoolOp:
        options |= {"uncounted_lower": lower, "uncounted_upper": upper}
    if kind is tcp.AvgPoolOp and draw.integer(0, 2) == 0:
        options |= {"divisor": draw.choice([-3, -1, 2, 7])}
    sizes = {
        dim: conv_output_size(shape[dim], kernel[i], strides[i], dilations[i])
        for i, dim in enumerate(dims)
    }
    dtype = draw.choice([*FLOATS, *INTEGERS])
    x = draw.tensor(draw.special(draw.numbers(shape, dtype)))

    def make(args: Sequence[SSAValue]) -> Operation:
        type = sized(args[x], sizes)
        if kind is tcp.ArgMaxPoolOp:
            type = TensorType(i64, type.get_shape())
        return kind(args[x], kernel, strides, dilations, dims, type, **options)

    return draw.program(make)


def make_resample(draw: Draw) -> ModuleOp:
    mode = draw.choice(list(ResampleMode))
    dtype = draw.choice(
        [*FLOATS, *INTEGERS] if mode is ResampleMode.NEAREST else FLOATS
    )
    rank = draw.integer(1, 5)
    count = draw.integer(1, min(rank, 3))
    dims = draw.random.sample(range(rank), count)
    shape = draw.sizes(rank, 3)
    for dim in dims:
        shape[dim] = draw.integer(1, 7)
    new_sizes = draw.integers(count, 1, 9)
    antialias = mode is ResampleMode.LANCZOS
    if mode in (ResampleMode.LINEAR, ResampleMode.CUBIC):
        antialias = bool(draw.integer(0, 1))
    coordinates, scales = Coordinates.HALF_PIXEL, None
    if mode is not ResampleMode.AREA:
        coordinates = draw.choice(list(Coordinates))
        if draw.integer(0, 2) == 0:
            scales = [
                new / shape[dim] * draw.choice([1.0, 1.03])
                for dim, new in zip(dims, new_sizes, strict=True)
            ]
    x = draw.tensor(draw.special(draw.numbers(shape, dtype)))
    often = draw.choice([0.0, 0.5])
    sizes = [draw.amount(size, often) for size in new_sizes]

    def make(args: Sequence[SSAValue]) -> Operation:
        given = [size(args) for size in sizes]
        type = tcp.tensor_type(args[x])
        new_shape = list(type.get_shape())
        for dim, size in zip(dims, given, strict=True):
            new_shape[dim] = size if isinstance(size, int) else DYNAMIC_INDEX
        result = TensorType(type.element_type, new_shape)
        return tcp.ResampleOp(
            args[x], given, dims, mode, coordinates, scales, result, antialias=antialias
        )

    return draw.program(make)


def make_grid_sample(draw: Draw) -> ModuleOp:
    mode = draw.choice([ResampleMode.NEAREST, ResampleMode.LINEAR, ResampleMode.CUBIC])
    rank = draw.choice([1, 2, 2, 3] if mode is not ResampleMode.CUBIC else [1, 2, 2])
    sizes, points = draw.integers(rank, 1, 5), draw.sizes(rank, 4)
    batch, channels = draw.sizes(2, 2)
    dtype = draw.choice(FLOATS)
    x = draw.numbers([batch, channels, *sizes], dtype)
    grid = draw.numbers([batch, *points, rank], dtype) * draw.choice([0.61, 1.37])
    if draw.integer(0, 1):
        grid = grid.float()
    if draw.integer(0, 2) == 0:
        far = torch.tensor([*SPECIALS, 3e4, -3e4])[draw.integer(0, 4)]
        grid.view(-1)[draw.integer(0, 2) :: 7] = far
    x, grid = draw.tensor(draw.special(x)), draw.tensor(grid)
    options = mode, draw.choice(list(GridPadding)), bool(draw.integer(0, 1))

    def make(args: Sequence[SSAValue]) -> Operation:
        type, grid_type = tcp.tensor_type(args[x]), tcp.tensor_type(args[grid])
        shape, grid_shape = type.get_shape(), grid_type.get_shape()
        first = shape[0] if shape[0] != DYNAMIC_INDEX else grid_shape[0]
        result = TensorType(type.element_type, [first, shape[1], *grid_shape[1:-1]])
        return tcp.GridSampleOp(args[x], args[grid], *options, result)

    return draw.program(make)


def make_chain(draw: Draw) -> ModuleOp:
    """Pads, convolutions and pools of earlier results, some of which have several uses."""
    shape = [draw.integer(1, 2), 2, draw.integer(4, 6), draw.integer(4, 6)]
    x = draw.tensor(
        draw.numbers(shape, torch.float32), [bool(draw.integer(0, 1)), *[False] * 3]
    )
    kernels = [
        # Sums of integers are exact.
        draw.tensor(draw.numbers([2, 2, 3, 3], torch.float32).round(), [False] * 4)
        for _ in range(draw.integer(1, 3))
    ]
    block = Block(arg_types=draw.types)
    dims = ConvDimsAttr.channels_first(2)

    def pad(value: SSAValue) -> SSAValue:
        # A reflection takes less than the size.
        most = min(2, *(size - 1 for size in tcp.tensor_type(value).get_shape()[2:]))
        lower, upper = ([0, 0, *draw.integers(2, 0, most)] for _ in range(2))
        fill = tcp.fill_constant(draw.choice([0, 0, 1]), f32).result
        mode = draw.choice([*tcp.BORDER_PADS, None, None])
        if mode is None:
            return tcp.PadOp(value, fill, lower, upper).result
        return mode(value, lower, upper).result

    def window(value: SSAValue, reach: int) -> TensorType:
        batch, channels, *sizes = tcp.tensor_type(value).get_shape()
        return TensorType(f32, [batch, channels, *(size - reach for size in sizes)])

    def conv(value: SSAValue) -> SSAValue:
        kernel = block.args[draw.choice(kernels)]
        type = window(value, 2)
        return tcp.ConvOp(value, kernel, None, [1, 1], [1, 1], 1, dims, type).result

    def pool(value: SSAValue) -> SSAValue:
        type = window(value, 1)
        return tcp.MaxPoolOp(value, [2, 2], [1, 1], [1, 1], [2, 3], type).result

    with ImplicitBuilder(block):
        values: list[SSAValue] = [block.args[x]]
        for _ in range(draw.integer(3, 7)):
            value = values[-1] if draw.integer(0, 2) else draw.choice(values)
            fits = min(tcp.tensor_type(value).get_shape()[2:]) > 3
            op = draw.choice([pad, conv, conv, pool]) if fits else pad
            values.append(op(value))
        results = {values[-1]: None, draw.choice(values[1:]): None}
        ReturnOp(*results)
    types = [value.type for value in results]
    module = ModuleOp([FuncOp("main", (draw.types, types), Region(block))])
    module.verify()
    return module


MAKERS = (
    make_pad,
    make_border_pad,
    make_conv,
    make_conv_transpose,
    make_pool,
    make_pool,
    make_resample,
    make_resample,
    make_grid_sample,
    make_grid_sample,
)


def tolerance(make: Callable[[Draw], ModuleOp], dtype: torch.dtype) -> float:
    """The tolerance of results, relative to the largest input."""
    if make not in (make_resample, make_grid_sample) or not dtype.is_floating_point:
        # Sums of `numbers` are exact, and rounded once.
        return 0.0
    # Weights and sums are rounded to f32 or f64. A value near the middle between two
    # f16 or bf16 may round to either.
    if dtype == torch.float64:
        # The reference rounds a coordinate, at most 9, twice; PyTorch rounds it once.
        return 16 * torch.finfo(dtype).eps
    half = 0 if dtype == torch.float32 else torch.finfo(dtype).eps
    return 4 * torch.finfo(torch.float32).eps + half
