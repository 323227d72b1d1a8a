# pyright: basic
"""Views of buffers: which share elements, who uses them; and what may move up."""

from collections.abc import Callable

import pytest
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from padc.passes.buffers.hoisting import hoist
from padc.passes.buffers.views import (
    are_disjoint,
    may_be_strided,
    replace_buffer,
    touches,
    writes,
)
from padc.passes.common.buffer_views import root, users, views

Parse = Callable[[str], ModuleOp]

VIEWS = """
func.func @main(%a: memref<4x6xf32>, %b: memref<4x6xf32>, %bytes: memref<96xi8>, %n: index, %f: f32) {
  %zero = arith.constant 0 : index
  %row = memref.subview %a[1, 0] [1, 6] [1, 1] : memref<4x6xf32> to memref<1x6xf32, strided<[6, 1], offset: 6>>
  %other = memref.subview %a[2, 0] [1, 6] [1, 1] : memref<4x6xf32> to memref<1x6xf32, strided<[6, 1], offset: 12>>
  %even = memref.subview %a[0, 0] [4, 3] [1, 2] : memref<4x6xf32> to memref<4x3xf32, strided<[6, 2]>>
  %odd = memref.subview %a[0, 1] [4, 3] [1, 2] : memref<4x6xf32> to memref<4x3xf32, strided<[6, 2], offset: 1>>
  %at_n = memref.subview %a[%n, 0] [1, 6] [1, 1] : memref<4x6xf32> to memref<1x6xf32, strided<[6, 1], offset: ?>>
  %of_n = memref.subview %at_n[0, 0] [1, 1] [1, 1] : memref<1x6xf32, strided<[6, 1], offset: ?>> to memref<1x1xf32, strided<[6, 1], offset: ?>>
  %steps = memref.subview %a[0, 0] [2, 6] [%n, 1] : memref<4x6xf32> to memref<2x6xf32, strided<[?, 1]>>
  %n_rows = memref.subview %a[0, 0] [%n, 6] [1, 1] : memref<4x6xf32> to memref<?x6xf32, strided<[6, 1]>>
  %cast = "memref.cast"(%a) : (memref<4x6xf32>) -> memref<?x6xf32>
  %cast_row = memref.subview %cast[1, 0] [1, 6] [1, 1] : memref<?x6xf32> to memref<1x6xf32, strided<[6, 1], offset: 6>>
  %flat = memref.collapse_shape %a [[0, 1]] : memref<4x6xf32> into memref<24xf32>
  %of_flat = memref.subview %flat[6] [6] [1] : memref<24xf32> to memref<6xf32, strided<[1], offset: 6>>
  %deep = memref.expand_shape %flat [[0, 1]] output_shape [2, 12] : memref<24xf32> into memref<2x12xf32>
  %line = memref.subview %a[1, 0] [1, 6] [1, 1] : memref<4x6xf32> to memref<6xf32, strided<[1], offset: 6>>
  %of_line = memref.subview %line[0] [3] [1] : memref<6xf32, strided<[1], offset: 6>> to memref<3xf32, strided<[1], offset: 6>>
  %typed = memref.view %bytes[%zero][] : memref<96xi8> to memref<4x6xf32>
  linalg.fill ins(%f : f32) outs(%row : memref<1x6xf32, strided<[6, 1], offset: 6>>)
  linalg.copy ins(%a : memref<4x6xf32>) outs(%b : memref<4x6xf32>)
  memref.store %f, %cast[%zero, %zero] : memref<?x6xf32>
  %loaded = memref.load %a[%zero, %zero] : memref<4x6xf32>
  memref.dealloc %a : memref<4x6xf32>
  return
}
"""
OF_A = "row other even odd at_n of_n steps n_rows cast cast_row flat of_flat deep line of_line"


def block_of(parse: Parse, text: str) -> Block:
    (function,) = (op for op in parse(text).walk() if isinstance(op, func.FuncOp))
    return function.body.block


def named(block: Block) -> dict[str, SSAValue]:
    values = [*block.args, *(x for op in block.walk() for x in op.results)]
    return {x.name_hint: x for x in values if x.name_hint}


def test_roots(parse: Parse):
    values = named(block_of(parse, VIEWS))

    assert {x for x in values if root(values[x]) is values["a"]} == {"a", *OF_A.split()}
    assert root(values["typed"]) is values["bytes"]
    assert {x.name_hint for x in views(values["a"])} == {"a", *OF_A.split()}


DISJOINT = {"row other", "even odd", "cast_row other", "odd even"}
OVERLAPPING = {
    *("row row", "row even", "row cast_row", "at_n row", "row at_n", "of_n row"),
    *("steps other", "row flat", "flat row", "of_flat other", "of_line other"),
    *("a row", "deep row", "n_rows row", "row n_rows"),
}


@pytest.mark.parametrize("pair", sorted(DISJOINT | OVERLAPPING))
def test_disjoint(pair: str, parse: Parse):
    values = named(block_of(parse, VIEWS))
    a, b = pair.split()

    assert are_disjoint(values[a], values[b]) is (pair in DISJOINT)


