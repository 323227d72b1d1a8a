# pyright: basic
"""`torch.compile(model, backend="padc")` compared with PyTorch itself."""

import copy
import gc
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.torch_version import TorchVersion

import padc
from padc import dynamo
from padc.backends.native.native_function import NativeFunction
from padc.compiled import compile_exported
from padc.compiled_model import CompiledModel
from padc.compiled_models.native_model import NativeModel
from padc.errors import UsageError


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Generator[list[CompiledModel]]:
    """The models that padc compiled during the test."""
    models: list[CompiledModel] = []

    def kept(*args: Any) -> CompiledModel:
        models.append(compile_exported(*args))
        return models[-1]

    monkeypatch.setattr(dynamo, "compile_exported", kept)
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield models
    torch._dynamo.reset()


def network() -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 6 * 6, 5),
    )
    for _ in range(3):  # for statistics that are not the initial ones
        model(torch.randn(4, 3, 6, 6) * 2 + 1)
    return model.eval()


def compare(function: Callable[..., Any], *calls: Any) -> None:
    """Compare results, and inputs after the call, with and without padc."""
    fast = torch.compile(function, backend="padc")
    for args in calls:
        args = args if isinstance(args, tuple) else (args,)
        same = copy.deepcopy(args)
        torch.testing.assert_close(fast(*args), function(*same))
        torch.testing.assert_close(args, same)


def test_layouts_are_those_that_the_code_around_was_told(
    compiled: list[CompiledModel],
):
    def function(x: torch.Tensor) -> torch.Tensor:
        y = (x + 1).permute(0, 2, 3, 1)
        torch._dynamo.graph_break()
        return y.permute(0, 3, 1, 2).view(2, -1)

    last = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(3, 4, 3).eval()

    with torch.no_grad():
        compare(function, torch.randn(2, 3, 8, 8))
        actual, expected = torch.compile(conv, backend="padc")(last), conv(last)

    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected)
    assert len(compiled) >= 2


def test_batch_sizes_that_vary(compiled: list[CompiledModel]):
    sizes = (1, 2, 5, 2)
    with torch.no_grad():
        compare(network(), *(torch.randn(n, 3, 6, 6) for n in sizes))

    # Dynamo makes a graph for the first size, and one for all others.
    assert len(compiled) == 2 and all(model.is_native for model in compiled)


class Resized(nn.Module):
    """Its sizes, as integers, tensors and strides."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="replicate")

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = self.conv(torch.cat([x, y], 2))
        last = z.permute(0, 2, 3, 1) / z.shape[2]
        return nn.functional.max_pool2d(z, 2), last, x.shape[2] + y.shape[2]


def test_sizes_that_vary_are_compiled_once(compiled: list[CompiledModel]):
    model = Resized().eval()
    fast = torch.compile(model, backend="padc", dynamic=True)
    with torch.no_grad():
        for batch, height, width in [(2, 5, 6), (3, 9, 8), (4, 7, 13), (2, 40, 5)]:
            x = torch.randn(batch, 3, height, width)
            y = torch.randn(batch, 3, height + 4, width)
            actual, expected = fast(x, y), model(x, y)
            torch.testing.assert_close(actual, expected)
            for a, b in zip(actual, expected, strict=True):
                assert isinstance(a, int) or a.stride() == b.stride()

    if torch.__version__ < TorchVersion("2.9"):
        pytest.skip("PyTorch 2.8 does not export sums of sizes: one for each shape")
    assert len(compiled) == 1 and compiled[0].is_native


def test_floats_of_layers_are_constants(compiled: list[CompiledModel]):
    model = nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.LeakyReLU(0.1)).eval()
    fast = torch.compile(model, backend="padc", dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 4):
            x = torch.arange(n)
            torch.testing.assert_close(fast(x), model(x))

    assert len(compiled) == 1 and compiled[0].is_native


def test_floats_that_vary(compiled: list[CompiledModel]):
    compare(
        lambda x, f: torch.relu(x) * f,
        *((torch.randn(n, 3), f) for n, f in ((2, 1.5), (3, 2.5), (4, -0.5), (4, 2.5))),
    )

    assert compiled and all(model.is_native for model in compiled)


def test_first_calls_of_several_threads():
    """In Dynamo, one thread may trace while another one runs a graph."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval()
    fast = torch.compile(model, backend="padc", dynamic=True)

    def calls(first: int) -> None:
        with torch.no_grad():
            for n in range(5):
                x = torch.randn(2 + (first + n) % 5, 8)
                torch.testing.assert_close(fast(x), model(x))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(calls, range(4)))


