# pyright: basic, reportMissingTypeStubs=false
"""
The bounds of the sizes that vary in a function of coremltools.

pymil has symbols without bounds. Those of the inputs have the bounds that the user
gave; for others, the op that makes a tensor tells what its sizes can be.
"""

import itertools
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch

from padc.backends.coreml import quiet
from padc.frontends.torch_export.single_call import Size

with quiet():
    from coremltools.converters.mil.input_types import EnumeratedShapes, RangeDim
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic

UNBOUNDED = 2**31 - 1
"""The upper bound of a size without a known one."""
EXAMPLES = 448, 320, 832, 192, 64, 1216, 2496
"""
The examples of sizes, in this order, where the bounds allow them.

They can be halved six times, as many models do; and a size that is a number in a model
is rarely one of the first, which PyTorch would take for the same size.
"""

SAME_EXAMPLE = 64

_known: WeakKeyDictionary[Any, "Sizes"] = WeakKeyDictionary()


class Sizes:
    """The sizes of one conversion, by their expression in pymil."""

    def __init__(self) -> None:
        self.known: dict[Any, int | Size] = {}
        self.dtypes: dict[Any, torch.dtype] = {}
        """The dtypes of variables that have another one in pymil."""

    @staticmethod
    def of(context: Any, function: Any) -> "Sizes":
        """The sizes of a conversion; those of the function's inputs at first."""
        if context not in _known:
            _known[context] = Sizes()
            _known[context].declare(context, function)
        return _known[context]

    def with_same_examples(self) -> "Sizes":
        """These sizes with one example for all that vary."""
        made = SameSizes()
        made.known, made.dtypes = self.known, self.dtypes
        return made

    def declare(self, context: Any, function: Any) -> None:
        """Note the bounds of the inputs."""
        # The inputs of a graph come first, then states, whose sizes are numbers.
        for input, var in zip(
            context.torch_graph.inputs.values(), function.inputs.values()
        ):
            for dim, size in enumerate(var.shape):
                if is_symbolic(size) and size not in self.known:
                    self.known[size] = size_of(size, *bounds(input.shape, dim))

    def note(self, expression: Any, size: int | Size) -> None:
        """Note what a size is that an op made."""
        if not is_symbolic(expression) or expression in self.known:
            return
        if isinstance(size, Size):
            size = Size(expression, size.low, size.high, size.example)
        self.known[expression] = size

    def find(self, expression: Any) -> int | Size:
        """The size that an expression of pymil stands for."""
        if not is_symbolic(expression):
            return int(expression)
        if expression not in self.known:
            self.known[expression] = self.computed(expression)
        return self.known[expression]

    def integer(self, expression: Any) -> int | Size:
        """The integer that an expression of pymil stands for; it may be negative."""
        if not is_symbolic(expression) or expression in self.known:
            return self.find(expression)
        found = self.range_of(expression)
        if found is None or found.low < 0:
            return self.any_integer(expression)
        return self.find(expression)

    def any_integer(self, key: Any) -> Size:
        """An integer without known bounds."""
        # Of a slice that it starts, something is left.
        return Size(key, -UNBOUNDED, UNBOUNDED, 2)

    def computed(self, expression: Any) -> int | Size:
        """A size that is an expression of others."""
        if (found := self.range_of(expression)) is None:
            return size_of(expression, 1, UNBOUNDED)
        low, high = max(found.low, 0), min(max(found.high, 0), UNBOUNDED)
        if not low <= found.example <= high:
            return size_of(expression, low, high)
        return Size(expression, low, high, found.example)

    def range_of(self, expression: Any) -> Size | None:
        """
        What an expression of known sizes can be; None if some are unknown.

        Sums, products and quotients are least and greatest where each size is.
        """
        symbols = list(expression.free_symbols)
        if expression.is_Symbol or not set(symbols) <= self.known.keys():
            return None
        found = [self.known[symbol] for symbol in symbols]

        def value(numbers: Sequence[int]) -> int:
            pairs = dict(zip(symbols, numbers, strict=True))
            return int(sympy.floor(expression.subs(pairs)))

        ends = [(x, x) if isinstance(x, int) else (x.low, x.high) for x in found]
        values = [*map(value, itertools.product(*ends))]
        example = value([x if isinstance(x, int) else x.example for x in found])
        return Size(expression, min(values), max(values), example)


class SameSizes(Sizes):
    """The sizes of a conversion, those that vary with the same example."""

    def find(self, expression: Any) -> int | Size:
        size = super().find(expression)
        if isinstance(size, int):
            return size
        return Size(size.key, size.low, size.high, min(SAME_EXAMPLE, size.high))

    def any_integer(self, key: Any) -> Size:
        # Of a slice whose end it is, something is left.
        return Size(key, -UNBOUNDED, UNBOUNDED, SAME_EXAMPLE - 1)


def bounds(shape: Any, dim: int) -> tuple[int, int]:
    """The bounds of a dimension of an input."""
    if isinstance(shape, EnumeratedShapes):
        found = [each.shape[dim] for each in shape.shapes]
        return min(found), max(found)
    sizes: Sequence[Any] = getattr(shape, "shape", ())
    if dim < len(sizes) and isinstance(size := sizes[dim], RangeDim):
        high = size.upper_bound
        return size.lower_bound, UNBOUNDED if high < 0 else high
    return 1, UNBOUNDED


def size_of(key: Any, low: int, high: int) -> Size:
    """A size between these bounds, with an example."""
    found = (each for each in EXAMPLES if low <= each <= high)
    return Size(key, low, high, next(found, high if high < UNBOUNDED else low))
