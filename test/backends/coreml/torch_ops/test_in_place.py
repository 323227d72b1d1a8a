# pyright: basic, reportMissingTypeStubs=false, reportPrivateUsage=false
"""Writes in place in TorchScript graphs, against PyTorch."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor, nn

import padc
from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops import in_place
from padc.backends.coreml.torch_ops.expansions import expand
from padc.backends.coreml.torch_ops.views import location_of, nodes_of

with quiet():
    from coremltools.converters.mil.frontend.torch.torchscript_utils import (
        _expand_and_optimize_ir,
    )

ct: Any = coremltools

pytestmark = [
    pytest.mark.usefixtures("plugin"),
    pytest.mark.filterwarnings("ignore:.*resized", "ignore:Output"),
]

SHAPE = 2, 4, 6


def traced(function: Any, *inputs: Tensor) -> Any:
    with torch.no_grad():
        given = tuple(x.clone() for x in inputs)
        return torch.jit.trace(Function(function).eval(), given, check_trace=False)


def replaced(model: Any) -> Any:
    """The graph of a TorchScript model, without writes in place."""
    graph, parameters, _ = _expand_and_optimize_ir(model)
    expand(graph)
    in_place.replace_writes(graph, parameters)
    return graph


def interpreted(graph: Any, model: Any, *inputs: Tensor) -> Any:
    """What a graph returns, by PyTorch's interpreter."""
    interpret: Any = getattr(torch._C, "_jit_interpret_graph")
    return interpret(graph, (model._c, *inputs))


