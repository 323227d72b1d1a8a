# pyright: basic
"""Machine code whose work several threads share."""

import os
import signal
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import native_programs
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

import padc
from padc.backends.native import native_function, thread_team
from padc.compiled_models.native_model import NativeModel
from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import ConvertBuffersToLlvmPass

COUNTS = (1, 2, 3, 7)


class Copies(nn.Module):
    """Rows that are so long that memcpy copies them."""

    @override
    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [torch.cat([x, x[:, 1:]], 1) for x in inputs]


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_long_rows(threads: int):
    inputs = tuple(
        torch.randn(3, size).to(dtype)
        for size in (8193, 32769, 70001)
        for dtype in (torch.float32, torch.float16, torch.bool)
    )

    compiled = padc.compile(Copies(), inputs, threads=threads)

    assert compiled.is_native
    for actual, expected in zip(compiled(*inputs), Copies()(*inputs), strict=True):
        assert torch.equal(actual, expected)


class Kernels(nn.Module):
    """Ops of each kind of kernel, on odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 19, 3, stride=2, padding=1)
        self.packed = nn.Conv2d(19, 35, 3, padding=2, dilation=2)
        self.pointwise = nn.Conv2d(35, 130, 1)
        self.depthwise = nn.Conv2d(130, 130, 3, groups=130, padding=1)
        self.up = nn.ConvTranspose2d(35, 5, 4, stride=2, padding=1)
        self.line = nn.Conv1d(5, 7, 3)
        self.linear = nn.Linear(35, 83)

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        a = F.relu(self.packed(F.gelu(self.first(x))))
        b = self.depthwise(self.pointwise(a))
        rows = a.flatten(2).transpose(1, 2)
        twice = torch.cat([rows, rows], 1)
        grid = torch.tanh(x[:, :2].permute(0, 2, 3, 1))
        return [
            b,
            F.max_pool2d(b, 3, 2, 1),
            F.avg_pool2d(b, 2),
            self.up(a),
            self.line(x.flatten(2)[:, :1].expand(-1, 5, -1)),
            F.layer_norm(self.linear(rows), [83]),
            torch.softmax(rows @ rows.transpose(1, 2), -1),
            # Elementwise ops after sums in one part, in several, and of few rows.
            F.silu(self.linear(rows)),
            torch.relu(twice.mT @ twice),
            torch.tanh(rows[:, :3] @ rows[:, :9].mT + 1),
            b.sum((0, 2, 3)),
            b.mean(),
            x.repeat(1, 1, 1, 60).sum((0, 1, 2)),
            a.argmax(1),
            F.grid_sample(x, grid, align_corners=False),
            F.grid_sample(x, grid, "nearest", "reflection", align_corners=True),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.pad(x, (1, 2, 3, 4)),
            F.pad(x, (3, 2, 1, 4), "reflect"),
            F.pad(x, (3, 2, 1, 4), "replicate"),
            F.pad(x, (3, 2, 1, 4), "circular"),
            x.double().exp().flatten(),
            x.cumsum(3),
            torch.cat([x, x.roll(1, 2)], 1),
            (x > 0).to(torch.uint8),
        ]


class Smaller(nn.Module):
    """Some of these, for sizes that are dynamic."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 19, 3, padding=1)
        self.linear = nn.Linear(19, 83)

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        a = F.relu(self.conv(x))
        b = self.linear(a.permute(0, 2, 3, 1))
        sums = [x.sum(1), x.sum((0, 1)), x.mean((0, 2, 3))]
        return [a, b, torch.softmax(b, -1), F.pad(x, (1, 2, 0, 1)), *sums, x.exp()]


@pytest.fixture
def always_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the work of each op, however little it is; keep no such code."""
    make = partial(ConvertBuffersToLlvmPass, grain=1)
    module = "padc.passes.buffers_to_llvm.convert_buffers_to_llvm"
    monkeypatch.setattr(f"{module}.ConvertBuffersToLlvmPass", make)
    monkeypatch.setenv("PADC_CACHE_DIR", "")


@pytest.fixture(scope="module")
def shared() -> Generator[tuple[NativeModel, nn.Module, Tensor]]:
    """A model for two threads, the same in PyTorch, and its input."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()).eval()
    x = torch.randn(1, 16, 64, 63)
    compiled = padc.compile(model, (x,), threads=2)
    assert isinstance(compiled, NativeModel)
    yield compiled, model.requires_grad_(False), x


def with_threads(model: padc.CompiledModel, threads: int | None) -> None:
    assert isinstance(model, NativeModel)
    for function in model._program._functions:
        assert isinstance(function, native_function.NativeFunction)
        function._threads = threads


