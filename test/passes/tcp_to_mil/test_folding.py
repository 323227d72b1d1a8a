# pyright: basic
"""Which pads convolutions and pools of Core ML do themselves."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.errors import UnsupportedError
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
