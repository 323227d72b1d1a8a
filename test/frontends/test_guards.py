# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""Guards of torch.export: sizes for which a program is not the model are refused."""

import functools
import math
import re
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from functions import Function
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F

import padc
from padc.errors import UnsupportedError, UsageError
from padc.frontends.torch_export import guarded_ranges as guarded_ranges_module
from padc.frontends.torch_export import guards
from padc.frontends.torch_export.deciding_ops import first_ops_of_size, value_of_symbol
from padc.frontends.torch_export.guarded_ranges import (
    guarded_values,
    holds,
    input_tensors,
)
from padc.frontends.torch_export.guards import (
    Guard,
    GuardCheck,
    guards_of,
    read_guard,
    restore_guards,
)
from padc.frontends.torch_export.types import expression_of
from padc.versions import numbers

pytestmark = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 keeps no guards"
)


class One(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Nested(nn.Module):
    def forward(
        self, items: dict[str, list[torch.Tensor]], *, other: torch.Tensor
    ) -> torch.Tensor:
        return items["a"][0].view(-1, 3).sum() + other.view(-1, 5).sum()


class Starred(nn.Module):
    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return args[0].view(-1, 3).sum() + args[1].view(-1, 5).sum()


def auto(low: int = 2, high: int = 64) -> Any:
    return Dim.AUTO(min=low, max=high)  # type: ignore[operator]


def exported(
    function: Callable[..., torch.Tensor], x: torch.Tensor, *dims: int
) -> ExportedProgram:
    return torch.export.export(
        One(function), (x,), dynamic_shapes=({dim: auto() for dim in dims},)
    )


@functools.cache
def program_of(name: str) -> ExportedProgram:
    match name:
        case "area":
            return exported(
                lambda x: F.interpolate(x, scale_factor=3.0, mode="area"),
                torch.rand(1, 2, 10),
                2,
            )
        case "lp_pool":
            return exported(
                lambda x: F.lp_pool1d(x, 2, 3, 2, ceil_mode=True),
                torch.rand(1, 2, 11),
                2,
            )
        case "view":
            return exported(lambda x: x.view(-1, 4).sum(1), torch.rand(16), 0)
        case _:
            return exported(
                lambda x: F.pixel_unshuffle(x, 2), torch.rand(1, 1, 8, 8), 2, 3
            )


def program_input(program: ExportedProgram) -> torch.Tensor:
    """The only input, as the graph has it."""
    (value,) = [
        node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"
    ]
    return value


def input_of(program: ExportedProgram, size: int) -> torch.Tensor:
    """An input where all dynamic sizes are `size`."""
    shape = program_input(program).shape
    return torch.rand([n if isinstance(n, int) else size for n in shape])


@pytest.mark.parametrize("name", ["area", "lp_pool", "view", "unshuffle"])
def test_machine_code_takes_the_sizes_that_pytorch_takes(name: str):
    program = program_of(name)
    compiled, module = padc.compile(program), program.module()
    assert compiled.is_native
    taken: set[bool] = set()
    for size in range(3, 20):
        x = input_of(program, size)
        try:
            expected = module(x)
        except (AssertionError, RuntimeError):
            with pytest.raises(UsageError, match=f"dimension . .* is {size}"):
                compiled(x)
            with pytest.raises(UsageError):
                compiled.run_named({"x": x})
            taken.add(False)
        else:
            torch.testing.assert_close(compiled(x), expected)
            taken.add(True)
    assert taken == {True, False}


@pytest.mark.parametrize("shape", [(5, 4), (4, 5)])
def test_ranges_have_the_sizes_of_the_example(shape: tuple[int, int]):
    x = torch.rand(shape)
    program = exported(lambda x: x.reshape(-1)[:17], x, 0, 1)
    symbols: list[Any] = [expression_of(x) for x in program_input(program).shape]

    found = guarded_values(program, dict.fromkeys(symbols, range(2, 65)))

    assert [found[symbol].values[0] for symbol in symbols] == list(shape)


def test_the_message_names_dimension_and_guard():
    with pytest.raises(UsageError) as caught:
        padc.compile(program_of("area"))(torch.rand(1, 2, 7))

    assert str(caught.value).startswith(
        "dimension 2 of the input 'x' is 7, but the model was exported where "
        "math.trunc(3.0 * float(x.shape[2])) == 30"
    )


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["nested", "starred"])
def test_inputs_in_containers(kind: str, strict: bool):
    a, b, dims = torch.rand(9), torch.rand(10), {0: Dim.AUTO}
    model: nn.Module
    args: tuple[Any, ...]
    if kind == "nested":
        model, args, kwargs = Nested(), ({"a": [a]},), {"other": b}
        shapes: Any = {"items": {"a": [dims]}, "other": dims}
    else:
        model, args, kwargs = Starred(), (a, b), {}
        shapes = ((dims, dims),)
    program = torch.export.export(
        model, args, kwargs, dynamic_shapes=shapes, strict=strict
    )
    compiled = padc.compile(program)

    torch.testing.assert_close(compiled(*args, **kwargs), model(*args, **kwargs))
    wrong = ({"a": [a]},) if kind == "nested" else (a, torch.rand(9))
    with pytest.raises(UsageError, match=r"is 9, but .*\[0\] % 5 == 0"):
        compiled(*wrong, **({"other": torch.rand(9)} if kwargs else {}))


