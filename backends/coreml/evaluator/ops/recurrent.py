"""Recurrent layers, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS17 and
iOS18 recurrent.py, and where those differ or are silent, by what its tests expect
(mil/ops/tests/iOS14/test_recurrent.py):

- gru applies the reset gate before the product with W_ho (`get_numpy_prediction_gru`);
- lstm clips the cell's state, not its gate, and the peephole of the output gate sees
  the new state (`_get_numpy_prediction_lstm_single_batch`);
- activations have their usual parameters: hard_sigmoid is 0.2 x + 0.5, scaled_tanh is
  tanh, linear is x (`_apply_act`);
- a reverse layer returns its sequence in the order of computation.

Inside a layer nothing is rounded to fp16.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import Float, op
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.limits import steps
from padc.backends.coreml.evaluator.values.types import Array

Activation = Literal[
    "hard_sigmoid", "linear", "relu", "scaled_tanh", "sigmoid", "sigmoid_hard", "tanh"
]
Direction = Literal["forward", "reverse"]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "scaled_tanh": np.tanh,
    "sigmoid": kernels.sigmoid,
    "sigmoid_hard": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "tanh": np.tanh,
}


def _scan(
    x: Array, step: Callable[[Array], Array], direction: str, sequence: bool
) -> tuple[Array, Array]:
    """The results of `step` for each x[t], or only the last; and the last one again."""
    order = reversed(steps(len(x))) if direction == "reverse" else steps(len(x))
    outputs = [step(x[t]) for t in order]
    return np.stack(outputs if sequence else outputs[-1:]), outputs[-1]


def _or_zeros(values: Array | None, size: int) -> Array:
    return np.zeros(size, np.float32) if values is None else values


@op()
def rnn(
    x: Float,
    initial_h: Float,
    weight_ih: Float,
    weight_hh: Float,
    bias: Float | None = None,
    direction: Direction = "forward",
    output_sequence: bool = False,
    activation: Activation = "tanh",
) -> tuple[Array, Array]:
    bias = _or_zeros(bias, len(weight_hh))
    h = initial_h

    def step(x_t: Array) -> Array:
        nonlocal h
        h = ACTIVATIONS[activation](x_t @ weight_ih.mT + h @ weight_hh.mT + bias)
        return h

    return _scan(x, step, direction, output_sequence)


@op()
def gru(
    x: Float,
    initial_h: Float,
    weight_ih: Float,
    weight_hh: Float,
    bias: Float | None = None,
    direction: Direction = "forward",
    output_sequence: bool = False,
    recurrent_activation: Activation = "sigmoid",
    activation: Activation = "tanh",
    reset_after: bool = False,
    input_bias: Float | None = None,
) -> tuple[Array, Array]:
    """The last two inputs are iOS18's. `bias` is the bias inside of `reset_after`."""
    w_hr, w_ho, w_hz = np.split(weight_hh, 3)
    b_r, b_o, b_z = np.split(_or_zeros(bias, len(weight_hh)), 3)
    gate, act = ACTIVATIONS[recurrent_activation], ACTIVATIONS[activation]
    h = initial_h

    def step(x_t: Array) -> Array:
        nonlocal h
        from_x = x_t @ weight_ih.mT + _or_zeros(input_bias, len(weight_ih))
        x_r, x_o, x_z = np.split(from_x, 3, -1)
        r = gate(x_r + h @ w_hr.mT + b_r)
        z = gate(x_z + h @ w_hz.mT + b_z)
        if reset_after:
            o = act(x_o + r * (h @ w_ho.mT + b_o))
        else:
            o = act(x_o + (r * h) @ w_ho.mT + b_o)
        h = (1 - z) * o + z * h
        return h

    return _scan(x, step, direction, output_sequence)


@op()
def lstm(
    x: Float,
    initial_h: Float,
    initial_c: Float,
    weight_ih: Float,
    weight_hh: Float,
    bias: Float | None = None,
    peephole: Float | None = None,
    weight_ih_back: Float | None = None,
    weight_hh_back: Float | None = None,
    bias_back: Float | None = None,
    peephole_back: Float | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    output_sequence: bool = False,
    recurrent_activation: Activation = "sigmoid",
    cell_activation: Activation = "tanh",
    activation: Activation = "tanh",
    clip: float | None = None,
) -> tuple[Array, Array, Array]:
    gate, cell, act = (
        ACTIVATIONS[name]
        for name in (recurrent_activation, cell_activation, activation)
    )

    def run(
        direction: str,
        h: Array,
        c: Array,
        weight_ih: Array,
        weight_hh: Array,
        bias: Array | None,
        peephole: Array | None,
    ) -> tuple[Array, Array, Array]:
        bias = _or_zeros(bias, len(weight_hh))
        p_i, p_f, p_o = np.split(_or_zeros(peephole, 3 * h.shape[-1]), 3)

        def step(x_t: Array) -> Array:
            nonlocal h, c
            gates = x_t @ weight_ih.mT + h @ weight_hh.mT + bias
            i, f, o, z = np.split(gates, 4, -1)
            c = gate(f + c * p_f) * c + gate(i + c * p_i) * cell(z)
            c = c if clip is None else np.clip(c, -clip, clip)
            h = gate(o + c * p_o) * act(c)
            return h

        return *_scan(x, step, direction, output_sequence), c

    if direction != "bidirectional":
        return run(
            direction, initial_h, initial_c, weight_ih, weight_hh, bias, peephole
        )
    if weight_ih_back is None or weight_hh_back is None:
        raise ValueError("bidirectional without weights for the way back")
    h, h_back = np.split(initial_h, 2, -1)
    c, c_back = np.split(initial_c, 2, -1)
    there = run("forward", h, c, weight_ih, weight_hh, bias, peephole)
    outputs, h, c = run(
        *("reverse", h_back, c_back),
        *(weight_ih_back, weight_hh_back, bias_back, peephole_back),
    )
    # Here the backward sequence is in the order of x.
    back = np.flip(outputs, 0), h, c
    y, h, c = (np.concatenate(pair, -1) for pair in zip(there, back, strict=True))
    return y, h, c
