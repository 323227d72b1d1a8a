# pyright: basic, reportMissingTypeStubs=false
"""`coremltools.convert` with padc's operators."""

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coremltools.converters.mil.frontend.torch.torch_op_registry import (
    _TORCH_OPS_REGISTRY,
)
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY
from functions import Function, Several, check_each
from optimized_functions import ALLOWED, FUNCTIONS
from torch import Tensor, nn

import padc
import padc.coremltools
from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.operators import kinds
from padc.verification import compare, run_package
from padc.versions import numbers

ct: Any = coremltools

pytestmark = [
    pytest.mark.usefixtures("plugin"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*jit"),
]


def convert(
    model: nn.Module, examples: Sequence[Tensor], inputs: Any = None, **options: Any
) -> Any:
    """The traced model, converted; the inputs are called x0, x1 and so on."""
    if inputs is None:
        inputs = [ct.TensorType(f"x{i}", x.shape) for i, x in enumerate(examples)]
    options = {"compute_precision": ct.precision.FLOAT32, **options}
    with quiet(), torch.no_grad():
        traced = torch.jit.trace(model.eval(), tuple(examples), check_trace=False)
        return ct.convert(traced, inputs=inputs, skip_model_load=True, **options)


def run(converted: Any, folder: Path, inputs: Sequence[Tensor]) -> list[Tensor]:
    path = folder / "model.mlpackage"
    converted.save(str(path))
    assert padc.coreml.check(path) == []
    package = padc.coreml.load(path)
    given = {
        feature.name: x.numpy()
        for feature, x in zip(package.inputs, inputs, strict=True)
    }
    return [torch.from_numpy(np.array(y)) for y in package.predict(given).values()]


def check(model: nn.Module, converted: Any, folder: Path, *inputs: Tensor) -> None:
    """Compare a package with the model."""
    with torch.no_grad():
        expected = model.eval()(*inputs)
    expected = [expected] if isinstance(expected, Tensor) else expected
    actual = run(converted, folder, inputs)
    for is_, should in zip(actual, expected, strict=True):
        assert is_.shape == should.shape
        assert compare("", is_.double(), should.double()).relative_error < 1e-5


# --- registration ---------------------------------------------------------------------


def test_the_context_manager_restores_the_registries():
    with padc.coremltools.operators(False):
        operators = dict(_TORCH_OPS_REGISTRY.name_to_func_mapping)
        passes = dict(PASS_REGISTRY.passes)
        with padc.coremltools.operators():
            assert _TORCH_OPS_REGISTRY.name_to_func_mapping != operators
            assert PASS_REGISTRY.passes != passes

        assert _TORCH_OPS_REGISTRY.name_to_func_mapping == operators
        assert PASS_REGISTRY.passes == passes


def test_the_ops_that_are_registered():
    registered = kinds()

    assert {"and", "pad", "sum", "sum.dim_intlist", "grid_sampler"} <= set(registered)
    # coremltools makes nothing of these, and has the others for Python's values.
    assert not {"contiguous", "constant", "size", "listconstruct"} & set(registered)


def test_contexts_nest():
    with padc.coremltools.operators(False):
        assert not padc.coremltools.is_enabled()
        with padc.coremltools.operators(), padc.coremltools.operators():
            pass
        assert not padc.coremltools.is_enabled()
    assert padc.coremltools.is_enabled()


@pytest.fixture
def registry() -> Generator[dict[str, Any]]:
    """coremltools' own operators, restored after the test."""
    table = _TORCH_OPS_REGISTRY.name_to_func_mapping
    with padc.coremltools.operators(False):
        before = dict(table)
        yield table
        table.clear()
        table.update(before)


def users(context: Any, node: Any) -> None:
    raise NotImplementedError("the user's")


def test_operators_of_the_user_stay(registry: dict[str, Any]):
    # One that both have, one that neither has, and one that only padc has.
    for name in "gelu", "mine", "kron":
        registry[name] = users

    with padc.coremltools.operators():
        assert registry["gelu"] is registry["mine"] is registry["kron"] is users
        registry["hardswish"] = users
        assert registry["relu"] is not users

    assert registry["hardswish"] is registry["kron"] is users


def test_operators_of_the_user_are_used(registry: dict[str, Any]):
    with padc.coremltools.operators():
        registry["relu"] = users
        with padc.coremltools.operators(False):
            pass

        with pytest.raises(NotImplementedError, match="the user's"):
            convert(nn.ReLU(inplace=True), [torch.rand(2, 3)])


def test_ops_that_return_their_operand(tmp_path: Path):
    def function(x: Tensor) -> list[Tensor]:
        y = F.alpha_dropout(x, 0.5, False) + F.feature_alpha_dropout(x, 0.5, False)
        return [x[:, :3] * 2, x[:, :, :].relu(), y]

    model, x = Function(function).eval(), torch.rand(1, 3, 4)
    check(model, convert(model, [x]), tmp_path, x)
    exported = torch.export.export(model, (x,)).run_decompositions({})
    with quiet():
        converted = ct.convert(
            exported, compute_precision=ct.precision.FLOAT32, skip_model_load=True
        )
    check(model, converted, tmp_path, x)


def test_another_version_of_coremltools_is_refused(monkeypatch: pytest.MonkeyPatch):
    def require(extra: str) -> None:
        raise padc.MissingEnvironmentError(f"{extra} is too old")

    monkeypatch.setattr(padc.coremltools, "require", require)

    with pytest.raises(padc.MissingEnvironmentError, match="coreml is too old"):
        padc.coremltools.enable()


def test_the_import_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    def require(extra: str) -> None:
        raise padc.MissingEnvironmentError(f"this needs {extra}")

    monkeypatch.setattr("padc.versions.require", require)
    operators = "padc.backends.coreml.torch_ops.operators"
    monkeypatch.setitem(sys.modules, operators, None)
    monkeypatch.delitem(sys.modules, "padc.coremltools")

    with pytest.raises(padc.MissingEnvironmentError, match="this needs coreml"):
        importlib.import_module("padc.coremltools")


def test_without_the_import_coremltools_is_as_it_was():
    with padc.coremltools.operators(False):
        model = nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")
        with pytest.raises(ValueError, match="Pad mode"):
            convert(model, [torch.ones(1, 1, 4, 4)])


# --- conversions ----------------------------------------------------------------------


class Padded(nn.Module):
    """Pads, and ops around them, that coremltools refuses or errs on."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
        self.up = nn.ConvTranspose2d(4, 4, 3, 2, output_padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(self.up(F.relu(self.conv(x))), (1, -1, 20, 2), "replicate")
        a, b = F.interpolate(y, scale_factor=0.7, mode="bilinear").chunk(2, 1)
        sizes = b.shape[2:]
        return torch.cat(
            [a * 2 + b, F.interpolate(a[..., 1:], sizes, mode="nearest")], 1
        )


@pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"),
    reason="PyTorch 2.8 computes no sizes of _convolution from symbolic ones",
)
def test_a_traced_model_of_dynamic_size(tmp_path: Path):
    model, x = Padded(), torch.rand(1, 3, 10, 12)
    shape = 1, 3, ct.RangeDim(8, 40), ct.RangeDim(8, 40)
    converted = convert(model, [x], [ct.TensorType("x", shape)])

    for size in (10, 12), (25, 9):
        check(model, converted, tmp_path, torch.rand(1, 3, *size))


COMPUTED_PLACES = {
    "start": lambda x: x[:, x.shape[1] // 2 :],
    "both ends": lambda x: x[:, x.shape[1] // 2 : x.shape[1]],
    "a quarter": lambda x: x[:, x.shape[1] // 4 : x.shape[1] // 2],
    "negative start": lambda x: x[:, -(x.shape[1] // 2) :],
    "negative end": lambda x: x[:, : -(x.shape[1] // 2)],
    "the last": lambda x: x[:, x.shape[1] - 1 :],
    "some at the end": lambda x: x.roll(1, 1)[:, x.shape[1] - 3 :],
    "without two at each end": lambda x: x[:, 2 : x.shape[1] - 2],
    "filled": lambda x: filled(x, slice(x.shape[1] // 2, None)),
    "narrowed": lambda x: x.narrow(1, x.shape[1] // 2, 2),
    "narrowed from the end": lambda x: x.narrow(1, -(x.shape[1] // 2), 3),
    "the first narrowed": lambda x: x.narrow(1, 0, x.shape[1] - 1),
    "the first of a split": lambda x: halves(x)[0],
    "the last of a split": lambda x: halves(x)[1],
}
"""Parts at integers that the model computes."""


def halves(x: Tensor) -> Sequence[Tensor]:
    half = x.shape[1] // 2
    return x.split([half, x.shape[1] - half], 1)


def filled(x: Tensor, places: slice) -> Tensor:
    y = x * 1
    y[:, places].zero_()
    return y


def test_parts_at_computed_integers(tmp_path: Path):
    model = Several({k: lambda x, f=f: f(x) * 2 for k, f in COMPUTED_PLACES.items()})
    shape = 1, ct.RangeDim(5, 512, default=6)
    converted = convert(model, [torch.rand(1, 6)], [ct.TensorType("x", shape)])

    for size in 6, 11:
        check(model, converted, tmp_path, torch.rand(1, size))


def points(x: Tensor) -> list[Tensor]:
    """Points between ends, whose number the model computes."""
    number, half = x.shape[1], x.shape[1] // 2
    return [
        torch.linspace(-1, 1, number) + x,
        torch.linspace(0.5, 3, half) + x[:, :1],
        torch.linspace(-2, number, number) + x,
        torch.linspace(number, 0, half) + x[:, :1],
        torch.arange(number - 1, -1, -1) + x,
        torch.arange(half, number) + x[:, :1],
        F.one_hot(torch.tensor([1, 0]), number) + x,
    ]


def fills(x: Tensor) -> list[Tensor]:
    """Tensors filled with a number that the model computes."""
    number = x.shape[1] * 0.5
    return [
        torch.full((3, x.shape[1]), number) + x,
        torch.full_like(x, number),
        x.new_full((2, 1), number) + x,
        torch.full((2,), x.shape[1], dtype=torch.float32) + x[0, :1],
    ]


def triangles(x: Tensor) -> list[Tensor]:
    """Triangles on one side of a computed diagonal."""
    x = x[0, :, None] - x
    number = x.shape[1]
    return [
        x.tril(number // 2),
        x.tril(-(number // 2)),
        x.triu(number - 3),
        x[:2].triu(number // 2),
        (x > 0).tril(number // 2) * 1,
    ]


IN_2_8 = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"),
    reason="PyTorch 2.8 fixes more sizes, and keeps no guards",
)


@pytest.mark.parametrize(
    "function", [points, fills, pytest.param(triangles, marks=IN_2_8)]
)
def test_tensors_made_of_computed_numbers(function: Any, tmp_path: Path):
    model, shape = Function(function), (1, ct.RangeDim(2, 512, default=6))
    converted = convert(model, [torch.rand(1, 6)], [ct.TensorType("x", shape)])

    for size in 2, 3, 11:
        check(model, converted, tmp_path, torch.rand(1, size))


def grids(x: Tensor) -> list[Tensor]:
    """Affine grids whose sizes vary."""
    batch, _, height, width = x.shape
    theta = torch.tensor([[0.9, 0.2, 0.1], [-0.3, 1.1, 0.2]]).expand(batch, 2, 3)
    cube = torch.eye(3, 4) + torch.arange(12).reshape(1, 3, 4) / 10
    edges = F.affine_grid(theta, [*x.shape], align_corners=True)
    return [
        F.grid_sample(x, F.affine_grid(theta, [*x.shape], False), align_corners=False),
        F.grid_sample(x, edges, align_corners=True),
        F.affine_grid(theta, [batch, 1, height // 2, 5], align_corners=False),
        F.affine_grid(cube, [1, 1, 2, height, width], align_corners=True),
        F.affine_grid(cube, [1, 1, height, width, 1], align_corners=False),
    ]


def test_affine_grids_whose_sizes_vary(tmp_path: Path):
    sides = ct.RangeDim(2, 40, default=6), ct.RangeDim(1, 40, default=7)
    model, x = Function(grids), torch.rand(1, 2, 6, 7)
    converted = convert(model, [x], [ct.TensorType("x", (1, 2, *sides))])

    for size in (2, 1), (9, 5):
        check(model, converted, tmp_path, torch.rand(1, 2, *size))


def numbers_of_rank_0(x: Tensor) -> list[Tensor]:
    """Ops along a dimension of a tensor of rank 0, and numbers as tensors."""
    sizes = torch.stack([torch.tensor(size) for size in x.shape])
    x = x.sum()
    return [
        x.argmax(),
        x.argmin(0, keepdim=True),
        x.cumsum(0),
        x.cumprod(-1),
        x.softmax(0),
        *x.sort(0),
        *x.max(0),
        x.amax(0),
        x.topk(1)[0],
        x.flip(0),
        x.mean(0),
        x.logsumexp(0),
        x.flatten(),
        x.tile(2),
        torch.where(x > 0, x, x + 1),
        x / x.numel(),
        x * sizes,
    ]


def exported(function: Callable[..., Any], *inputs: Tensor) -> Any:
    """The exported function, converted."""
    program = torch.export.export(Function(function).eval(), inputs)
    with quiet():
        return ct.convert(
            program.run_decompositions({}),
            compute_precision=ct.precision.FLOAT32,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )


def arithmetic_on_rank_0(x: Tensor) -> list[Tensor]:
    a, b = x.amax(), x.amin()
    return [
        1 / (x.std() * 1e-3),
        torch.sub(a, b, alpha=2),
        torch.add(a, b, alpha=-3),
        torch.rsub(a, 2, alpha=3),
        (a * 0 + 90).to(torch.uint8) * 3,
        torch.maximum(a, b * torch.nan),
        (a * torch.nan).nan_to_num(2),
        a.clamp_max(0.1),
        torch.acosh(a + 2),
        (a * 9).int() & 6,
        # These nodes are named like the string arguments of the ops after them.
        torch.tanh(a),
        F.gelu(a, approximate="tanh"),
        torch.floor(x),
        torch.div(x, 0.3, rounding_mode="floor"),
    ]


class Bytes(nn.Module):
    """Small integers that wrap around, and a table of packed ones."""

    packed: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("packed", torch.tensor([31, 163, 248], dtype=torch.uint8))

    def forward(self, x: Tensor) -> list[Tensor]:
        y = x.to(torch.uint8)
        return [
            x * ((self.packed << 4) >> 4).float(),
            (-self.packed).float() + x,
            (y + self.packed).float(),
            (y * y * y).float(),
            x.to(torch.int8) * y.to(torch.int8) * 100,
        ]


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
def test_bytes_of_traced_models(target: Any, tmp_path: Path):
    model, x = Bytes(), torch.tensor([100.0, 7, 255])

    check(model, convert(model, [x], minimum_deployment_target=target), tmp_path, x)


class Wide(nn.Module):
    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function
        self.register_buffer("table", torch.tensor([2**40, -3]))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.table)


WIDE: Sequence[Callable[..., Tensor]] = [
    lambda x, table: x * table,
    lambda x, table: (x.int() * 2654435761) % 1000,
    lambda x, table: (x.int() + 2**40).float(),
    lambda x, table: torch.where(x > 0, x.long(), 2**40).float(),
    lambda x, table: x + torch.tensor([2**35, 1]),
]


@pytest.mark.parametrize("function", WIDE)
def test_integers_beyond_int32_are_refused(function: Callable[..., Tensor]):
    model, x = Wide(function), torch.rand(2)

    with pytest.raises(padc.UnsupportedError, match=r"has integers of|fit .*int32"):
        convert(model, [x])
    with pytest.raises(padc.UnsupportedError, match=r"has integers of|fit .*int32"):
        program = torch.export.export(model, (x,)).run_decompositions({})
        ct.convert(program, skip_model_load=True)


def test_an_unused_table_of_wide_integers(tmp_path: Path):
    model, x = Wide(lambda x, table: x * 2), torch.rand(2)

    check(model, convert(model, [x]), tmp_path, x)


def test_arithmetic_on_tensors_of_rank_0(tmp_path: Path):
    model, x = Function(arithmetic_on_rank_0), torch.rand(2, 3)

    check(model, convert(model, [x]), tmp_path, x)
    check(model, exported(arithmetic_on_rank_0, x), tmp_path, x)


@pytest.mark.parametrize("drops", [F.dropout, F.alpha_dropout, torch.feature_dropout])
def test_dropouts_in_training_are_refused(drops: Any):
    with pytest.raises(padc.UnsupportedError, match="it draws random numbers"):
        convert(Function(lambda x: drops(x, 0.5, True)), [torch.rand(2, 3)])


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_recurrent_layers_in_training_are_refused(layer: Any):
    """coremltools makes layers without dropouts of them."""
    model, x = layer(3, 3, 2, dropout=0.5), torch.rand(4, 1, 3)
    traced = torch.jit.trace(model, x, check_trace=False)

    with pytest.raises(padc.UnsupportedError, match="it draws random numbers"):
        ct.convert(traced, inputs=[ct.TensorType("x", x.shape)], skip_model_load=True)


def test_random_slopes_are_refused():
    model = Function(lambda x: F.rrelu(x, training=True))

    with pytest.raises(padc.UnsupportedError, match="it draws random numbers"):
        convert(model, [torch.rand(2, 3)])


class Counter(nn.Module):
    """Adds inputs to a buffer that starts at `start`."""

    def __init__(self, start: float):
        super().__init__()
        self.register_buffer("total", torch.full((3,), start))

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        return self.total * 2


@pytest.mark.parametrize("start", [0.0, 0.5])
def test_states_that_start_at_other_numbers(start: float):
    ep = torch.export.export(Counter(start), (torch.ones(3),)).run_decompositions({})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ct.convert(ep, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)

    ours = [each for each in caught if issubclass(each.category, padc.PadcWarning)]
    assert [("'total' starts at 0" in str(each.message)) for each in ours] == (
        [True] * bool(start)
    )


def with_complex_numbers(x: Tensor) -> list[Tensor]:
    z = torch.complex(x, x.flip(0))
    made = [x.exp() * (x.cos() + 1j * x.sin()), 3j - z, z / (1 - 2j), torch.exp(1j * x)]
    made.append(torch.zeros(2, 3, dtype=torch.complex64) + x)
    return [torch.view_as_real(each) for each in made]


def test_complex_numbers(tmp_path: Path):
    model, x = Function(with_complex_numbers), torch.randn(2, 3)

    check(model, convert(model, [x]), tmp_path, x)
    check(model, exported(with_complex_numbers, x), tmp_path, x)


def test_a_complex_factor_of_a_sum_is_refused():
    """coremltools leaves it out."""

    def added(x: Tensor) -> Tensor:
        z = torch.complex(x, x)
        return torch.view_as_real(torch.add(z, z, alpha=2j))

    with pytest.raises(padc.UnsupportedError, match="takes these arguments"):
        convert(Function(added), [torch.rand(3)])
    with pytest.raises(padc.UnsupportedError, match="takes these arguments"):
        exported(added, torch.rand(3))


def of_two_sizes(x: Tensor) -> list[Tensor]:
    """Ops of whose sizes pymil does not know that they are equal, and that they differ."""
    angles = torch.outer(torch.arange(x.shape[1]), torch.ones(4))
    turned = torch.polar(torch.ones_like(angles), angles)
    return [
        x.view_as(x.mT) * 1,
        x.reshape_as(x.transpose(1, 2)) * 1,
        x.flatten(1, 2).unflatten(1, (x.shape[2], x.shape[1])) * 1,
        torch.view_as_real(torch.complex(x, torch.zeros_like(x))),
        torch.view_as_real(turned),
    ]


def test_two_dynamic_sizes(tmp_path: Path):
    shape = 1, ct.RangeDim(2, 40, default=5), ct.RangeDim(2, 40, default=6)
    example = [torch.rand(1, 5, 6)]
    converted = convert(Function(of_two_sizes), example, [ct.TensorType("x", shape)])

    for sizes in (5, 6), (9, 4):
        check(Function(of_two_sizes), converted, tmp_path, torch.rand(1, *sizes))


def test_an_exported_model_of_derived_sizes(tmp_path: Path):
    class Patches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = F.avg_pool2d(x, 4)
            return y.flatten(2) + torch.arange(y.shape[-2] * y.shape[-1])

    height, width = (torch.export.Dim(name, min=2, max=16) for name in "hw")
    ep = torch.export.export(
        Patches(),
        (torch.rand(1, 1, 32, 24),),
        dynamic_shapes=({2: 4 * height, 3: 4 * width},),
    ).run_decompositions({})
    with quiet():
        converted = ct.convert(
            ep, skip_model_load=True, compute_precision=ct.precision.FLOAT32
        )

    check(Patches(), converted, tmp_path, torch.rand(1, 1, 12, 20))


def test_an_op_that_wants_int32(tmp_path: Path):
    """coremltools has int32 for both kinds of integers."""
    zeros = torch.tensor([3, -4], dtype=torch.int32)

    def quantized(x: Tensor) -> Tensor:
        scales = torch.tensor([0.1, 0.2])
        return torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -128, 127)

    model, x = Function(quantized), torch.rand(2, 3)

    check(model, convert(model, [x]), tmp_path, x)
    check(model, exported(quantized, x), tmp_path, x)


def test_ops_along_no_dimension(tmp_path: Path):
    model, x = Function(numbers_of_rank_0), torch.rand(2, 3)

    check(model, convert(model, [x]), tmp_path, x)
    check(model, exported(numbers_of_rank_0, x), tmp_path, x)


@pytest.mark.parametrize(
    "shape, is_warned",
    [
        ((1, ct.RangeDim(6, 10)), False),
        ((1, 7), False),
        (None, False),
        ((1, ct.RangeDim(6, 11)), True),
        ((1, ct.RangeDim(5, 9)), True),
        (ct.EnumeratedShapes([(1, 6), (1, 12)]), True),
    ],
)
def test_sizes_that_a_model_was_not_exported_for(shape: Any, is_warned: bool):
    sizes = ({1: torch.export.Dim("size", min=6, max=10)},)
    program = torch.export.export(nn.ReLU(), (torch.rand(1, 8),), dynamic_shapes=sizes)
    inputs = [ct.TensorType("x", shape)]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ct.convert(program.run_decompositions({}), inputs=inputs, skip_model_load=True)

    found = [each for each in caught if each.category is padc.PadcWarning]
    assert [each.filename for each in found] == [__file__] * is_warned
    assert all("dimension 1 of the input 'x'" in str(x.message) for x in found)
    assert all("exported for sizes of 6 to 10" in str(x.message) for x in found)


@IN_2_8
@pytest.mark.parametrize(
    "function, warned",
    [
        (lambda x: F.pad(x, (1, 1), value=x.shape[1] * 0.5), "sizes of 6 to 6, and"),
        (lambda x: x.view(1, x.shape[1] // 2, 2).sum(2), "4 of the sizes of 4 to 10"),
        (lambda x: F.pad(x, (1, 1), value=0.5), None),
    ],
)
def test_sizes_for_which_a_guard_does_not_hold(function: Any, warned: str | None):
    sizes = (({1: torch.export.Dim.AUTO},),)
    program = torch.export.export(
        Function(function), (torch.rand(1, 6),), dynamic_shapes=sizes
    )
    inputs = [ct.TensorType("x", (1, ct.RangeDim(3, 10)))]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ct.convert(program.run_decompositions({}), inputs=inputs, skip_model_load=True)

    found = [str(x.message) for x in caught if x.category is padc.PadcWarning]
    assert bool(found) == bool(warned)
    assert warned is None or any(warned in each for each in found)


def at_place(x: Tensor, place: Tensor) -> list[Tensor]:
    """What stands at a number that is a tensor."""
    return [
        x[:, place],
        x[..., place, 1],
        x[:, place : place + 1] * 2,
        x.index_select(1, place),
        x[place, place],
    ]


@IN_2_8
def test_exported_models_index_by_numbers_of_an_input(tmp_path: Path):
    def at_first(x: Tensor, places: Tensor) -> list[Tensor]:
        return at_place(x, places[0])

    x = torch.rand(3, 3, 4)
    # An input without dimensions has one in the package.
    converted = exported(at_place, x, torch.tensor(1))
    other = exported(at_first, x, torch.tensor([1]))

    for place in 0, 2:
        places = torch.tensor([place], dtype=torch.int32)
        check(Function(at_first), converted, tmp_path, x, places)
        check(Function(at_first), other, tmp_path, x, places)


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Conv2d(3, 4, 3, padding=2, padding_mode="circular"),
        pytest.param(Padded, marks=pytest.mark.slow),
    ],
)
def test_an_exported_model_of_dynamic_size(
    build: Callable[[], nn.Module], tmp_path: Path
):
    model, x = build().eval(), torch.rand(1, 3, 10, 12)
    sizes = {i: torch.export.Dim(f"size{i}", min=8, max=40) for i in (2, 3)}
    exported = torch.export.export(model, (x,), dynamic_shapes=(sizes,))
    with quiet():
        converted = ct.convert(
            exported.run_decompositions({}),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )

    for size in (10, 12), (25, 9):
        check(model, converted, tmp_path, torch.rand(1, 3, *size))


def test_a_traced_pool_of_one_dimension_and_dynamic_size(tmp_path: Path):
    # PyTorch's own code takes the example's size for all.
    model = nn.Sequential(nn.MaxPool1d(3, 2, ceil_mode=True), nn.GroupNorm(1, 2))
    shape = 1, 2, ct.RangeDim(8, 40)
    converted = convert(model, [torch.rand(1, 2, 9)], [ct.TensorType("x", shape)])

    check(model, converted, tmp_path, torch.rand(1, 2, 14))


def composites(x: Tensor) -> list[Tensor]:
    """Ops that PyTorch computes by others, of sizes that vary."""
    return [
        x.flatten(2),
        x.flatten(),
        x.flatten(0, 1) * 2,
        x.reshape(1, 4, -1),
        x.flatten(2).reshape_as(x),
        x.unflatten(1, (2, 2)),
        x[:, :1].expand_as(x),
        x.chunk(2, 1)[1],
        x.movedim(1, -1),
        torch.hstack([x, x]),
        F.instance_norm(x),
        torch.einsum("bchw,bchv->bcwv", x, x),
        F.linear(x.transpose(1, 3), torch.ones(3, 4)),
    ]


def test_composite_ops_of_dynamic_size(tmp_path: Path):
    model, x = Function(composites), torch.rand(1, 4, 9, 8)
    shape = 1, 4, ct.RangeDim(4, 40), ct.RangeDim(4, 40)
    converted = convert(model, [x], [ct.TensorType("x", shape)])

    check(model, converted, tmp_path, torch.rand(1, 4, 7, 12))


def test_a_batch_of_dynamic_size(tmp_path: Path):
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    shape = ct.RangeDim(1, 16, default=2), 3, 5, 5
    converted = convert(model, [torch.rand(2, 3, 5, 5)], [ct.TensorType("x", shape)])

    check(model, converted, tmp_path, torch.rand(7, 3, 5, 5))


def test_sizes_that_an_exported_model_computes(tmp_path: Path):
    def to_even(x: Tensor) -> Tensor:
        """Pad to an even size, and divide by half of the height."""
        height, width = x.shape[-2:]
        y = F.pad(x, (1 + width % 2, 1, height % 2, (height - 1) // 2))
        return y / (height * 0.5)

    model, x = Function(to_even).eval(), torch.rand(1, 1, 6, 5)
    sizes = {i: torch.export.Dim(f"size{i}", min=4, max=40) for i in (2, 3)}
    exported = torch.export.export(model, (x,), dynamic_shapes=((sizes,),))
    with quiet():
        converted = ct.convert(
            exported.run_decompositions({}),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )

    for size in (6, 5), (9, 8):
        check(model, converted, tmp_path, torch.rand(1, 1, *size))


def test_an_image_and_a_classifier(tmp_path: Path):
    model = nn.Sequential(
        nn.ReflectionPad2d((1, 2, 3, 1)),
        nn.Conv2d(3, 4, 3),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True),
        nn.Flatten(),
        nn.LazyLinear(3),
        nn.Softmax(1),
    )
    x = torch.randint(0, 256, (1, 3, 7, 6)).float()
    model(x)
    image = ct.ImageType(
        "image", x.shape, scale=1 / 255, color_layout=ct.colorlayout.RGB
    )
    labels = ct.ClassifierConfig(["a", "b", "c"])

    converted = convert(model, [x], [image], classifier_config=labels)

    description = converted.get_spec().description
    assert description.input[0].type.imageType.width == 6
    assert description.predictedFeatureName == "classLabel"
    program = converted._mil_program.functions["main"]
    assert "pad" in [op.op_type for op in program.operations]


def test_borders_and_negative_amounts_of_any_rank(tmp_path: Path):
    def pads(a: Tensor, b: Tensor, c: Tensor) -> list[Tensor]:
        return [
            F.pad(a, (2, -1), "circular"),
            F.pad(a[0], (9, 8), "replicate"),
            F.pad(b, (1, 2, -1, 2), "reflect"),
            F.pad(c, (1, 2, 2, 0, 1, 1), "reflect"),
            F.pad(c, (-1, 2, 2, 0, 1, 1), "circular"),
            F.pad(c.int(), (1, 1), value=7),
        ]

    model = Function(pads)
    inputs = torch.rand(1, 2, 5), torch.rand(1, 2, 5, 6), torch.rand(1, 2, 4, 5, 6)

    check(model, convert(model, inputs), tmp_path, *inputs)


def test_ordinary_ops_that_coremltools_gets_wrong(tmp_path: Path):
    hidden = torch.zeros(4, 4, dtype=torch.bool).index_fill_(0, torch.tensor(1), True)

    def ops(x: Tensor) -> list[Tensor]:
        mask = torch.triu(torch.full((4, 4), -torch.inf), 1)
        masked = torch.where(hidden, -torch.inf, x)
        return [
            (x + mask).softmax(-1),
            torch.tril(mask.T).exp(),
            F.log_softmax(100 * x, -1),
            (x > 0.5).float().all(-1).float(),
            F.scaled_dot_product_attention(x, x, x, attn_mask=~hidden),
            torch.where(hidden.T, -torch.inf, masked).exp(),
        ]

    model, x = Function(ops), torch.rand(1, 2, 4, 4)

    check(model, convert(model, [x]), tmp_path, x)


def test_passes_of_coremltools_that_are_wrong(tmp_path: Path):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3)
            self.up = nn.ConvTranspose2d(4, 4, 2, 2, groups=2, bias=False)
            self.norm = nn.BatchNorm2d(4).requires_grad_(False)
            self.norm.register_buffer("running_var", torch.tensor([1.0, 2, 3, 4]))
            self.solid = nn.ConvTranspose3d(1, 2, 2)

        def forward(self, x: Tensor) -> list[Tensor]:
            y = self.conv(x)
            return [
                2 - y,
                y + 1,
                3 / (self.conv(x + 1) + 9) / 2,
                self.norm(self.up(torch.cat([x, x], 1))),
                self.solid(x[:, :1, None]) * torch.tensor([2.0, 3]).reshape(2, 1, 1, 1),
            ]

    model, x = Model().eval(), torch.rand(1, 2, 5, 5)

    check(model, convert(model, [x]), tmp_path, x)


def test_the_norm_of_a_grouped_transposed_convolution(tmp_path: Path):
    """A pass that folds the norm mixes up the channels of the weight."""
    norm = nn.BatchNorm2d(4).requires_grad_(False)
    norm.register_buffer("running_var", torch.tensor([1.0, 2, 3, 4]))
    model, x = nn.Sequential(nn.ConvTranspose2d(4, 4, 2, groups=2), norm), IMAGES

    check(model, convert(model, [x]), tmp_path, x)


IMAGES = torch.linspace(-2, 2, 100).reshape(1, 4, 5, 5)
SPECIAL = "max(0 x, x)", "roots of squares", "squares of roots"


@pytest.mark.parametrize("name", ["numbers", "images", "counts"])
def test_passes_that_change_values(name: str, tmp_path: Path):
    functions, x = FUNCTIONS[name]
    if name == "numbers":
        functions = {key: functions[key] for key in SPECIAL}
    converted, path = convert(Several(functions), [x]), tmp_path / "m.mlpackage"
    converted.save(str(path))

    results = [y.to(torch.float32) for y in run_package(path, [x])]

    floats = {key: as_float(function) for key, function in functions.items()}
    check_each(floats, results, x, **ALLOWED[name], equal_nan=True)


def test_a_stack_that_is_returned(tmp_path: Path):
    def stacks(x: Tensor) -> tuple[Tensor, Tensor]:
        stack = torch.stack([x, x * 2])
        return stack, stack.reshape(4, 3)

    x = torch.rand(2, 3)
    convert(Function(stacks), [x]).save(str(tmp_path / "m.mlpackage"))

    results = run_package(tmp_path / "m.mlpackage", [x])

    for result, expected in zip(results, stacks(x), strict=True):
        torch.testing.assert_close(result, expected)


def as_float(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function, with the results that a package has for integers and booleans."""
    return lambda x: function(x).float()


def test_what_padc_refuses_is_coremltools_affair():
    model, x = Function(lambda x: x + torch.randn_like(x)), torch.rand(2, 3)

    converted = convert(model, [x])

    ops = converted._mil_program.functions["main"].operations
    assert any(op.op_type.startswith("random_normal") for op in ops)


def test_what_padc_refuses_and_coremltools_fails_on_is_an_error_of_padc():
    """coremltools' converter raises TypeError for this norm."""
    model = Function(lambda x: torch.linalg.matrix_norm(x, "nuc"))

    with pytest.raises(padc.UnsupportedError, match="linalg_matrix_norm"):
        convert(model, [torch.rand(3, 3)])


def test_what_both_refuse_is_an_error_of_padc():
    """coremltools says what it lacks, or raises ValueError for something else."""

    def masked(x: Tensor) -> Tensor:
        y = x * 1
        y[:, y[0] > 1] = torch.tensor([7.0, 8.0])
        return y

    model, x = Function(torch.linalg.svdvals), torch.rand(3, 3)

    with pytest.raises(padc.UnsupportedError, match="svd"):
        convert(model, [x])
    with pytest.raises(padc.UnsupportedError, match=r"torch.where\(mask, a, b\)"):
        exported(masked, torch.tensor([[2.0, 0.1, 3.0], [0.0, 0.0, 0.0]]))
    with pytest.raises(padc.UnsupportedError, match="divide whole steps"):
        sized = [ct.TensorType("x", (2, ct.RangeDim(3, 12)))]
        tenths = Function(lambda x: torch.arange(0, x.shape[1], 0.1) + 0 * x.sum())
        convert(tenths, [torch.rand(2, 6)], sized)


def test_grids_stay_in_float32_in_float16_programs(tmp_path: Path):
    model = Function(lambda x, g: F.grid_sample(x, g, align_corners=False))
    x, grid = torch.rand(1, 1, 500, 2), torch.rand(1, 300, 2, 2) * 2 - 1

    converted = convert(model, [x, grid], compute_precision=ct.precision.FLOAT16)

    (actual,) = run(converted, tmp_path, [x, grid])
    assert compare("", actual.float(), model(x, grid)).relative_error < 2e-3


def test_weights_are_held_once():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    model[1].weight = model[0].weight

    converted = convert(model, [torch.rand(1, 8)])

    ops = converted._mil_program.functions["main"].operations
    weights = [op for op in ops if op.op_type == "const" and op.val.val.size == 64]
    assert len(weights) == 1


def test_old_targets_are_coremltools_affair():
    model, x = nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU()), torch.rand(1, 1, 4, 4)

    converted = convert(model, [x], convert_to="neuralnetwork", compute_precision=None)

    assert converted.get_spec().WhichOneof("Type") == "neuralNetwork"


# --- what is judged -------------------------------------------------------------------


def test_the_table_says_that_98_of_100_cases_are_right():
    page = Path(__file__).parents[1] / "docs" / "coremltools.md"
    (totals,) = re.findall(r"^\| all \| (.*) \|$", page.read_text(), re.MULTILINE)

    shares = [
        int(right) / int(cases)
        for right, cases in re.findall(r"(\d+) of (\d+)", totals)
    ]

    assert len(shares) == 4
    assert min(shares[2:]) >= 0.98


@pytest.mark.parametrize(
    "name",
    [
        "spatial_transformer",
        pytest.param("flow_warp", marks=pytest.mark.slow),
        pytest.param("voxel_morph", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("source", ["traced", "exported"])
def test_networks_that_coremltools_alone_refuses(
    name: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    model, inputs = getattr(importlib.import_module(f"examples.{name}"), name)()
    if source == "traced":
        check(model, convert(model, inputs), tmp_path, *inputs)
        return
    exported = torch.export.export(model, inputs).run_decompositions({})
    with quiet():
        converted = ct.convert(
            exported, compute_precision=ct.precision.FLOAT32, skip_model_load=True
        )
    check(model, converted, tmp_path, *inputs)
