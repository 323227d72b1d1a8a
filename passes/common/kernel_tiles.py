"""
The tiles of kernels: what passes on tensors and the kernels themselves agree on.

A tile is what a kernel keeps in vector registers while it adds products.
"""

MOST_VECTORS = 4
"""The most vectors in a row of a tile of a matrix product."""
FEW_ROWS = 24
"""
With fewer rows, the kernel of matrix products reads weights as they are.

Its dot products then take less time than packing with a transposition.
"""
WINOGRAD_VECTORS = 4
"""The most vectors of output channels in a tile of Winograd's products."""


def register_count(vector_bytes: int) -> int:
    """
    The number of vector registers of a CPU whose longest vectors have `vector_bytes`.

    x86-64 has 16 of 32 bytes, but 32 of 64 bytes. 16 bytes are NEON's, 32 too: there an
    element that multiplies a vector takes a register, and LLVM loads some ahead. Six
    are left for them.
    """
    return {64: 32, 32: 16}.get(vector_bytes, 26)
