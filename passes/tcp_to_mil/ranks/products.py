"""Products of matrices, and other ops on the last dimensions of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from padc.ir import mil
from padc.passes.aten.builder import Argument, Integer
from padc.passes.tcp_to_mil.ranks.carrier import Carrier, shape_of
from padc.passes.tcp_to_mil.ranks.elementwise import broadcast, common
from padc.passes.tcp_to_mil.ranks.grouping import Groups, apart, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import RankCall, product_in_type, rewrites
from padc.passes.tcp_to_mil.ranks.repeats import expanded


@rewrites("aten.linear")
def rewrite_linear(call: RankCall) -> SSAValue:
    """The product of each vector along the last dimension."""
    x = call.carrier("input")
    groups = call.build.choose(grouped(apart(x.sizes, [x.rank - 1])), [x])
    value = call.build.merged(x, groups)
    (y,) = call.again([*shape_of(value)[:-1], call.result_shape[-1]], input=value)
    return call.view(y, [*x.sizes[:-1], call.build.size(y, len(groups) - 1)], groups)


@rewrites("aten.layer_norm", "aten.rms_norm")
def rewrite_layer_norm(call: RankCall) -> SSAValue:
    """Over the last dimensions, with the others merged."""
    x = call.carrier("input")
    count = len(call.sizes("normalized_shape"))
    last = [[dim] for dim in range(x.rank - count, x.rank)]
    groups = call.build.choose(grouped(apart(x.sizes, *last)), [x])
    value = call.build.merged(x, groups)
    (y,) = call.again(shape_of(value), input=value)
    return call.view(y, x.sizes, groups)


@rewrites("aten.matmul")
def rewrite_matmul(call: RankCall) -> SSAValue:
    """Products of batches; those dimensions are merged that broadcast alike."""
    a, b = call.carrier("self"), call.carrier("other")
    vectors = a.rank == 1, b.rank == 1
    a = Carrier(a.value, [1, *a.sizes], None) if vectors[0] else a
    b = Carrier(b.value, [*b.sizes, 1], None) if vectors[1] else b
    sizes, values, groups = batched(call, {"self": a, "other": b})
    shape = [product_in_type([sizes[dim] for dim in group]) for group in groups]
    rows, columns = a.sizes[-2], b.sizes[-1]
    (y,) = call.again([*shape, *map(product_in_type, ([rows], [columns]))], **values)
    result = [
        *sizes,
        *([] if vectors[0] else [rows]),
        *([] if vectors[1] else [columns]),
    ]
    return call.view(y, result)


@rewrites("aten.scaled_dot_product_attention")
def rewrite_attention(call: RankCall) -> SSAValue:
    """Attention of batches; those dimensions are merged that broadcast alike."""
    names = ["query", "key", "value"]
    names += ["attn_mask"] if call.has("attn_mask") else []
    given = {name: call.carrier(name) for name in names}
    sizes, values, groups = batched(call, given)
    shape = [product_in_type([sizes[dim] for dim in group]) for group in groups]
    rows, columns = given["query"].sizes[-2], given["value"].sizes[-1]
    (y,) = call.again([*shape, *map(product_in_type, ([rows], [columns]))], **values)
    return call.view(y, [*sizes, rows, columns])


def batched(
    call: RankCall, given: Mapping[str, Carrier]
) -> tuple[list[Integer], dict[str, Argument], Groups]:
    """
    Operands with merged batch dimensions: all but the last two of each.

    Returns the sizes that they broadcast to, the operands, and the groups.
    """
    rank = max(x.rank for x in given.values())
    operands = {name: x.aligned(rank) for name, x in given.items()}
    sizes = broadcast([x.sizes[: rank - 2] for x in operands.values()])
    carriers = list(operands.values())
    most = mil.MAX_RANK - 2
    for name, x in operands.items():
        groups = common(carriers, sizes)
        if len(groups) <= most:
            break
        operands[name] = expanded(call.build, x, [*sizes, *x.sizes[rank - 2 :]])
        carriers = list(operands.values())
    groups = common(carriers, sizes) or ((),)
    matrix = ((rank - 2,), (rank - 1,))
    values: dict[str, Argument] = {
        name: call.build.merged(x, (*groups, *matrix)) for name, x in operands.items()
    }
    return sizes, values, groups


@rewrites("aten.embedding")
def rewrite_embedding(call: RankCall) -> SSAValue:
    """The op on a vector of indices."""
    indices = call.carrier("indices")
    vector = call.build.merged(indices, (tuple(range(indices.rank)),))
    (y,) = call.again([*shape_of(vector), call.result_shape[-1]], indices=vector)
    sizes = [*indices.sizes, call.build.size(y, 1)]
    return call.view(y, sizes, (tuple(range(indices.rank)), (indices.rank,)))
