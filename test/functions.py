# pyright: basic
"""Functions as modules, for `torch.export`; skips for what it cannot export."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.exc import UserError
from torch.export import Dim

Functions = Mapping[str, Callable[..., Any]]


class Function(nn.Module):
    """Calls `function`."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


class Several(nn.Module):
    """The results of several functions of the same inputs: one export for all."""

    def __init__(self, functions: Functions):
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(y for f in self.functions.values() for y in flat(f(*inputs)))


def flat(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def check_each(
    functions: Functions,
    results: Iterable[Tensor],
    *inputs: Tensor,
    note: str = "",
    **tolerances: Any,
) -> None:
    """The results of `Several` are PyTorch's; the name of the first that is not."""
    remaining = iter(results)
    for name, function in functions.items():
        for expected in flat(function(*inputs)):
            torch.testing.assert_close(
                next(remaining),
                expected,
                **tolerances,
                msg=lambda message: f"{name} {note}: {message}",
            )
    assert not list(remaining)


def needs_pools_of_dynamic_size() -> None:
    """Skip the test if PyTorch cannot export them, as 2.8 cannot with a stride."""
    if error := error_of_pool():
        pytest.skip(f"PyTorch {torch.__version__} cannot export the pool: {error}")


@cache
def error_of_pool() -> str:
    """What PyTorch says to a pool of dynamic size with a stride; "" if it is exported."""
    x, size = torch.ones(1, 1, 12, 12), Dim("size", min=8, max=64)
    pool = Function(lambda x: F.max_pool2d(x, 3, 2))
    try:
        torch.export.export(pool, (x,), dynamic_shapes=(({2: size},),))
    except UserError as error:
        return str(error).partition("!")[0]
    return ""
