# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""
`.pt2` files to exported programs, without running code that they bring.

`torch.export.load` unpickles what a file says, evaluates its texts, and loads machine
code. Here the archive, its graph and its pickles are checked first, and PyTorch only
gets the parsed graph and tensors. What the check does not know is refused.

PyTorch has no public function that takes the parts of a file: `torch._export.serde` is
private, and the same in PyTorch 2.8 to 2.15.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
import torch.utils._pytree as pytree
from torch._export.serde import schema, serialize
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from padc.common.archive import Archive, UnsafeError
from padc.common.paths import path_of
from padc.common.pt2_files import check_format, refusals
from padc.common.pt2_tensors import read_json
from padc.frontends.torch_export.consistency import check_consistency
from padc.frontends.torch_export.export import quiet
from padc.frontends.torch_export.nodes import nodes_of
from padc.frontends.torch_export.plain_pickle import (
    VALUES,
    are_arguments,
    are_tensors,
    load_plain,
)
from padc.frontends.torch_export.program_text import check_name, check_texts
from padc.frontends.torch_export.schema_types import check_types
from padc.frontends.torch_export.stored_tensors import read_tensors
from padc.ir.torch.calls import checked_kernels

GRAPH, EXAMPLES = "models/model.json", "data/sample_inputs/model.pt"
MOST_VALUES = 100_000
"""Values in the example inputs."""

UNTRUSTED = "padc.untrusted"
"""What says in a module's `meta` that its ops may have any operands."""


def load(path: str | Path, *, trust: bool = False) -> ExportedProgram:
    """
    The program in a `.pt2` file that `torch.export.save` wrote.

    Args:
        path: The file.
        trust: Load it with `torch.export.load`, which runs code that the file brings.
            Otherwise a file that needs this, or is not as PyTorch writes it, is
            refused.

    Returns:
        The program, with its example inputs.

    Raises:
        UsageError: There is no such file, or it may run code.
        InvalidProgramError: The file does not hold an exported program.

    Example:
        >>> import padc, torch
        >>> ep = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
        >>> torch.export.save(ep, "relu.pt2")
        >>> padc.load("relu.pt2").graph_signature.user_inputs
        ('input',)
    """
    path = path_of(path)
    with refusals(path), quiet():
        define_quantized_ops()
        if trust:
            return torch.export.load(path)
        with path.open("rb") as file:
            return read_program(Archive(file))


def define_quantized_ops() -> None:
    """Define the ops `quantized_decomposed`, which PyTorch has in a library apart."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.ao.quantization.fx._decomposed")


def read_program(archive: Archive) -> ExportedProgram:
    """The program in an archive; raises UnsafeError unless all of it is plain data."""
    check_format(archive)
    graph: Any = read_json(archive, GRAPH)
    check_texts(graph)
    state = tensors_in(archive, "data/weights/")
    constants = tensors_in(archive, "data/constants/")
    examples: Any = None
    if EXAMPLES in archive and archive.size(EXAMPLES):
        examples = read_pickle(archive, EXAMPLES)
        # PyTorch would unpickle bytes again, without any check.
        if not are_arguments(examples):
            raise UnsafeError(f"its member {EXAMPLES} holds no arguments of a call")
    program = cast(Any, serialize._dict_to_dataclass(schema.ExportedProgram, graph))
    check_types(program)
    loaded = serialize.ExportedProgramDeserializer().deserialize(
        program, state, constants, examples
    )
    check_consistency(loaded)
    loaded.graph_module.meta[UNTRUSTED] = True
    return loaded


def is_trusted(module: torch.nn.Module) -> bool:
    """
    Whether PyTorch made a module, or the user trusts the file that it is from.

    The graph of a program that nobody trusts, and what `ExportedProgram.module()` makes
    of it, say so in `meta`. All other modules are trusted.
    """
    return UNTRUSTED not in getattr(module, "meta", {})


def kernels_for(module: torch.nn.Module) -> contextlib.AbstractContextManager[Any]:
    """The mode in which PyTorch may run a module."""
    return contextlib.nullcontext() if is_trusted(module) else checked_kernels()


def needs_checked_memory(program: ExportedProgram) -> bool:
    """
    Whether only checks at each load and store tell where machine code reads and writes.

    Of sizes that depend on values, nothing is known but what the file says.
    """
    values = [node.meta.get("val") for node in nodes_of(program.graph_module)]
    sizes = [
        leaf
        for leaf in pytree.tree_leaves(values)
        if isinstance(leaf, torch.Tensor | torch.SymInt)
    ]
    return not is_trusted(program.graph_module) and bool(free_unbacked_symbols(sizes))


def tensors_in(archive: Archive, folder: str) -> dict[str, torch.Tensor]:
    """The weights or the constants of the program, by name."""
    if (pickled := f"{folder}model.pt") in archive:  # up to 2.8
        tensors: Any = read_pickle(archive, pickled)
        if not are_tensors(tensors):
            raise UnsafeError(f"its member {pickled} holds other than tensors")
    else:
        tensors = read_tensors(archive, folder)
    for name in tensors:
        check_name(name)
    return tensors


def read_pickle(archive: Archive, name: str) -> Any:
    """
    Tensors, numbers and texts in containers, which `torch.save` wrote.

    Raises UnsafeError if the pickle names any other class or function.
    """
    try:
        loaded = load_plain(archive.archive(name))
        for number, value in enumerate(values_in(loaded)):
            if number > MOST_VALUES:
                raise UnsafeError(f"has more than {MOST_VALUES} values")
            if not isinstance(value, VALUES):
                raise UnsafeError(f"holds a {type(value).__name__}")
    except UnsafeError as error:
        raise UnsafeError(f"its member {name} is pickled and {error}") from error
    return loaded


def values_in(tree: Any) -> Iterator[Any]:
    """The values of nested containers, each as often as it occurs."""
    waiting = [iter([tree])]
    while waiting:
        for value in waiting[-1]:
            yield value
            if len(waiting) > MOST_VALUES:
                raise UnsafeError(f"is nested more than {MOST_VALUES} levels deep")
            if isinstance(value, dict):
                waiting.append(iter(cast(dict[Any, Any], value).values()))
                break
            if isinstance(value, list | tuple | set):
                waiting.append(iter(cast(list[Any], value)))
                break
        else:
            waiting.pop()
