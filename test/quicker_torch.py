# pyright: basic, reportPrivateUsage=false
"""
What PyTorch does again for each decomposition, done once.

`ExportedProgram.run_decompositions` takes a quarter of a second for the smallest
program, and was more than a quarter of the tests' time. It asks C++ for all composite
ops, which are the same each time, and gives each some twenty kernels: it makes equal
closures again, by a method that evaluates its annotations at each call.
"""

import __future__

import functools
import inspect
import textwrap

import torch._export.utils
import torch._ops
import torch.export.exported_program


def install() -> None:
    """What is computed stays the same; versions of PyTorch without these parts, too."""
    for module, name in (
        (torch._export.utils, "_materialize_cpp_cia_ops"),
        (torch.export.exported_program, "autograd_not_implemented"),
    ):
        if (function := getattr(module, name, None)) is not None:
            setattr(module, name, functools.cache(function))
    without_annotations(torch._ops, torch._ops.OperatorBase, "py_impl")


def without_annotations(module, kind: type, name: str) -> None:
    """Compile a method again, so that its annotations are not evaluated."""
    source = textwrap.dedent(inspect.getsource(getattr(kind, name)))
    flags = __future__.annotations.compiler_flag
    made = {}
    exec(compile(source, module.__file__, "exec", flags), vars(module), made)
    setattr(kind, name, made[name])
