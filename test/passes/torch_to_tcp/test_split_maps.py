# pyright: basic
"""What `split-conv-transpose` writes is the transposed convolution, proved by z3."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import z3
from pad_modes import within
from proofs import choose, proves, symbolic
from symbolic_run import (
    Array,
    SymbolicRun,
    argument,
    integers,
    is_computed,
    number_of,
    with_sizes,
)
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Block, Region

from padc.ir import make_context, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import ConvDimsAttr
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.ir.weights import weights_of
from padc.passes.to_linalg.convert_tcp_to_linalg import ConvertTcpToLinalgPass
from padc.passes.to_linalg.convert_torch_to_linalg import ConvertTorchToLinalgPass
from padc.passes.torch_to_tcp.split_conv_transpose import SplitConvTransposePass


def numbered(places: np.ndarray) -> Array:
    """A tensor whose element is that of the kernel at `places`, in order."""
    elements = z3.Function("kernel", z3.IntSort(), z3.IntSort())

    def at(values: np.ndarray, indices: Sequence[Any]) -> Any:
        if not indices:
            return elements(int(values))
        first, *rest = indices
        if z3.is_int_value(z3.simplify(first)):
            return at(values[number_of(first)], rest)
        *some, found = (at(each, rest) for each in values)
        for number, value in reversed([*enumerate(some)]):
            found = choose(first == number, value, found)
        return found

    return Array(places.shape, lambda indices: at(places, indices))


PLANES = ConvDimsAttr.transposed(2)
LAST: Any = ConvDimsAttr((("b", 0, "f"), (0, "o", "i"), ("b", 0, "f")))
ROWS = ConvDimsAttr.transposed(1)
CASES: dict[str, Any] = {
    "a row": (ROWS, 1, 2, 1, (3,), (2,), (1,), [(0, 0)]),
    "cropped": (ROWS, 2, 1, 1, (4,), (2,), (1,), [(-1, -1)]),
    "cropped more below": (ROWS, 1, 1, 1, (5,), (3,), (1,), [(-3, 1)]),
    "expanded": (ROWS, 1, 1, 1, (3,), (2,), (1,), [(1, 2)]),
    "with an output padding": (ROWS, 1, 1, 1, (3,), (3,), (1,), [(-1, 1)]),
    "dilated": (ROWS, 1, 1, 1, (3,), (2,), (3,), [(-2, -1)]),
    "of stride 1": (ROWS, 1, 1, 1, (3,), (1,), (2,), [(-1, 0)]),
    "in two groups": (ROWS, 4, 4, 2, (2,), (2,), (1,), [(0, 0)]),
    "depthwise": (ROWS, 2, 4, 2, (3,), (2,), (1,), [(-1, 0)]),
    "an image": (PLANES, 1, 1, 1, (3, 2), (2, 2), (1, 1), [(-1, 0), (0, 0)]),
    "an image with two strides": (
        *(PLANES, 1, 1, 1, (2, 2), (1, 2), (2, 1), [(-1, -1), (0, 1)]),
    ),
    "channels last": (LAST, 1, 3, 1, (3,), (2,), (1,), [(-1, 0)]),
}
"""
Orders of dimensions, numbers of channels of the input and the result, and of groups,
and for each spatial dimension the size of the kernel, stride, dilation and amounts.
"""


def split(types: Sequence[TensorType[Any]], kernel: np.ndarray, make: Any) -> Any:
    """A function of these arguments, split and lowered; and its weights."""
    ctx = make_context()
    weights = weights_of(ctx)
    name = weights.add("kernel", kernel)
    value = DenseResourceAttr.from_params(name, integers(*kernel.shape))
    block = Block(arg_types=types)
    x, *bias = block.args
    literal = LiteralOp(value)
    cast = ToBuiltinTensorOp(literal.results[0])
    op = make(x, cast.results[0], *bias)
    block.add_ops([literal, cast, op, func.ReturnOp(op.results[0])])
    function = func.FuncOp("main", (types, [op.results[0].type]), Region(block))
    module = ModuleOp([function])
    for each in (
        *(SplitConvTransposePass(), ConvertTorchToLinalgPass()),
        ConvertTcpToLinalgPass(),
    ):
        each.apply(ctx, module)
        if isinstance(each, SplitConvTransposePass):
            assert not any(isinstance(op, tcp.ConvTransposeOp) for op in module.walk())
    attributes = function.arg_attrs.data[len(types) :] if function.arg_attrs else ()
    names = [each.data["padc.weight"].data for each in attributes]  # pyright: ignore
    return function, [weights[name] for name in names]


@proves(
    "split-conv-transpose: phases put together",
    "split-conv-transpose: kernels of phases",
)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("name", CASES)
@symbolic()
def test_the_phases_together_are_the_transposed_convolution(name: str, has_bias: bool):
    dims, inputs, outputs, groups, window, strides, dilations, both = CASES[name]
    amounts = [*itertools.starmap(Amounts, both)]
    in_group, out_group = inputs // groups, outputs // groups
    known = {"i": inputs, "o": out_group, **dict(enumerate(window))}
    shape = [known[role] for role in dims.kernel]
    kernel = np.arange(np.prod(shape)).reshape(shape)
    x_shape, y_shape = (
        [channels if role == "f" else DYNAMIC_INDEX for role in roles]
        for channels, roles in ((inputs, dims.input), (outputs, dims.result))
    )

    def make(x: Any, k: Any, bias: Any = None) -> Any:
        rest = strides, dilations, groups, dims, integers(*y_shape), amounts
        return tcp.ConvTransposeOp(x, k, bias, *rest)

    types = [integers(*x_shape), *[integers(outputs)] * has_bias]
    x = with_sizes(argument("x", len(x_shape)), x_shape)
    arguments = [x, *[with_sizes(argument("bias", 1), [outputs])] * has_bias]
    function, phases = split(types, kernel, make)
    run, (result,) = SymbolicRun.of(function, *arguments, *map(numbered, phases))

    of = dict(zip(dims.input, x.sizes, strict=True))
    sizes: dict[Any, Any] = {"b": of["b"], "f": outputs}
    for role, (taps, stride, dilation, amount) in enumerate(
        zip(window, strides, dilations, amounts, strict=True)
    ):
        whole = stride * (of[role] - 1) + dilation * (taps - 1) + 1
        sizes[role] = whole + amount.lower + amount.upper

    def element(places: Sequence[Any]) -> Any:
        at = dict(zip(dims.result, places, strict=True))
        group = at["f"] / out_group
        total = arguments[1].at([at["f"]]) if has_bias else z3.IntVal(0)
        for channel, *taps in itertools.product(range(in_group), *map(range, window)):
            source: Any = {"b": at["b"], "f": group * in_group + channel}
            weight: Any = {"i": source["f"], "o": at["f"] % out_group}
            reached: list[Any] = []
            for role, tap in enumerate(taps):
                place = at[role] - amounts[role].lower - tap * dilations[role]
                source[role] = place / strides[role]
                weight[role] = z3.IntVal(tap)
                reached.append(place % strides[role] == 0)
                reached.append(within(source[role], of[role]))
            value = x.at([source[role] for role in dims.input])
            value *= numbered(kernel).at([weight[role] for role in dims.kernel])
            total += choose(z3.And(*reached), value, z3.IntVal(0))
        return total

    # A slice to the end stops at 2**63 - 1.
    given = z3.And(*(size < 2**62 for size in of.values()))
    given = z3.And(given, *(size >= 1 for size in (*of.values(), *sizes.values())))
    assert is_computed(
        run, result, [sizes[role] for role in dims.result], element, given
    )
