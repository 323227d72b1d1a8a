"""
What each ATen op on sizes computes, for every path.

Sizes are integers, and PyTorch's symbolic floats are computed from them. The functions
use operators: each path calls them with numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from padc.ir.arithmetic import maximum, minimum

Function: TypeAlias = Callable[[Any, Any], Any]

INTEGERS: Mapping[str, Function] = {
    "aten.add.int": lambda a, b: a + b,
    "aten.sub.int": lambda a, b: a - b,
    "aten.mul.int": lambda a, b: a * b,
    "aten.floordiv.int": lambda a, b: a // b,
    "aten.remainder.int": lambda a, b: a % b,
    "prim.max.int": maximum,
    "prim.min.int": minimum,
}
"""Of two integers; the remainder has the sign of the divisor, as in Python."""

MIXED = "float", "float_int", "int_float"
"""The overloads of ops of which an operand is a float."""

FLOATS: Mapping[str, Function] = {
    **{f"aten.add.{each}": lambda a, b: a + b for each in MIXED},
    **{f"aten.sub.{each}": lambda a, b: a - b for each in MIXED},
    **{f"aten.mul.{each}": lambda a, b: a * b for each in MIXED},
    "aten.div.float": lambda a, b: a / b,
    "aten.div.int": lambda a, b: a / b,
}
"""Of two numbers as floats."""
