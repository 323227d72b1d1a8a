# pyright: basic
"""`padc.compile`: inputs and outputs, refused arguments, the report."""

import copy
import gc
import itertools
import pickle
import threading
import time
from collections import Counter, namedtuple
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from affine import Affine
from functions import Function, needs_export
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

import padc
from padc.backends.native.native_function import NativeFunction

Pair = namedtuple("Pair", "left right")


def compile_function(function: Callable[..., Any], *args: Any, **options: Any):
    return padc.compile(Function(function), args, **options)


def check(function: Callable[..., Any], *args: Any, native: bool = True) -> None:
    """Compiled, the function computes what it does, bit for bit."""
    model = compile_function(function, *args)

    assert model.is_native == native, model.report()
    torch.testing.assert_close(model(*args), function(*args), rtol=0, atol=0)


def ladder(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu()


ROWS = Dim("rows", min=2, max=8)


# --- inputs and outputs ---------------------------------------------------------------


def reshaped_and_whole(x: torch.Tensor) -> Any:
    y = x * 2
    return y.view(12, 2), y


def reshaped_several_times(x: torch.Tensor) -> Any:
    y = (x * 2).view(-1)
    return y, y.view(4, 2, 3), y, y + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).view(8, 3),
        lambda x: (x * 2).view(2, 2, 6),
        lambda x: x.view(-1),
        lambda x: F.pad(x, (1, 1)).view(2, -1),
        lambda x: x.sum(1).view(2, 3, 2),
        reshaped_and_whole,
        reshaped_several_times,
    ],
)
def test_results_that_are_reshaped(function: Callable[..., Any]):
    check(function, torch.arange(24.0).view(4, 2, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).view(-1, 3),
        lambda x: (x * 2).view(x.shape[0], 3, 2),
        lambda x: (x * 2).view(-1).view(2, -1),
    ],
)
def test_results_that_are_reshaped_to_dynamic_sizes(function: Callable[..., Any]):
    model = Function(function)
    x = torch.arange(24.0).view(4, 2, 3)
    exported = torch.export.export(model, (x,), dynamic_shapes=(({0: ROWS},),))
    fast = padc.compile(exported)

    assert fast.is_native
    for rows in (2, 5):
        x = torch.randn(rows, 2, 3)
        assert torch.equal(fast(x), model(x))


def test_structures():
    def function(pair: Any, named: Any) -> Any:
        x, y = pair
        z = named["z"][0]
        return {"sum": x + y, "rest": [(z - x,), Pair(x * z, None)]}

    x, y, z = torch.randn(3, 4)
    model = compile_function(function, (x, y), {"z": [z], "a": 3})

    actual = model((x, y), {"a": 3, "z": [z]})

    torch.testing.assert_close(actual, function((x, y), {"z": [z]}))
    assert type(actual["rest"][1]) is Pair
    assert model.input_names == ("args_0_0", "args_0_1", "args_1_z_0")
    assert model.output_names == ("sum", "rest_0_0", "rest_1_left")


def test_keyword_arguments_and_constants():
    model = Affine()
    x = torch.randn(3, 4)
    exported = torch.export.export(model, (x,), {"n": 3})

    compiled_model = padc.compile(exported)

    torch.testing.assert_close(compiled_model(x, n=3), model(x, n=3))
    with pytest.raises(padc.UsageError, match=r"exported with n 3, got 4"):
        compiled_model(x, n=4)
    with pytest.raises(padc.UsageError, match=r"exported with n 3, got ndarray"):
        compiled_model(x, n=np.ones(2))
    with pytest.raises(padc.UsageError, match="other arguments") as raised:
        compiled_model(x)
    assert "it takes 1 arguments by position, and n by name" in str(raised.value)


def test_arrays_are_read_and_returned_where_they_are():
    model = compile_function(lambda x: (x, x + 1), torch.randn(3, 4))
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    same, more = model(x)

    assert isinstance(more, np.ndarray) and np.shares_memory(same, x)
    np.testing.assert_array_equal(more, x + 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[::-1, ::2],
        lambda x: x[1:, 1:-1:2].copy(order="F"),
        lambda x: np.lib.stride_tricks.as_strided(x, (3, 4), (4, 4)),
        lambda x: np.frombuffer(x.tobytes(), np.float32)[:12].reshape(
            3, 4
        ),  # read-only
    ],
)
def test_arrays_of_any_layout(change: Callable[[Any], Any]):
    model = compile_function(ladder, torch.zeros(3, 4))
    x = change(np.arange(-12, 12, dtype=np.float32).reshape(3, 8))
    x = x if x.shape == (3, 4) else np.broadcast_to(x[:1, :1], (3, 4))

    np.testing.assert_array_equal(model(x), np.maximum(x + 1, 0))


