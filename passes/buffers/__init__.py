"""
From tensors to buffers, and what is done to buffers.

Passes, in the order in which they run: `bufferize_tcp`, `pad_into_producer`,
`fill_border_only`, `plan_buffers`. Every other file serves them.
"""
