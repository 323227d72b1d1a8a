"""The driver of table lowerings: which errors of a rule are problems of the program."""

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle, UnsupportedError
from padc.ir import make_context
from padc.models.parsing import parse_module
from padc.passes.common.lowering import lower_all
from padc.passes.to_linalg.convert_torch_to_linalg import ConvertTorchToLinalgPass
from padc.passes.torch_to_mil.convert_torch_to_mil import ConvertTorchToMilPass


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


@pytest.mark.parametrize("convert", [ConvertTorchToLinalgPass, ConvertTorchToMilPass])
@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("[3],f32", "makes float32[2], and the program declares float32[3]"),
        ("[2,1],f32", "makes float32[2], and the program declares float32[2,1]"),
        ("[2],si64", "tanh of integers"),
    ],
)
def test_results_that_are_declared_wrongly(convert: type, declared: str, message: str):
    x, y = "!torch.vtensor<[2],f32>", f"!torch.vtensor<{declared}>"
    ctx = make_context()
    module = parse_module(
        ctx,
        f"func.func @main(%x: {x}) -> {y} {{\n"
        f"  %y = torch.aten.tanh %x : {x} -> {y}\n  func.return %y : {y}\n}}",
    )

    with pytest.raises(UnsupportedError) as caught:
        convert().apply(ctx, module)

    assert message in caught.value.message


def test_a_result_without_replacement_is_used():
    constant = ConstantOp.from_int_and_width(1, 32)
    module = ModuleOp([constant, TestOp([constant])])

    with pytest.raises(UnsupportedError, match="its result 0 is used"):
        lower_all(module, ConstantOp, lambda op: [None])
