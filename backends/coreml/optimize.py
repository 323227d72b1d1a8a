# pyright: basic, reportMissingTypeStubs=false
"""
coremltools' passes on an emitted program.

`coremltools.convert` would run all of its passes, and check the whole program after
each. This file only runs those that can apply to a program of padc's.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import operations_of
from padc.backends.coreml.float16.float32_ops import keep_masks_finite, selector
from padc.backends.coreml.float16.keep_float32 import kept_ops
from padc.backends.coreml.numerics import Keep
from padc.backends.coreml.repaired_passes import (
    HARMFUL,
    exact_batch_norms,
    exact_casts,
    symbols_of_integers,
)
from padc.backends.coreml.symbolic_reshapes import quick_reshapes
from padc.errors import Problem, UnsupportedError
from padc.ir.precisions import DEFAULT_PRECISION, resolve_precision

with quiet():
    from coremltools.converters.mil.mil import Program
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic
    from coremltools.converters.mil.mil.types.type_mapping import nptype_from_builtin

# The order is that of coremltools' default pipeline. Left out are:
# - passes for quantised weights, images, complex numbers, and ops that only its
#   TensorFlow frontend emits: padc's programs have none of these.
# - passes for states: convert-model-buffers-to-states orders the updates, and reads
#   the new values from the states, as these passes would.
# - loop_invariant_elimination: it only removes carried values that stay the same.
# - passes that change pads: Core ML needs them as padc wrote them.
# - the guard of gathers against negative indices: padc makes them positive.
# - those of `repaired_passes.LEFT_OUT`, and three more that are wrong:
#   - fuse_conv_bias negates a constant in place, for all its users and in the model.
#   - fuse_conv_scale takes c / conv(x) for conv(x) / c.
#   - select_optimization replaces select(c, -inf, b) by -inf + b: NaN where b is inf.
PASSES = (
    "common::dead_code_elimination",
    "common::cast_optimization",
    "common::const_elimination",
    "common::add_conv_transpose_output_shape",
    "common::const_elimination",
    "common::remove_symbolic_reshape",
    "common::noop_elimination",
    "common::fuse_gelu_tanh_approximation",
    "common::fuse_gelu_exact",
    "common::rank0_expand_dims_swap",
    "common::fuse_squeeze_expand_dims",
    "common::replace_stack_reshape",
    "common::reduce_transposes",
    "common::fuse_onehot_matmul_to_gather",
    "common::fuse_layernorm_or_instancenorm",
    "common::fuse_elementwise_to_batchnorm",
    "common::fuse_reduce_mean",
    "common::fuse_conv_batchnorm",
    "common::detect_concat_interleave",
    "common::concat_to_pixel_shuffle",
    "common::fuse_prelu",
    "common::prelu_to_lrelu",
    "common::merge_consecutive_relus",
    "common::merge_consecutive_reshapes",
    "common::merge_consecutive_transposes",
    "common::fuse_transpose_matmul",
    "common::expand_high_rank_reshape_and_transpose",
    "common::reduce_transposes",
    "common::remove_redundant_ops",
)
# Passes that look for an op of these types, and are skipped in a program without them:
# each pass walks through the program, and its end through all paths to the outputs.
LOOKS_FOR = {
    "common::add_conv_transpose_output_shape": {"conv_transpose"},
    "common::remove_symbolic_reshape": {"reshape"},
    "common::fuse_gelu_tanh_approximation": {"tanh"},
    "common::fuse_gelu_exact": {"erf"},
    "common::rank0_expand_dims_swap": {"expand_dims"},
    "common::fuse_squeeze_expand_dims": {"squeeze"},
    "common::replace_stack_reshape": {"stack"},
    "common::reduce_transposes": {"transpose"},
    "common::fuse_onehot_matmul_to_gather": {"one_hot"},
    "common::fuse_layernorm_or_instancenorm": {"reduce_mean", "reduce_sum"},
    "common::fuse_elementwise_to_batchnorm": {"mul"},
    "common::fuse_reduce_mean": {"reduce_sum"},
    "common::fuse_conv_batchnorm": {"batch_norm"},
    "common::detect_concat_interleave": {"concat"},
    "common::concat_to_pixel_shuffle": {"concat"},
    "common::fuse_prelu": {"relu"},
    "common::prelu_to_lrelu": {"prelu"},
    "common::merge_consecutive_relus": {"relu"},
    "common::merge_consecutive_reshapes": {"reshape"},
    "common::merge_consecutive_transposes": {"transpose"},
    "common::fuse_transpose_matmul": {"matmul"},
    "common::expand_high_rank_reshape_and_transpose": {"transpose"},
    "common::expand_dynamic_linear": {"linear"},
    "mil_backend::fuse_activation_silu": {"sigmoid"},
}
INT16_MAX = 2**15 - 1
WITHOUT_EPSILON = ("common::fuse_elementwise_to_batchnorm",)
# Instead of those of coremltools' registry.
CASTS = "common::cast_optimization"
REPLACED_PASSES: Mapping[str, Any] = {CASTS: exact_casts(type(PASS_REGISTRY[CASTS]))()}
FLOAT16_PASSES = (
    "common::dedup_op_and_var_names",
    "common::add_fp16_cast",
    "common::add_int16_cast",
    "common::const_elimination",
    "common::dead_code_elimination",
    "common::cast_optimization",
)
LAST_PASSES = (
    "common::expand_dynamic_linear",
    "common::noop_elimination",
    "mil_backend::adjust_io_to_supported_types",
    "mil_backend::fuse_activation_silu",
    "common::const_elimination",
    "common::cast_optimization",
    "common::dead_code_elimination",
    "common::const_deduplication",
    "common::topological_reorder",
    "common::dead_code_elimination",
    "mil_backend::sanitize_name_strings",
    "common::dedup_op_and_var_names",
    "nn_backend::handle_unused_inputs",
)


@quick_reshapes()
@symbols_of_integers()
def optimize(
    program: Program,
    precision: str = DEFAULT_PRECISION,
    keep_float32: Keep = (),
) -> None:
    """
    Run the passes that Core ML needs or profits from, in place, once per program.

    `precision` ("float32" or "float16") is that of the computation, except of the ops
    in `keep_float32`; inputs and outputs keep their types. Raises `UnsupportedError` if
    a tensor of rank 6 or more remains.
    """
    resolve_precision(precision)
    with quiet():
        for name in PASSES:
            exact = name in WITHOUT_EPSILON
            with exact_batch_norms() if exact else contextlib.nullcontext():
                run_pass(program, name)
        if precision == "float16":
            for name in FLOAT16_PASSES:
                float16_pass: Any = REPLACED_PASSES.get(name, PASS_REGISTRY[name])
                if name == "common::add_fp16_cast":
                    keep_masks_finite(program)
                    kept = kept_ops(program, keep_float32)
                    float16_pass.op_selector = selector(program, kept)
                if name == "common::add_int16_cast":
                    float16_pass.op_selector = is_for_int16
                # cast_optimization casts the limits of int32 to float16.
                with np.errstate(over="ignore"):
                    float16_pass(program)
        for name in LAST_PASSES:
            run_pass(program, name)
        program.validate()
        try:
            # coremltools.convert calls this after its passes; validate() does not.
            program._check_early_error_out_for_invalid_program()
        except ValueError as error:
            message = " ".join(str(error).split())
            problem = Problem(f"coremltools: {message}")
            raise UnsupportedError([problem]) from error


def run_pass(program: Program, name: str) -> None:
    """Run a pass of coremltools, unless it would find nothing to do, or be wrong."""
    if name in LOOKS_FOR and not LOOKS_FOR[name] & op_types(program):
        return
    if (is_harmful := HARMFUL.get(name)) is not None:
        if any(is_harmful(op) for op in operations_of(program)):
            return
    REPLACED_PASSES.get(name, PASS_REGISTRY[name])(program)
    if name == "common::const_elimination":
        give_constants_types(program)


def give_constants_types(program: Program) -> None:
    """
    Give constants arrays of their types.

    coremltools computes the values of ops on partly known tensors in arrays of Python
    objects, and keeps these where a value is known whole; const_deduplication fails.
    """
    for op in operations_of(program):
        value = op.val.val if op.op_type == "const" else None
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            type = nptype_from_builtin(op.outputs[0].dtype)
            for var in (op.val, op.outputs[0]):
                var._sym_val.val = var.val.astype(type)


def op_types(program: Program) -> set[str]:
    """The types of all ops, those in nested blocks included."""
    return {op.op_type for op in operations_of(program)}


def is_for_int16(op: Any) -> bool:
    """
    Whether coremltools may let an op compute with integers of 16 bits.

    It does so whatever their values are: only indices into known sizes are small.
    """
    if op.x.is_tensor_or_scalar_of(dtype="int32"):
        return False
    if op.op_type == "squeeze":
        return True
    sizes = op.x.shape if op.op_type == "gather_nd" else [op.x.shape[op.axis.val]]
    return all(not is_symbolic(size) and size <= INT16_MAX for size in sizes)
