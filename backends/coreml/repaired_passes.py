# pyright: basic, reportMissingTypeStubs=false
"""
Passes of coremltools 9.0 that compute something else for some programs.

`padc.convert` leaves those out that padc's programs do not need. The others are run
where they are right: `optimize` has them for padc's own programs, and
`torch_ops.repairs` puts them into coremltools' registry.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from padc.backends.coreml import quiet

with quiet():
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.input_type import DefaultInputs
    from coremltools.converters.mil.mil.ops.defs.iOS15.normalization import batch_norm
    from coremltools.converters.mil.mil.ops.defs.iOS15.tensor_operation import concat

Pass = type[Any]

LEFT_OUT = (
    "common::divide_to_multiply",  # x / c and x * (1 / c) are rounded otherwise
    "common::fuse_leaky_relu",  # max(x, 0 * x) is NaN for infinite x
    "common::fuse_linear_bias",  # a bias of more dimensions adds some to the result
    "common::fuse_matmul_weight_bias",  # takes c - x @ w for x @ w - c; as above
    "common::fuse_stack_split",  # fails where another op has a part of the stack
    "mil_backend::fuse_pow2_sqrt",  # takes x for sqrt(x^2)
)
"""The passes that are never right, or too rarely to tell."""


def is_grouped_transpose(op: Any) -> bool:
    """fuse_conv_batchnorm mixes up the channels of its weight."""
    return op.op_type == "conv_transpose" and op.groups.val > 1


def scales_integers(op: Any) -> bool:
    """fuse_elementwise_to_batchnorm makes a batch norm of integers, which fails."""
    return op.op_type == "mul" and op.outputs[0].dtype == types.int32 and known(op)


def has_factor_of_rank(op: Any) -> bool:
    """fuse_reduce_mean loses the dimensions of `sum(x) * [[1 / n]]`."""
    return op.op_type in ("mul", "real_div") and any(
        var.val is not None and np.ndim(var.val) and np.size(var.val) == 1
        for var in (op.x, op.y)
    )


def is_returned_stack(op: Any) -> bool:
    """replace_stack_reshape removes a stack of which a reshape is the only user."""
    return op.op_type == "stack" and op.outputs[0] in op.enclosing_block.outputs


def known(op: Any) -> bool:
    """Whether an operand is known that is more than one number."""
    return any(var.val is not None and np.size(var.val) > 1 for var in (op.x, op.y))


HARMFUL: Mapping[str, Callable[[Any], bool]] = {
    "common::fuse_conv_batchnorm": is_grouped_transpose,
    "common::fuse_elementwise_to_batchnorm": scales_integers,
    "common::fuse_reduce_mean": has_factor_of_rank,
    "common::replace_stack_reshape": is_returned_stack,
}
"""Which op a pass is wrong for. Programs that have such an op are left as they are."""


def exact_casts(original: Pass) -> Pass:
    """cast_optimization, which takes int32 for the floats that an int32 is cast to."""

    class Repaired(original):
        def _is_cast_ops_fusable(self, cast_1: Any, cast_2: Any) -> bool:
            fits = holds(types.string_to_builtin(cast_1.dtype.val), cast_1.x.dtype)
            return fits and super()._is_cast_ops_fusable(cast_1, cast_2)

    Repaired.__name__ = original.__name__
    Repaired.__doc__ = original.__doc__
    return Repaired


def holds(type: Any, other: Any) -> bool:
    """Whether a type has all values of another one, if that has integers."""
    if not types.is_int(other) or not types.is_float(type):
        return True
    bits = np.iinfo(types.nptype_from_builtin(other)).max.bit_length()
    return bits <= np.finfo(types.nptype_from_builtin(type)).nmant + 1


@contextlib.contextmanager
def exact_batch_norms() -> Generator[None]:
    """
    Let the epsilon of a batch norm default to 0, not to coremltools' 1e-5.

    fuse_elementwise_to_batchnorm writes one with variance 1 and without epsilon.
    """
    original = batch_norm.default_inputs
    batch_norm.default_inputs = lambda self: original(self) + DefaultInputs(epsilon=0.0)
    try:
        yield
    finally:
        batch_norm.default_inputs = original


@contextlib.contextmanager
def symbols_of_integers() -> Generator[None]:
    """
    Let coremltools put symbols for elements of integer tensors only.

    A concat has one for each unknown element, whatever the type. Symbols are integers,
    as the sizes are that they are made for: a slice of a concat of floats or booleans
    gets a value of another type than its own, and the pass fails.
    """
    original = concat.value_inference

    def value_inference(self: Any) -> Any:
        known = all(var.val is not None for var in self.values)
        is_whole = types.is_int(self.values[0].dtype)
        return original(self) if known or is_whole else None

    concat.value_inference = value_inference
    try:
        yield
    finally:
        concat.value_inference = original
