# pyright: basic
"""Random ops on buffers that may share their loops, as machine code in guarded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from loop_programs import LoopProgram
from native_programs import GUARD, POISON, compiled_buffers, guarded
from xdsl.dialects.builtin import ModuleOp

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "64"))
SHARES = 8
Parse = Callable[[str], ModuleOp]


@pytest.mark.parametrize("share", range(SHARES))
def test_machine_code_computes_what_numpy_does(share: int, parse: Parse):
    for number in range(share, PROGRAMS, SHARES):
        program = LoopProgram(number)
        check(parse, program.text, program.arguments, program.expected, number)


def check(
    parse: Parse,
    text: str,
    arguments: Sequence[Any],
    expected: Sequence[Any],
    number: int = 0,
) -> None:
    """Check what is defined of the results, and the memory around all buffers."""
    at_end, threads = number % 2 == 0, 3 if number % 4 > 1 else 1
    guard = 0 if number % 3 else GUARD
    function = compiled_buffers(parse(text), guard, threads)
    function.at_end = at_end
    inputs = [guarded(torch.from_numpy(x), at_end) for x in arguments]
    outputs = [guarded(torch.zeros_like(torch.from_numpy(x)), at_end) for x in expected]

    function([x for x, _ in inputs], [x for x, _ in outputs])

    for (output, outside), should in zip(outputs, expected, strict=True):
        defined = ~np.isnan(should)
        np.testing.assert_array_equal(
            output.numpy()[defined], should[defined], err_msg=f"{number}:\n{text}"
        )
        assert (outside == POISON).all(), text
    function.check_arena()
    for (x, outside), given in zip(inputs, arguments, strict=True):
        assert np.array_equal(x.numpy(), given), text
        assert (outside == POISON).all(), text


X = np.arange(20 * 40).reshape(20, 40).astype(np.float32) % 7


def generic(
    loops: str, maps: Sequence[str], operands: str, body: str, result: str = "%r"
) -> str:
    """A linalg.generic op; the loops named by capitals reduce."""
    names = ", ".join(loops.lower())
    listed = ", ".join(f"affine_map<({names}) -> ({map})>" for map in maps)
    kinds = ", ".join(
        f'"{"reduction" if each.isupper() else "parallel"}"' for each in loops
    )
    count = operands.count("%") - 1
    arguments = "".join(f"%e{i}: f32, " for i in range(count))
    return (
        f"linalg.generic {{indexing_maps = [{listed}], iterator_types = [{kinds}]}} "
        f"{operands} {{\n^bb0({arguments}%o: f32):\n{body}\n"
        f"linalg.yield {result} : f32\n}}\n"
    )


ADD = "%r = arith.addf %o, %e0 : f32"
MULTIPLY_AND_ADD = "%p = arith.mulf %e0, %e1 : f32\n%r = arith.addf %o, %p : f32"
ADD_DIFFERENCES = "%d = arith.subf %e0, %e1 : f32\n%r = arith.addf %o, %d : f32"
DOUBLED = generic(
    "ij",
    ["i, j", "i, j"],
    "ins(%x : memref<20x40xf32>) outs(%b : memref<20x40xf32>)",
    "%r = arith.addf %e0, %e0 : f32",
)


def test_sums_are_no_terms_before_they_are_complete(parse: Parse):
    sums = generic(
        "iJ",
        ["i, j", "i, 0"],
        "ins(%x : memref<20x40xf32>) outs(%s : memref<20x1xf32>)",
        ADD,
    )
    sums_of_them = generic(
        "iJ",
        ["i, 0", "0, j", "i, 0"],
        "ins(%s, %y : memref<20x1xf32>, memref<1x40xf32>) outs(%t : memref<20x1xf32>)",
        ADD,
    )
    text = f"""
        func.func @main(%x: memref<20x40xf32>, %y: memref<1x40xf32>) -> memref<20x1xf32> {{
          %z = arith.constant 0.0 : f32
          %s = memref.alloc() : memref<20x1xf32>
          %t = memref.alloc() : memref<20x1xf32>
          linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
          linalg.fill ins(%z : f32) outs(%t : memref<20x1xf32>)
          {sums}{sums_of_them}
          return %t : memref<20x1xf32>
        }}"""

    check(parse, text, [X, X[:1]], [40 * X.sum(1, keepdims=True)])


def test_windows_read_rows_that_are_written_later(parse: Parse):
    """Both ops have a loop over 20 rows, but each window reads three of them."""
    windows = generic(
        "iPj",
        ["i + p, j", "p", "i, j"],
        "ins(%b, %w : memref<22x40xf32>, memref<3xf32>) outs(%y : memref<20x40xf32>)",
        ADD,
    )
    part = "memref<20x40xf32, strided<[40, 1]>>"
    text = f"""
        func.func @main(%x: memref<20x40xf32>, %w: memref<3xf32>) -> memref<20x40xf32> {{
          %z = arith.constant 0.0 : f32
          %b = memref.alloc() : memref<22x40xf32>
          %y = memref.alloc() : memref<20x40xf32>
          linalg.fill ins(%z : f32) outs(%b : memref<22x40xf32>)
          %p = memref.subview %b[0, 0] [20, 40] [1, 1] : memref<22x40xf32> to {part}
          linalg.fill ins(%z : f32) outs(%y : memref<20x40xf32>)
          linalg.copy ins(%x : memref<20x40xf32>) outs(%p : {part})
          {windows}
          return %y : memref<20x40xf32>
        }}"""
    padded = np.pad(X, ((0, 2), (0, 0)))
    expected = padded[:-2] + padded[1:-1] + padded[2:]

    check(parse, text, [X, X[0, :3].copy()], [expected])


def test_rows_are_read_before_they_are_written(parse: Parse):
    """Both ops have a loop over 20 rows, but the second one writes the next row."""
    rows, next = "strided<[40, 1]>", "strided<[40, 1], offset: 40>"
    doubled = generic(
        "ij",
        ["i, j", "i, j"],
        f"ins(%p : memref<20x40xf32, {rows}>) outs(%y : memref<20x40xf32>)",
        "%r = arith.addf %e0, %e0 : f32",
    )
    negated = generic(
        "ij",
        ["i, j", "i, j"],
        f"ins(%y : memref<20x40xf32>) outs(%q : memref<20x40xf32, {next}>)",
        "%r = arith.negf %e0 : f32",
    )
    text = f"""
        func.func @main(%x: memref<21x40xf32>) -> memref<20x40xf32> {{
          %b = memref.alloc() : memref<21x40xf32>
          %y = memref.alloc() : memref<20x40xf32>
          linalg.copy ins(%x : memref<21x40xf32>) outs(%b : memref<21x40xf32>)
          %p = memref.subview %b[0, 0] [20, 40] [1, 1] : memref<21x40xf32> to memref<20x40xf32, {rows}>
          %q = memref.subview %b[1, 0] [20, 40] [1, 1] : memref<21x40xf32> to memref<20x40xf32, {next}>
          {doubled}{negated}
          return %y : memref<20x40xf32>
        }}"""
    x = np.concatenate([X, X[:1]])

    check(parse, text, [x], [2 * x[:-1]])


def test_a_sum_may_read_elements_that_are_stored_later(parse: Parse):
    """Each term is the distance to the last element of its row."""
    sums = generic(
        "iJ",
        ["i, j", "i, 39", "i, 0"],
        "ins(%b, %b : memref<20x40xf32>, memref<20x40xf32>) "
        "outs(%s : memref<20x1xf32>)",
        ADD_DIFFERENCES,
    )
    text = f"""
        func.func @main(%x: memref<20x40xf32>) -> memref<20x1xf32> {{
          %z = arith.constant 0.0 : f32
          %b = memref.alloc() : memref<20x40xf32>
          %s = memref.alloc() : memref<20x1xf32>
          {DOUBLED}
          linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
          {sums}
          return %s : memref<20x1xf32>
        }}"""

    check(parse, text, [X], [(2 * X - 2 * X[:, -1:]).sum(1, keepdims=True)])


def test_a_sum_starts_from_its_own_result(parse: Parse):
    """What is filled before it is another buffer."""
    sums = generic(
        "iJ",
        ["i, j", "i, 0"],
        "ins(%b : memref<20x40xf32>) outs(%s : memref<20x1xf32>)",
        ADD,
    )
    types = "memref<20x40xf32>, memref<20x1xf32>, memref<20x1xf32>"
    text = f"""
        func.func @main(%x: memref<20x40xf32>, %y: memref<20x1xf32>) -> ({types}) {{
          %z = arith.constant 3.0 : f32
          %b = memref.alloc() : memref<20x40xf32>
          %s = memref.alloc() : memref<20x1xf32>
          %t = memref.alloc() : memref<20x1xf32>
          linalg.copy ins(%y : memref<20x1xf32>) outs(%s : memref<20x1xf32>)
          {DOUBLED}
          linalg.fill ins(%z : f32) outs(%t : memref<20x1xf32>)
          {sums}
          return %b, %s, %t : {types}
        }}"""
    y = X[:, :1].copy()
    expected = y + 2 * X.sum(1, keepdims=True)

    check(parse, text, [X, y], [2 * X, expected, np.full_like(y, 3)])


@pytest.mark.parametrize("start", ["a copy", "twice a copy"])
def test_windows_start_from_rows(start: str, parse: Parse):
    """Where each window starts from another value, none is computed for all."""
    twice = generic(
        "ij",
        ["i, j"],
        "outs(%y : memref<20x40xf32>)",
        "%r = arith.addf %o, %o : f32",
    )
    windows = generic(
        "iPQj",
        ["i + p, j * 2 + q", "p, q", "i, j"],
        "ins(%a, %w : memref<23x81xf32>, memref<4x3xf32>) outs(%y : memref<20x40xf32>)",
        ADD,
    )
    arguments = "%x: memref<20x40xf32>, %a: memref<23x81xf32>, %w: memref<4x3xf32>"
    text = f"""
        func.func @main({arguments}) -> memref<20x40xf32> {{
          %y = memref.alloc() : memref<20x40xf32>
          linalg.copy ins(%x : memref<20x40xf32>) outs(%y : memref<20x40xf32>)
          {twice if start == "twice a copy" else ""}
          {windows}
          return %y : memref<20x40xf32>
        }}"""
    image = (np.arange(23 * 81) % 5).reshape(23, 81).astype(np.float32)
    parts = [image[p : p + 20, q : q + 79 : 2] for p in range(4) for q in range(3)]
    first = 2 * X if start == "twice a copy" else X

    check(parse, text, [X, image, image[:4, :3].copy()], [first + sum(parts)])


STARTS = {
    "the second input": (
        generic(
            "ij",
            ["0, j", "0, j", "i, j"],
            "ins(%u, %v : memref<1x40xf32>, memref<1x40xf32>) "
            "outs(%y : memref<20x40xf32>)",
            "",
            "%e1",
        ),
        X[1:2],
    ),
    "a constant": (
        generic("ij", ["i, j"], "outs(%y : memref<20x40xf32>)", "", "%two"),
        2,
    ),
}
"""Ops before a product, and the value that they give it."""


@pytest.mark.parametrize("start", STARTS)
def test_products_start_from_what_is_copied(start: str, parse: Parse):
    before, first = STARTS[start]
    product = generic(
        "ijK",
        ["i, k", "k, j", "i, j"],
        "ins(%x, %w : memref<20x40xf32>, memref<40x40xf32>) "
        "outs(%y : memref<20x40xf32>)",
        MULTIPLY_AND_ADD,
    )
    row = "memref<1x40xf32>"
    arguments = f"%x: memref<20x40xf32>, %w: memref<40x40xf32>, %u: {row}, %v: {row}"
    text = f"""
        func.func @main({arguments}) -> memref<20x40xf32> {{
          %two = arith.constant 2.0 : f32
          %y = memref.alloc() : memref<20x40xf32>
          {before}{product}
          return %y : memref<20x40xf32>
        }}"""
    w = (np.arange(1600) % 5).reshape(40, 40).astype(np.float32)

    check(parse, text, [X, w, X[:1], X[1:2].copy()], [first + X @ w])


def test_an_op_on_part_of_a_row_need_not_copy(parse: Parse):
    """The other part is copied; short rows are put together from what is copied."""
    part = "memref<20x4xf32, strided<[8, 1], offset: 4>>"
    first = "memref<20x4xf32, strided<[8, 1]>>"
    constant = generic(
        "ij",
        ["i, j", "i, j"],
        f"ins(%z : memref<20x4xf32>) outs(%b : {part})",
        "",
        "%two",
    )
    arguments = "%x: memref<20x4xf32>, %z: memref<20x4xf32>"
    text = f"""
        func.func @main({arguments}) -> memref<20x8xf32> {{
          %two = arith.constant 2.0 : f32
          %y = memref.alloc() : memref<20x8xf32>
          %a = memref.subview %y[0, 0] [20, 4] [1, 1] : memref<20x8xf32> to {first}
          %b = memref.subview %y[0, 4] [20, 4] [1, 1] : memref<20x8xf32> to {part}
          linalg.copy ins(%x : memref<20x4xf32>) outs(%a : {first})
          {constant}
          return %y : memref<20x8xf32>
        }}"""
    x, z = X[:, :4].copy(), X[:, 4:8].copy()

    check(parse, text, [x, z], [np.concatenate([x, np.full_like(z, 2)], 1)])


@pytest.mark.parametrize("columns", [1, 6, 8])
def test_few_windows(columns: int, parse: Parse):
    """They are fewer than a vector has lanes, and the image ends with the last one."""
    wide = 2 * columns + 1
    types = f"memref<24x{wide}xf32>", "memref<5x3xf32>", f"memref<20x{columns}xf32>"
    image, window, result = types
    windows = generic(
        "iPQj",
        ["i + p, j * 2 + q", "p, q", "i, j"],
        f"ins(%a, %w : {image}, {window}) outs(%y : {result})",
        ADD,
    )
    text = f"""
        func.func @main(%w: {window}, %a: {image}) -> {result} {{
          %z = arith.constant 1.0 : f32
          %y = memref.alloc() : {result}
          linalg.fill ins(%z : f32) outs(%y : {result})
          {windows}
          return %y : {result}
        }}"""
    x = (np.arange(24 * wide) % 5).reshape(24, wide).astype(np.float32)
    last = 2 * columns - 1
    parts = [x[p : p + 20, q : q + last : 2] for p in range(5) for q in range(3)]

    check(parse, text, [X[:5, :3].copy(), x], [1 + sum(parts)])


def test_a_sum_of_one_element(parse: Parse):
    sums = generic(
        "iJ",
        ["i, j", "i, 0"],
        "ins(%x : memref<1x1xf32>) outs(%s : memref<1x1xf32>)",
        ADD,
    )
    text = f"""
        func.func @main(%x: memref<1x1xf32>) -> memref<1x1xf32> {{
          %z = arith.constant 1.0 : f32
          %s = memref.alloc() : memref<1x1xf32>
          linalg.fill ins(%z : f32) outs(%s : memref<1x1xf32>)
          {sums}
          return %s : memref<1x1xf32>
        }}"""
    x = X[3:4, 3:4].copy()

    check(parse, text, [x], [1 + x])


def test_windows_may_add_their_other_input(parse: Parse):
    window, result = "memref<4x3xf32>", "memref<20x40xf32>"
    windows = generic(
        "iPQj",
        ["i + p, j * 2 + q", "p, q", "i, j"],
        f"ins(%a, %w : memref<23x81xf32>, {window}) outs(%y : {result})",
        "%r = arith.addf %o, %e1 : f32",
    )
    text = f"""
        func.func @main(%a: memref<23x81xf32>, %w: {window}) -> {result} {{
          %z = arith.constant 1.0 : f32
          %y = memref.alloc() : {result}
          linalg.fill ins(%z : f32) outs(%y : {result})
          {windows}
          return %y : {result}
        }}"""
    w = X[:4, :3].copy()
    image = np.ones((23, 81), np.float32)

    check(parse, text, [image, w], [np.full_like(X, 1 + w.sum())])


def test_a_window_may_be_the_whole_of_a_row(parse: Parse):
    """All inner loops reduce: they are no row of windows."""
    window, result = "memref<8x6x33xf32>", "memref<20x1xf32>"
    sums = generic(
        "iPQR",
        ["i, p, q + r", "p, q, r", "i, 0"],
        f"ins(%x, %w : memref<20x8x38xf32>, {window}) outs(%y : {result})",
        ADD,
    )
    text = f"""
        func.func @main(%x: memref<20x8x38xf32>, %w: {window}) -> {result} {{
          %z = arith.constant 1.0 : f32
          %y = memref.alloc() : {result}
          linalg.fill ins(%z : f32) outs(%y : {result})
          {sums}
          return %y : {result}
        }}"""
    x = (np.arange(20 * 8 * 38) % 5).reshape(20, 8, 38).astype(np.float32)
    parts = [x[:, :, q : q + 33].sum((1, 2)) for q in range(6)]

    check(
        parse,
        text,
        [x, x[:1, :1, :33] * np.ones((8, 6, 1), np.float32)],
        [np.sum(parts, 0)[:, None] + 1],
    )


def test_kernels_differ_in_what_they_read_of_their_own_buffers(parse: Parse):
    lines, results = "", list[Any]()
    for name, first in (("a", 4), ("b", 2)):
        part = f"memref<20x36xf32, strided<[40, 1], offset: {first}>>"
        sums = generic(
            "iJ",
            ["i, j", "i, 0"],
            f"ins(%p{name} : {part}) outs(%s{name} : memref<20x1xf32>)",
            ADD,
        )
        lines += f"""
          %{name} = memref.alloc() : memref<20x40xf32>
          %s{name} = memref.alloc() : memref<20x1xf32>
          {DOUBLED.replace("%b", f"%{name}")}
          linalg.fill ins(%z : f32) outs(%s{name} : memref<20x1xf32>)
          %p{name} = memref.subview %{name}[0, {first}] [20, 36] [1, 1] : memref<20x40xf32> to {part}
          {sums}"""
        results.append(2 * X[:, first : first + 36].sum(1, keepdims=True))
    types = "memref<20x1xf32>, memref<20x1xf32>"
    text = f"""
        func.func @main(%x: memref<20x40xf32>) -> ({types}) {{
          %z = arith.constant 0.0 : f32
          {lines}
          return %sa, %sb : {types}
        }}"""

    check(parse, text, [X], results)


def test_kernels_of_products_differ_in_what_is_done_after_them(parse: Parse):
    product = generic(
        "ijK",
        ["i, k", "k, j", "i, j"],
        "ins(%x, %w : memref<20x40xf32>, memref<40x40xf32>) "
        "outs(%y : memref<20x40xf32>)",
        MULTIPLY_AND_ADD,
    )
    lines = ""
    for name, body in (
        ("a", "%r = arith.negf %o : f32"),
        ("b", "%r = arith.addf %o, %o : f32"),
    ):
        after = generic("ij", ["i, j"], "outs(%y : memref<20x40xf32>)", body)
        lines += f"""
          %y = memref.alloc() : memref<20x40xf32>
          linalg.fill ins(%z : f32) outs(%y : memref<20x40xf32>)
          {product}{after}""".replace("%y", f"%{name}")
    types = "memref<20x40xf32>, memref<20x40xf32>"
    text = f"""
        func.func @main(%x: memref<20x40xf32>, %w: memref<40x40xf32>) -> ({types}) {{
          %z = arith.constant 0.0 : f32
          {lines}
          return %a, %b : {types}
        }}"""
    w = (np.arange(1600) % 5).reshape(40, 40).astype(np.float32)

    check(parse, text, [X, w], [-(X @ w), 2 * (X @ w)])


def test_products_of_no_terms(parse: Parse):
    product = generic(
        "ijK",
        ["i, k", "k, j", "i, j"],
        "ins(%x, %w : memref<20x0xf32>, memref<0x40xf32>) outs(%y : memref<20x40xf32>)",
        MULTIPLY_AND_ADD,
    )
    text = f"""
        func.func @main(%x: memref<20x0xf32>, %w: memref<0x40xf32>) -> memref<20x40xf32> {{
          %z = arith.constant 3.0 : f32
          %y = memref.alloc() : memref<20x40xf32>
          linalg.fill ins(%z : f32) outs(%y : memref<20x40xf32>)
          {product}
          return %y : memref<20x40xf32>
        }}"""

    check(parse, text, [X[:, :0].copy(), X[:0].copy()], [np.full_like(X, 3)])


@pytest.mark.parametrize("padded", ["%a", "%b", "%c"])
def test_sums_of_planes(padded: str, parse: Parse):
    """The rows of a plane follow each other in some of the buffers."""
    wide = "memref<20x8x48xf32>"
    part = "memref<20x8x40xf32, strided<[384, 48, 1]>>"
    memory, view = dict[str, str](), dict[str, str]()
    for name in ("%a", "%b", "%c"):
        memory[name] = wide if name in padded else "memref<20x8x40xf32>"
        view[name] = part if name in padded else memory[name]
    views = "\n".join(
        f"{name} = memref.subview {name}_memory [0, 0, 0] [20, 8, 40] [1, 1, 1] : "
        f"{memory[name]} to {view[name]}"
        for name in view
    )
    arguments = ", ".join(f"{name}_memory: {memory[name]}" for name in ("%a", "%c"))
    doubled = generic(
        "ipj",
        ["i, p, j", "i, p, j"],
        f"ins(%a : {view['%a']}) outs(%b : {view['%b']})",
        "%r = arith.addf %e0, %e0 : f32",
    )
    sums = generic(
        "iPJ",
        ["i, p, j", "i, p, j", "i, 0"],
        f"ins(%b, %c : {view['%b']}, {view['%c']}) outs(%s : memref<20x1xf32>)",
        ADD_DIFFERENCES,
    )
    text = f"""
        func.func @main({arguments}) -> memref<20x1xf32> {{
          %z = arith.constant 0.0 : f32
          %s = memref.alloc() : memref<20x1xf32>
          %b_memory = memref.alloc() : {memory["%b"]}
          {views}
          {doubled}
          linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
          {sums}
          return %s : memref<20x1xf32>
        }}"""
    a, c = (
        (np.arange(20 * 8 * wide) % count).reshape(20, 8, wide).astype(np.float32)
        for count, wide in (
            (7, 48 if padded == "%a" else 40),
            (3, 48 if padded == "%c" else 40),
        )
    )
    terms = 2 * a[:, :, :40] - c[:, :, :40]

    check(parse, text, [a, c], [terms.sum((1, 2))[:, None]])


def test_windows_of_several_channels_in_one_row(parse: Parse):
    """The loop over channels is inside of the one that the ops share."""
    image, window, result = (
        "memref<23x3x69xf32>",
        "memref<4x3xf32>",
        "memref<20x3x33xf32>",
    )
    windows = generic(
        "iPcQj",
        ["i + p, c, j * 2 + q", "p, q", "i, c, j"],
        f"ins(%a, %w : {image}, {window}) outs(%y : {result})",
        ADD,
    )
    text = f"""
        func.func @main(%a: {image}, %w: {window}) -> {result} {{
          %z = arith.constant 1.0 : f32
          %y = memref.alloc() : {result}
          linalg.fill ins(%z : f32) outs(%y : {result})
          {windows}
          return %y : {result}
        }}"""
    x = (np.arange(23 * 3 * 69) % 7).reshape(23, 3, 69).astype(np.float32)
    parts = [x[p : p + 20, :, q : q + 65 : 2] for p in range(4) for q in range(3)]

    check(parse, text, [x, X[:4, :3].copy()], [sum(parts, np.float32(1))])


@pytest.mark.parametrize("first", ["the pad", "the first values"])
def test_padded_planes_are_reduced_plane_by_plane(first: str, parse: Parse):
    """The ops share the loop over planes; those of the pad share that over rows."""
    plane, part = "memref<20x6x8xf32>", "memref<20x6x4xf32, strided<[48, 8, 1]{}>>"
    left, right = part.format(""), part.format(", offset: 4")
    view = "memref.subview %y[0, 0, {}] [20, 6, 4] [1, 1, 1]"
    sums = generic(
        "cIJ",
        ["c, i, j", "c, 0, 0"],
        f"ins(%y : {plane}) outs(%s : memref<20x1x1xf32>)",
        ADD,
    )
    types = f"{plane}, memref<20x1x1xf32>"
    start = "linalg.fill ins(%z : f32) outs(%s : memref<20x1x1xf32>)"
    text = f"""
        func.func @main(%x: memref<20x6x4xf32>) -> ({types}) {{
          %z = arith.constant 2.0 : f32
          %y = memref.alloc() : {plane}
          %s = memref.alloc() : memref<20x1x1xf32>
          %first = {view.format(0)} : {plane} to {left}
          %last = {view.format(4)} : {plane} to {right}
          {start if first != "the pad" else ""}
          linalg.copy ins(%x : memref<20x6x4xf32>) outs(%first : {left})
          linalg.fill ins(%z : f32) outs(%last : {right})
          {start if first == "the pad" else ""}
          {sums}
          return %y, %s : {types}
        }}"""
    x = (np.arange(20 * 6 * 4) % 7).reshape(20, 6, 4).astype(np.float32)
    y = np.concatenate([x, np.full_like(x, 2)], 2)

    check(parse, text, [x], [y, 2 + y.sum((1, 2), keepdims=True)])


def test_private_buffers_that_are_reshaped(parse: Parse):
    """All ops use a buffer in another shape than it has been allocated in."""
    shape = "memref<20x8x5xf32>"
    doubled = generic(
        "ipj",
        ["i, p, j", "i, p, j"],
        f"ins(%x : {shape}) outs(%b : {shape})",
        "%r = arith.addf %e0, %e0 : f32",
    )
    sums = generic(
        "iPJ",
        ["i, p, j", "i, 0"],
        f"ins(%b : {shape}) outs(%s : memref<20x1xf32>)",
        ADD,
    )
    text = f"""
        func.func @main(%x: {shape}) -> memref<20x1xf32> {{
          %z = arith.constant 0.0 : f32
          %memory = memref.alloc() : memref<20x40xf32>
          %s = memref.alloc() : memref<20x1xf32>
          %b = memref.expand_shape %memory [[0], [1, 2]] output_shape [20, 8, 5] : memref<20x40xf32> into {shape}
          {doubled}
          linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
          {sums}
          return %s : memref<20x1xf32>
        }}"""

    check(parse, text, [X.reshape(20, 8, 5)], [2 * X.sum(1, keepdims=True)])


def test_private_buffers_of_two_shared_loops(parse: Parse):
    """Of the inner one they have a tile, of the outer one a step."""
    shape, sum = "memref<40x20x40xf32>", "memref<40x20x1xf32>"
    doubled = generic(
        "cij",
        ["c, i, j", "c, i, j"],
        f"ins(%x : {shape}) outs(%b : {shape})",
        "%r = arith.addf %e0, %e0 : f32",
    )
    sums = generic(
        "ciJ", ["c, i, j", "c, i, 0"], f"ins(%b : {shape}) outs(%s : {sum})", ADD
    )
    distances = generic(
        "cij",
        ["c, i, j", "c, i, 0", "c, i, j"],
        f"ins(%b, %s : {shape}, {sum}) outs(%y : {shape})",
        "%r = arith.subf %e0, %e1 : f32",
    )
    text = f"""
        func.func @main(%x: {shape}) -> {shape} {{
          %z = arith.constant 0.0 : f32
          %b = memref.alloc() : {shape}
          %s = memref.alloc() : {sum}
          %y = memref.alloc() : {shape}
          {doubled}
          linalg.fill ins(%z : f32) outs(%s : {sum})
          {sums}{distances}
          return %y : {shape}
        }}"""
    x = (np.arange(40 * 20 * 40) % 7).reshape(40, 20, 40).astype(np.float32)

    check(parse, text, [x], [2 * x - 2 * x.sum(2, keepdims=True)])


def test_tiles_of_rows_in_the_loop_over_planes(parse: Parse):
    """The sums of rows share a loop over rows, the sums of these only that over planes."""
    shape, row = (f"memref<20x30x{columns}xf32>" for columns in (40, 1))
    total = "memref<20x1x1xf32>"
    doubled = generic(
        "cij",
        ["c, i, j", "c, i, j"],
        f"ins(%x : {shape}) outs(%b : {shape})",
        "%r = arith.addf %e0, %e0 : f32",
    )
    sums = generic(
        "ciJ", ["c, i, j", "c, i, 0"], f"ins(%b : {shape}) outs(%s : {row})", ADD
    )
    totals = generic(
        "cIj", ["c, i, j", "c, 0, j"], f"ins(%s : {row}) outs(%y : {total})", ADD
    )
    text = f"""
        func.func @main(%x: {shape}) -> {total} {{
          %z = arith.constant 0.0 : f32
          %b = memref.alloc() : {shape}
          %s = memref.alloc() : {row}
          %y = memref.alloc() : {total}
          {doubled}
          linalg.fill ins(%z : f32) outs(%s : {row})
          {sums}
          linalg.fill ins(%z : f32) outs(%y : {total})
          {totals}
          return %y : {total}
        }}"""
    x = (np.arange(20 * 30 * 40) % 7).reshape(20, 30, 40).astype(np.float32)

    check(parse, text, [x], [2 * x.sum((1, 2), keepdims=True)])


ROWS = {
    "pieces": ((0, 3, 1), (3, 5, 1)),
    "a gap": ((0, 3, 1), (5, 3, 1)),
    "every second": ((0, 4, 2), (1, 4, 2)),
    "the first of them": ((0, 4, 2), (1, 1, 1)),
    "backwards": ((4, 4, 1), (0, 4, 1)),
    "twice": ((0, 6, 1), (2, 6, 1)),
}
"""The first column, the count and the step of two copies to a row of 8 columns."""


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("second", ["copied", "filled"])
def test_rows_of_two_moves(name: str, second: str, parse: Parse):
    result = "memref<20x8xf32>"
    expected = np.full((20, 8), np.nan, np.float32)
    lines, arguments, inputs = "", list[str](), list[Any]()
    for number, (first, count, step) in enumerate(ROWS[name]):
        given = X[:, 9 * number : 9 * number + count].copy()
        offset = f", offset: {first}" if first else ""
        part = f"memref<20x{count}xf32, strided<[8, {step}]{offset}>>"
        source = f"%x{number} : memref<20x{count}xf32>"
        arguments.append(source)
        inputs.append(given)
        fills = number and second == "filled"
        lines += (
            f"%p{number} = memref.subview %y[0, {first}] [20, {count}] [1, {step}] : "
            f"{result} to {part}\n"
        ) + (
            f"linalg.fill ins(%z : f32) outs(%p{number} : {part})\n"
            if fills
            else f"linalg.copy ins({source}) outs(%p{number} : {part})\n"
        )
        target = expected[:, first : first + (count - 1) * step + 1 : step]
        target[...] = 9 if fills else given
    text = f"""
        func.func @main({", ".join(arguments)}) -> {result} {{
          %z = arith.constant 9.0 : f32
          %y = memref.alloc() : {result}
          {lines}
          return %y : {result}
        }}"""

    check(parse, text, inputs, [expected])


Slab = tuple[tuple[int, int, int], tuple[int, int]]
"""The first row of each plane, the number of rows and the step; the columns."""
ROWS_COPIED: dict[str, Sequence[tuple[Slab | None, Slab]]] = {
    "whole": [(((2, 1, 1), (0, 8)), ((0, 1, 1), (0, 8)))],
    "several": [(((3, 2, 1), (0, 8)), ((0, 2, 1), (0, 8)))],
    "part": [(((2, 1, 1), (0, 6)), ((0, 1, 1), (0, 6)))],
    "moved": [(((2, 1, 1), (0, 6)), ((0, 1, 1), (2, 6)))],
    "not the first columns": [(((2, 1, 1), (2, 6)), ((0, 1, 1), (2, 6)))],
    "every second": [(((2, 2, 2), (0, 8)), ((6, 2, 1), (0, 8)))],
    "to every second": [(((2, 2, 1), (0, 8)), ((6, 2, 2), (0, 8)))],
    "partly of others": [(((5, 2, 1), (0, 8)), ((0, 2, 1), (0, 8)))],
    "of others before": [(((0, 1, 1), (0, 8)), ((1, 1, 1), (0, 8)))],
    "onto the copied ones": [(((2, 1, 1), (0, 8)), ((4, 1, 1), (0, 8)))],
    "partly onto them": [(((2, 2, 1), (0, 8)), ((5, 2, 1), (0, 8)))],
    "from the end": [(((5, 1, 1), (0, 8)), ((6, 1, 1), (0, 8)))],
    "many": [(((2, 4, 1), (0, 8)), ((6, 4, 1), (0, 8)))],
    "other columns": [(((2, 1, 1), (1, 8)), ((0, 1, 1), (1, 8)))],
    "from other columns": [(((2, 1, 1), (1, 8)), ((0, 1, 1), (0, 8)))],
    "what has been copied": [
        (((2, 1, 1), (0, 8)), ((4, 1, 1), (0, 8))),
        (((4, 1, 1), (0, 8)), ((0, 1, 1), (0, 8))),
    ],
    "of another buffer": [(((2, 1, 1), (0, 8)), ((0, 1, 1), (0, 8)))],
    "negated": [(((3, 2, 1), (0, 8)), ((0, 2, 1), (0, 8)))],
    "a number": [(None, ((0, 2, 1), (0, 8)))],
}
"""What is copied after eight columns of rows 2 to 5 of each plane, and to where."""


@pytest.mark.parametrize("name", ROWS_COPIED)
def test_rows_of_planes_are_copied(name: str, parse: Parse):
    plane = "memref<20x12x10xf32>"
    y = np.full((20, 12, 10), 5, np.float32)
    other = (np.arange(2400) % 11).reshape(20, 12, 10).astype(np.float32)
    from_other = name == "of another buffer"
    lines = ""

    def part(letter: str, slab: Slab, memory: str = "%y") -> tuple[str, Any]:
        nonlocal lines
        (first, rows, step), (column, columns) = slab
        offset = 10 * first + column
        type = f"memref<20x{rows}x{columns}xf32, strided<[120, {10 * step}, 1]"
        type += f", offset: {offset}>>" if offset else ">>"
        lines += (
            f"%{letter} = memref.subview {memory}[0, {first}, {column}] "
            f"[20, {rows}, {columns}] [1, {step}, 1] : {plane} to {type}\n"
        )
        last = first + (rows - 1) * step + 1
        whole = y if memory == "%y" else other
        return f"%{letter} : {type}", whole[
            :, first:last:step, column : column + columns
        ]

    x = (np.arange(20 * 4 * 5) % 7).reshape(20, 4, 5).astype(np.float32)
    given = "%x : memref<20x4x5xf32>"
    lines += f"linalg.fill ins(%z : f32) outs(%y : {plane})\n"
    (left, into), (right, filled) = (
        part(letter, ((2, 4, 1), columns))
        for letter, columns in (("l", (0, 5)), ("r", (5, 3)))
    )
    lines += f"linalg.copy ins({given}) outs({left})\n"
    lines += f"linalg.fill ins(%two : f32) outs({right})\n"
    into[...], filled[...] = x, 2
    for number, (source, target) in enumerate(ROWS_COPIED[name]):
        to, place = part(f"t{number}", target)
        if source is None:
            lines += f"linalg.fill ins(%two : f32) outs({to})\n"
            place[...] = 2
        else:
            of, copied = part(f"s{number}", source, "%other" if from_other else "%y")
            if name == "negated":
                lines += generic(
                    "ijk",
                    ["i, j, k"] * 2,
                    f"ins({of}) outs({to})",
                    "%n = arith.negf %e0 : f32",
                    "%n",
                )
                place[...] = -copied
            else:
                lines += f"linalg.copy ins({of}) outs({to})\n"
                place[...] = copied.copy()
    text = f"""
        func.func @main({given}, %other: {plane}) -> {plane} {{
          %z = arith.constant 5.0 : f32
          %two = arith.constant 2.0 : f32
          %y = memref.alloc() : {plane}
          {lines}
          return %y : {plane}
        }}"""

    check(parse, text, [x, other], [y])
