"""Ops that are the same on both parts, and products of complex tensors."""

from __future__ import annotations

import itertools

from xdsl.ir import SSAValue

from padc.ir.torch import VTensorType
from padc.passes.complex.complex_call import ComplexCall, Made, is_complex, row
from padc.passes.complex.numbers import Complex, RealTensor, total
from padc.passes.complex.transforms import each

MOVES = (
    *("alias", "alias_copy", "clone", "contiguous", "detach", "detach_copy"),
    *("lift", "lift_fresh", "lift_fresh_copy", "view", "view_copy", "reshape"),
    *("_unsafe_view", "_reshape_copy", "view_as", "flatten.using_ints"),
    *(
        "unflatten.int",
        "permute",
        "permute_copy",
        "transpose.int",
        "transpose_copy.int",
    ),
    *("t", "t_copy", "adjoint", "movedim.int", "movedim.intlist", "swapaxes", "mT"),
    *("unsqueeze", "unsqueeze_copy", "squeeze", "squeeze.dim", "squeeze.dims"),
    *("squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims", "expand"),
    *("expand_copy", "expand_as", "broadcast_to", "repeat", "tile", "flip", "fliplr"),
    *("flipud", "roll", "rot90", "slice.Tensor", "slice_copy.Tensor", "select.int"),
    *("select_copy.int", "narrow", "narrow_copy", "index_select", "gather"),
    *("index.Tensor", "_unsafe_index.Tensor", "diagonal", "diagonal_copy", "diag"),
    *("diag_embed", "tril", "triu", "unfold", "unfold_copy", "as_strided", "ravel"),
    *("take", "numpy_T", "atleast_1d", "atleast_2d", "atleast_3d"),
)
"""Ops that move the elements of one tensor."""

JOINS = (
    *("cat", "concat", "stack", "hstack", "vstack", "slice_scatter"),
    *("select_scatter", "where.self", "where.ScalarOther", "where.ScalarSelf"),
    *("index_put", "scatter.src", "masked_fill.Scalar", "masked_fill.Tensor"),
    *("where.Scalar", "scatter.value", "index_fill.int_Scalar", "index_copy"),
    *("index_fill.int_Tensor", "fill.Tensor"),
    *("constant_pad_nd", "pad", "diagonal_scatter", "masked_scatter"),
)
"""Ops that move the elements of several tensors."""

SUMS = (
    *("sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "trace"),
    *("scatter_add", "index_add"),
)
"""Linear ops."""

LISTS = (
    *("split.Tensor", "split_copy.Tensor", "split_with_sizes"),
    *("split_with_sizes_copy", "split.sizes", "chunk", "unbind.int"),
    *("unbind_copy.int", "tensor_split.sections", "tensor_split.indices"),
)
"""Ops whose result is a list."""

POSITIONS = ("condition", "index", "indices", "mask")
"""The names of tensor arguments whose elements are not among those of the result."""


@row(*(f"aten.{name}" for name in (*MOVES, *JOINS, *SUMS)))
def split_by_parts(call: ComplexCall) -> Made:
    """`f(a + bi) -> f(a) + f(b) i`."""
    real = call.clone(lambda name, x: call.as_complex(x).real)
    if not is_complex(call.op.results[0].type):
        return real  # A sum with a real dtype converts its operand first.
    if all(z.imag is None for z in complex_operands(call)):
        return Complex(real)
    return Complex(
        real, call.clone(lambda name, x: imaginary(call, name, x), is_imag=True)
    )


@row("aten.size.int", "aten.numel")
def split_size(call: ComplexCall) -> None:
    """The size of the real part."""
    size = call.clone_list(lambda name, x: call.as_complex(x).real)
    call.op.results[0].replace_all_uses_with(size)


@row(*(f"aten.{name}" for name in LISTS))
def split_lists(call: ComplexCall) -> None:
    real = call.clone_list(lambda name, x: call.as_complex(x).real)
    imag = None
    if any(z.imag is not None for z in complex_operands(call)):
        imag = call.clone_list(lambda name, x: imaginary(call, name, x))
    call.split.lists[call.op.results[0]] = real, imag


def imaginary(call: ComplexCall, name: str, x: SSAValue) -> RealTensor:
    """The imaginary part of an argument; an argument of positions is unchanged."""
    if not is_complex(x.type) and name in POSITIONS:
        return call.as_real(x)
    return call.as_complex(x).imaginary


def complex_operands(call: ComplexCall) -> list[Complex]:
    """The operands that are complex tensors, also those in lists."""
    names = [argument.name for argument in call.op.schema.arguments]
    values = [x for name in names for x in call.values(name)]
    return [call.split.parts[x] for x in values if is_complex(x.type)]


PRODUCTS = {
    **dict.fromkeys(("bmm", "mm", "matmul", "mv"), ("self", "mat2", "other", "vec")),
    "dot": ("self", "tensor"),
    "einsum": ("tensors",),
    **dict.fromkeys(
        (
            *("linear", "conv1d", "conv2d", "conv3d", "convolution", "conv1d.padding"),
            *("conv2d.padding", "conv3d.padding", "conv_transpose1d"),
            *("conv_transpose2d.input", "conv_transpose3d.input"),
        ),
        ("input", "weight"),
    ),
}
"""Ops that are linear in each of these arguments."""


@row(*(f"aten.{name}" for name in PRODUCTS))
def split_product(call: ComplexCall) -> Complex:
    """All products of a part of each operand, times 1, i, -1 or -i."""
    positions = call.op.schema.positions
    name = call.name.removeprefix("aten.")
    names = [each for each in PRODUCTS[name] if each in positions]
    factors = [x for each in names for x in call.values(each)]
    parts = [
        [(x, power) for power, x in enumerate((z.real, z.imag)) if x is not None]
        for z in map(call.as_complex, factors)
    ]
    real: RealTensor | None = None
    imag: RealTensor | None = None
    for choice in itertools.product(*parts):
        chosen = iter(choice)
        made = call.clone(lambda name, x: None if name == "bias" else next(chosen)[0])
        power = sum(power for _, power in choice) % 4
        if power in (0, 2):
            real = added(real, made, power == 2)
        else:
            imag = added(imag, made, power == 3)
    assert real is not None
    product = Complex(real, imag)
    return product + bias(call) if call.has("bias") else product


def bias(call: ComplexCall) -> Complex:
    """The bias of a product; that of a convolution is for each channel."""
    z = call.complex("bias")
    if call.name == "aten.linear":
        return z
    weight = call.op.arg("weight").type
    assert isinstance(weight, VTensorType)
    shape = [*z.real.shape, *([1] * (len(weight.get_shape()) - 2))]
    return each(z, lambda x: x.call("reshape", shape, self=x, shape=shape))


def added(sum: RealTensor | None, term: RealTensor, is_negative: bool) -> RealTensor:
    if not is_negative:
        made = total(sum, term)
        assert made is not None
        return made
    return -term if sum is None else sum - term
