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

import torch._export.utils
import torch._ops
import torch.export.exported_program


def install() -> None:
    """Replace parts of PyTorch by cached ones, where its version has the part."""
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
