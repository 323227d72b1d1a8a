"""
From tensors to buffers, and what is done to buffers.

Passes, in the order in which they run: `bufferize_tcp`, `pad_into_producer`,
`fill_border_only`, `run_in_blocks`, `plan_buffers`. The other files serve them:

    function_bufferizer  the walk over a function, and the table of lowerings
    lowerings            that table, complete: `tensor_ops`, `border_pads`, `winograd`
    views                views of buffers: which are disjoint
    strided_range        the arithmetic of disjoint views
    deallocation         frees buffers after their last use
    hoisting             moves ops up in a block
    shared_pads          joins buffers that pad the same value
    live_ranges          when buffers are in use, and how they share memory
    size_replay          computes sizes from a function's arguments
"""
