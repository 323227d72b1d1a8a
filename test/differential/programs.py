# pyright: basic
"""
Random programs of ATen ops, each with the inputs that it is run on.

A program is a list of calls. What a call computes in eager mode is kept, so that the
next one can be drawn to fit, and any of them can be replaced by an input.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from choices import Choices
from torch import Tensor
from torch.fx import Graph

aten = torch.ops.aten
MOST_ELEMENTS = 4096
"""Larger results are not drawn."""


@dataclass(frozen=True)
class Ref:
    """A value of the program, by its number: inputs first, then results of calls."""

    number: int


@dataclass
class Call:
    """A call of an ATen op with one result; its arguments contain `Ref`s."""

    target: Any
    args: tuple[Any, ...]


@dataclass
class Program:
    """Inputs, and calls in order."""

    inputs: list[Tensor]
    calls: list[Call]
    outputs: list[int]
    """The numbers of the values that are returned."""

    def values(self) -> list[Tensor]:
        """The inputs and the results of all calls, in eager mode."""
        values = [each.clone() for each in self.inputs]
        for call in self.calls:
            values.append(call.target(*resolved(call.args, values)))
        return values

    def used(self) -> set[int]:
        """The numbers of the values that the outputs need."""
        found: set[int] = set()
        pending = list(self.outputs)
        while pending:
            if (number := pending.pop()) not in found:
                found.add(number)
                if (place := number - len(self.inputs)) >= 0:
                    pending += [ref.number for ref in refs(self.calls[place].args)]
        return found

    def graph(self) -> Graph:
        """The program as PyTorch's graph of calls, with the types of the values."""
        graph, nodes, values = Graph(), [], self.values()
        for number in range(len(self.inputs)):
            nodes.append(graph.placeholder(f"x{number}"))
        for call in self.calls:
            nodes.append(graph.call_function(call.target, resolved(call.args, nodes)))
        for node, value in zip(nodes, values, strict=True):
            node.meta["val"] = value
        graph.output(tuple(nodes[number] for number in self.outputs))
        return graph

    def source(self) -> str:
        """A test in Python that computes the same in eager mode."""
        count = len(self.inputs)
        lines = ["inputs = ["]
        lines += [f"    {literal(each)}," for each in self.inputs]
        names = ", ".join(f"v{number}" for number in range(count))
        lines += ["]", "", f"def program({names}):"]
        for number, call in enumerate(self.calls, count):
            args = ", ".join(map(described, call.args))
            lines.append(f"    v{number} = torch.ops.{call.target}({args})")
        results = ", ".join(f"v{number}" for number in self.outputs)
        return "\n".join([*lines, f"    return {results},"])


def described(argument: Any) -> str:
    if isinstance(argument, Ref):
        return f"v{argument.number}"
    if isinstance(argument, list):
        return f"[{', '.join(map(described, argument))}]"
    return repr(argument)


def literal(x: Tensor) -> str:
    if not x.numel():
        return f"torch.empty({list(x.shape)}, dtype={x.dtype})"
    if torch.equal(x, plain(x)):
        numbers = f"(torch.arange({x.numel()}) % 17 - 8).div(4)"
        return f"{numbers}.reshape({list(x.shape)}).to({x.dtype})"
    return f"torch.tensor({x.tolist()}, dtype={x.dtype})"


def plain(x: Tensor) -> Tensor:
    """Numbers for an input like `x` that are written in a line."""
    numbers = (torch.arange(x.numel()) % 17 - 8).div(4)
    return numbers.reshape(x.shape).to(x.dtype)


def resolved(args: Any, values: Sequence[Any]) -> Any:
    """The arguments with values in place of references."""
    return pytree.tree_map_only(Ref, lambda ref: values[ref.number], args)


def refs(args: Any) -> list[Ref]:
    return [each for each in pytree.tree_leaves(args) if isinstance(each, Ref)]


def without_dead(program: Program) -> Program:
    """The same outputs, without calls and inputs that they do not need."""
    used = sorted(program.used())
    places = {number: place for place, number in enumerate(used)}
    count = len(program.inputs)
    return Program(
        [program.inputs[number] for number in used if number < count],
        [
            renumbered(program.calls[number - count], places)
            for number in used
            if number >= count
        ],
        [places[number] for number in program.outputs],
    )


def renumbered(call: Call, places: dict[int, int]) -> Call:
    args = pytree.tree_map_only(Ref, lambda ref: Ref(places[ref.number]), call.args)
    return Call(call.target, args)


# --- drawing --------------------------------------------------------------------------


