# pyright: basic
"""The calls that random programs are made of; each function adds one or two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from differential.draw import Draw
from differential.program import Ref, Size
from torch import Tensor

aten = torch.ops.aten
internal_overlap: Callable[[Tensor], int] = getattr(
    torch, "_debug_has_internal_overlap"
)


def is_image(x: Tensor) -> bool:
    """Whether convolutions, pools and grids take `x`."""
    return x.is_floating_point() and 3 <= x.dim() <= 5 and bool(x.numel())


def is_weighted(x: Tensor) -> bool:
    """
    Whether `x` may be multiplied by weights.

    An infinite element times a weight of zero is NaN, and whether a path multiplies by
    a zero, or leaves it out, is its own choice. So is the order in which huge products
    are added, some of which are infinite.
    """
    if not x.is_floating_point():
        return True
    return bool((x.abs() < torch.finfo(x.dtype).max / 1024).all())


def has_squares(x: Tensor) -> bool:
    """
    Whether no finite element overflows when it is squared.

    PyTorch computes variances of float32 in float64, which Core ML does not have.
    """
    return not x.is_floating_point() or bool(
        (x.square().isfinite() | ~x.isfinite()).all()
    )


def is_weighted_image(x: Tensor) -> bool:
    return is_image(x) and is_weighted(x)


def spatial(x: Tensor) -> int:
    return x.dim() - 2


PADS = ("constant", "reflect", "replicate", "circular")


def pad(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: 0 < x.dim() <= 5)) is None:
        return False
    mode, rank = draw.choice(PADS), draw.value(x).dim()
    count = draw.integer(1, rank if mode == "constant" else max(1, min(rank - 1, 3)))
    amounts = draw.integers(2 * count, -2 if draw.chance(0.3) else -1, 3)
    fill = draw.choice([0.0, 1.5, -2.0]) if mode == "constant" else None
    if mode == "circular" and not wraps(draw.value(x).shape[::-1], amounts):
        return False
    return draw.call(aten.pad.default, x, amounts, mode, fill)


def wraps(sizes: Sequence[int], amounts: Sequence[int]) -> bool:
    """
    Whether what a circular pad crops leaves as much as it pads.

    PyTorch pads first, and returns memory that nobody wrote where it does not.
    """
    sides = zip(sizes, amounts[::2], amounts[1::2], strict=False)
    return all(
        max(lower, upper) <= size + min(lower, 0) + min(upper, 0)
        for size, lower, upper in sides
    )


def convolution(draw: Draw) -> bool:
    # PyTorch 2.13 crashes in some others, on CPUs that multiply tiles of halves.
    x = draw.pick(
        lambda x: (
            is_weighted_image(x)
            and x.dtype != torch.float16
            and (x.dtype != torch.bfloat16 or spatial(x) < 3)
        )
    )
    if x is None:
        return False
    value, n = draw.value(x), spatial(draw.value(x))
    channels = value.shape[1]
    groups = draw.choice([each for each in (1, 2, channels) if channels % each == 0])
    out = groups * draw.integer(1, 3)
    kernel = draw.integers(n, 1, 3)
    transposed = draw.chance(0.3)
    shape = [channels, out // groups] if transposed else [out, channels // groups]
    weight = draw.weight([*shape, *kernel], value.dtype)
    bias = draw.weight([out], value.dtype) if draw.chance(0.5) else None
    strides = draw.integers(n, 1, 3)
    further = [draw.integer(0, s - 1) if transposed else 0 for s in strides]
    padding, dilation = draw.integers(n, 0, 2), draw.integers(n, 1, 2)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    fits = [
        size + 2 * p >= r if not transposed else (size - 1) * s - 2 * p + r > 0
        for size, p, r, s in zip(value.shape[2:], padding, reach, strides, strict=True)
    ]
    if not all(fits):
        return False
    arguments = [strides, padding, dilation, transposed]
    return draw.call(
        aten.convolution.default, x, weight, bias, *arguments, further, groups
    )


def pool(draw: Draw) -> bool:
    if (x := draw.pick(is_image)) is None:
        return False
    n = spatial(draw.value(x))
    kernel, strides = draw.integers(n, 1, 3), draw.integers(n, 1, 3)
    padding = [draw.integer(0, size // 2) for size in kernel]
    if is_weighted(draw.value(x)) and draw.chance(0.5):
        target = getattr(aten, f"avg_pool{n}d").default
        rest = [draw.chance(0.4), draw.chance(0.5)]
        return draw.call(target, x, kernel, strides, padding, *rest)
    target = getattr(aten, f"max_pool{n}d").default
    rest = [draw.integers(n, 1, 2), draw.chance(0.4)]
    return draw.call(target, x, kernel, strides, padding, *rest)


def resample(draw: Draw) -> bool:
    if (x := draw.pick(is_weighted_image)) is None:
        return False
    n = spatial(draw.value(x))
    sizes = draw.integers(n, 1, 9)
    scales = [draw.choice([0.5, 1.5, 2.0, 3.0]) for _ in range(n)]
    sizes, scales = (sizes, None) if draw.chance(0.6) else (None, scales)
    name = draw.choice(["nearest", "linear", "adaptive", *["bicubic"] * (n == 2)])
    if name == "adaptive":
        return sizes is not None and draw.call(
            getattr(aten, f"adaptive_avg_pool{n}d").default, x, sizes
        )
    if name == "nearest":
        target = getattr(aten, f"upsample_nearest{n}d").vec
        return draw.call(target, x, sizes, scales)
    if name == "linear":
        name = ("linear", "bilinear", "trilinear")[n - 1]
    target = getattr(aten, f"upsample_{name}{'2' if name == 'bicubic' else n}d").vec
    return draw.call(target, x, sizes, draw.chance(0.5), scales)


def grid(draw: Draw) -> bool:
    x = draw.pick(lambda x: is_weighted_image(x) and x.dim() > 3)
    if x is None:
        return False
    value, n = draw.value(x), spatial(draw.value(x))
    shape = [value.shape[0], *draw.integers(n, 1, 4), n]
    points = draw.numbers(shape, value.dtype)
    # Narrow floats place far points, and choose the nearest element, by rounding.
    is_wide = value.dtype in (torch.float32, torch.float64)
    mode = draw.choice([*[0] * 2, *[1] * is_wide, *[2] * (n == 2)])
    if mode == 1:
        # Far from where two elements are equally near: rounding decides there.
        points += 0.0371
    padding = draw.integer(0, 2)
    if is_wide and draw.chance(0.3):
        # For volumes, PyTorch casts places to int64: undefined beyond its range.
        far = FAR if n == 2 else FAR[:4]
        # Where a reflection of it is depends on how its product with a size is rounded.
        huge = (-1e10, 3e38) if padding == 2 else ()
        draw.scatter(points, [x for x in far if x not in huge])
    target = getattr(aten, f"grid_sampler_{n}d").default
    return draw.call(target, x, draw.given(points), mode, padding, draw.chance(0.5))


FAR = (-9.13, 100.29, 1e4, -1e10, 3e38, math.inf, -math.inf, math.nan)
"""Points far out of the input."""


def slices(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 0)) is None:
        return False
    shape = draw.value(x).shape
    dim = draw.integer(0, len(shape) - 1)
    size = shape[dim]
    if size and draw.chance(0.3):
        return draw.call(aten.select.int, x, dim, draw.integer(-size, size - 1))
    start, end = sorted(draw.integers(2, -size - 1, size + 1))
    return draw.call(aten.slice.Tensor, x, dim, start, end, draw.integer(1, 3))


def is_writable(x: Tensor) -> bool:
    """Whether no two elements share memory, which PyTorch's copy to write to keeps."""
    return bool(x.numel()) and x.dim() > 0 and not internal_overlap(x)


