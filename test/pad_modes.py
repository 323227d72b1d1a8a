"""What the pads take and show, as formulas that z3 takes too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3
from proofs import choose, ints, largest, smallest

from padc.ir import padding
from padc.ir.padding import Amounts
from padc.ir.tcp import SymmetricPadOp


def within(position: Any, size: Any) -> Any:
    return z3.And(0 <= position, position < size)


def size_after(size: Any, amounts: Any) -> Any:
    return padding.padded_size(size, amounts.lower, amounts.upper, amounts.interior)


def amounts_named(name: str) -> Any:
    return Amounts(*ints(f"{name}_lower {name}_upper {name}_interior"))


# What each pad takes and shows. `legal` says what its check does, without raising.


def legal_constant(size: Any, amounts: Any) -> Any:
    def crop(amount: Any) -> Any:
        return choose(amount < 0, -amount, 0)

    return z3.And(
        size >= 0,
        amounts.interior >= 0,
        crop(amounts.lower) + crop(amounts.upper)
        <= padding.padded_size(size, 0, 0, amounts.interior),
    )


def legal_replication(size: Any, amounts: Any) -> Any:
    return z3.And(size > 0, size + amounts.lower + amounts.upper >= 0)


def legal_reflection(size: Any, amounts: Any) -> Any:
    return z3.And(
        legal_replication(size, amounts), amounts.lower < size, amounts.upper < size
    )


def legal_symmetric(size: Any, amounts: Any) -> Any:
    return z3.And(
        legal_replication(size, amounts), amounts.lower <= size, amounts.upper <= size
    )


def legal_circular(size: Any, amounts: Any) -> Any:
    lower, upper = amounts.lower, amounts.upper
    cropped = size + smallest(lower, 0) + smallest(upper, 0)
    return z3.And(size >= 0, cropped >= 0, lower <= cropped, upper <= cropped)


def replicated(j: Any, size: Any, amounts: Any) -> Any:
    return padding.source_index_replication(j, size, amounts.lower)


def reflected(j: Any, size: Any, amounts: Any) -> Any:
    return padding.source_index_reflection(j, size, amounts.lower)


def mirrored(j: Any, size: Any, amounts: Any) -> Any:
    return SymmetricPadOp.source_index(j, size, amounts.lower, amounts.upper)


def wrapped(j: Any, size: Any, amounts: Any) -> Any:
    return padding.source_index_circular(j, size, amounts.lower, amounts.upper)


def wrapped_once(j: Any, size: Any, amounts: Any) -> Any:
    """`wrapped` where the pad is legal, without a remainder."""
    lower, upper = amounts.lower, amounts.upper
    cropped = size + smallest(lower, 0) + smallest(upper, 0)
    i = j - largest(lower, 0)
    i = choose(i < 0, i + cropped, choose(i >= cropped, i - cropped, i))
    return i - smallest(lower, 0)


Legal = Callable[[Any, Any], Any]
Source = Callable[[Any, Any, Any], Any]
MODES: dict[str, tuple[Legal, Source, Callable[..., Any]]] = {
    "replicate": (legal_replication, replicated, padding.replication_pads_fold),
    "reflect": (legal_reflection, reflected, padding.reflection_pads_fold),
    "circular": (legal_circular, wrapped_once, padding.circular_pads_fold),
    "symmetric": (legal_symmetric, mirrored, SymmetricPadOp.folds),
}
CHECKS: dict[str, Callable[[int, int, int], None]] = {
    "constant": padding.check_constant,
    "replicate": padding.check_replication,
    "reflect": padding.check_reflection,
    "circular": padding.check_circular,
    "symmetric": SymmetricPadOp.check_amounts,
}
