"""
Rewrites of upstream's tensor ops: linalg, tensor, arith.

Passes: `fuse_elementwise`, `pack_layouts`, `write_in_place`. `layout_plan` decides what
is packed; `packing` and `packed_tensor_ops` pack tensors and ops.
"""
