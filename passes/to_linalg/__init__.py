"""
From the torch dialect and tcp to upstream's tensor ops: linalg, tensor, arith, math.

Passes: `decompose_conv_transpose`, `convert_torch_to_linalg`, `convert_tcp_to_linalg`.
What serves them is in folders: `tcp` and `aten` hold the lowerings by family, `build`
what both build their ops with.
"""
