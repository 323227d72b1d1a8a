"""Every rewrite on index maps has a proof, or stands in the list of those without."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern

import padc.ir
import padc.passes
from padc.passes import PASSES
from padc.passes.tcp_to_mil.ranks import RULES

NOT_OF_INDEX_MAPS = {
    "StaticAmounts": "the amounts stay the same, as attributes",
    "ToBuiltinTensorOp.fold": "a cast there and back",
    "FromBuiltinTensorOp.fold": "a cast there and back",
    "TensorOp.fold": "folds nothing",
    "split-complex": "elements become pairs of real ones, at the same places",
    "fold-constants": "PyTorch computes the constants",
    "narrow-float64": "types only",
    "widen-bfloat16": "types only",
    "fold-batch-norm": "weights only",
    "convert-torch-to-mil": "single ops, tested against PyTorch",
    "convert-model-buffers-to-states": "arguments and results only",
    "plan-buffers": "places of whole buffers",
    "convert-buffers-to-llvm": "tested by the random programs, in guarded memory",
}
"""Passes and folds that rewrite no index maps, and why."""

WITHOUT_PROOF = {
    "convert-torch-to-tcp": "its formulas are proved: test_padding, test_pad_algebra",
    "tabulate-scaled-sizes": "tables of PyTorch's own results",
    "reduce-ranks": "all permutations of up to 7 dimensions: test_rank_algebra",
    "decompose-computed-kernels": "tested against the reference",
    "decompose-grid-sample": "tested against PyTorch",
    "convert-tcp-to-mil": "single ops, tested against the reference",
    "convert-torch-to-linalg": "tested against PyTorch",
    "fuse-elementwise": "composes affine maps; random programs, and PyTorch",
    "FuseProducer": "the pattern of fuse-elementwise",
    "write-in-place": "changes which buffer is written; random programs, and PyTorch",
    "WriteToSums": "the pattern of write-in-place",
    "pack-layouts": "splits loops by factors that divide them; tested against PyTorch",
    "bufferize-tcp": "random programs, against the reference",
    **{
        f"rewrite_{name}": "tested against PyTorch, for tensors of six and more ranks"
        for name in (
            *("along", "attention", "bucketize", "cat", "diagonal", "diagonals"),
            *("distances", "einsum", "elementwise", "embedding", "expand", "expand_as"),
            *("flat", "flip", "full", "index", "index_put", "layer_norm", "linear"),
            *("masked_scatter", "matmul", "matrices", "numel", "repeat"),
            *("scatter", "searchsorted", "size", "split", "stack", "triangle"),
            *("unfold", "update"),
        )
    },
}
"""What rewrites index maps and has no proof; this may only become shorter."""


def rewrites() -> set[str]:
    """The names of patterns, folds, passes and rules of `reduce-ranks`."""
    found = {name for names in PASSES.values() for name in names}
    found |= {rule.__name__ for rule in RULES.values()}
    for package in (padc.ir, padc.passes):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for kind in vars(importlib.import_module(each.name)).values():
                if not isinstance(kind, type) or kind.__module__ != each.name:
                    continue
                if issubclass(kind, RewritePattern):
                    found.add(kind.__name__)
                if issubclass(kind, HasFolderInterface) and "fold" in vars(kind):
                    assert issubclass(kind, Operation)
                    found.add(f"{kind.__name__}.fold")
    return found


def proved() -> set[str]:
    """The names in the decorators `@proves(...)` of the tests."""
    texts = (path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    lists = [each for text in texts for each in re.findall(r"@proves\(([^)]*)\)", text)]
    return {name for each in lists for name in re.findall('"([^"]+)"', each)}


def test_each_rewrite_has_a_proof_or_a_reason():
    without = rewrites() - proved()

    assert without == NOT_OF_INDEX_MAPS.keys() | WITHOUT_PROOF.keys()


def test_each_proof_is_of_a_rewrite():
    assert proved() <= rewrites()
