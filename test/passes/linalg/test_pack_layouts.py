# pyright: basic, reportMissingTypeStubs=false
"""Networks whose layouts are packed, compared with PyTorch."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import needs_export
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

import padc
from padc.passes import pipelines
from padc.passes.linalg import layout_plan
from padc.passes.linalg.pack_layouts import PackLayoutsPass


class Net(nn.Module):
    """A convolution before and after each of some functions; all may be packed."""

    def __init__(self, *between: Callable[[Tensor], Tensor]):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.between = between
        self.last = nn.Conv2d(16, 32, 3, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.first(x)
        return tuple(self.last(function(x)) for function in self.between)


def batched(names: Iterable[str], count: int) -> list[tuple[str, ...]]:
    names = list(names)
    return [tuple(names[i : i + count]) for i in range(0, len(names), count)]


def depthwise(x: Tensor) -> Tensor:
    kernel = torch.linspace(-1, 1, 16 * 9).view(16, 1, 3, 3)
    return F.conv2d(x, kernel, groups=16, padding=1)


def grouped(x: Tensor) -> Tensor:
    kernel = torch.linspace(-1, 1, 32 * 8 * 9).view(32, 8, 3, 3)
    return F.conv2d(x, kernel, groups=2)[:, :16]


BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "sum": lambda x: x.relu() + x.sigmoid() * x[:, :, :1, :1],
    "scaled": lambda x: x * torch.arange(16.0).view(1, 16, 1, 1) + torch.arange(9.0),
    "squeeze and excite": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "softmax of channels": lambda x: x.softmax(1),
    "batch norm": lambda x: F.batch_norm(x, torch.zeros(16), torch.ones(16)),
    "max pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "average pool": lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "replicated": lambda x: F.pad(x, (1, 2, 0, 3), mode="replicate"),
    "reflected": lambda x: F.pad(x, (2, 1, 2, 1), mode="reflect"),
    "circular": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "padded channels": lambda x: F.pad(x, (0, 0, 0, 0, 3, 5))[:, 4:20],
    "cropped": lambda x: x[:, :, 1:-1, 2:],
    "every other": lambda x: x[:, :, ::2, 1::2],
    "halves swapped": lambda x: torch.cat([x[:, 8:], x[:, :8]], 1),
    "concatenated": lambda x: torch.cat([x, x.relu()], 1)[:, 8:24],
    "rows concatenated": lambda x: torch.cat([x, x.relu()], 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, (7, 8), mode="bicubic"),
    "depthwise": depthwise,
    "grouped": grouped,
    "transposed": lambda x: F.conv_transpose2d(
        x, torch.linspace(-1, 1, 16 * 16 * 4).view(16, 16, 2, 2), stride=2
    ),
    "flattened": lambda x: x.flatten(2).relu().view(x.shape),
    "shuffled": lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2),
    "transposed dimensions": lambda x: x.transpose(2, 3).relu(),
    "channels moved": lambda x: x.flip(1),
    "of two uses": lambda x: x.relu() + x.mean(1, keepdim=True),
}


@pytest.fixture(autouse=True)
def conversions_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_plan, "COST", 0.0)
    monkeypatch.setenv("PADC_CACHE_DIR", "")


def packed_weights(model: nn.Module, *inputs: Tensor, dynamic: Any = None) -> int:
    """The number of weights that are packed when they are bound."""
    return packed_in(torch.export.export(model, inputs, dynamic_shapes=dynamic))


def packed_in(exported: ExportedProgram) -> int:
    return str(with_layouts(exported)).count("padc.order")


def with_layouts(exported: ExportedProgram) -> ModuleOp:
    """The program after pack-layouts."""
    ctx, module = pipelines.import_program(exported, legal=pipelines.legal_for_native())
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    for each in pipelines.to_buffers(64):
        each.apply(ctx, module)
        if isinstance(each, PackLayoutsPass):
            break
    return module


def check(
    model: nn.Module, *inputs: Tensor, dynamic: Any = None, least_packed: int = 0
) -> None:
    """The results are PyTorch's, and at least `least_packed` weights are packed."""
    model = model.eval()
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    assert not least_packed or packed_in(exported) >= least_packed
    compiled = padc.compile(exported)
    assert compiled.is_native
    with torch.no_grad():
        expected = flat(model(*inputs))
    for one, other in zip(flat(compiled(*inputs)), expected, strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * scale)