@pytest.fixture
def interpretable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write ops that PyTorch's interpreter has, in place of padc's own."""
    monkeypatch.setattr(in_place, "CAST", "aten::type_as")


# --- random programs ------------------------------------------------------------------

VIEWS: Sequence[Callable[[Tensor], Any]] = (
    lambda x: x[0],
    lambda x: x[..., 1:],
    lambda x: x[..., -1],
    lambda x: x[1:2],
    lambda x: x[..., ::2],
    lambda x: x.transpose(0, -1),
    lambda x: x.permute(*range(1, x.dim()), 0),
    lambda x: x.unsqueeze(1),
    lambda x: x.squeeze(),
    lambda x: x.squeeze(0),
    lambda x: x.movedim(0, -1),
    lambda x: x.reshape(-1),
    lambda x: x.flatten(0),
    lambda x: x.view(x.shape),
    lambda x: x.view_as(x),
    lambda x: x.narrow(-1, -1, 1),
    lambda x: x.diagonal(),
    lambda x: x.chunk(2, -1)[0],
    lambda x: x.split(1, 0)[0],
    lambda x: x.split([1, x.shape[-1] - 1], -1)[1],
    lambda x: x.tensor_split(2, 0)[0],
    lambda x: x.unbind(0)[0],
    lambda x: x.T if x.dim() == 2 else x.detach(),
    lambda x: x.expand(x.shape),
    lambda x: x.contiguous(),
    lambda x: x.to(torch.float32),
    lambda x: F.dropout(x, 0.5, False),
    lambda x: x.unflatten(0, (1, -1)),
)
WRITES: Sequence[Callable[[Tensor, Tensor], Any]] = (
    lambda x, y: x.add_(1),
    lambda x, y: x.mul_(0.5),
    lambda x, y: x.add_(y.amax()),
    lambda x, y: x.relu_(),
    lambda x, y: x.neg_(),
    lambda x, y: x.zero_(),
    lambda x, y: x.fill_(3),
    lambda x, y: x.fill_(y.amax()),
    lambda x, y: x.copy_(y.amax()),
    lambda x, y: x.copy_((x > 0.5).long()),
    lambda x, y: x.gt_(0.3),
    lambda x, y: x.masked_fill_(x > 0.7, -1.0),
    lambda x, y: x.clamp_(max=0.6),
    lambda x, y: x.__setitem__(..., y.amin()),
    lambda x, y: x.unsqueeze_(0).squeeze_(0),
    lambda x, y: x.transpose_(0, -1),
    lambda x, y: x.index_fill_(0, torch.tensor([0]), 0.25),
    lambda x, y: x.__setitem__((x > 0.4), 9.0),
)


def random_program(seed: int) -> Callable[[Tensor], Any]:
    """A function that makes views of tensors, writes through them, and reads all."""

    def function(x: Tensor) -> Any:
        choose = random.Random(seed)
        tensors = [x * 1, x + 1]
        for _ in range(choose.randrange(3, 9)):
            tensor = choose.choice(tensors)
            if choose.random() < 0.55 and tensor.dim() > 0:
                tensors.append(choose.choice(VIEWS)(tensor))
            elif tensor.dim() > 0 and tensor.numel() > 0:
                choose.choice(WRITES)(tensor, choose.choice(tensors))
        return [tensor.float() for tensor in tensors]

    return function


def possible_programs(count: int) -> Sequence[tuple[int, Any]]:
    """Random programs that PyTorch runs, and their numbers."""
    found: list[tuple[int, Any]] = []
    seed = 0
    while len(found) < count:
        function = random_program(seed)
        try:
            function(torch.rand(SHAPE))
            found.append((seed, function))
        except (RuntimeError, IndexError):
            pass
        seed += 1
    return found


def test_random_programs_compute_the_same(interpretable: None):
    x = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0))

    for seed, function in possible_programs(100):
        model = traced(function, x)
        graph = replaced(model)
        actual = interpreted(graph, model, x.clone())

        writes = [n.kind() for n in graph.nodes() if n.kind().endswith("_")]
        assert writes == []
        for is_, should in zip(actual, function(x.clone()), strict=True):
            assert torch.equal(is_, should), f"program {seed}"


# --- converted ------------------------------------------------------------------------


def convert(model: Any, inputs: Sequence[Any], **options: Any) -> Any:
    with quiet():
        return ct.convert(
            model,
            inputs=list(inputs),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
            **options,
        )


def loaded(converted: Any, folder: Path) -> Any:
    path = folder / "model.mlpackage"
    converted.save(str(path))
    assert padc.coreml.check(path) == []
    return padc.coreml.load(path)


def wrote(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that changes a copy of its first argument, and returns that."""

    def write(x: Tensor, *others: Tensor) -> Tensor:
        y = x * 1
        function(y, *others)
        return y

    return write


def assign(*index: Any) -> Callable[..., Any]:
    return lambda y, p: y.__setitem__(index, 0.25)


def swap(y: Tensor, p: Tensor) -> None:
    y[:, [0, 1]] = y[:, [1, 0]]


def write_chunks(y: Tensor, p: Tensor) -> None:
    first, second = y.chunk(2, 2)
    first.relu_()
    second.neg_()


def read_earlier_view(x: Tensor, p: Tensor) -> Tensor:
    y = x * 1
    view = y[:, 0]
    y.mul_(2)
    return view


def write_rows(x: Tensor, p: Tensor) -> Tensor:
    """coremltools knows the row that stays, and makes integers of it."""
    y = torch.full((3, 4), 2.5)
    for row in range(2):
        y[row].copy_(x[0, row, :4])
    return y


def write_other_dtype(x: Tensor, p: Tensor) -> Tensor:
    y = (x * 8).int()
    y[:, 0] = x[:, 1] * 3
    y[0].mul_(2)
    return y.gt_(3) + y.ge_(1)


