"""
Calls of a program: which inputs it takes, and which tensors its results fit.

This is the same for machine code, the reference, and models that PyTorch runs.
"""
