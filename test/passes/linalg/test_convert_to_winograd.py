# pyright: basic, reportMissingTypeStubs=false
"""Convolutions by Winograd's algorithm: the algebra, the places of tiles, the error."""

import functools
import itertools
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from proofs import holds, ints, proves, quotient, symbolic
from torch import Tensor, nn
from torch.export import Dim
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from z3 import And, Implies, Or

import padc
from padc.backends import reference
from padc.errors import UsageError
from padc.ir import tcp
from padc.ir.winograd import POINTS, TAPS, winograd
from padc.passes import pipelines
from padc.passes.buffers_to_llvm.winograd.tiles import Tiles
from padc.passes.linalg.convert_to_winograd import ConvertToWinogradPass
from padc.passes.linalg.winograd_cost import Shape

BOUND = 2e-5
"""The error that docs/native.md allows, in parts of the range of the results."""


@proves("convert-to-winograd")
@pytest.mark.parametrize("size", POINTS)
def test_the_transforms_are_a_convolution_exactly(size: int):
    """In one dimension, and so in two: each side is multiplied by itself."""
    transforms = winograd(size)
    for tap, place in itertools.product(range(TAPS), range(transforms.inputs)):
        filters = [row[tap] for row in transforms.filter]
        inputs = [row[place] for row in transforms.input]
        products = [a * b for a, b in zip(filters, inputs, strict=True)]
        results = [
            sum(a * b for a, b in zip(row, products, strict=True))
            for row in transforms.output
        ]

        assert results == [Fraction(place == i + tap) for i in range(size)]


@pytest.mark.parametrize("size", POINTS)
def test_input_and_output_transforms_are_exact_in_float32(size: int):
    transforms = winograd(size)
    for row in (*transforms.input, *transforms.output):
        assert [Fraction(float(torch.tensor(float(x)))) for x in row] == list(row)


SIZES = [(size, columns) for size in POINTS for columns in (1, 2, 3, 4, 5, 7, 8, 31)]


@proves("convert-buffers-to-llvm: tiles of winograd")
@pytest.mark.parametrize("size, columns", SIZES)
def test_each_result_is_in_one_tile(size: int, columns: int):
    rows, y, x, t = ints("rows y x t")
    with symbolic():
        tiles = Tiles(size, rows, columns, 1)
        inside = And(rows >= 1, 0 <= y, y < rows, 0 <= x, x < columns)
        tile = y / size * tiles.along + x / size
        assert holds(And(0 <= tile, tile < tiles.count), inside)
        row, column = tiles.corner(tile)
        assert holds(And(row == y - y % size, column == x - x % size), inside)

        row, column = tiles.corner(t)
        whole = And(rows >= 1, 0 <= t, t < tiles.count)
        within = And(0 <= row, row < rows, 0 <= column, column < columns)
        assert holds(And(within, row % size == 0, column % size == 0), whole)
        same = row / size * tiles.along + column / size
        assert holds(same == t, whole)


@proves("convert-buffers-to-llvm: tiles of winograd")
@pytest.mark.parametrize("size", POINTS)
@symbolic()
def test_results_inside_are_computed_from_their_inputs_and_stored_last(size: int):
    count, first, step, result, tap = ints("count first step result tap")
    tiles = Tiles(size, count, 1, 1)
    inside = And(0 <= first, first < count)
    left = tiles.results(first, count)
    assert holds(And(1 <= left, left <= size, first + left <= count), inside)
    assert holds(Or(left == size, first + left == count), inside)
    of_result = tiles.result(first, result, count)
    given = And(inside, 0 <= result, result < size)
    assert holds(Implies(result < left, of_result == result), given)
    # Those outside go to the last place inside, whose own result is stored later.
    assert holds(Implies(result >= left, of_result == left - 1), given)

    of_input = tiles.input(first, step, count)
    given = And(inside, 0 <= step, step < size + TAPS - 1)
    memory = And(0 <= of_input, first + of_input < count + TAPS - 1)
    assert holds(memory, given)
    needed = And(0 <= result, result < left, 0 <= tap, tap < TAPS)
    assert holds(Implies(step == result + tap, of_input == step), And(given, needed))

    # What is emitted where the tiles end with the image.
    known = Tiles(size, 3 * size, 1, 1)
    whole = And(inside, count == 3 * size, first % size == 0)
    for place in range(size + TAPS - 1):
        formulas = [tiles.input]
        if place < size:
            formulas.append(tiles.result)
        for formula in formulas:
            assert holds(formula(first, place, count) == place, whole)
    assert known.results(first, 3 * size) == size
    assert holds(left == size, whole)


