# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
The shapes that an input takes: as exported, or those of a description among them.

A dynamic size is a `ct.RangeDim`, shared by the sizes that the model says are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from padc.backends.coreml import quiet
from padc.errors import Obstacle
from padc.ir.torch.size_ranges import MOST_SHAPES, SizeRange

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.input_types import Shape

Size: TypeAlias = int | SizeRange
"""A size of an input, as the model was exported."""


class Ranges:
    """The `ct.RangeDim` of each dynamic size, by its name."""

    def __init__(self) -> None:
        self.chosen: dict[str, Any] = {}
        self._shared: dict[str, Any] = {}

    def choose(self, described: Any, sizes: Sequence[Size]) -> None:
        """
        Note the ranges that the description of an input asks for.

        Raises Obstacle if it does not fit the sizes.
        """
        if described is None:
            return
        shape = described.shape
        each = shape.shapes if isinstance(shape, ct.EnumeratedShapes) else [shape]
        for shape in filter(None, each):
            check_rank(shape.shape, sizes)
            for dim, (wanted, size) in enumerate(zip(shape.shape, sizes)):
                check_size(dim, wanted, size)
        if isinstance(described.shape, ct.EnumeratedShapes):
            check_enumerated(described.shape, sizes)
        elif described.shape is not None:
            for dim, (wanted, size) in enumerate(zip(described.shape.shape, sizes)):
                if isinstance(size, SizeRange):
                    self.note(dim, as_range(wanted), size)

    def note(self, dim: int, wanted: Any, size: SizeRange) -> None:
        known = self.chosen.setdefault(size.name, wanted)
        if (known.lower_bound, known.upper_bound, known.default) != (
            wanted.lower_bound,
            wanted.upper_bound,
            wanted.default,
        ):
            raise Obstacle(
                f"dimension {dim} equals another one in the model, of another range: "
                f"{describe_range(known)}, not {describe_range(wanted)}",
                "give equal sizes one ct.RangeDim",
            )

    def dim(self, size: SizeRange) -> Any:
        """The `ct.RangeDim` of a dynamic size."""
        if size.name not in self._shared:
            wanted = self.chosen.get(size.name)
            low = wanted.lower_bound if wanted else size.lower
            high = wanted.upper_bound if wanted else size.upper
            default = wanted.default if wanted else None
            # A RangeDim of its own: one of the user's may describe several sizes.
            self._shared[size.name] = ct.RangeDim(low, high, default)
        return self._shared[size.name]

    def shape(self, described: Any, sizes: Sequence[Size]) -> Any:
        """The shape of an input, after `choose` for all inputs."""
        dims = [
            self.dim(size) if isinstance(size, SizeRange) else size for size in sizes
        ]
        if described is None or not isinstance(described.shape, ct.EnumeratedShapes):
            return Shape(dims)
        listed = [list(shape.shape) for shape in described.shape.shapes]
        return enumerated(listed, described.shape.default, Shape(dims).symbolic_shape)


def enumerated(shapes: Sequence[Any], default: Any, symbolic: Sequence[Any]) -> Any:
    """`ct.EnumeratedShapes` with these sizes or symbols in the program."""
    made = ct.EnumeratedShapes(shapes, default)
    made.symbolic_shape = list(symbolic)
    return made


def permuted(shape: Any, order: Sequence[int]) -> Any:
    """A shape with its dimensions in another order."""
    if not isinstance(shape, ct.EnumeratedShapes):
        return Shape([shape.shape[dim] for dim in order])
    listed = [[each.shape[dim] for dim in order] for each in shape.shapes]
    default = [shape.default[dim] for dim in order]
    return enumerated(listed, default, [shape.symbolic_shape[dim] for dim in order])


def as_range(wanted: Any) -> Any:
    """A size as a range."""
    if isinstance(wanted, ct.RangeDim):
        return wanted
    return ct.RangeDim(int(wanted), int(wanted))


def describe_range(dim: Any) -> str:
    return f"{dim.lower_bound}..{dim.upper_bound} (default {dim.default})"


def check_rank(wanted: Sequence[Any], sizes: Sequence[Size]) -> None:
    if len(wanted) != len(sizes):
        raise Obstacle(
            f"is described with a shape of rank {len(wanted)}",
            "describe the shape that the model takes, or leave it out",
        )


def check_size(dim: int, wanted: Any, size: Size) -> None:
    """Raise Obstacle if a described size is not among those of the export."""
    if not isinstance(wanted, ct.RangeDim | int | np.integer):
        raise Obstacle(f"is described with {wanted} as dimension {dim}")
    low, high = bounds(wanted)
    if high < 0:
        raise Obstacle(
            f"is described without an upper bound of dimension {dim}, which Core ML "
            "needs",
            "ct.RangeDim(lower_bound, upper_bound)",
        )
    if isinstance(size, SizeRange):
        if not size.lower <= low <= high <= size.upper:
            raise Obstacle(
                f"is described with {low}..{high} as dimension {dim}, and the model "
                f"takes {size.lower}..{size.upper} there",
                "describe sizes among these, or export the model for more sizes",
            )
    elif not low == high == size:
        asked = str(low) if low == high else f"{low}..{high}"
        raise Obstacle(
            f"is described with {asked} as dimension {dim}, and the model takes "
            f"{size} only",
            "export the model with dynamic_shapes for this dimension",
        )


def bounds(wanted: Any) -> tuple[int, int]:
    if isinstance(wanted, ct.RangeDim):
        return wanted.lower_bound, wanted.upper_bound
    return int(wanted), int(wanted)


def check_enumerated(wanted: Any, sizes: Sequence[Size]) -> None:
    """Raise Obstacle for shapes that Core ML cannot enumerate."""
    listed = [tuple(each.shape) for each in wanted.shapes]
    if any(isinstance(size, ct.RangeDim) for shape in listed for size in shape):
        raise Obstacle(
            "is described with ranges in its enumerated shapes", "list sizes"
        )
    if len(set(listed)) != len(listed):
        raise Obstacle("is described with an enumerated shape twice", "list each once")
    if len(listed) > MOST_SHAPES:
        raise Obstacle(
            f"is described with {len(listed)} enumerated shapes; Core ML takes "
            f"{MOST_SHAPES}",
            "use ct.RangeDim",
        )
    if tuple(wanted.default) not in listed:
        raise Obstacle(
            f"is described with the default shape {tuple(wanted.default)}, which is "
            "not among its enumerated shapes"
        )
    if not any(isinstance(size, SizeRange) for size in sizes):
        raise Obstacle("has one shape only", "leave the shape out")
