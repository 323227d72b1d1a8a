"""
From the torch dialect to tcp.

Passes: `convert_torch_to_tcp`, `fold_batch_norm`. Every other file serves the first of
them: the lowerings of a family of ATen ops, collected in `lowerings`.
"""