@proves("convert-buffers-to-llvm: tiles of winograd")
@pytest.mark.parametrize("block", [1, 2, 7, 25, 28])
def test_each_tile_is_in_one_block(block: int):
    count, number, place, tile = ints("count number place tile")
    with symbolic():
        # A column of tiles of one result: as many tiles as rows.
        tiles = Tiles(1, count, 1, block)
        inside = And(count >= 1, 0 <= number, number < tiles.blocks)
        first = number * block
        left = tiles.left(first)
        assert holds(And(1 <= left, left <= block, first + left <= count), inside)
        assert holds(Or(left == block, first + left == count), inside)
        read = tiles.read(first, place)
        given = And(inside, 0 <= place, place < block)
        assert holds(And(0 <= read, read < count), given)
        assert holds(Implies(place < left, read == first + place), given)
        whole = And(count >= 1, 0 <= tile, tile < count)
        mine = quotient(tile, block)
        rest = tile - mine * block
        assert holds(And(0 <= mine, mine < tiles.blocks), whole)
        assert holds(rest < tiles.left(mine * block), whole)


def packed(x: Tensor, lanes: int) -> Tensor:
    return x.unflatten(1, (-1, lanes)).movedim(2, -1).contiguous()


@pytest.mark.parametrize("size", POINTS)
@pytest.mark.parametrize("rows, columns", [(1, 1), (4, 8), (5, 6)])
def test_the_reference_is_a_convolution(size: int, rows: int, columns: int):
    torch.manual_seed(size)
    x, init = torch.randn(2, 8, rows + 2, columns + 2), torch.randn(2, 4, rows, columns)
    kernel = torch.randn(4, 8, 3, 3)
    blocks = kernel.unflatten(1, (-1, 4)).unflatten(0, (-1, 2))
    ordered = blocks.permute(4, 5, 0, 2, 3, 1).numpy()
    filters = torch.from_numpy(winograd(size).transformed(ordered))
    args = packed(x, 4), filters, packed(init, 2)
    types = [TensorType(f32, arg.shape) for arg in args]
    module = ModuleOp([])
    with ImplicitBuilder(module.body.block):
        function = func.FuncOp("main", (types, [types[2]]))
    with ImplicitBuilder(function.body.block) as values:
        input, transformed, sums = values
        op = tcp.WinogradConvOp(input, transformed, sums, size, 1)
        assert op.result is not None
        func.ReturnOp(op.result)
    module.verify()

    (y,) = reference.run(module, *args)

    expected = init.double() + torch.conv2d(x.double(), kernel.double())
    torch.testing.assert_close(y.double(), packed(expected, 2), rtol=0, atol=2e-5)


