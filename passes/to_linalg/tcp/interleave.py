"""Interleaving: each part is inserted with a stride."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.to_linalg.tcp.linalg_lowering import lowers


@lowers(tcp.InterleaveOp)
def lower_interleave(build: LinalgBuilder, op: tcp.InterleaveOp) -> SSAValue:
    parts = [build.signless(part) for part in op.parts]
    all_phases, steps = list(op.phases()), op.steps()
    static = op.result.type.get_shape()
    sizes = build.sizes(parts[0])
    strides = [steps.get(dim, 1) for dim in range(len(sizes))]
    for dim in steps:
        # The size is the sum of those of the parts that differ in this dimension only.
        sizes[dim] = static[dim] if static[dim] >= 0 else 0
        if static[dim] < 0:
            for part, phases in zip(parts, all_phases, strict=True):
                if not any(phases[other] for other in phases if other != dim):
                    sizes[dim] = build.add(sizes[dim], build.size(part, dim))
    y = build.empty(sizes, element_type(parts[0]))
    for part, phases in zip(parts, all_phases, strict=True):
        offsets = [phases.get(dim, 0) for dim in range(len(sizes))]
        y = build.insert_slice(part, y, offsets, build.sizes(part), strides)
    return y