class Draw(Choices):
    """A program that is being drawn."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.values: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []
        self.results: list[Any] = []
        """The key of each value: ("input", i) or ("call", i)."""

    def input(self, shape: Sequence[int], dtype: torch.dtype) -> Ref:
        self.inputs.append(self.numbers(shape, dtype))
        self.results.append(("input", len(self.inputs) - 1))
        self.values.append(self.inputs[-1])
        return Ref(len(self.values) - 1)

    def pick(self, wanted: Callable[[Tensor], bool] = lambda x: True) -> Ref | None:
        """A random value that satisfies `wanted`, more likely a late one, or None."""
        numbers = [i for i, x in enumerate(self.values) if wanted(x)]
        if not numbers:
            return None
        place = max(self.integer(0, len(numbers) - 1) for _ in range(2))
        return Ref(numbers[place])

    def value(self, ref: Ref) -> Tensor:
        return self.values[ref.number]

    def call(self, target: Any, *args: Any) -> bool:
        """
        Add a call, unless eager mode refuses it or its result is too large.

        Few empty results are kept: Core ML takes none as an output.
        """
        try:
            result = target(*resolved(args, self.values))
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            return False
        if result.numel() > MOST_ELEMENTS or (not result.numel() and self.chance(0.95)):
            return False
        self.calls.append((target, args))
        self.results.append(("call", len(self.calls) - 1))
        self.values.append(result)
        return True

    def program(self) -> Program:
        """What was drawn; the values that no call uses are returned."""
        count = len(self.inputs)
        places = {
            number: i if kind == "input" else count + i
            for number, (kind, i) in enumerate(self.results)
        }
        calls = [renumbered(Call(*each), places) for each in self.calls]
        used = {ref.number for call in calls for ref in refs(call.args)}
        total = count + len(calls)
        outputs = [number for number in range(count, total) if number not in used]
        return without_dead(Program(list(self.inputs), calls, outputs))


def is_image(x: Tensor) -> bool:
    """Whether convolutions, pools and grids take `x`."""
    return x.is_floating_point() and 3 <= x.dim() <= 5 and bool(x.numel())


def spatial(x: Tensor) -> int:
    return x.dim() - 2


PADS = ("constant", "reflect", "replicate", "circular")


def pad(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: 0 < x.dim() <= 5)) is None:
        return False
    mode, rank = draw.choice(PADS), draw.value(x).dim()
    count = draw.integer(1, rank if mode == "constant" else max(1, min(rank - 1, 3)))
    amounts = draw.integers(2 * count, -1, 3)
    fill = draw.choice([0.0, 1.5, -2.0]) if mode == "constant" else None
    return draw.call(aten.pad.default, x, amounts, mode, fill)


def convolution(draw: Draw) -> bool:
    # PyTorch 2.13 crashes in some convolutions of float16, on some CPUs.
    if (x := draw.pick(lambda x: is_image(x) and x.dtype == torch.float32)) is None:
        return False
    value, n = draw.value(x), spatial(draw.value(x))
    channels = value.shape[1]
    groups = draw.choice([each for each in (1, 2, channels) if channels % each == 0])
    out = groups * draw.integer(1, 3)
    kernel = draw.integers(n, 1, 3)
    transposed = draw.chance(0.3)
    shape = [channels, out // groups] if transposed else [out, channels // groups]
    weight = draw.input([*shape, *kernel], value.dtype)
    bias = draw.input([out], value.dtype) if draw.chance(0.5) else None
    strides = draw.integers(n, 1, 3)
    further = [draw.integer(0, s - 1) if transposed else 0 for s in strides]
    padding, dilation = draw.integers(n, 0, 2), draw.integers(n, 1, 2)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    fits = [
        size + 2 * p >= r if not transposed else (size - 1) * s - 2 * p + r > 0
        for size, p, r, s in zip(value.shape[2:], padding, reach, strides, strict=True)
    ]
    if not all(fits):
        return False
    arguments = [strides, padding, dilation, transposed]
    return draw.call(
        aten.convolution.default, x, weight, bias, *arguments, further, groups
    )


def pool(draw: Draw) -> bool:
    if (x := draw.pick(is_image)) is None:
        return False
    n = spatial(draw.value(x))
    kernel, strides = draw.integers(n, 1, 3), draw.integers(n, 1, 3)
    padding = [draw.integer(0, size // 2) for size in kernel]
    if draw.chance(0.5):
        target = getattr(aten, f"avg_pool{n}d").default
        rest = [draw.chance(0.4), draw.chance(0.5)]
        return draw.call(target, x, kernel, strides, padding, *rest)
    target = getattr(aten, f"max_pool{n}d").default
    rest = [draw.integers(n, 1, 2), draw.chance(0.4)]
    return draw.call(target, x, kernel, strides, padding, *rest)


def resample(draw: Draw) -> bool:
    if (x := draw.pick(is_image)) is None:
        return False
    n = spatial(draw.value(x))
    sizes = draw.integers(n, 1, 9)
    name = draw.choice(["nearest", "linear", "adaptive", *["bicubic"] * (n == 2)])
    if name == "adaptive":
        return draw.call(getattr(aten, f"adaptive_avg_pool{n}d").default, x, sizes)
    if name == "nearest":
        return draw.call(getattr(aten, f"upsample_nearest{n}d").vec, x, sizes, None)
    if name == "linear":
        name = ("linear", "bilinear", "trilinear")[n - 1]
    target = getattr(aten, f"upsample_{name}{'2' if name == 'bicubic' else n}d").vec
    return draw.call(target, x, sizes, draw.chance(0.5), None)


def grid(draw: Draw) -> bool:
    x = draw.pick(lambda x: is_image(x) and x.dim() > 3)
    if x is None:
        return False
    value, n = draw.value(x), spatial(draw.value(x))
    points = draw.input([value.shape[0], *draw.integers(n, 1, 4), n], value.dtype)
    mode = draw.integer(0, 2 if n == 2 else 1)
    target = getattr(aten, f"grid_sampler_{n}d").default
    if mode == 1 and draw.chance(1.0):
        mode = 0  # Ties of nearest are where rounding decides.
    return draw.call(target, x, points, mode, draw.integer(0, 2), draw.chance(0.5))


def slices(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 0)) is None:
        return False
    shape = draw.value(x).shape
    dim = draw.integer(0, len(shape) - 1)
    size = shape[dim]
    start, end = sorted(draw.integers(2, -size - 1, size + 1))
    step = draw.integer(1, 3)
    kind = draw.integer(0, 4)
    if kind == 0 and size:
        return draw.call(aten.select.int, x, dim, draw.integer(-size, size - 1))
    if kind == 1:
        inner = aten.slice.Tensor(draw.value(x), dim, start, end, step)
        source = draw.input(inner.shape, draw.value(x).dtype)
        return draw.call(aten.slice_scatter.default, x, source, dim, start, end, step)
    if kind == 2 and size:
        place = draw.integer(-size, size - 1)
        inner = aten.select.int(draw.value(x), dim, 0)
        source = draw.input(inner.shape, draw.value(x).dtype)
        return draw.call(aten.select_scatter.default, x, source, dim, place)
    return draw.call(aten.slice.Tensor, x, dim, start, end, step)


def joining(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 0)) is None:
        return False
    value = draw.value(x)
    dim = draw.integer(0, value.dim() - 1)

    def fits(other: Tensor) -> bool:
        return (
            other.dtype == value.dtype
            and other.dim() == value.dim()
            and all(
                a == b
                for i, (a, b) in enumerate(zip(other.shape, value.shape, strict=True))
                if i != dim
            )
        )

    y = draw.pick(fits)
    assert y is not None
    if draw.chance(0.3) and value.dim() < 5:
        return draw.call(aten.stack.default, [x, y], dim)
    return draw.call(aten.cat.default, draw.choice([[x, y], [y, x, y]]), dim)


def factors(draw: Draw, number: int) -> list[int]:
    """Sizes, of which `number` is the product."""
    sizes: list[int] = []
    while len(sizes) < 4 and draw.chance(0.8):
        sizes.append(draw.choice([k for k in range(1, number + 1) if number % k == 0]))
        number //= sizes[-1]
    return [*sizes, number]


def moving(draw: Draw) -> bool:
    if (x := draw.pick()) is None:
        return False
    value = draw.value(x)
    rank, kind = value.dim(), draw.integer(0, 7)
    dims = draw.random.sample(range(rank), draw.integer(0, rank))
    match kind:
        case 0:
            return draw.call(
                aten.permute.default, x, draw.random.sample(range(rank), rank)
            )
        case 1 if value.numel():
            return draw.call(aten.view.default, x, factors(draw, value.numel()))
        case 2:
            return draw.call(aten.flip.default, x, dims)
        case 3:
            return draw.call(
                aten.roll.default, x, draw.integers(len(dims), -5, 5), dims
            )
        case 4 if rank < 5:
            return draw.call(aten.unsqueeze.default, x, draw.integer(-1, rank))
        case 5 if rank < 5:
            sizes = [draw.integer(1, 2), *value.shape]
            return draw.call(aten.expand.default, x, sizes)
        case 6 if rank:
            dim = draw.integer(0, rank - 1)
            count = draw.integer(1, 5)
            index = torch.tensor(draw.integers(count, 0, max(value.shape[dim] - 1, 0)))
            draw.inputs.append(index)
            draw.results.append(("input", len(draw.inputs) - 1))
            draw.values.append(index)
            index = Ref(len(draw.values) - 1)
            return draw.call(aten.index_select.default, x, dim, index)
        case _:
            return draw.call(aten.repeat.default, x, draw.integers(rank, 1, 2))


UNARY = "relu sigmoid tanh abs neg exp sin hardswish silu softplus square sign".split()
BINARY = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum")


def elementwise(draw: Draw) -> bool:
    if (x := draw.pick()) is None:
        return False
    value = draw.value(x)
    if draw.chance(0.4):
        packet = getattr(aten, draw.choice(UNARY))
        return draw.call(packet.default, x)
    y = draw.pick(lambda y: y.dtype == value.dtype)
    assert y is not None
    name, _, overload = draw.choice(BINARY).partition(".")
    return draw.call(getattr(getattr(aten, name), overload or "default"), x, y)


def reduction(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 0 and bool(x.numel()))) is None:
        return False
    rank = draw.value(x).dim()
    dim = draw.integer(-rank, rank - 1)
    kind = draw.integer(0, 6)
    keep = draw.chance(0.5)
    match kind:
        case 0:
            return draw.call(aten.sum.dim_IntList, x, [dim], keep)
        case 1:
            return draw.call(aten.mean.dim, x, [dim], keep)
        case 2:
            return draw.call(aten.amax.default, x, [dim], keep)
        case 3:
            return draw.call(aten.amin.default, x, [dim], keep)
        case 4:
            return draw.call(aten.softmax.int, x, dim)
        case 5:
            return draw.call(aten.cumsum.default, x, dim)
        case _ if draw.value(x).shape[dim] > 1:
            return draw.call(aten.var.correction, x, [dim])
        case _:
            return False


def product(draw: Draw) -> bool:
    if (x := draw.pick(lambda x: x.dim() > 1 and x.is_floating_point())) is None:
        return False
    value = draw.value(x)
    y = draw.input([value.shape[-1], draw.integer(1, 4)], value.dtype)
    return draw.call(aten.matmul.default, x, y)


MAKERS: Sequence[tuple[Callable[[Draw], bool], int]] = (
    (pad, 5),
    (convolution, 3),
    (pool, 2),
    (resample, 2),
    (grid, 1),
    (slices, 4),
    (joining, 3),
    (moving, 4),
    (elementwise, 4),
    (reduction, 2),
    (product, 1),
)
"""Each kind of call, and how often it is drawn."""
DTYPES = (
    *[torch.float32] * 6,
    torch.float16,
    torch.int32,
    torch.int64,
    torch.bool,
)


def drawn(seed: int) -> Program:
    """The program of a seed: 1 to 12 calls."""
    draw = Draw(seed)
    for _ in range(draw.integer(1, 2)):
        rank = draw.choice((1, 2, 3, 4, 4, 4, 5))
        sizes = draw.integers(rank, 1, 5 if rank > 3 else 8)
        draw.input(sizes, draw.choice(DTYPES))
    wanted = draw.integer(1, 12)
    kinds, weights = zip(*MAKERS, strict=True)
    for _ in range(4 * wanted):
        if len(draw.calls) < wanted:
            draw.random.choices(kinds, weights)[0](draw)
    return draw.program()


# --- shrinking ------------------------------------------------------------------------


def smaller(program: Program) -> Iterator[Program]:
    """Programs with fewer calls than `program`, or with simpler inputs."""
    for place, given in enumerate(program.inputs):
        if given.numel() and not torch.equal(given, plain(given)):
            inputs = list(program.inputs)
            inputs[place] = plain(given)
            yield Program(inputs, program.calls, program.outputs)
    for output in program.outputs:
        if len(program.outputs) > 1:
            yield without_dead(Program(program.inputs, program.calls, [output]))
    values, count = program.values(), len(program.inputs)
    for place in reversed(range(len(program.calls))):
        # The result of a call becomes an input.
        number = count + place
        if number not in program.outputs:
            cut = [number if i == number else i for i in range(len(values))]
            yield without_dead(as_input(program, number, values[number], cut))
    for place, call in enumerate(program.calls):
        # What the call computes is returned.
        for ref in refs(call.args):
            if ref.number >= count and [ref.number] != program.outputs:
                yield without_dead(
                    Program(program.inputs, program.calls[:place], [ref.number])
                )


def as_input(
    program: Program, number: int, value: Tensor, numbers: Sequence[int]
) -> Program:
    """The program with the result `number` as one more input."""
    count = len(program.inputs)
    places = {i: i if i < count else i + 1 for i in numbers}
    places[number] = count
    calls = [renumbered(call, places) for call in program.calls]
    outputs = [places[each] for each in program.outputs]
    return Program([*program.inputs, value], calls, outputs)


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """The smallest part of the program found that is still wrong."""
    while True:
        for each in smaller(program):
            if each.calls and is_wrong(each):
                program = each
                break
        else:
            return program
