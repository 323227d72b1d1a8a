"""The driver of table lowerings: which errors of a rule are problems of the program."""

import sys

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle, UnsupportedError
from padc.ir import make_context
from padc.ir.torch import AtenOp
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


CHUNK = (
    "%y = torch.aten.chunk %x, %2, %0 : {x}, !torch.int, !torch.int -> "
    "!torch.list<vtensor>\n"
)
INVALID = {
    "its operands": (
        "%y = torch.aten.unsqueeze %x, %9 : {x}, !torch.int -> {x}",
        "aten.unsqueeze of float32[2]: PyTorch does not take its operands: Dimension",
    ),
    "its operands, for every size": (
        "%y = torch.aten.select.int %d, %n, %9 : !torch.vtensor<[?],f32>, !torch.int, "
        "!torch.int -> {x}",
        "aten.select.int of float32[?]: PyTorch does not take its operands: ",
    ),
    "its dtype": (
        "%y = torch.aten.bitwise_not %x : {x} -> {x}",
        "aten.bitwise_not of float32[2]: PyTorch does not take its operands: "
        '"bitwise_not_cpu" not implemented',
    ),
    "its result": (
        "%y = torch.aten.tanh %x : {x} -> !torch.vtensor<[3],f32>",
        "aten.tanh of float32[2]: the program declares float32[3], and PyTorch makes "
        "float32[2]",
    ),
    "the rank of its result": (
        "%y = torch.aten.tanh %x : {x} -> !torch.vtensor<[2,1],f32>",
        "the program declares float32[2,1], and PyTorch makes float32[2]",
    ),
    "a list": (
        "%t = torch.prim.ListConstruct %x, %s : ({x}, !torch.vtensor<[16],f32>) -> "
        "!torch.list<vtensor>\n"
        "%y = torch.aten.stack %t, %0 : !torch.list<vtensor>, !torch.int -> {x}",
        "aten.stack: PyTorch does not take its operands: stack expects each tensor",
    ),
    "its operands, for every number": (
        "%y = torch.aten.leaky_relu %i, %o : !torch.vtensor<[2],si64>, !torch.float "
        "-> !torch.vtensor<[2],si64>",
        'aten.leaky_relu of int64[2]: PyTorch does not take its operands: "leaky',
    ),
    "the count of its results": (
        f"{CHUNK}%a, %b, %c = torch.prim.ListUnpack %y : !torch.list<vtensor> -> {{x}}, {{x}}, {{x}}",
        "aten.chunk of float32[2]: the program unpacks 3 tensors, and PyTorch makes 2",
    ),
    "one of its results": (
        f"{CHUNK}%a, %b = torch.prim.ListUnpack %y : !torch.list<vtensor> -> {{x}}, {{x}}",
        "aten.chunk of float32[2]: the program declares float32[2], and PyTorch makes "
        "float32[1]",
    ),
    "an op before it": (
        "%e = torch.aten.exp %x : {x} -> !torch.vtensor<[2],f64>\n"
        "%y = torch.aten.tanh %e : !torch.vtensor<[2],f64> -> !torch.vtensor<[2],f64>",
        "aten.exp of float32[2]: the program declares float64[2], and PyTorch makes "
        "float32[2]",
    ),
    "a dtype that PyTorch alone has": (
        "%y = torch.aten.new_zeros %x, %l, %8, %none, %none, %none : {x}, "
        "!torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none -> {x}",
        "aten.new_zeros of float32[2]: the program declares float32[2], and PyTorch "
        "makes complex32[1099511627776,2]",
    ),
}
VALID = {
    "an op": "%y = torch.aten.tanh %x : {x} -> {x}",
    "for size 1": "%y = torch.aten.expand %d, %twos, %no : !torch.vtensor<[?],f32>, "
    "!torch.list<int>, !torch.bool -> {x}",
    "for size 840": "%y = torch.aten.view %d, %by7 : !torch.vtensor<[?],f32>, "
    "!torch.list<int> -> !torch.vtensor<[?,7],f32>",
    "whose data decides": '%y = torch.operator "torch.aten.equal"(%x, %x) : ({x}, {x}) -> (!torch.bool)',
    "that numbers decide": '%y = torch.operator "torch.aten.bincount"(%i, %none, %big) '
    ": (!torch.vtensor<[2],si64>, !torch.none, !torch.int) -> (!torch.vtensor<[2],si64>)",
    "a matrix without an inverse": '%y = torch.operator "torch.aten.inverse"(%m) : '
    "(!torch.vtensor<[2,2],f32>) -> (!torch.vtensor<[2,2],f32>)",
    "of another device": "%y = torch.aten.zeros %twos, %none, %none, %cuda, %true : !torch.list<int>, "
    "!torch.none, !torch.none, !torch.Device, !torch.bool -> {x}",
    "on numbers": '%y = torch.operator "torch.aten.__round_to_zero_floordiv.int"(%9, %2) : '
    "(!torch.int, !torch.int) -> (!torch.int)",
    "for size 16": "%y = torch.aten.dot %d, %s : !torch.vtensor<[?],f32>, "
    "!torch.vtensor<[16],f32> -> !torch.vtensor<[],f32>",
    "an unknown list": "%y = torch.aten.view %x, %k : {x}, !torch.list<int> -> {x}",
    "several results": "%y = torch.aten.chunk %x, %2, %0 : {x}, !torch.int, "
    "!torch.int -> !torch.list<vtensor>",
    "valid, before one that is not": "%y = torch.aten.tanh %x : {x} -> {x}\n"
    "%z = torch.aten.tanh %x : {x} -> !torch.vtensor<[3],f32>",
    "an unknown rank": "%y = torch.aten.tanh %u : !torch.vtensor<*,f32> -> {x}",
    "an unknown dtype": "%y = torch.aten.tanh %f : !torch.vtensor<[2],f80> -> {x}",
    "an unknown number": "%y = torch.aten.mul.Scalar %x, %o : {x}, !torch.float -> {x}",
    "large": "%y = torch.aten.expand %x, %l, %no : {x}, !torch.list<int>, !torch.bool "
    "-> !torch.vtensor<[1099511627776,2],f32>",
    "larger than memory": "%y = torch.aten.zeros %l, %none, %none, %none, %none : "
    "!torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> "
    "!torch.vtensor<[1099511627776,2],f32>",
    "larger than 64 bits count": "%y = torch.aten.tanh %h : "
    "!torch.vtensor<[1099511627776,1099511627776],f32> -> {x}",
}


