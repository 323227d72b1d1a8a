# pyright: basic
"""Sizes of 0 and 1, which torch.export takes for larger ones."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch.export import Dim
from xdsl.dialects.builtin import f32
from xdsl.rewriter import Rewriter

import padc
from padc.frontends.torch_export.small_sizes import narrow_small_sizes
from padc.ir.torch import AtenOp, SymbolicIntOp, VTensorType
from padc.passes.pipelines import import_program

N = Dim("n", min=0, max=9)


def exported(function: Callable[..., Any], *args: torch.Tensor, sizes: Any) -> Any:
    return torch.export.export(Function(function), args, dynamic_shapes=(sizes,))


RIGHT_FROM: dict[str, tuple[int, Callable[[torch.Tensor], Any]]] = {
    "the first rows": (2, lambda x: x[:2] * 2),
    "the first row": (1, lambda x: x[:1].expand(4, 3) + 1),
    "the last rows": (2, lambda x: torch.cat([x[-2:], x])),
    "a row": (2, lambda x: x[1] + 1),
    "the last row": (1, lambda x: x[-1] + 1),
    "removed": (2, lambda x: x.squeeze(0) + 1),
    "a part": (2, lambda x: x.narrow(0, 0, 2) * 2),
    "windows": (1, lambda x: x.unfold(0, 1, 1) + 1),
    "the largest": (1, lambda x: x.amax(0)),
    "the larger": (1, lambda x: x.max(0)[0]),
    "the smallest of all": (1, lambda x: x.min()),
    "resized": (1, lambda x: F.interpolate(x.T[None], size=5, mode="linear")),
    "repeated": (1, lambda x: F.interpolate(x.T[None], size=5)),
    "averages": (1, lambda x: F.adaptive_avg_pool1d(x.T[None], 2)),
    "sampled": (1, lambda x: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2))),
    "indexed": (1, lambda x: x.index_select(0, torch.tensor([0, 0]))),
    "gathered": (1, lambda x: x.gather(0, torch.zeros(2, 3, dtype=torch.int64))),
    "with an index": (1, lambda x: x[torch.tensor([0, 0])] + 1),
    "embedded": (1, lambda x: F.embedding(torch.tensor([0]), x)),
    "doubled": (0, lambda x: x * 2),
    "summed": (0, lambda x: x.sum(0)),
    "of a part": (2, lambda x: x.split(2, 1)[0][:2] * 2),
    "of a product": (2, lambda x: F.linear(x, torch.ones(2, 3))[:2] * 2),
    "replaced": (1, lambda x: torch.slice_scatter(x, torch.ones(1, 3), 0, 0, 1, 2)),
    "of no indices": (
        0,
        lambda x: x.index_select(0, torch.zeros(0, dtype=torch.int64)),
    ),
}


@pytest.mark.filterwarnings("ignore:Default grid_sample:UserWarning")
@pytest.mark.parametrize("case", RIGHT_FROM)
def test_the_smallest_size(case: str):
    """Below it, PyTorch refuses the op, or returns other shapes than it exports."""
    least, function = RIGHT_FROM[case]
    program = exported(function, torch.randn(6, 3), sizes=({0: N},))

    model = padc.compile(program)

    assert model.is_native
    for size in range(4):
        x = torch.randn(size, 3)
        if size < least:
            with pytest.raises(padc.UsageError, match=f"dimension 0 .* is {size}"):
                model(x)
        else:
            torch.testing.assert_close(model(x), program.module()(x))


REASON = (
    r"torch\.export traces .* 2 or more, and where \w+ is 1 aten\.slice\.Tensor "
    r"differs: .*\[2,3\], and PyTorch makes float32\[1,3\], at .*functions.py:"
)


def test_the_reason():
    program = exported(lambda x: x[:2] * 2, torch.ones(6, 3), sizes=({0: N},))

    with pytest.raises(padc.UsageError, match=f"is 1; .* for 2 to 9: {REASON}"):
        padc.compile(program)(torch.ones(1, 3))
    with pytest.warns(padc.PadcWarning, match=f"no smaller sizes: {REASON}"):
        package = padc.convert(program)
    assert package.verify([(torch.randn(2, 3),)]) is not None


def test_a_package_that_takes_no_rows():
    """Core ML has no empty tensors, so there is nothing to warn of."""
    program = exported(
        lambda x: x.unfold(0, 1, 1) + 1, torch.ones(6, 3), sizes=({0: N},)
    )

    with warnings.catch_warnings(action="error", category=padc.PadcWarning):
        package = padc.convert(program)

    assert package.verify([(torch.randn(1, 3),)]) is not None


def test_shapes_that_are_listed():
    program = exported(lambda x: x[:2] * 2, torch.ones(6, 3), sizes=({0: N},))

    ct = pytest.importorskip("coremltools")
    with pytest.raises(padc.PadcError, match=r"the model takes 2\.\.9 there"):
        shapes = ct.EnumeratedShapes([(1, 3), (4, 3)])
        padc.convert(program, inputs=[ct.TensorType(shape=shapes)])


def test_sizes_that_are_multiples():
    program = exported(lambda x: x[:4] + 1, torch.ones(6, 3), sizes=({0: 2 * N},))

    model = padc.compile(program)

    torch.testing.assert_close(model(torch.ones(4, 3)), torch.full((4, 3), 2.0))
    with pytest.raises(padc.UsageError, match="is 2; the model was exported for 4 to"):
        model(torch.ones(2, 3))


def rows(name: str, least: int) -> dict[int, Any]:
    return {0: Dim(name, min=least, max=9)}


@pytest.mark.parametrize("least", [0, 1])
def test_sizes_that_are_small_together(least: int):
    """Each may be small, but then the first rows are not all there."""

    def function(*parts: torch.Tensor) -> torch.Tensor:
        return torch.cat(parts)[: 3 * len(parts) // 2] * 2

    for count in (2, 3, 4):
        sizes = tuple(rows(f"n{number}", least) for number in range(count))
        example = [torch.ones(4 + number, 3) for number in range(count)]

        model = padc.compile(exported(function, *example, sizes=sizes))

        taken: set[tuple[int, ...]] = set()
        for each in itertools.product(range(4), repeat=count):
            inputs = [torch.randn(size, 3) for size in each]
            try:
                made = model(*inputs)
            except padc.UsageError:
                continue
            torch.testing.assert_close(made, function(*inputs))
            taken.add(each)
        assert (2,) * count in taken
        assert (1,) * count not in taken


def test_indices_of_nothing():
    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] + 1

    index = torch.tensor([0, 1, 2, 1, 0])
    program = exported(
        function, torch.ones(6, 3), index, sizes=(rows("n", 0), rows("m", 0))
    )

    model = padc.compile(program)

    for size, count in (3, 2), (0, 0), (1, 0), (1, 4):
        inputs = torch.randn(size, 3), torch.zeros(count, dtype=torch.int64)
        torch.testing.assert_close(model(*inputs), function(*inputs))
    with pytest.raises(padc.UsageError, match="exported where"):
        model(torch.ones(0, 3), torch.zeros(1, dtype=torch.int64))


def test_rows_that_a_branch_returns():
    """Only their type is known."""

    def function(x: torch.Tensor) -> torch.Tensor:
        rows = torch.cond(x.sum() > 0, lambda x: x[:1] + 1, lambda x: x[:1] * 2, (x,))
        return torch.cat([rows, rows, x])[:4] * 2

    program = exported(function, torch.ones(6, 3), sizes=({0: N},))
    model = padc.compile(program)

    for x in torch.randn(2, 3), torch.randn(9, 3):
        torch.testing.assert_close(model(x), function(x))
    with pytest.raises(padc.UsageError, match=r"1 aten\.slice.* makes float32\[3,3\]"):
        model(torch.ones(1, 3))


def test_a_smallest_size_of_the_user():
    """It has no other reason, though the model does not take smaller ones, either."""
    program = exported(lambda x: x[1:2] * 2, torch.ones(6, 3), sizes=(rows("n", 2),))

    with pytest.raises(padc.UsageError, match=r"for 2 to 9$"):
        padc.compile(program)(torch.ones(1, 3))
    program = exported(lambda x: x[:1] * 2, torch.ones(6, 3), sizes=(rows("n", 1),))
    with pytest.raises(padc.UsageError, match=r"for 1 to 9$"):
        padc.compile(program)(torch.ones(0, 3))


def test_what_is_wrong_for_all_sizes_tells_nothing():
    """An op that does not say what PyTorch makes of the example, either."""
    program = exported(lambda x: x.relu() * 2, torch.ones(6, 3), sizes=({0: N},))
    _, module = import_program(program)
    relu, *_ = (op for op in module.walk() if isinstance(op, AtenOp))
    (size,) = (op for op in module.walk() if isinstance(op, SymbolicIntOp))
    Rewriter.replace_value_with_new_type(relu.results[0], VTensorType.get(f32, (7, 3)))

    narrow_small_sizes(module, program)

    assert size.reason is None
    assert size.min_val.value.data == 0


def test_sizes_that_guards_exclude():
    """They need no other bound."""
    program = exported(
        lambda x: x.reshape(-1, 2)[:1] * 2,
        torch.ones(6),
        sizes=({0: Dim.AUTO(min=1, max=9)},),
    )

    model = padc.compile(program)

    with pytest.raises(padc.UsageError, match="is 3, but the model was exported"):
        model(torch.ones(3))
