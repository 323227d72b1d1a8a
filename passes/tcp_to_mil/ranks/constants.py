"""Constants, and tensors whose elements are all the same."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.passes.tcp_to_mil.ranks.rank_call import RankCall, product_in_type, rewrites

FULL = ("full", "zeros", "ones", "empty.memory_format")
NEW = ("new_full", "new_zeros", "new_ones", "new_empty")


@rewrites(*(f"aten.{name}" for name in (*FULL, *NEW)))
def rewrite_full(call: RankCall) -> SSAValue:
    """A vector with as many elements."""
    sizes = [
        given if size < 0 else size
        for size, given in zip(call.result_shape, call.sizes("size"), strict=True)
    ]
    arguments = {"self": call.carrier("self").value} if call.has("self") else {}
    count = call.build.product(sizes)
    (y,) = call.again([product_in_type(sizes)], size=[count], **arguments)
    return call.view(y, sizes, (tuple(range(len(sizes))),))
