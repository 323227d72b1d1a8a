"""
From tcp to Core ML's ops.

Passes, in the order in which they run, and the files that serve them:

    tabulate_scaled_sizes       computes scaled sizes with integers
    reduce_ranks                replaces tensors of more than five dimensions
      ranks                     how each op is rewritten
    decompose_computed_kernels  replaces convolutions whose kernels must be constants
    decompose_grid_sample       replaces grid samples that Core ML does not have
    decompose_pads              replaces pads that Core ML does not have
      cropping                  negative amounts as slices
      policies                  which grid samples and pads these two leave
    convert_tcp_to_mil          replaces each tcp op by Core ML's ops
      tcp                       how each tcp op is lowered

`legality` says which tcp ops Core ML has.
"""