def test_floats_that_never_repeat(compiled: list[CompiledModel]):
    """They are constants of the graph: it is compiled a few times, then left."""
    limit = torch._dynamo.config.recompile_limit
    fast = torch.compile(lambda x, f: x * f, backend="padc", dynamic=True)
    x = torch.ones(3)

    with torch.no_grad(), pytest.warns(UserWarning, match=f"{limit} kinds"):
        for n in range(limit + 4):
            torch.testing.assert_close(fast(x, n + 0.5), x * (n + 0.5))

    assert len(compiled) <= limit


def test_what_is_remembered_of_sizes_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dynamo, "MOST_KINDS", 3)
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(dynamo.backend(graph, inputs))
        return graphs[-1]

    fast = torch.compile(nn.Tanh(), backend=backend, dynamic=True)
    before = fake_modes()
    for n in range(2, 9):
        torch.testing.assert_close(fast(torch.ones(n)), torch.ones(n).tanh())

    assert len(graphs) == 1 and 0 < len(graphs[0]._compiled) <= 3
    assert fake_modes() <= before + 2


def fake_modes() -> int:
    """The number of modes of fake tensors that are alive."""
    gc.collect()
    return sum(type(x) is FakeTensorMode for x in gc.get_objects())


def test_sizes_that_a_compiled_graph_does_not_take(compiled: list[CompiledModel]):
    """torch.export decides by the size of the first call, Dynamo does not."""
    compare(
        lambda x: nn.functional.interpolate(x, scale_factor=3.0, mode="area"),
        *(torch.randn(1, 2, n) for n in (10, 7, 5)),
    )

    assert len(compiled) == 3 and all(model.is_native for model in compiled)


def test_inference_mode(compiled: list[CompiledModel]):
    with torch.inference_mode():
        compare(network(), torch.randn(2, 3, 6, 6))

    assert len(compiled) == 1


def test_weights_that_change_later():
    model, x = network(), torch.randn(2, 3, 6, 6)
    fast = torch.compile(model, backend="padc")
    with torch.no_grad():
        fast(x)
        for tensor in model.state_dict().values():
            tensor.mul_(2)

        torch.testing.assert_close(fast(x), model(x))


def test_a_training_step(compiled: list[CompiledModel]):
    model, x = network().train(), torch.randn(2, 3, 6, 6)
    other = copy.deepcopy(model)

    torch.compile(model, backend="padc")(x).square().sum().backward()
    other(x).square().sum().backward()

    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(model.state_dict(), other.state_dict())
    assert not compiled


def test_no_gradient_is_needed_where_the_model_says_so(compiled: list[CompiledModel]):
    weight = nn.Parameter(torch.randn(4))

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return (x * weight).relu()

    compare(function, torch.randn(3, 4))

    assert compiled[-1].is_native


def test_an_op_that_padc_does_not_have(compiled: list[CompiledModel]):
    compare(lambda x: torch.logcumsumexp(x.relu(), 0) * 2, torch.randn(3, 4))

    assert not compiled[0].is_native


def test_arguments_that_are_numbers(compiled: list[CompiledModel]):
    x, y = torch.randn(3, 4), torch.randn(5, 4)

    compare(lambda x: (x.relu(), x.shape[0] * 2, x.shape), x, y)
    compare(lambda x, n: x * n, (x, 2), (x, 3), (x, 4))

    assert all(model.is_native for model in compiled)


def mutate(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1).relu()


def local_mutation(x: torch.Tensor) -> torch.Tensor:
    return x.relu().add_(1)


def test_tensors_changed_in_place(compiled: list[CompiledModel]):
    compare(local_mutation, torch.randn(3, 4))
    with pytest.warns(UserWarning, match="to PyTorch: the model changes its input"):
        compare(mutate, torch.randn(3, 4))

    assert len(compiled) == 1


def a_result_and_views(x: torch.Tensor) -> tuple[Any, ...]:
    y = x.exp().t()
    return y[1], y, 3, y.unsqueeze(0), y[:, 1:], x.sin()


