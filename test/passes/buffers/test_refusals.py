"""What bufferize-tcp refuses, by a message instead of a wrong program."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers.bufferize_tcp import BufferizeTcpPass

FUNCTION = """
func.func @main(%x: tensor<4xf32>, %f: f32) -> tensor<{size}xf32> {{
  {ops}
  return %y : tensor<{size}xf32>
}}
"""


@pytest.mark.parametrize(
    ("size", "ops", "message"),
    [
        (
            3,
            "%y = tensor.pad %x low[-1] high[0] {\n^bb0(%i: index):\n"
            "tensor.yield %f : f32\n} : tensor<4xf32> to tensor<3xf32>",
            "only of amounts that are not negative",
        ),
        (
            5,
            "%y = tensor.pad %x low[1] high[0] {\n^bb0(%i: index):\n"
            "%z = arith.constant 0.0 : f32\n"
            "tensor.yield %z : f32\n} : tensor<4xf32> to tensor<5xf32>",
            "only if it pads with one value",
        ),
        (
            5,
            "%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : "
            "tensor<4xf32>, f32 -> tensor<5xf32>",
            "run convert-torch-to-linalg and convert-tcp-to-linalg",
        ),
    ],
)
def test_bufferize_tcp_refuses(
    ctx: Context,
    parse: Callable[[str], ModuleOp],
    size: int,
    ops: str,
    message: str,
):
    module = parse(FUNCTION.format(size=size, ops=ops))

    with pytest.raises(PassFailedException, match=message):
        BufferizeTcpPass().apply(ctx, module)
