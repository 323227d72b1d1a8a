"""
How `reduce-ranks` rewrites each op on tensors of more dimensions than Core ML has.

`grouping` and `permutations` are the algebra, on dimensions only. `carrier` says what
carries a tensor, and `rank_call` how ops are built on carriers. Every other file holds
the rules of a family of ops, which `lowerings` collects.
"""
