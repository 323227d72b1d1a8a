"""
What is mutated, and the tests that should notice.

The files of an area decide: rules of the checker, folds, and rewrites that apply only
under conditions. If such a condition is wrong, the result may be wrong for rare programs
only. A lowering that writes one op as others has no such conditions: each program of
that op runs it, so the tests against PyTorch and the random programs cover it.

The tests are the quickest of `make test` that notice all mutants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Area:
    """Files that are mutated, and the tests that cover them."""

    files: Mapping[str, tuple[str, ...]]
    """The functions of each that are mutated, by parts of their names; () for all."""
    tests: tuple[str, ...]
    lit: tuple[str, ...] = ()


AREAS: Mapping[str, Area] = {
    "rules": Area(
        {"backends/coreml/checker/rules.py": ()},
        (
            "test/backends/coreml/test_rules.py",
            "test/backends/coreml/test_checker.py::test_every_rule_has_a_case",
            "test/backends/coreml/test_checker.py::test_what_breaks_a_rule_of_states_is_found",
        ),
    ),
    "checker": Area(
        {
            "backends/coreml/checker/check.py": (),
            "backends/coreml/checker/checked_op.py": (),
            "backends/coreml/checker/finding.py": (),
            "backends/coreml/checker/shapes.py": (),
        },
        (
            "test/backends/coreml/test_checker.py",
            "test/backends/coreml/test_limits.py",
        ),
    ),
    "pads": Area(
        {
            "ir/tcp/pad_patterns.py": (),
            "ir/tcp/pads.py": ("fold", "get_canonicalization_patterns"),
            "ir/torch/casts.py": ("fold",),
            "ir/padding.py": (
                "fold", "is_crop", "is_all_fill", "has_no_interior",
            ),
        },
        (
            "test/ir/test_pad_algebra.py",
            "test/ir/test_pad_modes.py",
            "test/ir/tcp/test_pad_programs.py",
        ),
        ("test/ir/tcp/canonicalize.mlir", "test/ir/torch/canonicalize.mlir"),
    ),
    "pools of pads": Area(
        {"ir/tcp/pool_patterns.py": ()},
        (),
        ("test/ir/tcp/canonicalize.mlir",),
    ),
    "constants": Area(
        {"passes/aten/eager_evaluation.py": ()},
        ("test/passes/torch_to_tcp/test_fold_constants.py",),
        ("test/passes/torch_to_tcp/fold_constants.mlir",),
    ),
    "ops of text": Area(
        {
            "ir/torch/calls.py": (),
            "passes/common/lowering.py": ("attempt", "invalid_op"),
            "ir/torch/containers.py": ("ListConstructOp.verify_", "is_subtype"),
        },
        (
            "test/ir/torch/test_calls.py",
            "test/ir/torch/test_schemas.py",
            "test/passes/common/test_lowering.py",
            "test/test_mlir_model.py",
            "test/passes/torch_to_tcp/test_fold_constants.py",
        ),
        ("test/ir/torch/invalid.mlir",),
    ),
    "batch norm": Area(
        {
            "passes/torch_to_tcp/fold_batch_norm.py": (),
            "passes/aten/folded_norm.py": (),
        },
        ("test/passes/torch_to_tcp/test_fold_batch_norm.py",),
    ),
    "guards": Area(
        {
            "frontends/torch_export/guards.py": (),
            "frontends/torch_export/asked_sizes.py": (),
            "frontends/torch_export/guarded_ranges.py": (),
            "frontends/torch_export/deciding_ops.py": (),
            "frontends/torch_export/size_assertions.py": (),
            "src/padc/models/listing.py": (),
        },
        (
            "test/frontends/test_asked_sizes.py",
            "test/frontends/test_guards.py",
            "test/test_listed_sizes.py",
            "test/frontends/test_size_assertions.py",
            "test/frontends/test_pt2.py::test_guards_that_are_false",
            "test/frontends/test_pt2.py"
            "::test_guards_of_files_of_the_oldest_version",
            "test/frontends/test_small_sizes.py::test_the_reason",
            "test/frontends/test_small_sizes.py::test_a_package_that_takes_no_rows",
        ),
    ),
    "small sizes": Area(
        {
            "frontends/torch_export/small_sizes.py": (),
            "frontends/torch_export/remade_guards.py": (),
            "ir/torch/sample_shapes.py": (),
        },
        (
            "test/frontends/test_small_sizes.py",
            "test/frontends/test_pt2.py",
            "test/frontends/test_guards.py::test_guards_of_the_functional_program",
            "test/frontends/test_guards.py"
            "::test_guards_of_the_functional_program_that_it_has",
            "test/frontends/test_size_limits.py"
            "::test_convolutions_of_an_empty_batch_and_length",
            "test/backends/native/test_compile.py"
            "::test_sizes_that_torch_export_found_out",
        ),
    ),
    "size limits": Area(
        {"frontends/torch_export/size_limits.py": ()},
        (
            "test/frontends/test_asked_sizes.py",
            "test/frontends/test_limit_guards.py",
            "test/frontends/test_size_limits.py",
            "test/frontends/test_small_sizes.py",
            "test/backends/native/test_compile.py::test_positions_that_are_values",
            "test/backends/native/test_compile.py"
            "::test_positions_where_there_may_be_none",
        ),
    ),
    "strides": Area(
        {"frontends/torch_export/strided.py": ()},
        ("test/frontends/test_strided.py", "test/frontends/test_input_strides.py"),
    ),
    "types of pt2": Area(
        {"frontends/torch_export/schema_types.py": ()},
        (
            "test/frontends/test_pt2.py::test_types_of_the_graph",
            "test/frontends/test_pt2.py::test_files_of_all_versions",
        ),
    ),
    "blocks": Area(
        {"passes/buffers/run_in_blocks.py": ()},
        ("test/passes/buffers/test_run_in_blocks.py",),
        ("test/passes/buffers/run_in_blocks.mlir",),
    ),
    "core ml": Area(
        {
            "passes/tcp_to_mil/tcp/folding.py": (),
            "passes/tcp_to_mil/legality.py": (),
        },
        (
            "test/passes/tcp_to_mil/test_folding.py",
            "test/passes/tcp_to_mil/test_legality.py",
        ),
    ),
    "core ml pads": Area(
        {
            "passes/tcp_to_mil/decompose_pads.py": (),
            "passes/tcp_to_mil/cropping.py": (),
        },
        ("test/passes/tcp_to_mil/test_decompose_pads.py",),
        (
            "test/passes/tcp_to_mil/decompose_pads.mlir",
            "test/passes/tcp_to_mil/decompose_pads_native.mlir",
        ),
    ),
    "core ml ranks": Area(
        {"passes/tcp_to_mil/reduce_ranks.py": ()},
        ("test/passes/tcp_to_mil/test_reduce_ranks.py",),
        ("test/passes/tcp_to_mil/reduce_ranks.mlir",),
    ),
    "core ml sizes": Area(
        {"passes/tcp_to_mil/tabulate_scaled_sizes.py": ()},
        ("test/passes/tcp_to_mil/test_tabulate_scaled_sizes.py",),
        ("test/passes/tcp_to_mil/tabulate_scaled_sizes.mlir",),
    ),
    "core ml kernels": Area(
        {"passes/tcp_to_mil/decompose_computed_kernels.py": ()},
        (),
        ("test/passes/tcp_to_mil/decompose_computed_kernels.mlir",),
    ),
    "core ml states": Area(
        {"passes/torch_to_mil/convert_model_buffers_to_states.py": ()},
        ("test/test_states.py",),
    ),
    "repaired passes": Area(
        {"backends/coreml/repaired_passes.py": ()},
        (
            "test/backends/coreml/test_optimize.py",
            "test/backends/coreml/test_symbolic_reshapes.py",
            "test/test_coremltools.py::test_passes_of_coremltools_that_are_wrong",
            "test/test_coremltools.py::test_passes_that_change_values",
            "test/test_coremltools.py::test_the_norm_of_a_grouped_transposed_convolution",
            "test/test_coremltools.py::test_a_stack_that_is_returned",
        ),
    ),
    "transposed convolutions": Area(
        {"passes/torch_to_tcp/split_conv_transpose.py": ()},
        ("test/passes/torch_to_tcp/test_split_conv_transpose.py",),
    ),
    "float types": Area(
        {"passes/torch_to_tcp/in_float32.py": ()},
        (
            "test/passes/torch_to_tcp/test_narrow_float64.py",
            "test/passes/torch_to_tcp/test_widen_bfloat16.py",
        ),
        (
            "test/passes/torch_to_tcp/narrow_float64.mlir",
            "test/passes/torch_to_tcp/narrow_float64_inside.mlir",
        ),
    ),
    "border pads": Area(
        {"passes/buffers/border_pads.py": ()},
        ("test/passes/buffers/test_buffers.py",),
        ("test/passes/buffers/bufferize_tcp.mlir",),
    ),
    "buffers": Area(
        {
            "passes/buffers/pad_into_producer.py": (),
            "passes/buffers/fill_border_only.py": (),
            "passes/buffers/strided_range.py": (),
            "passes/buffers/shared_pads.py": (),
            "passes/buffers/hoisting.py": (),
            "passes/buffers/views.py": (),
        },
        (
            "test/passes/buffers/test_strided_range.py",
            "test/passes/buffers/test_views.py",
            "test/passes/buffers/test_fill_border_only.py",
            "test/passes/buffers/test_shared_pads.py",
            "test/passes/buffers/test_buffer_programs.py",
        ),
        ("test/passes/buffers",),
    ),
    "linalg": Area(
        {
            "passes/linalg/elementwise.py": (),
            "passes/linalg/fuse_elementwise.py": (),
            "passes/linalg/pack_weights.py": (),
            "passes/linalg/panels.py": (),
            "passes/linalg/convert_to_winograd.py": (),
            "passes/linalg/drop_unused_weights.py": (),
            "passes/linalg/widen_weights.py": (),
            "passes/linalg/winograd_cost.py": (),
            "passes/linalg/write_in_place.py": (),
        },
        ("test/passes/linalg/test_winograd_cost.py",),
        ("test/passes/linalg",),
    ),
    "pack-layouts": Area(
        {
            "passes/linalg/layout_plan.py": (),
            "passes/linalg/pack_layouts.py": (),
            "passes/linalg/packed_tensor_ops.py": (),
            "passes/linalg/packing.py": (),
            "passes/linalg/weights.py": (),
        },
        (
            "test/passes/linalg/test_layout_plan.py",
            "test/passes/linalg/test_pack_layouts.py::test_blocks_of_several_sizes",
            "test/passes/linalg/test_pack_layouts.py::test_a_convolution_may_gain_without_the_ops_after_it",
            "test/passes/linalg/test_pack_layouts.py::test_borders_that_cost_more_than_they_gain_stay",
            "test/passes/linalg/test_pack_layouts.py::test_convolutions_and_their_starts_may_gain_without_the_ops_between",
        ),
        (
            "test/passes/linalg/pack_layouts.mlir",
            "test/passes/linalg/pack_weights.mlir",
            "test/passes/linalg/convert_to_winograd.mlir",
        ),
    ),
    "loop fusion": Area(
        {
            "passes/buffers_to_llvm/products/fused_products.py": (),
            "passes/buffers_to_llvm/loop_fusion.py": (),
            "passes/buffers_to_llvm/loop_groups.py": (),
            "passes/buffers_to_llvm/loop_plans.py": (),
            "passes/buffers_to_llvm/private_buffers.py": (),
            "passes/buffers_to_llvm/row_moves.py": (),
        },
        (
            "test/backends/native/test_loop_programs.py",
            "test/backends/native/test_epilogues.py",
            "test/backends/native/test_matrix_products.py::test_products_without_elements",
            "test/backends/native/test_programs.py",
            "test/backends/native/test_rows.py",
            "test/backends/native/test_access_check.py",
        ),
        ("test/passes/buffers_to_llvm",),
    ),
    "rows": Area(
        {
            "passes/buffers_to_llvm/looped_ops.py": (),
            "passes/buffers_to_llvm/row_pieces.py": (),
            "passes/buffers_to_llvm/row_sums.py": (),
            "passes/buffers_to_llvm/window_rows.py": (),
        },
        (
            "test/passes/buffers_to_llvm/test_row_pieces.py",
            "test/backends/native/test_loop_programs.py",
            "test/backends/native/test_rows.py",
        ),
        (
            "test/passes/buffers_to_llvm/joined_loops.mlir",
            "test/passes/buffers_to_llvm/shared_loops.mlir",
        ),
    ),
}  # fmt: skip
