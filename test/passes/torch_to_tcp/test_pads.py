"""Pads and slices of PyTorch: lowered, simplified, and run by the reference."""

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from functions import Function, padded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import ExportedProgram
from xdsl.builder import Builder
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.transforms.canonicalize import CanonicalizePass

from padc.backends.reference import run
from padc.errors import UnsupportedError
from padc.frontends.torch_export import export_module, import_exported_program
from padc.ir import make_context, padding, tcp
from padc.ir.torch import AtenOp
from padc.ir.weights import weights_of
from padc.passes.aten.builder import AtenBuilder
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.testing import (
    Compiled,
    compile_for_coreml,
    compile_for_native,
    compile_for_oracle,
)

EXAMPLES = int(os.environ.get("PADC_EXAMPLES", "40"))
"""How many examples Hypothesis tries for each property; more take longer."""
thorough = settings(max_examples=EXAMPLES, deadline=None)

Compile = Callable[[ExportedProgram], Compiled]

ELEMENT_TYPES: dict[torch.dtype, Attribute] = {
    torch.bool: i1,
    torch.uint8: IntegerType(8, Signedness.UNSIGNED),
    torch.uint16: IntegerType(16, Signedness.UNSIGNED),
    torch.uint32: IntegerType(32, Signedness.UNSIGNED),
    torch.uint64: IntegerType(64, Signedness.UNSIGNED),
    torch.int8: i8,
    torch.int16: i16,
    torch.int32: i32,
    torch.int64: i64,
    torch.bfloat16: bf16,
    torch.float16: f16,
    torch.float32: f32,
    torch.float64: f64,
}

ONLY_COPIED = (torch.bool, torch.uint16, torch.uint32, torch.uint64)
"""What PyTorch pads by a fill and around, not by reflection and replication."""


