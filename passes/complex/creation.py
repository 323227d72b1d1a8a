"""Complex tensors made of numbers, and conversions from and to complex tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.passes.complex.complex_call import ComplexCall, Made, is_complex, row
from padc.passes.complex.numbers import Complex

FILLED = (
    *("zeros", "ones", "full", "empty.memory_format", "new_zeros", "new_ones"),
    *("new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like"),
    *("scalar_tensor", "fill.Scalar", "zero"),
)


@row(*(f"aten.{name}" for name in FILLED))
def split_filled(call: ComplexCall) -> Complex:
    """A tensor that is filled with a real number."""
    return Complex(call.clone(lambda name, x: call.as_complex(x).real))


CASTS = (
    *("_to_copy", "to.dtype", "to.dtype_layout", "to.other", "to.device", "type_as"),
    *("_assert_tensor_metadata",),
)


@row(*(f"aten.{name}" for name in CASTS))
def split_cast(call: ComplexCall) -> Made:
    """A conversion; what becomes real loses its imaginary part."""
    z = call.complex(call.op.schema.arguments[0].name)
    return z if is_complex(call.op.results[0].type) else z.real


@row("aten.copy")
def split_copy(call: ComplexCall) -> Complex:
    """The elements of `src`, in the shape of `self`."""
    z, shape = call.complex("src"), call.result_type().get_shape()
    if DYNAMIC_INDEX in shape:
        return z
    return Complex(
        z.real.spread(shape), None if z.imag is None else z.imag.spread(shape)
    )
