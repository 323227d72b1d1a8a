# pyright: basic
"""Which ops of tcp Core ML has as they are."""

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from padc.errors import Obstacle
from padc.ir import tcp
from padc.passes.tcp_to_mil import legality

Parse = Callable[[str], ModuleOp]


def op_of(parse: Parse, text: str, arguments: str) -> Operation:
    """The op of tcp in a function with these arguments."""
    module = parse(f"func.func @main({arguments}) {{ {text}\nreturn }}")
    (op,) = (op for op in module.walk() if op.name.startswith("tcp."))
    return op


# --- pads -----------------------------------------------------------------------------


PADS: dict[str, tuple[str, int, str, int, int, bool]] = {
    "replication": ("replication", 1, "2x3xf32", 1, 3, True),
    "reflection": ("reflection", 1, "2x3xf32", 2, 2, True),
    "circular": ("circular", 1, "2x3xf32", 1, 1, False),
    "symmetric": ("symmetric", 1, "2x3xf32", 1, 1, False),
    "a circular crop": ("circular", 1, "2x3xf32", -1, 0, False),
    "more than the size": ("replication", 1, "2x3xf32", 0, 4, False),
    "an unknown size": ("replication", 1, "2x?xf32", 0, 1, False),
    "a reflection of unknown size": ("reflection", 1, "2x?xf32", 0, 1, True),
    "integers": ("replication", 1, "2x3xi32", 1, 1, False),
    "the last but one": ("replication", 1, "2x3x4xf32", 1, 1, True),
    "another dimension": ("replication", 0, "2x3x4xf32", 1, 1, False),
    "a crop of another dimension": ("replication", 0, "2x3x4xi32", 0, -1, True),
}


@pytest.mark.parametrize("name", PADS)
def test_pads(name: str, parse: Parse):
    mode, dim, type, lower, upper, expected = PADS[name]
    sizes = type.split("x")[:-1]
    result = [
        "?" if size == "?" else str(int(size) + (lower + upper) * (i == dim))
        for i, size in enumerate(sizes)
    ]
    amounts = [
        [n if i == dim else 0 for i in range(len(sizes))] for n in (lower, upper)
    ]
    op = op_of(
        parse,
        f"%y = tcp.{mode}_pad %x lowerExpansion {amounts[0]} upperExpansion "
        f"{amounts[1]} : tensor<{type}> "
        f"-> tensor<{'x'.join([*result, type.split('x')[-1]])}>",
        f"%x: tensor<{type}>",
    )
    assert isinstance(op, tcp.BorderPadOp) and op.static_amounts is not None

    assert legality.can_pad_natively(op, dim, op.static_amounts[dim]) is expected


def test_no_pad_is_too_large_for_no_size(parse: Parse):
    op = op_of(
        parse,
        "%y = tcp.replication_pad %x lowerExpansion [-1] upperExpansion [0] "
        ": tensor<?xf32> -> tensor<?xf32>",
        "%x: tensor<?xf32>",
    )
    assert isinstance(op, tcp.BorderPadOp) and op.static_amounts is not None

    assert legality.is_within(op, 0, op.static_amounts[0])


@pytest.mark.parametrize(
    "fill, user, expected",
    [
        (-(2**63), "", -(2**31)),
        (-(2**63), "tcp.circular_pad", -(2**63)),
        (-(2**62), "", -(2**62)),
    ],
)
def test_fills(fill: int, user: str, expected: int, parse: Parse):
    other = (
        f"%z = {user} %p lowerExpansion [0] upperExpansion [1] "
        ": tensor<8xi64> -> tensor<9xi64>"
    )
    module = parse(f"""
      func.func @main(%x: tensor<4xi64>) {{
        %f = arith.constant {fill} : i64
        %p = tcp.pad %x, %f lowerExpansion [2] upperExpansion [2] : tensor<4xi64>, i64 -> tensor<8xi64>
        %y = tcp.max_pool %p kernel [3] strides [1] dilations [1] dims [0] : tensor<8xi64> -> tensor<6xi64>
        {other if user else ""}
        return
      }}""")
    (pad,) = (op for op in module.walk() if isinstance(op, tcp.PadOp))

    assert legality.fill_of(pad) == expected


def test_computed_fills(parse: Parse):
    pad = op_of(
        parse,
        "%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] "
        ": tensor<4xf32>, f32 -> tensor<5xf32>",
        "%x: tensor<4xf32>, %f: f32",
    )
    assert isinstance(pad, tcp.PadOp)

    with pytest.raises(Obstacle, match="the fill is computed"):
        legality.fill_of(pad)


# --- convolutions ---------------------------------------------------------------------

