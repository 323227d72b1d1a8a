# pyright: basic
"""What coremltools' clean-up passes make of padc's programs, against PyTorch."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Several, check_each
from optimized_functions import ALLOWED, FUNCTIONS
from torch.export import export

import padc
from padc.backends.coreml.blocks import operations_of
from padc.testing import compile_for_coreml


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_compute_the_same_afterwards(name: str):
    functions, x = FUNCTIONS[name]
    program = compile_for_coreml(export(Several(functions), (x,)))

    check_each(functions, program(x), x, **ALLOWED[name], equal_nan=True)


GROUPED, UP = torch.randn(4, 2, 2, 2), torch.randn(4, 4, 2, 2)
X = torch.linspace(-2, 2, 100).reshape(1, 4, 5, 5)
PLANES = torch.tensor([1.0, 2, 3, 4]).view(1, 4, 1, 1)
INTEGERS = torch.tensor([3, 0, -5], dtype=torch.int32)
LEFT: dict[str, tuple[Any, torch.Tensor, list[str]]] = {
    "planes": (lambda x: x * PLANES + PLANES, X, ["batch_norm"]),
    "planes next to integers": (
        lambda x: x * PLANES + PLANES + x.int() * x.int() * 2,
        X,
        ["batch_norm", "cast", "mul", "mul", "cast", "add"],
    ),
    "means": (lambda x: (x * PLANES).sum((2, 3)) / 25, X, ["mul", "reduce_mean"]),
    "stack": (
        lambda x: torch.stack([x, -x], 3).reshape(1, 4, 10, 5),
        X,
        ["mul", "concat"],
    ),
    "casts": (lambda x: x.bool().float().int(), INTEGERS, ["not_equal", "cast"]),
    "int8": (lambda x: x.float().int(), INTEGERS.to(torch.int8), ["cast"]),
    "truncated": (lambda x: x.int().float(), X, ["cast", "cast"]),
    "int32": (lambda x: x.float().int(), INTEGERS, ["cast", "cast"]),
    "convolution": (
        lambda x: F.conv_transpose2d(x, UP) * PLANES + PLANES,
        X,
        ["conv_transpose"],
    ),
    "groups": (
        lambda x: F.conv_transpose2d(x, GROUPED, groups=2) * PLANES + PLANES,
        X,
        ["conv_transpose", "batch_norm"],
    ),
}
"""Functions, and the ops that are left of them."""


@pytest.mark.parametrize("name", LEFT)
def test_passes_run_where_they_are_right(name: str):
    function, x, ops = LEFT[name]
    program = padc.convert(Several({name: function}), (x,), target="iOS26")

    (y,) = program.run(x)

    torch.testing.assert_close(y, function(x), rtol=1e-5, atol=1e-5)
    types = [op.op_type for op in operations_of(program._pymil)]
    assert [type for type in types if type != "const"] == ops