def test_tensors_where_not_all_are_arrays():
    model = compile_function(torch.add, torch.zeros(3), torch.zeros(3))

    actual = model(np.ones(3, np.float32), torch.ones(3))

    assert isinstance(actual, torch.Tensor)
    torch.testing.assert_close(actual, torch.full((3,), 2.0))


def test_numpy_has_no_bfloat16():
    model = compile_function(lambda x: x.bfloat16() + 1, torch.zeros(3))

    actual = model(np.array([1, 2, 300.5], np.float32))

    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual, [2, 3, 300])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.mT,
        lambda x: x.unfold(0, 2, 1)[..., 0],
        lambda x: x[::2].expand(4, 4),
        lambda x: (
            x.to(memory_format=torch.channels_last) if x.dim() == 4 else x.flip(0)
        ),
        lambda x: torch.complex(x, x).conj().imag,
        lambda x: nn.Parameter(x),
    ],
)
def test_tensors_of_any_layout(make: Callable[[torch.Tensor], torch.Tensor]):
    x = make(torch.randn(4, 4)[: 2 if "expand" in make.__code__.co_names else 4])
    model = compile_function(ladder, torch.zeros(x.shape))

    actual = model(x)

    torch.testing.assert_close(actual, ladder(x).detach())
    assert not actual.requires_grad


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,)])
def test_dtypes_and_shapes(dtype: str, shape: tuple[int, ...]):
    x = (torch.randn(shape) * 50).abs().to(getattr(torch, dtype))

    if dtype == "bool":
        check(lambda x: (x.logical_not(), x & x), x)
    else:
        check(lambda x: (x + x, x * 2, x > 3), x)


