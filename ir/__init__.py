"""
Dialects of padc, and the table that registers them.

    torch, tcp, mil     the dialects of padc; `mil_forms` and `mil_types` serve `mil`
    arith, linalg       xDSL's dialects, with what they lack
    padding, resampling, phases, winograd
                        formulas over the numbers of `arithmetic`
    weights, text, names
                        arrays that the IR refers to, how floats and names are written
    element_types, type_tests, builtin_shapes
                        questions about types
    main_function, model_buffers, dominance
                        functions: their arguments, changed buffers, valid uses
    targets, precisions what a program is made for, and how exactly it computes

This file does not import xDSL: what runs packages needs the targets only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Dialect

ADDED = {
    "mil": ("mil", "Mil"),
    "tcp": ("tcp", "Tcp"),
    "torch": ("torch", "Torch"),
    "torch_c": ("torch", "TorchC"),
}
"""The file or folder and the variable of each dialect that xDSL does not have."""

REPLACED = {"arith": ("arith", "Arith"), "linalg": ("linalg", "Linalg")}
"""Those of the dialects that padc has in place of xDSL's."""


def load_dialect(module: str, variable: str) -> Dialect:
    return getattr(importlib.import_module(f"padc.ir.{module}"), variable)


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """
    The dialects that padc adds to those of xDSL, by name.

    Each is imported when its first op or type is parsed: building the table of ATen ops
    takes longer than parsing most files.
    """
    return {name: partial(load_dialect, *where) for name, where in ADDED.items()}


def make_context() -> Context:
    """A context with the dialects of xDSL and padc, and a store of weights."""
    from xdsl.context import Context
    from xdsl.dialects import get_all_dialects as get_xdsl_dialects

    from padc.ir.weights import weights_builtin_dialect

    ctx = Context()
    replaced = {name: partial(load_dialect, *at) for name, at in REPLACED.items()}
    builtin = {"builtin": weights_builtin_dialect}
    dialects = get_xdsl_dialects() | get_all_dialects() | replaced | builtin
    for name, dialect in dialects.items():
        ctx.register_dialect(name, dialect)
    return ctx
