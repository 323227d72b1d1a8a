"""
What several lowerings of ATen ops share.

    aten_call, promotion  an op that is being lowered: its arguments, its types
    builder, symbolic_tensor
                          build ATen ops: on tensors, and by operators on tensors
    element, elementwise_bodies, elementwise_tables
                          what each elementwise op computes, for every path
    formulas              other formulas of ATen ops, for every path
    size_tables           what each op on sizes computes, for every path
    bessel, chebyshev, chebyshev_tables, error_functions, gamma, polynomials
                          special functions, which the bodies use
    einsum                the names of dimensions in an equation
    conv_transpose        transposed convolutions by pads and convolutions
    eager_evaluation      ops on constants, computed with PyTorch
    folded_norm, phase_kernel
                          weights that are computed from those of the model
    operand_checks        what fake tensors do not check
    refusals              why ops without a lowering are refused
    windows               windows whose lengths are known only at run time
"""
