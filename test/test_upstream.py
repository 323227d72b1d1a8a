# pyright: basic, reportMissingTypeStubs=false
"""The helper that runs modules with upstream MLIR (`upstream.py`)."""

from collections.abc import Callable

import pytest
import torch
from upstream import canonicalized, compiled, run_upstream
from xdsl.dialects.builtin import ModuleOp

Parse = Callable[[str], ModuleOp]


def test_memrefs_are_read_and_written(parse: Parse):
    module = parse("""
    func.func @main(%x: memref<?xf32>, %n: index) -> memref<2xf32, strided<[2], offset: 1>> {
      %one = arith.constant 1.0 : f32
      memref.store %one, %x[%n] : memref<?xf32>
      %y = memref.alloc() : memref<4xf32>
      %part = memref.subview %x[0][4][1] : memref<?xf32> to memref<4xf32, strided<[1]>>
      "memref.copy"(%part, %y) : (memref<4xf32, strided<[1]>>, memref<4xf32>) -> ()
      %z = memref.subview %y[1][2][2] : memref<4xf32> to memref<2xf32, strided<[2], offset: 1>>
      return %z : memref<2xf32, strided<[2], offset: 1>>
    }
    """)
    x = torch.zeros(5)

    (z,) = run_upstream(module, x, 3)

    assert x.tolist() == [0, 0, 0, 1, 0]
    assert z.tolist() == [0, 1]


@pytest.mark.parametrize(
    "dtype, type",
    [
        (torch.uint8, "ui8"),
        (torch.uint64, "ui64"),
        (torch.bool, "i1"),
        (torch.int64, "i64"),
        (torch.float16, "f16"),
        (torch.bfloat16, "bf16"),
        (torch.float64, "f64"),
    ],
)
def test_each_dtype_comes_back(dtype: torch.dtype, type: str, parse: Parse):
    source = f"""
    func.func @main(%x: tensor<?x2x{type}>, %y: tensor<{type}>) -> (tensor<{type}>, tensor<?x2x{type}>) {{
      return %y, %x : tensor<{type}>, tensor<?x2x{type}>
    }}
    """
    x, y = torch.tensor([[0, 1], [1, 200 % 128]]).to(dtype), torch.tensor(1).to(dtype)

    results = compiled(parse(source))(x, y)

    for actual, expected in zip(results, (y, x), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_upstream_miscompiles_pads_of_less_than_nothing():
    # When this fails, upstream has fixed it: convert-tcp-to-linalg may make such pads.
    source = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %zero = arith.constant 0.0 : f32
      %y = tensor.pad %x low[-1] high[1] {
      ^bb0(%i: index):
        tensor.yield %zero : f32
      } : tensor<4xf32> to tensor<4xf32>
      return %y : tensor<4xf32>
    }
    """

    assert "tensor.pad" not in canonicalized(source)
