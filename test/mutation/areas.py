"""What is mutated, and the tests that should notice."""

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
        ),
    ),
    "checker": Area(
        {"backends/coreml/checker/check.py": ()},
        ("test/backends/coreml/test_checker.py",),
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
    "constants": Area(
        {"passes/aten/eager_evaluation.py": ()},
        ("test/passes/torch_to_tcp/test_fold_constants.py",),
        ("test/passes/torch_to_tcp/fold_constants.mlir",),
    ),
    "batch norm": Area(
        {
            "passes/torch_to_tcp/fold_batch_norm.py": (),
            "passes/aten/folded_norm.py": (),
        },
        ("test/passes/torch_to_tcp/test_fold_batch_norm.py",),
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
            "passes/linalg/winograd_cost.py": (),
            "passes/linalg/write_in_place.py": (),
        },
        (),
        ("test/passes/linalg",),
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
            "test/backends/native/test_epilogues.py",
            "test/backends/native/test_programs.py",
            "test/backends/native/test_access_check.py",
        ),
        ("test/passes/buffers_to_llvm",),
    ),
}  # fmt: skip
