# pyright: basic
"""A call of one op as an exported program."""

from typing import Any

import pytest
import torch

from padc.errors import Obstacle, UnsupportedError
from padc.frontends.torch_export.function_builder import FunctionBuilder
from padc.frontends.torch_export.single_call import (
    Number,
    Operand,
    Size,
    call_program,
)
from padc.passes import pipelines

aten: Any = torch.ops.aten
HEIGHT = Size("height", 4, 40, 32)


def image(data: torch.Tensor | None = None) -> Operand:
    return Operand(torch.float32, [1, 2, HEIGHT, 8], data)


def test_sizes_of_results_have_bounds_and_examples():
    call = call_program(aten.max_pool2d.default, [image(), [2, 2]], {})

    *_, height, width = call.results
    assert (height.low, height.high, height.example) == (2, 20, 16)
    assert width == 4


def test_constants_are_held_and_inputs_given():
    kernel = Operand(torch.float32, [3, 2, 1, 1], torch.ones(3, 2, 1, 1))
    x = image()

    call = call_program(aten.conv2d.default, [x, kernel], {})

    assert call.inputs == [x]
    assert [*call.constants.values()] == [kernel]
    assert [*call.program.constants.values()] == [kernel.data]


def test_numbers_are_inputs_too():
    number = Number(Operand(torch.int64, []), Size("n", 2, 9, 5))

    call = call_program(aten.upsample_nearest2d.vec, [image(), [number, 7], None], {})

    *_, height, width = call.results
    assert (height.low, height.high, width) == (2, 9, 7)


def test_the_first_result_alone():
    call = call_program(
        aten.max_pool2d_with_indices.default, [image(), [2, 2]], {}, first_only=True
    )

    assert len(call.program.graph_signature.output_specs) == 1
    assert call.results[1] is None


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        (aten.relu.default, [image(), 1], "PyTorch refuses the arguments"),
        (
            aten.max_pool1d.default,
            [Operand(torch.float32, [1, 2, HEIGHT]), [3]],
            "one size for a size that varies",
        ),
    ],
)
def test_calls_without_a_program(op: Any, arguments: list[Any], message: str):
    with pytest.raises(Obstacle, match=message):
        call_program(op, arguments, {})


def test_composite_ops_compute_sizes_that_vary():
    call = call_program(aten.flatten.using_ints, [image(), 2, -1], {})

    _, module = pipelines.import_program(call.program)

    assert "aten.view" in str(module)


def test_products_of_sizes_are_refused():
    area = Size("area", 16, 1600, 512)
    width = Size("width", 4, 40, 16)
    flat = Operand(torch.float32, [1, 2, area])
    like = Operand(torch.float32, [1, 2, HEIGHT, width])
    call = call_program(aten.reshape_as.default, [flat, like], {})

    with pytest.raises(UnsupportedError, match="an input whose size is"):
        pipelines.import_program(call.program)


def test_results_that_are_empty_for_some_integers_are_refused():
    place = Number(Operand(torch.int64, []), Size("place", -100, 100, 2))

    call = call_program(aten.slice.Tensor, [image(), 2, place], {})
    *_, height, _ = call.results
    assert (height.example, height.low) == (HEIGHT.example - 2, 0)
    with pytest.raises(Obstacle, match="on an integer that is computed"):
        call_program(aten.slice.Tensor, [image(), 2, 2, place], {})


def test_sizes_that_nothing_computes_are_refused():
    graph = call_program(aten.relu.default, [image()], {}).program.graph
    (node,) = (each for each in graph.nodes if each.op == "call_function")

    with pytest.raises(Obstacle, match="which no node computes"):
        FunctionBuilder().constant("int", node.meta["val"].shape[2])
