"""
From buffers to LLVM's dialect.

Pass: `convert_buffers_to_llvm`. The other files serve it:

    llvm_builder       builds ops of LLVM's dialect
    buffer_descriptor  a buffer as LLVM sees it: pointer, sizes, strides
    function_lowering  the walk over a function of buffers
    llvm_module        the functions made so far, each kernel once
    kernels            a linalg op as a function of its own
    kernel_key         what two ops must share to become the same function
    loops              the order of the loops of a linalg op
    loop_fusion        ops that write parts of one buffer, in shared loops
    contractions       sums of products, in tiles of registers
    scalars            ops on single elements
"""