WRITTEN: Sequence[Callable[..., Tensor]] = (
    *map(
        wrote,
        (
            lambda y, p: y[:, 0].add_(1),
            lambda y, p: y.__setitem__((slice(None), slice(None), p), 0.0),
            lambda y, p: y.__setitem__((slice(None), slice(None), [0, 2]), 7.0),
            lambda y, p: y[..., :2].sigmoid_(),
            lambda y, p: y[..., 1:3].zero_(),
            lambda y, p: y.view(-1).mul_(2),
            lambda y, p: y.transpose(1, 2).mul_(2),
            lambda y, p: y[0].masked_fill_(y[0] > 0.5, 0.0),
            lambda y, p: torch.add(y, 1, out=y),
            # coremltools has the next ones, as assignments of tensors.
            assign(0, 1),
            assign(slice(None), slice(1, 3)),
            assign(..., slice(None, None, 2)),
            assign(-1, ..., slice(-2, None)),
            lambda y, p: y[1:].copy_(y[:1]),
            lambda y, p: y[:, 1].fill_(3.0),
            swap,
            write_chunks,
        ),
    ),
    read_earlier_view,
    write_rows,
    write_other_dtype,
)


def test_writes_of_converted_models(tmp_path: Path):
    x = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0))
    p = torch.tensor([3])

    def all_of_them(x: Tensor, p: Tensor) -> list[Tensor]:
        return [function(x, p) for function in WRITTEN]

    inputs = ct.TensorType("x", SHAPE), ct.TensorType("p", (1,), np.int32)
    package = loaded(convert(traced(all_of_them, x, p), inputs), tmp_path)

    actual = package.predict({"x": x.numpy(), "p": np.array([3], np.int32)})
    for is_, should in zip(actual.values(), all_of_them(x, p), strict=True):
        np.testing.assert_allclose(is_, should.numpy(), atol=1e-6)


def test_writes_of_dynamic_size(tmp_path: Path):
    def function(x: Tensor) -> Tensor:
        y = x * 1
        y[:, 1:].mul_(2)
        y[:, :, -1] = 0
        y.flatten(1)[:, :2].neg_()
        y.transpose(1, 2).squeeze_(0).add_(x.shape[2])
        first, _ = y.split([1, 3], 1)
        first.add_(1)
        return y

    shape = 2, 4, ct.RangeDim(4, 12, default=6)
    model = traced(function, torch.rand(SHAPE))
    package = loaded(convert(model, [ct.TensorType("x", shape)]), tmp_path)

    x = torch.rand(2, 4, 9)
    (actual,) = package.predict({"x": x.numpy()}).values()
    np.testing.assert_allclose(actual, function(x).numpy(), atol=1e-6)


class Cache(nn.Module):
    """States that are written whole, at a position, and through views."""

    whole: Tensor
    rows: Tensor
    parts: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("whole", "rows", "parts"):
            self.register_buffer(name, torch.zeros(1, 2, 8, dtype=torch.float16))

    def forward(self, x: Tensor, p: Tensor) -> list[Tensor]:
        x = x.half()
        self.whole.mul_(0.5).add_(x)
        self.rows[:, :, p] = x
        old = self.parts[:, 0]
        self.parts[:, :, :-1] = self.parts[:, :, 1:].clone()
        self.parts[:, 1:, 6:].clamp_(max=0.5)
        self.parts[:, :, -1:] += x
        return [self.whole * 2, self.rows * 2, self.parts.float(), old + 1]


def test_states_that_are_written_through_views(tmp_path: Path):
    names = [name for name, _ in Cache().named_buffers()]
    states = [ct.TensorType(shape=(1, 2, 8), dtype=np.float16)] * 3
    x, p = torch.rand(1, 2, 1), torch.tensor([3])
    with torch.no_grad():
        model = torch.jit.trace(Cache(), (x, p), check_trace=False)
    converted = convert(
        model,
        [ct.TensorType("x", x.shape), ct.TensorType("p", (1,), np.int32)],
        states=[ct.StateType(*each) for each in zip(states, names, strict=True)],
        minimum_deployment_target=ct.target.iOS18,
    )

    package, reference = loaded(converted, tmp_path), Cache()
    state = package.make_state()

    for position in 0, 3, 5:
        p = np.array([position], np.int32)
        actual = package.predict({"x": (x + position).numpy(), "p": p}, state)
        expected = reference(x + position, torch.from_numpy(p))
        for is_, should in zip(actual.values(), expected, strict=True):
            np.testing.assert_allclose(is_, should.float(), rtol=2e-3)


