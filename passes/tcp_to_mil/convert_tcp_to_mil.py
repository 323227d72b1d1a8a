"""
Lower `tcp` ops to Core ML's.

A pad is folded into each convolution or pool that uses it, if that op can pad by the
same amounts; other pads become Core ML's `pad`. What Core ML lacks is a problem:
other passes decompose it first, by the rules of `legality`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from padc.errors import Obstacle
from padc.ir import mil, mil_types, tcp
from padc.ir.targets import DEFAULT_TARGET, resolve_target
from padc.ir.torch.describe import describe_type
from padc.ir.type_tests import is_tensor
from padc.passes.common.lowering import lower_all
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.tcp_to_mil.tcp import LOWERINGS
from padc.passes.tcp_to_mil.tcp.convolutions import split_off_added


@dataclass(frozen=True)
class ConvertTcpToMilPass(ModulePass):
    """Lower `tcp` ops to Core ML's."""

    name = "convert-tcp-to-mil"

    target: str = DEFAULT_TARGET
    """The oldest system that runs the program: iOS15, iOS16, iOS17, iOS18, ..."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = resolve_target(self.target)
        lower_all(op, tcp.ConvTransposeOp, split_off_added)
        # Users first, so that a convolution still sees the pad that it may fold.
        lower_all(op, Operation, partial(lower, target=target), users_first=True)


def lower(op: Operation, target: str) -> SSAValue | None:
    """Build what replaces the result of `op`; None if it stays."""
    lowering = LOWERINGS.get(type(op))
    if lowering is None:
        return None
    if isinstance(op, tcp.PadOp) and op.result.first_use is None:
        return None  # Every user has folded it.
    check_types(op)
    return lowering(MilBuilder(op, target), op)


def check_types(op: Operation) -> None:
    """Raise Obstacle if Core ML lacks the type of an operand or result."""
    for value in (*op.operands, *op.results):
        if not is_tensor(type := value.type):
            continue
        if type.element_type not in mil_types.ELEMENT_TYPES:
            raise Obstacle(
                f"Core ML has no {type.element_type}",
                "convert the model first, with model.float()",
            )
        if type.get_num_dims() > mil.MAX_RANK:
            raise Obstacle(
                f"Core ML's tensors have rank {mil.MAX_RANK} at most, this is "
                f"{describe_type(type)}",
                "join dimensions before it",
            )
        if 0 in type.get_shape():
            raise Obstacle(
                f"Core ML has no empty tensors, this is {describe_type(type)}",
                "leave it out",
            )
