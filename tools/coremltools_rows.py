# pyright: basic
"""
The cases that `update_coremltools.py` runs besides those of `support_rows.py`.

They are of ordinary ops, where coremltools' reading of a graph decides the result:
writes in place, sizes that vary, numbers that choose an overload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from padc.tools.support_rows import Case, Function, on

X = (2, 4, 9, 8)


def writes(write: Callable[[Tensor], object], **options: bool) -> Case:
    """A copy of the input after a write to it."""

    def function(x: Tensor) -> Tensor:
        y = x * 1
        write(y)
        return y

    return on(X, **options)(function)


def write_chunks(y: Tensor) -> None:
    first, second = y.chunk(2, 2)
    first.relu_()
    second.neg_()


def clear_rows(y: Tensor) -> None:
    y[:, :, [0, 2]] = 7.0


def swap_channels(y: Tensor) -> None:
    y[:, [0, 1]] = y[:, [1, 0]]


def earlier_view(x: Tensor) -> Tensor:
    y = x * 1
    view = y[:, 0]
    y.mul_(2)
    return view


def written_rows(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for row in range(2):
        y[row] += x[row, :1]
    return y


def corrections(*functions: Function) -> Sequence[Case]:
    return [on(X)(function) for function in functions]


EXTRA_ROWS: Mapping[str, Sequence[Case]] = {
    "write to a slice": [
        writes(lambda y: y[:, 1:3].fill_(2)),
        writes(lambda y: y[..., ::2].copy_(y[..., 1::2])),
        writes(lambda y: y[:, 0].add_(1)),
        writes(lambda y: y[..., 1:3].zero_()),
        writes(lambda y: y[:, :, 1:-1].mul_(2), dynamic=True),
        on(X)(written_rows),
    ],
    "write to another view": [
        writes(lambda y: y.view(-1).mul_(2)),
        writes(lambda y: y.transpose(1, 2)[:, 3].add_(1)),
        writes(lambda y: y.flatten(2).clamp_(max=0.5), dynamic=True),
        writes(write_chunks),
        on(X)(earlier_view),
    ],
    "write by index": [
        writes(clear_rows),
        writes(lambda y: y.index_fill_(2, torch.tensor([0, 5]), 7.0)),
        writes(lambda y: y[0].masked_fill_(y[0] > 0.5, 0.0)),
        writes(swap_channels),
    ],
    "flatten": [
        on(X)(lambda x: x.flatten(1)),
        on(X, dynamic=True)(lambda x: x.flatten(2)),
        on(X, dynamic=True)(lambda x: x.flatten()),
        on(X, dynamic=True)(lambda x: F.relu(x).flatten(1, 2).unflatten(1, (4, -1))),
    ],
    "var, std": corrections(
        lambda x: torch.var(x, 1, correction=2),
        lambda x: torch.std(x, (2, 3), correction=3, keepdim=True),
        lambda x: torch.var_mean(x, 1, correction=0)[0],
        lambda x: torch.std(x, 1, unbiased=False),
    ),
}
