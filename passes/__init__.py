"""Passes of padc, and the table that registers them."""

from collections.abc import Callable

from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """
    The passes that padc adds to those of xDSL, by name.

    Each is imported when asked for, with the dialects that it needs.
    """

    def get_bufferize_tcp() -> type[ModulePass]:
        from padc.passes.bufferize_tcp import BufferizeTcpPass

        return BufferizeTcpPass

    def get_convert_buffers_to_llvm() -> type[ModulePass]:
        from padc.passes.convert_buffers_to_llvm import ConvertBuffersToLlvmPass

        return ConvertBuffersToLlvmPass

    def get_convert_tcp_to_linalg() -> type[ModulePass]:
        from padc.passes.convert_tcp_to_linalg import ConvertTcpToLinalgPass

        return ConvertTcpToLinalgPass

    def get_convert_tcp_to_mil() -> type[ModulePass]:
        from padc.passes.convert_tcp_to_mil import ConvertTcpToMilPass

        return ConvertTcpToMilPass

    def get_convert_torch_to_linalg() -> type[ModulePass]:
        from padc.passes.convert_torch_to_linalg import ConvertTorchToLinalgPass

        return ConvertTorchToLinalgPass

    def get_convert_torch_to_tcp() -> type[ModulePass]:
        from padc.passes.convert_torch_to_tcp import ConvertTorchToTcpPass

        return ConvertTorchToTcpPass

    def get_decompose_border_pads() -> type[ModulePass]:
        from padc.passes.decompose_border_pads import DecomposeBorderPadsPass

        return DecomposeBorderPadsPass

    def get_decompose_computed_kernels() -> type[ModulePass]:
        from padc.passes.decompose_computed_kernels import DecomposeComputedKernelsPass

        return DecomposeComputedKernelsPass

    def get_decompose_conv_transpose() -> type[ModulePass]:
        from padc.passes.decompose_conv_transpose import DecomposeConvTransposePass

        return DecomposeConvTransposePass

    def get_decompose_grid_sample() -> type[ModulePass]:
        from padc.passes.decompose_grid_sample import DecomposeGridSamplePass

        return DecomposeGridSamplePass

    def get_fill_border_only() -> type[ModulePass]:
        from padc.passes.fill_border_only import FillBorderOnlyPass

        return FillBorderOnlyPass

    def get_fold_batch_norm() -> type[ModulePass]:
        from padc.passes.fold_batch_norm import FoldBatchNormPass

        return FoldBatchNormPass

    def get_pad_into_producer() -> type[ModulePass]:
        from padc.passes.pad_into_producer import PadIntoProducerPass

        return PadIntoProducerPass

    def get_plan_buffers() -> type[ModulePass]:
        from padc.passes.plan_buffers import PlanBuffersPass

        return PlanBuffersPass

    def get_tabulate_scaled_sizes() -> type[ModulePass]:
        from padc.passes.tabulate_scaled_sizes import TabulateScaledSizesPass

        return TabulateScaledSizesPass

    return {
        "bufferize-tcp": get_bufferize_tcp,
        "convert-buffers-to-llvm": get_convert_buffers_to_llvm,
        "convert-tcp-to-linalg": get_convert_tcp_to_linalg,
        "convert-tcp-to-mil": get_convert_tcp_to_mil,
        "convert-torch-to-linalg": get_convert_torch_to_linalg,
        "convert-torch-to-tcp": get_convert_torch_to_tcp,
        "decompose-border-pads": get_decompose_border_pads,
        "decompose-computed-kernels": get_decompose_computed_kernels,
        "decompose-conv-transpose": get_decompose_conv_transpose,
        "decompose-grid-sample": get_decompose_grid_sample,
        "fill-border-only": get_fill_border_only,
        "fold-batch-norm": get_fold_batch_norm,
        "pad-into-producer": get_pad_into_producer,
        "plan-buffers": get_plan_buffers,
        "tabulate-scaled-sizes": get_tabulate_scaled_sizes,
    }
