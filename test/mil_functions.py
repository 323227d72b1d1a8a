# pyright: basic
"""Functions in one Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from functions import Functions, Several, check_each, exportable
from torch import Tensor

import padc


def check(
    functions: Functions,
    *inputs: Tensor,
    dynamic: Sequence[Mapping[int, Any]] | None = None,
    others: Sequence[Sequence[Tensor]] = (),
    target: str | None = None,
    **tolerances: Any,
) -> None:
    """All functions are converted, in one package that computes what eager mode does."""
    shapes = None if dynamic is None else (tuple(dynamic),)
    options: Any = {} if target is None else {"target": target}
    functions = exportable(functions, tuple(inputs), shapes)
    program = padc.convert(
        Several(functions), tuple(inputs), dynamic_shapes=shapes, **options
    )
    for given in (inputs, *others):
        results = program.run(*given)
        check_each(functions, results, *given, equal_nan=True, **tolerances)


def size(most: int) -> object:
    """A size that varies, with the bound that Core ML needs."""
    return torch.export.Dim.AUTO(max=most)
