# pyright: basic
"""What PyTorch can tell of an op without data, and what it cannot."""

from collections.abc import Sequence

import pytest
import torch

from padc.errors import UsageError
from padc.ir import make_context
from padc.ir.torch import AtenOp
from padc.ir.torch.calls import (
    PLAIN_KERNELS,
    TorchRefusalError,
    call_checked,
    danger_of,
    why_invalid,
)
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


LEAST = -(2**63)


def op_of(name: str, operands: Sequence[str], result: str = "vtensor") -> AtenOp:
    """A call of an op of which only the types of the operands are known."""
    types = [f"!torch.{each}" for each in operands]
    names = [f"%{number}" for number in range(len(types))]
    arguments = ", ".join(map(": ".join, zip(names, types, strict=True)))
    text = f"""
      func.func @main({arguments}) {{
        %y = torch.operator "torch.{name}"({", ".join(names)}) :
          ({", ".join(types)}) -> (!torch.{result})
        func.return
      }}"""
    (op,) = (
        op for op in parse_module(make_context(), text).walk() if isinstance(op, AtenOp)
    )
    return op


@pytest.mark.parametrize(
    ("name", "a", "b", "result"),
    [
        *(("__round_to_zero_floordiv", a, 2, a // 2) for a in (4, -4)),
        ("__round_to_zero_floordiv", -7, 2, -3),
        ("__round_to_zero_floordiv", 1, 0, "divides by zero"),
        ("__round_to_zero_floordiv", LEAST, -1, "no 64-bit integer"),
        ("floordiv", -7, 2, -4),
        ("floordiv", -7, -1, 7),
        ("floordiv", 1, 0, "divides by zero"),
        ("floordiv", LEAST, -1, "no 64-bit integer"),
        ("remainder", -7, 2, 1),
        ("remainder", 1, 0, "divides by zero"),
        ("remainder", LEAST, -1, "no 64-bit integer"),
        ("gcd", 12, 18, 6),
        ("gcd", 12, 0, 12),
        ("gcd", LEAST, -1, "no 64-bit integer"),
        ("gcd", -1, LEAST, "no 64-bit integer"),
        ("floordiv", -1, LEAST, 0),
        ("floordiv", LEAST, 1, LEAST),
        ("add", LEAST, -1, 2**63 - 1),
    ],
)
def test_divisions_that_would_end_the_process(
    name: str, a: int, b: int, result: int | str
):
    op = op_of(f"aten.{name}.int", ("int", "int"), "int")

    if isinstance(result, int):
        assert call_checked(op, [a, b]) == [result]
    else:
        with pytest.raises(TorchRefusalError, match=result):
            call_checked(op, [a, b])


@pytest.mark.parametrize("name", ["div", "divide"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_quotients_that_are_too_large(name: str, dtype: torch.dtype):
    """PyTorch ends the process, or does so in some versions."""
    of_tensors = op_of(f"aten.{name}.Tensor_mode", ("vtensor", "vtensor", "str"))
    of_a_number = op_of(f"aten.{name}.Scalar_mode", ("vtensor", "number", "str"))
    ones, least = torch.ones(9, dtype=dtype), torch.iinfo(dtype).min
    x = torch.tensor([1] * 8 + [least], dtype=dtype)

    for op, by in (of_tensors, -ones), (of_a_number, -1):
        for rounding in "trunc", "floor":
            with pytest.raises(UsageError, match=f"{least} divided by -1"):
                call_checked(op, [x, by, rounding])
            (found,) = call_checked(op, [ones, by, rounding])
            assert torch.equal(found, -ones)
        assert torch.equal(call_checked(op, [x, 1, "trunc"])[0], x)


@pytest.mark.parametrize("name", ["floor_divide", "fmod", "remainder"])
def test_rests_of_quotients_that_are_too_large(name: str):
    overload = "" if name == "floor_divide" else ".Tensor"
    op = op_of(f"aten.{name}{overload}", ("vtensor", "vtensor"))
    x, by = torch.tensor([7, -(2**63)]), torch.tensor([2, -1])

    with pytest.raises(UsageError, match="divided by -1"):
        call_checked(op, [x, by])
    (found,) = call_checked(op, [x, by.flip(0)])
    torch.testing.assert_close(found, getattr(torch, name)(x, by.flip(0)))


@pytest.mark.parametrize(
    ("name", "numbers", "reason"),
    [
        ("remainder", (1, 0), "divides by zero"),
        ("floordiv", (LEAST, -1), "no 64-bit integer"),
        ("remainder", (LEAST, -1), "no 64-bit integer"),
    ],
)
def test_divisions_of_any_numbers(name: str, numbers: tuple[int, int], reason: str):
    op = op_of(f"aten.{name}", ("number", "number"), "number")

    with pytest.raises(TorchRefusalError, match=reason):
        call_checked(op, numbers)
    assert call_checked(op, [7.5, 2.0]) in ([3.0], [1.5])
    assert str(call_checked(op, [7.5, 0.0])[0]) in ("inf", "nan")


def test_true_divisions_of_integers():
    op = op_of("aten.div.Tensor", ("vtensor", "vtensor"))

    (found,) = call_checked(op, [torch.tensor([LEAST]), torch.tensor([-1])])

    assert found.tolist() == [2.0**63]


def test_a_tensor_that_a_program_takes_for_a_number():
    assert why_invalid(op_of("aten.relu", ("vtensor<[2],f32>",), "int")) is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16])
def test_quotients_that_are_never_too_large(dtype: torch.dtype):
    op = op_of("aten.div.Tensor_mode", ("vtensor", "vtensor", "str"))
    x, by = torch.tensor([0, 7, 9]).to(dtype), torch.tensor([255, 2, 255]).to(dtype)

    (found,) = call_checked(op, [x, by, "trunc"])

    assert torch.equal(found, x.div(by, rounding_mode="trunc"))
    with pytest.raises(TorchRefusalError, match="not implemented for 'Bool'"):
        call_checked(op, [x.bool(), by.bool(), "trunc"])
    with pytest.raises(TorchRefusalError, match="not implemented for 'ComplexFloat'"):
        call_checked(op, [x.to(torch.complex64), by.to(torch.complex64), "trunc"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten.from_file", "reads or writes files"),
        ("aten.choose_qparams_optimized", "may not end"),
        ("aten._stack", "may end the process"),
        ("aten.range.step", "may end the process"),
    ],
)
def test_ops_that_are_not_called(name: str, reason: str):
    assert danger_of(name) == reason
    assert danger_of("aten.relu") is None


def test_a_power_that_takes_long():
    op = op_of("aten.matrix_power", ("vtensor", "int"))
    x = torch.eye(3) * 2

    torch.testing.assert_close(call_checked(op, [x, 3])[0], x * 4)
    with pytest.raises(TorchRefusalError, match="n is beyond 10000"):
        call_checked(op, [x, 10**6])


def test_what_replaces_a_kernel_gets_all_arguments():
    types = "vtensor", "vtensor", "str"
    op = op_of("aten.gelu_backward", types)
    x = torch.linspace(-3, 3, 9)

    for approximate in "tanh", "none":
        (found,) = call_checked(op, [x, x, approximate])
        right = torch.ops.aten.gelu_backward(x, x, approximate=approximate)
        torch.testing.assert_close(found, right)


def test_kernels_for_empty_tensors_are_not_called():
    """That of the norm divides by their size."""
    op = op_of("aten._weight_norm", ("vtensor", "vtensor", "int"))
    empty = torch.ones(0, 2)

    (found,) = call_checked(op, [empty, torch.ones(0, 1), 0])

    assert found.shape == (0, 2)


def test_libraries_are_off_until_the_last_context_ends():
    def are_on() -> list[bool]:
        return [torch._C._get_mkldnn_enabled(), torch._C._get_nnpack_enabled()]

    before = are_on()
    with PLAIN_KERNELS:
        with PLAIN_KERNELS:
            assert are_on() == [False, False]
        assert are_on() == [False, False]
    assert are_on() == before and before[0]
