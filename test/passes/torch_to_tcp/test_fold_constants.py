# pyright: basic
"""Constants are folded as PyTorch computes them, before Core ML's converter does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import padc
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context
from padc.ir.dominance import verify
from padc.ir.torch import AtenOp, calls
from padc.ir.torch.calls import bytes_of
from padc.ir.weights import weights_of
from padc.passes.aten import eager_evaluation
from padc.passes.torch_to_mil import convert_torch_to_mil
from padc.passes.torch_to_mil.aten import parts
from padc.passes.torch_to_tcp.fold_constants import FoldConstantsPass
from padc.versions import numbers

N = 40_000
X = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """A function of an input, and of constants that the model holds."""

    def __init__(self, function: Callable[["Model", Tensor], Tensor]):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.function = function
        self.position = nn.Parameter(torch.randn(1, 17, 8, generator=generator))
        self.image = nn.Buffer(torch.randn(1, 4, 6, 6, generator=generator))
        self.matrix = nn.Buffer(torch.randn(3, 5, generator=generator))
        self.large = nn.Buffer(torch.randn(40_000, 1, 5, generator=generator))
        self.bytes = nn.Buffer(torch.zeros(N, dtype=torch.uint8))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def resized_position(model: Model, x: Tensor) -> Tensor:
    """As DINOv2 does: the first token stays, the others are a 4x4 grid."""
    grid = model.position[:, 1:].reshape(1, 4, 4, 8).permute(0, 3, 1, 2)
    grid = F.interpolate(grid.float(), scale_factor=(1.26, 1.26), mode="bicubic")
    tokens = grid.permute(0, 2, 3, 1).view(1, -1, 8)
    return torch.cat([model.position[:, :1], tokens], 1) + x[0, 0]


MINUS = -torch.inf
CASES: dict[str, tuple[Callable[[Model, Tensor], Tensor], int]] = {
    "triu": (lambda m, x: x + torch.triu(torch.full((5, 5), MINUS), 1), 1),
    "tril": (lambda m, x: x + torch.tril(torch.full((5, 5), MINUS), -1), 1),
    "all": (lambda m, x: x * torch.all(m.matrix) + torch.any(m.matrix > 9) * 2.0, 2),
    "position": (resized_position, 3),
    "adaptive pool": (lambda m, x: x[0, 0] + F.adaptive_avg_pool2d(m.image, 4), 3),
    "padded pool": (
        lambda m, x: x[0, 0] + F.max_pool2d(F.pad(m.image, (2, 1, 1, 2), "reflect"), 3),
        3,
    ),
    "convolution": (
        lambda m, x: x[0, 0] + F.conv2d(m.image, m.image, padding=2)[..., 0],
        3,
    ),
    "float64": (
        lambda m, x: x + torch.linspace(0, 1, 5, dtype=torch.float64).exp().float(),
        1,
    ),
    "0 / 0": (lambda m, x: x + torch.zeros(5) / torch.zeros(5), 1),
    "a list": (lambda m, x: x + torch.cat(m.matrix.split(2)[::-1]).sum(), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch(name: str):
    function, count = CASES[name]
    model = Model(function).eval()
    with torch.no_grad():
        expected = model(X)

    program = padc.convert(model, (X,))

    (actual,) = program.run(X)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert program.operation_count <= count


def test_large_repetitions_stay_ops():
    model = Model(lambda m, x: x[0, 0] + torch.zeros(1, 64, 64, 64))

    text = padc.convert(model, (X,)).mlir("tcp")

    assert "torch.aten.zeros" in text


def test_the_model_keeps_its_weights():
    def function(model: Model, x: Tensor) -> Tensor:
        return x + model.matrix.t() @ model.matrix

    model = Model(function).eval()
    before = model.matrix.clone()

    padc.convert(model, (X,))

    assert torch.equal(model.matrix, before)


# --- which ops are folded -------------------------------------------------------------


def ops_left(module: ModuleOp, ctx: Context) -> list[str]:
    """The ATen ops that the pass leaves."""
    FoldConstantsPass().apply(ctx, module)
    verify(module)
    return [op.schema.name for op in module.walk() if isinstance(op, AtenOp)]


LEFT: dict[str, tuple[Callable[[Model, Tensor], Tensor], list[str]]] = {
    "a list": (
        lambda m, x: x + torch.cat(m.matrix.split(2)[::-1]).sum(),
        ["aten.add.Tensor"],
    ),
    "a part of a list": (
        lambda m, x: x[:2] + m.matrix.split(2)[0],
        ["aten.slice.Tensor", "aten.add.Tensor"],
    ),
    "a device": (
        lambda m, x: x + torch.linspace(0, 1, 5, device="cpu"),
        ["aten.add.Tensor"],
    ),
    "no elements": (lambda m, x: x + x[:0].sum(0), ["aten.add.Tensor"]),
    "a large weight": (lambda m, x: x + m.large.exp(), ["aten.add.Tensor"]),
    "a large shared weight": (
        lambda m, x: x + m.large.exp() * m.large,
        ["aten.exp", "aten.mul.Tensor", "aten.add.Tensor"],
    ),
    "a small shared weight": (
        lambda m, x: x[:3] + m.matrix.exp() * m.matrix,
        ["aten.slice.Tensor", "aten.add.Tensor"],
    ),
    "a view of all of a weight": (
        lambda m, x: x + m.large.expand(1, 40_000, 1, 5),
        ["aten.add.Tensor"],
    ),
    "random numbers": (
        lambda m, x: x + torch.rand(5),
        ["aten.rand", "aten.add.Tensor"],
    ),
    "a tensor of any values": (
        lambda m, x: x + torch.empty(5) * m.matrix[0],
        ["aten.empty.memory_format", "aten.mul.Tensor", "aten.add.Tensor"],
    ),
    "quantized": (
        lambda m, x: (
            x[:3] + torch.fake_quantize_per_tensor_affine(m.matrix, 1.0, 0, 0, 9)
        ),
        [
            "aten.slice.Tensor",
            "aten.fake_quantize_per_tensor_affine",
            "aten.add.Tensor",
        ],
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_which_ops_are_left(name: str):
    function, left = LEFT[name]
    ctx = make_context()
    exported = torch.export.export(Model(function).eval(), (X,))
    module = import_exported_program(exported, weights_of(ctx))

    assert ops_left(module, ctx) == left


def test_results_that_would_be_too_large_are_not_computed(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(eager_evaluation, "MOST_BYTES", 500)
    ctx = make_context()
    model = Model(
        lambda m, x: x[0, 0] + m.matrix[:, 0].outer(m.position[0, :, 0]).sum()
    )
    module = import_exported_program(
        torch.export.export(model.eval(), (X,)), weights_of(ctx)
    )
    assert "aten.outer" not in ops_left(module.clone(), ctx)
    monkeypatch.setattr(eager_evaluation, "MOST_BYTES", 100)
    # 3 x 17 floats are more than 100 bytes, and than twice the 20 floats given.
    assert "aten.outer" in ops_left(module, ctx)


@pytest.mark.parametrize("type", ["[?],f32", "[2],f64"])
def test_results_of_another_type_than_declared_stay(
    type: str, parse: Callable[[str], ModuleOp], ctx: Context
):
    module = parse(f"""
      func.func @main() -> !torch.vtensor<{type}> {{
        %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %y = torch.aten.exp %x : !torch.vtensor<[2],f32> -> !torch.vtensor<{type}>
        func.return %y : !torch.vtensor<{type}>
      }}""")

    assert ops_left(module, ctx) == ["aten.exp"]


def test_part_of_a_list_of_another_type_stays(
    parse: Callable[[str], ModuleOp], ctx: Context
):
    """One element is declared as it is, the other one is not."""
    module = parse("""
      func.func @main() -> (!torch.vtensor<[1],f32>, !torch.vtensor<[?],f32>) {
        %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %one = torch.constant.int 1
        %zero = torch.constant.int 0
        %l = torch.aten.split.Tensor %x, %one, %zero : !torch.vtensor<[2],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
        %a, %b = torch.prim.ListUnpack %l : !torch.list<vtensor> -> !torch.vtensor<[1],f32>, !torch.vtensor<[?],f32>
        func.return %a, %b : !torch.vtensor<[1],f32>, !torch.vtensor<[?],f32>
      }""")

    assert ops_left(module, ctx) == ["aten.split.Tensor"]
    (returned,) = (op for op in module.walk() if op.name == "func.return")
    assert [getattr(x.owner, "name", None) for x in returned.operands] == [
        "torch.vtensor.literal",
        "torch.prim.ListUnpack",
    ]


def test_sizes_stay(parse: Callable[[str], ModuleOp], ctx: Context):
    module = parse("""
      func.func @main() -> !torch.int {
        %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %zero = torch.constant.int 0
        %n = torch.aten.size.int %x, %zero : !torch.vtensor<[2],f32>, !torch.int -> !torch.int
        func.return %n : !torch.int
      }""")

    assert ops_left(module, ctx) == ["aten.size.int"]


def test_only_results_that_are_used_become_weights(
    parse: Callable[[str], ModuleOp], ctx: Context
):
    module = parse("""
      func.func @main() -> !torch.vtensor<[1],f32> {
        %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %zero = torch.constant.int 0
        %keep = torch.constant.bool true
        %y = torch.aten.exp %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
        %most, %index = torch.aten.max.dim %y, %zero, %keep : !torch.vtensor<[2],f32>, !torch.int, !torch.bool -> !torch.vtensor<[1],f32>, !torch.vtensor<[1],si64>
        func.return %most : !torch.vtensor<[1],f32>
      }""")

    assert ops_left(module, ctx) == []
    assert list(weights_of(ctx)) == ["most"]


REPEATED: dict[str, Callable[[Model], Tensor]] = {
    "full": lambda m: torch.full((N,), 2.0),
    "full_like": lambda m: torch.full_like(m.bytes, 2.0, dtype=torch.float64),
    "new_full": lambda m: m.bytes.new_full((3 * N,), 2),
    "zeros": lambda m: torch.zeros(N),
    "zeros_like": lambda m: torch.zeros_like(m.bytes, dtype=torch.float64),
    "new_zeros": lambda m: m.matrix.new_zeros(N),
    "ones": lambda m: torch.ones(N),
    "ones_like": lambda m: torch.ones_like(m.bytes, dtype=torch.float64),
    "new_ones": lambda m: m.matrix.new_ones(N),
    "expand": lambda m: m.matrix[:1, :1].expand(N, 1),
    "repeat": lambda m: m.matrix.repeat(N, 1),
    "tile": lambda m: m.matrix.tile(N, 1),
}
"""A large result of each op that only repeats."""


@pytest.mark.parametrize("name", REPEATED)
def test_large_results_that_repeat_stay(name: str):
    ctx = make_context()
    model = Model(lambda m, x: x[0, 0] * REPEATED[name](m))
    module = import_exported_program(
        torch.export.export(model.eval(), (X,)), weights_of(ctx)
    )

    assert f"aten.{name}" in ops_left(module, ctx)


REPEATED_TEXT = {
    "broadcast_to": "%y = torch.aten.broadcast_to %x, %sizes : !torch.vtensor<[1],f64>, !torch.list<int> -> !torch.vtensor<[40000],f64>",
    "expand_as": "%y = torch.aten.expand_as %x, %other : !torch.vtensor<[1],f64>, !torch.vtensor<[40000],ui8> -> !torch.vtensor<[40000],f64>",
}
"""The same of ops that the importer replaces; torch-mlir writes them."""


@pytest.mark.parametrize("name", REPEATED_TEXT)
def test_large_results_of_other_ops_stay(
    name: str, parse: Callable[[str], ModuleOp], ctx: Context
):
    module = parse(f"""
      func.func @main() -> !torch.vtensor<[40000],f64> {{
        %x = torch.vtensor.literal(dense<2.0> : tensor<1xf64>) : !torch.vtensor<[1],f64>
        %other = torch.vtensor.literal(dense<2> : tensor<40000xui8>) : !torch.vtensor<[40000],ui8>
        %n = torch.constant.int 40000
        %sizes = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
        {REPEATED_TEXT[name]}
        func.return %y : !torch.vtensor<[40000],f64>
      }}""")

    assert ops_left(module, ctx) == [f"aten.{name}"]


def test_each_op_that_repeats_is_tested():
    tested = REPEATED.keys() | REPEATED_TEXT.keys()
    assert {f"aten.{name}" for name in tested} == eager_evaluation.REPEATING


HUGE: dict[str, Callable[[Model], Tensor]] = {
    "eye": lambda m: torch.eye(2**17),
    "arange": lambda m: torch.arange(2**34),
    "linspace": lambda m: torch.linspace(0, 1, 2**34),
    "logspace": lambda m: torch.logspace(0, 1, 2**34),
    "tril_indices": lambda m: torch.tril_indices(2**17, 2**17),
    "full": lambda m: torch.full((2**17, 2**17), 1.5),
    "repeat": lambda m: m.matrix.repeat(2**16, 2**16),
    "repeat_interleave": lambda m: m.image.repeat_interleave(2**28),
    "of a constant": lambda m: torch.arange(2**17)[:, None] * torch.arange(2**17),
    "of a list": lambda m: torch.einsum("i,j->ij", *[torch.arange(2.0**17)] * 2),
    "of a list of matrices": lambda m: torch.block_diag(
        *[m.matrix.repeat(9, 9)] * 9999
    ),
}
"""10 GB and more."""


@pytest.mark.parametrize("name", HUGE)
def test_huge_constants_are_not_computed(name: str, monkeypatch: pytest.MonkeyPatch):
    """PyTorch would try to get the memory; Core ML's converter would fill it."""
    model = Model(lambda m, x: x + HUGE[name](m).sum())
    exported = torch.export.export(model.eval(), (X,))
    ctx = make_context()
    module = import_exported_program(exported, weights_of(ctx))
    original = eager_evaluation.call_fake
    sizes: list[int] = []

    def call_fake(op: AtenOp, operands: Any) -> Any:
        sizes.append(bytes_of(made := original(op, operands)))
        return made

    def call(op: AtenOp, operands: Any) -> Any:
        assert bytes_of(original(op, operands)) < 2**27
        return calls.call(op, operands)

    monkeypatch.setattr(eager_evaluation, "call", call)
    monkeypatch.setattr(eager_evaluation, "call_fake", call_fake)
    FoldConstantsPass().apply(ctx, module)
    assert max(sizes) > 2**33
    with pytest.raises(padc.UnsupportedError, match=r"a constant of \d+ numbers"):
        padc.convert(exported)


