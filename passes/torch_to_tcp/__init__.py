"""
From the torch dialect to tcp.

Passes: `convert_torch_to_tcp`, `fold_batch_norm`. Every other file serves the first
pass: each holds the lowerings of a family of ATen ops, which `lowerings` collects.
"""
