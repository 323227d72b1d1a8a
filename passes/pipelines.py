"""
The pipelines: which passes run, in which order, and why in this order.

    exported program -- import_program --> torch -- to_mil --> mil
                                           torch -- to_tcp --> tcp
                                           tcp -- to_buffers --> memref
                                           memref -- to_llvm --> llvm

Whatever lowers a program asks this file for its passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import (
    CommonSubexpressionElimination,
)

from padc.ir import make_context
from padc.ir.precisions import DEFAULT_PRECISION
from padc.ir.torch.schemas import NOT_ON_HIGH_RANK, ON_COMPLEX
from padc.ir.weights import weights_of
from padc.passes.complex.split_complex import SplitComplexPass
from padc.passes.tcp_to_mil.convert_tcp_to_mil import ConvertTcpToMilPass
from padc.passes.tcp_to_mil.decompose_computed_kernels import (
    DecomposeComputedKernelsPass,
)
from padc.passes.tcp_to_mil.decompose_grid_sample import DecomposeGridSamplePass
from padc.passes.tcp_to_mil.decompose_pads import DecomposePadsPass
from padc.passes.tcp_to_mil.policies import GridSamplePolicy, PadPolicy
from padc.passes.tcp_to_mil.reduce_ranks import ReduceRanksPass
from padc.passes.tcp_to_mil.tabulate_scaled_sizes import TabulateScaledSizesPass
from padc.passes.torch_to_mil.convert_model_buffers_to_states import (
    ConvertModelBuffersToStatesPass,
)
from padc.passes.torch_to_mil.convert_torch_to_mil import ConvertTorchToMilPass
from padc.passes.torch_to_mil.states_policy import (
    DEFAULT_STATES_POLICY,
    StatesPolicy,
)
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.passes.torch_to_tcp.fold_batch_norm import FoldBatchNormPass
from padc.passes.torch_to_tcp.fold_constants import FoldConstantsPass
from padc.passes.torch_to_tcp.narrow_float64 import NarrowFloat64Pass
from padc.passes.torch_to_tcp.split_conv_transpose import SplitConvTransposePass
from padc.passes.torch_to_tcp.widen_bfloat16 import WidenBfloat16Pass

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def to_reference() -> list[ModulePass]:
    """From torch to what the reference interprets: as few steps as possible."""
    return [ConvertTorchToTcpPass()]


def to_tcp(nested: bool = True) -> list[ModulePass]:
    """From torch to tcp; `nested` tells whether that holds in branches and loops."""
    return [
        ConvertTorchToTcpPass(nested),
        # Joins pads with pads, slices and constants, which decompositions would hide.
        CanonicalizePass(),
    ]


def to_mil_tcp() -> list[ModulePass]:
    """From torch to the tcp program that becomes a Core ML program."""
    return [
        # First, since pads, resampling and pools of constants are single ops there.
        FoldConstantsPass(),
        # Core ML has no complex tensors.
        SplitComplexPass(),
        # Nor float64 and bfloat16. After constants are folded, exactly, in float64.
        NarrowFloat64Pass(),
        WidenBfloat16Pass(),
        *to_tcp(),
    ]


def to_mil(
    target: str,
    pad_policy: PadPolicy,
    grid_sample_policy: GridSamplePolicy,
    states: StatesPolicy = DEFAULT_STATES_POLICY,
    precision: str = DEFAULT_PRECISION,
) -> list[ModulePass]:
    """From torch to Core ML's ops, which will compute in `precision`."""
    return [
        *to_mil_tcp(),
        # Before any decomposition copies the sizes that it replaces.
        TabulateScaledSizesPass(),
        # Before those that take pads and other ops of few dimensions.
        ReduceRanksPass(),
        # These two make pads: of kernels, and of the inputs of grid samples.
        DecomposeComputedKernelsPass(target),
        DecomposeGridSamplePass(grid_sample_policy),
        # After them, since it decomposes the pads that they make.
        DecomposePadsPass(pad_policy),
        ConvertTcpToMilPass(target),
        # After it, since resampling and other lowerings build ATen ops.
        ConvertTorchToMilPass(target),
        # After all that lowers arguments, since it takes those of Core ML's types.
        ConvertModelBuffersToStatesPass(target, states, precision),
        # Removes what pads folded into convolutions and pools leave unused.
        CanonicalizePass(),
    ]


CONVERSIONS_TO_MIL = ConvertTorchToTcpPass, ConvertTcpToMilPass, ConvertTorchToMilPass
"""The conversions that suffice for a program whose ops need no decomposition."""


def to_native_tcp() -> list[ModulePass]:
    """From torch to the tcp program that is split into native parts."""
    return [
        # PyTorch runs branches and loops, and is faster on ATen's ops than on tcp's.
        *to_tcp(nested=False),
        # Batch norms fold into the convolutions that remain after canonicalization.
        FoldBatchNormPass(),
        # After it, which folds into the kernels of transposed convolutions too.
        SplitConvTransposePass(),
    ]


