"""
Arithmetic in the bodies of loops, and parts of tensors.

    numbers  elements in a body, whose operators insert ops
    scalars  conversions of elements, and the types that are computed in
    slices   take, insert and join parts of tensors
    taps     weighted sums of the elements around a point
"""
