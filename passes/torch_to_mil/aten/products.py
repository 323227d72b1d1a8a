"""Products of matrices, vectors and tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.passes.aten.einsum import parse_equation
from padc.passes.torch_to_mil.aten.contraction import contract, dot, matmul, total
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    expand_dims,
    product,
    reshape,
    sizes_of,
    slice_dim,
    transpose,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, is_constant


def factors(call: MilCall) -> tuple[Tensor, Tensor]:
    """The first two arguments."""
    a, b, *_ = (argument.name for argument in call.op.schema.arguments)
    return call.tensor(a), call.tensor(b)


@lowers("aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.linalg_matmul")
def lower_matmul(call: MilCall) -> Tensor:
    return matmul(*factors(call))


@lowers("aten.dot", "aten.vdot")
def lower_dot(call: MilCall) -> Tensor:
    return dot(*factors(call))


@lowers("aten.linalg_vecdot")
def lower_vecdot(call: MilCall) -> Tensor:
    a, b = factors(call)
    rank = max(a.rank, b.rank)
    a, b = (expand_dims(x, range(rank - x.rank)) for x in (a, b))
    return dot(a, b, call.dim("dim", rank))


@lowers("aten.inner")
def lower_inner(call: MilCall) -> Tensor:
    """The product of the last dimensions; of a number, its multiple."""
    a, b = factors(call)
    if not a.rank or not b.rank:
        return a * b
    sum, rows, columns = "k", range(a.rank - 1), range(a.rank, a.rank + b.rank - 1)
    kept = [*map(str, rows), *map(str, columns)]
    letters = kept[: a.rank - 1], kept[a.rank - 1 :]
    return contract(a, [*letters[0], sum], b, [*letters[1], sum], kept)


@lowers("aten.tensordot")
def lower_tensordot(call: MilCall) -> Tensor:
    a, b = factors(call)
    summed = (
        call.dims("dims_self", a.rank, empty=True),
        call.dims("dims_other", b.rank, empty=True),
    )
    letters = [f"a{i}" for i in range(a.rank)], [f"b{i}" for i in range(b.rank)]
    kept = [
        name
        for names, dims in zip(letters, summed, strict=True)
        for dim, name in enumerate(names)
        if dim not in dims
    ]
    for i, j in zip(*summed, strict=True):
        letters[1][j] = letters[0][i]
    return contract(a, letters[0], b, letters[1], kept)


@lowers("aten.linear")
def lower_linear(call: MilCall) -> Tensor:
    """Core ML's linear, if it knows the weight."""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    if weight.rank == 1:
        y = matmul(x, weight)
        return y if bias is None else y + bias
    return linear(x, weight, bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`x @ weight.T + bias`, for a weight of rank 2."""
    if is_constant(weight):
        fits = bias is not None and bias.rank == 1 and is_constant(bias)
        fits = fits and bias is not None and bias.shape == weight.shape[:1]
        shape = [*x.shape[:-1], weight.shape[0]]
        y = x.emit("linear", shape, x=x, weight=weight, bias=bias if fits else None)
        y = y.wrapped(y)
        return y if bias is None or fits else y + bias
    if bias is None:
        return matmul(x, weight, transpose_y=True)
    # PyTorch computes this in one op, or rounds the product before it adds the bias.
    type = wide(x.type) if x.rank in (2, 3) else x.type
    y = matmul(x.to(type), weight.to(type), transpose_y=True)
    return y + bias.to(type)


@lowers("aten.addmm", "aten.baddbmm", "aten.addmv", "aten.addbmm")
def lower_addmm(call: MilCall) -> Tensor:
    """
    `beta * self + alpha * (a @ b)`; `self` is not read if `beta` is 0.

    addbmm sums the products of a batch. Where `alpha` makes the product smaller, both
    factors are multiplied with a part of it: the product alone may be more than float16
    has, and one factor times `alpha` too small for it.
    """
    _, first, second, *_ = (argument.name for argument in call.op.schema.arguments)
    x, a, b = call.tensor("self"), call.tensor(first), call.tensor(second)
    alpha, beta = call.number("alpha"), call.number("beta")
    is_plain = alpha == beta == 1 and call.name == "aten.addmm"
    if is_plain and x.rank == 1 and is_constant(b):
        return linear(a, transpose(b, [1, 0]), x)
    type = wide(call.result_element_type())
    a, b = a.to(type), b.to(type)
    if a.is_float and 0 < abs(alpha) < 1:
        part = 2.0 ** round(math.log2(abs(alpha)) / 2)  # The product with it is exact.
        a, b, alpha = a * part, b * (alpha / part), 1
    y = matmul(a, b)
    if call.name == "aten.addbmm":
        y = total(y, [0])
    return scaled_sum(x.to(type), y, alpha, beta)


@lowers("aten.addr")
def lower_addr(call: MilCall) -> Tensor:
    """`beta * self + alpha * vec1 * vec2`, rounded at each step as in PyTorch."""
    type = call.result_element_type()
    x, a, b = (call.tensor(name).to(type) for name in ("self", "vec1", "vec2"))
    alpha, beta = call.number("alpha"), call.number("beta")
    a = a if alpha == 1 else a * alpha
    return scaled_sum(x, expand_dims(a, [1]) * b, 1, beta)


def scaled_sum(x: Tensor, y: Tensor, alpha: float, beta: float) -> Tensor:
    """`beta * x + alpha * y`; `x` is not read if `beta` is 0."""
    y = y if alpha == 1 else y * alpha
    if beta == 0:
        return y
    return y + (x if beta == 1 else x * beta)


@lowers("aten.outer", "aten.ger")
def lower_outer(call: MilCall) -> Tensor:
    type = call.result_element_type()
    a, b = (x.to(type) for x in factors(call))
    return expand_dims(a, [1]) * b


@lowers("aten.chain_matmul", "aten.linalg_multi_dot")
def lower_multi_dot(call: MilCall) -> Tensor:
    """In the order with the fewest multiplications, as PyTorch does."""
    tensors = call.tensors(call.op.schema.arguments[0].name)
    sizes = [1 if tensors[0].rank == 1 else tensors[0].shape[0]]
    sizes += [x.shape[0] for x in tensors[1:]]
    sizes += [1 if tensors[-1].rank == 1 else tensors[-1].shape[-1]]
    if DYNAMIC_INDEX in sizes:
        return functools.reduce(matmul, tensors)

    @functools.cache
    def best(first: int, last: int) -> tuple[int, int]:
        """The fewest multiplications, and the factor after which the last one is."""
        if first == last:
            return 0, first
        costs = [
            (
                best(first, i)[0]
                + best(i + 1, last)[0]
                + sizes[first] * sizes[i + 1] * sizes[last + 1],
                # Of equal orders PyTorch takes the last for three factors.
                -i if len(tensors) == 3 else i,
            )
            for i in range(first, last)
        ]
        cost, i = min(costs)
        return cost, abs(i)

    def multiplied(first: int, last: int) -> Tensor:
        if first == last:
            return tensors[first]
        i = best(first, last)[1]
        return matmul(multiplied(first, i), multiplied(i + 1, last))

    return multiplied(0, len(tensors) - 1)


@lowers("aten.bilinear")
def lower_bilinear(call: MilCall) -> Tensor:
    """`y[o] = sum of x1[i] * weight[o, i, j] * x2[j] + bias[o]`."""
    x1, x2, weight = (call.tensor(name) for name in ("input1", "input2", "weight"))
    sizes = sizes_of(x1)[:-1]
    count = product(sizes)
    x1, x2 = (reshape(x, [count, x.shape[-1]]) for x in (x1, x2))
    left = contract(x1, ["n", "i"], weight, ["o", "i", "j"], ["n", "o", "j"])
    y = contract(left, ["n", "o", "j"], x2, ["n", "j"], ["n", "o"])
    if (bias := call.optional("bias")) is not None:
        y = y + bias
    return reshape(y, [*sizes, weight.shape[0]])


@lowers("aten.kron")
def lower_kron(call: MilCall) -> Tensor:
    """
    Each element of `a` times the whole of `b`.

    Dimension by dimension, since all at once would have twice the rank.
    """
    type = call.result_element_type()
    a, b = (x.to(type) for x in factors(call))
    rank = max(a.rank, b.rank)
    a, b = (expand_dims(x, range(rank - x.rank)) for x in (a, b))
    if rank == 0:
        return a * b
    if DYNAMIC_INDEX in (*a.shape, *b.shape):
        raise Obstacle("kron of a dynamic size", "give its operands static sizes")
    if rank == 2:
        rows, columns = (x * y for x, y in zip(a.shape, b.shape, strict=True))
        product = expand_dims(a, [1, 3]) * expand_dims(b, [0, 2])
        return reshape(product, [rows, columns])
    return repeated(a, b.shape, each=True) * repeated(b, a.shape, each=False)


def repeated(x: Tensor, counts: Sequence[int], *, each: bool) -> Tensor:
    """`x` repeated along each dimension: each element, or the whole."""
    for dim, count in enumerate(counts if each else ()):
        if count != 1:
            wide = expand_dims(x, [dim + 1])
            shape = [*x.shape[: dim + 1], count, *x.shape[dim + 1 :]]
            reps = [count if d == dim + 1 else 1 for d in range(x.rank + 1)]
            x = wide.emit("tile", shape, x=wide, reps=reps)
            shape[dim : dim + 2] = [shape[dim] * count]
            x = reshape(x, shape)
    if each or all(count == 1 for count in counts):
        return x
    shape = [size * count for size, count in zip(x.shape, counts, strict=True)]
    return x.emit("tile", shape, x=x, reps=list(counts))


@lowers("aten.einsum")
def lower_einsum(call: MilCall) -> Tensor:
    """Multiply two operands at a time, from the left, as PyTorch does."""
    inputs, equation = call.tensors("tensors"), str(call.constant("equation"))
    letters, kept = parse_equation(equation, [x.rank for x in inputs])
    first, *others = zip(inputs, letters, strict=True)
    x, names = first
    for i, (other, other_names) in enumerate(others):
        rest = {name for _, each in others[i + 1 :] for name in each}
        both = dict.fromkeys([*names, *other_names])
        here = [name for name in both if name in rest or name in kept]
        is_last = i == len(others) - 1
        result = kept if is_last else here
        x, names = contract(x, names, other, other_names, result), result
    return contract(x, names, None, [], kept)


@lowers("aten.trace")
def lower_trace(call: MilCall) -> Tensor:
    x = call.tensor("self").to(wide(call.result_element_type()))
    if DYNAMIC_INDEX not in x.shape:
        least = min(x.shape)
        x = slice_dim(slice_dim(x, 0, 0, least), 1, 0, least)
    return contract(x, ["i", "i"], None, [], [])
