# pyright: basic, reportMissingTypeStubs=false
"""Limits of memory and time, so that a damaged program ends with an error."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from padc.errors import Obstacle

aten = torch.ops.aten


@dataclass(frozen=True)
class Limits:
    """
    The memory and the time that a program may take.

    Example:
        >>> import padc, torch
        >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
        >>> model = padc.coreml.load("relu.mlpackage", limits=padc.coreml.Limits(2))
        >>> model.limits.elements
        2
    """

    elements: int = 2**29
    """Elements of a value that is computed; 2 GiB in float32. Constants are limited by
    the file that holds them only."""
    total: int = 2**30
    """Elements of all values that are kept at one time; 4 GiB in float32. A view of
    another value counts as if it had elements of its own."""
    iterations: int = 100_000
    """Runs of the blocks inside ops in one prediction, and steps that one op takes over
    a tensor, as a recurrent layer does."""

    def check_size(self, shape: Sequence[int], what: str = "a value") -> None:
        """
        Raise Obstacle if a tensor would be too large.

        Args:
            shape: The sizes of the tensor in elements. Sizes next to a 0 count too,
                since loops run over them.
            what: The name of the tensor in the message.

        Raises:
            Obstacle: The tensor has too many elements.
        """
        if prod(max(size, 1) for size in shape) > self.elements:
            raise Obstacle(
                f"{what} of shape {list(shape)} has more than {self.elements} elements",
                hint="load(path, limits=Limits(elements=...)) of padc.coreml "
                "sets what is allowed",
            )

    def check_total(self, elements: int) -> None:
        """
        Raise Obstacle if values together are too large.

        Args:
            elements: The number of elements of all values.

        Raises:
            Obstacle: There are too many.
        """
        if elements > self.total:
            raise Obstacle(
                f"with it, {elements} elements are kept, more than {self.total}",
                hint="load(path, limits=Limits(total=...)) of padc.coreml sets how "
                "many are allowed",
            )

    def check_iterations(self, count: int) -> None:
        """
        Raise Obstacle if there are too many iterations.

        Args:
            count: The number of iterations.

        Raises:
            Obstacle: There are too many.
        """
        if count > self.iterations:
            raise Obstacle(
                f"more than {self.iterations} iterations",
                hint="load(path, limits=Limits(iterations=...)) of padc.coreml "
                "sets how many are allowed",
            )


DEFAULT_LIMITS = Limits()


class Guard(TorchDispatchMode):
    """A context in which torch refuses to make tensors that exceed `limits`.

    Each torch op that could make one is first run on meta tensors, which have shapes
    and no data.
    """

    def __init__(self, limits: Limits):
        super().__init__()
        self.limits = limits

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is aten.unbind.int:  # A Python loop over a tensor calls this first.
            x, axis = args[0], args[1] if len(args) > 1 else 0
            self.limits.check_iterations(x.shape[axis])
        if _bound((args, kwargs)) > self.limits.elements:
            for shape in _result_shapes(func, args, kwargs):
                self.limits.check_size(shape)
        return func(*args, **kwargs)


def _bound(arguments: Any) -> int:
    """
    An upper bound of the elements of a torch op's results, for these arguments.

    The product of the elements of all tensors, and for each integer of the most that it
    adds to one dimension on both sides. Without a tensor there is no bound: sizes may
    come from floats, as those of `arange` do.
    """
    bound, has_tensor = 1, False
    for leaf in tree_leaves(arguments):
        if isinstance(leaf, torch.Tensor):
            if leaf.is_meta:
                return 0  # The result will not have data either.
            has_tensor = True
            bound *= prod(max(size, 1) for size in leaf.shape)
        elif isinstance(leaf, int):
            bound *= 1 + 2 * abs(leaf)
    return bound if has_tensor else 2**63


def _result_shapes(func: Any, args: Any, kwargs: Any) -> list[torch.Size]:
    """The shapes of the results of `func`; empty if they depend on data."""

    def stripped(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to("meta")
        return None if isinstance(leaf, torch.Generator) else leaf

    args, kwargs = tree_map(stripped, (args, kwargs))
    if "device" in kwargs:
        kwargs["device"] = torch.device("meta")
    try:
        results = func(*args, **kwargs)
    except Exception:
        # The op fails for these arguments, which it reports itself, or its size depends
        # on data. No such op returns more elements than it takes.
        return []
    return [it.shape for it in tree_leaves(results) if isinstance(it, torch.Tensor)]