class Net(nn.Module):
    """Convolutions with what may come before and after them."""

    def __init__(self, channels: int = 32, others: int = 48):
        super().__init__()
        self.first = nn.Conv2d(channels, others, 3, padding=1)
        self.second = nn.Conv2d(others, channels, 3, padding=1, bias=False)
        self.third = nn.Conv2d(channels, 16, 3, padding=(0, 2), padding_mode="reflect")
        self.last = nn.Conv2d(16, 8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.second(self.first(x).relu())
        z = (x + y).relu()
        return y, z, self.last(self.third(z)) * 2


@pytest.fixture
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The size of all tiles, whether they are faster or not."""
    monkeypatch.setattr(Shape, "best_tile", lambda shape: request.param)
    monkeypatch.setattr("padc.passes.linalg.layout_plan.COST", 0.0)
    monkeypatch.setenv("PADC_CACHE_DIR", "")
    return request.param


def errors(
    model: nn.Module, compiled: padc.CompiledModel, *inputs: Tensor
) -> list[float]:
    """The errors of all outputs, in parts of their ranges, of float64."""
    with torch.no_grad():
        exact = deepcopy(model).double()(*(x.double() for x in inputs))
    return list(map(error_of, compiled(*inputs), exact))


def error_of(y: Tensor, exact: Tensor) -> float:
    return float((y - exact).abs().max() / (exact.max() - exact.min()))


@pytest.mark.parametrize("tile", POINTS, indirect=True)
@pytest.mark.parametrize(
    "rows, columns", [(5, 20), pytest.param(18, 7, marks=pytest.mark.slow)]
)
def test_networks(
    tile: int, rows: int, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path / "cache"))
    torch.manual_seed(rows)
    model, x = Net().eval(), torch.randn(2, 32, rows, columns)
    exported = torch.export.export(model, (x,))
    alone, shared = (padc.compile(exported, threads=n) for n in (1, 2))

    assert max(errors(model, alone, x)) < 5e-6
    assert all(map(torch.equal, alone(x), shared(x)))


@pytest.mark.parametrize("tile", [4], indirect=True)
def test_memory_is_that_of_the_buffers(tile: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PADC_CHECK", "1")
    torch.manual_seed(0)
    model, x = Net(16, 24).eval(), torch.randn(1, 16, 6, 11)
    compiled = padc.compile(model, (x,))

    assert max(errors(model, compiled, x)) < 5e-6


@pytest.mark.slow
@pytest.mark.parametrize("tile", POINTS, indirect=True)
@pytest.mark.parametrize("channels", [16, 64, 512])
@pytest.mark.parametrize("rows", [7, 14, 30])
def test_the_error_is_bounded(tile: int, channels: int, rows: int):
    torch.manual_seed(rows)
    model = nn.Conv2d(channels, 64, 3, bias=False).eval()
    torch.nn.init.normal_(model.weight)
    x = torch.randn(1, channels, rows, rows)
    compiled = padc.compile(model, (x,))

    with torch.no_grad():
        exact = model.double()(x.double())
    assert error_of(compiled(x), exact) < BOUND


def tiles_of(model: nn.Module, *inputs: Tensor, strict: bool = False, **options: Any):
    """The tile of each Winograd convolution."""
    exported = torch.export.export(model.eval(), inputs, **options)
    ctx, module = pipelines.import_program(exported, legal=pipelines.legal_for_native())
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    for each in pipelines.to_buffers(64, strict):
        each.apply(ctx, module)
        if isinstance(each, ConvertToWinogradPass):
            break
    convolutions = [op for op in module.walk() if isinstance(op, tcp.WinogradConvOp)]
    return [op.tile.value.data for op in convolutions]


layers = nn.Sequential
same = functools.partial(nn.Conv2d, kernel_size=3, padding=1)


def test_which_convolutions_are_computed_by_tiles():
    x = torch.randn(1, 32, 56, 56)
    pair = layers(same(32, 32), same(32, 32, stride=2), same(32, 32, dilation=2))

    assert tiles_of(layers(same(32, 32), same(32, 64)), x) == [4, 4]
    assert tiles_of(pair, x) == [4]
    assert tiles_of(layers(nn.Conv2d(32, 32, (3, 1)), nn.Conv2d(32, 32, 5)), x) == []
    assert tiles_of(layers(same(32, 32)), x, strict=True) == []
    assert tiles_of(layers(same(32, 32)).double(), x.double()) == []
    shapes = ({2: Dim("rows", min=9, max=64)},)
    assert tiles_of(layers(same(32, 32)), x, dynamic_shapes=shapes) == []


def test_a_kernel_of_a_direct_convolution_and_one_of_tiles():
    """The weight has both forms, and no third one."""
    layer = same(32, 32)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x).relu()
            return torch.conv2d(y, layer.weight, stride=2)

    torch.manual_seed(5)
    model, x = Twice().eval(), torch.randn(1, 32, 56, 56)
    compiled = padc.compile(model, (x,))

    assert tiles_of(model, x) == [4]
    torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=1e-5)


def test_strict_has_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path / "cache"))
    torch.manual_seed(6)
    model, x = layers(same(64, 64), same(64, 16)), torch.randn(1, 64, 40, 40)
    exported = torch.export.export(model.eval(), (x,))
    with torch.no_grad():
        exact = deepcopy(model).double()(x.double())
    found = [
        padc.compile(exported, precision=precision)(x)
        for precision in ("default", "strict", "default", "strict")
    ]
    errors = [error_of(y, exact) for y in found]

    assert errors[0] < BOUND and errors[1] < 1e-6
    assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[3])
    assert not torch.equal(found[0], found[1])


def test_a_precision_that_there_is_not():
    with pytest.raises(UsageError, match="no precision 'float16'"):
        padc.compile(
            nn.ReLU(),
            (torch.randn(2),),
            precision="float16",  # pyright: ignore[reportArgumentType]
        )