def test_pads_of_one_tensor_that_are_reshaped():
    x = torch.arange(128.0).reshape(2, 4, 4, 4)

    check(
        lambda x: (
            F.pad(x, (1, 1)).transpose(2, 3).contiguous(),
            F.pad(x, (0, 0, 1, 1)).reshape(2, 96),
        ),
        x,
    )
    check(
        lambda x: (
            F.pixel_shuffle(F.pad(x, (1, 1)), 2),
            F.pad(x, (0, 0, 1, 1)).flatten(1),
        ),
        x,
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("width", [1, 12])
def test_pads_of_no_images(mode: str, width: int):
    pad = torch.nn.functional.pad

    check(lambda x: pad(x, (width, 2, 0, 1), mode), torch.zeros(0, 3, 14, 13))


def test_it_returns_its_input_or_a_weight():
    x = torch.randn(4)
    echo = padc.compile(Function(lambda x: (x, x)), (x,))

    class Weight(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(4.0))

        def forward(self, x: torch.Tensor) -> Any:
            return self.weight, x + 1, torch.logcumsumexp(self.weight, 0), self.weight

    model = padc.compile(Weight(), (x,))
    for tensor in model(x):
        tensor.zero_()

    assert all(torch.equal(y, x) for y in echo(x))
    first, _, summed, last = model(x)
    assert torch.equal(first, torch.arange(4.0)) and torch.equal(first, last)
    assert torch.equal(summed, torch.logcumsumexp(first, 0))


def test_later_changes_of_the_weights_have_no_effect():
    source = Affine()
    x = torch.randn(3, 4)
    model, expected = padc.compile(source, (x,)), source(x)
    with torch.no_grad():
        source.weight.zero_()
        source.offset.zero_()

    torch.testing.assert_close(model(x), expected.detach())


def linear_of_a_column() -> tuple[nn.Module, torch.Tensor]:
    """A weight whose packed form has the same order in memory."""
    return nn.Linear(1, 64, bias=False), torch.randn(40, 1)


def convolution_with_norm() -> tuple[nn.Module, torch.Tensor]:
    """A weight that is computed, and one that is packed as it is."""
    first, second = (nn.Conv2d(32, 32, 3, bias=False) for _ in range(2))
    model = nn.Sequential(first, nn.BatchNorm2d(32), second)
    return model, torch.randn(1, 32, 24, 24)


def groups_called_twice() -> tuple[nn.Module, torch.Tensor]:
    """A weight that each call packs in another shape."""
    conv = nn.Conv1d(64, 64, 3, groups=4, bias=False)
    return nn.Sequential(conv, nn.ReLU(), conv), torch.randn(1, 64, 50)


class InParts(nn.Module):
    """PyTorch runs a part, which reads other weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64, bias=False)
        self.scale = nn.Parameter(torch.rand(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * torch.logcumsumexp(self.scale, 0)


def model_in_parts() -> tuple[nn.Module, torch.Tensor]:
    return InParts(), torch.randn(40, 64)


@pytest.mark.parametrize(
    "make",
    [
        linear_of_a_column,
        convolution_with_norm,
        groups_called_twice,
        model_in_parts,
    ],
)
def test_packed_weights_are_held_once_and_copied(
    make: Callable[[], tuple[nn.Module, torch.Tensor]],
):
    source, x = make()
    with torch.no_grad():
        model, expected = padc.compile(source.eval(), (x,)), source(x)
        parts = cast(Any, model)._program._functions
        for weight in source.parameters():
            weight.zero_()

    held = Counter[str]()
    for part in parts:
        if isinstance(part, NativeFunction):
            held.update(p.weight for p in part.signature.parameters if p.weight)
        else:
            held.update([*part._weights])
    assert held and set(held.values()) == {1}
    torch.testing.assert_close(model(x), expected)


# --- run_into and run_named -----------------------------------------------------------


@pytest.mark.parametrize("native", [True, False])
def test_run_into(native: bool):
    def function(x: torch.Tensor) -> Any:
        return x + 1, x.relu() if native else torch.logcumsumexp(x, 0)

    x = torch.randn(3, 4)
    model = compile_function(function, x)
    tensors = [torch.empty(3, 4), torch.empty(3, 4)]
    arrays = [np.empty((3, 4), np.float32), np.empty((3, 4), np.float32)]

    model.run_into(tensors, x)
    model.run_into(arrays, x.numpy())

    torch.testing.assert_close(tuple(tensors), function(x))
    torch.testing.assert_close(tuple(map(torch.from_numpy, arrays)), function(x))
    memory = torch.zeros(30)
    good = tensors[0]
    read_only = np.zeros((3, 4), np.float32)
    read_only.flags.writeable = False
    for outputs, message in [
        ([good], "there are 2 outputs, got 1"),
        ([good, torch.empty(3, 5)], r"output 1 has to be .* of shape \[3, 4\], got"),
        (
            [good, torch.empty(3, 4).double()],
            "output 1 has to be torch.float32 .* torch.float64",
        ),
        ([good, torch.empty(4, 3).T], "output 1 is not contiguous"),
        (
            [good, torch.zeros(3, 4, dtype=torch.cfloat).conj().imag],
            "output 1 is a negated view",
        ),
        ([good, good.to_sparse()], "output 1 is torch.sparse_coo"),
        ([good, read_only], "output 1 is not writable"),
        ([good, 3], "output 1 is of type int"),
        ([good, x], "output 1 shares memory with input 0"),
        ([good, torch.zeros(3, 4, requires_grad=True)], "output 1 requires gradients"),
        (
            [memory[:12].view(3, 4), memory[8:20].view(3, 4)],
            "output 1 shares memory with output 0",
        ),
    ]:
        with pytest.raises(padc.UsageError, match=message):
            model.run_into(outputs, x)
    with pytest.raises(padc.UsageError, match="outputs are of type NoneType"):
        model.run_into(cast(Any, None), x)
    leaf = torch.zeros(3, 4, requires_grad=True)
    with torch.no_grad():
        model.run_into([good, leaf], x)
    torch.testing.assert_close((good, leaf.detach()), function(x))


def test_other_default_device():
    x = torch.randn(3, 4)
    model = compile_function(torch.relu, x)

    with torch.device("meta"):
        actual = model(x)

    assert torch.equal(actual, x.relu())


def test_run_named():
    model = padc.compile(Affine(), (torch.zeros(3, 4),))
    x = torch.randn(3, 4)

    actual = model.run_named({"x": x})

    assert list(actual) == list(model.output_names)
    torch.testing.assert_close(next(iter(actual.values())), Affine()(x).detach())
    with pytest.raises(padc.UsageError, match=r"inputs missing: x; unknown: y"):
        model.run_named({"y": x})


# --- what is refused ------------------------------------------------------------------


def test_tensors_without_data():
    x, freed = torch.zeros(3, 4), torch.zeros(3, 4)
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.zeros(3, 4)
    model = compile_function(torch.relu, x)

    for tensor in (freed, fake):
        with pytest.raises(padc.UsageError, match="a tensor without data"):
            model(tensor)
        with pytest.raises(padc.UsageError, match="a tensor without data"):
            model.run_into([tensor], x)


def test_what_only_stands_for_tensors():
    x = torch.zeros(3, 4)
    static = compile_function(torch.relu, x)
    dynamic = compile_function(torch.relu, x, dynamic_shapes=(({0: Dim.DYNAMIC},),))

    for model in (static, dynamic):
        with pytest.raises(padc.UsageError, match="a tensor without data"):
            with FakeTensorMode(allow_non_fake_inputs=True):
                model(x)
        with pytest.raises(padc.UsageError, match="a tensor without data"):
            torch.vmap(model)(torch.zeros(2, 3, 4))
        with pytest.raises(padc.UsageError, match="is a nested tensor"):
            model(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]))


@pytest.mark.parametrize(
    "args, message",
    [
        (
            (torch.zeros(3, 4).double(),),
            "'args_0' has to be torch.float32 of shape .*, got torch.float64",
        ),
        (
            (torch.zeros(3, 5),),
            r"of shape \[3, 4\], got torch.float32 of shape \[3, 5\]",
        ),
        ((torch.zeros(3),), r"of shape \[3, 4\], got torch.float32 of shape \[3\]"),
        ((torch.zeros(3, 4, device="meta"),), "'args_0' is on meta"),
        ((torch.zeros(3, 4).to_sparse(),), "'args_0' is torch.sparse_coo"),
        (([1.0],), "'args_0' is of type list"),
        ((3,), "'args_0' is of type int"),
        ((np.zeros((3, 4)),), "got torch.float64"),
        ((np.zeros((3, 4), ">f4"),), "'args_0' is an array of dtype >f4"),
        ((np.full((3, 4), "a"),), "'args_0' is an array of dtype <U1"),
        ((), "exported with other arguments"),
        ((torch.zeros(3, 4), 1), "exported with other arguments"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[Any, ...], message: str):
    model = compile_function(ladder, torch.zeros(3, 4))

    with pytest.raises(padc.UsageError, match=message):
        model(*args)


def test_what_cannot_be_compiled():
    exported = torch.export.export(Affine(), (torch.zeros(4),))
    with pytest.raises(
        padc.UsageError, match="has its inputs and dynamic shapes already"
    ):
        padc.compile(exported, (torch.zeros(4),))
    with pytest.raises(padc.UsageError, match="needs example_inputs"):
        padc.compile(Affine())


def test_constants_are_returned():
    x = torch.randn(3, 4)
    model = compile_function(lambda x: (*x.shape, x + 1, None, "name"), x)

    assert model.is_native
    *numbers, actual, none, text = model(x)

    assert (numbers, none, text) == ([3, 4], None, "name")
    assert torch.equal(actual, x + 1)
    model.run_into([actual], -x)
    assert torch.equal(actual, 1 - x)


def test_models_that_cannot_be_imported_are_run_by_pytorch():
    def function(x: torch.Tensor, n: int, mode: str) -> Any:
        return {"size": x.shape[0] + n, "sum": x + n, "mode": mode}

    x, arguments = torch.randn(3, 4), (torch.randn(5, 4), 7, "sum")
    shapes = ({0: Dim("batch"), 1: None}, Dim.DYNAMIC, None)
    model = compile_function(function, x, 2, "sum", dynamic_shapes=(shapes,))

    actual = model(*arguments)

    assert not model.is_native
    assert "PyTorch: the whole model\nnot compiled: the input" in model.report()
    assert actual["size"] == 12 and actual["mode"] == "sum"
    assert torch.equal(actual["sum"], arguments[0] + 7)
    array, given = arguments[0].numpy(), arguments[0]
    assert isinstance(model(array, 7, "sum")["sum"], np.ndarray)
    output = torch.empty(5, 4)
    model.run_into([output], *arguments)
    assert torch.equal(output, given + 7)
    named: Any = dict(zip(model.input_names, (given, 7), strict=True))
    result = model.run_named(named)
    assert list(result) == list(model.output_names) and len(result) == 2
    with pytest.raises(padc.UsageError, match="PyTorch cannot run the model: "):
        model(torch.zeros(3, 5), 2, "sum")
    for outputs, message in [
        ([], "there are 1 outputs, got 0"),
        (None, "outputs are of type NoneType"),
        (
            [torch.empty(5, 3)],
            r"output 0 has to be torch.float32 of shape \[5, 4\], got",
        ),
    ]:
        with pytest.raises(padc.UsageError, match=message):
            model.run_into(outputs, *arguments)


class Held(nn.Module):
    """Returns a weight, a view of its input and computed tensors; takes a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))

    def forward(self, x: torch.Tensor, n: int) -> Any:
        y = (x * self.weight * n).bfloat16()
        return {"held": self.weight, "views": (x.view(-1), y, y)}