# --- refused --------------------------------------------------------------------------


def write_of_unknown_view(x: Tensor) -> Tensor:
    y = x * 1
    y.unfold(0, 2, 2).mul_(2)
    return y


def write_of_unmarked_view(x: Tensor) -> Tensor:
    """PyTorch's schema does not say that this is a view."""
    y = x[0] * 1
    torch.meshgrid(y, indexing="ij")[0].mul_(2)
    return y


def write_without_functional_op(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:2].fill_diagonal_(1.0)
    return y + x


def write_of_another_size(x: Tensor) -> Tensor:
    y = torch.zeros(0)
    torch.add(x, 1, out=y)
    return y


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (write_of_unknown_view, "may change another tensor"),
        (write_of_unmarked_view, "may change another tensor"),
        (write_without_functional_op, "that has other views"),
        (write_of_another_size, "may change the size"),
    ],
)
def test_refusals_tell_the_line_of_python(function: Any, message: str):
    with pytest.raises(padc.UnsupportedError, match=message) as raised:
        replaced(traced(function, torch.rand(3, 3)))

    (problem,) = raised.value.problems
    assert problem.location is not None
    assert problem.location.file == __file__
    assert "_(" in problem.location.text or "out=" in problem.location.text
    assert problem.hint is not None and "torch.export" in problem.hint


def in_a_loop(x: Tensor) -> Tensor:
    for i in range(3):
        x[i].add_(1)
    return x


def test_lines_of_scripted_functions():
    graph = torch.jit.script(in_a_loop).graph
    found = {location_of(node) for node in nodes_of(graph)} - {None}

    assert {(each.file, each.text) for each in found if each} == {
        (__file__, "for i in range(3):"),
        (__file__, "x[i].add_(1)"),
    }


def test_graphs_without_types_are_refused_where_they_are_not_clear(tmp_path: Path):
    """A saved model does not say whether a reshaped tensor is a copy."""

    def function(x: Tensor) -> Tensor:
        y = x * 1
        y.reshape(-1).mul_(2)
        return y

    torch.jit.save(traced(function, torch.rand(SHAPE)), tmp_path / "model.pt")

    with pytest.raises(padc.UnsupportedError, match="may change another tensor"):
        replaced(torch.jit.load(tmp_path / "model.pt"))


class Conditional(nn.Module):
    """A condition that writes to a tensor from outside."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        if bool(x.sum() > 0):
            y.mul_(2)
        return y


class Inside(nn.Module):
    """A condition that writes to a tensor of its own."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        y[0] = 2.0
        if bool(x.sum() > 0):
            z = y + 1
            z[0].mul_(2)
            y = z
        return y


def test_blocks_write_to_their_own_tensors_only(interpretable: None):
    with pytest.raises(padc.UnsupportedError, match="outside of its block"):
        replaced(torch.jit.script(Conditional()))

    model, x = torch.jit.script(Inside()), torch.rand(SHAPE)
    graph = replaced(model)
    assert torch.equal(interpreted(graph, model, x), Inside()(x))


class Shared(nn.Module):
    """Two buffers in the same memory."""

    whole: Tensor
    first: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.zeros(4))
        self.register_buffer("first", self.whole[:2])

    def forward(self, x: Tensor) -> Tensor:
        self.first.add_(x)
        return self.whole * 2


def test_buffers_that_share_memory_are_refused():
    model = torch.jit.trace(Shared(), torch.ones(2), check_trace=False)

    with pytest.raises(padc.UnsupportedError, match="a buffer by another name"):
        replaced(model)
