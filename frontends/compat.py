# pyright: reportUnknownMemberType=false
"""What differs between the versions of PyTorch that padc supports, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch.utils._pytree import TreeSpec


def children(spec: TreeSpec) -> Sequence[TreeSpec]:
    """The parts of a container."""
    if not hasattr(spec, "children"):  # up to 2.9
        return cast(Any, spec).children_specs
    return spec.children()