def test_ranges_from_zero():
    """Core ML has no empty tensors: its range begins at 1. Machine code has them."""
    program = torch.export.export(
        One(lambda x: F.avg_pool1d(F.pad(x, (1, 1)), 2)),
        (torch.rand(2, 8),),
        dynamic_shapes=({1: Dim("n", max=16)},),
    )
    converted = padc.convert(program)

    assert not converted.check()
    converted.verify([(torch.rand(2, 1),), (torch.rand(2, 16),)])
    with pytest.raises(UsageError, match=r"\(2, 1\.\.16\)"):
        converted.run(torch.rand(2, 0))
    assert padc.compile(program)(torch.rand(2, 0)).shape == (2, 1)


def test_guards_that_divide_by_zero():
    """They do not hold there: `(n // 4) % (n // 4) == 0`, read for all n at once."""
    sizes = {"L['x']": (0, "x")}
    guard = read_guard("(L['x'].size()[0] % (L['x'].size()[0] // 4)) == 0", sizes)
    program = program_of("view")
    symbol = expression_of(input_tensors(program)[0].shape[0])
    values: Any = {symbol: np.arange(9)}

    found = holds(guard, input_tensors(program), values)

    assert found.tolist() == [False] * 4 + [True] * 2 + [True] * 2 + [True]


def test_a_guard_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    program = program_of("view")
    monkeypatch.setattr(program, "_guards_code", ["L['x'].stride()[0] == 1"])

    compiled = padc.compile(program)

    assert not compiled.is_native  # PyTorch, which runs it, checks the guard.
    assert "padc cannot check" in compiled.report()
    with pytest.raises(UnsupportedError, match="padc cannot check"):
        padc.convert(program)


@pytest.mark.parametrize(
    "name, taken, refused, what",
    [
        ("area", 10, 9, "the size 10, not those"),
        ("lp_pool", 4, 3, "sizes of 4 to 64, not"),
    ],
    ids=["one size", "a smaller range"],
)
def test_packages_take_the_sizes_for_which_guards_hold(
    name: str, taken: int, refused: int, what: str
):
    program = program_of(name)
    with pytest.warns(padc.PadcWarning, match=f"takes {what} of 2 to 64"):
        converted = padc.convert(program)

    assert not converted.check()
    with warnings.catch_warnings(action="ignore"):
        converted.verify([(input_of(program, taken),)])
    with pytest.raises(UsageError, match=r"dimension 2|shape"):
        converted.run(input_of(program, refused))


class Longer(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y]) if x.shape[0] > y.shape[0] else x


def test_a_guard_on_two_sizes():
    program = torch.export.export(
        Longer(),
        (torch.rand(16), torch.rand(5)),
        dynamic_shapes=({0: auto()}, {0: auto()}),
    )

    with pytest.raises(UnsupportedError, match="not hold for all of them") as caught:
        padc.convert(program)

    (problem,) = caught.value.problems
    assert "x.shape[0] > y.shape[0]" in problem.message
    assert problem.location is not None
    assert Path(problem.location.file) == Path(__file__)
    assert "if x.shape[0] > y.shape[0]" in problem.location.text


def test_the_smallest_of_two_sizes_are_left_out():
    program = exported(lambda x: x.diagonal(1, 1, 2) * 2, torch.rand(2, 4, 6), 1, 2)
    (guard,) = guards_of(program)
    assert guard.text == "min(x.shape[1], -1 + x.shape[2]) != 1"

    with pytest.warns(padc.PadcWarning, match="dimension 2 .* of 3 to 64, not of 2"):
        text = padc.convert(program).mlir()

    assert re.search(r'padc.sizes = \["\w+ in 2..64", "\w+ in 3..64"\]', text)