def test_ops_that_pytorch_cannot_run_without_data_stay(
    parse: Callable[[str], ModuleOp], ctx: Context
):
    """PyTorch divides by the stride."""
    module = parse("""
      func.func @main() -> !torch.vtensor<[1,1,1,1],f32> {
        %x = torch.vtensor.literal(dense<2.0> : tensor<1x1x1x1xf32>) : !torch.vtensor<[1,1,1,1],f32>
        %none = torch.constant.none
        %0 = torch.constant.int 0
        %1 = torch.constant.int 1
        %no = torch.constant.bool false
        %zeros = torch.prim.ListConstruct %0, %0 : (!torch.int, !torch.int) -> !torch.list<int>
        %ones = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
        %y = torch.aten.convolution %x, %x, %none, %zeros, %zeros, %ones, %no, %zeros, %1 : !torch.vtensor<[1,1,1,1],f32>, !torch.vtensor<[1,1,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,1,1,1],f32>
        func.return %y : !torch.vtensor<[1,1,1,1],f32>
      }""")

    assert ops_left(module, ctx) == ["aten.convolution"]


OTHER_OPERANDS = {
    "an IndexError": "torch.aten.unsqueeze %x, %9 : {x}, !torch.int -> {x}",
    "an AssertionError": "torch.aten.embedding %x, %i, %9, %no, %no : {x}, "
    "!torch.vtensor<[1],si64>, !torch.int, !torch.bool, !torch.bool -> {x}",
    "a signal": 'torch.operator "torch.aten._stack"(%none_of_them, %9) : '
    "(!torch.list<vtensor>, !torch.int) -> ({x})",
    "only without data": 'torch.operator "torch.aten._fft_r2c"(%x, %dims, %9, %no) : '
    "({x}, !torch.list<int>, !torch.int, !torch.bool) -> ({x})",
}
"""What PyTorch raises for these operands, and an op."""


