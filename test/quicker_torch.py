# pyright: basic, reportPrivateUsage=false
"""
Caches what PyTorch computes again for each export and each decomposition.

`ExportedProgram.run_decompositions` takes a quarter of a second for the smallest
program, and was more than a quarter of the tests' time. At each call it asks C++ for
all composite ops, which stay the same, and makes some twenty equal closures for each op,
by a method that evaluates its annotations. An export asks all ops that were ever used,
each time that it resumes a mode of tracing, to forget a result that none has, and reads
the lines of the whole stack for each node, of which it keeps those of the model.
"""

import __future__

import functools
import inspect
import textwrap
import traceback
from weakref import WeakKeyDictionary

import torch._export.utils
import torch._ops
import torch.export.exported_program
import torch.utils._traceback
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
    torch._ops.get_cached_ops = each_op_once
    torch.utils._traceback._extract_symbolized_tb = without_lines
    name = "run_decompositions"
    setattr(ExportedProgram, name, once(getattr(ExportedProgram, name)))


def without_annotations(module, kind: type, name: str) -> None:
    """Compile a method again, so that its annotations are not evaluated."""
    source = textwrap.dedent(inspect.getsource(getattr(kind, name)))
    flags = __future__.annotations.compiler_flag
    made = {}
    exec(compile(source, module.__file__, "exec", flags), vars(module), made)
    setattr(kind, name, made[name])


def each_op_once() -> list:
    """The ops that kept a result since the last call, whose caller makes them forget."""
    ops = list(torch._ops.cached_ops)
    torch._ops.reset_cached_ops()
    return ops


def without_lines(frames, skip: int) -> traceback.StackSummary:
    """A stack, whose lines are read when they are asked for."""
    return traceback.StackSummary(
        traceback.FrameSummary(
            each["filename"], each["line"], each["name"], lookup_line=False
        )
        for each in reversed(frames[skip:])
    )


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
