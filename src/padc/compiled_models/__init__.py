"""
The models that `padc.compile` returns; `padc.compiled_model` is their interface.

`native_model` runs machine code, `eager_model` PyTorch. `call_structure` and
`call_values` are what both need of a call: arguments as tensors, and results in the
model's structure.
"""
