# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportCallIssue=false, reportReturnType=false, reportOptionalIterable=false
"""From torch.export programs to the torch dialect."""

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.torch_version import TorchVersion
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import padc
from padc.errors import (
    InvalidProgramError,
    SourceLocation,
    UnsupportedError,
    UsageError,
)
from padc.frontends.torch_export import export_module, import_exported_program, load
from padc.frontends.torch_export.export import without_base
from padc.ir import make_context
from padc.ir import torch as torch_d
from padc.ir.text import Parser
from padc.ir.torch import ListConstructOp
from padc.ir.weights import Weights, weights_of

X = torch.ones(2, 3, 8, 8)


def import_model(
    model: nn.Module, *args: object, weights: Weights | None = None, **options: object
) -> ModuleOp:
    """Export, import, verify, and check that torch-mlir and padc read the text."""
    ctx = make_context()
    program = export_module(model, args, **options)
    module = import_exported_program(
        program, weights_of(ctx) if weights is None else weights
    )
    module.verify()
    check_text(module, ctx)
    return module


def check_text(module: ModuleOp, ctx: Context) -> None:
    assert str(Parser(ctx, str(module)).parse_module()) == str(module)
    ir = pytest.importorskip("torch_mlir.ir")
    from torch_mlir.dialects import torch as torch_mlir_torch

    theirs = ir.Context()
    torch_mlir_torch.register_dialect(theirs)
    ir.Module.parse(str(module), theirs)


def main(module: ModuleOp) -> FuncOp:
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return function


def names(module: ModuleOp) -> tuple[list[str], list[str]]:
    """The names of the inputs and outputs."""
    function = main(module)
    return tuple(
        [attrs.data["padc.name"].data for attrs in all_attrs]
        for all_attrs in (function.arg_attrs, function.res_attrs)
    )


def aten_ops(module: ModuleOp) -> list[torch_d.AtenOp]:
    return [op for op in module.walk() if isinstance(op, torch_d.AtenOp)]


def only(module: ModuleOp, name: str) -> torch_d.AtenOp:
    (op,) = [op for op in aten_ops(module) if op.schema.name == name]
    return op


def problems(model: nn.Module, *args: object, **options: object) -> tuple:
    with pytest.raises(UnsupportedError) as raised:
        import_model(model, *args, **options)
    return raised.value.problems