@pytest.mark.parametrize("low", [2, 20])
def test_a_guard_that_divides_by_zero_somewhere(low: int):
    """Nothing is tried one by one: there are a million combinations."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] % (x.shape[1] // 4) != 5000 else x

    shapes = {0: auto(low, 1000), 1: auto(low, 1000)}
    program = torch.export.export(
        One(f), (torch.rand(21, 27),), dynamic_shapes=(shapes,)
    )
    symbols: list[Any] = [
        expression_of(size) for size in input_tensors(program)[0].shape
    ]

    found = guarded_values(program, dict.fromkeys(symbols, range(low, 1001)))

    ranges = range(low, 1001), range(max(low, 4), 1001)
    values = {symbol: kept.values for symbol, kept in found.items()}
    assert values == dict(zip(symbols, ranges, strict=True))


AREAS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scale": lambda x: F.interpolate(x, scale_factor=3.0, mode="area"),
    "recomputed": lambda x: F.interpolate(
        x, None, [1.7], "area", recompute_scale_factor=True
    ),
    "size": lambda x: F.interpolate(x, size=x.shape[2] + 1, mode="area"),
    "pool": lambda x: F.adaptive_avg_pool1d(x[0], [2 * x.shape[2]]),
    "smaller": lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
    "2-D": lambda x: F.interpolate(x[:, :, None], None, [3, 0.5], mode="area"),
    "3-D": lambda x: F.interpolate(
        x[None].expand(2, 2, 2, 2, -1), (1, 3, x.shape[2] // 2), mode="area"
    ),
    "module": lambda x: nn.AdaptiveAvgPool2d((None, x.shape[2] // 2))(x),
}


@pytest.mark.parametrize("function", AREAS.values(), ids=AREAS)
def test_pools_to_computed_sizes_need_no_guard(
    function: Callable[[torch.Tensor], torch.Tensor],
):
    shapes, example = ({2: auto(high=20)},), torch.rand(1, 2, 10)
    model = One(function)

    package = padc.convert(model, (example,), dynamic_shapes=shapes)
    compiled = padc.compile(model, (example,), dynamic_shapes=shapes)

    inputs = [torch.rand(1, 2, size) for size in (2, 3, 7, 20)]
    package.verify([(x,) for x in inputs])
    for x in inputs:
        torch.testing.assert_close(compiled(x), function(x))


KERNEL = torch.linspace(-1.0, 1.0, 3 * 3 * 2).reshape(3, 3, 2)
HALVED: dict[str, Callable[[Tensor], Tensor]] = {
    "lp_pool": lambda x: F.lp_pool1d(x, 2.0, 2),
    "convolutions": lambda x: F.conv1d(F.relu(F.conv1d(x, KERNEL)), KERNEL, stride=2),
    "pools": lambda x: F.avg_pool1d(F.max_pool1d(x, 2, 2), 2, ceil_mode=True).exp(),
    "residual": lambda x: F.avg_pool1d(x, 2).add(F.conv1d(x, KERNEL, stride=2)),
    "broadcast": lambda x: 1 - F.max_pool1d(x, 3) * torch.arange(3.0).view(3, 1),
    "concatenation": lambda x: torch.cat([F.avg_pool1d(x, 3)] * 2, 2).softmax(2),
    "norm": lambda x: F.batch_norm(
        F.avg_pool1d(x, 3), KERNEL[0, 0, :1].expand(3), ONES
    ),
    "padded": lambda x: F.pad(F.avg_pool1d(x, 3), (-1, 1)).mean(2, keepdim=True),
}
ONES = torch.ones(3)


@pytest.mark.parametrize("function", HALVED.values(), ids=HALVED)
def test_computed_sizes_may_be_1(function: Callable[[Tensor], Tensor]):
    shapes, example = ({2: auto(low=3, high=20)},), torch.rand(1, 3, 16)
    model = One(function)

    package = padc.convert(model, (example,), dynamic_shapes=shapes)
    compiled = padc.compile(model, (example,), dynamic_shapes=shapes)

    inputs = [torch.rand(1, 3, size) for size in (3, 4, 5, 6, 20)]
    package.verify([(x,) for x in inputs])
    for x in inputs:
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool1d(x, 3).squeeze(2),
        lambda x: F.avg_pool1d(x, 3).squeeze(),
        lambda x: F.avg_pool1d(x, 3).relu().sum_to_size(2, 3, 1),
        lambda x: F.avg_pool1d(x, 3) + x[:, :, -2:],
        lambda x: x if F.avg_pool1d(x, 3).shape[2] == 1 else -x,
    ],
    ids=["squeeze", "squeeze all", "sum_to_size", "broadcast", "in Python"],
)  # fmt: skip
def test_sizes_of_1_that_decide_are_refused(function: Callable[[Tensor], Tensor]):
    """Another shape, or another value, where the computed size is 1."""
    example = torch.rand(2, 3, 6)
    compiled = padc.compile(
        One(function), (example,), dynamic_shapes=({2: auto(high=20)},)
    )

    torch.testing.assert_close(compiled(example), function(example))
    with pytest.raises(UsageError):
        compiled(torch.rand(2, 3, 4))


def test_computed_sizes_may_be_0():
    def function(x: Tensor) -> Tensor:
        return F.interpolate(F.avg_pool2d(x, 2), scale_factor=0.5, mode="area")

    sizes, example = ({2: auto(high=20), 3: auto(high=20)},), torch.rand(1, 4, 12, 12)
    compiled = padc.compile(One(function), (example,), dynamic_shapes=sizes)

    for shape in [(2, 2), (2, 9), (9, 2), (4, 4)]:
        x = torch.rand(1, 4, *shape)
        torch.testing.assert_close(compiled(x), function(x))


BROADCAST: dict[str, Callable[[Tensor], Tensor]] = {
    "excitation": lambda x: x * F.avg_pool1d(x, 4),
    "arange": lambda x: F.avg_pool1d(x, 4) + torch.arange(4.0),
    "maximum": lambda x: torch.maximum(x, F.max_pool1d(x, 4)),
}


@pytest.mark.parametrize("function", BROADCAST.values(), ids=BROADCAST)
def test_an_example_in_which_a_computed_size_is_1(
    function: Callable[[Tensor], Tensor],
):
    example = torch.rand(1, 3, 4)
    compiled = padc.compile(
        One(function), (example,), dynamic_shapes=({2: auto(high=20)},)
    )

    for size in (4, 5, 7):
        x = torch.rand(1, 3, size)
        torch.testing.assert_close(compiled(x), function(x))
    with pytest.raises(UsageError, match="exported"):
        compiled(torch.rand(1, 3, 8))


@pytest.mark.parametrize("options", [{"align_corners": True}, {"antialias": True}])
def test_options_that_area_does_not_have(options: dict[str, bool]):
    model = One(lambda x: F.interpolate(x, None, 0.5, "area", **options))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="option"):
        padc.compile(
            model, (torch.rand(1, 3, 4, 4),), dynamic_shapes=({2: auto(high=20)},)
        )


def cropped(x: Tensor) -> Tensor:
    return F.pad(x, (-3, 0))


NOT_EMPTY: dict[str, Callable[[Tensor], Tensor]] = {
    "max_pool": lambda x: F.max_pool2d(cropped(x), 2),
    "avg_pool": lambda x: F.avg_pool2d(cropped(x), 2, ceil_mode=True),
    "lp_pool": lambda x: F.lp_pool2d(cropped(x), 2.0, 2),
    "convolution": lambda x: F.conv2d(cropped(x), torch.ones(1, 1, 1, 1)),
    "transposed": lambda x: F.conv_transpose2d(cropped(x), torch.ones(1, 1, 1, 1)),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(cropped(x), 2),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(cropped(x), 2),
    "area": lambda x: F.interpolate(cropped(x), scale_factor=2.0, mode="area"),
    "select": lambda x: cropped(x).select(3, 0),
    "amax": lambda x: cropped(x).amax(3),
    "replicate": lambda x: F.pad(cropped(x), (1, 1, 0, 0), mode="replicate"),
}


@pytest.mark.parametrize("function", NOT_EMPTY.values(), ids=NOT_EMPTY)
def test_ops_that_need_elements(function: Callable[[Tensor], Tensor]):
    sizes, example = ({3: auto(high=20)},), torch.rand(1, 1, 4, 12)
    compiled = padc.compile(One(function), (example,), dynamic_shapes=sizes)

    for size in (2, 3):
        x = torch.rand(1, 1, 4, size)
        with pytest.raises((RuntimeError, IndexError)):
            function(x)
        with pytest.raises(UsageError, match="exported"):
            compiled(x)
    torch.testing.assert_close(compiled(example), function(example))


MAX_POOLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "module": torch.nn.MaxPool1d(3, 2, 1),
    "stride of the kernel": lambda x: F.max_pool1d(x, 3),
    "dilated": lambda x: F.max_pool1d(x, [3], stride=1, dilation=2),
    "of torch": lambda x: torch.max_pool1d(x, 2, 1, ceil_mode=True),
}


@pytest.mark.parametrize("function", MAX_POOLS.values(), ids=MAX_POOLS)
def test_max_pools_keep_lengths_dynamic(
    function: Callable[[torch.Tensor], torch.Tensor],
):
    shapes, example = ({2: auto(6, 20)},), torch.rand(1, 2, 10)
    model = One(function)

    package = padc.convert(model, (example,), dynamic_shapes=shapes)
    compiled = padc.compile(model, (example,), dynamic_shapes=shapes)

    assert compiled.is_native
    inputs = [torch.rand(1, 2, size) for size in (6, 7, 13, 20)]
    package.verify([(x,) for x in inputs])
    for x in inputs:
        torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)


def test_derived_dimensions_need_no_guard():
    n = Dim("n", min=2, max=16)
    program = torch.export.export(
        One(lambda x: x.view(-1, 4).sum(1)),
        (torch.rand(16),),
        dynamic_shapes=({0: 4 * n},),
    )

    padc.convert(program).verify([(torch.rand(64),), (torch.rand(8),)])


@pytest.mark.parametrize("name", ["area", "lp_pool", "view", "unshuffle"])
def test_numbers_and_arrays_agree(name: str):
    """Guards are read alike for one size, for all at once, and by Python."""
    for guard in guards_of(program_of(name)):
        sizes = list(range(3, 30))
        at_once = guard.holds(lambda _, sizes=sizes: np.array(sizes))
        one_by_one = [guard.holds(lambda _, n=n: n) for n in sizes]
        assert np.broadcast_to(at_once, len(sizes)).tolist() == one_by_one
        assert one_by_one == [by_python(guard, n) for n in sizes]


class Variadic(torch.nn.Module):
    def forward(self, *inputs: Any) -> torch.Tensor:
        return inputs[1].view(-1, 4).sum(1) * inputs[0] + inputs[2]


@pytest.mark.parametrize("factor", [2, torch.ones([])])
def test_inputs_of_a_variadic_model(factor: Any):
    """Guards name them by their place; those that are numbers have none."""
    shapes = (None, {0: auto(high=40)}, None)
    inputs = factor, torch.rand(16), torch.zeros(1)
    program = torch.export.export(Variadic(), inputs, dynamic_shapes=(shapes,))
    compiled = padc.compile(program)

    x = torch.rand(20)
    torch.testing.assert_close(
        compiled(factor, x, inputs[2]), x.view(-1, 4).sum(1) * factor
    )
    with pytest.raises(UsageError, match="dimension 0 of the input 'inputs_1' is 18"):
        compiled(factor, torch.rand(18), inputs[2])


def test_few_combinations_of_sizes_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "MOST_REMEMBERED", 3)
    check = GuardCheck(guards_of(program_of("view")))
    for _ in range(2):
        for size in range(8, 40, 4):
            check([torch.rand(size)])

    assert len(check._right) == 3


def guarded(*texts: str) -> ExportedProgram:
    """A program of two dynamic sizes n and m with these guards."""
    program = torch.export.export(
        One(lambda x: x * 2),
        (torch.rand(16, 16),),
        dynamic_shapes=({0: auto(high=64), 1: auto(high=64)},),
    )
    sizes = {"n": "L['x'].size()[0]", "m": "L['x'].size()[1]"}
    guards = [re.sub(r"\b[nm]\b", lambda match: sizes[match[0]], x) for x in texts]
    setattr(program, "_guards_code", guards)
    return program


def test_only_guards_that_exclude_sizes_are_named():
    with pytest.warns(padc.PadcWarning) as warnings:
        padc.convert(guarded("n > 5", "n > 1", "m > 7"))

    messages = sorted(str(each.message) for each in warnings)
    assert [text.partition("since ")[2] for text in messages] == [
        "the model was exported where x.shape[0] > 5",
        "the model was exported where x.shape[1] > 7",
    ]


@pytest.mark.parametrize(
    ("texts", "named", "why"),
    [
        (("n % 4 == 0", "n > 5"), ["x.shape[0] % 4 == 0"], "list 945 shapes"),
        (
            ("n > 5", "n < 4"),
            ["x.shape[0] > 5", "x.shape[0] < 4"],
            "no size in its range",
        ),
        (("n > m",), ["x.shape[0] > x.shape[1]"], "not hold for all of them"),
    ],
)
def test_guards_that_no_range_satisfies(texts: Any, named: Sequence[str], why: str):
    with pytest.raises(UnsupportedError) as caught:
        padc.convert(guarded(*texts))

    problems = caught.value.problems
    assert all(
        f"where {name};" in p.message for name, p in zip(named, problems, strict=True)
    )
    assert all(why in problem.message for problem in problems)


def test_combinations_that_are_too_many_to_try(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guarded_ranges_module, "MOST_SIZES", 1000)

    with pytest.raises(UnsupportedError, match="not all sizes can be tried"):
        padc.convert(guarded("n * m >= 17"))


def test_guards_on_multiples_of_a_size():
    """No size of the example is that of the symbol itself."""
    n, m = Dim("n", min=1, max=16), Dim("m", min=1, max=16)
    program = torch.export.export(
        One(lambda x: x * 2),
        (torch.rand(16, 16),),
        dynamic_shapes=({0: 4 * n, 1: 4 * m},),
    )
    setattr(program, "_guards_code", ["L['x'].size()[0] * L['x'].size()[1] >= 65"])

    with pytest.warns(padc.PadcWarning, match="where .* >= 65"):
        package = padc.convert(program)

    package.run(torch.rand(16, 16))


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 4 == 0:
            x = x * 2
        if x.shape[1] % 3 == 1:
            x = x + 1
        return x


def test_each_guard_has_its_line():
    shapes = ({0: auto(high=64), 1: auto(high=64)},)
    program = torch.export.export(
        Branches(), (torch.rand(16, 16),), dynamic_shapes=shapes
    )
    for dim, line in enumerate(("if x.shape[0] % 4 == 0:", "if x.shape[1] % 3 == 1:")):
        (guard,) = [g for g in guards_of(program) if f"shape[{dim}] %" in g.text]
        location = guarded_ranges_module.guard_location(program, guard)
        assert location is not None and location.text == line


class Quarters(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 4 == 0:
            x = x * 2
        y = x + 1
        return y.view(-1, 4).sum(1)


def test_the_line_of_a_guard_on_a_size_that_an_op_makes():
    """The condition is decided twice, and has the line that came first."""
    program = torch.export.export(
        Quarters(), (torch.rand(16),), dynamic_shapes=({0: auto(high=64)},)
    )

    first, *others = guards_of(program)

    for guard in (first, *others):
        location = guarded_ranges_module.guard_location(program, guard)
        line = "if x.shape[0] % 4 == 0:" if guard is first else "return y.view(-1, 4)"
        assert location is not None and line in location.text
    assert "% 4 ==" in first.text and others


class Graphs(torch.nn.Module):
    """Ops that run graphs, before the one that decides on sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            z = x + 1
        z = torch.cond(y.sum() > 0, lambda z: z + 1, lambda z: z - 1, (z,))
        return z[::2] + y


