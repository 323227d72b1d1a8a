"""
Recurrent layers and cells.

An lstm without projection and an rnn are Core ML's own ops. Core ML's gru multiplies
the state by the reset gate before the matrix product, PyTorch after it. iOS18's has an
option `reset_after`, but coremltools' own comparison with PyTorch is marked as failing
(mil/ops/tests/iOS18/test_recurrent.py, test_pytorch_parity). So a gru is unrolled, as
is an lstm with projection, and any layer whose weights are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.weights import Array
from padc.passes.aten.refusals import TRAINING
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    concat,
    expand_dims,
    reshape,
    size_of,
    split,
    squeeze,
    transpose,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor

Item = TypeVar("Item")

States: TypeAlias = list[Tensor]
"""The hidden state, and for an lstm the state of the cell."""


@dataclass(frozen=True)
class Parameters:
    """The weights of a cell, in PyTorch's order of gates."""

    input: Tensor
    """Shape [gates * hidden, inputs]."""
    hidden: Tensor
    """Shape [gates * hidden, outputs]."""
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None
    """Shape [outputs, hidden]."""

    def of_input(self, x: Tensor) -> Tensor:
        return product(x, self.input, self.input_bias)

    def of_hidden(self, h: Tensor) -> Tensor:
        return product(h, self.hidden, self.hidden_bias)


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`x @ weight.T + bias`: a `linear` if the parameters are constants."""
    shape = [*x.shape[:-1], weight.shape[0]]
    if not mil.is_constant(weight.ssa):
        y = x.emit("matmul", shape, x=x, y=weight, transpose_y=True)
    elif bias is not None and mil.is_constant(bias.ssa):
        return x.emit("linear", shape, x=x, weight=weight, bias=bias)
    else:
        y = x.emit("linear", shape, x=x, weight=weight)
    return y if bias is None else y + bias


# --- cells ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer."""

    name: str
    """Core ML's op."""
    gates: tuple[int, ...]
    """The number of gates in each part of the input's product, as `step` takes them."""
    step: Callable[[Sequence[Tensor], States, Parameters], States]
    """The next states."""
    is_exact: bool
    """Whether Core ML's op computes what PyTorch's does."""
    activation: str | None = None
    """The activation of Core ML's `rnn`."""

    def parts(self, product: Tensor) -> list[Tensor]:
        """The parts of the input's product that `step` takes."""
        size = product.shape[-1] // sum(self.gates)
        return split(product, [count * size for count in self.gates], product.rank - 1)


def lstm_step(parts: Sequence[Tensor], states: States, p: Parameters) -> States:
    """c' = f c + i g; h' = o tanh(c')."""
    h, c = states
    gates = parts[0] + p.of_hidden(h)
    size = gates.shape[-1] // 4
    i, f, g, o = split(gates, [size] * 4, gates.rank - 1)
    c = f.unary("sigmoid") * c + i.unary("sigmoid") * g.unary("tanh")
    h = o.unary("sigmoid") * c.unary("tanh")
    if p.projection is not None:
        h = product(h, p.projection, None)
    return [h, c]


def gru_step(parts: Sequence[Tensor], states: States, p: Parameters) -> States:
    """n = tanh(x_n + r h_n); h' = n + z (h - n)."""
    (h,) = states
    x_rz, x_n = parts
    h_rz, h_n = GRU.parts(p.of_hidden(h))
    gates = (x_rz + h_rz).unary("sigmoid")
    r, z = split(gates, [h.shape[-1]] * 2, gates.rank - 1)
    n = (x_n + r * h_n).unary("tanh")
    return [n + z * (h - n)]


def rnn_step(activation: str) -> Callable[..., States]:
    """h' = activation(x + h)."""

    def step(parts: Sequence[Tensor], states: States, p: Parameters) -> States:
        return [(parts[0] + p.of_hidden(states[0])).unary(activation)]

    return step


LSTM = Cell("lstm", (4,), lstm_step, is_exact=True)
GRU = Cell("gru", (2, 1), gru_step, is_exact=False)
RNN = {
    name: Cell("rnn", (1,), rnn_step(name), is_exact=True, activation=name)
    for name in ("relu", "tanh")
}


def lower_cell(call: MilCall, cell: Cell, states: States) -> States:
    """A single step of a cell."""
    parameters = Parameters(
        call.tensor("w_ih"),
        call.tensor("w_hh"),
        call.optional("b_ih"),
        call.optional("b_hh"),
        None,
    )
    parts = cell.parts(parameters.of_input(call.tensor("input")))
    return cell.step(parts, states, parameters)


@lowers("aten.lstm_cell")
def lower_lstm_cell(call: MilCall) -> list[Tensor]:
    return lower_cell(call, LSTM, call.tensors("hx"))


