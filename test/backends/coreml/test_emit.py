"""What is emitted for Core ML: the same values as PyTorch, or a clear refusal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import Function, Several, flat, needs_export, printed
from torch import Tensor, nn
from torch.export import Dim
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.backends.coreml.app.interface import check_interface
from padc.backends.coreml.emit import emit
from padc.backends.coreml.evaluator import load
from padc.backends.coreml.optimize import optimize
from padc.backends.coreml.save import save_package
from padc.errors import UnsupportedError, UsageError
from padc.ir import make_context
from padc.ir.text import Parser
from padc.ir.weights import weights_of
from padc.passes import pipelines


def emitted(
    model: nn.Module | Callable[..., Any], *args: Tensor, **options: Any
) -> Any:
    """The pymil program of a model."""
    target = options.pop("target", "iOS17")
    model = model if isinstance(model, nn.Module) else Function(model)
    exported = torch.export.export(model.eval(), args, **options)
    ctx, module = pipelines.import_program(exported, legal=pipelines.legal_for_mil())
    check_interface(module, target)
    to_mil = pipelines.to_mil(target, "auto", "auto")
    pipelines.run_passes(ctx, module, to_mil)
    return emit(module, weights_of(ctx), target)


def evaluate(
    program: Any, folder: Path, *args: Tensor, precision: str = "float32"
) -> list[np.ndarray]:
    """The outputs of a program, from the package that it is saved as."""
    optimize(program, precision)
    save_package(program, folder / "model.mlpackage")
    main = program.functions["main"]
    feed = {
        name: arg.reshape(arg.shape or 1).numpy().astype(core_ml_dtype(arg))
        for name, arg in zip(main.inputs, args, strict=True)
    }
    outputs = load(folder / "model.mlpackage").predict(feed)
    return [outputs[var.name] for var in main.outputs]


def core_ml_dtype(tensor: Tensor) -> type[np.generic]:
    return np.float32 if tensor.is_floating_point() else np.int32


def check(folder: Path, model: Any, *args: Tensor, **options: Any) -> None:
    actual = evaluate(emitted(model, *args, **options), folder, *args)

    with torch.no_grad():
        expected = model(*args)
    expected = [expected] if isinstance(expected, Tensor) else expected
    for one, other in zip(actual, expected, strict=True):
        other = other.numpy()
        np.testing.assert_allclose(
            one.reshape(other.shape), other.astype(one.dtype), rtol=1e-5, atol=1e-5
        )


torch.manual_seed(0)
X = torch.randn(2, 3, 8, 6)
Y = torch.randn(2, 3, 8, 6)
POSITIVE = torch.rand(2, 3, 8, 6) + 0.1
SEQUENCE = torch.randn(2, 4, 10)
MATRIX = torch.randn(4, 5)
INTS = torch.randint(-5, 6, (2, 3, 4))

# By what the emission has to get right: arguments left out, keyword arguments,
# lists, dtypes, several results, scalars, constants.
ORDINARY: dict[str, tuple[Any, ...]] = {
    "activation": (F.relu, X),
    "scalar_that_equals_a_default_of_another_type": (F.elu, X),
    "defaults_that_the_converter_wants": (F.hardtanh, X),
    "none_argument": (lambda x: x.clamp(max=0.2), X),
    "scalar_overload": (lambda x: torch.where(x > 0, x, 0.0), X),
    "numbers_divided_by_tensors": (
        lambda x: torch.cat(
            [
                7 // x.abs().clamp(min=1),
                256 // x.to(torch.int32).clamp(min=3),
                -2.5 // x.to(torch.int32).clamp(min=3),
                (7 // x.abs().max().clamp(min=1)).expand_as(x),
            ]
        ),
        X,
    ),
    "floor_divided_integers": (
        lambda x: torch.cat(
            [
                torch.div(x, 7, rounding_mode="floor"),
                torch.div(
                    x, torch.tensor([3], dtype=torch.int32), rounding_mode="floor"
                ),
                torch.floor_divide(x, -5),
                x // 3,
            ]
        ),
        torch.arange(-20, 20, dtype=torch.int32),
    ),
    "clamped_integers": (
        lambda x: [
            x.clamp(-2, 4),
            x.clamp(min=1),
            torch.clamp_max(x, 3),
            x.clamp(4, 1),
        ],
        INTS,
    ),
    "clamped_by_tensors": (lambda x: x.clamp(x[0] - 1, x[1]), INTS),
    "clamped_by_numbers_of_another_type": (
        lambda x, i: [F.hardtanh(x, -1, 1), F.hardtanh(i, -2, 3), i.clamp(-1.5, 2)],
        X,
        INTS,
    ),
    "remainders_with_the_sign_of_the_first": (
        lambda x: [torch.fmod(x, 3), torch.fmod(x, -4), torch.fmod(x, x.abs() + 1)],
        INTS,
    ),
    "keyword_argument": (lambda x: torch.div(x, 0.3, rounding_mode="floor"), X),
    "string_argument": (lambda x: F.gelu(x, approximate="tanh"), X),
    "list_of_ints": (lambda x: x.permute(0, 2, 3, 1).sum((1, -1)), X),
    "list_of_tensors": (lambda x, y: torch.cat([x, y, x], 1), X, Y),
    "list_result": (lambda x: x.split([1, 2], 1), X),
    "tuple_result": (lambda x: [v.float() for v in x.max(-1)], X),
    "dtype_argument": (lambda x: (x * 3).to(torch.int32), X),
    "int64_in_between": (lambda x: x.argmax(1).float(), X),
    "int64_output": (lambda x: x.argmax(1) + 1, X),
    "relu_of_integers": (lambda i: F.relu(i - 1), INTS),
    "bool_in_between": (lambda x, y: torch.where(x > 0, y, 0.0 * y), X, Y),
    "bool_output": (lambda x: x > 0, X),
    "int64_input": (lambda i: (i + 2).float() * 0.5, INTS),
    "open_slice": (lambda x: x[:, 1:, 2:-1:2], X),
    "rank_0_input": (lambda x, s: x * s, X, torch.tensor(1.5)),
    "rank_0_output": (torch.mean, X),
    "rank_6_in_between": (
        lambda x: x.view(2, 3, 2, 4, 2, 3).permute(0, 1, 3, 2, 4, 5).reshape(2, 3, 48),
        X,
    ),
    "constant_tensor": (lambda x: x + torch.tensor([1, 2, 3, 4, 5]), MATRIX),
    "weights": (nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4)), X),
    "embedding": (nn.Embedding(10, 4), torch.tensor([[1, 2], [9, 0]])),
    "convolution": (nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6)), X),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), X),
    "no_op": (nn.Dropout(), X),
    "softmax_of_what_is_masked": (
        lambda x: torch.ops.aten._safe_softmax(torch.where(x > 0.3, x, -torch.inf), -1),
        torch.tensor([[0.5, 1, -1], [0, 0.1, 0.2]]),
    ),
    "in_place": (lambda x: x.clone().add_(1).mul_(2), X),
    "dead_code": (lambda x: (torch.igamma(x, x), x + 1)[1], X),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_op(name: str, tmp_path: Path):
    model, *args = ORDINARY[name]

    check(tmp_path, model.eval() if isinstance(model, nn.Module) else model, *args)


# coremltools 9.0 alone computes other values for each of these.
CORRECTED: dict[str, tuple[Any, ...]] = {
    "add": (lambda x, y: torch.add(x, y, alpha=2.5), X, Y),
    "sub": (lambda x, y: torch.sub(x, y, alpha=3), X, Y),
    "rsub": (lambda x: torch.rsub(x, 2, alpha=3), X),
    "reciprocal": (torch.reciprocal, POSITIVE),
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), 3 * X),
    "std": (torch.std, MATRIX),
    "var": (lambda x: torch.var(x, (0, 1)), MATRIX),
    "celu": (lambda x: F.celu(x, 0.5), 100 * X),
    "celu of a negative alpha": (lambda x: F.celu(x, -2.0), 3 * X),
    "sinc": (torch.sinc, torch.tensor([0.0, 1e-3, 0.5, -2.25, 7.0])),
    "sinc of integers": (torch.sinc, torch.tensor([0, 1, -2])),
    "rms_norm": (lambda x: F.rms_norm(x, [5]), 1e-2 * MATRIX),
    "rms_norm_of_zeros": (lambda x: F.rms_norm(x, [5], eps=1e-5), 0 * MATRIX),
}


# Of each the dtype, or that of the tensor, is lost or becomes float32 there.
FILLED: dict[str, Callable[[Tensor], Any]] = {
    "big": lambda x: torch.full((2,), 2**40, dtype=torch.float32),
    "zeros": lambda x: (torch.zeros(2, 3), torch.zeros(2, dtype=torch.int32)),
    "ones": lambda x: (torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.int64)),
    "full": lambda x: (torch.full((2,), 7), torch.full((2,), 7.9, dtype=torch.int32)),
    "full_of_bools": lambda x: (torch.full((2,), True), torch.full((2,), 2.5)),
    "rank_0": lambda x: (x + torch.full((), 7), torch.zeros((), dtype=torch.int32)),
    "empty": lambda x: torch.empty(2, dtype=torch.int32).fill_(3),
    "new": lambda x: (x.new_zeros(2, dtype=torch.int32), x.new_ones(2)),
    "new_full": lambda x: (x.new_full((2,), 7), (x > 0).new_full((2,), 3)),
    "zeros_like": lambda x: torch.zeros_like(x, dtype=torch.bool),
    "ones_like": lambda x: torch.ones_like(x, dtype=torch.int32),
    "full_like": lambda x: (torch.full_like(x, 3), torch.full_like(x, 3, dtype=torch.int32)),
    "of_computed_sizes": lambda x: x.new_zeros(x.shape[0], 2, dtype=torch.int32),
    "small_integers": lambda x: torch.full((3,), -7, dtype=torch.int8).int(),
    "repeated_bytes": lambda x: x.abs().to(torch.uint8).repeat(2, 3).int(),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
def test_fills(dynamic: bool, tmp_path: Path):
    shapes = {0: Dim("n", min=2, max=9)} if dynamic else None
    model = Several(FILLED)

    outputs = evaluate(
        emitted(model, MATRIX, dynamic_shapes=((shapes,),)), tmp_path, MATRIX
    )

    expected = [(name, y) for name, f in FILLED.items() for y in flat(f(MATRIX))]
    for one, (name, other) in zip(outputs, expected, strict=True):
        # Core ML's programs have no outputs of bool.
        assert np.issubdtype(one.dtype, np.floating) == other.is_floating_point() or (
            other.dtype == torch.bool
        ), name
        np.testing.assert_array_equal(
            one.reshape(other.shape), other.numpy(), err_msg=name
        )


def test_equal_constants_from_partly_known_tensors(tmp_path: Path):
    """coremltools computes what is known of pads of pads in arrays of Python objects."""

    def model(x: Tensor) -> Tensor:
        y = F.pad(x, (-1, 2, 3, 3), value=1)
        y = F.pad(y, (3, 0, 1, 3), mode="circular")
        y = F.pad(y, (2, 1, 0, 2), mode="reflect")
        return F.pad(y, (1, 2), mode="replicate")

    x = torch.arange(8, dtype=torch.int32).reshape(4, 1, 2)

    (result,) = evaluate(emitted(model, x), tmp_path, x)

    np.testing.assert_array_equal(result, model(x).numpy())


@pytest.mark.parametrize("name", CORRECTED)
def test_corrected_op(name: str, tmp_path: Path):
    model, *args = CORRECTED[name]

    check(tmp_path, model, *args)


class AfterConvolution(nn.Module):
    def __init__(self, convolution: nn.Module, function: Callable[..., Any]):
        super().__init__()
        self.convolution = convolution
        self.function = function
        shape = (1, convolution.get_parameter("bias").shape[0], 1, 1)
        self.register_buffer("constant", torch.rand(shape) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.convolution(x), self.get_buffer("constant"))


def normalized(convolution: nn.Module, affine: bool = True) -> nn.Module:
    norm = nn.BatchNorm2d(convolution.get_parameter("bias").shape[0], affine=affine)
    norm.get_buffer("running_mean").normal_()
    norm.get_buffer("running_var").uniform_(0.5, 2)
    return nn.Sequential(convolution, norm)


# coremltools' own passes compute other values for most of these, and write to the
# model's buffers.
FUSED: dict[str, nn.Module] = {
    "norm": normalized(nn.Conv2d(3, 6, 3, groups=3)),
    "norm_without_weight": normalized(nn.Conv2d(3, 4, 3), affine=False),
    "norm_of_transposed": normalized(nn.ConvTranspose2d(3, 4, 3)),
    "norm_of_grouped_transposed": normalized(nn.ConvTranspose2d(3, 6, 3, groups=3)),
    "sub": AfterConvolution(nn.Conv2d(3, 4, 3), lambda y, c: y - c),
    "shared": AfterConvolution(nn.Conv2d(3, 4, 3), lambda y, c: (y - c) * c),
    "scale": AfterConvolution(nn.Conv2d(3, 4, 3), lambda y, c: y * c + c),
    "divided_by": AfterConvolution(nn.Conv2d(3, 4, 3), lambda y, c: 0.5 / (y + 9)),
    "scale_of_grouped_transposed": AfterConvolution(
        nn.ConvTranspose2d(3, 6, 3, groups=3), lambda y, c: y * c + c
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_what_follows_a_convolution(name: str, tmp_path: Path):
    model = FUSED[name].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}

    check(tmp_path, model, X)

    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])


class WithTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.full((4,), 2**40))

    def forward(self, i: Tensor) -> Tensor:
        return i + self.table


REFUSED: dict[str, tuple[str, Any, Tensor]] = {
    "big_buffer": ("the constant 'table' of int64 has values", WithTable(), INTS),
    "filled_with_a_big_int": (
        r"^aten\.add\.Tensor .*values from 1099511627776 to 1099511627776",
        lambda x: x + torch.full((5,), 2**40),
        MATRIX,
    ),
    "no_row": (
        "it takes a number of steps that depends",
        lambda x: torch.igamma(x, x),
        X,
    ),
    "float64": ("is not possible: Core ML has no float64", lambda x: x.double() * 2, X),
    "complex": ("Core ML has no complex", lambda x: torch.complex(x, x), X),
    "big_output": (
        "^a constant of int64 has values",
        lambda i: torch.tensor([2**40]),
        INTS,
    ),
    "big_int": ("does not fit Core ML's int32", lambda i: (i * 2**40).float(), INTS),
    "big_constant": (
        r"^aten\.mul\.Tensor .* a constant of int64 has values from 1 to 1099511627776",
        lambda i: (i * torch.tensor([1, 2**40, 3, 4])).float(),
        INTS,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str):
    message, model, arg = REFUSED[name]

    with pytest.raises(UnsupportedError, match=message):
        emitted(model, arg)


def test_all_problems_are_listed_with_their_lines():
    def forward(x: Tensor):
        first = torch.igamma(x, x)
        depends_on_first = first + 1
        second = torch.linalg.svdvals(x)
        return depends_on_first, second.relu()

    with pytest.raises(UnsupportedError) as error:
        emitted(forward, MATRIX)

    first, second = error.value.problems
    assert first.message.startswith("aten.igamma of float32[4,5], float32[4,5]:")
    assert first.location is not None and second.location is not None
    assert first.location.text == "first = torch.igamma(x, x)"
    assert second.message.startswith("aten.linalg_svdvals of")
    assert second.location.text == "second = torch.linalg.svdvals(x)"


def test_empty_output_is_refused():
    with pytest.raises(
        UnsupportedError, match=r"output slice.*float32\[2,0,8,6\]"
    ) as e:
        emitted(lambda x: x[:, 1:1], X)

    assert e.value.hint == "leave it out"


UNFILLED = {
    "empty": lambda x: torch.empty(2, 3),
    "a view of new_empty": lambda x: x.new_empty(2, 3).t()[1:].unsqueeze(0),
    "empty_like": lambda x: torch.empty_like(x, dtype=torch.int32),
    "a copy of empty_permuted": lambda x: torch.empty_permuted((2, 3), (1, 0)).clone(),
    "empty_strided": lambda x: torch.empty_strided((2, 3), (1, 2)),
    "new_empty_strided": lambda x: x.new_empty_strided((), ()),
}


@pytest.mark.parametrize("name", UNFILLED)
def test_output_that_is_never_filled_is_refused(name: str):
    with pytest.raises(UnsupportedError, match=r"output .*arbitrary numbers") as error:
        emitted(UNFILLED[name], MATRIX)

    assert error.value.hint == "fill it, or use torch.zeros"
    assert error.value.location is not None


def filled_by_rows(x: Tensor) -> Tensor:
    y = x.new_empty(x.shape)
    for i in range(len(x)):
        y[i] = x[i] + 1
    return y


FILLED_LATER = {
    "rows": filled_by_rows,
    "copy_": lambda x: torch.empty_like(x).copy_(x),
    "fill_": lambda x: [torch.empty(2, 3).fill_(2), x],
    "zeros of the same size": lambda x: torch.zeros_like(torch.empty(2, 3)),
    "none of its elements": lambda x: torch.cat([torch.empty(0, 5), x]),
}


@pytest.mark.parametrize("name", FILLED_LATER)
def test_tensor_that_is_filled_later(name: str, tmp_path: Path):
    check(tmp_path, FILLED_LATER[name], MATRIX)


@pytest.mark.parametrize(
    "message, arg",
    [
        (
            r"input args_0: float64\[2\] is not possible: Core ML has no float64",
            torch.zeros(2).double(),
        ),
        ("Core ML has no bfloat16", torch.zeros(2, dtype=torch.bfloat16)),
        ("rank 5 at most", torch.zeros(1, 1, 1, 1, 1, 2)),
        (r"\[2,0\] has no elements", torch.zeros(2, 0)),
    ],
)
def test_input_is_refused(message: str, arg: Tensor):
    with pytest.raises(UnsupportedError, match=message):
        emitted(lambda x: x.sum().to(torch.float32), arg)


def test_names_are_the_models(parse: Callable[[str], ModuleOp], ctx: Context):
    module = parse(
        """
        func.func @main(%0 : tensor<2xf32> {padc.name = "image"},
                        %1 : tensor<2xf32> {padc.name = "mask"})
            -> (tensor<2xf32> {padc.name = "mask_out"},
                tensor<2xf32> {padc.name = "same"}, tensor<2xf32> {padc.name = "in"}) {
          %image = mil.add(x = %0, y = %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %image, %image, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
        }
        """
    )

    main = emit(module, weights_of(ctx)).functions["main"]

    assert list(main.inputs) == ["image", "mask"]
    assert [output.name for output in main.outputs] == ["mask_out", "same", "in"]


def test_names_that_core_ml_lacks_are_reported(
    parse: Callable[[str], ModuleOp], ctx: Context
):
    module = parse(
        """
        func.func @main(%x : tensor<2xf32> {padc.name = "x.1"})
            -> (tensor<2xf32> {padc.name = "x_1"}) {
          %y = mil.relu(x = %x) : (tensor<2xf32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }
        """
    )

    with pytest.warns(UserWarning, match="it is 'x_1_1' in the package"):
        main = emit(module, weights_of(ctx)).functions["main"]

    assert list(main.inputs) == ["x_1"]
    assert [output.name for output in main.outputs] == ["x_1_1"]


def test_outputs_that_are_inputs_or_one_another(tmp_path: Path):
    check(tmp_path, lambda x: (x, x, y := x + 1, y, torch.ones(3)), MATRIX)


MIL = """
func.func @main(%x : tensor<1x2x4x4xf32> {padc.name = "x"})
    -> (tensor<1x3x2x2xf32> {padc.name = "y"}) {
  %weight = arith.constant dense_resource<w> : tensor<3x2x3x3xf32>
  %0 = mil.conv(x = %x, weight = %weight, bias = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>, pad_type = "valid") : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>
  %1 = mil.clip(x = %0, alpha = 0.0, beta = 2.5) : (tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  %2 = mil.concat(values = [%1, %1], axis = 1) : (tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> tensor<1x6x2x2xf32>
  %3, %4 = mil.split(x = %2, num_splits = 2, axis = 1) : (tensor<1x6x2x2xf32>) -> (tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>)
  func.return %4 : tensor<1x3x2x2xf32>
}
"""


@pytest.mark.parametrize("precision, tolerance", [("float32", 1e-5), ("float16", 1e-2)])
@pytest.mark.parametrize("target", ["iOS15", "iOS16", "iOS17", "iOS18", "newest"])
def test_mil_ops(
    target: str, precision: str, tolerance: float, ctx: Context, tmp_path: Path
):
    module = Parser(ctx, MIL).parse_module()
    weight, x = torch.randn(3, 2, 3, 3), torch.randn(1, 2, 4, 4)
    weights_of(ctx)["w"] = weight.numpy()

    program = emit(module, weights_of(ctx), target)
    (actual,) = evaluate(program, tmp_path, x, precision=precision)

    expected = F.conv2d(x, weight, torch.tensor([1.0, 2.0, 3.0])).clamp(0, 2.5)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def test_weights_are_not_copied(ctx: Context):
    module = Parser(ctx, MIL).parse_module()
    weights_of(ctx)["w"] = np.zeros((3, 2, 3, 3), np.float32)

    program = emit(module, weights_of(ctx))

    (conv,) = program.functions["main"].find_ops(op_type="conv")
    assert np.shares_memory(conv.weight.val, weights_of(ctx)["w"])


def test_the_mil_level_as_text(tmp_path: Path):
    """A printed program, parsed and emitted again, is the same program."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Flatten(2), nn.Softmax(1))
    sizes = ({2: Dim("height", min=4, max=64)},)
    exported = torch.export.export(model.eval(), (X,), dynamic_shapes=sizes)
    ctx, module = pipelines.import_program(exported, legal=pipelines.legal_for_mil())
    to_mil = pipelines.to_mil("iOS17", "auto", "auto")
    pipelines.run_passes(ctx, module, to_mil)
    assert "torch" not in str(module)
    weights_of(ctx).print_blobs = True
    text = printed(module, ctx)

    again = make_context()
    parsed = Parser(again, text).parse_module()

    assert str(parsed) == str(module)
    outputs: list[np.ndarray] = []
    for name, program, store in (("one", module, ctx), ("two", parsed, again)):
        (tmp_path / name).mkdir()
        pymil = emit(program, weights_of(store), "iOS17")
        outputs += evaluate(pymil, tmp_path / name, X)
    np.testing.assert_array_equal(outputs[0], outputs[1])


def refusal(source: str, ctx: Context, target: str = "iOS17") -> UnsupportedError:
    module = Parser(ctx, source).parse_module()
    with pytest.raises(UnsupportedError) as error:
        emit(module, weights_of(ctx), target)
    return error.value


def test_an_op_of_a_newer_target_is_refused(ctx: Context):
    error = refusal(
        """
        func.func @main(%x : tensor<1x4x4x4xf32>) -> tensor<1x16x2x2xf32> {
          %y = mil.pixel_unshuffle(x = %x, downscale_factor = 2) : (tensor<1x4x4x4xf32>) -> tensor<1x16x2x2xf32>
          func.return %y : tensor<1x16x2x2xf32>
        }
        """,
        ctx,
        "iOS15",
    )

    assert "mil.pixel_unshuffle needs iOS16, not iOS15" in error.message
    assert error.hint == "choose a newer target"


def test_a_declared_shape_that_is_wrong_is_refused(ctx: Context):
    error = refusal(
        """
        func.func @main(%x : tensor<2x3xf32>) -> tensor<2x3xf32> {
          %y = mil.transpose(x = %x, perm = [1, 0]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
          func.return %y : tensor<2x3xf32>
        }
        """,
        ctx,
    )

    assert error.message == (
        "mil.transpose(x: float32[2,3]) -> float32[2,3]: coremltools makes fp32[3,2] of it"
    )


def test_an_op_that_was_not_lowered_is_refused(ctx: Context):
    error = refusal(
        """
        func.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {
          %y = "test.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }
        """,
        ctx,
    )

    assert "it is not an op of Core ML" in error.message
    assert "convert-tcp-to-mil" in (error.hint or "")


def test_products_of_known_numbers(ctx: Context, tmp_path: Path):
    """coremltools computes roots of known numbers as Python floats."""
    source = """
        func.func @main(%x : tensor<2xf32> {padc.name = "x"})
            -> (tensor<2xf32> {padc.name = "y"}) {
          %three = arith.constant dense<3.0> : tensor<f32>
          %root = mil.sqrt(x = %three) : (tensor<f32>) -> tensor<f32>
          %square = mil.mul(x = %root, y = %root) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          %y = mil.mul(x = %x, y = %square) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }
        """
    module = Parser(ctx, source).parse_module()
    program = emit(module, weights_of(ctx), "iOS17")

    (result,) = evaluate(program, tmp_path, torch.tensor([1.0, -2.0]))

    np.testing.assert_allclose(result, [3.0, -6.0], rtol=1e-6)


def test_unknown_target_is_a_usage_error(ctx: Context):
    with pytest.raises(UsageError, match="there is no target 'iOS3'"):
        emit(Parser(ctx, MIL).parse_module(), weights_of(ctx), "iOS3")


# --- dynamic sizes -----------------------------------------------------------------


def test_sizes_in_a_range(tmp_path: Path):
    height, width = Dim("height", min=8, max=64), Dim("width", min=8, max=32)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    x, example = torch.randn(1, 3, 23, 32), torch.randn(1, 3, 16, 16)
    shapes = ({2: height, 3: width},)
    needs_export(model, (example,), shapes)

    program = emitted(model, example, dynamic_shapes=shapes)
    (actual,) = evaluate(program, tmp_path, x)

    np.testing.assert_allclose(actual, model(x).detach(), rtol=1e-5, atol=1e-5)
    (feature,) = load(tmp_path / "model.mlpackage").inputs
    assert feature.ranges == ((1, 1), (3, 3), (8, 64), (8, 32))


def test_inputs_with_one_size():
    batch = Dim("batch", min=1, max=8)
    options = {"dynamic_shapes": {"args": ({0: batch}, {0: batch})}}

    program = emitted(lambda x, y: torch.cat([x, y], 1), X, Y, **options)

    x, y = program.functions["main"].inputs.values()
    assert x.shape[0] == y.shape[0]
    (bounds,) = {
        dim for t in program.functions["main"].input_types for dim in [t.shape.shape[0]]
    }
    assert (bounds.lower_bound, bounds.upper_bound) == (1, 8)


def test_a_size_without_an_upper_bound_is_refused(ctx: Context):
    error = refusal(
        """
        func.func @main(%x : !torch.vtensor<[1,?],f32>) -> !torch.vtensor<[1,?],f32> {
          %s0 = torch.symbolic_int "s0" {min_val = 2, max_val = 9223372036854775806} : !torch.int
          torch.bind_symbolic_shape %x, [%s0], affine_map<()[s0] -> (1, s0)> : !torch.vtensor<[1,?],f32>
          %y = torch.aten.relu %x : !torch.vtensor<[1,?],f32> -> !torch.vtensor<[1,?],f32>
          func.return %y : !torch.vtensor<[1,?],f32>
        }
        """,
        ctx,
    )

    assert "input input_0: float32[1,?] has no upper bound of dimension 1" in str(error)
    assert "torch.export.Dim" in (error.hint or "")


def test_sizes_of_the_mil_level(parse: Callable[[str], ModuleOp], ctx: Context):
    module = parse(
        """
        func.func @main(%x : tensor<?x2x?xf32> {padc.sizes = ["n in 1..8", "2*n in 2..16"]},
                        %y : tensor<?xf32> {padc.sizes = ["n in 1..8"]})
            -> tensor<?x2x?xf32> {
          func.return %x : tensor<?x2x?xf32>
        }
        """
    )

    x, y = emit(module, weights_of(ctx)).functions["main"].input_types

    bounds = [(size.lower_bound, size.upper_bound) for size in x.shape.shape[::2]]
    assert bounds == [(1, 8), (2, 16)]
    assert y.shape.shape[0] is x.shape.shape[0]


@pytest.mark.parametrize(
    "sizes, message",
    [
        ('["n in 1..8"]', "has 2 dynamic sizes, and 1 ranges in padc.sizes"),
        ('["n in 1..8", "m"]', "'m' in padc.sizes is not a range"),
        ('["n in 1..8", "m in 4..3"]', "'m in 4..3' in padc.sizes is not a range"),
        ('["n in 1..8", 3]', "padc.sizes is not a list of strings"),
    ],
)
def test_sizes_that_are_no_ranges(sizes: str, message: str, ctx: Context):
    error = refusal(
        f"""
        func.func @main(%x : tensor<?x?xf32> {{padc.sizes = {sizes}}}) -> tensor<?x?xf32> {{
          func.return %x : tensor<?x?xf32>
        }}
        """,
        ctx,
    )

    assert message in error.message


def test_a_size_without_bounds_is_refused(ctx: Context):
    error = refusal(
        """
        func.func @main(%x : tensor<?xf32>) -> tensor<?xf32> {
          func.return %x : tensor<?xf32>
        }
        """,
        ctx,
    )

    assert "has sizes without bounds" in error.message


def test_a_package_that_breaks_a_rule_is_not_written(
    parse: Callable[[str], ModuleOp], ctx: Context, tmp_path: Path
):
    module = parse(
        """
        func.func @main(%x : tensor<1x2x3x4x5xf32>) -> tensor<1x2x3x4x5xf32> {
          %y = mil.instance_norm(x = %x)
             : (tensor<1x2x3x4x5xf32>) -> tensor<1x2x3x4x5xf32>
          func.return %y : tensor<1x2x3x4x5xf32>
        }
        """
    )
    program = emit(module, weights_of(ctx))
    optimize(program)

    with pytest.raises(UnsupportedError, match="'x' has rank 5; it may have rank 3"):
        save_package(program, tmp_path / "model.mlpackage", "iOS17")

    assert list(tmp_path.iterdir()) == []
