"""The models that `padc.convert` and `padc.compile` take, as exported programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from padc.errors import UsageError
from padc.frontends.torch_export import export_module


def as_exported(
    caller: str,
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Any] | None,
    dynamic_shapes: Any,
) -> ExportedProgram:
    """
    `model` itself if it is exported already, else its export.

    Raises UsageError unless `example_inputs` are given for modules and only for those.
    `caller` is the public function to show in the hint.
    """
    if isinstance(model, ExportedProgram):
        if example_inputs is not None or dynamic_shapes is not None:
            raise UsageError(
                "an exported program has its inputs and dynamic shapes already",
                hint="give example_inputs and dynamic_shapes with a module only",
            )
        return model
    if example_inputs is None:
        raise UsageError(
            "a module needs example_inputs to be traced with",
            hint=f"{caller}(model, (torch.randn(1, 3, 224, 224),))",
        )
    if not isinstance(example_inputs, list | tuple):
        raise UsageError(
            f"example_inputs is a {type(example_inputs).__name__}",
            hint="give a tuple with one entry for each argument of the model",
        )
    return export_module(model, tuple(example_inputs), dynamic_shapes=dynamic_shapes)