@lowers("aten.gru_cell")
def lower_gru_cell(call: MilCall) -> list[Tensor]:
    return lower_cell(call, GRU, [call.tensor("hx")])


@lowers("aten.rnn_tanh_cell")
def lower_rnn_tanh_cell(call: MilCall) -> list[Tensor]:
    return lower_cell(call, RNN["tanh"], [call.tensor("hx")])


@lowers("aten.rnn_relu_cell")
def lower_rnn_relu_cell(call: MilCall) -> list[Tensor]:
    return lower_cell(call, RNN["relu"], [call.tensor("hx")])


# --- layers ---------------------------------------------------------------------------


@lowers("aten.lstm.input")
def lower_lstm(call: MilCall) -> list[Tensor]:
    return lower_layers(call, LSTM, call.tensors("hx"))


@lowers("aten.gru.input")
def lower_gru(call: MilCall) -> list[Tensor]:
    return lower_layers(call, GRU, [call.tensor("hx")])


@lowers("aten.rnn_tanh.input")
def lower_rnn_tanh(call: MilCall) -> list[Tensor]:
    return lower_layers(call, RNN["tanh"], [call.tensor("hx")])


@lowers("aten.rnn_relu.input")
def lower_rnn_relu(call: MilCall) -> list[Tensor]:
    return lower_layers(call, RNN["relu"], [call.tensor("hx")])


def lower_layers(call: MilCall, cell: Cell, states: States) -> list[Tensor]:
    """All layers: the sequence of the last one, and the final states of all."""
    count = call.integer("num_layers")
    if call.boolean("train") and call.number("dropout") and count > 1:
        raise Obstacle(*TRAINING)
    directions = 2 if call.boolean("bidirectional") else 1
    weights = call.tensors("params")
    size = len(weights) // (count * directions)
    cells = [parameters_of(call, each) for each in batches(weights, size)]
    x = call.tensor("input")
    if call.boolean("batch_first"):
        x = transpose(x, [1, 0, 2])
    finals: list[States] = []
    by_layer = [split(state, [directions] * count, 0) for state in states]
    for each, initial in zip(batches(cells, directions), zip(*by_layer)):
        x, final = lower_layer(call, cell, x, [*initial], each)
        finals.append(final)
    if call.boolean("batch_first"):
        x = transpose(x, [1, 0, 2])
    return [x, *(concat(each, 0) for each in zip(*finals))]