def flat(outputs: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


@pytest.mark.parametrize("names", batched(BETWEEN, 7), ids="-".join)
def test_ops_between_convolutions(names: tuple[str, ...]):
    torch.manual_seed(0)
    model = Net(*(BETWEEN[name] for name in names))

    check(model, torch.randn(2, 3, 9, 9), least_packed=2)


def test_gathers_without_convolutions():
    """Their input and their result are packed, if the channels fill tiles."""
    grid = torch.rand(2, 5, 6, 2) * 3 - 1.5
    volume_grid = torch.rand(2, 3, 4, 5, 3) * 3 - 1.5

    class Gathers(nn.Module):
        def forward(self, x: Tensor, grid: Tensor, volume_grid: Tensor) -> Any:
            volume = x.unflatten(2, (3, 3))
            return (
                F.grid_sample(x, grid, align_corners=False),
                F.grid_sample(x, grid, "bicubic", "border", align_corners=False),
                F.grid_sample(x, grid, "nearest", "reflection", align_corners=True),
                F.grid_sample(volume, volume_grid, align_corners=True),
                F.grid_sample(x[:, :15], grid, align_corners=False),
                F.interpolate(x, (7, 20), mode="bilinear"),
                F.interpolate(x, (7, 20)),
                x.flatten(2)[:, :, torch.arange(9) * 7 % 9],
                # Not packed: a step has another channel and another row.
                F.interpolate(x[:, :16], (16, 5), mode="bicubic").diagonal(0, 2, 1),
                # Not packed: the last one reads channels by a computed number.
                F.grid_sample(x[:, :16] + 1, grid, align_corners=False)
                + (x[:, :16] + 1)[:, torch.arange(16) * 3 % 16, :5, :6],
            )

    inputs = torch.randn(2, 32, 9, 9), grid, volume_grid
    check(Gathers(), *inputs)
    exported = torch.export.export(Gathers(), inputs)
    assert "2x2x5x6x16xf32" in str(with_layouts(exported))


LAYERS: dict[str, tuple[list[nn.Module], tuple[int, ...]]] = {
    "1-D": ([nn.Conv1d(8, 16, 3), nn.Conv1d(16, 32, 2, dilation=2)], (2, 8, 40)),
    "3-D": (
        [nn.Conv3d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv3d(16, 8, (1, 2, 3))],
        (1, 8, 4, 5, 6),
    ),
    "strided": ([nn.Conv2d(16, 48, 3, 2, 1), nn.Conv2d(48, 16, 1, 2)], (1, 16, 15, 29)),
    "odd channels": ([nn.Conv2d(5, 24, 3), nn.Conv2d(24, 40, 3)], (1, 5, 12, 13)),
    "no packed channels": ([nn.Conv2d(16, 5, 3), nn.Conv2d(5, 16, 3)], (1, 16, 9, 9)),
    "many channels": ([nn.Conv2d(16, 512, 1), nn.Conv2d(512, 80, 3)], (1, 16, 7, 7)),
    "wide": ([nn.Conv2d(16, 16, 3, padding=1)], (1, 16, 3, 70)),
    "one pixel": (
        [nn.Conv2d(16, 48, 1), nn.ReLU(), nn.Conv2d(48, 16, 1)],
        (2, 16, 1, 1),
    ),
    "depthwise": (
        [
            nn.Conv2d(8, 32, 1),
            nn.Conv2d(32, 32, 3, 2, 1, groups=32),
            nn.Conv2d(32, 8, 1),
        ],
        (1, 8, 11, 12),
    ),
}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)],
    ids=str,
)
def test_layers(layers: str, dtype: torch.dtype):
    torch.manual_seed(1)
    modules, shape = LAYERS[layers]
    model = nn.Sequential(*modules).to(dtype)

    check(model, torch.randn(shape, dtype=dtype), least_packed=1)


