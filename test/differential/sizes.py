# pyright: basic
"""What modules compute with sizes, in Python: the sizes may be dynamic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from differential.draw import Draw
from torch import Tensor


@dataclass(frozen=True, repr=False)
class Code:
    """A function of a tensor `x`, as an expression of Python."""

    text: str
    __name__: ClassVar[str] = "code"

    def __call__(self, x: Tensor) -> Any:
        return eval(self.text, {"torch": torch, "F": F, "x": x})

    def __repr__(self) -> str:
        return self.__name__

    def source(self, x: str) -> str:
        """The same in Python."""
        text = self.text.replace("F.", "torch.nn.functional.")
        return f"(lambda x: {text})({x})"


OF_ANY = (
    "F.pad(x, (0, -x.shape[-1] % {k}))",
    "F.pad(x, (x.shape[-1] // {k}, 1))",
    "x[..., : x.shape[-1] // 2 + 1]",
    "x[..., x.shape[-1] // 4 : x.shape[-1] - x.shape[-1] // 4]",
    "x[..., -(x.shape[-1] // {k}) - 1 :]",
    "x[..., :: x.shape[-1] // 3 + 1]",
    "x.reshape(-1, x.shape[-1])",
    "x.reshape(x.shape[0] * x.shape[-1], -1) if x.dim() == 2 else x.flatten(0, 1)",
    "x.reshape(x.shape[0], x.numel() // x.shape[0])",
    "x[:, None].expand(x.shape[0], x.shape[0] + {k}, *x.shape[1:])",
    "torch.cat(x.chunk(2, 0)[::-1], 0)",
    "torch.cat([x, x[: x.shape[0] // 2]], 0)",
    "torch.stack(x.split((x.shape[0] + 1) // 2, 0)[:1])",
    "x.roll(x.shape[-1] // 2, -1)",
    "x.index_select(-1, torch.arange(x.shape[-1]) // {k})",
    "x[..., torch.arange(x.shape[-1] - 1, -1, -1)]",
    "torch.where(torch.arange(x.shape[-1]) < x.shape[-1] // 2, x, torch.zeros_like(x))",
    "x.tril(x.shape[0] - {k}) if x.dim() > 1 else x",
    "x.masked_fill(torch.ones(x.shape[-1], x.shape[-1]).triu(1).bool()[0], 1)",
)
OF_FLOATS = (
    "x + torch.arange(x.shape[-1], dtype=x.dtype)",
    "x.sum(-1) / x.shape[-1]",
    "x * (x.shape[-1] ** -0.5)",
    "x.mean(-1, keepdim=True).expand(x.shape)",
    "x + torch.linspace(0, 1, x.shape[-1]).to(x.dtype)",
    "F.interpolate(x, size=x.shape[-1] * 2) if x.dim() == 3 else x",
    "F.interpolate(x, size=(x.shape[-2] // 2 + 1, {k})) if x.dim() == 4 else x",
    "F.adaptive_avg_pool1d(x, x.shape[-1] // 2 + 1) if x.dim() == 3 else x",
    "F.avg_pool1d(x, {k}, ceil_mode=True) if x.dim() == 3 else x",
    "x @ x.transpose(-1, -2) if x.dim() > 1 else x",
)


def sized(draw: Draw) -> bool:
    """A computation with sizes of a value."""
    x = draw.pick(lambda x: x.dim() > 0 and bool(x.numel()) and bool(finite(x)))
    if x is None:
        return False
    is_float = draw.value(x).is_floating_point()
    texts = (*OF_ANY, *OF_FLOATS) if is_float else OF_ANY
    text = draw.choice(texts).format(k=draw.integer(2, 4))
    return draw.call(Code(text), x)


def finite(x: Tensor) -> bool:
    return bool((x.double().abs() < 1e4).all())