def test_what_pytorch_returns_of_a_whole_model():
    source, x = Held(), torch.randn(3, 4)
    model = padc.compile(source, (x, 2), dynamic_shapes=(None, Dim.DYNAMIC))

    actual = model(x, 3)
    expected = (x * 3).bfloat16()
    with torch.no_grad():
        source.weight.zero_()
    actual["held"].zero_()

    assert not actual["held"].requires_grad
    assert torch.equal(model(x, 3)["views"][1], expected)
    arrays = model(x.numpy(), 3)
    assert (arrays["held"] == 1).all() and arrays["views"][1].dtype == np.float32
    assert model.output_names == ("held", "views_0", "views_1", "views_2")
    named: Any = {"x": x, "n": 3}
    assert list(model.run_named(named)) == list(model.output_names)
    outputs = [torch.empty(3, 4), torch.empty(12), expected, expected.clone()]
    model.run_into(outputs, x.numpy(), 3)
    assert torch.equal(outputs[2], outputs[3])
    with pytest.raises(padc.UsageError, match="output 0 shares memory with input 0"):
        model.run_into([x, *outputs[1:]], x, 3)


def test_models_of_pytorch_take_what_only_stands_for_tensors():
    to_dense = compile_function(lambda x: x.to_dense() * 2, torch.eye(3).to_sparse())
    in_place = compile_function(lambda x: x.add_(1) * 2, torch.zeros(4))
    output = torch.empty(3, 3)

    to_dense.run_into([output], torch.eye(3).to_sparse())

    assert torch.equal(output, 2 * torch.eye(3))
    assert torch.vmap(in_place)(torch.zeros(2, 4)).shape == (2, 4)


