# pyright: basic
"""Small whole networks, whose layers are as wide as those that machine code packs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from differential.draw import Draw
from differential.program import Program, Ref, Size
from torch import Tensor

aten = torch.ops.aten
CHANNELS = (3, 4, 8, 16, 17, 32, 32, 48)
ACTIVATIONS = "relu silu gelu hardswish sigmoid tanh softplus leaky_relu".split()
MOST_ELEMENTS = 1 << 17


def network(draw: Draw) -> Program:
    """An input, 2 to 9 layers, and often a head."""
    draw.most_elements = MOST_ELEMENTS
    sizes = draw.integers(2, 4, draw.choice([12, 40]))
    image(draw, [draw.integer(1, 2), draw.choice(CHANNELS), *sizes])
    wanted = len(draw.calls) + draw.integer(4, 24)
    kinds, weights = zip(*LAYERS, strict=True)
    for _ in range(40):
        if len(draw.calls) < wanted:
            draw.random.choices(kinds, weights)[0](draw)
    if draw.chance(0.4):
        head(draw)
    return draw.program((1, 2))


def image(draw: Draw, shape: Sequence[int]) -> Ref:
    return draw.given(normal(draw, shape, 1))


def normal(draw: Draw, shape: Sequence[int], scale: float) -> Tensor:
    generator = torch.Generator().manual_seed(draw.integer(0, 2**30))
    return torch.randn(tuple(shape), generator=generator) * scale


def weights(draw: Draw, shape: Sequence[int], terms: int) -> Ref:
    """Weights for sums of `terms` products; results have the scale of the inputs."""
    return draw.given(normal(draw, shape, 1 / math.sqrt(terms)), held=True)


def recent(draw: Draw, rank: int = 4) -> Ref:
    """The last value that is an image, or an earlier one."""
    count = len(draw.inputs) + len(draw.calls)
    kinds = draw.results
    found = [
        i
        for i in range(count)
        if draw.values[i].dim() == rank and (i == 0 or kinds[i][0] == "call")
    ]
    return Ref(found[-1] if draw.chance(0.85) else draw.choice(found))


def convolution(draw: Draw) -> bool:
    x = recent(draw)
    value = draw.value(x)
    channels, out = value.shape[1], draw.choice(CHANNELS)
    kernel = draw.choice([1, 3, 3, 3, 3, 5])
    stride = draw.choice([1, 1, 1, 2])
    dilation = draw.choice([1, 1, 1, 2])
    groups = 1
    if draw.chance(0.25):
        groups = draw.choice([channels, 2 if channels % 2 == 0 else 1])
        out = channels * draw.choice([1, 1, 2])
    around = dilation * (kernel // 2)
    if around and draw.chance(0.4):
        mode = draw.choice(["constant", "reflect", "replicate", "circular"])
        if not draw.call(aten.pad.default, x, [around] * 4, mode, None):
            return False
        x, around = draw.last, 0
    terms = channels // groups * kernel**2
    weight = weights(draw, [out, channels // groups, kernel, kernel], terms)
    bias = weights(draw, [out], 4) if draw.chance(0.6) else None
    arguments = [[stride] * 2, [around] * 2, [dilation] * 2, False, [0, 0], groups]
    made = draw.call(aten.convolution.default, x, weight, bias, *arguments)
    if made and draw.chance(0.4):
        normalize(draw)
    return made and (draw.chance(0.3) or activate(draw))


def transposed(draw: Draw) -> bool:
    x = recent(draw)
    channels, out = draw.value(x).shape[1], draw.choice(CHANNELS)
    kernel = draw.integer(2, 4)
    weight = weights(draw, [channels, out, kernel, kernel], channels * kernel**2 // 4)
    arguments = [[2, 2], [draw.integer(0, 1)] * 2, [1, 1], True, [0, 0], 1]
    return draw.call(aten.convolution.default, x, weight, None, *arguments)


def activate(draw: Draw) -> bool:
    return draw.call(getattr(aten, draw.choice(ACTIVATIONS)).default, recent(draw))


def normalize(draw: Draw) -> bool:
    x = recent(draw)
    channels = draw.value(x).shape[1]
    scale, shift, mean = (weights(draw, [channels], 4) for _ in range(3))
    match draw.integer(0, 3):
        case 0 | 1:
            var = draw.given(normal(draw, [channels], 1).abs() + 0.5, held=True)
            arguments = [scale, shift, mean, var, False, 0.1, 1e-5, False]
            return draw.call(aten.batch_norm.default, x, *arguments)
        case 2:
            groups = draw.choice([k for k in (1, 2, 4, channels) if channels % k == 0])
            arguments = [groups, scale, shift, 1e-2, False]
            return draw.call(aten.group_norm.default, x, *arguments)
        case _:
            # Over channels, which come last for it.
            if not draw.call(aten.permute.default, x, [0, 2, 3, 1]):
                return False
            arguments = [[channels], scale, shift, 1e-2, False]
            draw.call(aten.layer_norm.default, draw.last, *arguments)
            return draw.call(aten.permute.default, draw.last, [0, 3, 1, 2])


def pool(draw: Draw) -> bool:
    x, size = recent(draw), draw.integer(2, 3)
    around = [draw.integer(0, 1)] * 2
    if draw.chance(0.5):
        arguments = [[size] * 2, [2, 2], around, [1, 1], draw.chance(0.3)]
        return draw.call(aten.max_pool2d.default, x, *arguments)
    arguments = [[size] * 2, [2, 2], around, draw.chance(0.3), draw.chance(0.5)]
    return draw.call(aten.avg_pool2d.default, x, *arguments)


def upsample(draw: Draw) -> bool:
    x = recent(draw)
    if draw.chance(0.5):
        return draw.call(aten.upsample_nearest2d.vec, x, None, [2.0, 2.0])
    return draw.call(
        aten.upsample_bilinear2d.vec, x, None, draw.chance(0.5), [2.0, 2.0]
    )


def residual(draw: Draw) -> bool:
    """The sum, or another mixture, of two images of one shape."""
    x = recent(draw)
    shape = draw.value(x).shape
    y = draw.pick(lambda y: y.shape == shape)
    target = draw.choice([aten.add.Tensor, aten.add.Tensor, aten.mul.Tensor])
    return y != x and draw.call(target, x, y)


def concat(draw: Draw) -> bool:
    x = recent(draw)
    n, _, *sizes = draw.value(x).shape

    def fits(y: Tensor) -> bool:
        return y.dim() == 4 and y.shape[0] == n and list(y.shape[2:]) == sizes

    y = draw.pick(fits)
    return draw.call(aten.cat.default, [x, y], 1)


def excite(draw: Draw) -> bool:
    """Each channel scaled by a function of the means of all."""
    x = recent(draw)
    channels = draw.value(x).shape[1]
    if not draw.call(aten.mean.dim, x, [2, 3], True):
        return False
    weight = weights(draw, [channels, channels, 1, 1], channels)
    mean = Ref(weight.number - 1)
    arguments = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    draw.call(aten.convolution.default, mean, weight, None, *arguments)
    draw.call(aten.sigmoid.default, draw.last)
    return draw.call(aten.mul.Tensor, x, draw.last)


def attention(draw: Draw) -> bool:
    """Attention between pixels, and often a linear layer, added to the image."""
    x = recent(draw)
    n, channels, height, width = draw.value(x).shape
    heads = draw.choice([k for k in (1, 2, 4) if channels % k == 0])
    if height * width > 400:
        return False
    split = [n, heads, channels // heads, height * width]
    parts = []
    for _ in range(3):
        weight = weights(draw, [channels, channels], channels)
        if draw.chance(0.5):
            draw.call(aten.permute.default, x, [0, 2, 3, 1])
            draw.call(aten.linear.default, draw.last, weight, None)
            draw.call(aten.permute.default, draw.last, [0, 3, 1, 2])
            part = draw.last
        else:
            part = x
        draw.call(aten.reshape.default, part, split)
        draw.call(aten.transpose.int, draw.last, 2, 3)
        parts.append(draw.last)
    if draw.chance(0.5):
        attend = aten.scaled_dot_product_attention.default
        if not draw.call(attend, *parts, None, 0.0, False):
            return False
    else:
        draw.call(aten.transpose.int, parts[1], 2, 3)
        draw.call(aten.matmul.default, parts[0], draw.last)
        draw.call(aten.mul.Scalar, draw.last, 1 / math.sqrt(channels // heads))
        draw.call(aten.softmax.int, draw.last, -1)
        draw.call(aten.matmul.default, draw.last, parts[2])
    draw.call(aten.transpose.int, draw.last, 2, 3)
    sizes = [Size(x.number, dim) for dim in range(4)]
    draw.call(aten.reshape.default, draw.last, sizes)
    return draw.call(aten.add.Tensor, x, draw.last)


def head(draw: Draw) -> None:
    """Means of channels, and a linear layer."""
    x = recent(draw)
    channels, out = draw.value(x).shape[1], draw.integer(1, 70)
    draw.call(aten.adaptive_avg_pool2d.default, x, [1, 1])
    draw.call(aten.flatten.using_ints, draw.last, 1)
    last = draw.last
    weight, bias = weights(draw, [out, channels], channels), weights(draw, [out], 4)
    draw.call(aten.linear.default, last, weight, bias)


LAYERS: Sequence[tuple[Callable[[Draw], bool], int]] = (
    (convolution, 8),
    (transposed, 1),
    (activate, 1),
    (normalize, 1),
    (pool, 2),
    (upsample, 1),
    (residual, 3),
    (concat, 2),
    (excite, 1),
    (attention, 1),
)
"""Each kind of layer, and how often it is drawn."""
