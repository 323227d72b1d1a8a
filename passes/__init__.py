"""The passes of padc, in a folder for each step, and the table of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

PASSES = {
    "complex": ("split-complex",),
    "torch_to_tcp": (
        "fold-constants",
        "narrow-float64",
        "widen-bfloat16",
        "convert-torch-to-tcp",
        "fold-batch-norm",
        "split-conv-transpose",
    ),
    "tcp_to_mil": (
        "tabulate-scaled-sizes",
        "reduce-ranks",
        "decompose-computed-kernels",
        "decompose-grid-sample",
        "decompose-pads",
        "convert-tcp-to-mil",
    ),
    "torch_to_mil": ("convert-torch-to-mil", "convert-model-buffers-to-states"),
    "to_linalg": (
        "decompose-conv-transpose",
        "convert-torch-to-linalg",
        "convert-tcp-to-linalg",
    ),
    "linalg": (
        "widen-weights",
        "fuse-elementwise",
        "pack-layouts",
        "pack-weights",
        "convert-to-winograd",
        "drop-unused-weights",
        "write-in-place",
    ),
    "buffers": (
        "bufferize-tcp",
        "pad-into-producer",
        "fill-border-only",
        "run-in-blocks",
        "plan-buffers",
    ),
    "buffers_to_llvm": ("convert-buffers-to-llvm",),
}
"""
The passes of each folder, in the order in which they run.

`split-complex` runs after `fold-constants`, and no pipeline runs
`decompose-conv-transpose`. `pipelines` has the order of all passes.

`fold-batch-norm` is the class `FoldBatchNormPass` in the file `fold_batch_norm.py`.
"""


def load_pass(folder: str, name: str) -> type[ModulePass]:
    """Import the pass `name` from `folder`."""
    module = importlib.import_module(f"padc.passes.{folder}.{name.replace('-', '_')}")
    return getattr(module, "".join(map(str.capitalize, name.split("-"))) + "Pass")


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """
    The passes that padc adds to those of xDSL, by name.

    A pass and the dialects that it needs are imported when the pass is loaded.
    """
    return {
        name: partial(load_pass, folder, name)
        for folder, names in PASSES.items()
        for name in names
    }