def test_sparse_results_are_dense_arrays():
    model = compile_function(lambda x: x.to_sparse(), torch.eye(3))
    output = torch.empty(3, 3)

    assert model(torch.eye(3)).is_sparse
    model.run_into([output], torch.eye(3))

    assert (model(np.eye(3, dtype=np.float32)) == np.eye(3)).all()
    assert torch.equal(output, torch.eye(3))


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: x.add_(1), torch.zeros(3)),
        (lambda x: x * x.conj(), torch.randn(3, dtype=torch.complex64)),
        (lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), torch.ones(2)),
        (nn.BatchNorm1d(4).train(), torch.randn(3, 4)),
    ],
    ids=["changes its input", "of input", "cond", "changes its buffer"],
)
def test_what_is_left_to_pytorch(
    function: Any, x: torch.Tensor, request: pytest.FixtureRequest
):
    expected = copy.deepcopy(function)(x.clone())
    model = padc.compile(
        function if isinstance(function, nn.Module) else Function(function),
        (x.clone(),),
    )

    assert request.node.callspec.id.split()[0] in model.report()
    torch.testing.assert_close(model(x.clone()), expected.detach())


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool):
    def in_place(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        compile_function(torch.relu, torch.ones(2))
        assert gc.isenabled() == enabled
        assert not compile_function(in_place, torch.ones(2)).is_native
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()


# --- dynamic shapes -------------------------------------------------------------------


def test_sizes_that_vary():
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.relu(), y], 1) + x.shape[0]

    model = compile_function(
        function,
        torch.zeros(3, 4),
        torch.zeros(3, 2),
        dynamic_shapes=(({0: ROWS}, {0: ROWS}),),
    )

    assert model.is_native
    for rows in (2, 8, 5):
        x, y = torch.randn(rows, 4), torch.randn(rows, 2)
        torch.testing.assert_close(model(x, y), function(x, y))
    for shapes, message in [
        (((1, 4), (1, 2)), "dimension 0 of the input 'args_0' is 1; .* for 2 to 8"),
        (((9, 4), (9, 2)), "dimension 0 of the input 'args_0' is 9; .* for 2 to 8"),
        (
            ((5, 4), (6, 2)),
            "'args_1' is 6, but has to be 5 where dimension 0 of the input 'args_0' is 5",
        ),
        (
            ((5, 4), (5,)),
            r"'args_1' has to be torch.float32 of shape \[\?, 2\], got .* \[5\]",
        ),
        (
            ((5, 3), (5, 2)),
            r"'args_0' has to be torch.float32 of shape \[\?, 4\], got .* \[5, 3\]",
        ),
    ]:
        with pytest.raises(padc.UsageError, match=message):
            model(*map(torch.zeros, shapes))
    with pytest.raises(padc.UsageError, match=r"of shape \[5, 6\], got .* \[4, 6\]"):
        model.run_into([torch.zeros(4, 6)], torch.zeros(5, 4), torch.zeros(5, 2))