def numbers(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Different numbers, as far as the dtype has them; unsigned ones are large."""
    count = int(np.prod(shape))
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        return (-torch.arange(1, count + 1)).to(dtype).reshape(tuple(shape))
    return (torch.arange(1, count + 1) % 120).to(dtype).reshape(tuple(shape))


def program(
    x: Tensor, build: Callable[[AtenBuilder, SSAValue], SSAValue], dynamic: bool = False
) -> ModuleOp:
    """A module of one function, of a tensor like `x` to what `build` makes of it."""
    shape = [DYNAMIC_INDEX] * x.dim() if dynamic else list(x.shape)
    block = Block(arg_types=[TensorType(ELEMENT_TYPES[x.dtype], shape)])
    result = ReturnOp(block.args[0])
    block.add_op(result)
    result.operands[0] = build(AtenBuilder(result), block.args[0])
    types = (block.arg_types, [result.operands[0].type])
    module = ModuleOp([FuncOp("main", types, Region(block))])
    module.verify()
    return module


def count(module: ModuleOp, *kinds: type[Operation]) -> int:
    return sum(isinstance(op, kinds) for op in module.walk())


def check(module: ModuleOp, x: Tensor, expected: Tensor) -> None:
    """Lower, run, simplify and run again: both must be what is expected, bit for bit."""
    ctx = make_context()
    for module_pass in (ConvertTorchToTcpPass(), CanonicalizePass()):
        module_pass.apply(ctx, module)
        module.verify()
        (actual,) = run(module, x)
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
        if expected.is_floating_point():
            assert torch.equal(actual.signbit(), expected.signbit())


# Single pads.


@dataclass(frozen=True)
class Pad:
    """A call of `F.pad`."""

    mode: str
    amounts: list[int]
    value: float | None = None

    def eager(self, x: Tensor) -> Tensor:
        return padded(x, self.amounts, self.mode, self.value)

    def build(self, build: AtenBuilder, x: SSAValue, like: Tensor) -> SSAValue:
        """The same call in IR; `like` is the result's type, if it is static."""
        type = tcp.tensor_type(x)
        result = TensorType(type.element_type, like.shape)
        return build.call(
            "pad", result, self=x, pad=self.amounts, mode=self.mode, value=self.value
        )


LIMITS: dict[str, Callable[[int], int]] = {
    "constant": lambda size: 5,
    "reflect": lambda size: size - 1,
    "replicate": lambda size: size + 5,
    "circular": lambda size: size,
}


def counts_of_axes(shape: Sequence[int], mode: str) -> list[int]:
    """How many dimensions, from the last, PyTorch can pad in this mode."""
    rank = len(shape)
    if mode == "constant":
        return [*range(rank + 1)]
    return [n for n in (1, 2, 3) if 1 <= rank - n <= 2 and 0 not in shape[-n - 1 :]]


@st.composite
def pads(draw: st.DrawFn, shape: Sequence[int], mode: str) -> Pad:
    """A pad in this mode that PyTorch takes for this shape, of any axes."""
    axes = draw(st.sampled_from(counts_of_axes(shape, mode)))
    amounts: list[int] = []
    for size in shape[::-1][:axes]:
        # PyTorch refuses what is empty in each dimension that it pads.
        kept = int(mode in ("reflect", "replicate") and not amounts)
        most = LIMITS[mode](size)
        lower = draw(st.integers(kept - size, most))
        left = size + min(lower, 0)
        least = kept - left
        if mode == "circular":
            # PyTorch reads uninitialised memory where more is asked for than is left.
            least, most = max(least, lower - size), left
        upper = draw(st.integers(least, most))
        amounts += [lower, upper]
    fills = [None, 0.0, -0.0, 1.0, 3.0]
    value = draw(st.sampled_from(fills)) if mode == "constant" else None
    return Pad(mode, amounts, value)


@st.composite
def shapes(draw: st.DrawFn, mode: str) -> list[int]:
    rank = draw(st.integers(1, 6) if mode == "constant" else st.integers(2, 5))
    least = 0 if mode == "constant" else 1
    return draw(st.lists(st.integers(least, 6), min_size=rank, max_size=rank))


@pytest.mark.parametrize("mode", LIMITS)
@given(st.data())
@thorough
def test_pad(mode: str, data: st.DataObject):
    shape = data.draw(shapes(mode))
    pad = data.draw(pads(shape, mode))
    dtypes = [
        dtype
        for dtype in ELEMENT_TYPES
        if mode in ("constant", "circular") or dtype not in ONLY_COPIED
    ]
    x = numbers(shape, data.draw(st.sampled_from(dtypes)))
    expected = pad.eager(x)

    module = program(x, lambda build, y: pad.build(build, y, expected))

    check(module, x, expected)


# Pads of pads, of slices and of concatenations, as PyTorch has them.


@dataclass(frozen=True)
class Slice:
    """`x.narrow(dim, start, length)`, or with a step."""

    dim: int
    start: int | None
    end: int | None
    step: int

    def eager(self, x: Tensor) -> Tensor:
        return torch.ops.aten.slice.Tensor(
            x, self.dim, self.start, self.end, self.step
        ).clone()

    def build(self, build: AtenBuilder, x: SSAValue, like: Tensor) -> SSAValue:
        result = TensorType(tcp.tensor_type(x).element_type, like.shape)
        return build.call(
            "slice.Tensor",
            result,
            self=x,
            dim=self.dim,
            start=self.start,
            end=self.end,
            step=self.step,
        )


@dataclass(frozen=True)
class Blocks:
    """A concatenation with blocks of a fill, below and above."""

    dim: int
    below: int
    above: int
    fill: float

    def parts(self, shape: Sequence[int]) -> tuple[list[int], list[int]]:
        below, above = list(shape), list(shape)
        below[self.dim], above[self.dim] = self.below, self.above
        return below, above

    def eager(self, x: Tensor) -> Tensor:
        below, above = (
            torch.full(shape, self.fill, dtype=x.dtype) for shape in self.parts(x.shape)
        )
        return torch.cat([below, x, above], self.dim)

    def build(self, build: AtenBuilder, x: SSAValue, like: Tensor) -> SSAValue:
        below, above = (
            build.full(shape, self.fill, x)
            for shape in self.parts(tcp.tensor_type(x).get_shape())
        )
        return build.cat([below, x, above], self.dim % like.dim())


@st.composite
def steps(draw: st.DrawFn, shape: Sequence[int]) -> Pad | Slice | Blocks:
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    match draw(st.sampled_from(["pad", "pad", "slice", "blocks"])):
        case "slice":
            bound = st.none() | st.integers(-7, 7)
            step = draw(st.sampled_from([1, 1, 1, 2]))
            return Slice(dim, draw(bound), draw(bound), step)
        case "blocks":
            size = st.integers(0, 2)
            return Blocks(
                dim, draw(size), draw(size), draw(st.sampled_from([0.0, 1.0]))
            )
        case _:
            modes = [mode for mode in LIMITS if counts_of_axes(shape, mode)]
            return draw(pads(shape, draw(st.sampled_from(modes))))


@given(st.data())
@thorough
def test_several_ops_are_what_they_are_one_by_one(data: st.DataObject):
    rank = data.draw(st.integers(2, 4))
    shape = data.draw(st.lists(st.integers(0, 5), min_size=rank, max_size=rank))
    dtype = data.draw(st.sampled_from([torch.float32, torch.int64]))
    x = numbers(shape, dtype)
    values, made = [x], list[Any]()
    for _ in range(data.draw(st.integers(1, 4))):
        made.append(data.draw(steps(values[-1].shape)))
        values.append(made[-1].eager(values[-1]))

    def build(build: AtenBuilder, y: SSAValue) -> SSAValue:
        for step, like in zip(made, values[1:], strict=True):
            y = step.build(build, y, like)
        return y

    check(program(x, build), x, values[-1])


# The algebra on `tcp` itself: interior amounts, sizes that are not known, shared pads.


@dataclass(frozen=True)
class TcpPad:
    kind: type[tcp.ExpandOp]
    amounts: list[tuple[int, int, int]]
    fill: float


KINDS: list[type[tcp.ExpandOp]] = [
    tcp.PadOp,
    tcp.PadOp,
    tcp.ReplicationPadOp,
    tcp.ReflectionPadOp,
    tcp.CircularPadOp,
    tcp.SymmetricPadOp,
]


@functools.cache
def legal_amounts(kind: type[tcp.ExpandOp], size: int) -> list[tuple[int, int, int]]:
    """What a pad of `kind` may add to a dimension of `size` elements; nothing first."""

    def is_legal(amounts: tuple[int, int, int]) -> bool:
        lower, upper, interior = amounts
        try:
            if issubclass(kind, tcp.BorderPadOp):
                kind.check_amounts(size, lower, upper)
            else:
                padding.check_constant(size, lower, upper, interior)
        except ValueError:
            return False
        return True

    sides = sorted(range(-2, 4), key=abs)
    interiors = (0, 0, 0, 1, 2) if kind is tcp.PadOp else (0,)
    return [(0, 0, 0), *filter(is_legal, itertools.product(sides, sides, interiors))]


@st.composite
def chains_of_pads(draw: st.DrawFn) -> tuple[list[int], list[TcpPad]]:
    """A shape, and two or three pads, one after the other, of a tensor of that shape."""
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=2))
    sizes, chain = shape, []
    for _ in range(draw(st.integers(2, 3))):
        kind = draw(st.sampled_from(KINDS))
        amounts = [draw(st.sampled_from(legal_amounts(kind, size))) for size in sizes]
        chain.append(TcpPad(kind, amounts, draw(st.sampled_from([0.0, 7.0]))))
        sizes = [
            padding.padded_size(size, *each)
            for size, each in zip(sizes, amounts, strict=True)
        ]
    return shape, chain


