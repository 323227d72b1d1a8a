"""
Complex tensors as pairs of real ones, for targets that have no complex numbers.

A row says what the real and the imaginary part of an ATen op's result are. It takes a
`ComplexCall`, and computes with `RealTensor`s and `Complex`es, whose operators insert
ATen ops on real tensors.

The pass, and the files that serve it:

    split_complex    replaces complex tensors by two real ones
      complex_call   the call that a row takes, and the table of rows
      numbers        values whose operators insert ATen ops on real tensors
      transforms     discrete Fourier transforms
      windows        windows of spectra

Every other file holds the rows of a family of ATen ops.
"""