def test_sizes_that_torch_export_found_out():
    def function(x: torch.Tensor) -> torch.Tensor:
        batch, height, width, _ = x.shape
        x = x.view(batch, height // 4, 4, width // 4, 4, 3)
        return x.permute(2, 4, 5, 0, 1, 3).reshape(-1, batch)

    x = torch.randn(2, 8, 8, 3)
    height, width = (4 * Dim(name, min=1, max=6) for name in ("height", "width"))
    shapes = (({1: height, 2: width},),)
    model = compile_function(function, x, dynamic_shapes=shapes)

    assert torch.equal(model(x), function(x))
    with pytest.raises(padc.UsageError, match=r"shape \[2, \?, 8, 3\], got"):
        model(torch.zeros(2, 12, 4, 3))


def test_sizes_that_depend_on_each_other():
    half = Dim("half", min=2, max=8)
    model = compile_function(
        lambda x: x.reshape(-1, 2, 3).sum(1),
        torch.zeros(8, 3),
        dynamic_shapes=(({0: 2 * half},),),
    )
    x = torch.randn(6, 3)

    torch.testing.assert_close(model(x), x.reshape(-1, 2, 3).sum(1))
    with pytest.raises(padc.UsageError, match="is 7, but has to be a multiple of 2"):
        model(torch.zeros(7, 3))
    with pytest.raises(
        padc.UsageError, match="is 18; the model was exported for 4 to 16"
    ):
        model(torch.zeros(18, 3))


def test_sizes_without_a_largest():
    model = compile_function(
        ladder, torch.zeros(3), dynamic_shapes=(({0: Dim.DYNAMIC},),)
    )

    for size in (2, 1000):
        torch.testing.assert_close(model(torch.ones(size)), torch.full((size,), 2.0))


def test_sizes_that_depend_on_values():
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.relu().nonzero() * 2).relu()

    model = compile_function(function, torch.randn(3, 4))

    assert not model.is_native
    for x in (torch.randn(3, 4), -torch.ones(3, 4), torch.ones(3, 4)):
        torch.testing.assert_close(model(x), function(x))


def test_sizes_that_have_to_be_equal():
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, second = x.nonzero()[:, 0], y.nonzero()[:, 0]
        torch._check(first.shape[0] == second.shape[0])
        return first * 2 + second

    def ones(count: int) -> torch.Tensor:
        return torch.tensor([1.0] * count + [0.0] * (8 - count))

    model = compile_function(function, ones(5), ones(5))

    inputs = ones(3), ones(3).flip(0)
    torch.testing.assert_close(model(*inputs), function(*inputs))
    for inputs in ((ones(3), ones(5)), (ones(5), ones(3))):
        with pytest.raises(padc.UsageError, match=r"_assert_scalar': .*Eq\(u0, u1\)"):
            model(*inputs)


def test_a_size_of_values_that_is_squeezed():
    """Exports take it for one that stays."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x[x[:, 0] > 0].squeeze(0) + 1

    model = compile_function(function, torch.ones(4, 2))

    for rows in (1, 2):
        x = torch.ones(4, 2)
        x[rows:] = -1
        torch.testing.assert_close(model(x), function(x))


def test_sizes_that_are_not_negative():
    def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.relu().expand(cast(int, n.item()), 3)

    model = compile_function(function, torch.ones(3), torch.tensor(2))

    assert model(-torch.ones(3), torch.tensor(4)).tolist() == [[0, 0, 0]] * 4
    with pytest.raises(padc.UsageError, match="u0 >= 0"):
        model(torch.ones(3), torch.tensor(-1))


def test_divisors_that_are_values():
    """The CPU traps on a divisor of 0, and on a quotient that is too large."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n, m = cast(int, x.item()), cast(int, y.item())
        return x * 0 + n // m, x * 0 + n % m

    model = compile_function(function, torch.tensor(7), torch.tensor(2))

    for n, m in itertools.product((7, -7, 0, -(2**63), 2**63 - 1), (2, -2, 3, -1)):
        given = torch.tensor(n), torch.tensor(m)
        torch.testing.assert_close(model(*given), function(*given))
    for n in 5, -(2**63):
        model(torch.tensor(n), torch.tensor(0))


