"""Limits of memory and time, so that a damaged program ends with an error."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod

from padc.errors import Obstacle


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

        Example:
            >>> padc.coreml.Limits(elements=6).check_size((2, 3))
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

        Example:
            >>> padc.coreml.Limits(total=6).check_total(7)
            Traceback (most recent call last):
            padc.errors.Obstacle: with it, 7 elements are kept, more than 6
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

        Example:
            >>> padc.coreml.Limits(iterations=6).check_iterations(6)
        """
        if count > self.iterations:
            raise Obstacle(
                f"more than {self.iterations} iterations",
                hint="load(path, limits=Limits(iterations=...)) of padc.coreml "
                "sets how many are allowed",
            )


DEFAULT_LIMITS = Limits()


_current: ContextVar[Limits] = ContextVar("limits", default=DEFAULT_LIMITS)


@contextmanager
def limited_by(limits: Limits) -> Generator[None]:
    """A context in which `allowed` and `steps` apply `limits`."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


def allowed(*shape: int) -> tuple[int, ...]:
    """`shape`, if an array may have it; raises Obstacle otherwise."""
    _current.get().check_size(shape)
    return shape


def steps(count: int) -> range:
    """The indices of a loop over a tensor; raises Obstacle if there are too many."""
    _current.get().check_iterations(count)
    return range(count)
