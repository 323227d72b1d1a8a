# pyright: basic
"""Small exported programs that together have most features of programs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional as F


class Model(nn.Module):
    """A function of tensors, which also gets the model with its layers and buffers."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function
        self.conv = nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm1d(2)
        self.table = nn.Embedding(5, 2)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def layers(model: Model, x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(model.norm(model.conv(x)).relu(), 2, ceil_mode=True)


def buffers(model: Model, x: torch.Tensor) -> Any:
    count = model.get_buffer("count").add_(x.mean((0, 2)))
    return {"sum": x + count[:, None], "more": [x * 2, None]}


def branches(model: Model, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    def longer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.flip(1) * y

    return torch.cond(x.sum() > 0, longer, lambda x, y: x - y, (x, y))


def loops(model: Model, x: torch.Tensor) -> Any:
    def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, F.pad(x, (1, -1), mode="reflect")

    def go_on(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return i < 3

    return torch.while_loop(go_on, body, (torch.tensor(0), x))[1]


def indices(model: Model, x: torch.Tensor, index: torch.Tensor) -> Any:
    y = model.table(index).cumsum(0)
    return x[:, :, index], y.index_put((index,), y * 2), torch.einsum("ij,kj->ik", y, y)


def resized(model: Model, x: torch.Tensor) -> Any:
    y = F.interpolate(x, scale_factor=2.0, mode="linear")
    grid = torch.zeros(1, 3, 3, 2, dtype=x.dtype)
    z = F.grid_sample(y[:, None, :, :4], grid, mode="bicubic", align_corners=False)
    return y[..., ::2].reshape(2, -1), F.conv_transpose1d(x, torch.ones(2, 1, 3)), z


def spectra(model: Model, x: torch.Tensor) -> torch.Tensor:
    y = torch.fft.rfft(x.double()) * torch.tensor(1j)
    return torch.view_as_real(y).abs().bfloat16().float().half().clamp(0, 2).float()


def programs() -> dict[str, ExportedProgram]:
    """The programs, by a name."""
    torch.manual_seed(0)
    x = torch.arange(16.0).reshape(1, 2, 8)
    index = torch.tensor([0, 3, 1])
    length: Any = {2: Dim.AUTO(min=4, max=64)}
    cases: list[tuple[Any, tuple[Any, ...], Any]] = [
        (layers, (x,), length),
        (buffers, (x,), length),
        (branches, (x, x), None),
        (loops, (x,), None),
        (indices, (x, index), None),
        (resized, (x,), length),
        (spectra, (x,), None),
    ]
    return {
        function.__name__: export(
            Model(function).eval(),
            inputs,
            dynamic_shapes=None if dynamic is None else ((dynamic,),),
        )
        for function, inputs, dynamic in cases
    }


def saved(program: ExportedProgram) -> bytes:
    """The `.pt2` file of a program."""
    data = io.BytesIO()
    torch.export.save(program, data)
    return data.getvalue()
