# pyright: basic
"""Programs that depend on the strides of their inputs."""

from __future__ import annotations

import pytest
import torch
from functions import Function, Functions
from torch import Tensor

import padc
from padc.errors import UsageError


def strided_if_positive(x: Tensor) -> Tensor:
    return torch.cond(
        x.sum() > 0,
        lambda x: x.as_strided((3,), (2,)).clone(),
        lambda x: x[0, :3].clone(),
        (x,),
    )


DEPENDENT: Functions = {
    "the input": lambda x: x.as_strided((3,), (1,)),
    "a computed tensor": lambda x: (x * 2).as_strided((3,), (1,)),
    "a transposed tensor": lambda x: (x.t() + 1).as_strided((3,), (2,)),
    "scattered": lambda x: torch.as_strided_scatter(x, x[:3, 0], (3,), (2,)),
    "copied": lambda x: torch.as_strided_copy(x, (3,), (2,)),
    "resized": lambda x: (x + 0).resize_(2, 3),
    "resized as": lambda x: torch.ops.aten.resize_as(x + 0, x[:2, :3]),
    "written": lambda x: (y := x.clone(), y.as_strided((3,), (2,)).fill_(7))[0],
    "in a branch": strided_if_positive,
}
CONTIGUOUS = torch.arange(1, 25.0).view(4, 6)
TRANSPOSED = CONTIGUOUS.t().contiguous().t()


@pytest.mark.parametrize("name", DEPENDENT)
@pytest.mark.parametrize(
    ("example", "other"),
    [(CONTIGUOUS, TRANSPOSED), (TRANSPOSED, CONTIGUOUS)],
    ids=["contiguous", "transposed"],
)
def test_strides_of_the_call_are_those_of_the_export(
    name: str, example: Tensor, other: Tensor
) -> None:
    function = DEPENDENT[name]
    compiled = padc.compile(Function(function), (example,))

    assert compiled(example).equal(function(example))
    message = rf"'args_0' has strides \[{other.stride(0)}, {other.stride(1)}\], but the"
    with pytest.raises(UsageError, match=message):
        compiled(other)
    with pytest.raises(UsageError, match=message):
        compiled.run_into([torch.empty_like(compiled(example))], other)
    with pytest.raises(UsageError, match=message):
        compiled.run_named({"args_0": other})


def test_strides_of_single_elements_do_not_matter() -> None:
    def function(x: Tensor) -> Tensor:
        return (x + 1).as_strided((3,), (2,))

    x = torch.rand(1, 6)
    compiled = padc.compile(Function(function), (x,))

    assert compiled(x.as_strided((1, 6), (1, 1))).equal(function(x))


INDEPENDENT: Functions = {
    "other inputs": lambda x, y: y.as_strided((3,), (2,)) + x[:3, 0],
    "values only": lambda x, y: torch.as_strided_scatter(y, x[0, :3], (3,), (2,)),
    "a copy": lambda x, y: x.clone(memory_format=torch.contiguous_format).as_strided(
        (3,), (2,)
    ),
    "none": lambda x, y: x.t() * 2,
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_inputs_on_which_no_such_op_depends_may_have_any_strides(name: str) -> None:
    function, y = INDEPENDENT[name], torch.rand(2, 7)
    compiled = padc.compile(Function(function), (CONTIGUOUS, y))

    assert compiled.is_native
    assert compiled(TRANSPOSED, y).equal(function(TRANSPOSED, y))


def test_contiguous_makes_strides_its_own() -> None:
    def function(x: Tensor) -> Tensor:
        return x.contiguous().as_strided((3,), (2,))

    compiled = padc.compile(Function(function), (TRANSPOSED,))

    assert compiled(CONTIGUOUS).equal(function(CONTIGUOUS))


def test_an_absolute_offset_needs_an_input_at_the_start_of_its_memory() -> None:
    def at(offset: int | None):
        return lambda x: x.as_strided((3,), (2,), offset)

    x = torch.rand(8, 6)[4:]
    absolute = padc.compile(Function(at(1)), (CONTIGUOUS,))
    relative = padc.compile(Function(at(None)), (CONTIGUOUS,))
    computed = padc.compile(Function(lambda x: at(1)(x * 2)), (CONTIGUOUS,))

    with pytest.raises(
        UsageError, match="'args_0' is a view from element 24 of its mem"
    ):
        absolute(x)
    assert absolute(x.clone()).equal(at(1)(x.clone()))
    assert relative(x).equal(at(None)(x))
    assert computed(x).equal(at(1)(x * 2))


def test_packages_take_row_major_inputs() -> None:
    def function(x: Tensor) -> Tensor:
        return (x * 2).as_strided((3,), (1,))

    message = (
        r"'args_0' was exported with strides \[1, 4\], and aten.as_strided depends"
    )
    with pytest.raises(UsageError, match=message):
        padc.convert(Function(function), (TRANSPOSED,))
    padc.convert(Function(lambda x: x * 2), (TRANSPOSED,)).verify([(TRANSPOSED,)])
    result = padc.convert(Function(function), (CONTIGUOUS,)).run(CONTIGUOUS)
    assert result[0].equal(function(CONTIGUOUS))
