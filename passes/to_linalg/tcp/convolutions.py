"""Convolutions: upstream's named ops where they exist, otherwise linalg.generic."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntElementsAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import tcp
from padc.ir.element_types import wide
from padc.ir.padding import conv_output_size
from padc.ir.tcp import Amount, ConvDimsAttr
from padc.ir.tcp.convolutions import Role
from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder, element_type
from padc.passes.to_linalg.build.scalars import rounded, widened
from padc.passes.to_linalg.build.shapes import collapse, expand
from padc.passes.to_linalg.tcp.table import lowers


@lowers(tcp.ConvOp)
def lower_conv(build: LinalgBuilder, op: tcp.ConvOp) -> SSAValue:
    x, kernel = build.signless(op.input), build.signless(op.kernel)
    dims, groups = op.dims, op.groups.value.data
    type = element_type(x)
    total = wide(type)
    sizes = result_sizes(build, op, x, kernel)
    bias = None if op.bias is None else build.signless(op.bias)
    start = started(build, sizes, dims, bias, total)
    strides, dilations = op.strides.get_values(), op.dilations.get_values()
    if groups == 1 and dims == ConvDimsAttr.channels_first(2) and total == type:
        y = build.insert(
            linalg.Conv2DNchwFchwOp(
                [x, kernel],
                [start],
                [start.type],
                strides=vector(strides),
                dilations=vector(dilations),
            )
        )
    else:
        y = grouped(build, x, kernel, start, dims, groups, strides, dilations)
    return narrowed(build, y, type)


def vector(values: Sequence[int]) -> DenseIntElementsAttr:
    return DenseIntElementsAttr.from_list(TensorType(i64, [len(values)]), values)


def result_sizes(
    build: LinalgBuilder, op: tcp.ConvOp, x: SSAValue, kernel: SSAValue
) -> list[Amount]:
    """The size of each of the result's dimensions."""
    dims = op.dims
    sizes: list[Amount] = []
    for role, static in zip(
        dims.result, tcp.tensor_type(op.result).get_shape(), strict=True
    ):
        if static >= 0:
            sizes.append(static)
        elif role == "b":
            sizes.append(build.size(x, dims.input.index("b")))
        elif role == "f":
            sizes.append(build.size(kernel, dims.kernel.index("o")))
        else:
            assert isinstance(role, int)
            size = build.wrap(build.size(x, dims.input.index(role)))
            taps = build.wrap(build.size(kernel, dims.kernel.index(role)))
            step = op.strides.get_values()[role], op.dilations.get_values()[role]
            sizes.append(conv_output_size(size, taps, *step).value)
    return sizes


def started(
    build: LinalgBuilder,
    sizes: Sequence[Amount],
    dims: ConvDimsAttr,
    bias: SSAValue | None,
    total: Attribute,
) -> SSAValue:
    """The initial value of the sums: the bias, or zeros."""
    if bias is None:
        return build.filled(sizes, build.constant(0, total))
    feature = AffineExpr.dimension(dims.result.index("f"))
    return build.compute(
        sizes,
        total,
        lambda inner, args: widened(inner, args[0], total),
        [(bias, [feature])],
    )


def grouped(
    build: LinalgBuilder,
    x: SSAValue,
    kernel: SSAValue,
    start: SSAValue,
    dims: ConvDimsAttr,
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
) -> SSAValue:
    """A convolution of any rank and order of dimensions: one loop for each role."""

    def split(y: SSAValue, roles: tuple[Role, ...], role: Role) -> SSAValue:
        dim = roles.index(role)
        if groups == 1:
            return y
        in_group = build.wrap(build.size(y, dim)) // groups
        return expand(build, y, dim, [groups, in_group.value])

    spatial = range(dims.spatial_rank)
    # Input features, then taps, then positions: the innermost loop is along a row of
    # all three tensors, where it can be many elements at a time.
    batch = ["b"] if "b" in dims.input else []
    taps = [f"tap {number}" for number in spatial]
    order: list[Role] = [*batch, "g", "o", "i", *taps, *spatial]
    if groups == 1:
        order.remove("g")
    at = {role: AffineExpr.dimension(i) for i, role in enumerate(order)}
    group = [] if groups == 1 else [at["g"]]

    def map(what: str, feature: Role, own: Role) -> list[AffineExpr]:
        roles: tuple[Role, ...] = getattr(dims, what)
        exprs: list[AffineExpr] = []
        for role in roles:
            if role == feature:
                exprs += [*group, at[own]]
            elif isinstance(role, int) and what == "input":
                tap = at[f"tap {role}"]
                exprs.append(at[role] * strides[role] + tap * dilations[role])
            elif isinstance(role, int) and what == "kernel":
                exprs.append(at[f"tap {role}"])
            else:
                exprs.append(at[role])
        return exprs

    (y,) = build.generic(
        [
            (split(x, dims.input, "f"), map("input", "f", "i")),
            (split(kernel, dims.kernel, "o"), map("kernel", "o", "o")),
        ],
        [(split(start, dims.result, "f"), map("result", "f", "o"))],
        [role == "i" or role in taps for role in order],
        lambda inner, args: [multiply_add(inner, args[0], args[1], args[2])],
    )
    return y if groups == 1 else collapse(build, y, dims.result.index("f"), 2)


def multiply_add(
    build: LinalgBuilder, a: SSAValue, b: SSAValue, sum: SSAValue
) -> SSAValue:
    """`a * b + sum`, in the type of the sum."""
    total = sum.type
    a, b = widened(build, a, total), widened(build, b, total)
    if isinstance(total, AnyFloat):
        return build.insert(arith.AddfOp(build.insert(arith.MulfOp(a, b)), sum))
    return build.insert(arith.AddiOp(build.insert(arith.MuliOp(a, b)), sum))


def narrowed(build: LinalgBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """A tensor of sums as one of `type`."""
    if element_type(x) == type:
        return x
    dims = [AffineExpr.dimension(i) for i in range(tcp.tensor_type(x).get_num_dims())]
    return build.compute(
        build.sizes(x),
        type,
        lambda inner, args: rounded(inner, args[0], type),
        [(x, dims)],
    )
