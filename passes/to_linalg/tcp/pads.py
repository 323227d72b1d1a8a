"""Pads with a fill, as tensor.pad; and in other modes, as loops over index maps."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.padding import (
    padded_size,
)
from padc.ir.tcp import Amount, tensor_type
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.common.size_builder import never_crops
from padc.passes.to_linalg.build.slices import grow
from padc.passes.to_linalg.tcp.linalg_lowering import lowers


@lowers(tcp.PadOp)
def lower_pad(build: LinalgBuilder, op: tcp.PadOp) -> SSAValue:
    """
    Slices crop, tensor.pad adds at the edges, a strided insertion adds in between.

    tensor.pad gets no negative amounts: upstream's canonicalizer replaces the pad of
    a slice by the tensor that was sliced.
    """
    x = build.signless(op.input)
    lower, upper = op.lower_expansion, op.upper_expansion
    interior = op.interior_expansion
    if any(amount != 0 for amount in interior):
        # Crop last: amounts may crop what was inserted.
        below, above = build.added(lower), build.added(upper)
        x = spread(build, x, op.fill, below, above, interior)
        return crop(build, x, lower, upper)
    x = crop(build, x, lower, upper)
    return grow(build, x, op.fill, build.added(lower), build.added(upper))


def crop(
    build: LinalgBuilder, x: SSAValue, lower: Sequence[Amount], upper: Sequence[Amount]
) -> SSAValue:
    """`x` without the elements that negative amounts crop."""
    if never_crops(*lower, *upper):
        return x
    offsets, sizes = build.cropped(lower, build.sizes(x), upper)
    if 0 in sizes:
        # Upstream refuses a slice that starts at the end.
        return build.empty(sizes, element_type(x))
    return build.slice(x, offsets, sizes)


def spread(
    build: LinalgBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    interior: Sequence[Amount],
) -> SSAValue:
    """`x` and the fill around and between its elements."""
    sizes = build.sizes(x)
    steps = [(build.wrap(amount) + 1).value for amount in interior]
    padded = build.padded(lower, sizes, upper, interior)
    filled = build.filled(padded, fill)
    if 0 in tensor_type(x).get_shape():
        return filled
    return build.insert_slice(x, filled, lower, sizes, steps)


@lowers(*tcp.BORDER_PADS)
def lower_border_pad(build: LinalgBuilder, op: tcp.BorderPadOp) -> SSAValue:
    """Read each element of the result from the input, through the index map."""
    x = build.signless(op.input)
    amounts = [
        tuple(map(build.wrap, each))
        for each in zip(op.lower_expansion, op.upper_expansion, strict=True)
    ]
    sizes = [build.wrap(size) for size in build.sizes(x)]
    padded = [
        padded_size(size, *each).value
        for size, each in zip(sizes, amounts, strict=True)
    ]

    def element(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        indices: list[Amount] = []
        for dim, (size, (lower, upper)) in enumerate(zip(sizes, amounts, strict=True)):
            index = inner.wrap(inner.loop_index(dim))
            if (lower.value, upper.value) != (0, 0):
                index = op.source_index(index, size, lower, upper)
            indices.append(index.value)
        return inner.extract(x, indices)

    return build.compute(padded, element_type(x), element)
