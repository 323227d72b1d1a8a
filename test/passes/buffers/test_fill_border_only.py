# pyright: basic
"""When only the border of a filled buffer is filled, and which parts are the border."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg

from padc.passes.buffers.fill_border_only import FillBorderOnlyPass, overwritten

Parse = Callable[[str], ModuleOp]

FILLED = """
func.func @main(%x: memref<2xf32>, %z: f32, %i: index) -> memref<6xf32> {{
  %w = memref.alloc() : memref<6xf32>
  linalg.fill ins(%z : f32) outs(%w : memref<6xf32>)
  {next}
  return %w : memref<6xf32>
}}
"""
PART = "%t = memref.subview %w[{}] [2] [1] : memref<6xf32> to memref<2xf32, strided<[1], offset: {}>>"
TARGET = "memref<2xf32, strided<[1], offset: 1>>"
MIDDLE = PART.format(1, 1)
OTHER = (
    "%u = memref.subview %w[0] [2] [1] : memref<6xf32> to memref<2xf32, strided<[1]>>"
)


@pytest.mark.parametrize(
    "next, is_overwritten",
    [
        (f"{MIDDLE}\nlinalg.copy ins(%x : memref<2xf32>) outs(%t : {TARGET})", True),
        # The offsets of %t are in %s, not in the buffer.
        (
            "%s = memref.subview %w[1] [4] [1] : memref<6xf32> to memref<4xf32, strided<[1], offset: 1>>\n"
            "%t = memref.subview %s[1] [2] [1] : memref<4xf32, strided<[1], offset: 1>> to memref<2xf32, strided<[1], offset: 2>>\n"
            "linalg.copy ins(%x : memref<2xf32>) outs(%t : memref<2xf32, strided<[1], offset: 2>>)",
            False,
        ),
        # It reads what was filled, as an operand and in its body.
        (
            f"{OTHER}\n{MIDDLE}\nlinalg.add ins(%u, %x : memref<2xf32, strided<[1]>>, memref<2xf32>) outs(%t : {TARGET})",
            False,
        ),
        (
            f"{MIDDLE}\n"
            "linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]}"
            f" ins(%x : memref<2xf32>) outs(%t : {TARGET}) {{\n^bb0(%a: f32, %b: f32):\n"
            "%v = memref.load %w[%i] : memref<6xf32>\nlinalg.yield %v : f32\n}",
            False,
        ),
        # It adds to what was filled.
        (
            f"{MIDDLE}\n"
            "linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]}"
            f" ins(%x : memref<2xf32>) outs(%t : {TARGET}) {{\n^bb0(%a: f32, %b: f32):\n"
            "%v = arith.addf %a, %b : f32\nlinalg.yield %v : f32\n}",
            False,
        ),
        # It writes one element of two.
        (
            f"{MIDDLE}\n"
            "linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (1)>], iterator_types = [\"parallel\"]}"
            f" ins(%x : memref<2xf32>) outs(%t : {TARGET}) {{\n^bb0(%a: f32, %b: f32):\nlinalg.yield %a : f32\n}}",
            False,
        ),
        # Every second element.
        (
            "%t = memref.subview %w[1] [2] [2] : memref<6xf32> to memref<2xf32, strided<[2], offset: 1>>\n"
            "linalg.copy ins(%x : memref<2xf32>) outs(%t : memref<2xf32, strided<[2], offset: 1>>)",
            False,
        ),
    ],
)  # fmt: skip
def test_what_is_overwritten(next: str, is_overwritten: bool, parse: Parse):
    fill = filled(parse(FILLED.format(next=next)))

    assert fill.parent is not None
    assert (overwritten(fill.parent, fill) is not None) is is_overwritten


def test_a_diagonal_is_not_all_of_a_square(parse: Parse):
    module = parse(
        """
        func.func @main(%x: memref<2xf32>, %z: f32) {
          %w = memref.alloc() : memref<3x3xf32>
          linalg.fill ins(%z : f32) outs(%w : memref<3x3xf32>)
          %t = memref.subview %w[0, 0] [2, 2] [1, 1] : memref<3x3xf32> to memref<2x2xf32, strided<[3, 1]>>
          linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0, d0)>], iterator_types = ["parallel"]} ins(%x : memref<2xf32>) outs(%t : memref<2x2xf32, strided<[3, 1]>>) {
          ^bb0(%a: f32, %b: f32):
            linalg.yield %a : f32
          }
          return
        }"""
    )
    fill = filled(module)

    assert fill.parent is not None and overwritten(fill.parent, fill) is None


@pytest.mark.parametrize(
    "offset, expected", [(0, [(2, 4)]), (1, [(0, 1), (3, 3)]), (4, [(0, 4)])]
)
def test_borders_without_elements_are_not_filled(
    offset: int, expected: list[tuple[int, int]], parse: Parse
):
    part = PART.format(offset, offset)
    target = f"memref<2xf32, strided<[1], offset: {offset}>>"
    copy = f"linalg.copy ins(%x : memref<2xf32>) outs(%t : {target})"
    module = parse(FILLED.format(next=f"{part}\n{copy}"))

    FillBorderOnlyPass().apply(Context(), module)

    filled = []
    for op in module.walk():
        if isinstance(op, linalg.FillOp):
            view = op.outputs[0].owner
            assert isinstance(view, memref.SubviewOp)
            (low,) = view.static_offsets.get_values()
            (size,) = view.static_sizes.get_values()
            filled.append((low, size))
    assert sorted(filled) == expected


def filled(module: ModuleOp) -> linalg.FillOp:
    (fill,) = (op for op in module.walk() if isinstance(op, linalg.FillOp))
    return fill
