"""
Reshape, permute and reshape, through more dimensions than Core ML has.

Dimensions that stay adjacent in the permutation can be joined before it. The number of
such runs of dimensions is the rank that is needed.

Core ML's limit on the rank matters here, before any op is Core ML's, because views and
permutations are borrowed from coremltools: no pass between tcp and mil rewrites them.
Native code has no such limit, and computes the sizes of the joined dimensions as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from padc.ir import mil
from padc.ir.tcp import tensor_type
from padc.ir.torch import AtenOp, ListConstructOp, NoneType, ToBuiltinTensorOp
from padc.passes.aten.aten_call import known
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.torch_to_tcp.tcp_call import TcpCall, lowers

VIEWS = {"aten.view": "size", "aten._unsafe_view": "size", "aten.reshape": "shape"}
"""The argument of each op that holds the sizes."""


@lowers(*VIEWS)
def lower_view(call: TcpCall) -> SSAValue | None:
    """
    `view(permute(view(x, sizes), dims), shape)`, with adjacent dimensions joined.

    `index(x, [.., rows, columns])` may take the place of the first view: PyTorch
    decomposes `unfold` so. Static views stay: coremltools joins their dimensions.
    """
    if (permuted := producer(call, "self")) is None:
        return None
    if permuted.op.schema.name in ("aten.clone", "aten.contiguous"):
        permuted = producer(permuted, "self")
    if permuted is None or permuted.op.schema.name != "aten.permute":
        return None
    given = permuted.integers("dims", 1)
    dims = [dim % len(given) for dim in given]
    runs = runs_of(dims)
    if len(dims) <= mil.MAX_RANK or len(runs) > mil.MAX_RANK:
        return None
    source = producer(permuted, "self")
    build = AtenBuilder(call.op)
    split = None if source is None else before_split(build, source)
    if split is None:
        return None
    x, sizes = split
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    joined = [reduce(build.multiply, [sizes[dim] for dim in runs[i]]) for i in order]
    x = build.permute(
        build.reshape(x, joined), [order.index(i) for i in range(len(runs))]
    )
    shape = call.elements(VIEWS[call.op.schema.name])
    return build.call("reshape", call.result_type(), self=x, shape=shape)


def producer(call: TcpCall, name: str) -> TcpCall | None:
    """The ATen op whose result is an argument."""
    owner = call.op.arg(name).owner
    return replace(call, op=owner) if isinstance(owner, AtenOp) else None


def runs_of(dims: Sequence[int]) -> list[list[int]]:
    """`dims` in runs of consecutive numbers."""
    runs: list[list[int]] = []
    for dim in dims:
        if runs and dim == runs[-1][-1] + 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs


def before_split(
    build: AtenBuilder, source: TcpCall
) -> tuple[SSAValue, Sequence[Integer]] | None:
    """A tensor with the elements of the first op's result, and that result's sizes."""
    if source.op.schema.name in VIEWS:
        shape = source.result_type().get_shape()
        given = source.elements(VIEWS[source.op.schema.name])
        sizes = [
            known(element) if size == DYNAMIC_INDEX else size
            for size, element in zip(shape, given, strict=True)
        ]
        is_static = DYNAMIC_INDEX not in shape
        return None if is_static or -1 in sizes else (source.tensor("self"), sizes)
    if source.op.schema.name == "aten.index.Tensor":
        return indexed(build, source)
    return None


def indexed(
    build: AtenBuilder, source: TcpCall
) -> tuple[SSAValue, Sequence[Integer]] | None:
    """`x[.., rows, columns]` for indices of `[a, b, 1, 1]` and `[c, d]`."""
    owner = source.op.arg("indices").owner
    if not isinstance(owner, ListConstructOp) or len(owner.elements) < 2:
        return None
    *leading, rows, columns = owner.elements
    if not all(isinstance(index.type, NoneType) for index in leading):
        return None
    x = source.tensor("self")
    places = [source.insert(ToBuiltinTensorOp(index)) for index in (rows, columns)]
    shapes = [tensor_type(value).get_shape() for value in (x, *places)]
    ranks = [len(shape) for shape in shapes]
    if ranks != [len(leading) + 2, 4, 2] or shapes[1][2:] != (1, 1):
        return None
    sizes = build.sizes(x)[:-2]
    for dim, index in enumerate(places, len(leading)):
        sizes += build.sizes(index)[:2]
        index = build.flatten(index, 0, len(tensor_type(index).get_shape()) - 1)
        shape = list(tensor_type(x).get_shape())
        (shape[dim],) = tensor_type(index).get_shape()
        result = TensorType(tensor_type(x).element_type, shape)
        # Indices may be negative, which `index_select` does not take.
        indices = [*[None] * dim, index]
        x = build.call("index.Tensor", result, self=x, indices=indices)
    return x, sizes