def test_divisors_that_are_sizes():
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ones(100 // x.shape[0]), x + 100 % x.shape[1]

    sizes = {0: Dim.AUTO, 1: Dim.AUTO}
    model = compile_function(function, torch.ones(3, 5), dynamic_shapes=((sizes,),))

    assert model.is_native
    for shape in (3, 5), (2, 7), (50, 2):
        torch.testing.assert_close(
            model(torch.ones(shape)), function(torch.ones(shape))
        )


def row(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x[cast(int, index.item())] * 2


def with_row(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.select_scatter(x, x.sum(0), 0, cast(int, index.item())) * 2


@pytest.mark.parametrize("function", [row, with_row])
@pytest.mark.parametrize("check", ["", "1"])
def test_positions_that_are_values(
    function: Callable[..., torch.Tensor], check: str, monkeypatch: pytest.MonkeyPatch
):
    """Those out of range are the nearest ones in range, as indices in tensors are."""
    monkeypatch.setenv("PADC_CHECK", check)
    given, sizes = (torch.ones(4, 3), torch.tensor(1)), {0: Dim("n", min=0, max=9)}
    needs_export(Function(function), given, ((sizes, None),))
    model = compile_function(function, *given, dynamic_shapes=((sizes, None),))

    x = torch.randn(4, 3)
    for index in (0, 3, 4, 2**31, 2**62, -1, -4, -5, -(2**63)):
        nearest = torch.tensor(max(-4, min(index, 3)))
        torch.testing.assert_close(model(x, torch.tensor(index)), function(x, nearest))
    with pytest.raises(padc.UsageError, match=r"is 0, but .*shape\[0\] >= 1"):
        model(torch.ones(0, 3), torch.tensor(0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, index: x.relu().nonzero()[index.item()] + 1,
        lambda x, index: torch.select_scatter(x[x > 0] + 1, x[0], 0, index.item()),
    ],
)
def test_positions_where_there_may_be_none(function: Callable[..., torch.Tensor]):
    x, none, index = torch.tensor([-1.0, 2, 3]), torch.zeros(3), torch.tensor(1)
    needs_export(Function(function), (x, index), None)
    model = compile_function(function, x, index)

    torch.testing.assert_close(model(x, index), function(x, index))
    with pytest.raises(padc.UsageError, match="index 1 out of range"):
        model(none, index)


@pytest.mark.parametrize("size", [2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize(
    "function",
    [
        lambda n: torch.full((n,), 2.0).sum(),
        lambda n: torch.ones(n, n).sum(),
        lambda n: torch.ones(3).repeat(n).cumsum(0),
        lambda n: torch.ones(n, n).softmax(0).sum(),
    ],
)
def test_sizes_that_memory_does_not_have(
    function: Callable[[int], torch.Tensor], size: int
):
    """Their bytes may be more than 64 bits count, too."""

    def sized(n: torch.Tensor) -> torch.Tensor:
        count = cast(int, n.item())
        torch._check(count >= 0)
        return function(count)

    needs_export(Function(sized), (torch.tensor(3),), None)
    model = compile_function(sized, torch.tensor(3))

    torch.testing.assert_close(model(torch.tensor(5)), function(5))
    message = "a size would be|not enough memory"
    with pytest.raises(padc.UsageError, match=message):
        model(torch.tensor(size))


def test_sizes_that_are_differences_of_large_numbers():
    """They wrap as PyTorch's do, and come to the same."""

    def function(x: torch.Tensor) -> torch.Tensor:
        a, b, c = cast(list[int], x.tolist())
        size = a * b - a * c
        torch._check(size >= 0)
        return torch.ones(size) * 2

    needs_export(Function(function), (torch.tensor([3, 5, 2]),), None)
    model = compile_function(function, torch.tensor([3, 5, 2]))

    result = model(torch.tensor([2**20, 2**43 + 3, 2**43]))
    assert result.shape == (3 * 2**20,) and bool((result == 2).all())


def test_long_computations_of_a_size():
    """Each step uses the last one twice or more."""

    def function(x: torch.Tensor) -> torch.Tensor:
        size = cast(int, x.item())
        for _ in range(12):
            size = size * size % 7 + size
        return torch.ones(3) * size

    needs_export(Function(function), (torch.tensor(3),), None)
    model = compile_function(function, torch.tensor(3))

    assert torch.equal(model(torch.tensor(6)), function(torch.tensor(6)))


def test_floats_that_are_values():
    """PyTorch computes with them."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(0, x.item()).relu() + 1

    needs_export(Function(function), (torch.tensor(2.5),), None)
    model = compile_function(function, torch.tensor(2.5))

    torch.testing.assert_close(model(torch.tensor(4.5)), function(torch.tensor(4.5)))


def test_values_that_are_asserted():
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.ops.aten._assert_async.msg(x.sum() > 0, "it has to be positive")
        return x + 1

    model = compile_function(function, torch.ones(3))

    torch.testing.assert_close(model(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(padc.UsageError, match="it has to be positive"):
        model(-torch.ones(3))


# --- with PyTorch ---------------------------------------------------------------------


def test_the_report():
    class Cumulated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.logcumsumexp(x.relu(), 0).exp()

    source, x = Cumulated(), torch.randn(3, 4)
    model = padc.compile(source, (x,))

    torch.testing.assert_close(model(x), source(x))
    lines = model.report().splitlines()
    assert lines[0].startswith("compiled (arena ") and lines[0].endswith(
        ": 1 aten.relu"
    )
    assert lines[1] == "PyTorch: 1 aten.logcumsumexp"
    assert lines[2].endswith(": 1 aten.exp")
    assert lines[3].startswith("not compiled: aten.logcumsumexp of ")
    assert __file__ in lines[4] and "torch.logcumsumexp(x.relu(), 0)" in lines[4]
    assert not model.is_native


def test_gradients_are_not_kept():
    x = torch.randn(3, requires_grad=True)

    assert not compile_function(lambda x: x.logcumsumexp(0) * 2, torch.zeros(3))(
        x
    ).requires_grad


# --- threads --------------------------------------------------------------------------


def test_threads_have_results_of_their_own():
    conv = nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect").eval()
    source = nn.Sequential(conv, nn.ReLU(), conv.__class__(3, 2, 3, padding=1))
    model = padc.compile(source, (torch.zeros(1, 2, 16, 16),))
    inputs = [torch.randn(1, 2, 16, 16) for _ in range(8)]
    expected = [model(x) for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not torch.equal(model(inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong
    torch.testing.assert_close(expected[0], source(inputs[0]).detach())


def test_threads_compile_at_the_same_time():
    results: list[bool] = []

    def work(width: int) -> None:
        model, x = nn.Conv2d(2, 3, 3).eval(), torch.randn(1, 2, 5, width)
        actual = padc.compile(model, (x,))(x)
        results.append(torch.allclose(actual, model(x).detach(), atol=1e-6))

    threads = [threading.Thread(target=work, args=(5 + i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True] * 4


def test_other_threads_run_meanwhile():
    model = compile_function(lambda x: x.sin().exp().sin().exp(), torch.zeros(1 << 23))
    x, out = torch.zeros(1 << 23), torch.empty(1 << 23)
    function: Any = cast(Any, model)._program._functions[0]
    run = function._run
    span: list[float] = []
    ticks: list[float] = []
    done = threading.Event()

    def timed(table: int) -> None:
        span.append(time.perf_counter())
        run(table)
        span.append(time.perf_counter())

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    function._run = timed
    thread = threading.Thread(target=tick)
    thread.start()
    model.run_into([out], x)
    done.set()
    thread.join()

    start, end = span
    quarter = (end - start) / 4
    assert any(start + quarter < tick < end - quarter for tick in ticks)


@pytest.mark.parametrize("size", [2**40, 2**63 - 1])
def test_static_sizes_that_memory_does_not_have(size: int):
    """The result is empty, but the table of windows has a row for each of its columns."""
    with pytest.raises(padc.UsageError, match=r"buffers of|not enough memory"):
        compile_function(lambda x: F.adaptive_avg_pool1d(x, size), torch.ones(0, 2))(
            torch.ones(0, 2)
        )


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_compiled_models_are_not_copied(how: Callable[[object], object]):
    compiled = padc.compile(nn.ReLU(), (torch.zeros(3),))

    with pytest.raises(padc.UsageError, match="neither copied nor pickled"):
        how(compiled)
