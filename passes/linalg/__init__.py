"""
Rewrites of upstream's tensor ops: linalg, tensor, arith.

Passes: `widen_weights`, `fuse_elementwise`, `pack_layouts`, `pack_weights`,
`convert_to_winograd`, `drop_unused_weights`, `write_in_place`. `layout_plan` decides
which layouts are packed, and `winograd_cost` how convolutions are computed; `packing`,
`packed_tensor_ops` and `weights` pack tensors, ops and weights; `panels` says how
weights of linear layers are packed.
`convolutions` and `elementwise` recognize these ops.
"""
