# pyright: basic, reportMissingTypeStubs=false
"""What is known of the sizes of a function that coremltools builds."""

from types import SimpleNamespace
from typing import Any

import coremltools
import pytest

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.sizes import UNBOUNDED, Sizes, bounds
from padc.frontends.torch_export.single_call import Size

with quiet():
    from coremltools.converters.mil.mil import get_new_symbol

ct: Any = coremltools


def inputs(*shape: Any) -> tuple[Any, Any]:
    """A context and a function with one input."""
    graph = SimpleNamespace(inputs={"x": ct.TensorType("x", shape)})
    var = SimpleNamespace(shape=ct.Shape(shape).symbolic_shape)
    context = type("Context", (), {"torch_graph": graph})()
    return context, SimpleNamespace(inputs={"x": var})


def test_inputs_have_the_bounds_that_the_user_gives():
    context, function = inputs(1, ct.RangeDim(4, 500))
    one, height = function.inputs["x"].shape

    sizes = Sizes.of(context, function)

    assert sizes.find(one) == 1
    assert sizes.find(height) == Size(height, 4, 500, 448)


def test_expressions_have_the_bounds_of_their_symbols():
    context, function = inputs(1, ct.RangeDim(4, 500))
    _, height = function.inputs["x"].shape

    size = Sizes.of(context, function).find(2 * height + 1)

    assert size == Size(2 * height + 1, 9, 1001, 897)


def test_an_op_tells_the_sizes_that_it_makes():
    sizes, symbol, other = Sizes(), get_new_symbol(), get_new_symbol()

    sizes.note(symbol, Size("s0", 3, 9, 5))
    sizes.note(other, 7)

    assert sizes.find(symbol) == Size(symbol, 3, 9, 5)
    assert sizes.find(other) == 7


def test_other_sizes_have_no_bound():
    size = Sizes().find(get_new_symbol())

    assert isinstance(size, Size)
    assert (size.low, size.high) == (1, UNBOUNDED)


@pytest.mark.parametrize("example", [64, 12])
def test_examples_may_be_made_the_same(example: int):
    sizes, symbol = Sizes(), get_new_symbol()
    sizes.note(symbol, Size("s0", 3, example, 5))

    size = sizes.with_same_examples().find(symbol)

    assert isinstance(size, Size)
    assert size.example == example


def test_enumerated_shapes_have_bounds():
    shape = ct.EnumeratedShapes([(1, 4), (1, 9), (1, 6)])

    assert bounds(shape, 1) == (4, 9)
