"""
Compilers in the form that conformance drivers call: an exported program to a function.

    >>> import torch
    >>> from padc.testing import compile_for_oracle
    >>> exported = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
    >>> compile_for_oracle(exported)(torch.tensor([-1.0, 1.0]))
    (tensor([0., 1.]),)
"""

from __future__ import annotations

from collections.abc import Callable

from padc.versions import require

require("torch", "coreml")

import torch
import torch.utils._pytree as pytree

from padc.coreml_program import convert
from padc.errors import Problem, UnsupportedError
from padc.models.exported import interpreted

__all__ = ["compile_for_coreml", "compile_for_native", "compile_for_oracle"]

Compiled = Callable[..., tuple[torch.Tensor, ...]]
"""Takes the program's tensors in order, and returns its outputs, flat and in order."""


def compile_for_oracle(program: torch.export.ExportedProgram) -> Compiled:
    """
    Make padding explicit, and interpret the result with the reference.

    Args:
        program: A program whose inputs and outputs are tensors of any shape and dtype.

    Returns:
        A function of the program's tensors, of the shapes and dtypes that it was
        exported for, that returns a tuple of its outputs.

    Raises:
        UnsupportedError: Parts of the program cannot be imported or interpreted.

    Example:
        >>> import torch
        >>> from padc.testing import compile_for_oracle
        >>> exported = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
        >>> compile_for_oracle(exported)(torch.tensor([-1.0, 1.0]))
        (tensor([0., 1.]),)
    """
    return interpreted(program)


def compile_for_coreml(program: torch.export.ExportedProgram) -> Compiled:
    """
    Convert to a Core ML package, and run that with the evaluator.

    Args:
        program: A program whose inputs and outputs are tensors of any shape and dtype.

    Returns:
        A function of the program's tensors, of the shapes and dtypes that it was
        exported for, that returns a tuple of its outputs.

    Raises:
        UnsupportedError: Parts of the program cannot be converted.

    Example:
        >>> import torch
        >>> from padc.testing import compile_for_coreml
        >>> exported = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
        >>> compile_for_coreml(exported)(torch.tensor([-1.0, 1.0]))
        (tensor([0., 1.]),)
    """
    return convert(program).run


def compile_for_native(program: torch.export.ExportedProgram) -> Compiled:
    """
    Compile all of it to machine code.

    Args:
        program: A program whose inputs and outputs are tensors of any shape and dtype.

    Returns:
        A function of the program's tensors, of the shapes and dtypes that it was
        exported for, that returns a tuple of its outputs.

    Raises:
        UnsupportedError: Parts of the program cannot be compiled.

    Example:
        >>> import torch
        >>> from padc.testing import compile_for_native
        >>> exported = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
        >>> compile_for_native(exported)(torch.tensor([-1.0, 1.0]))
        (tensor([0., 1.]),)
    """
    # Imported here, since it needs llvmlite.
    from padc.compiled import compile_exported

    compiled = compile_exported(program)
    if not compiled.is_native:
        raise UnsupportedError([Problem(compiled.report())])
    return lambda *inputs: tuple(pytree.tree_leaves(compiled(*inputs)))
