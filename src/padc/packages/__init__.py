"""
Saved Core ML packages that run on any machine.

`buffered_model` runs one on arrays and keeps its states, `session` on tensors;
`denoted` converts between the model's tensors and the package's features.
`written_program` runs a program at the mil level, which packages are compared with.
"""