@pytest.mark.parametrize("is_saved", [False, True])
def test_the_line_is_left_out_where_it_cannot_be_told(is_saved: bool, tmp_path: Path):
    inputs = torch.rand(16), torch.rand(8)
    shapes = ({0: auto(high=64)}, {0: auto(high=64)})
    program = torch.export.export(Graphs(), inputs, dynamic_shapes=shapes)
    if is_saved:
        torch.export.save(program, tmp_path / "model.pt2")
        program = padc.load(tmp_path / "model.pt2")

    with pytest.raises(UnsupportedError, match="does not hold for all of them"):
        padc.convert(program)


def test_a_size_whose_example_is_not_known(monkeypatch: pytest.MonkeyPatch):
    """A range might leave it out."""
    monkeypatch.setattr(guarded_ranges_module, "example_sizes", lambda _: {})

    with pytest.raises(UnsupportedError, match="does not hold for all of them"):
        padc.convert(guarded("n * m >= 17"))


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return F.interpolate(y, scale_factor=3.0, mode="area")


def test_the_line_that_calls_a_function_of_pytorch():
    """Where PyTorch decides in Python, and for what it does not say where."""
    shapes = ({2: auto()},)
    program = torch.export.export(
        Scaled(), (torch.rand(1, 2, 10),), dynamic_shapes=shapes
    )
    frame = traceback.FrameSummary(F.__file__, 1, "interpolate")

    (line,) = guarded_ranges_module.lines_of(program, frame)

    assert "return F.interpolate(y" in line.text
    for unknown in (None, "torch/nn/functional.py:1"):
        assert not guarded_ranges_module.lines_of(program, unknown)


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.view(-1, 4).sum(1)


