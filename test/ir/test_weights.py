"""Weights, which are stored outside of the IR."""

import numpy as np
import pytest
from functions import printed
from xdsl.dialects.builtin import ModuleOp

from padc.errors import InvalidProgramError
from padc.ir import make_context
from padc.ir import torch as torch_d
from padc.ir.text import Parser
from padc.ir.weights import Weights, weights_of

LITERAL = "torch.vtensor.literal(dense_resource<w> : tensor<2x2x{0}>) : !torch.vtensor<[2,2],{0}>"
BLOBS = """
{-#
  dialect_resources: {
    builtin: {
      w: "%s"
    }
  }
#-}
"""


def literal(module: ModuleOp) -> torch_d.LiteralOp:
    return next(op for op in module.walk() if isinstance(op, torch_d.LiteralOp))


@pytest.mark.parametrize(
    ("element_type", "dtype"),
    [
        ("f32", "f4"),
        ("bf16", "u2"),
        ("si64", "i8"),
        ("ui8", "u1"),
        ("complex<f32>", "c8"),
    ],
)
def test_blobs_round_trip(element_type: str, dtype: str):
    ctx = make_context()
    data = np.array([[1, 2], [3, 4]], dtype)
    module = Parser(ctx, LITERAL.format(element_type)).parse_module()
    weights_of(ctx)["w"] = data
    weights_of(ctx).print_blobs = True

    other = make_context()
    again = Parser(other, printed(module, ctx)).parse_module()
    read = weights_of(other).array(literal(again).value)

    np.testing.assert_array_equal(read, data)
    assert read.dtype == data.dtype
    assert weights_of(ctx)["w"] is data


def test_no_blobs_unless_asked():
    ctx = make_context()
    module = Parser(ctx, LITERAL.format("f32")).parse_module()
    weights_of(ctx)["w"] = np.zeros((2, 2), np.float32)

    assert "dialect_resources" not in printed(module, ctx)


def test_two_parses_of_one_name_keep_their_data():
    text = LITERAL.format("f32") + BLOBS
    contexts = [make_context(), make_context()]

    for ctx, blob in zip(contexts, ("0000803F", "00000040"), strict=True):
        Parser(ctx, text % f"0x04000000{blob * 4}").parse_module()
    Parser(contexts[0], LITERAL.format("f32")).parse_module()

    read = [weights_of(ctx)["w"].view(np.float32)[0] for ctx in contexts]
    assert read == [1.0, 2.0]


def test_torch_mlir_reads_blobs():
    ir = pytest.importorskip("torch_mlir.ir")
    from torch_mlir.dialects import torch as torch_mlir_torch

    ctx = make_context()
    module = Parser(ctx, LITERAL.format("f32")).parse_module()
    weights_of(ctx)["w"] = np.arange(4, dtype=np.float32).reshape(2, 2)
    weights_of(ctx).print_blobs = True
    theirs = ir.Context()
    torch_mlir_torch.register_dialect(theirs)

    text = str(ir.Module.parse(printed(module, ctx), theirs))

    other = make_context()
    again = Parser(other, text).parse_module()
    read = weights_of(other).array(literal(again).value)
    np.testing.assert_array_equal(read, [[0, 1], [2, 3]])


def test_inline_data():
    text = "torch.vtensor.literal(dense<[true, false]> : tensor<2xi1>) : !torch.vtensor<[2],i1>"
    module = Parser(make_context(), text).parse_module()

    read = Weights().array(literal(module).value)

    np.testing.assert_array_equal(read, [True, False])
    assert read.dtype == np.bool_


def test_inline_data_of_one_value_fills_the_tensor():
    text = "torch.vtensor.literal(dense<3> : tensor<2x2xsi64>) : !torch.vtensor<[2,2],si64>"
    module = Parser(make_context(), text).parse_module()

    np.testing.assert_array_equal(
        Weights().array(literal(module).value), [[3, 3], [3, 3]]
    )


def test_missing_data():
    ctx = make_context()
    module = Parser(ctx, LITERAL.format("f32")).parse_module()

    with pytest.raises(InvalidProgramError, match="no data for the weight 'w'"):
        weights_of(ctx).array(literal(module).value)


def test_wrong_amount_of_data():
    ctx = make_context()
    module = Parser(
        ctx, LITERAL.format("f32") + BLOBS % "0x0400000000000000"
    ).parse_module()

    with pytest.raises(InvalidProgramError, match="needs 16 bytes, got 4"):
        weights_of(ctx).array(literal(module).value)


@pytest.mark.parametrize("blob", ["04000000", "0x0400", "0x040000000"])
def test_bad_blobs(blob: str):
    from xdsl.utils.exceptions import ParseError

    with pytest.raises(ParseError):
        Parser(make_context(), LITERAL.format("f32") + BLOBS % blob).parse_module()


def test_names_become_identifiers():
    weights = Weights()
    zero, one = np.zeros(1), np.ones(1)

    names = [weights.add(name, zero) for name in ("a.0.w", "0.w", "a/b", "é", "")]
    again = weights.add("a.0.w", one)

    assert names == ["a.0.w", "_0.w", "a_b", "_", "__1"]
    assert again == "a.0.w_1"
    assert weights["a.0.w"] is zero and weights["a.0.w_1"] is one
