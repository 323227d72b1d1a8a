"""
From the torch dialect and tcp to upstream's tensor ops: linalg, tensor, arith, math.

Passes: `decompose_conv_transpose`, `convert_torch_to_linalg`, `convert_tcp_to_linalg`.
`tcp` and `aten` hold their lowerings by family, and `build` what both build with.
"""