class Both(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.view(-1, 4).sum()
        return x.view(2, -1) + y


class Ends(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *_, last = x.chunk(3)
        return torch.cat([last, first])


class Parts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(x.chunk(3, 1)[::-1], 1)


class Unshuffled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pixel_unshuffle(x[None], 2)


@pytest.mark.parametrize(
    ("model", "shape", "sizes", "line"),
    [
        (Rows(), (16,), {0: auto(high=999)}, "return y.view(-1, 4).sum(1)"),
        (Both(), (16,), {0: auto(high=999)}, "x.view("),
        (Parts(), (2, 12), {1: auto(high=999)}, "x.chunk(3, 1)"),
        (Rows(), (16,), {0: 2 * Dim("half", min=2, max=999)}, "y.view(-1, 4)"),
        (Unshuffled(), (1, 8, 8), {1: auto(high=999)}, "F.pixel_unshuffle(x[None], 2)"),
        (Rows(), (4, 8), {0: auto(high=64), 1: auto(high=64)}, "y.view(-1, 4)"),
    ],
)
@pytest.mark.parametrize("is_saved", [False, True])
def test_the_line_of_an_op_that_a_guard_is_for(
    model: torch.nn.Module, shape: Sequence[int], sizes: Any, line: str, is_saved: bool,
    tmp_path: Path,
):  # fmt: skip
    program = torch.export.export(model, (torch.rand(shape),), dynamic_shapes=(sizes,))
    if is_saved:
        torch.export.save(program, tmp_path / "model.pt2")
        program = padc.load(tmp_path / "model.pt2")

    with pytest.raises(UnsupportedError) as caught:
        padc.convert(program)

    locations = [problem.location for problem in caught.value.problems]
    found = [each.text for each in locations if each is not None]
    assert found and all(line in text for text in found)


def test_the_line_of_an_op_that_takes_parts():
    example, sizes = (torch.rand(12),), ({0: auto(high=999)},)
    program = torch.export.export(Ends(), example, dynamic_shapes=sizes)

    with pytest.raises(UnsupportedError, match=r"first, \*_, last = x\.chunk"):
        padc.convert(program)


def test_the_op_that_makes_a_size():
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return torch.ones(3).sum() + torch.cat([torch.cat([x, x]), x]) * 2

    program = torch.export.export(
        One(thrice), (torch.rand(7),), dynamic_shapes=({0: auto()},)
    )
    *_, inner, outer = program.graph.find_nodes(
        op="call_function", target=torch.ops.aten.cat.default
    )
    (size,) = expression_of(
        program.graph.find_nodes(op="placeholder")[0].meta["val"].shape[0]
    ).free_symbols

    for factor, ops in {2: [inner], 3: [outer], 4: []}.items():
        assert (
            first_ops_of_size(program, [sympy.Eq(sympy.Integer(factor) * size, 36)])
            == ops
        )


def test_values_of_symbols():
    class Sizes(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
            size = x.shape[0]
            unknown: Any = n.item()
            torch._check(unknown > 1)
            sizes = 2 * size + 3, size // 2, size * size, size + size // 3, unknown
            return tuple(torch.ones(n) for n in sizes)

    program = torch.export.export(
        Sizes(), (torch.rand(7), torch.tensor(4)), dynamic_shapes=({0: auto()}, None)
    )
    output: Any = program.graph.output_node()
    sizes = [node.meta["val"].shape[0] for node in output.args[0]]

    (symbol,) = expression_of(sizes[0]).free_symbols
    assert value_of_symbol(sizes[0]) == {symbol: 7}
    assert [value_of_symbol(size) for size in sizes[1:]] == [{}] * 4


def test_a_program_without_dynamic_sizes_has_no_guards_to_restore():
    program = torch.export.export(torch.nn.ReLU(), (torch.rand(3),))

    restore_guards(program)

    assert not guards_of(program)


FORMULAS = (
    "n + 1 == 6", "n - 3 > 2", "3 * n < 20", "n / 2 > 4.5", "n // 4 != 2", "n % 3 == 1",
    "n ** 2 == 49", "n <= 7", "n >= 7", "3 < n < 9", "n > 3 and n != 8",
    "n < 4 or n > 9", "not n > 5", "-n < -6", "+n > 8", "abs(5 - n) > 2",
    "float(n) / 2 > 3.5", "int(n / 2) == 3", "int((3 - n) / 2) == -1",
    "math.ceil(n / 2) == 4", "math.floor((5 - n) / 2) == -2", "math.sqrt(n) > 2.5",
    "math.trunc((5 - n) / 2) == -1", "max(n, 5, 7) == 7", "min(n, 9, 5) < 5",
    "torch._sym_sqrt(n) < 3", "torch.sym_float(n) / 2 > 3.5",
    "torch.sym_int((3 - n) / 2) == -1", "torch.sym_max(n, 5) == 5",
    "torch.sym_min(n, 5) == 5", "torch.sym_not(n > 5)",
)  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_operators_and_functions(formula: str):
    """All of them, for numbers and for arrays, as Python and PyTorch compute them."""
    text = re.sub(r"\bn\b", "L['x'].size()[0]", formula)
    guard = read_guard(text, {"L['x']": (0, "x")})
    sizes = list(range(1, 14))

    expected = [
        bool(eval(formula, {"math": math, "torch": torch, "n": n})) for n in sizes
    ]

    assert {*expected} == {True, False}
    assert [guard.holds_for(lambda _, n=n: n) for n in sizes] == expected
    assert guard.holds(lambda _: np.array(sizes)).tolist() == expected


def by_python(guard: Guard, size: int) -> bool:
    class Input:
        shape: Sequence[int] = [size] * 5

    return bool(eval(guard.text, {"math": math, "x": Input}))


def test_ranges_that_are_too_large_to_try():
    def even(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] % 2 == 0 else x * 3

    program = torch.export.export(
        One(even), (torch.rand(4),), dynamic_shapes=({0: auto(high=2**20 + 2)},)
    )

    with pytest.raises(UnsupportedError, match="range is too large to try"):
        padc.convert(program)


@pytest.mark.parametrize(
    "text",
    ["(L['x'].size()[2] - 3) ** -1 > 0", "L['x'].size()[7] > 0", "1.5 and 5 // 0"],
)
def test_a_guard_without_a_value(text: str, monkeypatch: pytest.MonkeyPatch):
    program = program_of("view")
    monkeypatch.setattr(program, "_guards_code", [text])

    with pytest.raises(UnsupportedError):
        padc.convert(program)


def test_ranges_that_are_too_large_are_left_to_core_ml():
    program = program_of("lp_pool")
    (value,) = [n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"]
    symbol = value.shape[2].node.expr

    many, some = range(2, 2**40), range(2, 2**10)
    assert guarded_values(program, {symbol: many})[symbol].values == many
    assert guarded_values(program, {symbol: some})[symbol].values == some[2:]


def test_a_size_that_a_guard_makes_1_is_broadcast(tmp_path: Path) -> None:
    """PyTorch keeps it as an expression of other sizes."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return y - F.avg_pool1d(x, 2, 3)

    def inputs(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(2, 3, size), torch.randn(2, 3, size)

    dims = {2: Dim.AUTO(max=30)}
    exported = torch.export.export(
        Function(function), inputs(4), dynamic_shapes=((dims, dims),)
    )
    torch.export.save(exported, tmp_path / "saved.pt2")

    for each in (exported, padc.load(tmp_path / "saved.pt2")):
        compiled = padc.compile(each)
        assert compiled.is_native
        for size in (4, 3, 2):
            x, y = inputs(size)
            torch.testing.assert_close(compiled(x, y), function(x, y))


def test_guards_of_the_functional_program():
    """The rows that are written are one in the example; PyTorch then takes them for it."""

    def function(x: Tensor) -> Tensor:
        padded = F.pad(x, (x.shape[3] // 4, 1)).clone()
        padded.select(3, -2)[3::2].fill_(5)
        return padded

    example = (torch.ones(5, 1, 3, 2),)
    dims = {0: Dim.AUTO(min=3, max=20), 3: Dim.AUTO(max=64)}

    program = torch.export.export(
        Function(function), example, dynamic_shapes=((dims,),)
    )

    # What PyTorch concluded the first time holds for the second, too.
    for _ in range(2):
        compiled = padc.compile(program)
        for sizes in (5, 2), (6, 2), (9, 7):
            x = torch.randn(sizes[0], 1, 3, sizes[1])
            torch.testing.assert_close(compiled(x), function(x))
        with pytest.raises(UnsupportedError, match=r"functional only where .* == 1"):
            padc.convert(program)


def test_guards_of_the_functional_program_that_it_has():
    def function(x: Tensor) -> Tensor:
        padded = F.pad(x, (x.shape[3] // 4, 1)).clone()
        if (x.shape[0] - 2) // 2 == 1 and x.shape[3] != 5:
            padded.select(3, -2)[3::2].fill_(5)
        return padded

    dims = {0: Dim.AUTO(min=3, max=20), 3: Dim.AUTO(min=4, max=64)}
    program = torch.export.export(
        Function(function), (torch.ones(5, 1, 3, 6),), dynamic_shapes=((dims,),)
    )

    compiled = padc.compile(program)

    assert compiled.is_native
    for sizes in (4, 4), (5, 9):
        x = torch.randn(sizes[0], 1, 3, sizes[1])
        torch.testing.assert_close(compiled(x), function(x))
    for sizes in (3, 4), (6, 4), (5, 5):
        with pytest.raises(padc.UsageError, match="exported where"):
            compiled(torch.ones(sizes[0], 1, 3, sizes[1]))
