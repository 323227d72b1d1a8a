# pyright: basic
"""Which pads convolutions and pools of Core ML do themselves."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.errors import UnsupportedError
from padc.ir.mil import MilOp
from padc.passes.tcp_to_mil.convert_tcp_to_mil import ConvertTcpToMilPass

Parse = Callable[[str], ModuleOp]

POOL = "tcp.max_pool %p kernel [3] strides [1] dilations [1] dims [2]"
PADS = {
    "interior": "tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 0] interiorExpansion [0, 0, 1] : tensor<1x2x4xf32>, f32 -> tensor<1x2x8xf32>",
    "dynamic amounts": "tcp.pad %x, %f lowerExpansion [0, 0, %n] upperExpansion [0, 0, 0] : tensor<1x2x4xf32>, f32 -> tensor<1x2x8xf32>",
    "dynamic fill": "tcp.pad %x, %g lowerExpansion [0, 0, 2] upperExpansion [0, 0, 2] : tensor<1x2x4xf32>, f32 -> tensor<1x2x8xf32>",
}


@pytest.mark.parametrize("pad", PADS)
def test_pads_that_core_ml_lacks_do_not_fold(pad: str, parse: Parse, ctx: Context):
    module = parse(f"""
      func.func @main(%x: tensor<1x2x4xf32>, %n: index, %g: f32) -> tensor<1x2x6xf32> {{
        %f = arith.constant 0xff800000 : f32
        %p = {PADS[pad]}
        %y = {POOL} : tensor<1x2x8xf32> -> tensor<1x2x6xf32>
        return %y : tensor<1x2x6xf32>
      }}""")

    with pytest.raises(UnsupportedError, match=r"tcp\.pad"):
        ConvertTcpToMilPass(target="iOS18").apply(ctx, module)


def pad(lower: list[int], upper: list[int], fill: str) -> str:
    sizes = [size + a + b for size, a, b in zip((2, 2, 4), lower, upper, strict=True)]
    result = "x".join(map(str, sizes))
    return (
        f"%f = arith.constant {fill} : f32\n"
        f"%p = tcp.pad %x, %f lowerExpansion {lower} upperExpansion {upper} "
        f": tensor<2x2x4xf32>, f32 -> tensor<{result}xf32>"
    )


def pool(kind: str, kernel: int, options: str = "") -> str:
    return (
        f"%y = tcp.{kind}_pool %p kernel [{kernel}] strides [1] dilations [1] "
        f"dims [2]{options} : tensor<2x2x6xf32> -> tensor<2x2x{7 - kernel}xf32>"
    )


CONV = (
    "%w = arith.constant dense<1.0> : tensor<2x2x3xf32>\n"
    "%y = tcp.conv %p, %w strides [1] dilations [1] groups 1 "
    "dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> "
    ": tensor<2x2x6xf32>, tensor<2x2x3xf32> -> tensor<2x2x4xf32>"
)
ONE_EACH = [0, 0, 1], [0, 0, 1]
TWO_BEFORE = [0, 0, 2], [0, 0, 0]
LEAST = "0xff800000"
UNCOUNTED = " uncountedLower [{}] uncountedUpper [{}]"
FOLDED: dict[str, tuple[str, str, list[str]]] = {
    # The pad, the op, and the ops of Core ML for them.
    "conv": (pad(*ONE_EACH, "0.0"), CONV, ["conv"]),
    "conv of another fill": (pad(*ONE_EACH, "1.0"), CONV, ["pad", "conv"]),
    "conv of a batch that is padded": (
        pad([1, 0, 1], [0, 0, 1], "0.0"),
        CONV.replace("tensor<2x2x6", "tensor<3x2x6").replace("<2x2x4", "<3x2x4"),
        ["pad", "conv"],
    ),
    "conv of a batch that is cropped": (
        pad([-1, 0, 1], [0, 0, 1], "0.0"),
        CONV.replace("tensor<2x2x6", "tensor<1x2x6").replace("<2x2x4", "<1x2x4"),
        ["slice_by_index", "conv"],
    ),
    "max": (pad(*ONE_EACH, LEAST), pool("max", 3), ["max_pool"]),
    "max of zeros": (pad(*ONE_EACH, "0.0"), pool("max", 3), ["pad", "max_pool"]),
    "a window of padding": (
        pad(*TWO_BEFORE, LEAST), pool("max", 2), ["pad", "max_pool"]
    ),
    "a window that is wider": (pad(*TWO_BEFORE, LEAST), pool("max", 3), ["max_pool"]),
    "average": (pad(*ONE_EACH, "0.0"), pool("avg", 3), ["avg_pool"]),
    "average without padding": (
        pad(*ONE_EACH, "0.0"), pool("avg", 3, UNCOUNTED.format(1, 1)), ["avg_pool"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_what_folds(name: str, parse: Parse, ctx: Context):
    pad, op, expected = FOLDED[name]
    result = op.rpartition("-> ")[2]
    module = parse(f"""
      func.func @main(%x: tensor<2x2x4xf32>) -> {result} {{
        {pad}
        {op}
        return %y : {result}
      }}""")

    ConvertTcpToMilPass(target="iOS17").apply(ctx, module)

    names = [op.name for op in module.walk() if isinstance(op, MilOp)]
    assert names == [f"mil.{name}" for name in expected]


def test_averages_of_other_elements_do_not_fold(parse: Parse, ctx: Context):
    average = pool("avg", 3, UNCOUNTED.format(1, 0))
    module = parse(f"""
      func.func @main(%x: tensor<2x2x4xf32>) -> tensor<2x2x4xf32> {{
        {pad(*ONE_EACH, "0.0")}
        {average}
        return %y : tensor<2x2x4xf32>
      }}""")

    ConvertTcpToMilPass(target="iOS17").apply(ctx, module)

    assert "mil.pad" in [op.name for op in module.walk()]


def test_convolutions_without_pads(parse: Parse, ctx: Context):
    module = parse(f"""
      func.func @main(%p: tensor<2x2x6xf32>) -> tensor<2x2x4xf32> {{
        {CONV}
        return %y : tensor<2x2x4xf32>
      }}""")

    ConvertTcpToMilPass(target="iOS17").apply(ctx, module)

    assert [op.name for op in module.walk() if isinstance(op, MilOp)] == ["mil.conv"]
