# pyright: basic
"""States that start at other numbers in the model: Core ML's start at 0."""

from collections.abc import Iterator
from typing import Any

import torch


def initial_problems(converter: Any) -> Iterator[str]:
    """The states of a converter of coremltools whose buffers are not 0."""
    for state in converter.states:
        buffer = converter.graph.buffers.get(state.name)
        if isinstance(buffer, torch.Tensor) and buffer.count_nonzero():
            yield (
                f"the state '{state.name}' starts at 0 in the package, but at other "
                "numbers in the model, which torch.jit.trace may have changed: write "
                "these to the state first, set the buffer to 0, or use padc.convert"
            )
