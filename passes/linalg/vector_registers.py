"""The vector registers of CPUs."""


def register_count(vector_bytes: int) -> int:
    """
    The number of registers of a CPU whose longest vectors have so many bytes.

    x86-64 has 16 of 32 bytes, but 32 of 64 bytes. 16 bytes are NEON's, 32 too: there an
    element that multiplies a vector takes a register, and LLVM loads some ahead. Six
    are left for them.
    """
    return {64: 32, 32: 16}.get(vector_bytes, 26)