def test_dynamic_sizes():
    torch.manual_seed(2)
    model = Net(lambda x: F.max_pool2d(F.pad(x, (1, 0, 2, 1), mode="reflect"), 2))
    dynamic = (
        {0: Dim("batch", max=8), 2: Dim("rows", min=9), 3: Dim("columns", min=9)},
    )
    needs_export(model.eval(), (torch.randn(2, 3, 10, 12),), dynamic)
    exported = torch.export.export(
        model, (torch.randn(2, 3, 10, 12),), dynamic_shapes=dynamic
    )
    compiled = padc.compile(exported)

    assert packed_weights(model, torch.randn(2, 3, 10, 12), dynamic=dynamic) == 3
    for shape in ((2, 3, 10, 12), (1, 3, 9, 47), (3, 3, 20, 21)):
        x = torch.randn(shape)
        torch.testing.assert_close(
            flat(compiled(x)), flat(model(x)), rtol=1e-4, atol=1e-5
        )


def test_weights_that_are_inputs_are_packed_in_the_program():
    class Functional(nn.Module):
        def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
            return F.conv2d(x, kernel, padding=1).relu()

    x, kernel = torch.randn(1, 16, 8, 9), torch.randn(32, 16, 3, 3)
    check(Functional(), x, kernel)


def test_blocks_of_several_sizes():
    class Blocks(nn.Module):
        """24 channels are packed by 8, and 16 by 16, but by 8 next to the others."""

        def __init__(self):
            super().__init__()
            self.of_8 = nn.Conv2d(3, 24, 3)
            self.of_16 = nn.Conv2d(3, 16, 3)
            self.last = nn.Conv2d(40, 16, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            narrow, wide = self.of_8(x), self.of_16(x)
            both = self.last(torch.cat([narrow, wide], 1))
            return both + wide, self.last(torch.cat([wide, narrow], 1)), wide.relu()

    torch.manual_seed(4)
    check(Blocks(), torch.randn(1, 3, 9, 10))


def test_a_weight_of_two_layers():
    torch.manual_seed(3)
    layer = nn.Conv2d(16, 16, 3, padding=1)
    model = nn.Sequential(layer, nn.ReLU(), layer)

    check(model, torch.randn(1, 16, 8, 8))


def test_borders_that_cost_more_than_they_gain_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    model = nn.Conv2d(16, 16, 1)

    assert packed_weights(model, torch.randn(1, 16, 20, 20)) == 0


class Patches(nn.Module):
    """A convolution, and what a vision transformer does with its result."""

    def __init__(self, kernel: int, stride: int):
        super().__init__()
        self.conv = nn.Conv2d(16, 16, kernel, stride, bias=False)

    def forward(self, x: Tensor) -> list[Tensor]:
        tokens = self.conv(x).flatten(2).mT
        return [tokens + float(number) for number in range(8)]


def test_a_convolution_may_gain_without_the_ops_after_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.undo()
    x = torch.randn(1, 16, 40, 40)

    assert packed_weights(Patches(7, 1), x) == 1
    assert packed_weights(Patches(4, 4), x) == 1
    assert packed_weights(Patches(1, 1), x) == 0


class Between(nn.Module):
    """Convolutions, each of which gains little, and ops of many operands after them."""

    def __init__(self, count: int):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(32, 32, 3) for _ in range(count))

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        for layer in self.convolutions:
            x = layer(x)
            for other in others:
                x = torch.maximum(x, other[..., : x.shape[2], : x.shape[3]])
        return x


@pytest.mark.parametrize("count", [1, 2])
def test_convolutions_and_their_starts_may_gain_without_the_ops_between(
    count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()
    x, *others = (torch.randn(1, 32, 62, 90) for _ in range(5))

    # A kernel and a start of each.
    assert packed_weights(Between(count), x, *others) == 2 * count


def test_packed_ops_know_the_source_line():
    between = [BETWEEN[name] for name in ("relu", "max pool", "replicated", "cropped")]
    exported = torch.export.export(Net(*between), (torch.randn(1, 3, 12, 12),))

    module = with_layouts(exported)

    assert "padc.order" in str(module)
    unknown = [
        op.name
        for op in module.walk()
        if isinstance(op, LinalgStructuredOperation)
        and "test_pack_layouts.py" not in str(op.location)
    ]
    assert unknown == []
