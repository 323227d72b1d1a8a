"""What PyTorch's kernels check of their operands, and not its fake tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle


def check_dim(dim: int, rank: int) -> None:
    """Raise Obstacle unless a tensor of `rank` has the dimension."""
    if not -rank <= dim < rank:
        raise Obstacle(
            f"the dimension {dim} of a tensor of rank {rank}", "name one that it has"
        )


def check_index(index: object, size: object) -> None:
    """Raise Obstacle if it is known that no element of a dimension has the index."""
    if not isinstance(index, int) or not isinstance(size, int):
        return
    if size != DYNAMIC_INDEX and not -size <= index < size:
        raise Obstacle(
            f"the index {index} of a dimension of size {size}", "take one that it has"
        )


def check_source(source: Sequence[int], part: Sequence[object]) -> None:
    """Raise Obstacle if it is known that a part of a tensor has another shape."""
    if len(source) != len(part) or any(
        isinstance(size, int) and DYNAMIC_INDEX not in (size, own) and size != own
        for own, size in zip(source, part, strict=True)
    ):
        shape = [size if isinstance(size, int) else DYNAMIC_INDEX for size in part]
        raise Obstacle(
            f"a source of shape {list(source)} in place of {shape}",
            "give the source the shape of the part that it replaces",
        )


def check_rank(rank: int, expected: int, name: str) -> None:
    """Raise Obstacle unless an operand has the rank of another one."""
    if rank != expected:
        raise Obstacle(f"{name} has rank {rank}", f"give {name} rank {expected}")


def check_not_empty(sizes: Sequence[int]) -> None:
    """Raise Obstacle if the largest of no elements is asked for."""
    if 0 in sizes:
        raise Obstacle("the largest or smallest of no elements", "give it elements")


def check_length(given: Sequence[object], rank: int, name: str) -> None:
    """Raise Obstacle unless there is a number for each of `rank` dimensions."""
    if len(given) != rank:
        raise Obstacle(
            f"{name} has {len(given)} numbers", f"give {name} {rank} numbers"
        )
