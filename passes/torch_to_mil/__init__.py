"""
From what is left of ATen to Core ML's ops: a row for each op, in files by family.

A row says how an op is computed with `mil` ops, and for which dtypes. It takes a
`MilCall`; most compute with `Tensor`s, whose operators insert `mil` ops.
"""
