# pyright: basic
"""Which sizes that are computed in floats are tabulated, and by which values."""

import math
from collections.abc import Callable, Sequence

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from padc.passes.aten.builder import LARGEST_SIZE, AtenBuilder
from padc.passes.tcp_to_mil import tabulate_scaled_sizes
from padc.passes.tcp_to_mil.tabulate_scaled_sizes import (
    MOST_TABLED,
    TabulateScaledSizesPass,
    looked_up,
    ratio_of,
)

Parse = Callable[[str], ModuleOp]

SOURCE = """
func.func @main(%x: !torch.vtensor<[?,?],f32>, %i: !torch.int) -> !torch.int {{
  %zero = torch.constant.int 0
  %seven = torch.constant.int 7
  %c = torch.constant.float 0.7
  {bound}
  %n = torch.aten.size.int %x, %zero : !torch.vtensor<[?,?],f32>, !torch.int -> !torch.int
  %f = torch.aten.Float.Scalar %n : !torch.int -> !torch.float
  {lines}
  return %r : !torch.int
}}
"""
"""%n is a size, %f the same as a float."""

WITHOUT_CLASS = ("add.int_float", "sub.int_float", "sub.float_int", "floor.float")


def op(result: str, name: str, *operands: str) -> str:
    """An op on operands that are written with their types; %r and %k are integers."""
    names = ", ".join(each.split(":")[0] for each in operands)
    types = ", ".join("!torch." + each.split(":")[1] for each in operands)
    to = "!torch.int" if result in ("%r", "%k") else "!torch.float"
    if name in WITHOUT_CLASS:
        return f'{result} = torch.operator "torch.aten.{name}"({names}) : ({types}) -> {to}'
    return f"{result} = torch.aten.{name} {names} : {types} -> {to}"


N, F, C, SEVEN = "%n:int", "%f:float", "%c:float", "%seven:int"


def truncated(name: str, *operands: str) -> str:
    """An op, and its result as an integer."""
    return op("%m", name, *operands) + "\n" + op("%r", "Int.float", "%m:float")


CASES: dict[str, tuple[str, Callable[[int], int]]] = {
    "Int.Scalar": (op("%r", "Int.Scalar", F), lambda n: n),
    "add.float": (
        truncated("add.float", F, C),
        lambda n: int(n + 0.7),
    ),
    "sub.float": (
        truncated("sub.float", F, C),
        lambda n: int(n - 0.7),
    ),
    "mul.float": (
        truncated("mul.float", F, C),
        lambda n: int(n * 0.7),
    ),
    "div.float": (
        truncated("div.float", F, C),
        lambda n: int(n / 0.7),
    ),
    "add.float_int": (
        truncated("add.float_int", C, N),
        lambda n: int(0.7 + n),
    ),
    "sub.float_int": (
        truncated("sub.float_int", C, N),
        lambda n: int(0.7 - n),
    ),
    "mul.float_int": (
        truncated("mul.float_int", C, N),
        lambda n: int(0.7 * n),
    ),
    "add.int_float": (
        truncated("add.int_float", N, C),
        lambda n: int(n + 0.7),
    ),
    "sub.int_float": (
        truncated("sub.int_float", N, C),
        lambda n: int(n - 0.7),
    ),
    "mul.int_float": (
        truncated("mul.int_float", N, C),
        lambda n: int(n * 0.7),
    ),
    "div.int": (
        truncated("div.int", N, SEVEN),
        lambda n: int(n / 7),
    ),
    "div.int by a size": (
        truncated("div.int", SEVEN, N),
        lambda n: int(7 / n) if n else 0,
    ),
    "neg.float": (
        op("%m0", "neg.float", F) + "\n" + truncated("mul.float", "%m0:float", C),
        lambda n: int(-n * 0.7),
    ),
    "neg.int": (
        op("%k", "neg.int", N) + "\n" + truncated("mul.float_int", C, "%k:int"),
        lambda n: int(0.7 * -n),
    ),
    "remainder.int": (
        op("%k", "remainder.int", N, SEVEN)
        + "\n"
        + truncated("mul.float_int", C, "%k:int"),
        lambda n: int(0.7 * (n % 7)),
    ),
    "floordiv.int": (
        op("%k", "floordiv.int", N, SEVEN)
        + "\n"
        + truncated("mul.float_int", C, "%k:int"),
        lambda n: int(0.7 * (n // 7)),
    ),
    "ceil.float": (
        op("%m", "mul.float", F, C) + "\n" + op("%r", "ceil.float", "%m:float"),
        lambda n: math.ceil(n * 0.7),
    ),
    "floor.float": (
        op("%m", "sub.float", C, F) + "\n" + op("%r", "floor.float", "%m:float"),
        lambda n: math.floor(0.7 - n),
    ),
    "twice": (
        op("%m0", "mul.float", F, C)
        + "\n"
        + truncated("add.float", "%m0:float", "%m0:float"),
        lambda n: int(n * 0.7 + n * 0.7),
    ),
}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The values of each result that is replaced."""
    found: list[list[int]] = []

    def recorded(build: AtenBuilder, size: SSAValue, values: Sequence[int]) -> SSAValue:
        found.append([*values])
        return looked_up(build, size, values)

    monkeypatch.setattr(tabulate_scaled_sizes, "looked_up", recorded)
    return found


def tabulate(parse: Parse, lines: str, bound: str = "") -> ModuleOp:
    module = parse(SOURCE.format(lines=lines, bound=bound))
    TabulateScaledSizesPass().apply(Context(), module)
    module.verify()
    return module


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_python(parse: Parse, found: list[list[int]], name: str):
    lines, function = CASES[name]

    tabulate(parse, lines)

    assert found == [[function(n) for n in range(LARGEST_SIZE + 1)]]


@pytest.mark.parametrize(
    "lines",
    [
        truncated("mul.float_int", C, "%i:int"),
        truncated("sqrt.int", N),
        op("%r", "Int.float", C),
        op("%r", "add.int", N, SEVEN),
    ],
    ids=["not of a size", "an op that is not evaluated", "a constant", "no float"],
)
def test_others_stay(parse: Parse, found: list[list[int]], lines: str):
    before = str(parse(SOURCE.format(lines=lines, bound="")))

    assert str(tabulate(parse, lines)) == before
    assert found == []


@pytest.mark.parametrize(
    "expression, most, count",
    [
        ("s0", 99, 99),
        ("s0", MOST_TABLED, LARGEST_SIZE),
        ("s0 * 2", 99, LARGEST_SIZE),
    ],
)
def test_tables_end_at_the_bound_of_the_size(
    parse: Parse, found: list[list[int]], expression: str, most: int, count: int
):
    bound = (
        f'%s = torch.symbolic_int "s0" {{min_val = 0, max_val = {most}}} : !torch.int\n'
        f"torch.bind_symbolic_shape %x, [%s], affine_map<()[s0] -> ({expression}, 3)> : !torch.vtensor<[?,?],f32>"
    )

    tabulate(parse, CASES["mul.float"][0], bound)

    assert [len(each) for each in found] == [count + 1]


def test_ratios_are_exact_and_in_int32():
    assert ratio_of([n * 3 // 2 for n in range(99)]) is not None
    assert ratio_of([int(n * 0.29) for n in range(1001)]) is None
    assert ratio_of([n * 2**24 for n in range(99)]) is not None
    assert ratio_of([n * 2**25 for n in range(99)]) is None
