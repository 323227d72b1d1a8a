# pyright: basic, reportPrivateUsage=false
"""
Inputs whose strides a program depends on.

`as_strided` and its kin read the elements of a tensor in the order of its memory. The
decompositions of `strided` take that order from the tensors of the export, so the
inputs that such an op is computed from need the strides of the export at each call.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.fx import Node

from padc.errors import Problem, UnsupportedError, UsageError
from padc.frontends.torch_export.functional import may_be_view
from padc.frontends.torch_export.guards import input_tensors
from padc.frontends.torch_export.nodes import functional_name, nodes_of, schema_name
from padc.frontends.torch_export.strided import ON_STRIDES


@dataclass(frozen=True)
class InputStrides:
    """What ops on strides need of an input."""

    number: int
    """The number of the input, among those that are tensors."""
    name: str
    op: str
    """An op that depends on it."""
    strides: Sequence[int] | None
    """The strides that it has to have; None for any."""
    is_shared: bool
    """Whether an op reads the memory of the input itself, at an absolute offset."""

    def check(self, tensor: Tensor) -> None:
        """Raise UsageError unless `tensor`, of the right type, is as the op needs."""
        what, given = f"the input '{self.name}'", tensor.stride()
        if self.strides and not are_alike(tensor.shape, given, self.strides):
            raise UsageError(
                f"{what} has strides {list(given)}, but the model was exported with "
                f"{list(self.strides)}, and {self.op} depends on them",
                hint="export the model with an input of these strides",
            )
        if self.is_shared and (offset := tensor.storage_offset()):
            raise UsageError(
                f"{what} is a view from element {offset} of its memory on, and "
                f"{self.op} counts from element 0",
                hint="call .clone() on it",
            )


def are_alike(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether strides lead to the same elements."""
    return 0 in shape or all(
        size == 1 or a == b for size, a, b in zip(shape, one, other, strict=True)
    )


class StridesCheck:
    """Checks the strides of tensors, for programs with ops that depend on them."""

    def __init__(self, needed: Sequence[InputStrides]):
        self.needed = needed

    def __call__(self, inputs: Sequence[Tensor]) -> None:
        """Raise UsageError for an input that a program does not take."""
        for each in self.needed:
            each.check(inputs[each.number])


class Need(enum.Flag):
    """What of a tensor an op on strides depends on."""

    STRIDES = enum.auto()
    MEMORY = enum.auto()
    """Where the tensor begins in its memory."""


def input_strides(ep: ExportedProgram) -> list[InputStrides]:
    """What ops on strides need of the inputs of `ep`."""
    arguments = [
        spec.arg.name
        for spec in ep.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)
    ]
    placeholders = {node.name: node for node in ep.graph.find_nodes(op="placeholder")}
    inputs = [placeholders[name] for name in arguments]
    needs: dict[Node, Need] = {}
    ops: dict[Node, str] = {}
    for node in nodes_of(ep.graph_module):
        if (op := functional_op(node)) not in ON_STRIDES:
            continue
        is_outer = node.graph is ep.graph
        # The operand of an op in a branch or a loop may be computed from any input.
        start = node.all_input_nodes[:1] if is_outer else inputs
        is_absolute = not is_outer or offset_of(node) is not None
        need = Need.STRIDES | Need.MEMORY if is_absolute else Need.STRIDES
        for each, found in needs_of(dict.fromkeys(start, need)).items():
            needs[each] = needs.get(each, Need(0)) | found
            ops[each] = op
    return [
        InputStrides(
            number,
            node.name,
            ops[node],
            strides_of(node) if Need.STRIDES in needs[node] else None,
            Need.MEMORY in needs[node],
        )
        for number, node in enumerate(inputs)
        if node in needs
    ]


def strides_of(node: Node) -> Sequence[int]:
    """The strides of an input; UnsupportedError if they depend on dynamic sizes."""
    strides = node.meta["val"].stride()
    if not all(isinstance(each, int) for each in strides):
        message = f"an op depends on the strides of the input '{node.name}'"
        hint = "leave its last dimensions static"
        raise UnsupportedError([Problem(f"{message}, which are dynamic", hint=hint)])
    return strides


def check_row_major(ep: ExportedProgram) -> None:
    """Raise UsageError if an op depends on strides of an input, not row-major ones."""
    inputs = input_tensors(ep)
    for each in input_strides(ep):
        if each.strides and not inputs[each.number].is_contiguous():
            raise UsageError(
                f"the input '{each.name}' was exported with strides "
                f"{list(each.strides)}, and {each.op} depends on them; those of the "
                "package are row-major",
                hint="export the model with contiguous inputs",
            )


def functional_op(node: Node) -> str:
    """The ATen op that a node calls, not in place; "" if it calls none."""
    name = schema_name(node.target)
    return name and functional_name(name)


def offset_of(node: Node) -> Any:
    """The `storage_offset` argument of an op on strides; None if it has none."""
    for place, argument in enumerate(cast(OpOverload, node.target)._schema.arguments):
        if argument.name == "storage_offset":
            given = node.args[place] if place < len(node.args) else None
            return node.kwargs.get(argument.name, given)
    return None


def needs_of(start: Mapping[Node, Need]) -> Mapping[Node, Need]:
    """What the `start` needs of each node that it is computed from, itself included."""
    needs = dict(start)
    pending = [*start]
    while pending:
        node = pending.pop()
        need = needs[node]
        if has_own_strides(node):
            need &= ~Need.STRIDES
        if not may_be_view(node):
            need &= ~Need.MEMORY
        for each in node.all_input_nodes if need else ():
            before = needs.get(each, Need(0))
            if (needed := before | need) != before:
                needs[each] = needed
                pending.append(each)
    return needs


def has_own_strides(node: Node) -> bool:
    """Whether the strides of a result do not depend on those of the operand."""
    match schema_name(node.target):
        case "aten.contiguous":
            return True
        case "aten.clone":
            format = node.kwargs.get("memory_format")
            return format not in (None, torch.preserve_format)
        case _:
            return False
