"""
From the torch dialect to tcp.

Passes, in the order in which they run, and the files that serve them:

    fold_constants        computes ATen ops on constants, for Core ML
    narrow_float64        computes float64 values in float32, for Core ML
    widen_bfloat16        computes bfloat16 values in float32, for Core ML
      in_float32          what these two share
    convert_torch_to_tcp  makes padding explicit
      aten                how each ATen op is lowered
    fold_batch_norm       folds batch norms into convolutions, for machine code
    split_conv_transpose  splits transposed convolutions by phases, for machine code
"""
