"""
What a program computes in, and how its weights are stored.

This file does not load coremltools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from padc.backends.coreml.compressions import Compression
from padc.errors import UsageError
from padc.ir.precisions import Precision, resolve_precision

OpPredicate: TypeAlias = Callable[[Any], bool]
"""Whether an op of coremltools' MIL computes in float32."""

Keep: TypeAlias = Sequence[str | OpPredicate]
"""Kinds, paths of modules, and predicates: an op that is in any of them is kept."""


@dataclass(frozen=True)
class Numerics:
    """
    What a program computes in, and how its weights are stored.
    """

    precision: Precision
    """The dtype that floats are computed in."""
    keep_float32: Keep = ()
    """The ops that compute in float32 if `precision` is "float16"."""
    compression: Compression | None = None
    """How weights are stored; None if they are stored as they are."""
    pretend: bool = False
    """Whether compressed weights are stored as other weights, with their new values."""

    @staticmethod
    def named(
        precision: Precision, keep_float32: Keep, compress: str | None, target: str
    ) -> Numerics:
        """The numerics for `padc.convert`'s arguments; UsageError if they are bad."""
        resolve_precision(precision)
        if isinstance(keep_float32, str):
            raise UsageError(
                "keep_float32 is a string", hint=f"give a list: [{keep_float32!r}]"
            )
        if not isinstance(cast(Any, keep_float32), Iterable):
            raise UsageError(
                f"keep_float32 is {keep_float32!r}",
                hint="give a list of names and functions",
            )
        keep = tuple(keep_float32)
        for each in keep:
            if not isinstance(each, str) and not callable(each):
                raise UsageError(
                    f"keep_float32 has {each!r}, neither a name nor a function of ops"
                )
        if keep and precision != "float16":
            raise UsageError(
                f'keep_float32 is given, and precision is "{precision}"',
                hint='give precision="float16"',
            )
        compression = None if compress is None else Compression.named(compress)
        if compression is not None:
            compression.check_target(target)
        return Numerics(precision, keep, compression)
