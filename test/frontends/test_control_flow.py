# pyright: basic
"""
`cond`, `while_loop`, `map` and `scan`: in packages, natively and in the reference.

Each model is exported once, and compared with PyTorch's eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from functions import Function, needs_export
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import padc
from padc.backends import reference
from padc.errors import UnsupportedError
from padc.ir.dominance import verify
from padc.ir.weights import weights_of
from padc.passes import pipelines

TARGETS = ["iOS15", pytest.param("iOS18", marks=pytest.mark.slow)]
FORMS = [
    ("iOS15", "float32"),
    ("iOS18", "float16"),
    pytest.param("iOS15", "float16", marks=pytest.mark.slow),
    pytest.param("iOS18", "float32", marks=pytest.mark.slow),
]
"""Targets and precisions; make conformance runs the slow ones."""


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()  # It takes sizes that differ between exports for dynamic ones.


def check(
    model: nn.Module | Callable[..., Any],
    *samples: Sequence[Tensor],
    dynamic: Any = None,
    strict: bool = False,
    saved: Path | None = None,
    **options: Any,
) -> padc.Program:
    """
    The model computes the same in a package, natively and in the reference.

    With `saved`, the package is made of a program that was saved there and loaded.
    """
    module = model if isinstance(model, nn.Module) else Function(model)
    module = module.eval()
    if dynamic is not None and isinstance(module, Function):
        dynamic = (dynamic,)
    if dynamic is not None and not strict:
        needs_export(module, tuple(samples[0]), dynamic)
    exported = torch.export.export(
        module, tuple(samples[0]), dynamic_shapes=dynamic, strict=strict
    )
    source = exported
    if saved is not None:
        torch.export.save(exported, saved / "model.pt2")
        source = padc.load(saved / "model.pt2")
    program = padc.convert(source, **options)
    assert program.check() == []
    compiled = padc.compile(exported)
    tolerances: Any = {}
    if options.get("precision") == "float16":
        tolerances = {"rtol": 1e-2, "atol": 1e-2}
    # Eager mode would trace these ops once more, for most of the test's time.
    run = exported.module()
    for inputs in samples:
        expected = flat(run(*inputs))
        close(program.run(*inputs), expected, **tolerances)
        close(in_reference(exported, *inputs), expected)
        close(flat(compiled(*inputs)), expected)
    return program


def close(
    results: Sequence[Tensor], expected: Sequence[Tensor], **options: Any
) -> None:
    torch.testing.assert_close(list(results), list(expected), **options)


def flat(results: Any) -> list[Tensor]:
    return pytree.tree_leaves(results)


def in_reference(exported: Any, *inputs: Tensor) -> Sequence[Tensor]:
    ctx, module = pipelines.import_program(exported)
    verify(module)
    pipelines.run_passes(ctx, module, pipelines.to_reference())
    return reference.run(module, *inputs, weights=weights_of(ctx))


def both_signs(*shape: int, dtype: torch.dtype = torch.float32) -> list[list[Tensor]]:
    x = (torch.rand(*shape) * 4 + 1).to(dtype)
    return [[x], [x.logical_not() if dtype == torch.bool else -x]]


# --- cond -----------------------------------------------------------------------------


class Closure(nn.Module):
    """Both branches use a buffer, one a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.offset = nn.Buffer(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(
            x.sum() > 0,
            lambda x: self.linear(x) + self.offset,
            lambda x: x * self.offset - 1,
            (x,),
        )


@pytest.mark.parametrize("target, precision", FORMS)
def test_a_branch_uses_weights(target: str, precision: str, tmp_path: Path) -> None:
    options = {"target": target, "precision": precision, "saved": tmp_path}
    program = check(Closure(), *both_signs(3, 4), **options)

    assert "mil.cond" in program.mlir()


def test_a_branch_has_dynamic_sizes() -> None:
    samples = [[-torch.ones(2, 4)], [torch.ones(9, 4)]]

    check(Closure(), *samples, dynamic=({0: Dim("n", min=2, max=9)},))


def nested(x: Tensor) -> Tensor:
    def inner(x: Tensor) -> Tensor:
        return torch.cond(x.max() > 4, lambda x: x.relu() * 2, lambda x: x.sin(), (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x.cos(), (x,))


def test_branches_are_nested(tmp_path: Path) -> None:
    check(nested, *both_signs(3, 4), [torch.full((3, 4), 9.0)], saved=tmp_path)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.float16, marks=pytest.mark.slow),
        pytest.param(torch.int32, marks=pytest.mark.slow),
        torch.int64,
        torch.bool,
    ],
)
def test_branches_return_operands_and_constants(dtype: torch.dtype) -> None:
    def on_true(x: Tensor) -> tuple[Tensor, ...]:
        return x.clone(), torch.ones(2), x.float().sum(), torch.tensor(True)

    def on_false(x: Tensor) -> tuple[Tensor, ...]:
        return ~x if dtype == torch.bool else x * 2, torch.zeros(2), *last(x)

    def last(x: Tensor) -> tuple[Tensor, ...]:
        return x.float().sum() + 1, torch.tensor(False)

    def model(x: Tensor) -> tuple[Tensor, ...]:
        y, *others = torch.cond(x.float().sum() > 0, on_true, on_false, (x,))
        return y, y == x, *others

    zero = torch.zeros(3, 4, dtype=dtype)
    check(model, *both_signs(3, 4, dtype=dtype), [zero])


