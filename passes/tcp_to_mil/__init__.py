"""
From tcp to Core ML's ops.

Passes, in the order in which they run: `tabulate_scaled_sizes`, `reduce_ranks`,
`decompose_computed_kernels`, `decompose_grid_sample`, `decompose_pads`,
`convert_tcp_to_mil`.

`legality` says which ops Core ML has, `policies` which of them the passes before the
last one leave, and `ranks` how `reduce_ranks` rewrites each op. Every other file serves
the last pass: each holds the lowerings of a family of tcp ops, which `lowerings`
collects.
"""
