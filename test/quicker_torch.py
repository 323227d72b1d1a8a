# pyright: basic, reportPrivateUsage=false
"""
Caches what PyTorch computes again for each decomposition.

`ExportedProgram.run_decompositions` takes a quarter of a second for the smallest
program, and was more than a quarter of the tests' time. At each call it asks C++ for
all composite ops, which stay the same, and makes some twenty equal closures for each op,
by a method that evaluates its annotations.
"""

import __future__

import functools
import inspect
import textwrap
from weakref import WeakKeyDictionary

import torch._export.utils
import torch._ops
import torch.export.exported_program
from torch.export import ExportedProgram


def install() -> None:
    """Replace parts of PyTorch by cached ones, where its version has the part."""
    for module, name in (
        (torch._export.utils, "_materialize_cpp_cia_ops"),
        (torch.export.exported_program, "autograd_not_implemented"),
    ):
        if (function := getattr(module, name, None)) is not None:
            setattr(module, name, functools.cache(function))
    without_annotations(torch._ops, torch._ops.OperatorBase, "py_impl")
    name = "run_decompositions"
    setattr(ExportedProgram, name, once(getattr(ExportedProgram, name)))


def without_annotations(module, kind: type, name: str) -> None:
    """Compile a method again, so that its annotations are not evaluated."""
    source = textwrap.dedent(inspect.getsource(getattr(kind, name)))
    flags = __future__.annotations.compiler_flag
    made = {}
    exec(compile(source, module.__file__, "exec", flags), vars(module), made)
    setattr(kind, name, made[name])


def once(run_decompositions):
    """Decompose a program by no table once, unless its graph is changed afterwards."""
    known: WeakKeyDictionary = WeakKeyDictionary()

    @functools.wraps(run_decompositions)
    def run(program, decomp_table=None, **options):
        if decomp_table != {} or options:
            return run_decompositions(program, decomp_table, **options)
        graph = str(program.graph)
        before, decomposed = known.get(program, (None, None))
        if before != graph:
            decomposed = run_decompositions(program, {})
            known[program] = graph, decomposed
        return decomposed

    return run
