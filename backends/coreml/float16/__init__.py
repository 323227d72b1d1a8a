"""
Which ops of a float16 program compute in float32.

`float32_ops` asks all others:

    keep_float32   those that the user keeps
    coordinates    coordinates of grids, indices and decisions
    integers       integers that were cast to floats
    ranges         numbers that are too large for float16
    tiny_numbers   numbers that are too small for it
    squares        roots of means of squares
"""