@pytest.mark.parametrize(
    "kind", ["static", pytest.param("dynamic", marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("always_shared")
def test_results_have_the_same_bits_for_any_number_of_threads(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    torch.manual_seed(0)
    is_static = kind == "static"
    model = Kernels().eval() if is_static else Smaller().eval()
    x = torch.randn(2, 3, 37, 45)
    batch, height = Dim("batch"), Dim("height", min=4)
    dynamic = None if is_static else ({0: batch, 2: height},)
    compiled = padc.compile(model, (x,), dynamic_shapes=dynamic, threads=1)
    assert compiled.is_native, compiled.report()
    given = x if is_static else torch.randn(3, 3, 29, 45)
    alone = compiled(given)
    torch.testing.assert_close(alone, model(given), rtol=1e-4, atol=1e-4)

    for threads in COUNTS[1:]:
        with_threads(compiled, threads)
        for expected, actual in zip(alone, compiled(given), strict=True):
            assert torch.equal(actual, expected)


def test_one_thread_needs_no_runtime(
    shared: tuple[NativeModel, nn.Module, Tensor], monkeypatch: pytest.MonkeyPatch
):
    def runtime() -> None:
        raise AssertionError

    _, model, x = shared
    monkeypatch.setattr(thread_team, "runtime", runtime)
    compiled = padc.compile(model, (x,), threads=1)

    torch.testing.assert_close(compiled(x), model(x))


def test_without_a_runtime_there_is_one_thread(
    shared: tuple[NativeModel, nn.Module, Tensor], monkeypatch: pytest.MonkeyPatch
):
    compiled, model, x = shared
    monkeypatch.setattr(thread_team, "runtime", lambda: None)

    torch.testing.assert_close(compiled(x), model(x))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Generator[list[int]]:
    """The threads of each team that was started."""
    counts: list[int] = []

    @native_programs.START
    def start(function: int, data: int, threads: int, flags: int) -> None:
        counts.append(threads)
        native_programs.start(function, data, threads, flags)

    runtime = native_programs.runtime(start)
    monkeypatch.setattr(thread_team, "runtime", lambda: runtime)
    yield counts


def test_there_are_as_many_threads_as_pytorch_uses_at_the_call(
    shared: tuple[NativeModel, nn.Module, Tensor], counted: list[int]
):
    _, model, x = shared
    compiled = padc.compile(model, (x,))
    before = torch.get_num_threads()

    try:
        for count in (3, 1, 2):
            torch.set_num_threads(count)
            compiled(x)
    finally:
        torch.set_num_threads(before)

    assert counted == [3, 2]


@pytest.mark.parametrize("size", [4, 32])
def test_little_work_is_not_shared(size: int, counted: list[int]):
    # The kernel for 32x32 pixels is split, but not worth a start of threads.
    x = torch.randn(1, 8, size, size)
    compiled = padc.compile(nn.Conv2d(8, 16, 3, padding=1), (x,), threads=2)

    compiled(x)

    assert counted == []


def test_python_threads_call_at_the_same_time(
    shared: tuple[NativeModel, nn.Module, Tensor],
):
    compiled, model, _ = shared
    inputs = torch.randn(24, 1, 16, 64, 63)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(compiled, inputs))

    torch.testing.assert_close(results, [model(x) for x in inputs])


class Average(nn.Module):
    """A model that changes a large buffer."""

    mean: Tensor

    def __init__(self, x: Tensor):
        super().__init__()
        self.register_buffer("mean", torch.zeros_like(x))

    @override
    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.5).add_(x)
        return self.mean + 1


class Sorted(nn.Module):
    """A model of which PyTorch runs a part."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return torch.sort(x * 2, 1)[0] + 1


class ToBfloat16(nn.Module):
    """A model whose result numpy has no dtype for."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.bfloat16()


class Changing(nn.Module):
    """A model that PyTorch runs, since it changes its input."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1) * 2


def calls_in_which_pytorch_copies(x: Tensor) -> dict[str, Callable[[], object]]:
    """Calls whose work is partly PyTorch's."""
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()).eval()
    compiled = padc.compile(model.requires_grad_(False), (x,))
    (name,), out = compiled.input_names, torch.empty_like(x)
    other = x.to(memory_format=torch.channels_last)
    average = padc.compile(changes := Average(x), (x,))
    part = padc.compile(Sorted(), (x,))
    eager = padc.compile(Changing(), (x,))
    half = padc.compile(ToBfloat16(), (x,))
    graph = torch.compile(model, backend="padc")
    graph(other)
    assert not part.is_native and not eager.is_native
    return {
        "none": lambda: compiled(x),
        "input": lambda: compiled(other),
        "named input": lambda: compiled.run_named({name: other}),
        "input and output": lambda: compiled.run_into([out], other),
        "buffer": lambda: average(x),
        "part": lambda: part(x),
        "part and output": lambda: part.run_into([out], x),
        "model": lambda: eager(x),
        "model and output": lambda: eager.run_into([out], x),
        "array": lambda: half(x.numpy()),
        "graph": lambda: graph(other),
        "compilation": lambda: padc.compile(changes, (x,)),
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_runs_after_a_fork():
    """PyTorch's own ops would wait for threads of the parent."""
    x, before = torch.randn(1, 16, 64, 63), torch.get_num_threads()
    torch.set_num_threads(2)
    calls = calls_in_which_pytorch_copies(x)
    assert torch.relu(x).isfinite().all()  # By two threads.

    failed: list[str] = []
    for name, call in calls.items():
        if (child := os.fork()) == 0:
            signal.alarm(20)
            call()
            os._exit(0 if torch.get_num_threads() == 2 else 1)
        if os.waitpid(child, 0)[1] != 0:
            failed.append(name)
    torch.set_num_threads(before)

    assert not failed


class Compiled(Dataset[Tensor]):
    """The results of a compiled model."""

    def __init__(self, model: Callable[[Tensor], Tensor], x: Tensor):
        self.model, self.x = model, x

    def __len__(self) -> int:
        return 4

    @override
    def __getitem__(self, index: int) -> Tensor:
        return self.model(self.x + index)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_workers_of_a_data_loader_call_it(
    shared: tuple[NativeModel, nn.Module, Tensor],
):
    compiled, _, x = shared
    expected = [compiled(x + i) for i in range(4)]

    loader = DataLoader(
        Compiled(compiled, x),
        batch_size=None,
        num_workers=2,
        multiprocessing_context="fork",
        timeout=60,
    )

    assert all(map(torch.equal, loader, expected))


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2", 2**31])
def test_threads_are_a_positive_integer(threads: int):
    with pytest.raises(padc.UsageError, match=f"threads is {threads!r}"):
        padc.compile(nn.ReLU(), (torch.zeros(1),), threads=threads)
