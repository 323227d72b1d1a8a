"""A function as a module, since `torch.export` takes modules only."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Function(nn.Module):
    """Calls `function`."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)
