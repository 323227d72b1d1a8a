"""
Every rewrite on index maps has a proof, or stands in the list of those without.

A pass with several formulas is one entry for each of them: "pass: formula".
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
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
    "drop-unused-weights": "arguments only",
    "widen-weights": "arguments only",
    "plan-buffers": "places of whole buffers",
}
"""Passes and folds that rewrite no index maps, and why."""

FORMULAS: Mapping[str, Sequence[str]] = {
    "split-conv-transpose": (
        *("the taps of a phase", "the pad of a phase"),
        *("parts of the padded input", "kernels of phases", "phases put together"),
    ),
    "convert-tcp-to-linalg": (
        *("transposed convolutions", "convolutions", "pads", "pools", "resample"),
        *("grid sample", "interleave"),
    ),
    "convert-buffers-to-llvm": (
        *("vectors of a row", "columns of windows", "gather blocks"),
        *("rows of depthwise convolutions", "repeated elements"),
        *("tiles of products", "steps of product blocks", "panels of products"),
        *("transpositions", "row moves", "row pieces", "private buffers"),
        *("loops", "fused loops", "tiles of winograd", "parts of sums"),
    ),
    "frontends.torch_export.strided": ("as_strided", "as_strided_scatter", "resize"),
}
"""Formulas of their own, by the pass or module: one proof does not cover the others."""

GUARDED = "against PyTorch, and by random programs in guarded memory: PADC_CHECK"

ALL_SIZES = "sizes up to several blocks, all of them: test_all_sizes"

SAME = "programs before and after it, proved to be the same: test_same_results"

WITHOUT_PROOF = {
    **{
        f"convert-tcp-to-linalg: {name}": "against PyTorch and the reference"
        for name in ("resample", "grid sample")
    },
    "convert-buffers-to-llvm: row pieces": "random rows: test_row_pieces",
    **{
        f"convert-buffers-to-llvm: {name}": ALL_SIZES
        for name in ("transpositions", "row moves", "loops", "parts of sums")
    },
    **{
        f"convert-buffers-to-llvm: {name}": f"{GUARDED}; {ALL_SIZES}"
        for name in ("private buffers", "fused loops")
    },
    "convert-torch-to-tcp": "its formulas are proved: test_padding, test_pad_algebra",
    "tabulate-scaled-sizes": "tables of PyTorch's own results",
    "reduce-ranks": "all permutations of up to 7 dimensions: test_rank_algebra",
    "decompose-computed-kernels": "tested against the reference",
    "decompose-grid-sample": "tested against PyTorch",
    "convert-tcp-to-mil": "single ops, tested against the reference",
    "convert-torch-to-linalg": "tested against PyTorch",
    "fuse-elementwise": f"composes affine maps; {SAME}",
    "FuseProducer": "the pattern of fuse-elementwise",
    "write-in-place": f"changes which buffer is written; {SAME}",
    "WriteToSums": "the pattern of write-in-place",
    "pack-layouts": f"splits loops by factors that divide them; {SAME}",
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
"""What rewrites index maps and has no proof, and how it is tested instead."""


def rewrites() -> set[str]:
    """The names of patterns, folds, passes and rules of `reduce-ranks`."""
    found = {name for names in PASSES.values() for name in names} - FORMULAS.keys()
    found |= {f"{name}: {each}" for name, some in FORMULAS.items() for each in some}
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
    """The names in the decorators `@proves(...)` of tests that assert something."""
    found: set[str] = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        found |= proved_in(path.read_text())
    return found


def proved_in(text: str) -> set[str]:
    if "@proves(" not in text:
        return set()
    return {
        name
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.FunctionDef) and is_run(each)
        for name in names_of(each)
    }


SOMETIMES = "skip", "xfail", "slow"
"""In the marks of tests that `make test` does not run, or that need not pass."""


def is_run(test: ast.FunctionDef) -> bool:
    """Whether pytest runs a function, always, and it may fail."""
    decorators = map(ast.unparse, test.decorator_list)
    return (
        test.name.startswith("test_")
        and any(isinstance(each, ast.Assert) for each in ast.walk(test))
        and not any(word in each for each in decorators for word in SOMETIMES)
    )


def names_of(test: ast.FunctionDef) -> Iterator[str]:
    for each in test.decorator_list:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "proves":
            yield from (str(ast.literal_eval(name)) for name in each.args)


def test_each_rewrite_has_a_proof_or_a_reason():
    without = rewrites() - proved()

    assert without == NOT_OF_INDEX_MAPS.keys() | WITHOUT_PROOF.keys()


def test_each_proof_is_of_a_rewrite():
    assert proved() <= rewrites()


def test_formulas_are_of_passes_or_modules():
    passes = {name for names in PASSES.values() for name in names}
    for name in FORMULAS.keys() - passes:
        importlib.import_module(f"padc.{name}")


def test_tests_that_prove_nothing_do_not_count():
    test = '@proves("a")\n{}def test_a():\n    {}\n'

    assert proved_in(test.format("", "assert holds(x)")) == {"a"}
    assert proved_in(test.format("", "holds(x)")) == set()
    assert proved_in(test.format("@pytest.mark.skip\n", "assert holds(x)")) == set()
