# pyright: basic
"""Rows whose lengths are no multiples of a vector's, and ops that share their loops."""

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from proofs import holds, ints, proves, symbolic
from torch import Tensor
from torch.export import Dim
from z3 import And, Implies, Or

import padc
from padc.passes.buffers_to_llvm.row_places import Phases, columns_of, rest_of
from padc.versions import numbers

LENGTHS = (5, 17, 31, 33, 100, 197)
"""Shorter than a vector, just longer than one or two, and some."""


def row_ops(*rows: Tensor) -> list[Tensor]:
    results: list[Tensor] = []
    for x in rows:
        results += [x.softmax(-1), x.log_softmax(-1), x.sum(-1), x.amax(-1), x.exp()]
        results += [x.amin(-1), F.layer_norm(x, (x.shape[-1],))]
    return results


@pytest.mark.parametrize(
    "dtype, lengths, threads",
    [
        (torch.float32, LENGTHS, 2),
        (torch.float32, LENGTHS[1::2], 1),
        (torch.float64, LENGTHS[1::3], 2),
        (torch.bfloat16, LENGTHS[3:5], 1),
    ],
)
def test_rows_of_any_length(dtype: torch.dtype, lengths: list[int], threads: int):
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randn(50, n, generator=draw).to(dtype) for n in lengths]
    for x in rows:
        # The first and the last elements are computed twice, or alone.
        x[1, 0], x[2, -1], x[3, 4], x[4] = torch.inf, torch.nan, -torch.inf, -torch.inf

    actual = padc.compile(Function(row_ops), tuple(rows), threads=threads)(*rows)

    for found, expected in zip(actual, row_ops(*rows), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_sums_count_each_element_once():
    lengths = range(16, 64, 3)
    rows = [torch.full((20, n), 1.0) for n in lengths]

    actual = padc.compile(Function(lambda *x: [y.sum(-1) for y in x]), tuple(rows))(
        *rows
    )

    assert [int(x[7]) for x in actual] == list(lengths)


def test_elements_are_changed_once_in_place():
    """`write-in-place` lets the inverse overwrite the sums."""
    x = torch.rand(40, 33, 3) + 1

    def function(x: Tensor) -> Tensor:
        return 1 / x.sum(-1)

    actual = padc.compile(Function(function), (x,))(x)

    torch.testing.assert_close(actual, function(x))


@pytest.mark.parametrize("threads", [1, 2])
def test_pools_of_padded_images(threads: int):
    x = torch.randn(2, 16, 30, 77)
    x[0, 1, 3, 4], x[0, 2, 5, 6], x[1, 3] = torch.nan, -torch.inf, -torch.inf

    def function(x: Tensor) -> list[Tensor]:
        return [
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.max_pool2d(x, (2, 5), (1, 3), (1, 2)),
            F.max_pool2d(x, (4, 3), 2, (1, 1), dilation=(1, 3)),
            F.avg_pool2d(x.double(), (3, 7), (2, 4), (0, 3)),
            F.max_pool2d(x.bfloat16(), 5, 3, 2),
            -F.max_pool2d(-x, (3, 4), 3, 1, ceil_mode=True),
            F.avg_pool2d(F.pad(x, (1, 2, 3, 1), mode="circular"), 5, 1).relu(),
        ]

    actual = padc.compile(Function(function), (x,), threads=threads)(x)

    for found, expected in zip(actual, function(x), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"),
    reason="PyTorch 2.8 guards the sizes of pools with strides",
)
def test_pools_of_dynamic_sizes():
    x = torch.randn(2, 3, 21, 43)
    size = Dim("size", min=8, max=60)

    compiled = padc.compile(
        Function(lambda x: F.max_pool2d(x, 3, 2)), (x,), dynamic_shapes=(({3: size},),)
    )

    for width in (8, 43, 60):
        x = torch.randn(2, 3, 21, width)
        torch.testing.assert_close(compiled(x), F.max_pool2d(x, 3, 2))


def test_pads_of_a_dynamic_number_of_rows():
    dims = {1: Dim("rows", min=2, max=20)}
    model = Function(lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"))
    compiled = padc.compile(model, (torch.ones(3, 8, 6),), dynamic_shapes=((dims,),))

    for rows in (2, 3, 9):
        x = torch.randn(3, rows, 6)
        assert torch.equal(compiled(x), model(x))


def test_rows_that_nothing_writes():
    x = torch.tensor(3.0)
    model = Function(lambda x: torch.block_diag(x))

    assert torch.equal(padc.compile(model, (x,))(x), x.reshape(1, 1))


def test_pads_of_bools():
    x = torch.rand(3, 8, 6) > 0.5
    model = Function(lambda x: F.pad(x, (1, 1, 1, 1), value=True))

    assert torch.equal(padc.compile(model, (x,))(x), model(x))


@pytest.mark.parametrize("threads", [1, 2])
def test_padded_rows_share_loops_with_what_reads_them(threads: int):
    """Rows of pads are put together in registers, also as tiles of private buffers."""
    x, image = torch.randn(2, 48, 60), torch.randn(2, 16, 20, 45)

    def function(x: Tensor, image: Tensor) -> list[Tensor]:
        results: list[Tensor] = []
        for mode in ("constant", "circular", "replicate"):
            row, plane = F.pad(x, (2, 3), mode), F.pad(image, (2, 3, 1, 2), mode)
            results += [F.max_pool1d(row, 3), row.bfloat16().amax(-1)]
            results += [F.pad(x.double(), (4, 1), mode).softmax(-1)]
            results += [F.avg_pool2d(plane, 5, 1), plane.sum(-1)]
        return results

    inputs = x, image
    actual = padc.compile(Function(function), inputs, threads=threads)(*inputs)

    for found, expected in zip(actual, function(*inputs), strict=True):
        torch.testing.assert_close(found, expected)


@proves("convert-buffers-to-llvm: vectors of a row")
def test_vectors_of_a_row_cover_it():
    count, place = ints("count place")
    for lanes in (4, 8, 16):
        rest, inside = rest_of(count, lanes), And(0 <= place, place < count)

        assert holds((count - rest) % lanes == 0, count > lanes)
        assert holds(Or(place < lanes, place >= rest), count > lanes, inside)


@proves("convert-buffers-to-llvm: columns of windows")
def test_windows_find_their_columns():
    """Each is stored, inside of the memory, at a place of its own."""
    windows, number, group, other = ints("windows number group other")
    given = And(0 <= number, number < windows)
    with symbolic():
        for stride in (1, 2, 3, 4):
            for step in (1, 2, 3):
                for taps in (2, 3, 5):
                    columns = columns_of(windows, stride, taps, step)
                    phases = Phases(columns, stride)
                    for tap in range(taps):
                        after, phase = phases.of_tap(tap * step)
                        found = number + after
                        met = phases.column(found, phase)
                        is_last = And(found == phases.groups, phase < phases.left)

                        assert holds(met == number * stride + tap * step)
                        assert holds(Or(found < phases.groups, is_last), given)
            phases = Phases(windows, stride)
            for phase in range(stride):
                place = phases.place(group, phase)
                inside = And(0 <= group, group < phases.pitch, windows > 0)

                assert holds(And(0 <= place, place < phases.elements), inside)
                for another in range(phase):
                    is_other = And(0 <= other, other < phases.pitch)
                    differs = place != phases.place(other, another)
                    assert holds(Implies(is_other, differs), inside)