def test_users(parse: Parse):
    block = block_of(parse, VIEWS)
    values = named(block)
    a, b = values["a"], values["b"]
    fill, copy, store, load = [
        op
        for op in block.ops
        if isinstance(
            op, linalg.FillOp | linalg.CopyOp | memref.StoreOp | memref.LoadOp
        )
    ]

    assert {*users(a)} == {fill, copy, store, load}
    assert [writes(op, a) for op in (fill, copy, store, load)] == [
        True,
        False,
        True,
        False,
    ]
    assert [writes(op, b) for op in (fill, copy, store, load)] == [
        False,
        True,
        False,
        False,
    ]
    assert touches(fill, values["row"]) and touches(copy, values["row"])
    assert not touches(fill, values["other"]) and not touches(fill, b)


@pytest.mark.parametrize(
    "use, expected",
    [
        ("%v = memref.subview %x[0] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1]>>\nreturn", True),
        ("%v = memref.expand_shape %x [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>\nreturn", False),
        ("return %x : memref<4xf32>", False),
    ],
)  # fmt: skip
def test_what_may_be_strided(use: str, expected: bool, parse: Parse):
    result = " -> memref<4xf32>" if "return %" in use else ""
    block = block_of(
        parse,
        f"func.func @main(){result} {{\n%x = memref.alloc() : memref<4xf32>\n{use}\n}}",
    )

    assert may_be_strided(named(block)["x"]) is expected


@pytest.mark.parametrize("hint, expected", [("new", "new"), (None, "old")])
def test_subviews_of_a_buffer_that_is_replaced(
    hint: str | None, expected: str, parse: Parse
):
    block = block_of(
        parse,
        """
        func.func @main(%a: memref<4x6xf32>, %f: f32) {
          %old = memref.alloc() : memref<2x2xf32>
          %new = memref.subview %a[0, 0] [2, 2] [1, 1] : memref<4x6xf32> to memref<2x2xf32, strided<[6, 1]>>
          %part = memref.subview %old[1, 0] [1, 2] [1, 1] : memref<2x2xf32> to memref<1x2xf32, strided<[2, 1], offset: 2>>
          linalg.fill ins(%f : f32) outs(%old : memref<2x2xf32>)
          linalg.fill ins(%f : f32) outs(%part : memref<1x2xf32, strided<[2, 1], offset: 2>>)
          return
        }""",
    )
    values = named(block)
    values["new"].name_hint = hint

    replace_buffer(values["old"], values["new"])

    whole, part = (op for op in block.ops if isinstance(op, linalg.FillOp))
    assert whole.outputs[0] is values["new"] and values["new"].name_hint == expected
    assert str(part.outputs[0].type) == "memref<1x2xf32, strided<[6, 1], offset: 6>>"
    assert part.outputs[0].name_hint == "part"
    assert values["old"].first_use is None


# --- moving ops up --------------------------------------------------------------------

MOVES = """
func.func @main(%a: memref<?xf32>, %n: index, %f: f32) {{
  %zero = arith.constant 0 : index
  %early = memref.load %a[%zero] : memref<?xf32>
  linalg.fill ins(%f : f32) outs(%a : memref<?xf32>)
  %late = memref.load %a[%zero] : memref<?xf32>
  %one = arith.constant 1 : index
  %size = memref.dim %a, %zero : memref<?xf32>
  %more = arith.addi %size, %one : index
  %root = math.exp %early : f32
  %b = memref.alloc(%more) : memref<?xf32>
  %part = memref.subview %b[1] [%n] [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: 1>>
  linalg.fill ins({fill} : f32) outs(%part : memref<?xf32, strided<[1], offset: 1>>)
  scf.for %i = %zero to %n step %one {{
    %inner = arith.constant 2 : index
    scf.yield
  }}
  return
}}
"""


def names(block: Block) -> list[str]:
    return [
        op.results[0].name_hint or "" if op.results else op.name for op in block.ops
    ]


@pytest.mark.parametrize("fill", ["%early", "%root", "%f"])
def test_an_op_moves_up_with_what_it_needs(fill: str, parse: Parse):
    block = block_of(parse, MOVES.format(fill=fill))
    first, last = (op for op in block.ops if isinstance(op, linalg.FillOp))

    assert hoist(block, [last], first)

    block.verify()
    math = ["root"] if fill == "%root" else []
    order = names(block)
    assert order[:2] == ["zero", "early"] and order[-2:] == ["scf.for", "func.return"]
    moved = order[2 : order.index("late") - 1]
    assert sorted(moved) == sorted(
        [*math, "one", "size", "more", "b", "part", "linalg.fill"]
    )
    assert order[order.index("late") - 1] == "linalg.fill"


@pytest.mark.parametrize("name", ["late", "inner"])
def test_what_does_not_move_up(name: str, parse: Parse):
    block = block_of(parse, MOVES.format(fill="%late"))
    first, last = (op for op in block.ops if isinstance(op, linalg.FillOp))
    op = named(block)[name].owner
    assert isinstance(op, Operation)
    before = names(block)

    assert not hoist(block, [op], first)
    assert not hoist(block, [last], first)
    assert names(block) == before
