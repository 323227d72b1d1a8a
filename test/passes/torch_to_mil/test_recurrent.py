# pyright: basic
"""Recurrent layers and cells in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from functions import Several, check_each
from torch import Tensor, nn

import padc
from padc.errors import UnsupportedError
from padc.ir import make_context
from padc.ir.text import Parser
from padc.passes.torch_to_mil.convert_torch_to_mil import ConvertTorchToMilPass


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


class Layers(Several):
    """Several layers of the same inputs, whose results are in one list each."""

    def __init__(self, layers: Mapping[str, nn.Module]):
        super().__init__({key: Flat(layer) for key, layer in layers.items()})
        self.layers = nn.ModuleList(layers.values())


class Flat:
    """The results of a layer as a list of tensors."""

    def __init__(self, layer: nn.Module):
        self.layer = layer

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        x, *states = inputs
        if isinstance(self.layer, nn.LSTM | nn.LSTMCell) and states:
            return [*leaves(self.layer(x, tuple(states)))]
        return [*leaves(self.layer(*inputs))]


def leaves(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [tensor for part in result for tensor in leaves(part)]


def check(
    layers: Mapping[str, nn.Module],
    *inputs: Tensor,
    target: str = "iOS18",
    dtype: torch.dtype = torch.float32,
    **tolerances: Any,
) -> padc.Program:
    model = Layers(copy.deepcopy(dict(layers))).eval().to(dtype)
    inputs = tuple(x.to(dtype) for x in inputs)
    program = padc.convert(model, inputs, target=target)
    check_each(model.functions, program.run(*inputs), *inputs, **tolerances)
    return program


UNIDIRECTIONAL = {
    "lstm": nn.LSTM(3, 4, 2),
    "lstm without bias": nn.LSTM(3, 4, 2, bias=False),
    "gru": nn.GRU(3, 4, 2),
    "gru without bias": nn.GRU(3, 4, 2, bias=False),
    "rnn": nn.RNN(3, 4, 2),
    "rnn with relu": nn.RNN(3, 4, 2, nonlinearity="relu", bias=False),
}

BIDIRECTIONAL = {
    "lstm": nn.LSTM(3, 4, 2, bidirectional=True),
    "gru": nn.GRU(3, 4, 2, bidirectional=True),
    "rnn": nn.RNN(3, 4, 2, bidirectional=True),
}

SINGLE = {
    "lstm": nn.LSTM(3, 4, batch_first=True),
    "lstm both ways": nn.LSTM(3, 4, bidirectional=True, batch_first=True),
    "gru": nn.GRU(3, 4, batch_first=True),
    "gru both ways": nn.GRU(3, 4, bidirectional=True, batch_first=True),
    "rnn both ways": nn.RNN(3, 4, bidirectional=True, batch_first=True),
    "lstm with projection": nn.LSTM(3, 4, proj_size=2, batch_first=True),
    "all": nn.LSTM(3, 4, 2, False, True, 0.5, True, proj_size=2),
}


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
def test_layers_from_zeros(target: str) -> None:
    check(SINGLE, torch.randn(2, 3, 3), target=target)


def test_a_sequence_of_one_step() -> None:
    check(SINGLE, torch.randn(2, 1, 3))


@pytest.mark.parametrize("layers", [UNIDIRECTIONAL, BIDIRECTIONAL], ids=["one", "two"])
def test_layers_from_given_states(layers: dict[str, nn.Module]) -> None:
    count = 4 if layers is BIDIRECTIONAL else 2
    x, h, c = torch.randn(3, 2, 3), torch.randn(count, 2, 4), torch.randn(count, 2, 4)
    has_cell = {"lstm", "lstm without bias"} & layers.keys()

    check({name: layers[name] for name in has_cell}, x, h, c)
    check({name: layers[name] for name in layers.keys() - has_cell}, x, h)


def test_a_projection_of_given_states() -> None:
    layers = {"lstm": nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True)}

    check(layers, torch.randn(3, 2, 3), torch.randn(4, 2, 2), torch.randn(4, 2, 4))


@pytest.mark.parametrize("target", ["iOS16", "iOS17"])
def test_layers_in_float16(target: str) -> None:
    x = torch.randn(2, 3, 3)
    check(SINGLE, x, target=target, dtype=torch.float16, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("shape", [(2, 3), (3,)], ids=str)
def test_cells(shape: tuple[int, ...]) -> None:
    cells = {
        "lstm": nn.LSTMCell(3, 4),
        "lstm without bias": nn.LSTMCell(3, 4, bias=False),
        "gru": nn.GRUCell(3, 4),
        "rnn": nn.RNNCell(3, 4),
        "rnn with relu": nn.RNNCell(3, 4, bias=False, nonlinearity="relu"),
    }

    check(cells, torch.randn(shape))


def test_large_values() -> None:
    x = torch.randn(2, 3, 3) * 200
    x[0, 1, 0] = torch.inf
    x[1, 2, 0] = torch.nan

    names = "lstm both ways", "gru", "lstm with projection"
    check({name: SINGLE[name] for name in names}, x, equal_nan=True)


def test_a_batch_that_varies() -> None:
    model = Layers(SINGLE).eval()
    batch = torch.export.Dim("batch", max=9)
    program = padc.convert(
        model, (torch.randn(2, 3, 3),), dynamic_shapes=(({0: batch},),)
    )

    for size in (2, 7):
        x = torch.randn(size, 3, 3)
        check_each(model.functions, program.run(x), x)


def test_computed_weights() -> None:
    """Core ML's ops take constants: layers with other weights are unrolled."""

    def layer(function: Any, gates: int, states: int) -> Any:
        def run(x: Tensor, w_ih: Tensor, w_hh: Tensor, b: Tensor) -> list[Tensor]:
            size = 4 * gates
            weights = [w_ih[:size] * 2, w_hh[:size], b[:size], b[-size:] * 3]
            h = torch.ones(1, 2, 4)
            state = (h, h) if states == 2 else h
            options = (True, 1, 0.0, False, False, False)
            return [*function(x, state, weights, *options)]

        return run

    functions = {
        "lstm": layer(torch.lstm, 4, 2),
        "gru": layer(torch.gru, 3, 1),
        "rnn": layer(torch.rnn_tanh, 1, 1),
    }
    inputs = [torch.randn(shape) for shape in ((3, 2, 3), (16, 3), (16, 4), (16,))]
    program = padc.convert(Several(functions), tuple(inputs))

    check_each(functions, program.run(*inputs), *inputs)


