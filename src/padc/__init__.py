"""
padc: a compiler from PyTorch to Core ML and machine code that makes padding explicit.

    >>> import padc, torch
    >>> model = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect").eval()
    >>> x = torch.randn(1, 3, 8, 8)
    >>> program = padc.convert(model, (x,), target="iOS17", verify=True)
    >>> program.save("model.mlpackage")
    >>> padc.compile(model, (x,))(x).shape
    torch.Size([1, 4, 8, 8])

`ir`, `frontends`, `passes`, `backends` and `tools` are links to the folders at the top
of the repository.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from padc.errors import (
    InvalidProgramError,
    MissingEnvironmentError,
    PadcError,
    Problem,
    SourceLocation,
    UnsupportedError,
    UsageError,
    WrongResultError,
)
from padc.versions import require
from padc.warn import PadcWarning

if TYPE_CHECKING:
    from padc import coreml, nn
    from padc.compiled import compile
    from padc.compiled_model import CompiledModel
    from padc.coreml_functions import save_functions
    from padc.coreml_program import Program, convert
    from padc.float16_report import Float16Report
    from padc.frontends.torch_export.pt2 import load
    from padc.verification import Comparison

__all__ = [
    "Comparison",
    "CompiledModel",
    "Float16Report",
    "InvalidProgramError",
    "MissingEnvironmentError",
    "PadcError",
    "PadcWarning",
    "Problem",
    "Program",
    "SourceLocation",
    "UnsupportedError",
    "UsageError",
    "WrongResultError",
    "compile",
    "convert",
    "coreml",
    "load",
    "nn",
    "save_functions",
]


def __getattr__(name: str) -> Any:
    if name in ("coreml", "nn"):
        return importlib.import_module(f"padc.{name}")
    # The others need PyTorch, without which padc-opt starts.
    modules = {
        "Comparison": ("verification", "torch"),
        "CompiledModel": ("compiled_model", "native"),
        "Float16Report": ("float16_report", "coreml"),
        "Program": ("coreml_program", "coreml"),
        "compile": ("compiled", "native"),
        "convert": ("coreml_program", "coreml"),
        "load": ("frontends.torch_export.pt2", "torch"),
        "save_functions": ("coreml_functions", "coreml"),
    }
    if name not in modules:
        raise AttributeError(f"module 'padc' has no attribute '{name}'")
    module, extra = modules[name]
    require("torch", extra)
    return getattr(importlib.import_module(f"padc.{module}"), name)
