"""
Reductions of rows.

    float_sums    sums of many floats, with the errors of their additions
    partial_sums  sums in blocks of a few hundred terms
    extremes      greatest and least elements, by integers
"""
