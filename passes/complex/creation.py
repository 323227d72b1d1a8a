"""Complex tensors made of numbers, and conversions from and to complex tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, i1
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.passes.complex.complex_call import ComplexCall, Made, is_complex, row
from padc.passes.complex.numbers import Complex, RealTensor

FILLED = (
    *("zeros", "ones", "full", "empty.memory_format", "new_zeros", "new_ones"),
    *("new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like"),
    *("scalar_tensor", "fill.Scalar", "zero"),
)


@row(*(f"aten.{name}" for name in FILLED))
def split_filled(call: ComplexCall) -> Made:
    """A tensor that is filled with a number, which may be complex."""

    def part(name: str, x: SSAValue) -> RealTensor:
        return call.as_complex(x).real

    real = call.clone(part)
    if not is_complex(call.op.results[0].type):
        return real
    numbers = [x for x in call.op.schema.arguments if x.type == "Scalar"]
    if not any(call.is_complex(number.name) for number in numbers):
        return Complex(real)
    return Complex(real, call.clone(part, is_imag=True))


CASTS = (
    *("_to_copy", "to.dtype", "to.dtype_layout", "to.other", "to.device", "type_as"),
    *("_assert_tensor_metadata",),
)


@row(*(f"aten.{name}" for name in CASTS))
def split_cast(call: ComplexCall) -> Made:
    """A conversion; what becomes real loses its imaginary part."""
    return converted(call, call.op.schema.arguments[0].name)


@row("aten.copy")
def split_copy(call: ComplexCall) -> Made:
    """The elements of `src`, in the shape of `self`."""
    z, shape = converted(call, "src"), call.result_type().get_shape()
    parts = [z] if isinstance(z, RealTensor) else [z.real, z.imag]
    if any(x is not None and x.shape != shape for x in parts):
        if DYNAMIC_INDEX in shape:
            raise Obstacle(
                "a copy to a complex tensor that is larger, and whose size varies",
                "expand the tensor first",
            )
        parts = [None if x is None else x.spread(shape) for x in parts]
    real, *imag = parts
    assert real is not None
    return Complex(real, *imag) if imag else real


def converted(call: ComplexCall, name: str) -> Made:
    """A tensor argument in the element type of the result."""
    if is_complex(call.op.results[0].type):
        return call.complex(name)
    z = call.as_complex(call.op.arg(name))
    if call.real_type() == i1:  # true for any number but 0
        return z.equals(Complex(z.real.zeros())).unary("logical_not")
    return z.real.cast(call.real_type())


@row("aten.view.dtype")
def split_view_as_type(call: ComplexCall) -> Made:
    """Complex numbers as pairs in the last dimension, or the other way round."""
    shape = [*call.result_type().get_shape()]
    if DYNAMIC_INDEX in shape:
        raise Obstacle(
            "a view in another type whose size varies", "call torch.view_as_real"
        )
    if not call.is_complex("self"):
        x = call.as_real(call.op.arg("self"))
        check_size(x.element_type, call.real_type())
        pairs = x.call("reshape", [*shape, 2], self=x, shape=[*shape, 2])
        dim = len(shape)
        return Complex(
            *(x.like(x.build.select(pairs.value, dim, index)) for index in range(2))
        )
    z = call.as_complex(call.op.arg("self"))
    if is_complex(call.op.results[0].type):
        check_size(z.real.element_type, call.real_type())
        return z
    check_size(z.real.element_type, call.real_type())
    stacked = z.real.call(
        "stack", [*z.real.shape, 2], tensors=[z.real, z.imaginary], dim=z.real.rank
    )
    return stacked.call("reshape", shape, self=stacked, shape=shape)


def check_size(old: Attribute, new: Attribute) -> None:
    if old != new:
        raise Obstacle("a view in a type of another size", "view parts of equal size")