def test_values_of_rank_0() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    check(model, [torch.tensor(2.0)], [torch.tensor(-2.0)])


def test_a_size_decides() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))

    dynamic = ({0: Dim("n", min=2, max=9)},)
    check(model, [torch.ones(3)], [torch.ones(7)], dynamic=dynamic)


class Padded(nn.Module):
    """Padding, convolutions, norms and pools in branches."""

    def __init__(self) -> None:
        super().__init__()
        self.reflect = nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")
        self.norm = nn.BatchNorm2d(3)
        self.transposed = nn.ConvTranspose2d(2, 3, 3, padding=1)
        assert self.norm.running_var is not None
        nn.init.uniform_(self.norm.running_var, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        def on_true(x: Tensor) -> Tensor:
            return F.max_pool2d(self.norm(self.reflect(x)), 2)

        def on_false(x: Tensor) -> Tensor:
            y = F.pad(self.transposed(x), (1, 1, 2, 2), "circular")
            return F.avg_pool2d(F.pad(y, (-1, -1, -2, -2)), 2)

        return torch.cond(x.sum() > 0, on_true, on_false, (x,))


@pytest.mark.parametrize("target", TARGETS)
def test_padding_in_branches(target: str) -> None:
    # Otherwise PyTorch compares the branches' strides as expressions.
    check(Padded(), *both_signs(1, 2, 8, 8), target=target, strict=True)


def test_tensors_of_six_dimensions_in_branches() -> None:
    def split(x: Tensor) -> Tensor:
        return x.reshape(2, 3, 2, 2, 3, 2).permute(0, 2, 4, 1, 3, 5).reshape(4, 36)

    def model(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: split(x) + 1, lambda x: x * 2, (x,))

    check(model, *both_signs(4, 36), strict=True)


def test_complex_results_of_branches() -> None:
    def model(x: Tensor) -> Tensor:
        z = torch.cond(
            x.sum() > 0, torch.fft.fft, lambda x: torch.complex(x, x + 1), (x,)
        )
        return torch.view_as_real(z * z)

    check(model, *both_signs(3, 4))


def test_ops_that_pytorch_decomposes_in_branches() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout()

        def forward(self, x: Tensor) -> Tensor:
            def on_true(x: Tensor) -> Tensor:
                y = x + 1
                y.relu_()
                return self.dropout(y)

            return torch.cond(x.sum() > 0, on_true, lambda x: x.abs().logit(0.1), (x,))

    check(Model(), *both_signs(3, 4))


# --- loops ----------------------------------------------------------------------------


def steps(counter: Any, most: int = 5) -> Callable[[Tensor], Any]:
    """A loop with a counter."""

    def model(x: Tensor) -> Any:
        return while_loop(
            lambda i, x: i < most,
            lambda i, x: (i + 1, x * 1.5 + i),
            (counter(), x),
        )[1]

    return model


@pytest.mark.parametrize("target, precision", FORMS)
def test_a_tensor_counts(target: str, precision: str, tmp_path: Path) -> None:
    model = steps(lambda: torch.tensor(0))
    options = {"target": target, "precision": precision, "saved": tmp_path}
    program = check(model, *both_signs(3, 4), **options)

    assert "mil.while_loop" in program.mlir()


def test_a_number_counts() -> None:
    check(steps(lambda: 0), *both_signs(3, 4))


@pytest.mark.parametrize("counter", [lambda: torch.tensor(0), lambda: 0])
def test_a_loop_without_iterations(counter: Any) -> None:
    check(steps(counter, most=0), *both_signs(3, 4))


def test_a_loop_has_dynamic_sizes() -> None:
    model, dynamic = steps(lambda: torch.tensor(0)), ({0: Dim("n", min=2, max=9)},)

    check(model, [torch.ones(2, 4)], [torch.ones(9, 4)], dynamic=dynamic)


def test_data_ends_a_loop() -> None:
    def model(x: Tensor) -> Any:
        return while_loop(
            lambda i, x: x.sum() > 1, lambda i, x: (i + 1, x / 2), (torch.tensor(0), x)
        )

    check(model, [torch.ones(3)], [torch.full((3,), 100.0)], [-torch.ones(3)])


def test_integers_and_bools_are_carried() -> None:
    def model(x: Tensor) -> Any:
        return while_loop(
            lambda i, k, n: (i < 3) & k.any(),
            lambda i, k, n: (i + 1, ~k, n + k),
            (torch.tensor(0, dtype=torch.int32), x, torch.ones(4, dtype=torch.int64)),
        )

    check(
        model,
        [torch.tensor([True, False, True, False])],
        [torch.zeros(4, dtype=torch.bool)],
    )


def test_parts_of_carried_integers_are_joined() -> None:
    """pymil knows some elements of joined integers, as those of sizes."""

    def model(x: Tensor) -> Any:
        return while_loop(
            lambda i, a, b: i < 3,
            lambda i, a, b: (i + 1, torch.cat([a[1:], b[:1]]), b.roll(1)),
            (torch.tensor(0), x, x + 3),
        )[1:]

    check(model, [torch.tensor([1, 2, 3])], [torch.tensor([-4, 5, 7])])


def test_values_that_start_as_constants() -> None:
    """pymil would take a value for a constant that changes in a later iteration."""

    def model(x: Tensor) -> Any:
        zero = torch.zeros(2)
        return while_loop(
            lambda i, a, b, c: i < 4,
            lambda i, a, b, c: (i + 1, b.clone(), c.clone(), c + x),
            (torch.tensor(0), zero, zero + 0, zero + 0),
        )[1:]

    check(model, [torch.ones(2)], [-torch.ones(2)])


def test_a_branch_in_a_loop() -> None:
    def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x * 0.5, (x,))

    def model(x: Tensor) -> Tensor:
        return while_loop(lambda i, x: i < 5, body, (torch.tensor(0), x))[1]

    check(model, *both_signs(3, 4))


