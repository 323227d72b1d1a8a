"""Assertions on sizes: none are in programs of PyTorch after 2.8, so they are put in."""

from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram
from torch.fx import Node

from padc.frontends.torch_export.size_assertions import size_assertions
from padc.versions import numbers

pytestmark = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 asserts more sizes"
)

ASSERT = torch.ops.aten._assert_scalar.default


class Sized(torch.nn.Module):
    """Takes a number, asserts something of a value, and has a size of another tensor."""

    def forward(self, x: torch.Tensor, n: int, k: torch.Tensor) -> torch.Tensor:
        count: Any = k.item()
        torch._check(count >= 2)
        return x.relu() + x.shape[0] * n + torch.ones(count).sum()


def program() -> ExportedProgram:
    sizes = ({0: Dim("rows", min=0, max=9)}, None, None)
    args = torch.rand(4, 3), 3, torch.tensor(3)
    return torch.export.export(Sized(), args, dynamic_shapes=sizes)


def with_assertion(ep: ExportedProgram, condition: Any) -> Node:
    """Assert, after all other ops, what a function says of the size that ops take."""
    (size, *_) = [
        node
        for node in ep.graph.nodes
        if node.op == "call_function" and "sym_size" in str(node.target)
    ]
    with ep.graph.inserting_before(ep.graph.output_node()):
        asserted = condition
        if callable(condition):
            value = size.meta["val"]
            asserted = ep.graph.call_function(condition, (size, 2))
            asserted.meta["val"] = condition(value, 2)
        return ep.graph.call_function(ASSERT, (asserted, "wrong"))


def is_at_least(a: Any, b: Any) -> Any:
    return a >= b


def test_assertions_on_values_of_tensors_are_no_guards():
    ep = program()

    assert any(node.target == ASSERT for node in ep.graph.nodes)
    assert size_assertions(ep) == {}


def test_an_assertion_on_a_size():
    ep = program()
    node = with_assertion(ep, is_at_least)

    assert {node: "s"} == {
        at: str(condition)[0] for at, condition in size_assertions(ep).items()
    }


def test_assertions_that_always_hold():
    ep = program()
    with_assertion(ep, True)
    held = with_assertion(ep, is_at_least).args[0]
    assert isinstance(held, Node)
    held.meta["val"] = True

    assert size_assertions(ep) == {}
