"""
Kernels of sums of products.

    kernel_choice      which of the kernels computes a linalg op
    convolutions       sums over several loops, in tiles of registers
    packed_convolutions  convolutions of packed tensors
    matrix_products    matrix products
    matrix_product_loops, matrix_product_tiles
                       which ops they are, and loops over tiles of their results
    product_blocks     those with many rows: in blocks for the caches
    dot_products       those with few rows
    fused_products     sums of products with the ops before and after them
    accumulation       what sums are added to, and what follows
"""
