# pyright: basic
"""What PyTorch can tell of an op without data, and what it cannot."""

import pytest
import torch

from padc.errors import UsageError
from padc.ir import make_context
from padc.ir.torch import AtenOp
from padc.ir.torch.calls import TorchRefusalError, call_checked, why_invalid
from padc.models.parsing import parse_module

X, INDEX = "!torch.vtensor<[4,2],f32>", "!torch.vtensor<[1],si64>"
VALID = {
    "a function of TorchScript": f'"torch.aten.cpu"(%x) : ({X}) -> ({X})',
    "no tensor, though declared": '"torch.aten._unpack_dual"(%x, %one) : '
    f"({X}, !torch.int) -> ({X}, {X})",
    "no fake kernel": '"torch.aten._histogramdd_bin_edges"(%x, %l, %none, %none, %no) : '
    f"({X}, !torch.list<int>, !torch.none, !torch.none, !torch.bool) -> "
    "(!torch.list<vtensor>)",
    "pinned memory": f'"torch.aten.pin_memory"(%x, %none) : ({X}, !torch.none) -> ({X})',
    "an index in a tensor": '"torch.aten.tensor_split.tensor_indices_or_sections"'
    f"(%x, %i, %one) : ({X}, {INDEX}, !torch.int) -> (!torch.list<vtensor>)",
    "a number in a tensor": f'"torch.aten.equal"(%x, %x) : ({X}, {X}) -> (!torch.bool)',
    "a size in a tensor": f'"torch.aten.nonzero"(%x) : ({X}) -> '
    "(!torch.vtensor<[3,2],si64>)",
}


@pytest.mark.parametrize("what", VALID)
def test_what_pytorch_makes_or_cannot_tell(what: str):
    results = "%y, %z" if what == "no tensor, though declared" else "%y"
    text = f"""
      func.func @main(%x: {X}, %i: {INDEX}) {{
        %one = torch.constant.int 1
        %none = torch.constant.none
        %no = torch.constant.bool false
        %l = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
        {results} = torch.operator {VALID[what]}
        func.return
      }}"""
    (op,) = (
        op for op in parse_module(make_context(), text).walk() if isinstance(op, AtenOp)
    )

    assert why_invalid(op) is None


def test_kernels_that_do_not_check_are_replaced():
    """PyTorch's own kernel reads beyond weights of other sizes."""
    weight, empty = "!torch.vtensor<[?],f32>", "!torch.vtensor<[0],f32>"
    weights = ", ".join([weight] * 4)
    text = f"""
      func.func @main(%x: {X}, %w: {weight}) {{
        %a = torch.constant.float 1.0
        %y:3 = torch.operator "torch.aten._native_batch_norm_legit_no_training"(
          %x, %w, %w, %w, %w, %a, %a
        ) : ({X}, {weights}, !torch.float, !torch.float) -> ({X}, {empty}, {empty})
        func.return
      }}"""
    module = parse_module(make_context(), text)
    (op,) = (op for op in module.walk() if isinstance(op, AtenOp))
    x, right, wrong = torch.rand(4, 2), torch.rand(2), torch.rand(3)

    y, *_ = call_checked(op, [x, *[right] * 4, 1.0, 1.0])

    expected = torch.nn.functional.batch_norm(x, right, right, right, right, eps=1.0)
    torch.testing.assert_close(y, expected)
    with pytest.raises(TorchRefusalError, match="size"):
        call_checked(op, [x, *[wrong] * 4, 1.0, 1.0])


def test_kernels_of_composites_are_replaced():
    """ctc_loss calls one that reads the probabilities of labels that are not there."""
    long, float_ = "!torch.vtensor<[1],si64>", "!torch.vtensor<[5,1,4],f32>"
    labels = "!torch.vtensor<[1,2],si64>"
    text = f"""
      func.func @main(%x: {float_}, %t: {labels}, %n: {long}) {{
        %zero = torch.constant.int 0
        %no = torch.constant.bool false
        %y = torch.operator "torch.aten.ctc_loss.Tensor"(
          %x, %t, %n, %n, %zero, %zero, %no
        ) : ({float_}, {labels}, {long}, {long}, !torch.int, !torch.int, !torch.bool) ->
          (!torch.vtensor<[],f32>)
        func.return
      }}"""
    module = parse_module(make_context(), text)
    (op,) = (op for op in module.walk() if isinstance(op, AtenOp))
    x, labels, two = torch.rand(5, 1, 4), torch.tensor([[10**6, 2]]), torch.tensor([2])

    with pytest.raises(UsageError, match="_ctc_loss"):
        call_checked(op, [x, labels, two, two, 0, 0, False])