def batches(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """The items, `size` at a time."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def parameters_of(call: MilCall, weights: Sequence[Tensor]) -> Parameters:
    """The parameters of a cell from their list, as PyTorch orders it."""
    rest = iter(weights)
    biases = call.boolean("has_biases")
    return Parameters(
        next(rest),
        next(rest),
        next(rest) if biases else None,
        next(rest) if biases else None,
        next(rest, None),
    )


def lower_layer(
    call: MilCall, cell: Cell, x: Tensor, states: States, cells: Sequence[Parameters]
) -> tuple[Tensor, States]:
    """
    A layer in one direction, or in both.

    `x` has the shape [time, batch, inputs], a state [directions, batch, size].
    """
    if cell.is_exact and all(map(is_constant, cells)):
        own = lower_own_lstm if cell is LSTM else lower_own_rnn
        return own(call, cell, x, states, cells)
    if x.shape[0] == DYNAMIC_INDEX:
        raise Obstacle(
            f"Core ML has no {cell.name} that computes as PyTorch's does: it is "
            "unrolled, which needs a known length, and that of the sequence varies",
            "export with a fixed length, pad the sequence to it, or use an nn.LSTM",
        )
    return in_each_direction(unrolled(cell), x, states, cells)


Run: TypeAlias = Callable[[Tensor, States, Parameters, bool], tuple[Tensor, States]]
"""
Runs a layer in one direction: the sequence, and the final states.

It takes the sequence, the states of shape [1, batch, size], the parameters, and whether
time runs backwards.
"""


def in_each_direction(
    run: Run, x: Tensor, states: States, cells: Sequence[Parameters]
) -> tuple[Tensor, States]:
    """`run` for each direction; sequences are joined, and states stacked."""
    by_direction = [split(state, [1] * len(cells), 0) for state in states]
    made = [
        run(x, [*initial], parameters, index == 1)
        for index, (parameters, initial) in enumerate(zip(cells, zip(*by_direction)))
    ]
    sequences, finals = zip(*made)
    return concat(sequences, 2), [concat(each, 0) for each in zip(*finals)]


def unrolled(cell: Cell) -> Run:
    """A layer as one step after the other."""

    def run(
        x: Tensor, states: States, parameters: Parameters, backwards: bool
    ) -> tuple[Tensor, States]:
        length = x.shape[0]
        parts = cell.parts(parameters.of_input(x))
        times = [*zip(*(split(part, [1] * length, 0) for part in parts))]
        outputs: list[Tensor] = []
        for time in reversed(times) if backwards else times:
            states = cell.step(time, states, parameters)
            outputs.append(states[0])
        return concat(outputs[::-1] if backwards else outputs, 0), states

    return run


def is_constant(parameters: Parameters) -> bool:
    """Whether Core ML's own op takes these parameters."""
    biases = parameters.input_bias, parameters.hidden_bias
    weights = parameters.input, parameters.hidden, *biases
    return parameters.projection is None and all(
        weight is None or mil.is_constant(weight.ssa) for weight in weights
    )


# --- Core ML's own ops ----------------------------------------------------------------


def own_type(call: MilCall, name: str, x: Tensor) -> Tensor:
    """`x` in a type that Core ML's op has; before iOS17 that is float32."""
    form = mil.OPS[name].form(call.build.target)
    assert form is not None
    has_half = "fp16" in form.inputs["x"].domain
    return x if has_half else x.to(f32)


def lower_own_lstm(
    call: MilCall, cell: Cell, x: Tensor, states: States, cells: Sequence[Parameters]
) -> tuple[Tensor, States]:
    x = own_type(call, "lstm", x)
    directions, hidden = len(cells), states[0].shape[2]
    time, batch, _ = x.shape
    initial_h, initial_c = (
        joined_directions(own_type(call, "lstm", state)) for state in states
    )
    weights = [constants(call, x, each, in_own_order) for each in cells]
    size = directions * hidden
    y, *finals = x.emit_all(
        "lstm",
        [[time, batch, size], [batch, size], [batch, size]],
        x=x,
        initial_h=initial_h,
        initial_c=initial_c,
        **weights[0],
        **{f"{name}_back": value for name, value in weights[-1].items()}
        if directions == 2
        else {},
        direction="bidirectional" if directions == 2 else "forward",
        output_sequence=True,
    )
    return y, [apart(state, directions) for state in finals]


def in_own_order(array: Array) -> Array:
    """The gates i, f, g, o as Core ML has them: i, f, o, g."""
    i, f, g, o = np.split(array, 4)
    return np.concatenate([i, f, o, g])


def joined_directions(state: Tensor) -> Tensor:
    """From [directions, batch, size] to [batch, directions * size]."""
    directions, _, size = state.shape
    if directions == 1:
        return squeeze(state, [0])
    batch = size_of(state, 1)
    return reshape(transpose(state, [1, 0, 2]), [batch, directions * size])


def apart(state: Tensor, directions: int) -> Tensor:
    """From [batch, directions * size] to [directions, batch, size]."""
    if directions == 1:
        return expand_dims(state, [0])
    size = state.shape[1] // directions
    split_up = reshape(state, [size_of(state, 0), directions, size])
    return transpose(split_up, [1, 0, 2])


def lower_own_rnn(
    call: MilCall, cell: Cell, x: Tensor, states: States, cells: Sequence[Parameters]
) -> tuple[Tensor, States]:
    def run(
        x: Tensor, states: States, parameters: Parameters, backwards: bool
    ) -> tuple[Tensor, States]:
        (state,) = (squeeze(state, [0]) for state in states)
        state = own_type(call, "rnn", state)
        time, batch, _ = x.shape
        shape = [time, batch, state.shape[1]]
        y, final = x.emit_all(
            "rnn",
            [shape, state.shape],
            x=x.emit("reverse", x.shape, x=x, axes=[0]) if backwards else x,
            initial_h=state,
            **constants(call, x, parameters, lambda array: array),
            output_sequence=True,
            activation=cell.activation,
        )
        y = y.emit("reverse", shape, x=y, axes=[0]) if backwards else y
        return y, [expand_dims(final, [0])]

    return in_each_direction(run, own_type(call, "rnn", x), states, cells)


def constants(
    call: MilCall, x: Tensor, p: Parameters, order: Callable[[Array], Array]
) -> dict[str, Tensor]:
    """The constant inputs of Core ML's op, of `x`'s type; both biases are added."""
    made = {"weight_ih": call.array(p.input), "weight_hh": call.array(p.hidden)}
    if p.input_bias is not None and p.hidden_bias is not None:
        made["bias"] = call.array(p.input_bias) + call.array(p.hidden_bias)
    return {
        name: call.weight(f"recurrent.{name}", order(array), x.type)
        for name, array in made.items()
    }


# --- packed sequences -----------------------------------------------------------------


@lowers(
    *(f"aten.{name}.data" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    *("aten._pack_padded_sequence", "aten._pad_packed_sequence"),
)
def lower_packed(call: MilCall) -> NoReturn:
    raise Obstacle(
        "a packed sequence, whose shape depends on the lengths that it is given",
        "call the layer with the padded sequence",
    )
