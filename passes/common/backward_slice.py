"""What a value is computed from."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Operation, SSAValue


def backward_slice(
    *values: SSAValue, known: Collection[SSAValue] = frozenset()
) -> list[SSAValue]:
    """Values and all that they are computed from, but not what `known` ones are."""
    seen, rest = dict[SSAValue, None](), list(values)
    while rest:
        if (value := rest.pop()) not in seen:
            seen[value] = None
            if isinstance(value.owner, Operation) and value not in known:
                rest += value.owner.operands
    return list(seen)
