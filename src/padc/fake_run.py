"""Running a graph on tensors without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def run_on_fakes(
    graph: torch.fx.GraphModule, args: Sequence[Any], has_weights: bool = False
) -> tuple[list[Any], list[Any]]:
    """
    The arguments as tensors without data, after the run, and the outputs.

    Raises what `graph` raises, and an error if it has tensors of its own, unless
    `has_weights`.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=has_weights)
    mode.cache_enabled = False  # It would grow with each new size.
    fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in args]
    with mode:
        return fakes, list(graph(*fakes))