@pytest.mark.parametrize("what", OTHER_OPERANDS)
def test_ops_with_operands_that_pytorch_does_not_take_stay(
    what: str, parse: Callable[[str], ModuleOp], ctx: Context
):
    x = "!torch.vtensor<[1],f32>"
    module = parse(f"""
      func.func @main() -> {x} {{
        %x = torch.vtensor.literal(dense<2.0> : tensor<1xf32>) : {x}
        %i = torch.vtensor.literal(dense<0> : tensor<1xsi64>) : !torch.vtensor<[1],si64>
        %no = torch.constant.bool false
        %9 = torch.constant.int 9
        %dims = torch.prim.ListConstruct %9 : (!torch.int) -> !torch.list<int>
        %none_of_them = torch.prim.ListConstruct : () -> !torch.list<vtensor>
        %y = {OTHER_OPERANDS[what].format(x=x)}
        func.return %y : {x}
      }}""")

    assert len(ops_left(module, ctx)) == 1


def test_ops_on_files_stay(
    parse: Callable[[str], ModuleOp],
    ctx: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    module = parse("""
      func.func @main() -> !torch.vtensor<[4],f32> {
        %name = torch.constant.str "made"
        %4 = torch.constant.int 4
        %true = torch.constant.bool true
        %none = torch.constant.none
        %y = torch.operator "torch.aten.from_file"(%name, %true, %4, %none, %none, %none, %none) : (!torch.str, !torch.bool, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none) -> (!torch.vtensor<[4],f32>)
        func.return %y : !torch.vtensor<[4],f32>
      }""")

    assert ops_left(module, ctx) == ["aten.from_file"]
    assert not list(tmp_path.iterdir())


UNSAFE = {
    "_cholesky_solve_helper": "(%x, %y, %no) : (!torch.vtensor<[4,4],f32>, "
    "!torch.vtensor<[2,2,3,3],f32>, !torch.bool)",
    "_dyn_quant_matmul_4bit": "(%x, %x, %0, %1, %1) : (!torch.vtensor<[4,4],f32>, "
    "!torch.vtensor<[4,4],f32>, !torch.int, !torch.int, !torch.int)",
    "_remove_batch_dim": "(%x, %0, %0, %9) : (!torch.vtensor<[4,4],f32>, "
    "!torch.int, !torch.int, !torch.int)",
    "_stack": "(%no_tensors, %0) : (!torch.list<vtensor>, !torch.int)",
    "__round_to_zero_floordiv.int": "(%1, %0) : (!torch.int, !torch.int)",
    "max_pool2d_with_indices_backward": "(%z, %z, %l, %l, %p, %l, %no, %i) : "
    "(!torch.vtensor<[1,4,4],f32>, !torch.vtensor<[1,4,4],f32>, !torch.list<int>, "
    "!torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, "
    "!torch.vtensor<[1,4,4],si64>)",
}
"""Operands for which PyTorch ends the process, or writes to other memory."""


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_ops_are_not_called(
    name: str, parse: Callable[[str], ModuleOp], ctx: Context
):
    type = "!torch.int" if name.endswith("int") else "!torch.vtensor<[1,4,4],f32>"
    module = parse(f"""
      func.func @main() -> {type} {{
        %x = torch.vtensor.literal(dense<-1.0> : tensor<4x4xf32>) : !torch.vtensor<[4,4],f32>
        %y = torch.vtensor.literal(dense<1.0> : tensor<2x2x3x3xf32>) : !torch.vtensor<[2,2,3,3],f32>
        %z = torch.vtensor.literal(dense<1.0> : tensor<1x4x4xf32>) : !torch.vtensor<[1,4,4],f32>
        %i = torch.vtensor.literal(dense<1000000000000> : tensor<1x4x4xsi64>) : !torch.vtensor<[1,4,4],si64>
        %no = torch.constant.bool false
        %0 = torch.constant.int 0
        %1 = torch.constant.int 1
        %9 = torch.constant.int 100000
        %l = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
        %p = torch.prim.ListConstruct %0, %0 : (!torch.int, !torch.int) -> !torch.list<int>
        %no_tensors = torch.prim.ListConstruct : () -> !torch.list<vtensor>
        %r = torch.operator "torch.aten.{name}"{UNSAFE[name]} -> ({type})
        func.return %r : {type}
      }}""")

    assert ops_left(module, ctx) == [f"aten.{name}"]


def test_results_without_elements_need_no_kernel(
    parse: Callable[[str], ModuleOp], ctx: Context
):
    """This one divides by the size of the tensor, and a signal ends the process."""
    module = parse("""
      func.func @main() -> !torch.vtensor<[0],f64> {
        %v = torch.vtensor.literal(dense<1.0> : tensor<0xf64>) : !torch.vtensor<[0],f64>
        %g = torch.vtensor.literal(dense<2.5> : tensor<f64>) : !torch.vtensor<[],f64>
        %0 = torch.constant.int 0
        %y = torch.operator "torch.aten._weight_norm"(%v, %g, %0) : (!torch.vtensor<[0],f64>, !torch.vtensor<[],f64>, !torch.int) -> (!torch.vtensor<[0],f64>)
        func.return %y : !torch.vtensor<[0],f64>
      }""")

    assert ops_left(module, ctx) == []


LONG = {
    "aten.mvlgamma": "(%x, %long) : (!torch.vtensor<[2],f32>, !torch.int)",
    "aten.special_multigammaln": "(%x, %long) : (!torch.vtensor<[2],f32>, !torch.int)",
    "aten.special_laguerre_polynomial_l.n_scalar": "(%x, %long) : "
    "(!torch.vtensor<[2],f32>, !torch.int)",
    "aten.special_hermite_polynomial_h": "(%x, %n) : "
    "(!torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>)",
}
"""These would take more than 10 s."""
SIZED_BY_DATA = {
    "aten.repeat_interleave.Tensor": "(%i, %none) : "
    "(!torch.vtensor<[2],si64>, !torch.none)",
    "aten.bincount": "(%i, %none, %0) : "
    "(!torch.vtensor<[2],si64>, !torch.none, !torch.int)",
    "aten.one_hot": "(%i, %minus_one) : (!torch.vtensor<[2],si64>, !torch.int)",
    "aten.combinations": "(%i, %2, %true) : "
    "(!torch.vtensor<[2],si64>, !torch.int, !torch.bool)",
}
"""A few numbers may make a large result of these."""


@pytest.mark.parametrize("name", LONG)
def test_what_takes_long_is_not_computed(
    name: str, parse: Callable[[str], ModuleOp], ctx: Context
):
    module = parse(f"""
      func.func @main() -> !torch.vtensor<[2],f32> {{
        %x = torch.vtensor.literal(dense<0.5> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %n = torch.vtensor.literal(dense<4.0e+9> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %long = torch.constant.int 60000000
        %y = torch.operator "torch.{name}"{LONG[name]} -> (!torch.vtensor<[2],f32>)
        func.return %y : !torch.vtensor<[2],f32>
      }}""")

    assert ops_left(module, ctx) == [name]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name == "aten.combinations"
                and numbers(torch.__version__) >= numbers("2.14"),
                reason="PyTorch 2.14 knows the size of combinations",
            ),
        )
        for name in SIZED_BY_DATA
    ],
)
def test_what_data_gives_a_size_is_not_computed(
    name: str,
    parse: Callable[[str], ModuleOp],
    ctx: Context,
    monkeypatch: pytest.MonkeyPatch,
):
    module = parse(f"""
      func.func @main() -> !torch.vtensor<[2],si64> {{
        %i = torch.vtensor.literal(dense<1> : tensor<2xsi64>) : !torch.vtensor<[2],si64>
        %none = torch.constant.none
        %true = torch.constant.bool true
        %0 = torch.constant.int 0
        %2 = torch.constant.int 2
        %minus_one = torch.constant.int -1
        %y = torch.operator "torch.{name}"{SIZED_BY_DATA[name]} -> (!torch.vtensor<[2],si64>)
        func.return %y : !torch.vtensor<[2],si64>
      }}""")
    forbid_calls(monkeypatch)

    assert ops_left(module, ctx) == [name]


