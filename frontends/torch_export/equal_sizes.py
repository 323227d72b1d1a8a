# pyright: basic
"""Sizes that are declared separately, and that the model needs to be equal."""

from __future__ import annotations

import re
from typing import Any

import torch.utils._pytree as pytree


def with_equal_sizes(dynamic_shapes: Any, message: str) -> Any:
    """
    Dynamic shapes where dimensions that must be equal are one; None if that fails.

    `message` is PyTorch's, which suggests fixes. Only dimensions of the same bounds
    become one: their inputs then take the sizes that were declared.
    """
    fixes = dict(re.findall(r"^ *(\w+) = (.+?) *$", suggested(message), re.MULTILINE))
    dims = {
        each.__name__: each
        for each in pytree.tree_leaves(dynamic_shapes)
        if hasattr(each, "min") and hasattr(each, "__name__")
    }
    if not fixes or not all(is_equality(dims, *each) for each in fixes.items()):
        return None

    def joined(dim: Any) -> Any:
        name = fixes.get(getattr(dim, "__name__", None))
        return dim if name is None else dims[name]

    return pytree.tree_map(joined, dynamic_shapes)


def suggested(message: str) -> str:
    """The lines of the suggested fixes."""
    return message.partition("Suggested fixes:\n")[2]


def is_equality(dims: dict[str, Any], name: str, other: str) -> bool:
    """Whether a fix replaces a dimension by another one of the same bounds."""
    if not dims.keys() >= {name, other}:
        return False
    a, b = dims[name], dims[other]
    return (a.min, a.max) == (b.min, b.max)