def to_buffers(
    vector_bytes: int | None = None, strict: bool = False
) -> list[ModulePass]:
    """
    From torch and tcp to planned buffers.

    Layouts are packed for vectors of `vector_bytes` bytes; they stay if it is None.
    With `strict`, convolutions are sums of products, and not computed by tiles.
    """
    # Imported here and below, so that conversions to Core ML need not load them.
    from padc.passes.buffers.bufferize_tcp import BufferizeTcpPass
    from padc.passes.buffers.fill_border_only import FillBorderOnlyPass
    from padc.passes.buffers.pad_into_producer import PadIntoProducerPass
    from padc.passes.buffers.plan_buffers import PlanBuffersPass
    from padc.passes.buffers.run_in_blocks import RunInBlocksPass
    from padc.passes.linalg.convert_to_winograd import ConvertToWinogradPass
    from padc.passes.linalg.drop_unused_weights import DropUnusedWeightsPass
    from padc.passes.linalg.fuse_elementwise import FuseElementwisePass
    from padc.passes.linalg.pack_layouts import PackLayoutsPass
    from padc.passes.linalg.pack_weights import PackWeightsPass
    from padc.passes.linalg.widen_weights import WidenWeightsPass
    from padc.passes.linalg.write_in_place import WriteInPlacePass
    from padc.passes.to_linalg.convert_tcp_to_linalg import ConvertTcpToLinalgPass
    from padc.passes.to_linalg.convert_torch_to_linalg import ConvertTorchToLinalgPass

    return [
        # First: some of its lowerings make tcp ops.
        ConvertTorchToLinalgPass(),
        # Border pads stay: as buffers they copy rows, as linalg ops each element.
        ConvertTcpToLinalgPass(border_pads=False),
        # While such conversions are ops of their own.
        WidenWeightsPass(),
        # After both, which make the elementwise ops.
        FuseElementwisePass(),
        # Before buffers are allocated, which then have the packed shapes.
        *(
            []
            if vector_bytes is None
            else [PackLayoutsPass(vector_bytes), PackWeightsPass(vector_bytes)]
        ),
        # After layouts are packed, and while initial values are tensors of their own.
        *([] if strict else [ConvertToWinogradPass()]),
        # After all passes that pack weights.
        DropUnusedWeightsPass(),
        # After all rewrites of elementwise ops, which expect an output of their own.
        WriteInPlacePass(),
        # Each tensor gets memory of its own, or is a view.
        BufferizeTcpPass(),
        # Views of views become one, and equal ones the same, as later passes expect.
        CanonicalizePass(),
        CommonSubexpressionElimination(),
        PadIntoProducerPass(),
        # After it: a producer that writes the interior needs no fill there either.
        FillBorderOnlyPass(),
        # Removes copies and fills of buffers that are now written in place.
        CanonicalizePass(),
        # After it: what only the ops of a chain use is seen best without views.
        RunInBlocksPass(),
        # Last, since it fixes the address of each buffer.
        PlanBuffersPass(),
        # Joins the views of the arena with those that read and write them.
        CanonicalizePass(),
        CommonSubexpressionElimination(),
    ]


def to_llvm(vector_bytes: int, check: bool = False) -> list[ModulePass]:
    """
    From planned buffers to LLVM's dialect, for vectors of `vector_bytes` bytes.

    With `check`, loads and stores are checked: see `access_check`.
    """
    from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import (
        ConvertBuffersToLlvmPass,
    )

    return [ConvertBuffersToLlvmPass(vector_bytes, check)]


def legal_for_mil() -> frozenset[str]:
    """The ATen ops that have a lowering on the way to Core ML, by schema."""
    from padc.passes.complex.split_complex import LEGAL, LEGAL_IF_COMPLEX
    from padc.passes.tcp_to_mil.ranks import RULES
    from padc.passes.torch_to_mil.aten import LOWERINGS as TO_MIL
    from padc.passes.torch_to_tcp.aten import LOWERINGS as TO_TCP

    on_complex = {ON_COMPLEX + name for name in LEGAL_IF_COMPLEX}
    # reduce-ranks has to take what split-complex and convert-torch-to-tcp leave.
    low = TO_MIL.keys() - TO_TCP.keys() - LEGAL - RULES.keys()
    not_high = {NOT_ON_HIGH_RANK + name for name in low}
    return frozenset(TO_TCP.keys() | TO_MIL.keys() | LEGAL | on_complex | not_high)


def legal_for_native() -> frozenset[str]:
    """The ATen ops that have a lowering on the way to machine code, by schema."""
    from padc.passes.to_linalg.aten import LOWERINGS as TO_LINALG
    from padc.passes.torch_to_tcp.aten import LOWERINGS as TO_TCP

    # PyTorch's own code for these is faster: 196 instead of 388 us of 256x256 elements
    # for ldexp.
    whole = {"aten.ldexp.Tensor", "aten.logaddexp2"}
    return frozenset(TO_TCP.keys() | TO_LINALG.keys() | whole)


def legal_for(passes: Iterable[str]) -> frozenset[str] | None:
    """The ATen ops that passes of these names lower; None if they leave ATen."""
    for name in passes:
        if name == "convert-torch-to-mil":
            return legal_for_mil()
        if name == "convert-torch-to-linalg":
            return legal_for_native()
    return None


def import_program(
    exported: ExportedProgram,
    *,
    legal: Collection[str] | None = None,
    leave_out_constants: bool = False,
    with_assertions: bool = False,
    ctx: Context | None = None,
) -> tuple[Context, ModuleOp]:
    """
    A module at the torch level, and the context that holds its weights.

    The weights share the memory of the program's tensors. A context is made if none is
    given. The other options are those of `import_exported_program`.
    """
    # `padc-opt --help` lists the pipelines, and need not load PyTorch.
    from padc.frontends.torch_export import import_exported_program

    ctx = make_context() if ctx is None else ctx
    module = import_exported_program(
        exported,
        weights_of(ctx),
        legal=legal,
        leave_out_constants=leave_out_constants,
        with_assertions=with_assertions,
    )
    return ctx, module


def run_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Iterable[ModulePass],
    after_each: Callable[[str, ModuleOp], None] = lambda name, module: None,
) -> None:
    """Apply the passes in order; `after_each` takes the name of the pass that ran."""
    for each in passes:
        each.apply(ctx, module)
        after_each(each.name, module)
