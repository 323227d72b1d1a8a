"""
Complex tensors as pairs of real ones, for targets that have no complex numbers.

A row says what the real and the imaginary part of an ATen op's result are. It takes a
`ComplexCall`, and computes with `Real`s and `Complex`es, whose operators insert ATen
ops on real tensors.
"""
