# pyright: basic, reportPrivateUsage=false
"""What a model does in training only: statistics that it updates, and dropouts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from padc.errors import Obstacle
from padc.frontends.torch_export.dropouts import DROPOUTS, is_idle_dropout
from padc.frontends.torch_export.nodes import nodes_of, schema_name

EVAL = "it is in training: call model.eval() before exporting"


def trained_statistics(
    ep: ExportedProgram, changed: Collection[str]
) -> Mapping[Node, Sequence[str]]:
    """The buffers among `changed` that each batch norm in training updates."""
    held = {
        spec.arg.name: spec.target
        for spec in ep.graph_signature.input_specs
        if spec.kind == InputKind.BUFFER
    }
    found: dict[Node, Sequence[str]] = {}
    for node in ep.graph.nodes:
        if "batch_norm" not in schema_name(node.target):
            continue
        arguments = cast(OpOverload, node.target)._schema.arguments
        given = dict(zip((each.name for each in arguments), node.args))
        if given.get("training", given.get("train")) is True:
            statistics = (given.get("running_mean"), given.get("running_var"))
            names = [each.name for each in statistics if isinstance(each, Node)]
            targets = [held[name] or "" for name in names if name in held]
            if not set(targets).isdisjoint(changed):
                found[node] = targets
    return found


def training_problems(
    ep: ExportedProgram, changed: Collection[str]
) -> list[tuple[Node, Obstacle]]:
    """
    The batch norms that update statistics, and dropouts next to them.

    Without such a batch norm, dropouts are for a later step to refuse. `changed` are
    the buffers that the program changes.
    """
    trained = trained_statistics(ep, changed)
    found = [(node, updated(node, targets)) for node, targets in trained.items()]
    for node in nodes_of(ep.graph_module) if trained else ():
        if schema_name(node.target) in DROPOUTS and not is_idle_dropout(node):
            message = f"{schema_name(node.target)}: it draws random numbers"
            found.append((node, Obstacle(message, EVAL)))
    return found


def updated(node: Node, targets: Sequence[str]) -> Obstacle:
    """Why a batch norm that updates the buffers `targets` cannot be imported."""
    buffers = " and ".join(f"'{target}'" for target in targets)
    message = f"{schema_name(node.target)}: the model changes its buffers {buffers}"
    return Obstacle(message, EVAL)
