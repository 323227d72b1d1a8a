"""
padc: a compiler from PyTorch to Core ML and buffers that makes padding explicit.

    program = padc.convert(model, (torch.randn(1, 3, 224, 224),), target="iOS17")
    program.verify()
    program.save("model.mlpackage")

The subpackages are links to the folders at the top of the repository.
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

if TYPE_CHECKING:
    from padc import coreml, nn
    from padc.compiled import compile
    from padc.compiled_model import CompiledModel
    from padc.coreml_program import Program, convert
    from padc.verification import Comparison

__all__ = [
    "Comparison",
    "CompiledModel",
    "InvalidProgramError",
    "MissingEnvironmentError",
    "PadcError",
    "Problem",
    "Program",
    "SourceLocation",
    "UnsupportedError",
    "UsageError",
    "WrongResultError",
    "compile",
    "convert",
    "coreml",
    "nn",
]


def __getattr__(name: str) -> Any:
    # padc-opt starts without PyTorch, which these need.
    if name in ("coreml", "nn"):
        return importlib.import_module(f"padc.{name}")
    modules = {
        "Comparison": "verification",
        "CompiledModel": "compiled_model",
        "Program": "coreml_program",
        "compile": "compiled",
        "convert": "coreml_program",
    }
    if name not in modules:
        raise AttributeError(f"module 'padc' has no attribute '{name}'")
    return getattr(importlib.import_module(f"padc.{modules[name]}"), name)
