"""
From buffers to LLVM's dialect.

Pass: `convert_buffers_to_llvm`. The other files serve it:

    llvm_builder       builds ops of LLVM's dialect
    buffer_descriptor  a buffer as LLVM sees it: pointer, sizes, strides
    function_lowering  the walk over a function of buffers
    llvm_module        the functions made so far, each kernel once
    kernels            an op as a function of its own
    linalg_kernels     the kernel of one linalg op
    op_loops           the loops of a linalg op, and how long they take
    loop_nests         loops around a body, in the form that is fastest for it
    gathers            elements from places that are computed, loaded in blocks
    channel_rows       rows of channels at such places, transposed in registers
    bodies             the body of a linalg op, at some place of its loops
    products/          kernels of matrix products and convolutions
    winograd/          convolutions by Winograd's algorithm
    sums/              reductions of rows
    transpositions     copies that are contiguous in different loops
    work_sharing       kernels whose work several threads share
    shared_calls       calls of such kernels
    kernel_key         what two ops must share to become the same function
    loops              the order of the loops of a linalg op
    looped_ops         ops that may share their loops with others
    loop_groups        which of them share their outer loops
    loop_plans         how they are nested in these
    loop_fusion        those as one kernel
    private_buffers    buffers that only such a kernel uses
    row_moves          rows that several moves write, put together in registers
    row_pieces         which vectors make such a row
    window_rows        pools, row by row
    row_sums           sums of rows, next to ops that store their elements
    row_places         where the elements of rows are
    vectors            loads, stores and shuffles of vectors
    vector_math        exp, tanh and others of f32 without calls and branches
    double_math        those of f64
    derived_math       functions of f32 and f64 that are made of those
    vector_terms       the terms that such functions are written in
    vector_calls       functions that AVX-512 has instructions for
    access_check       which ops a debugging build checks, and how it reports them
    bounds             the memory of buffers, and addresses checked against it
    scalars            ops on single elements
"""
