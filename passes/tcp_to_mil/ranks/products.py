"""Products of matrices, and other ops on the last dimensions of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from padc.errors import Obstacle
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
    call: RankCall, given: Mapping[str, Carrier], most: int = mil.MAX_RANK - 2
) -> tuple[list[Integer], dict[str, Argument], Groups]:
    """
    Operands with up to `most` merged batch dimensions: all but the last two of each.

    Returns the sizes that they broadcast to, the operands, and the groups.
    """
    rank = max(x.rank for x in given.values())
    operands = {name: x.aligned(rank) for name, x in given.items()}
    sizes = broadcast([x.sizes[: rank - 2] for x in operands.values()])
    carriers = list(operands.values())
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


@rewrites("aten.cdist")
def rewrite_distances(call: RankCall) -> SSAValue:
    """Distances of the rows of batches."""
    given = {name: call.carrier(name) for name in ("x1", "x2")}
    sizes, values, groups = batched(call, given, mil.MAX_RANK - 3)
    shape = [product_in_type([sizes[dim] for dim in group]) for group in groups]
    rows = [x.sizes[-2] for x in given.values()]
    (y,) = call.again([*shape, *(product_in_type([size]) for size in rows)], **values)
    return call.view(y, [*sizes, *rows])


OF_MATRICES = (
    *("_linalg_det", "_linalg_slogdet", "cholesky", "det", "inverse"),
    *("linalg_cholesky", "linalg_cholesky_ex", "linalg_det", "linalg_inv"),
    *("linalg_inv_ex", "linalg_slogdet", "slogdet"),
)
"""Ops on each matrix of the last two dimensions."""


@rewrites(*(f"aten.{name}" for name in OF_MATRICES))
def rewrite_matrices(call: RankCall) -> list[SSAValue]:
    """The op on a batch of one dimension."""
    name = call.op.schema.arguments[0].name
    x = call.carrier(name)
    batch, matrix = tuple(range(x.rank - 2)), x.sizes[-2:]
    ranks = [len(call.result_type(i).get_shape()) for i in range(len(call.op.results))]
    first = product_in_type(x.sizes[:-2])
    made = call.again(
        *(
            [first, *map(product_in_type, ([n] for n in matrix[: r - len(batch)]))]
            for r in ranks
        ),
        **{name: call.build.merged(x, (batch, (x.rank - 2,), (x.rank - 1,)))},
    )
    return [
        call.view(y, x.sizes[:rank], None, index)
        for index, (y, rank) in enumerate(zip(made, ranks, strict=True))
    ]


@rewrites("aten.diag_embed")
def rewrite_diagonals(call: RankCall) -> SSAValue:
    """Matrices with the vectors along the last dimension as diagonals, as a batch."""
    x = call.carrier("self")
    rank = x.rank + 1
    if [call.integer(name) % rank for name in ("dim1", "dim2")] != [rank - 2, rank - 1]:
        raise Obstacle(
            f"Core ML's tensors have rank {mil.MAX_RANK} at most, and this adds other "
            "dimensions than the last",
            "make the matrices the last dimensions, and permute after it",
        )
    groups = tuple(range(rank - 2)), (rank - 2,)
    value, size = call.build.merged(x, groups), call.result_shape[-1]
    (y,) = call.again([shape_of(value)[0], size, size], self=value, dim1=1, dim2=2)
    sizes = call.build.size(y, 1), call.build.size(y, 2)
    return call.view(y, [*x.sizes[:-1], *sizes])


@rewrites("aten.embedding", "aten.one_hot")
def rewrite_embedding(call: RankCall) -> SSAValue:
    """The op on a vector of indices."""
    name = "indices" if call.name == "aten.embedding" else "self"
    indices = call.carrier(name)
    vector = call.build.flat(indices)
    (y,) = call.again([*shape_of(vector), call.result_shape[-1]], **{name: vector})
    sizes = [*indices.sizes, call.build.size(y, 1)]
    return call.view(y, sizes, (tuple(range(indices.rank)), (indices.rank,)))
