# pyright: basic, reportMissingTypeStubs=false
"""
Compression of weights, by the passes of `coremltools.optimize` on an optimized program.

Only weights are compressed: the constants of convolutions, matrix products, embeddings
and LSTMs. Tables of padc's own, such as those of Fourier transforms and resampling,
stay as they are.
"""

import contextlib
import io
import re
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import fusions, operations_of, origins
from padc.backends.coreml.compressions import Compression
from padc.errors import UsageError

with quiet():
    import coremltools.optimize.coreml as cto
    from coremltools._deps import _kmeans1d  # pyright: ignore
    from coremltools.converters.mil.mil import Program
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

WEIGHT_INPUTS = {
    "conv": ("weight",),
    "conv_transpose": ("weight",),
    "linear": ("weight",),
    "matmul": ("x", "y"),
    "gather": ("x",),
    "lstm": ("weight_ih", "weight_hh", "weight_ih_back", "weight_hh_back"),
}
"""The inputs of ops that a weight can be."""

OWNERS = re.compile(
    r"aten\.\w*(conv|linear|mm|bmm|matmul|embedding|lstm|gru|rnn|einsum|bilinear)"
)
"""The ops of PyTorch that have weights."""

FUSIONS = (
    "expand_dynamic_linear",
    "fuse_conv_batchnorm",
    "fuse_linear_bias",
    "fuse_matmul_weight_bias",
    "fuse_onehot_matmul_to_gather",
)
"""Passes of coremltools that make one op of a weighted op and one after it."""

BLOCK_SIZE = 32
"""How many elements of an input channel share a scale of int4."""

BINS = 64
"""How many bins there are for each value of a palette."""

LARGEST_SKIPPED = 2048
"""Smaller weights stay as they are: `coremltools.optimize` has this as its default."""

GROUP_SIZE = 16
"""How many output channels share a palette, from iOS18 on."""


def compress(program: Program, compression: Compression, pretend: bool = False) -> None:
    """
    Compress the weights of an optimized program, in place.

    To `pretend` is to give each weight the values that it has after compression, but to
    store it as before. Raises UsageError if no weight can be compressed.
    """
    compression.check_target(program.functions["main"].opset_version.name)
    weights = weights_of(program)
    left = weights
    # coremltools draws progress bars, and divides by the scales of channels of zeros:
    # the quotient is multiplied by the scale, which is 0.
    hidden = contextlib.redirect_stderr(io.StringIO())
    with quiet(), hidden, np.errstate(invalid="ignore", divide="ignore"):
        for name, config in steps(compression, program):
            made: Any = type(PASS_REGISTRY[f"compression::{name}"])
            run = made(cto.OptimizationConfig(global_config=config), pretend)
            # What a pass has compressed has another name.
            run.op_selector = lambda op: op.name in weights
            run(program)
            left = weights & weights_of(program)
    if left == weights:
        raise nothing_to_compress(compression)
    program.validate()


def nothing_to_compress(compression: Compression) -> UsageError:
    """The error for a program that has no weight that a compression takes."""
    message = (
        f"there is no weight to compress: only those of more than {LARGEST_SKIPPED} "
        "elements are, in convolutions, matrix products, embeddings and LSTMs"
    )
    if not compression.is_exact:
        return UsageError(message, hint="leave compress out")
    return UsageError(
        f"{message}, if half of them are zeros",
        hint="leave compress out, or give a percentage: sparse75",
    )


def weights_of(program: Program) -> set[str]:
    """The names of the constants that are weights."""
    return {op.name for op in operations_of(program) if is_weight(op)}


def is_weight(op: Any) -> bool:
    """Whether an op is a constant that only weighted ops of the model read."""
    if op.op_type != "const":
        return False
    (output,) = op.outputs
    if not output.child_ops or output.consuming_blocks:
        return False
    return all(
        is_owner(user)
        and all(
            name in WEIGHT_INPUTS.get(user.op_type, ())
            for name, given in user.inputs.items()
            if given is output
        )
        for user in output.child_ops
    )


def is_owner(op: Any) -> bool:
    """Whether an op comes from one of PyTorch's that has weights."""
    is_fused = any(name in FUSIONS for name in fusions(op))
    return is_fused or any(OWNERS.search(name) for name in origins(op))


def palette_of(bits: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """
    A function from a weight to its palette, and the indices of its elements.

    The palette is the best one for the mean square error, up to the bins that elements
    are counted in. The search is exact, and needs no random numbers, as there is one
    dimension.
    """

    def palette(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        exact = weight.astype(np.float64).ravel()
        values, indices, counts = np.unique(
            exact, return_inverse=True, return_counts=True
        )
        if len(values) > 2**bits:
            values, indices, counts = np.unique(
                binned(exact, BINS * 2**bits), return_inverse=True, return_counts=True
            )
        size = min(len(values), 2**bits)
        cluster: Any = _kmeans1d.cluster
        found = cluster(values, size, weights=counts.astype(np.float64))
        chosen = np.array(found.clusters)[indices]
        sums = np.bincount(chosen, exact, minlength=2**bits)
        means = sums / np.maximum(np.bincount(chosen, minlength=2**bits), 1)
        return means.astype(weight.dtype), chosen.astype(np.uint8)

    return palette


def binned(values: np.ndarray, count: int) -> np.ndarray:
    """The values, each rounded to the nearest of `count` of equal distance."""
    low, high = values.min(), values.max()
    step = (high - low) / (count - 1)
    return low + np.round((values - low) / step) * step


def steps(compression: Compression, program: Program) -> Generator[tuple[str, Any]]:
    """
    The passes and their options.

    A pass leaves weights as they are whose channels do not fill its blocks or groups;
    the next one takes them.
    """
    is_new = program.functions["main"].opset_version.name not in ("iOS16", "iOS17")
    match compression:
        case Compression("int", 4):
            blocks: Any = {"granularity": "per_block", "block_size": BLOCK_SIZE}
            channels: Any = {"granularity": "per_channel"}
            for granularity in (blocks, channels):
                yield (
                    "linear_quantize_weights",
                    cto.OpLinearQuantizerConfig(
                        mode="linear_symmetric", dtype="int4", **granularity
                    ),
                )
        case Compression("int"):
            yield (
                "linear_quantize_weights",
                cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8"),
            )
        case Compression("palette", bits):
            groups: Any = {
                "granularity": "per_grouped_channel",
                "group_size": GROUP_SIZE,
            }
            for granularity in ([groups] if is_new else []) + [{}]:
                yield (
                    "palettize_weights",
                    cto.OpPalettizerConfig(
                        mode="custom", lut_function=palette_of(bits), **granularity
                    ),
                )
        case Compression("sparse", percentage=None):
            yield "prune_weights", cto.OpThresholdPrunerConfig(threshold=0.0)
        case Compression("sparse", percentage=percentage):
            assert percentage is not None
            yield (
                "prune_weights",
                cto.OpMagnitudePrunerConfig(target_sparsity=percentage / 100),
            )
