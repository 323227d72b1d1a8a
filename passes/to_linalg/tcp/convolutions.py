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
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.common.tensor_shapes import collapse, expand
from padc.passes.to_linalg.build.scalars import rounded, widened
from padc.passes.to_linalg.tcp.linalg_lowering import lowers


@lowers(tcp.ConvOp)
def lower_conv(build: LinalgBuilder, op: tcp.ConvOp) -> SSAValue:
    x, kernel = build.signless(op.input), build.signless(op.kernel)
    dims, groups = op.dims, op.groups.value.data
    type = element_type(x)
    total = wide(type)
    if total != type:
        # The kernels of convolutions are those of floats that they add in.
        x, kernel = (in_type(build, each, total) for each in (x, kernel))
    sizes = result_sizes(build, op, x, kernel)
    bias = None if op.bias is None else build.signless(op.bias)
    strides, dilations = op.strides.get_values(), op.dilations.get_values()
    if groups == 1 and dims == ConvDimsAttr.channels_first(2):
        start = started(build, sizes, dims.result.index("f"), bias, total)
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
        y = Grouped(build, dims, groups, sizes, kernel).sums(
            x, bias, total, strides, dilations
        )
    return in_type(build, y, type)


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
    feature: int,
    bias: SSAValue | None,
    total: Attribute,
) -> SSAValue:
    """
    The initial value of the sums: the bias, or zeros.

    Dimension i of the bias is dimension `feature + i` of the sums.
    """
    if bias is None:
        return build.filled(sizes, build.constant(0, total))
    rank = tcp.tensor_type(bias).get_num_dims()
    features = [AffineExpr.dimension(feature + i) for i in range(rank)]
    return build.compute(
        sizes,
        total,
        lambda inner, args: widened(inner, args[0], total),
        [(bias, features)],
    )


class Grouped:
    """
    A convolution of any rank and order of dimensions: one loop for each role.

    Features of the input and the result are split by groups. In a depthwise
    convolution, which has one of them in each group, the group is the feature.
    """

    def __init__(
        self,
        build: LinalgBuilder,
        dims: ConvDimsAttr,
        groups: int,
        sizes: Sequence[Amount],
        kernel: SSAValue,
    ):
        """`sizes` are those of the result."""
        self.build = build
        self.dims = dims
        self.groups = groups
        self.sizes = sizes
        self.kernel = kernel
        shape = tcp.tensor_type(kernel).get_shape()
        outputs, inputs = (shape[dims.kernel.index(role)] for role in ("o", "i"))
        self.in_group = [
            role
            for role, is_alone in (("o", outputs == groups), ("i", inputs == 1))
            if groups == 1 or not is_alone
        ]
        """The loops through the features of a group."""

    def sums(
        self,
        x: SSAValue,
        bias: SSAValue | None,
        total: Attribute,
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> SSAValue:
        build, dims = self.build, self.dims
        spatial = range(dims.spatial_rank)
        # Input features, then taps, then positions: the innermost loop is along a row
        # of all three tensors, where it can be many elements at a time.
        batch = ["b"] if "b" in dims.input else []
        group = [] if self.groups == 1 else ["g"]
        taps = [f"tap {number}" for number in spatial]
        order: list[Role] = [*batch, *group, *self.in_group, *taps, *spatial]
        at = {role: AffineExpr.dimension(i) for i, role in enumerate(order)}

        def features(own: str) -> list[AffineExpr]:
            return [at[role] for role in (*group, own) if role in at]

        def map(what: str, feature: Role, own: str) -> list[AffineExpr]:
            roles: tuple[Role, ...] = getattr(dims, what)
            exprs: list[AffineExpr] = []
            for role in roles:
                if role == feature:
                    exprs += features(own)
                elif isinstance(role, int) and what == "input":
                    tap = at[f"tap {role}"]
                    exprs.append(at[role] * strides[role] + tap * dilations[role])
                elif isinstance(role, int) and what == "kernel":
                    exprs.append(at[f"tap {role}"])
                elif role in at:
                    exprs.append(at[role])
            return exprs

        feature = dims.result.index("f")
        sizes = list(self.sizes)
        sizes[feature : feature + 1] = self.split_sizes(sizes[feature], "o")
        bias = None if bias is None else self.split(bias, 0, "o")
        start = started(build, sizes, feature, bias, total)
        (y,) = build.generic(
            [
                (self.split(x, dims.input.index("f"), "i"), map("input", "f", "i")),
                (self.split_kernel(), map("kernel", "o", "o")),
            ],
            [(start, map("result", "f", "o"))],
            [role == "i" or role in taps for role in order],
            lambda inner, args: [multiply_add(inner, args[0], args[1], args[2])],
        )
        is_split = len(sizes) != len(self.sizes)
        return collapse(build, y, feature, 2) if is_split else y

    def split_sizes(self, size: Amount, own: str) -> list[Amount]:
        """A number of features as groups, and features in each."""
        if self.groups == 1 or own not in self.in_group:
            return [size]
        return [self.groups, (self.build.wrap(size) // self.groups).value]

    def split(self, x: SSAValue, dim: int, own: str) -> SSAValue:
        sizes = self.split_sizes(self.build.size(x, dim), own)
        return x if len(sizes) == 1 else expand(self.build, x, dim, sizes)

    def split_kernel(self) -> SSAValue:
        """The kernel, without its dimension of input features if there is no loop."""
        output, input = (self.dims.kernel.index(role) for role in ("o", "i"))
        kernel = self.split(self.kernel, output, "o")
        if "i" in self.in_group:
            return kernel
        is_split = self.groups != 1 and "o" in self.in_group
        input += is_split and input > output
        return collapse(self.build, kernel, max(input - 1, 0), 2)


def multiply_add(
    build: LinalgBuilder, a: SSAValue, b: SSAValue, sum: SSAValue
) -> SSAValue:
    """`a * b + sum`, in the type of the sum."""
    total = sum.type
    a, b = widened(build, a, total), widened(build, b, total)
    if isinstance(total, AnyFloat):
        return build.insert(arith.AddfOp(build.insert(arith.MulfOp(a, b)), sum))
    return build.insert(arith.AddiOp(build.insert(arith.MuliOp(a, b)), sum))


def in_type(build: LinalgBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """A tensor with elements of `type`."""
    old = element_type(x)
    if old == type:
        return x
    convert = widened if type == wide(old) else rounded
    dims = [AffineExpr.dimension(i) for i in range(tcp.tensor_type(x).get_num_dims())]
    return build.compute(
        build.sizes(x),
        type,
        lambda inner, args: convert(inner, args[0], type),
        [(x, dims)],
    )