PROGRAM = """
func.func @main(
  %x: !torch.vtensor<[2],f32>, %s: !torch.vtensor<[16],f32>,
  %m: !torch.vtensor<[2,2],f32>, %i: !torch.vtensor<[2],si64>,
  %d: !torch.vtensor<[?],f32>, %u: !torch.vtensor<*,f32>, %f: !torch.vtensor<[2],f80>,
  %h: !torch.vtensor<[1099511627776,1099511627776],f32>,
  %n: !torch.int, %o: !torch.float, %k: !torch.list<int>
) {
  %0 = torch.constant.int 0
  %2 = torch.constant.int 2
  %7 = torch.constant.int 7
  %8 = torch.constant.int 8
  %9 = torch.constant.int 9
  %minus = torch.constant.int -1
  %big = torch.constant.int 1099511627776
  %no = torch.constant.bool false
  %true = torch.constant.bool true
  %none = torch.constant.none
  %cuda = torch.constant.device "cuda:0"
  %l = torch.prim.ListConstruct %big, %2 : (!torch.int, !torch.int) -> !torch.list<int>
  %twos = torch.prim.ListConstruct %2 : (!torch.int) -> !torch.list<int>
  %by7 = torch.prim.ListConstruct %minus, %7 : (!torch.int, !torch.int) -> !torch.list<int>
  LINES
  func.return
}
"""


def fail_at(name: str, lines: str) -> None:
    """Lower `PROGRAM` with these lines by a rule that fails at one of this name."""
    text = PROGRAM.replace("LINES", lines.format(x="!torch.vtensor<[2],f32>"))

    def rule(op: AtenOp) -> None:
        assert op.results[0].name_hint != name

    lower_all(parse_module(make_context(), text), AtenOp, rule)


@pytest.mark.parametrize("what", INVALID)
def test_an_op_that_pytorch_does_not_make_is_at_fault(what: str):
    line, message = INVALID[what]

    with pytest.raises(UnsupportedError) as caught:
        fail_at("y", line)

    assert message in caught.value.message
    assert caught.value.hint == "correct the program"


@pytest.mark.parametrize("what", VALID)
def test_the_rule_is_at_fault_for_other_ops(what: str):
    with pytest.raises(AssertionError):
        fail_at("y", VALID[what])


def test_without_pytorch_the_error_of_the_rule_is_raised(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "padc.ir.torch.calls", None)

    with pytest.raises(AssertionError):
        fail_at("y", INVALID["its operands"][0])


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


@pytest.mark.parametrize("convert", [ConvertTorchToLinalgPass, ConvertTorchToMilPass])
@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            "%a, %b = torch.prim.ListUnpack %l : !torch.list<vtensor> -> "
            "!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>\n"
            "func.return %b : !torch.vtensor<[3],f32>",
            "9223372036854775807 parts, of which 2 are unpacked",
        ),
        (
            "%a = torch.prim.ListUnpack %l : !torch.list<vtensor> -> !torch.int\n"
            '"test.op"(%a) : (!torch.int) -> ()\n'
            "func.return %x : !torch.vtensor<[3],f32>",
            "a list that is unpacked to other things than tensors",
        ),
        (
            '"test.op"(%l) : (!torch.list<vtensor>) -> ()\n'
            "func.return %x : !torch.vtensor<[3],f32>",
            "a list of tensors that is not unpacked",
        ),
    ],
)
def test_lists_that_are_not_as_they_are_used(convert: type, use: str, message: str):
    ctx = make_context()
    module = parse_module(
        ctx,
        "func.func @main(%x: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {\n"
        "%n = torch.constant.int 9223372036854775807\n%dim = torch.constant.int 0\n"
        "%l = torch.aten.tensor_split.sections %x, %n, %dim : !torch.vtensor<[3],f32>,"
        f" !torch.int, !torch.int -> !torch.list<vtensor>\n{use}\n}}",
    )

    with pytest.raises(UnsupportedError, match=message):
        convert().apply(ctx, module)


def test_a_result_without_replacement_is_used():
    constant = ConstantOp.from_int_and_width(1, 32)
    module = ModuleOp([constant, TestOp([constant])])

    with pytest.raises(UnsupportedError, match="its result 0 is used"):
        lower_all(module, ConstantOp, lambda op: [None])