def forbid_calls(monkeypatch: pytest.MonkeyPatch):
    """Let the test fail if an op is run with its data."""

    def call(op: AtenOp, _: Any) -> Any:
        pytest.fail(f"{op.schema.name} is called")

    monkeypatch.setattr(eager_evaluation, "call", call)


def test_large_numbers_that_count_no_terms(
    parse: Callable[[str], ModuleOp], ctx: Context
):
    module = parse("""
      func.func @main() -> (!torch.vtensor<[20000,1],f32>, !torch.vtensor<[2],f32>) {
        %x = torch.vtensor.literal(dense<2.0e+04> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %n = torch.constant.int 20000
        %1 = torch.constant.int 1
        %none = torch.constant.none
        %a = torch.aten.eye.m %n, %1, %none, %none, %none, %none : !torch.int, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[20000,1],f32>
        %b = torch.operator "torch.aten.special_laguerre_polynomial_l.n_scalar"(%x, %1) : (!torch.vtensor<[2],f32>, !torch.int) -> (!torch.vtensor<[2],f32>)
        func.return %a, %b : !torch.vtensor<[20000,1],f32>, !torch.vtensor<[2],f32>
      }""")

    assert ops_left(module, ctx) == []


def test_what_needs_data_is_computed(parse: Callable[[str], ModuleOp], ctx: Context):
    module = parse("""
      func.func @main() -> (!torch.vtensor<[2,1],f32>, !torch.vtensor<[],i1>) {
        %a = torch.vtensor.literal(dense<[[2.0, 1.0], [1.0, 3.0]]> : tensor<2x2xf32>) : !torch.vtensor<[2,2],f32>
        %b = torch.vtensor.literal(dense<1.0> : tensor<2x1xf32>) : !torch.vtensor<[2,1],f32>
        %none = torch.constant.none
        %driver = torch.constant.str "gelsd"
        %x, %residuals, %rank, %values = torch.operator "torch.aten.linalg_lstsq"(%a, %b, %none, %driver) : (!torch.vtensor<[2,2],f32>, !torch.vtensor<[2,1],f32>, !torch.none, !torch.str) -> (!torch.vtensor<[2,1],f32>, !torch.vtensor<[0],f32>, !torch.vtensor<[],si64>, !torch.vtensor<[2],f32>)
        %all = torch.operator "torch.aten.all"(%x) : (!torch.vtensor<[2,1],f32>) -> (!torch.vtensor<[],i1>)
        func.return %x, %all : !torch.vtensor<[2,1],f32>, !torch.vtensor<[],i1>
      }""")

    assert ops_left(module, ctx) == []


