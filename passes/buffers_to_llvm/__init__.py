"""
From buffers to LLVM's dialect.

Pass: `convert_buffers_to_llvm`. The other files serve it:

    llvm_builder       builds ops of LLVM's dialect
    buffer_descriptor  a buffer as LLVM sees it: pointer, sizes, strides
    function_lowering  the walk over a function of buffers
    llvm_module        the functions made so far, each kernel once
    kernels            a linalg op as a function of its own
    work_sharing       kernels whose work several threads share
    shared_calls       calls of such kernels
    kernel_key         what two ops must share to become the same function
    loops              the order of the loops of a linalg op
    loop_fusion        ops that write parts of one buffer, in shared loops
    extremes           greatest and least elements of rows, by integers
    partial_sums       sums in blocks of a few hundred terms
    transpositions     copies that are contiguous in different loops
    sums               sums of many floats, with the errors of their additions
    contractions       sums of products, in tiles of registers
    packed_convolutions  convolutions of packed tensors
    matrix_products    matrix products
    matrix_product_loops, matrix_product_tiles
                       which ops they are, and loops over tiles of their results
    product_blocks     those with many rows: in blocks for the caches
    dot_products       those with few rows
    products           sums of products, by one of three kernels
    fused_products     sums of products with the ops before and after them
    winograd, winograd_tiles, fused_winograd
                       convolutions by Winograd's algorithm, and the ops after them
    accumulation       what sums are added to, and what follows
    vectors            loads, stores and shuffles of vectors
    vector_math        exp, tanh and others without calls and branches
    access_check       which ops a debugging build checks, and how it reports them
    bounds             the memory of buffers, and addresses checked against it
    scalars            ops on single elements
"""