class Call(nn.Module):
    """A model that calls a function."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


# --- what a model holds ------------------------------------------------------------


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding="same"), nn.BatchNorm2d(4)
        )
        self.register_buffer("order", torch.tensor([2, 0, 1]))
        self.register_buffer("brain", torch.full((2,), 0.5, dtype=torch.bfloat16))
        self.register_buffer("rank0", torch.tensor(7))
        self.register_buffer("unused", torch.ones(3))
        self.plain = torch.tensor([[1.5, 2.5]]).t()

    def forward(self, x):
        brain = self.brain.to(torch.float32)
        return self.blocks(x) + brain.sum() + self.plain.sum(), x[
            :, self.order
        ] + self.rank0


def test_weights_by_qualified_name_without_a_copy():
    weights = Weights()
    model = Holding().eval()

    import_model(model, X, weights=weights)

    assert set(weights) == {
        "blocks.0.weight",
        "blocks.0.bias",
        "blocks.1.weight",
        "blocks.1.bias",
        "blocks.1.running_mean",
        "blocks.1.running_var",
        "order",
        "brain",
        "plain",
    }
    weight = model.blocks[0].weight.detach().numpy()
    assert np.shares_memory(weights["blocks.0.weight"], weight)
    assert weights["brain"].dtype == np.uint16
    assert (weights["brain"] == 0x3F00).all()
    np.testing.assert_array_equal(weights["plain"], [[1.5], [2.5]])


def test_integer_of_rank_0_is_in_line():
    module = import_model(Holding().eval(), X)

    assert (
        "torch.vtensor.literal(dense<7> : tensor<si64>) : !torch.vtensor<[],si64>"
        in str(module)
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0.1, 123456789.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_of_rank_0_keep_their_bits(value: float, dtype: torch.dtype):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("tensor", torch.tensor(value, dtype=dtype))

        def forward(self, x):
            return x + self.tensor

    model, weights = Model(), Weights()

    module = import_model(model, torch.ones(2, dtype=dtype), weights=weights)

    (literal,) = [op for op in module.walk() if isinstance(op, torch_d.LiteralOp)]
    bits = model.tensor.reshape(1).view(torch.uint8).numpy()
    assert weights.array(literal.value).tobytes() == bits.tobytes()


def test_batch_norm():
    op = only(import_model(nn.BatchNorm2d(3, eps=1e-3).eval(), X), "aten.batch_norm")

    assert (op.constant("training"), op.constant("eps")) == (False, 1e-3)


# --- constants and operands --------------------------------------------------------


@pytest.mark.parametrize(
    "value", [float("inf"), float("-inf"), 0.1, -0.0, 1e300, 5e-324, 1e22, 1.0]
)
def test_floats_keep_their_bits(value: float):
    module = import_model(Call(lambda x: x * value), X)

    again = Parser(make_context(), str(module)).parse_module()
    for text in (module, again):
        read = only(text, "aten.mul.Scalar").constant("other")
        assert repr(read) == repr(value)


def test_nan():
    op = only(import_model(Call(lambda x: x + float("nan")), X), "aten.add.Scalar")

    assert np.isnan(op.constant("other"))


def test_bool_int_and_float_of_one_value_stay_apart():
    module = import_model(Call(lambda x: (x.sum(1, True) + 1.0) * 1), X)

    assert only(module, "aten.add.Scalar").constant("other") is not True
    assert repr(only(module, "aten.add.Scalar").constant("other")) == "1.0"
    assert repr(only(module, "aten.mul.Scalar").constant("other")) == "1"
    assert only(module, "aten.sum.dim_IntList").constant("keepdim") is True


def test_defaults_are_written_out():
    op = only(import_model(nn.MaxPool2d(2), X), "aten.max_pool2d")

    assert [op.constant(a.name) for a in op.schema.arguments[1:]] == [
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        False,
    ]


def test_enums():
    op = only(import_model(Call(lambda x: x.to(torch.float16)), X), "aten._to_copy")

    assert op.constant("dtype") == 5


def test_numbers_for_tensors():
    module = import_model(
        Call(
            lambda x: (torch.where(x > 0, x, 2.0), 2 - x, 2**x, x / 3, x // 2, x == 1)
        ),
        X,
    )

    used = {op.schema.name for op in aten_ops(module)}
    assert not any(
        torch_d.fits(value.type, "Scalar") and argument.type == "Tensor"
        for op in aten_ops(module)
        for value, argument in zip(op.operands, op.schema.arguments, strict=True)
    )
    assert {"aten.pow.Scalar", "aten.div.Scalar", "aten.eq.Scalar"} <= used


def test_lists_of_tensors():
    module = import_model(Call(lambda x: torch.cat([*x.split([1, 2], 1), x], 1)), X)

    assert "torch.prim.ListUnpack" in str(module)
    assert only(module, "aten.cat").outputs[0].type.get_shape() == (2, 6, 8, 8)


def test_several_results():
    pool = nn.MaxPool2d(2, return_indices=True)

    module = import_model(Call(lambda x: pool(x)[1]), X)

    op = only(module, "aten.max_pool2d_with_indices")
    assert main(module).get_return_op().operands[0] is op.outputs[1]


# --- names -------------------------------------------------------------------------


def test_names_of_keys_and_fields():
    Pair = collections.namedtuple("Pair", ["left", "right"])

    class Model(nn.Module):
        def forward(self, image, *, mask=None, scale=2):
            return {"out": image * scale, "pair": Pair(image + 1, [mask]), "none": None}

    module = import_model(Model(), X, kwargs={"mask": X})

    assert names(module) == (["image", "mask"], ["out", "pair_left", "pair_right_0"])


def test_names_of_nodes():
    assert names(import_model(Call(lambda x: (x.relu(), x.relu(), x.exp())), X)) == (
        ["args_0"],
        ["relu", "relu_1", "exp"],
    )


def test_same_value_twice_and_input_as_output():
    def function(x):
        y = x.relu()
        return y, x, y, x.view(-1)

    module = import_model(Call(function), X)

    y, x, y_again, _ = main(module).get_return_op().operands
    assert y is y_again
    assert x is main(module).body.block.args[0]
    assert names(module) == (["args_0"], ["relu", "args_0_1", "relu_1", "view"])


def test_one_tensor_given_twice_is_two_inputs():
    module = import_model(Call(lambda x, y: x.relu() - y), X, X)

    x, y = main(module).body.block.args
    assert only(module, "aten.relu").arg("self") is x
    assert only(module, "aten.sub.Tensor").arg("other") is y


def test_unused_inputs_stay():
    module = import_model(Call(lambda x, y: x + 1), X, torch.ones(3, dtype=torch.int32))

    assert names(module)[0] == ["args_0", "args_1"]
    assert str(main(module).function_type.inputs.data[1]) == "!torch.vtensor<[3],si32>"


def test_tensors_of_rank_0():
    module = import_model(Call(lambda x: x.sum() * 2), torch.tensor(3.0))

    assert (
        str(main(module).function_type)
        == "(!torch.vtensor<[],f32>) -> !torch.vtensor<[],f32>"
    )


# --- symbolic sizes ----------------------------------------------------------------


def test_symbolic_sizes():
    height = Dim("height", min=4, max=100)
    module = import_model(
        Call(lambda x, y: nn.functional.pad(x, (0, x.shape[2] // 2 - 1)) + y.sum()),
        X,
        X,
        dynamic_shapes=(
            ({0: Dim("batch", min=2, max=64), 2: 2 * height}, {2: 2 * height}),
        ),
    )

    text = str(module)
    assert main(module).body.block.args[0].type.get_shape()[1::2] == (3, 8)
    assert "{min_val = 2, max_val = 64} : !torch.int" in text
    assert "{min_val = 4, max_val = 100} : !torch.int" in text
    assert "affine_map<()[s0, s1] -> (s0, 3, (s1 * 2), 8)>" in text
    assert "affine_map<()[s0] -> (2, 3, (s0 * 2), 8)>" in text
    assert only(module, "aten.pad").is_constant("pad") is False


def test_arithmetic_on_sizes():
    # PyTorch 2.8 does not export the other.
    is_old = torch.__version__ < TorchVersion("2.9")
    total: Any = sum if is_old else torch.sym_sum

    def function(x):
        n, m = x.shape
        return (
            torch.ones(n + m, n * m, n - 1, torch.sym_max(n, m), torch.sym_min(n, 3)),
            torch.ones(n % 3 + 2, n**m, total((n, m, 2, n))),
            x * (n / m),
            x.new_full((2,), torch.sym_float(n)),
        )

    module = import_model(
        Call(function),
        torch.ones(4, 6),
        dynamic_shapes=(({0: Dim("n", min=3, max=9), 1: Dim("m", min=3, max=8)},),),
    )

    used = {op.schema.name for op in aten_ops(module)}
    assert {
        "aten.size.int",
        "aten.add.int",
        "aten.mul.int",
        "aten.sub.int",
        "prim.max.int",
        "prim.min.int",
        "aten.remainder.int",
        "aten.pow.int_to_int",
        "aten.div.int",
        "aten.Float.Scalar",
    } <= used


def test_a_size_that_is_the_same_for_all_inputs():
    """Padding to a multiple of 8 pads nothing if the size is one."""
    module = import_model(
        Call(lambda x: F.pad(x, (0, (8 - x.shape[1] % 8) % 8))),
        torch.ones(2, 32),
        dynamic_shapes=(({1: 8 * Dim("n", min=2, max=9)},),),
    )

    (pad,) = (op for op in aten_ops(module) if op.schema.name == "aten.pad")
    (amounts,) = (x.owner for x in pad.operands if isinstance(x.owner, ListConstructOp))
    assert [each.owner.value.value.data for each in amounts.operands] == [0, 0]


def test_assertions_are_left_out_unless_they_are_wanted():
    def function(x):
        torch._check(x.shape[0] > 3)
        torch._assert(x.shape[0] < 60, "too many")
        torch.ops.aten._assert_async.msg(x.sum() > 0, "it has to be positive")
        return x.to(torch.bool)

    module = import_model(
        Call(function), torch.ones(5), dynamic_shapes=(({0: Dim("n", min=4, max=50)},),)
    )

    assert [op.schema.name for op in aten_ops(module)] == ["aten._to_copy"]


def test_sizes_that_depend_on_data():
    def function(x):
        n = x.sum().to(torch.int64).item()
        torch._check(n > 2)
        return torch.ones(n, 2), x.nonzero()

    module = import_model(Call(function), torch.ones(4))

    assert [str(t) for t in main(module).function_type.outputs] == [
        "!torch.vtensor<[?,2],f32>",
        "!torch.vtensor<[?,1],si64>",
    ]


# --- the user's lines --------------------------------------------------------------


class TwoLines(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        y = self.conv(x)  # here
        return (
            y.relu()  # there
        )


def test_locations():
    module = import_model(TwoLines(), X)

    for name, mark in (("aten.conv2d", "# here"), ("aten.relu", "# there")):
        location = SourceLocation.of(only(module, name).location)
        assert location is not None
        assert Path(location.file) == Path(__file__)
        assert location.text.endswith(mark)


def negative(x):
    return x.neg()  # inside


class Calling(nn.Module):
    def forward(self, x):
        return negative(x).relu()  # outside


@pytest.mark.skipif(
    TorchVersion(torch.__version__) < "2.9", reason="it keeps lines of forward only"
)
def test_the_line_of_a_function_that_forward_calls():
    module = import_model(Calling(), X)

    for name, mark in (("aten.neg", "# inside"), ("aten.relu", "# outside")):
        location = SourceLocation.of(only(module, name).location)
        assert location is not None
        assert location.text.endswith(mark)


# --- what cannot be imported -------------------------------------------------------


def test_all_problems_at_once():
    class Model(nn.Module):
        def forward(self, x):
            y = torch.ops.padc_test.half(x)  # first
            z = torch.fft.fft(x).real + torch.ops.padc_test.twice(y)
            return torch.ops.padc_test.twice(x) + z  # third

    with torch.library._scoped_library("padc_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.define("half(Tensor x) -> Tensor")
        library.impl("half", lambda x: x / 2, "CompositeExplicitAutograd")
        found = problems(Model(), X)

    assert len(found) == 2
    first, third = found
    given = "on (float32[2, 3, 8, 8]): it is not one of ATen's ops"
    assert first.message == f"'padc_test.half' {given}"
    assert first.location.text.endswith("# first")
    assert third.message == f"'padc_test.twice' {given}"
    assert third.location.text.endswith("# third")
    assert third.hint


def test_training():
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5)).train()

    norm, dropout = problems(Call(layers).train(), X)

    assert norm.message.startswith("aten.batch_norm: the model changes its buffers")
    assert norm.message.endswith("0.running_mean' and 'function.0.running_var'")
    assert dropout.message == "aten.dropout: it draws random numbers"
    for problem in (norm, dropout):
        assert problem.location.text == "return self.function(*args)"
        assert "model.eval()" in problem.hint


IN_2_8 = pytest.mark.skipif(
    TorchVersion(torch.__version__) < "2.9", reason="PyTorch 2.8 refuses by itself"
)


class WithData(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))
        self.register_buffer("c", torch.ones(8))

    def forward(self, x):
        x = x * self.a.data + self.c
        self.b.data[0] = 1
        self.c.data = self.b * 2
        return x + self.a.data


@IN_2_8
def test_data_of_tensors():
    read, changed, assigned = problems(WithData(), X)

    assert read.message.startswith("the model reads the data of its parameter 'a'")
    assert read.location.text == "x = x * self.a.data + self.c"
    assert "detach()" in read.hint
    assert (
        changed.message == "the model changes its parameter 'b' in place, by its data"
    )
    assert changed.location.text == "self.b.data[0] = 1"
    assert assigned.message == "the model changes its buffer 'c' in place, by its data"


@pytest.mark.parametrize(
    ("function", "message", "hint"),
    [
        pytest.param(
            lambda x: x + torch.rand(8, generator=torch.Generator()),
            "aten.rand.generator: it draws random numbers",
            "pass the numbers",
            marks=IN_2_8,
        ),
        (lambda x: x.to_sparse().to_dense(), "no sparse tensors", "dense"),
        (
            lambda x: torch.ops.aten._foreach_abs([x])[0],
            "padc does not have it",
            "other ops",
        ),
    ],
)
def test_why_calls_are_refused(function: Callable, message: str, hint: str):
    (problem,) = problems(Call(function), X)

    assert message in problem.message
    assert hint in problem.hint
    assert problem.location


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x * abs(x.shape[0] - 3), "'abs' on (s"),
        (lambda x: x * round(x.shape[0] / 2), "'round' on (IntTrueDiv"),
    ],
)
def test_functions_of_sizes(function: Callable, message: str):
    dims = ({0: Dim("n", min=2, max=9)},)

    (problem,) = problems(Call(function), X, dynamic_shapes=(dims,))

    assert problem.message.startswith(message)
    assert problem.hint == "compute sizes by +, -, * and //"


def test_mutated_input():
    (problem,) = problems(Call(lambda x: x.add_(1)), X)

    assert problem.message == "the model changes its input 'args_0' in place"
    assert problem.hint


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((torch.ones(2, dtype=torch.complex64),), "complex64[2]"),
        ((torch.ones(2).to_sparse(),), "sparse"),
        ((torch.ones(2).to(torch.float8_e5m2),), "float8_e5m2[2]"),
    ],
)
def test_unsupported_inputs(args: tuple, message: str):
    (problem, *_) = problems(Call(lambda x: x * 2), *args)

    assert message in problem.message
    assert problem.hint


def test_output_that_is_a_number():
    (problem,) = problems(Call(lambda x: {"y": x + 1, "n": x.shape[0]}), X)

    assert problem.message.startswith("output 'n' is not a tensor")


# --- from models and files ---------------------------------------------------------


def test_model_that_cannot_be_traced():
    class Model(nn.Module):
        def forward(self, x):
            if x.sum() > 0:  # here
                return x
            return -x

    with pytest.raises(UnsupportedError) as raised:
        export_module(Model(), (X,))

    assert raised.value.location.text.endswith("# here")
    assert "torch.cond" in (raised.value.hint or "")
    assert "TORCH_LOGS" not in str(raised.value)

    with pytest.raises(UnsupportedError, match="hint: give one_hot its num_classes"):
        export_module(Call(lambda x: F.one_hot(x.long().abs())), (X,))


def test_dynamic_shapes_that_do_not_fit():
    with pytest.raises(UsageError, match="dynamic shapes"):
        export_module(
            nn.Conv2d(3, 4, 3), (X,), dynamic_shapes={"nothing": {0: Dim("n")}}
        )
    with pytest.raises(UsageError, match="dynamic shapes"):
        export_module(
            Call(lambda x: x.view(2, -1)), (X,), dynamic_shapes=(({0: Dim("n")},),)
        )
    with pytest.raises(UsageError) as raised:
        export_module(
            Call(lambda x: F.max_pool1d(x, 3)),
            (torch.randn(1, 5),),
            dynamic_shapes=(({1: Dim("a", min=2, max=9)},),),
        )
    assert "Not all values of a" in str(raised.value)
    assert "a = Dim('a', min=3, max=9)" in str(raised.value)


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return torch.export.export(Holding().eval(), (X,))


def test_file(program: ExportedProgram, tmp_path: Path):
    torch.export.save(program, tmp_path / "model.pt2")
    weights = Weights()

    module = import_exported_program(load(tmp_path / "model.pt2"), weights)

    assert str(module) == str(import_exported_program(program, Weights()))
    location = SourceLocation.of(only(module, "aten.conv2d.padding").location)
    assert location is not None and Path(location.file) == Path(__file__)


def test_damaged_file(program: ExportedProgram, tmp_path: Path):
    path = tmp_path / "model.pt2"
    torch.export.save(program, path)
    path.write_bytes(path.read_bytes()[:-1000])

    with pytest.raises(InvalidProgramError, match=r"model\.pt2"):
        load(path)


def test_file_of_something_else(tmp_path: Path):
    torch.save({"a": 1}, tmp_path / "state.pt")
    (tmp_path / "text.pt2").write_text("hello")

    for name in ("state.pt", "text.pt2"):
        with pytest.raises(InvalidProgramError):
            load(tmp_path / name)
    with pytest.raises(UsageError, match="no file"):
        load(tmp_path / "nothing.pt2")


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def test_sizes_that_must_be_equal_are_one_dimension():
    x, y = (Dim(name, min=1, max=8) for name in ("rows_x", "rows_y"))

    exported = export_module(
        Function(add),
        (torch.ones(3, 2), torch.ones(3, 2)),
        dynamic_shapes=(({0: x}, {0: y}),),
    )

    values = [node.meta.get("val") for node in exported.graph.nodes]
    sizes = {str(x.shape[0]) for x in values if isinstance(x, torch.Tensor)}
    assert len(sizes) == 1 and not sizes & {"3"}


def test_equal_sizes_of_different_bounds_are_refused():
    x, y = Dim("rows_x", min=1, max=8), Dim("rows_y", min=1, max=9)

    with pytest.raises(UsageError, match="must always be equal"):
        export_module(
            Function(add),
            (torch.ones(3, 2), torch.ones(3, 2)),
            dynamic_shapes=(({0: x}, {0: y}),),
        )


def test_an_example_that_is_a_view():
    """torch.export would guard the sizes of the tensor that it is a view of."""

    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.permute(0, 3, 1, 2) @ y

    view, y = torch.rand(4, 5, 5, 2, 2)[..., 0].permute(1, 3, 0, 2), torch.rand(4, 4)
    sizes = ({0: Dim.AUTO, 3: Dim.AUTO}, None)

    program = export_module(Product(), (view, y), dynamic_shapes=sizes)

    other = torch.empty_strided(view.shape, view.stride()).copy_(view)
    assert other._base is None
    torch.testing.assert_close(program.module()(other, y), Product()(other, y))


@pytest.mark.parametrize(
    "example",
    [
        torch.rand(3, dtype=torch.complex64).conj(),
        torch.rand(3, dtype=torch.complex64).conj().imag,
        torch.rand(4, 3)[1:].requires_grad_(),
        torch.rand(3)[None].expand(2, 3),
    ],
    ids=["conjugate", "negative", "requires a gradient", "expanded"],
)
def test_views_keep_their_values(example: torch.Tensor):
    same = without_base(example)

    assert (same.shape, same.stride()) == (example.shape, example.stride())
    assert same.requires_grad == example.requires_grad
    assert torch.equal(same, example)


def test_numbers_that_are_squeezed():
    """PyTorch takes 0 and -1 of a number, which has no dimensions."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.sum()
        return y.squeeze(-1) * 2, y.squeeze((0,)) * 3, y.squeeze() * 4

    x = torch.randn(3)
    model = padc.compile(Function(function), (x,))

    torch.testing.assert_close(model(x), function(x))