def test_assertions_are_not_run(
    parse: Callable[[str], ModuleOp], ctx: Context, monkeypatch: pytest.MonkeyPatch
):
    forbid_calls(monkeypatch)
    module = parse("""
      func.func @main() -> !torch.vtensor<[2],f32> {
        %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
        %none = torch.constant.none
        torch.operator "torch.aten._assert_tensor_metadata"(%x, %none, %none, %none, %none, %none) : (!torch.vtensor<[2],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none) -> ()
        func.return %x : !torch.vtensor<[2],f32>
      }""")

    assert ops_left(module, ctx) == ["aten._assert_tensor_metadata"]


def test_what_is_computed_from_a_large_weight_is_no_large_constant(
    monkeypatch: pytest.MonkeyPatch,
):
    """Ops on weights that other ops take, too, stay."""
    monkeypatch.setattr(convert_torch_to_mil, "MOST_NUMBERS", 30)
    monkeypatch.setattr(parts, "MOST_NUMBERS", 30)
    for limit in ("MOST_BYTES", "MOST_REPEATED_BYTES"):
        monkeypatch.setattr(eager_evaluation, limit, 30)
    x = torch.randn(1, 17, 8)

    def tied(m: Model, x: Tensor) -> Tensor:
        return x * m.position @ m.position.transpose(1, 2)

    program = padc.convert(Model(tied).eval(), (x,))

    torch.testing.assert_close(program.run(x)[0], tied(Model(tied), x))
    with pytest.raises(padc.UnsupportedError, match="a constant of 272 numbers"):
        padc.convert(Model(lambda m, x: x + torch.eye(17, 16).sum()).eval(), (x,))