def test_views_of_results(compiled: list[CompiledModel]):
    x = torch.randn(3, 4)
    expected = a_result_and_views(x)

    actual = torch.compile(a_result_and_views, backend="padc")(x)

    assert len(compiled) == 1 and actual[2] == 3
    places = 0, 1, 3, 4, 5
    for i in places:
        torch.testing.assert_close(actual[i], expected[i])
        assert actual[i].stride() == expected[i].stride()
    actual[1].zero_()
    assert [bool(actual[i].any()) for i in places] == [False] * 4 + [True]


def parts_of_a_result(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.exp()
    return y[0], y[1]


def bits_of_a_result(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.exp()
    return y, y.view(torch.int32)


@pytest.mark.parametrize("function", [parts_of_a_result, bits_of_a_result])
def test_results_that_share_memory_otherwise(function: Callable[..., Any]):
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match="not views of one of them"):
        actual = torch.compile(function, backend="padc")(x)

    torch.testing.assert_close(actual, function(x))


def test_views_stay_views(compiled: list[CompiledModel]):
    x = torch.randn(3, 4)
    fast = torch.compile(lambda x: (x.relu(), x.view(-1)), backend="padc")
    with pytest.warns(UserWarning, match="an output shares memory with an input"):
        _, view = fast(x)

    assert view.data_ptr() == x.data_ptr() and not compiled


def test_one_warning_for_a_graph_however_often_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
):
    # Threads of an earlier test may leave the filters of warnings changed: Python's
    # catch_warnings, which PyTorch calls, is not for several threads.
    messages: list[str] = []
    monkeypatch.setattr(dynamo, "warn", messages.append)
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return dynamo.backend(graph, inputs)

    fast = torch.compile(mutate, backend=backend)
    for n in 2, 2, 3, 4, 5:
        fast(torch.randn(n, 4))

    # At most one graph for the first size, and one for all others.
    assert 1 <= len(graphs) <= 2
    warned = [text for text in messages if "the model changes its input" in text]
    assert len(warned) == len(messages) == len(graphs)


def test_integers_that_never_repeat(compiled: list[CompiledModel]):
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match="compiled for 8 kinds of arguments"):
        compare(lambda x, n: x.relu() + n, *((x, n) for n in range(2, 13)))

    # 8 of the graph for all integers. Dynamo may make one for the first integer alone.
    assert len(compiled) in (8, 9)


def frozen(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(model, backend="padc", options={"freezing": True})


def packed_count(model: CompiledModel) -> int:
    """The number of weights that are packed once."""
    assert isinstance(model, NativeModel)
    return sum(
        parameter.split is not None
        for part in model._program.stored.parts
        if part.signature is not None
        for parameter in part.signature.parameters
    )


def test_frozen_weights_are_packed_until_they_change(compiled: list[CompiledModel]):
    conv, norm = nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64)
    model = nn.Sequential(conv, norm).eval()
    fast, x = frozen(model), torch.randn(2, 64, 16, 16)
    update = nn.BatchNorm2d(64, momentum=0.5)

    def change_statistics() -> None:
        update.running_mean = norm.running_mean
        update(torch.randn(4, 64, 3, 3) + 2)

    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: conv.weight.mul_(2),
        lambda: conv.weight.add_(0.1),
        lambda: setattr(conv.weight, "data", torch.randn(64, 64, 3, 3)),
        lambda: model.load_state_dict(
            {k: v + 1 for k, v in model.state_dict().items()}
        ),
        lambda: setattr(conv, "weight", nn.Parameter(torch.randn(64, 64, 3, 3))),
        change_statistics,
    ]
    with torch.no_grad():
        for number, change in enumerate(changes):
            change()
            for _ in range(2):
                torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
            assert len(compiled) == number + 1 and packed_count(compiled[-1])


def test_frozen_weights_of_all_sizes_and_with_gradients(compiled: list[CompiledModel]):
    model = network()
    fast, optimizer = frozen(model), torch.optim.SGD(model.parameters(), 0.01)
    for size in (2, 3, 4):
        x = torch.randn(size, 3, 6, 6)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x))
        fast(x).square().mean().backward()
        optimizer.step()

    assert compiled and all(model.is_native for model in compiled)


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}])
def test_frozen_weights_and_optimizers(
    options: dict[str, Any], compiled: list[CompiledModel]
):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(3, 8)
    other, fast = nn.Linear(8, 8), frozen(model)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
    for trained in (other, model):
        trained(x).sum().backward()
        torch.optim.Adam(trained.parameters(), lr=0.5, **options).step()
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x))

    assert len(compiled) == 2


