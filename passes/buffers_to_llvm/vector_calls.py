"""
Functions of floats that AVX-512 has instructions for, and LLVM's IR no ops.

Machine code calls them for single floats. LLVM vectorizes loops of such calls (see
`padc.backends.native.vector_instructions`).
"""

EXPONENT = "padc_exponent"
"""The exponent of the first bit of a float; -inf of 0, inf of infinities, and NaN."""
MANTISSA = "padc_mantissa"
"""
The `m` from 3/4 to 3/2, exclusive, with x = 2^k m.

1 of 0 and inf; NaN of NaN and numbers below 0.
"""
SCALED = "padc_scaled"
"""x 2^floor(y) of two floats, rounded once."""
LANES = 16
"""The floats of a vector."""
ROOTS = LANES
ROOT = "padc_root"
"""2^(i / ROOTS) where `i` are the last bits of a float: `i` modulo `ROOTS`."""
ERF = tuple(f"padc_erf_{power}" for power in range(5))
"""
Coefficients, from t^0 on, of erf(x) / x near x = i / `ERF_PARTS`, for t = x - that.

`i` are the last bits of a float, as above: one instruction permutes a vector.
"""
ERF_PARTS = 4
VECTOR_BYTES = 4 * LANES
"""The length of the vectors of a CPU that has these instructions."""
