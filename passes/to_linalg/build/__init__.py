"""
Arithmetic in the bodies of loops, and parts of tensors.

    numbers         elements in a body, whose operators insert ops
    scalars         conversions of elements, and the types that are computed in
    slices          take, insert, join and grow parts of tensors
    taps            weighted sums of the elements around a point
    grid_positions  where the points of a grid sample are in its input
    grid_rows       grid samples of many channels, which are contiguous in a copy
"""
