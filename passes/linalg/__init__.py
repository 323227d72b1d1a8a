"""
Rewrites of upstream's tensor ops: linalg, tensor, arith.

Passes: `pack_layouts`. `packing` packs single tensors and ops.
"""
