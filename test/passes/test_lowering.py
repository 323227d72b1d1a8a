"""The driver of table lowerings: which errors of a rule are problems of the program."""

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle, UnsupportedError
from padc.passes.common.lowering import lower_all


def lower_with(error: Exception) -> None:
    def rule(op: ConstantOp) -> SSAValue:
        raise error

    lower_all(ModuleOp([ConstantOp.from_int_and_width(1, 32)]), ConstantOp, rule)


@pytest.mark.parametrize("error", [Obstacle("no"), VerifyException("no")])
def test_problem_of_an_op_without_tensors(error: Exception):
    with pytest.raises(UnsupportedError) as caught:
        lower_with(error)

    assert caught.value.message == "'arith.constant': no"


def test_an_error_of_the_rule_itself_is_raised():
    error = ValueError("zip() argument 2 is shorter than argument 1")

    with pytest.raises(ValueError) as caught:
        lower_with(error)

    assert caught.value is error