def test_a_loop_in_a_branch() -> None:
    def model(x: Tensor) -> Tensor:
        loop = steps(lambda: torch.tensor(0))
        return torch.cond(x.sum() > 0, lambda x: loop(x), lambda x: x * 2, (x,))

    check(model, *both_signs(3, 4))


def test_large_numbers_are_carried_in_float16() -> None:
    def model(x: Tensor) -> Tensor:
        mask = torch.tensor([0.0, 0.0, -1e9, -1e9])
        return while_loop(
            lambda i, x, m: i < 3,
            lambda i, x, m: (i + 1, (x + m).softmax(-1), m * 2),
            (torch.tensor(0), x, mask),
        )[1]

    check(model, *both_signs(3, 4), precision="float16")


# --- map and scan ---------------------------------------------------------------------


over: Any = map_over  # Its annotations do not fit what it takes.


def mapped(x: Tensor, y: Tensor) -> Tensor:
    return over(lambda x, y: (x * y).sin(), x, y)


@pytest.mark.parametrize("count", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_map(count: int) -> None:
    program = check(mapped, [torch.randn(count, 4), torch.randn(4)])

    assert ("mil.while_loop" in program.mlir()) == (count == 200)


@pytest.mark.parametrize("target", TARGETS)
def test_map_over_a_dynamic_size(target: str, tmp_path: Path) -> None:
    samples = [[torch.randn(n, 4), torch.randn(4)] for n in (2, 9)]
    dynamic = ({0: Dim("n", min=2, max=9)}, None)

    check(mapped, *samples, dynamic=dynamic, target=target, saved=tmp_path)


def test_results_of_a_map_have_computed_sizes() -> None:
    def model(x: Tensor) -> Tensor:
        return over(lambda x: torch.cat([x, x, x[:1]]), x)

    sizes = {0: Dim("n", min=2, max=9), 1: Dim("m", min=2, max=9)}
    check(model, [torch.randn(3, 4)], [torch.randn(9, 2)], dynamic=(sizes,))


class Recurrent(nn.Module):
    """The states of a cell, and what is computed from them."""

    def __init__(self, kind: type[nn.RNNCellBase] = nn.GRUCell) -> None:
        super().__init__()
        self.cell = kind(4, 5)  # type: ignore[call-arg]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            (state,) = self.cell(x[None], state[None])
            return state, (state * 2).sum(0)

        return scan(step, torch.zeros(5), x)


def test_scan() -> None:
    check(Recurrent(nn.RNNCell), [torch.randn(2, 4)])


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_scan_of_gru(count: int, precision: str) -> None:
    check(Recurrent(), [torch.randn(count, 4)], precision=precision)


def test_scan_over_a_dynamic_size(tmp_path: Path) -> None:
    samples = [[torch.randn(n, 4)] for n in (7, 2, 50)]
    dynamic = ({0: Dim("n", min=2, max=50)},)

    check(Recurrent(), *samples, dynamic=dynamic, saved=tmp_path)


@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_scan_from_the_end(count: int) -> None:
    def model(x: Tensor) -> Any:
        def step(total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return total + x, (total > x).clone()

        return scan(step, torch.zeros(3, dtype=torch.int64), x, dim=1, reverse=True)

    check(model, [torch.randint(-5, 5, (3, count))])


# --- limits ---------------------------------------------------------------------------


def test_problems_in_a_branch_are_reported_once() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(
            x.sum() > 0, lambda x: x + torch.rand(3), lambda x: x * 2, (x,)
        )

    with pytest.raises(UnsupportedError) as error:
        padc.convert(Function(model), (torch.ones(3),))

    assert str(error.value).count("aten.rand") == 1


def test_branches_that_differ_in_size() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x[:2] + 1, (x,))

    with pytest.raises(UnsupportedError, match=r"cond.*one branch gives float32\["):
        padc.convert(Function(model), (torch.ones(3),))


def test_tensors_of_six_dimensions_cannot_leave_a_branch() -> None:
    def model(x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x[None],))
        return y[0]

    with pytest.raises(UnsupportedError, match=r"cond.*rank 5 at most"):
        padc.convert(Function(model), (torch.ones(1, 2, 1, 2, 1),))
