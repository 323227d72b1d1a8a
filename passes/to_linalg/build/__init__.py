"""
Builders of upstream's tensor ops, and arithmetic in the bodies of their loops.

    linalg_builder  inserts ops on tensors; loops whose bodies are Python functions
    shapes, slices  change the shape of a tensor; take, insert and join parts
    numbers         elements in a body, whose operators insert ops
    scalars         conversions of elements, and the types that are computed in
"""