def writes(draw: Draw) -> bool:
    """A copy of a value, part of which is written, often with another part of it."""
    if (x := draw.pick(is_writable)) is None:
        return False
    value = draw.value(x)
    dim = draw.integer(0, value.dim() - 1)
    size = value.shape[dim]
    if draw.chance(0.3):
        place, other = draw.integers(2, -size, size - 1)
        inner = aten.select.int(value, dim, place)
        if draw.chance(0.5) and draw.call(aten.select.int, x, dim, other):
            source = draw.last
        else:
            source = draw.input(inner.shape, value.dtype)
        return draw.call(aten.select_scatter.default, x, source, dim, place)
    step = draw.integer(1, 3)
    count = draw.integer(1, (size - 1) // step + 1)
    span = (count - 1) * step + 1
    start, other = draw.integers(2, 0, size - span)
    if draw.chance(0.5):
        draw.call(aten.slice.Tensor, x, dim, other, other + span, step)
        source = draw.last
        if draw.chance(0.5):
            if not draw.call(aten.neg.default, source):
                draw.call(aten.flip.default, source, [dim])
            source = draw.last
    else:
        inner = aten.slice.Tensor(value, dim, start, start + span, step)
        source = draw.input(inner.shape, value.dtype)
    end = draw.choice([start + span, min(start + span + step - 1, size)])
    return draw.call(aten.slice_scatter.default, x, source, dim, start, end, step)


def has_own_memory(x: Tensor) -> bool:
    """Whether `x` has the same strides and memory in padc as in eager mode."""
    return bool(x.numel()) and x.is_contiguous() and x._base is None


def overlaps(x: Tensor) -> bool:
    """Whether elements of `x` share memory: writes to them in place are undefined."""
    numbers = torch.arange(x.untyped_storage().nbytes() // x.itemsize)
    places = numbers.as_strided(x.shape, x.stride(), x.storage_offset())
    return places.unique().numel() < places.numel()


def strided(draw: Draw) -> bool:
    """Elements at places that are counted by strides: read, or written."""
    if (x := draw.pick(has_own_memory)) is None:
        return False
    value, rank = draw.value(x), draw.integer(1, 4)
    sizes, steps = draw.integers(rank, 1, 3), draw.integers(rank, 0, 5)
    span = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if span >= value.numel():
        return False
    offset = draw.integer(0, value.numel() - span - 1)
    if overlaps(value.as_strided(sizes, steps, offset)) or draw.chance(0.5):
        return draw.call(aten.as_strided.default, x, sizes, steps, offset)
    source = draw.input(sizes, value.dtype)
    return draw.call(aten.as_strided_scatter.default, x, source, sizes, steps, offset)


def indexing(draw: Draw) -> bool:
    """Elements at places that a tensor tells: read, written, or added to."""
    if (x := draw.pick(lambda x: x.dim() > 0 and bool(x.numel()))) is None:
        return False
    value = draw.value(x)
    dim = draw.integer(0, value.dim() - 1)
    size = value.shape[dim]
    if draw.chance(0.5):
        shape = [draw.integer(1, each) for each in value.shape]
        # Along `dim`, no place is there twice: PyTorch says not which one is kept.
        order = torch.tensor(draw.random.sample(range(size), shape[dim]))
        places = order.reshape([-1 if i == dim else 1 for i in range(len(shape))])
        index = draw.given(places.expand(shape).contiguous())
        if draw.chance(0.3):
            return draw.call(aten.gather.default, x, dim, index)
        target = draw.choice([aten.scatter.src, aten.scatter_add.default])
        return draw.call(target, x, dim, index, draw.input(shape, value.dtype))
    count = draw.integer(1, size)
    places = draw.random.sample(range(size), count)
    index = draw.given(torch.tensor([p - size * draw.chance(0.3) for p in places]))
    indices = [*[None] * dim, index]
    if draw.chance(0.3):
        return draw.call(aten.index.Tensor, x, indices)
    shape = [count if i == dim else n for i, n in enumerate(value.shape)]
    source = draw.input(shape, value.dtype)
    return draw.call(aten.index_put.default, x, indices, source, draw.chance(0.4))


def joining(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 0)) is None:
        return False
    value = draw.value(x)
    dim = draw.integer(0, value.dim() - 1)

    def fits(other: Tensor) -> bool:
        return (
            other.dtype == value.dtype
            and other.dim() == value.dim()
            and all(
                a == b
                for i, (a, b) in enumerate(zip(other.shape, value.shape, strict=True))
                if i != dim
            )
        )

    y = draw.pick(fits)
    assert y is not None
    if draw.chance(0.3) and value.dim() < 5:
        return draw.call(aten.stack.default, [x, y], dim)
    return draw.call(aten.cat.default, draw.choice([[x, y], [y, x, y]]), dim)


def factors(draw: Draw, number: int) -> list[int]:
    """Sizes, of which `number` is the product."""
    sizes: list[int] = []
    while len(sizes) < 4 and draw.chance(0.8):
        sizes.append(draw.choice([k for k in range(1, number + 1) if number % k == 0]))
        number //= sizes[-1]
    return [*sizes, number]


def views(draw: Draw) -> bool:
    """Another shape, or another order of the dimensions."""
    if (x := draw.pick()) is None:
        return False
    value = draw.value(x)
    rank = value.dim()
    sizes = [Size(x.number, dim) for dim in range(rank)]
    match draw.integer(0, 6):
        case 0:
            order = draw.random.sample(range(rank), rank)
            return draw.call(aten.permute.default, x, order)
        case 1 if value.numel():
            return draw.call(aten.reshape.default, x, factors(draw, value.numel()))
        case 2 if rank > 1 and value.numel():
            # Two dimensions become one.
            dim = draw.integer(0, rank - 2)
            return draw.call(
                aten.reshape.default, x, [*sizes[:dim], -1, *sizes[dim + 2 :]]
            )
        case 3 if 0 < rank < 5 and value.numel():
            # One dimension becomes two.
            dim = draw.integer(0, rank - 1)
            size = value.shape[dim]
            part = draw.choice([k for k in range(1, size + 1) if size % k == 0])
            split = draw.choice([[part, -1], [-1, part]])
            return draw.call(
                aten.reshape.default, x, [*sizes[:dim], *split, *sizes[dim + 1 :]]
            )
        case 4 if rank < 5:
            return draw.call(aten.unsqueeze.default, x, draw.integer(-1, rank))
        case 5 if rank < 5:
            return draw.call(aten.expand.default, x, [draw.integer(1, 2), *sizes])
        case 6 if rank > 1:
            dims = draw.random.sample(range(rank), 2)
            offset = draw.integer(-1, 1)
            return draw.call(aten.diagonal.default, x, offset, *dims)
        case _:
            return False


def moves(draw: Draw) -> bool:
    """The same elements at other places."""
    if (x := draw.pick()) is None:
        return False
    value = draw.value(x)
    rank = value.dim()
    dims = draw.random.sample(range(rank), draw.integer(0, rank))
    match draw.integer(0, 6):
        case 0:
            return draw.call(aten.flip.default, x, dims)
        case 1:
            shifts = draw.integers(len(dims), -5, 5)
            return draw.call(aten.roll.default, x, shifts, dims)
        case 2 if rank and value.numel():
            dim = draw.integer(0, rank - 1)
            places = draw.integers(draw.integer(1, 5), 0, value.shape[dim] - 1)
            index = draw.given(torch.tensor(places))
            return draw.call(aten.index_select.default, x, dim, index)
        case 3 if 0 < rank < 5 and value.numel():
            dim = draw.integer(0, rank - 1)
            size = draw.integer(1, value.shape[dim])
            return draw.call(aten.unfold.default, x, dim, size, draw.integer(1, 3))
        case 4 if rank > 1:
            target = draw.choice([aten.tril, aten.triu]).default
            return draw.call(target, x, draw.integer(-2, 2))
        case 5 if rank > 2:
            target = draw.choice([aten.pixel_shuffle, aten.pixel_unshuffle]).default
            return draw.call(target, x, draw.integer(1, 2))
        case 6 if is_image(value) and rank == 4:
            pairs = [draw.integers(2, 1, 2) for _ in range(4)]
            pairs[2] = draw.integers(2, 0, 1)
            return draw.call(aten.im2col.default, x, *pairs)
        case _:
            return draw.call(aten.repeat.default, x, draw.integers(rank, 1, 2))


UNARY = "relu sigmoid tanh abs neg exp sin hardswish silu softplus square sign".split()
BINARY = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum")
TO = (
    *[torch.float32] * 4,
    *(torch.float16, torch.bfloat16, torch.float64, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int32, torch.int64),
)


def elementwise(draw: Draw) -> bool:
    if (x := draw.pick()) is None:
        return False
    value = draw.value(x)
    if draw.chance(0.4):
        packet = getattr(aten, draw.choice(UNARY))
        return draw.call(packet.default, x)
    y = draw.pick(lambda y: y.dtype == value.dtype)
    assert y is not None
    name, _, overload = draw.choice(BINARY).partition(".")
    return draw.call(getattr(getattr(aten, name), overload or "default"), x, y)


def fits(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether a cast of `x` is defined: floats must be in the range of integers."""
    if not x.is_floating_point() or dtype.is_floating_point or dtype == torch.bool:
        return True
    limits = torch.iinfo(dtype)
    # In float16, the largest int64 is infinite.
    wide = x.double()
    return bool(((wide >= limits.min) & (wide < limits.max + 1)).all())


def inputs_and_integers(draw: Draw) -> list[int]:
    inputs = [i for i, (kind, _) in enumerate(draw.results) if kind == "input"]
    whole = [i for i, x in enumerate(draw.values) if not x.is_floating_point()]
    return [*inputs, *whole]


def choosing(draw: Draw) -> bool:
    """A comparison, a cast, or a choice by a mask."""
    mask = draw.pick(lambda x: x.dtype == torch.bool)
    if mask is not None and draw.chance(0.6):
        x = draw.pick(lambda x: x.dtype != torch.bool)
        if x is None:
            return False
        if draw.chance(0.5):
            return draw.call(aten.masked_fill.Scalar, x, mask, draw.integer(-2, 2))
        y = draw.pick(lambda y: y.dtype == draw.value(x).dtype)
        return draw.call(aten.where.self, mask, x, y)
    # Of what is computed in floats, rounding decides what is equal.
    x = Ref(draw.choice(inputs_and_integers(draw)))
    if draw.chance(0.4):
        dtype = draw.choice(TO)
        return fits(draw.value(x), dtype) and draw.call(aten.to.dtype, x, dtype)
    name = draw.choice("gt lt ge le eq ne".split())
    return draw.call(getattr(aten, name).Scalar, x, draw.integer(-1, 1))


def reduction(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 0 and bool(x.numel()))) is None:
        return False
    rank = draw.value(x).dim()
    dim = draw.integer(-rank, rank - 1)
    dims = draw.random.sample(range(rank), draw.integer(1, rank))
    keep = draw.chance(0.5)
    match draw.integer(0, 7):
        case 0:
            return draw.call(aten.sum.dim_IntList, x, dims, keep)
        case 1:
            return draw.call(aten.mean.dim, x, dims, keep)
        case 2:
            return draw.call(aten.amax.default, x, dims, keep)
        case 3:
            return draw.call(aten.amin.default, x, dims, keep)
        case 4:
            return draw.call(aten.softmax.int, x, dim)
        case 5:
            return draw.call(aten.cumsum.default, x, dim)
        case 6:
            # Of what is computed in floats, rounding decides what is 0.
            is_exact = x.number in inputs_and_integers(draw)
            return is_exact and draw.call(aten.any.dim, x, dim, keep)
        case _ if draw.value(x).shape[dim] > 1 and has_squares(draw.value(x)):
            return draw.call(aten.var.correction, x, [dim])
        case _:
            return False


def product(draw: Draw) -> bool:
    x = draw.pick(lambda x: x.dim() > 1 and x.is_floating_point() and is_weighted(x))
    if x is None:
        return False
    value = draw.value(x)
    y = draw.weight([value.shape[-1], draw.integer(1, 4)], value.dtype)
    return draw.call(aten.matmul.default, x, y)


LARGEST_SQUARED = 1e15
"""PyTorch's norms of equal numbers are NaN where their squares are infinite."""


def norm(draw: Draw) -> bool:
    if (x := draw.pick(is_weighted_image)) is None:
        return False
    value = draw.value(x)
    channels = value.shape[1]
    if draw.chance(0.4):
        mean, weight, bias = (draw.weight([channels], value.dtype) for _ in range(3))
        var = draw.given(draw.value(mean).abs() + 1, held=True)
        arguments = [weight, bias, mean, var, False, 0.1, 1e-5, False]
        return draw.call(aten.batch_norm.default, x, *arguments)
    if value.numel() and value.abs().max() > LARGEST_SQUARED:
        return False
    # The variance of few numbers may be zero, where rounding decides the result.
    if draw.chance(0.5):
        shape = list(value.shape[-1:])
        weight = draw.weight(shape, value.dtype)
        return draw.call(aten.layer_norm.default, x, shape, weight, None, 0.5, False)
    groups = draw.choice([k for k in range(1, channels + 1) if channels % k == 0])
    return draw.call(aten.group_norm.default, x, groups, None, None, 0.5, False)


Op: TypeAlias = tuple[Callable[[Draw], bool], int]
"""A kind of call, and how often it is drawn."""
OPS: Sequence[Op] = (
    (pad, 5),
    (convolution, 3),
    (pool, 2),
    (resample, 2),
    (grid, 1),
    (slices, 2),
    (writes, 3),
    (indexing, 1),
    (joining, 3),
    (views, 3),
    (moves, 3),
    (elementwise, 4),
    (choosing, 2),
    (reduction, 2),
    (product, 1),
    (norm, 1),
)
