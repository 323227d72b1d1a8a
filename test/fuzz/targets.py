"""The targets of the fuzzer, and the folder of the cases that failed."""

from __future__ import annotations

import importlib
from pathlib import Path

from fuzz.target import Target

FINDS = Path(__file__).parent / "finds"
TARGETS = {
    "packages": ("packages", "Packages"),
    "archives": ("archives", "Archives"),
    "mlir": ("mlir", "MlirText"),
    "mlir-models": ("mlir", "MlirModels"),
    "mlir-runs": ("mlir", "MlirRuns"),
    "aten": ("aten", "AtenOps"),
    "aten-models": ("aten", "AtenModels"),
    "aten-runs": ("aten", "AtenRuns"),
    "dynamic-archives": ("dynamic_archives", "DynamicArchives"),
    "aten-archives": ("aten_archives", "AtenArchives"),
    "arrays": ("arrays", "Arrays"),
    "cache": ("cache", "CacheEntries"),
    "commands": ("commands", "CommandLines"),
}
"""The file of each target, and its class."""


def load_target(name: str) -> Target:
    """A target, before its seeds are made."""
    file, target = TARGETS[name]
    return getattr(importlib.import_module(f"fuzz.{file}"), target)()


def finds(name: str) -> list[Path]:
    """The files that a target found."""
    return sorted((FINDS / name).glob("*"))
