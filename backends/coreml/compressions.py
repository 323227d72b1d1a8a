"""The ways to compress weights, by name. This file does not load coremltools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from padc.errors import UsageError
from padc.ir.targets import TARGETS

PALETTE_BITS = (1, 2, 3, 4, 6, 8)
"""The sizes of an index into a palette that Core ML has."""

CHOICES = (
    "int8, int4, "
    + ", ".join(f"palette{bits}" for bits in PALETTE_BITS)
    + ", sparse, or sparseN, where N is a percentage from 1 to 99"
)


@dataclass(frozen=True)
class Compression:
    """A way to store weights in fewer bits; `named` makes it."""

    kind: Literal["int", "palette", "sparse"]
    bits: int = 0
    """The bits of an integer, or of an index into a palette."""
    percentage: int | None = None
    """How many weights become zero; None if only zeros are dropped."""

    @staticmethod
    def named(name: str) -> Compression:
        """The compression of this name; UsageError if the name is unknown."""
        found = re.fullmatch(r"(int|palette|sparse)([1-9][0-9]?)?", str(name))
        if found is not None:
            kind, number = found[1], int(found[2] or 0)
            if kind == "int" and number in (4, 8):
                return Compression("int", number)
            if kind == "palette" and number in PALETTE_BITS:
                return Compression("palette", number)
            if kind == "sparse":
                return Compression("sparse", percentage=number or None)
        raise UsageError(
            f"there is no compression '{name}'", hint=f"choose one of {CHOICES}"
        )

    @property
    def is_exact(self) -> bool:
        """Whether weights keep their values."""
        return self.kind == "sparse" and self.percentage is None

    @property
    def target(self) -> str:
        """The oldest system that has it."""
        is_new = (self.kind, self.bits) in (("int", 4), ("palette", 3))
        return "iOS18" if is_new else "iOS16"

    def check_target(self, target: str) -> None:
        """Raise UsageError if a target does not have it."""
        if TARGETS.index(target) < TARGETS.index(self.target):
            raise UsageError(
                f"weights cannot be compressed so for {target}: that needs "
                f"{self.target}",
                hint=f"choose the target {self.target} or newer",
            )
