# pyright: basic
"""Which copies are pads, and which pads of a value become views of one buffer."""

from collections.abc import Callable

import pytest
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation

from padc.passes.buffers.shared_pads import pad_of, share_pads

Parse = Callable[[str], ModuleOp]

PAD = "linalg.copy ins(%x : memref<2xf32>) outs(%t : memref<2xf32, strided<[1], offset: 1>>)"
INTERIOR = "%t = memref.subview %w[1] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 1>>"
FILL = "linalg.fill ins(%z : f32) outs(%w : memref<4xf32>)"
ALLOC = "%w = memref.alloc() : memref<4xf32>"
READ = "linalg.exp ins(%w : memref<4xf32>) outs(%y : memref<4xf32>)"


@pytest.mark.parametrize(
    "body, is_pad",
    [
        ([ALLOC, INTERIOR, FILL, PAD, READ], True),
        # The fill comes later, or in a loop, or something reads before the copy.
        ([ALLOC, INTERIOR, PAD, FILL, READ], False),
        ([ALLOC, INTERIOR, f"scf.for %j = %i to %n step %n {{\n{FILL}\n}}", PAD], False),
        ([ALLOC, INTERIOR, FILL, READ, PAD], False),
        # It is returned in another shape, for which its memory must be contiguous.
        (
            [
                ALLOC,
                INTERIOR,
                FILL,
                PAD,
                "%s = memref.expand_shape %w [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>",
            ],
            False,
        ),
        # Only a part is filled.
        (
            [
                ALLOC,
                INTERIOR,
                "%f = memref.subview %w[0] [3] [1] : memref<4xf32> to memref<3xf32, strided<[1]>>",
                "linalg.fill ins(%z : f32) outs(%f : memref<3xf32, strided<[1]>>)",
                PAD,
            ],
            False,
        ),
        # Sizes, offsets or strides are not static, or there are gaps.
        (
            [
                "%v = memref.alloc(%n) : memref<?xf32>",
                "%t = memref.subview %v[1] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: 1>>",
                "linalg.fill ins(%z : f32) outs(%v : memref<?xf32>)",
                PAD,
            ],
            False,
        ),
        (
            [
                ALLOC,
                "%t = memref.subview %w[%i] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: ?>>",
                FILL,
                "linalg.copy ins(%x : memref<2xf32>) outs(%t : memref<2xf32, strided<[1], offset: ?>>)",
            ],
            False,
        ),
        (
            [
                ALLOC,
                "%t = memref.subview %w[1] [%n] [1] : memref<4xf32> to memref<?xf32, strided<[1], offset: 1>>",
                FILL,
                "%u = memref.subview %x[0] [%n] [1] : memref<2xf32> to memref<?xf32, strided<[1]>>",
                "linalg.copy ins(%u : memref<?xf32, strided<[1]>>) outs(%t : memref<?xf32, strided<[1], offset: 1>>)",
            ],
            False,
        ),
        (
            [
                ALLOC,
                "%t = memref.subview %w[1] [2] [2] : memref<4xf32> to memref<2xf32, strided<[2], offset: 1>>",
                FILL,
                "linalg.copy ins(%x : memref<2xf32>) outs(%t : memref<2xf32, strided<[2], offset: 1>>)",
            ],
            False,
        ),
    ],
)  # fmt: skip
def test_what_is_a_pad(body: list[str], is_pad: bool, parse: Parse):
    block = block_of(parse, body)
    (copy,) = (op for op in block.ops if isinstance(op, linalg.CopyOp))

    assert (pad_of(copy) is not None) is is_pad


def second(text: str) -> str:
    """The same for a second buffer."""
    for name in ("%w", "%t", "%y"):
        text = text.replace(name, name + "2")
    return text


@pytest.mark.parametrize(
    "between, is_shared",
    [
        ("", True),
        ("linalg.exp ins(%x : memref<2xf32>) outs(%o : memref<2xf32>)", True),
        ("linalg.fill ins(%z : f32) outs(%x : memref<2xf32>)", False),
    ],
)
def test_a_value_may_be_read_between_its_pads(
    between: str, is_shared: bool, parse: Parse
):
    one = [ALLOC, INTERIOR, FILL, PAD, READ]
    block = block_of(parse, [*one, between, *map(second, one)])

    share_pads(block)

    assert allocations(block) == (1 if is_shared else 2)


def test_one_pad_stays_as_it_is(parse: Parse):
    block = block_of(parse, [ALLOC, INTERIOR, FILL, PAD, READ])
    ops = list(block.ops)

    share_pads(block)

    assert list(block.ops) == ops


def test_two_groups_of_one_value(parse: Parse):
    """Pads with fills of two kinds, as those of convolutions and of pools."""
    one = [ALLOC, INTERIOR, FILL, PAD]
    body = ["%v = arith.constant 1.0 : f32"]
    for number, fill in enumerate(("%z", "%z", "%v", "%v")):
        names = {"%z": fill, "%w": f"%w{number}", "%t": f"%t{number}"}
        for line in one:
            for name, other in names.items():
                line = line.replace(name, other)
            body.append(line)
    block = block_of(parse, body)

    share_pads(block)

    assert allocations(block) == 2


@pytest.mark.parametrize(
    "value, is_shared",
    [
        ("arith.constant 1.0 : f32", True),
        ("arith.negf %z : f32", True),
        ("memref.load %o[%i] : memref<2xf32>", False),
    ],
)
def test_the_fill_value_moves_before_the_buffer(
    value: str, is_shared: bool, parse: Parse
):
    one = [INTERIOR, FILL.replace("%z", "%v"), PAD]
    two = [ALLOC, f"%v = {value}", *one, *map(second, [ALLOC, *one])]
    block = block_of(parse, two)

    share_pads(block)

    assert allocations(block) == (1 if is_shared else 2)
    order = {op: i for i, op in enumerate(block.ops)}
    for fill in [op for op in block.ops if isinstance(op, linalg.FillOp)]:
        owner = fill.inputs[0].owner
        assert isinstance(owner, Operation) and order[owner] < order[fill]


def block_of(parse: Parse, body: list[str]) -> Block:
    module = parse(
        "func.func @main(%x: memref<2xf32>, %o: memref<2xf32>, %y: memref<4xf32>,"
        " %y2: memref<4xf32>, %z: f32, %i: index, %n: index) {\n"
        + "\n".join([*body, "return\n}"])
    )
    (function,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    return function.body.block


def allocations(block: Block) -> int:
    return sum(isinstance(op, memref.AllocOp) for op in block.ops)
