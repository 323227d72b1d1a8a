"""
The models that `padc.convert` and `padc.compile` take, as programs.

`exported` imports each kind: modules and exported programs of PyTorch, and MLIR text,
which `parsing` reads, `mlir_model` makes a model, `checked_ops` judges and
`interpreter` runs. `described_shapes` has the dynamic shapes that descriptions of
inputs ask for, and `listing` those of inputs whose sizes are no range.
`lower_precision` runs a model in PyTorch with every op in float16 or bfloat16.
"""
