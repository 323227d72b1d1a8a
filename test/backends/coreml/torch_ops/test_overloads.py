# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""Which ATen op a node of coremltools calls, and with which arguments."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.overloads import RuntimeInteger, call_of
from padc.errors import Obstacle

with quiet():
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, get_new_symbol

aten: Any = torch.ops.aten


@pytest.fixture
def x() -> Iterator[Any]:
    """A variable of dynamic size, in a function that is being built."""
    shape: Any = (1, get_new_symbol())
    with Function({"x": mb.placeholder(shape)}) as function:
        yield function.inputs["x"]


def test_numbers_choose_the_overload_for_numbers(x: Any):
    assert call_of("add", [x, 2, 1], {}).target == aten.add.Scalar
    assert call_of("add", [x, x, 1], {}).target == aten.add.Tensor


def test_a_constant_may_be_a_number_or_a_tensor(x: Any):
    two = mb.const(val=np.float32(0.1))

    call = call_of("add", [x, two, 1], {})
    power = call_of("pow", [x, two], {})

    assert call.target == aten.add.Tensor
    assert power.args[1] is two


def test_the_last_names_of_kinds_choose_too(x: Any):
    assert call_of("sum.dim_intlist", [x, [1]], {}).target == aten.sum.dim_IntList
    assert call_of("sum", [x, None], {}).target == aten.sum.default
    assert call_of("__and__", [x, x], {}).target == aten.__and__.Tensor


def test_numbers_are_read_from_constants_as_python_writes_them(x: Any):
    slope = mb.const(val=np.float32(0.1))

    assert call_of("leaky_relu_", [x, slope], {}).args[1] == 0.1


def test_dtypes_devices_and_formats(x: Any):
    to = call_of("to", [x, 4, False, False, 0], {})
    other = call_of("to", [x, "cpu", 6, False, False, None], {})

    assert to.args == [x, torch.int64, False, False, None]
    assert other.target == aten.to.device
    assert other.args[1:3] == [None, torch.float32]


def test_a_number_is_a_bool_only_if_it_is_0_or_1(x: Any):
    variance = call_of("var", [x, [1], 2, False], {})
    biased = call_of("var", [x, [1], 0, False], {})

    assert variance.target == aten.var.correction
    assert variance.kwargs["correction"] == 2
    assert biased.args[2] is False or biased.kwargs["correction"] == 0


def test_a_number_stands_for_a_list(x: Any):
    call = call_of("avg_pool2d", [x, 3, [], 1, True], {})

    assert call.args == [x, [3, 3], [], [1, 1], True]


def test_keywords_of_exported_graphs(x: Any):
    call = call_of("softmax", [x, -1], {"dtype": 6})

    assert (call.args, call.kwargs) == ([x, -1, torch.float32], {})


def test_sizes_are_known_only_at_run_time(x: Any):
    sizes = mb.shape(x=x)

    call = call_of("view", [x, sizes], {})

    assert call.args == [x, [1, RuntimeInteger(sizes, 1)]]


def test_arguments_that_no_op_takes(x: Any):
    with pytest.raises(Obstacle, match="no ATen op 'relu' takes these arguments"):
        call_of("relu", [x, x, x], {})
    with pytest.raises(Obstacle, match="'constant'"):
        call_of("constant", [], {})
