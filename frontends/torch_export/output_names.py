# pyright: basic
"""The names of a model's outputs."""

from __future__ import annotations

import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind


def output_names(ep: ExportedProgram) -> list[str]:
    """
    A name for each output of a program, constants and None included.

    The keys and fields that lead to an output, joined by underscores; without any, the
    name of the node that computes it.
    """
    paths, specs = paths_of_outputs(ep), ep.graph_signature.output_specs
    returned = [spec.arg for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    return [paths.get(i, arg.name) for i, arg in enumerate(returned)]


def paths_of_outputs(ep: ExportedProgram) -> dict[int, str]:
    """The names of the outputs that keys or fields lead to, by position."""
    spec = ep.call_spec.out_spec
    if spec is None:
        return {}
    try:
        outputs = pytree.tree_unflatten(range(spec.num_leaves), spec)
        leaves, _ = pytree.tree_flatten_with_path(outputs)
    except ValueError:  # A container that was registered without names.
        return {}
    paths: dict[int, str] = {}
    for path, index in leaves:
        keys = [
            str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", ""))))
            for part in path
        ]
        if any(not isinstance(part, pytree.SequenceKey) for part in path):
            paths[index] = "_".join(keys)
    return paths