def insert(build: AtenBuilder, x: SSAValue, pad: TcpPad) -> SSAValue:
    builder = Builder(InsertPoint.before(build.anchor))
    lower, upper, interior = (list(each) for each in zip(*pad.amounts, strict=True))
    if issubclass(pad.kind, tcp.BorderPadOp):
        return builder.insert(pad.kind(x, lower, upper)).result
    fill = builder.insert(ConstantOp(FloatAttr(pad.fill, f32))).result
    return builder.insert(tcp.PadOp(x, fill, lower, upper, interior)).result


@given(chains_of_pads(), st.booleans(), st.booleans())
@settings(max_examples=EXAMPLES * 4, deadline=None)
def test_canonicalization_keeps_what_pads_compute(
    case: tuple[list[int], list[TcpPad]], dynamic: bool, shared: bool
):
    shape, chain = case
    x = numbers(shape, torch.float32)

    def build(build: AtenBuilder, y: SSAValue) -> SSAValue:
        for pad in chain:
            y = insert(build, y, pad)
        return y

    module = program(x, build, dynamic)
    (expected,) = run(module, x)
    if shared:
        # The first pad is a result, too.
        function = module.body.block.first_op
        assert isinstance(function, FuncOp)
        (first, *_) = [op for op in function.walk() if isinstance(op, tcp.ExpandOp)]
        returned = function.body.block.last_op
        assert returned is not None
        returned.operands = [*returned.operands, first.result]
        function.update_function_type()
    before = count(module, tcp.ExpandOp)

    CanonicalizePass().apply(make_context(), module)
    module.verify()
    actual, *_ = run(module, x)

    assert torch.equal(actual, expected)
    assert count(module, tcp.ExpandOp) <= before


# Slices of pads, and pads of slices.


