# pyright: basic, reportMissingTypeStubs=false
"""
The arguments of a node of coremltools' graph.

In a TorchScript graph all arguments are names. coremltools rounds the numbers among
them to float32, replaces infinity and the largest integer, and has one variable for a
number and for a tensor of rank 0. So this file reads constants and lists from the nodes
that make them. In an exported graph constants stand in the node itself.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.utils._pytree as pytree

from padc.backends.coreml import quiet
from padc.backends.coreml.app.interface import INT32
from padc.backends.coreml.torch_ops.overloads import overloads_named

with quiet():
    from coremltools.converters.mil.frontend.torch.utils import TorchFrontend
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.var import Var

LISTS = ("listconstruct", "tupleconstruct")

_producers: WeakKeyDictionary[Any, Mapping[str, Any]] = WeakKeyDictionary()
"""The nodes of each graph that make constants and lists, by their result's name."""


def arguments_of(context: Any, node: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """
    The arguments of `node`, by position and by keyword.

    Each is a Python value, a variable of pymil, or a list of these.
    """
    if context.frontend == TorchFrontend.TORCHSCRIPT:
        producers = producers_of(context.torch_graph)
        return [scripted(context, name, producers) for name in node.inputs], {}
    texts = texts_of(node.kind)

    def value_of(place: int | str, value: Any) -> Any:
        return value if place in texts else exported(context, value)

    # A device, layout or memory format is an empty tuple here.
    given = {key: value[0] for key, value in (node.kwinputs or {}).items() if value}
    return (
        [value_of(place, value) for place, value in enumerate(node.inputs)],
        {key: value_of(key, value) for key, value in given.items()},
    )


@functools.cache
def texts_of(kind: str) -> frozenset[int | str]:
    """
    The places and names of arguments of a kind that may be text.

    coremltools has the names of nodes as text, too: `gelu(x, approximate="tanh")` would
    get the result of a node that is named `tanh`.
    """
    arguments = (op._schema.arguments for op in overloads_named(kind))
    return frozenset(
        place
        for each in arguments
        for number, argument in enumerate(each)
        if "str" in str(argument.type)
        for place in (argument.name, *([number] * (not argument.kwarg_only)))
    )


def has_wide_integers(context: Any, node: Any) -> bool:
    """Whether an argument is an integer beyond int32, and not the end of a slice."""
    numbers = pytree.tree_leaves(arguments_of(context, node))
    return any(
        isinstance(x, int) and not INT32.min <= x <= INT32.max and x != 2**63 - 1
        for x in numbers
    )


def has_complex_tensors(context: Any, node: Any) -> bool:
    """Whether an argument is a complex variable."""
    leaves = pytree.tree_leaves(arguments_of(context, node))
    return any(isinstance(x, Var) and types.is_complex(x.dtype) for x in leaves)


def scripted(context: Any, name: str, producers: Mapping[str, Any]) -> Any:
    """The value of a name of a TorchScript graph."""
    producer = producers.get(name)
    if producer is None:
        return context[name]
    if producer.kind in LISTS:
        return [scripted(context, each, producers) for each in producer.inputs]
    value = producer.attr["value"]
    return context[name] if isinstance(value, torch.Tensor) else value


def exported(context: Any, value: Any) -> Any:
    """The value of an argument of a node of an exported graph."""
    if isinstance(value, str):
        return context[value] if value in context else value
    if isinstance(value, list | tuple):
        return [exported(context, part) for part in value]
    return value


def producers_of(graph: Any) -> Mapping[str, Any]:
    """The nodes of a graph that make constants and lists, by their result's name."""
    if graph not in _producers:
        _producers[graph] = {
            node.name: node
            for node in nodes_of(graph.nodes)
            if node.kind in LISTS or node.kind == "constant"
        }
    return _producers[graph]


def nodes_of(nodes: Iterable[Any]) -> Iterator[Any]:
    """All of `nodes`, and those of their blocks."""
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from nodes_of(block.nodes)
