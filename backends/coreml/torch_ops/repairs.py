# pyright: basic, reportMissingTypeStubs=false
"""
coremltools' passes that would compute something else, kept from doing so.

`coremltools.convert` runs all of its passes on a program with padc's ops. Those that
are wrong in coremltools 9.0 are replaced in its registry of passes, which is the way
that coremltools documents (`register_pass(override=True)`): each runs on programs where
it is right. `padc.backends.coreml.optimize` has the list for padc's own programs.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import operations_of
from padc.backends.coreml.float16.float32_ops import keep_masks_finite, selector
from padc.backends.coreml.optimize import is_for_int16
from padc.backends.coreml.repaired_passes import (
    LEFT_OUT,
    Pass,
    exact_batch_norms,
    exact_casts,
    has_factor_of_rank,
    is_grouped_transpose,
    is_returned_stack,
    scales_integers,
)
from padc.errors import Problem, SourceLocation, UnsupportedError
from padc.frontends.torch_export.locations import stack_location

with quiet():
    from coremltools.converters.mil.mil import ListVar, Program, types
    from coremltools.converters.mil.mil.scope import ScopeSource

Repair = Callable[[Pass], Pass]
CONVOLUTIONS = ("conv", "conv_transpose")
MOST_DIMENSIONS = 5


def unless(is_harmful: Callable[[Any], bool]) -> Repair:
    """Skip a pass in programs that have such an op."""

    def apply(original: Any, program: Program) -> None:
        if not any(is_harmful(op) for op in operations_of(program)):
            original.apply(program)

    return around(apply)


def around(apply: Callable[[Any, Program], None]) -> Repair:
    """Replace what a pass does; `apply` takes the original pass, with its options."""

    def repair(original: Pass) -> Pass:
        class Repaired(original):
            def apply(self, prog: Program) -> None:
                apply(super(), prog)

        Repaired.__name__ = original.__name__
        Repaired.__doc__ = original.__doc__
        return Repaired

    return repair


def follows_convolution(var: Any) -> bool:
    """Whether a convolution computes `var`, perhaps with a transpose after it."""
    op = var.op
    if op is not None and op.op_type == "transpose":
        op = op.x.op
    return op is not None and op.op_type in CONVOLUTIONS


def is_constant_less_convolution(op: Any) -> bool:
    """`c - conv(x)`: fuse_conv_bias negates a bias in place, for all of its users."""
    return op.op_type == "sub" and op.x.val is not None and follows_convolution(op.y)


def is_badly_scaled(op: Any) -> bool:
    """
    A scaled convolution that fuse_conv_scale computes otherwise.

    It takes c / conv(x) for conv(x) / c, mixes up the channels of grouped transposed
    convolutions, and transposes four dimensions of weights that have five.
    """
    if op.op_type == "real_div" and op.x.val is not None:
        return follows_convolution(op.y)
    return mixes_channels(op)


def selects_infinity(op: Any) -> bool:
    """`select(c, inf, b)`: select_optimization adds, which is NaN where b is -inf."""
    return op.op_type == "select" and any(
        var.val is not None and np.isinf(np.asarray(var.val, np.float64)).any()
        for var in (op.a, op.b)
    )


def mixes_channels(op: Any) -> bool:
    """A grouped or 3-D transposed convolution: passes mix up the channels of it."""
    is_solid = op.op_type == "conv_transpose" and op.x.rank > 4
    return is_solid or is_grouped_transpose(op)


def is_border_pad(op: Any) -> bool:
    """Core ML pads by borders on two dimensions only: joined pads have more."""
    return op.op_type == "pad" and op.mode.val != "constant"


def nothing(original: Any, program: Program) -> None:
    """
    Leave a program as it is.

    use_reflection_padding looks for ops that only TensorFlow's converter writes.
    """


def with_exact_batch_norms(original: Any, program: Program) -> None:
    """It writes batch norms without an epsilon, and of integers, which fails."""
    if any(scales_integers(op) for op in operations_of(program)):
        return
    with exact_batch_norms():
        original.apply(program)


def with_plain_constants(original: Any, program: Program) -> None:
    """
    It makes integers of floats that were next to unknown elements.

    pymil joins known elements and symbols to an array of Python objects, and a slice of
    that stays one.
    """
    for op in operations_of(program):
        for var in op.outputs:
            if getattr(var.val, "dtype", None) == np.dtype(object):
                var._sym_val.val = var.val.astype(types.nptype_from_builtin(var.dtype))
    original.apply(program)


def to_float16(original: Any, program: Program) -> None:
    """Keep coordinates of grids, and numbers that float16 lacks, in float32."""
    if not getattr(original, "skip_ops_by_type", None):
        keep_masks_finite(program)
        set_selector(original, selector(program))
    original.apply(program)


def to_int16(original: Any, program: Program) -> None:
    """Compute with integers of 16 bits only where they are small."""
    if not getattr(original, "skip_ops_by_type", None):
        set_selector(original, is_for_int16)
    original.apply(program)


def set_selector(original: Any, ours: Callable[[Any], bool]) -> None:
    """Let a pass convert the ops that the user's selector and `ours` take."""
    instance = original.__self__
    users = instance.op_selector
    instance.op_selector = lambda op: (users is None or users(op)) and ours(op)


def check_ranks(original: Any, program: Program) -> None:
    """Refuse tensors that Core ML does not have, once no pass removes them any more."""
    problems = [
        Problem(
            f"{op.op_type} '{op.name}' makes a tensor of more than {MOST_DIMENSIONS} "
            "dimensions",
            location_of(op),
            hint="padc.convert splits such tensors where all operators allow it; "
            "coremltools.convert lowers one operator at a time",
        )
        for op in operations_of(program)
        if has_too_many_dimensions(op)
    ]
    if problems:
        raise UnsupportedError(problems)
    original.apply(program)


def has_too_many_dimensions(op: Any) -> bool:
    if op.op_type == "const" or op.op_type.startswith("constexpr_"):
        return False
    tensors = [var for var in op.outputs if not isinstance(var, ListVar)]
    return any(var.rank > MOST_DIMENSIONS for var in tensors)


def location_of(op: Any) -> SourceLocation | None:
    """The line of Python that an op of an exported program comes from."""
    traces = [str(each) for each in op.scopes.get(ScopeSource.EXIR_STACK_TRACE, ())]
    return SourceLocation.of(stack_location(traces[-1])) if traces else None


REPAIRS: Mapping[str, Repair] = {
    "common::fuse_conv_bias": unless(is_constant_less_convolution),
    "common::fuse_conv_scale": unless(is_badly_scaled),
    "common::select_optimization": unless(selects_infinity),
    "common::fuse_conv_batchnorm": unless(mixes_channels),
    "common::merge_consecutive_paddings": unless(is_border_pad),
    "common::fuse_reduce_mean": unless(has_factor_of_rank),
    "common::replace_stack_reshape": unless(is_returned_stack),
    "common::cast_optimization": exact_casts,
    **dict.fromkeys(("common::use_reflection_padding", *LEFT_OUT), around(nothing)),
    "common::fuse_elementwise_to_batchnorm": around(with_exact_batch_norms),
    "common::const_elimination": around(with_plain_constants),
    "common::add_fp16_cast": around(to_float16),
    "common::add_int16_cast": around(to_int16),
    "mil_backend::sanitize_name_strings": around(check_ranks),
}
"""The repairs, by the names of the passes."""