def test_core_mls_own_ops() -> None:
    layers = {
        "lstm": nn.LSTM(3, 4, 2, bidirectional=True),
        "rnn": nn.RNN(3, 4, 2),
    }
    text = check(layers, torch.randn(3, 2, 3)).mlir()

    assert (text.count("mil.lstm"), text.count("mil.rnn")) == (2, 2)


def test_dropout_in_training_is_refused() -> None:
    model = nn.Sequential(nn.LSTM(3, 4, 2, dropout=0.5))

    with pytest.raises(UnsupportedError, match=r"lstm.*draws random numbers"):
        padc.convert(model.train(), (torch.randn(3, 2, 3),))


DYNAMIC = """
func.func @main(
  %x: !torch.vtensor<[?,2,3],f32>, %h: !torch.vtensor<[1,2,4],f32>,
  %u: !torch.vtensor<[12,3],f32>, %v: !torch.vtensor<[12,4],f32>
) -> !torch.vtensor<[?,2,4],f32> {
  %w = torch.prim.ListConstruct %u, %v
    : (!torch.vtensor<[12,3],f32>, !torch.vtensor<[12,4],f32>) -> !torch.list<vtensor>
  %no = torch.constant.bool false
  %one = torch.constant.int 1
  %p = torch.constant.float 0.0
  %y, %n = torch.operator "aten.gru.input"(
      %x, %h, %w, %no, %one, %p, %no, %no, %no)
    : (!torch.vtensor<[?,2,3],f32>, !torch.vtensor<[1,2,4],f32>, !torch.list<vtensor>,
      !torch.bool, !torch.int, !torch.float, !torch.bool, !torch.bool, !torch.bool)
    -> (!torch.vtensor<[?,2,4],f32>, !torch.vtensor<[1,2,4],f32>)
  return %y : !torch.vtensor<[?,2,4],f32>
}
"""

PACKED = """
func.func @main(
  %x: !torch.vtensor<[4,3],f32>, %sizes: !torch.vtensor<[3],si64>
) -> !torch.vtensor<[?,?,3],f32> {
  %no = torch.constant.bool false
  %n = torch.constant.int 3
  %p = torch.constant.float 0.0
  %y, %z = torch.operator "aten._pad_packed_sequence"(%x, %sizes, %no, %p, %n)
    : (!torch.vtensor<[4,3],f32>, !torch.vtensor<[3],si64>, !torch.bool, !torch.float,
      !torch.int) -> (!torch.vtensor<[?,?,3],f32>, !torch.vtensor<[?],si64>)
  return %y : !torch.vtensor<[?,?,3],f32>
}
"""


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (DYNAMIC, "gru.*known length, and that of the sequence varies"),
        (PACKED, "lengths"),
    ],
    ids=["dynamic", "packed"],
)
def test_what_core_ml_cannot_do_is_refused(program: str, message: str) -> None:
    """`torch.export` fixes the length, and refuses packed sequences, on its own."""
    ctx = make_context()
    module = Parser(ctx, program).parse_module()

    with pytest.raises(UnsupportedError, match=message):
        ConvertTorchToMilPass().apply(ctx, module)
