"""
What all steps share.

    broadcast         the rule of broadcasting
    options           which integers options of passes take
    backward_slice    what a value is computed from
    lowering          the driver of lowerings that are tables
    retyping          narrower element types in place of those that a target lacks
    size_builder      arithmetic on sizes, as ops of arith
    mil_builder       ops of Core ML, with the types of their results inferred
    linalg_builder    ops on tensors; loops whose bodies are Python functions
    tensor_shapes     other shapes of tensors: views, permutations
    memref_builder    ops on buffers
    buffer_views      views of buffers: their root, their users
    sums_of_products  which linalg ops are convolutions and matrix products
    kernel_tiles      what passes on tensors know of the kernels of machine code
"""