def names(function: Callable[..., Any], *args: Tensor) -> list[str]:
    """The names of the ops that a function is lowered and simplified to."""
    ctx = make_context()
    module = import_exported_program(
        export_module(Function(function), args), weights_of(ctx)
    )
    for module_pass in (ConvertTorchToTcpPass(), CanonicalizePass()):
        module_pass.apply(ctx, module)
    module.verify()
    (actual,) = run(module, *args, weights=weights_of(ctx))
    torch.testing.assert_close(actual, function(*args), rtol=0, atol=0)
    return [
        op.name.removeprefix("torch.")
        for op in module.walk()
        if isinstance(op, tcp.ExpandOp | AtenOp)
    ]


X = numbers([2, 3, 6], torch.float32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        # What was added is cropped again.
        (lambda x: F.pad(x, [2, 1])[..., 2:-1].neg(), ["aten.neg"]),
        (lambda x: F.pad(x, [2, 1], value=3.0).narrow(2, 1, 5), ["tcp.pad"]),
        (lambda x: F.pad(x, [2, 1], "reflect")[:, 1:, 1:], ["tcp.reflection_pad"]),
        (lambda x: F.pad(x, [2, 1], "reflect")[:][:, 1:, 1:], ["tcp.reflection_pad"]),
        (lambda x: F.pad(x, [2, 1], "circular")[..., 3:8], ["tcp.pad"]),
        (lambda x: F.pad(x[..., 1:], [0, 1]), ["tcp.pad"]),
        (lambda x: F.pad(x[..., 1:], [1, 0]), ["tcp.pad", "tcp.pad"]),
        (lambda x: F.pad(F.pad(x, [1, 1]), [0, 0, 2, 0]), ["tcp.pad"]),
        (lambda x: F.pad(x, [-6, 8], value=1.0), []),
        (lambda x: F.pad(x.new_zeros(2, 3), [1, 1]), ["aten.new_zeros"]),
        (lambda x: torch.cat([torch.zeros_like(x[:, :1]), x], 1), ["tcp.pad"]),
        (lambda x: torch.cat([x.new_zeros(2, 1, 6), x, x, x.new_zeros(2, 2, 6)], 1), ["aten.cat", "tcp.pad"]),
        (lambda x: torch.cat([F.pad(x, [1, 0]), F.pad(x, [1, 0])], 1), ["aten.cat", "tcp.pad"]),
        # Nothing to join: slices that are not next to a pad, or have steps, stay.
        (lambda x: x[..., 1:], ["aten.slice.Tensor"]),
        (lambda x: F.pad(x, [2, 1])[..., ::2], ["tcp.pad", "aten.slice.Tensor"]),
        (lambda x: torch.cat([x, x]), ["aten.cat"]),
        (lambda x: torch.cat([x.new_zeros(1, 3, 6), x.new_zeros(1, 3, 6)]), ["aten.new_zeros", "aten.new_zeros", "aten.cat"]),
    ],
)  # fmt: skip
def test_what_slices_and_concatenations_of_pads_become(
    function: Callable[[Tensor], Tensor], expected: list[str]
):
    assert names(function, X) == expected


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64], ids=str)
def test_slices_of_each_dtype(dtype: torch.dtype):
    x = X.to(dtype)

    assert names(lambda x: x[:, :2, 1:], x) == ["aten.slice.Tensor"] * 2
    assert names(lambda x: x[:, 3:], x) == ["aten.slice.Tensor"]
    assert names(lambda x: F.pad(x, [1, 0])[:, :2], x) == ["tcp.pad"]
    assert names(lambda x: F.pad(x[:, 3:], [1, 0]), x) == ["tcp.pad"]


def test_slices_of_complex_tensors_stay():
    x = torch.randn(3, 2)

    left = names(lambda x: torch.view_as_real(torch.view_as_complex(x)[:2]), x)

    assert left == ["aten.view_as_complex", "aten.slice.Tensor", "aten.view_as_real"]


def test_slices_of_dynamic_sizes():
    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            padded = F.pad(x, [1, x.shape[1]], value=2.0)
            return (
                padded[1:],
                padded[:, 3:],
                x[:, : y.shape[0]],
                F.pad(x, [-1, 0])[:, :],
            )

    size = torch.export.Dim("n", min=3, max=9)
    args = numbers([4, 5], torch.float32), torch.zeros(3)
    shapes = ({1: size}, {0: torch.export.Dim("m", min=2, max=4)})
    compiled = compile_for_oracle(export_module(Model(), args, dynamic_shapes=shapes))

    for n, m in ((5, 3), (9, 2), (4, 4)):
        inputs = numbers([4, n], torch.float32), torch.zeros(m)
        for actual, expected in zip(compiled(*inputs), Model()(*inputs), strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)