def test_memory_of_frozen_weights_is_not_used_again():
    model, x = nn.Linear(64, 64, bias=False), torch.randn(3, 64)
    fast = frozen(model)
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(fast(x), model(x))
            for _ in range(2):
                model.weight.data = model.weight.data * 1.5


class Recurrent(nn.Module):
    state: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.full([1, 3], torch.nan))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.state.nan_to_num()
        torch._dynamo.graph_break()
        self.state.copy_(y)
        return y * 2


def test_weights_that_change_with_each_call_are_not_frozen():
    model, x = Recurrent(), torch.randn(1, 3)
    same, fast = copy.deepcopy(model), frozen(model)
    with torch.no_grad(), pytest.warns(UserWarning, match="each call changes them"):
        for _ in range(12):
            torch.testing.assert_close(fast(x), same(x))


def test_frozen_statistics_may_be_nan(compiled: list[CompiledModel]):
    model, x = nn.BatchNorm1d(3).eval(), torch.randn(2, 3)
    fast = frozen(model)
    with torch.no_grad():
        model.load_state_dict({**model.state_dict(), "running_mean": x[0] * torch.nan})
        for _ in range(3):
            assert fast(x).isnan().all()

    assert len(compiled) == 1


class Counter(nn.Module):
    count: torch.Tensor
    sum: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("sum", torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.sum.mul_(0.5).add_(x)
        return self.sum / self.count


@pytest.mark.parametrize("make", [Counter, lambda: nn.BatchNorm1d(3)])
def test_what_a_graph_changes_is_not_frozen(
    make: Callable[[], nn.Module], compiled: list[CompiledModel]
):
    model = make()
    same, fast = copy.deepcopy(model), frozen(model)
    with torch.no_grad(), pytest.warns(UserWarning, match="to PyTorch"):
        for _ in range(3):
            x = torch.randn(2, 3)
            torch.testing.assert_close(fast(x), same(x))

    torch.testing.assert_close(model.state_dict(), same.state_dict())
    assert not compiled


def test_options_set_the_number_of_threads(compiled: list[CompiledModel]):
    fast = torch.compile(nn.Tanh(), backend="padc", options={"threads": 3})
    with torch.no_grad():
        fast(torch.zeros(4))

    (model,) = compiled
    assert isinstance(model, NativeModel)
    (function,) = model._program._functions
    assert isinstance(function, NativeFunction)
    assert function._threads == 3


@pytest.mark.parametrize(
    "options, message",
    [
        ({"threads": 0}, "threads is 0"),
        ({"thread": 1}, "torch.compile was given the options 'thread'"),
        ({"freezing": 1}, "the option 'freezing' is 1, not a bool"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str):
    graph = torch.fx.symbolic_trace(nn.Tanh())

    with pytest.raises(padc.UsageError, match=message):
        dynamo.backend(graph, [torch.zeros(4)], options=options)


@pytest.mark.parametrize("dynamic", [True, False])
def test_pads_that_leave_too_little_to_wrap(dynamic: bool):
    """PyTorch returns memory that nobody wrote."""

    def pad(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x * 2, (3, -2), mode="circular")

    fast = torch.compile(pad, backend="padc", dynamic=dynamic)
    for size in (8, 4, 5, 3):
        x = torch.rand(1, 2, size)
        if size >= 5:
            torch.testing.assert_close(fast(x), pad(x))
        else:
            with pytest.raises(UsageError, match="memory that nobody wrote") as raised:
                fast(x)
            if not dynamic:
                assert "return F.pad(x * 2" in str(raised.value)


def test_constant_pads_that_crop_more_than_there_is():
    def pad(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (4, -6)) * 2

    fast = torch.compile(pad, backend="padc", dynamic=True)
    for size in (9, 6, 12):
        x = torch.rand(2, size)
        torch.testing.assert_close(fast(x), pad(x))
    with pytest.raises(RuntimeError, match="non-negative"):
        fast(torch.rand(2, 5))


def test_strides_on_which_a_graph_depends_may_be_other_ones() -> None:
    x = torch.rand(4, 6)

    compare(lambda x: (x * 2).as_strided((3,), (1,)), x, x.t().contiguous().t())
    compare(lambda x: x.as_strided((3,), (1,), 2) + 0, x, torch.rand(8, 6)[4:])