FROM_IOS15, FROM_IOS17, NEVER = (True, True), (False, True), (False, False)
KERNELS: dict[str, tuple[str, str, bool, bool | None, tuple[bool, bool]]] = {
    # Element type, order of the kernel, whether kernel and bias are constant.
    "constant": ("f32", "i, o, 0", True, None, FROM_IOS15),
    "constant, with a computed bias": ("f32", "i, o, 0", True, False, FROM_IOS15),
    "another order": ("f32", "o, i, 0", True, None, FROM_IOS17),
    "computed": ("f32", "i, o, 0", False, None, FROM_IOS17),
    "computed, with a constant bias": ("f32", "i, o, 0", False, True, FROM_IOS17),
    "computed, with a computed bias": ("f32", "i, o, 0", False, False, NEVER),
    "integers": ("i32", "i, o, 0", True, None, NEVER),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_transposed_convolutions(name: str, parse: Parse):
    element, order, is_constant, has_constant_bias, expected = KERNELS[name]
    zero = "0" if element == "i32" else "0.0"
    kernel, bias = f"tensor<2x2x3x{element}>", f"tensor<2x{element}>"
    constants = ""
    if is_constant:
        constants += f"%w = arith.constant dense<{zero}> : {kernel}\n"
    if has_constant_bias:
        constants += f"%b = arith.constant dense<{zero}> : {bias}\n"
    with_bias = has_constant_bias is not None
    op = op_of(
        parse,
        f"{constants} %y = tcp.conv_transpose %x, %w{', %b' * with_bias} strides [1] "
        f"dilations [1] groups 1 dims <[b, f, 0] x [{order}] -> [b, f, 0]> "
        f": tensor<1x2x4x{element}>, {kernel}{f', {bias}' * with_bias} "
        f"-> tensor<1x2x6x{element}>",
        f"%x: tensor<1x2x4x{element}>"
        + f", %w: {kernel}" * (not is_constant)
        + f", %b: {bias}" * (has_constant_bias is False),
    )
    assert isinstance(op, tcp.ConvTransposeOp)

    for target, takes in zip(("iOS15", "iOS17"), expected, strict=True):
        assert legality.takes_kernel(op, target) is takes


@pytest.mark.parametrize("dilation", [1, 2])
def test_dilated(dilation: int, parse: Parse):
    op = op_of(
        parse,
        f"%y = tcp.conv %x, %w strides [1] dilations [{dilation}] groups 1 "
        "dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> "
        f": tensor<1x2x4xf32>, tensor<2x2x2xf32> -> tensor<1x2x{4 - dilation}xf32>",
        "%x: tensor<1x2x4xf32>, %w: tensor<2x2x2xf32>",
    )
    assert isinstance(op, tcp.ConvolutionOp)

    assert legality.is_dilated(op) is (dilation == 2)


def test_an_op_that_a_target_does_not_have():
    name = "scaled_dot_product_attention"

    assert not legality.may_be_computed(name, "query", "iOS15")
    assert legality.may_be_computed(name, "query", "iOS18")


# --- grid samples ---------------------------------------------------------------------

GRIDS: dict[str, tuple[str, str, str, bool, bool]] = {
    # Mode, padding, type of the images, whether Core ML has it, and is exact.
    "bilinear": ("linear", "zeros", "1x2x3x4xf32", True, True),
    "halves": ("linear", "border", "1x2x3x4xf16", True, True),
    "nearest": ("nearest", "zeros", "1x2x3x4xf32", True, False),
    "cubic": ("cubic", "zeros", "1x2x3x4xf32", False, False),
    "volumes": ("linear", "zeros", "1x2x3x4x5xf32", False, True),
    "doubles": ("linear", "zeros", "1x2x3x4xf64", False, True),
    "mirrored": ("linear", "reflection", "1x2x3x4xf32", True, True),
    "mirrored pixels": ("linear", "reflection", "1x2x1x4xf32", True, True),
    "a mirrored corner": ("linear", "reflection align_corners", "1x2x1x4xf32", True, False),
    "mirrored corners": ("linear", "reflection align_corners", "1x2x3x4xf32", True, True),
    "corners of unknown size": ("linear", "reflection align_corners", "1x2x3x?xf32", True, False),
    "a corner": ("linear", "zeros align_corners", "1x2x1x4xf32", True, True),
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_grid_samples(name: str, parse: Parse):
    mode, padding, type, has, is_exact = GRIDS[name]
    *sizes, element = type.split("x")
    rank = len(sizes) - 2
    grid = f"tensor<1x{'5x' * rank}{rank}x{element}>"
    op = op_of(
        parse,
        f"%y = tcp.grid_sample %x, %g mode {mode} padding {padding} : tensor<{type}>, "
        f"{grid} -> tensor<1x2x{'5x' * rank}{element}>",
        f"%x: tensor<{type}>, %g: {grid}",
    )
    assert isinstance(op, tcp.GridSampleOp)

    assert legality.can_resample(op) is has
    assert legality.is_exact(op) is is_exact