# Modules, and what PyTorch refuses.


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "kind", ["Circular", "Constant", "Reflection", "Replication", "Zero"]
)
def test_modules(kind: str, rank: int):
    module = getattr(nn, f"{kind}Pad{rank}d")
    amounts = [1, 2, 0, 1, -1, 2][: 2 * rank]
    layer = module(amounts, 2.5) if kind == "Constant" else module(amounts)
    for shape in ([2, 3, 4, 5, 4][: rank + 2], [3, 4, 5, 4][: rank + 1]):
        x = numbers(shape, torch.float32)

        (actual,) = compile_for_oracle(export_module(layer, (x,)))(x)

        torch.testing.assert_close(actual, layer(x), rtol=0, atol=0)


class Roll(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.roll((1, -2), (3, 2))


DECOMPOSED = [
    *(getattr(nn, f"{kind}Pad2d")((2, 1, 0, 3)) for kind in ("Reflection", "Zero")),
    *(
        getattr(nn, f"{kind}Pad2d")((2, 1, -1, 3))
        for kind in ("Replication", "Circular")
    ),
    Roll(),
    nn.Upsample(scale_factor=2, mode="bilinear"),
    nn.Upsample((7, 9)),
]


@pytest.mark.parametrize(
    "compile", [compile_for_oracle, compile_for_coreml, compile_for_native]
)
@pytest.mark.parametrize("layer", DECOMPOSED, ids=str)
def test_what_pytorch_decomposed(layer: nn.Module, compile: Compile):
    x = numbers([1, 2, 6, 5], torch.float32)
    decomposed = export_module(layer, (x,)).run_decompositions()

    (actual,) = compile(decomposed)(x)

    torch.testing.assert_close(actual, layer(x))


@pytest.mark.parametrize(
    ("shape", "dtype", "pad", "message"),
    [
        ([2, 3], torch.float32, Pad("constant", [1, 1, 1]), "3 amounts for 2 dimensions"),
        ([2, 3], torch.float32, Pad("constant", [1] * 6), "6 amounts for 2 dimensions"),
        ([2, 3], torch.float32, Pad("mirror", [1, 1]), "there is no mode 'mirror'"),
        ([2, 3], torch.float32, Pad("reflect", [1, 1], 2.0), "mode 'reflect' takes no fill, got 2.0"),
        ([2, 3], torch.float32, Pad("reflect", [1, 1, 1, 1]), "4 amounts for 2 dimensions"),
        ([2, 2, 2, 3], torch.float32, Pad("replicate", [1, 1]), "2 amounts for 4 dimensions"),
        ([2, 3], torch.bool, Pad("reflect", [1, 1]), "of bool; it takes numbers only"),
        ([2, 3], torch.uint16, Pad("reflect", [1, 1]), "of ui16; it takes int8 to int64"),
        ([2, 3], torch.uint64, Pad("replicate", [1, 1]), "of ui64; it takes int8 to int64"),
        ([2, 0, 3], torch.float32, Pad("replicate", [1, 1]), "of a tensor that is empty"),
        ([2, 2, 3], torch.float32, Pad("replicate", [-3, 0]), "leaves nothing of any dimension"),
        ([2, 3], torch.float32, Pad("reflect", [3, 1]), "each may be at most 2"),
        ([2, 3], torch.float32, Pad("circular", [4, 1]), "each may be at most 3"),
        ([2, 3], torch.float32, Pad("constant", [-4, 6]), "crops more than the 3 elements"),
        ([2, 3], torch.uint8, Pad("constant", [1, 1], 300.0), "fill 300.0 does not fit"),
    ],
)  # fmt: skip
def test_what_pytorch_refuses_is_refused(
    shape: list[int], dtype: torch.dtype, pad: Pad, message: str
):
    x = numbers(shape, dtype)
    with pytest.raises((RuntimeError, NotImplementedError)):
        pad.eager(x)
    sides = [0] * (2 * len(shape) - len(pad.amounts)) + pad.amounts[::-1]
    result = [
        n + a + b for n, a, b in zip(shape, sides[::2], sides[1::2], strict=False)
    ]

    module = program(x, lambda build, y: pad.build(build, y, torch.empty(result)))

    with pytest.raises(UnsupportedError) as raised:
        ConvertTorchToTcpPass().apply(make_context(), module)
        module.verify()
    assert message in str(raised.value)
