# pyright: basic
"""Where a model uses the `data` of a tensor, which torch.export does not trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from padc.errors import Problem, SourceLocation
from padc.frontends.torch_export.locations import caller_location

DATA: Any = torch.Tensor.data
"""The property, a descriptor."""
UNTRACED = "fake tensor in the exported program constant's list"
"""What torch.export says of values that it lost track of."""


@dataclass
class Access:
    """A tensor whose `data` is used."""

    tensor: Tensor
    location: SourceLocation | None
    data: list[Tensor] = field(default_factory=list)
    """What the model got each time; their versions count the changes."""
    is_set: bool = False
    """Whether the model has given it other data."""


class DataAccesses(TorchFunctionMode):
    """Records the tensors whose `data` is used while a model runs, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Access] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        is_read = func == DATA.__get__
        if is_read or func == DATA.__set__:
            access = Access(args[0], caller_location())
            access = self.found.setdefault(id(args[0]), access)
            access.data += [result] if is_read else []
            access.is_set |= not is_read
        return result

    def problems(self, module: torch.nn.Module) -> list[Problem]:
        """What to say of the tensors that have been used so."""
        named = {id(x): f"buffer '{name}'" for name, x in module.named_buffers()}
        for name, x in module.named_parameters():
            named[id(x)] = f"parameter '{name}'"
        return [problem(x, named.get(key)) for key, x in self.found.items()]


def problem(access: Access, name: str | None) -> Problem:
    """Why the use of the data of a tensor, which the model may hold, is refused."""
    what = "a tensor" if name is None else f"its {name}"
    if not access.is_set and not any(each._version for each in access.data):
        message = f"the model reads the data of {what}, which torch.export cannot trace"
        return Problem(message, access.location, "use x.detach() instead of x.data")
    message = f"the model changes {what} in place, by its data"
    hint = "register what changes as a buffer, and change x itself, not x.data"
    return Problem(message, access.location, hint)
