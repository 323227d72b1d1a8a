# pyright: basic, reportPrivateUsage=false
"""
Calls of functions: `cond`, `while_loop`, `map` and `scan` of PyTorch.

The functions are graphs of their own. Branches become the regions of a
`torch.prim.If`, a loop's condition and body that of a `torch.prim.Loop`. A `map` or
`scan` of few steps is written out. A longer one is a loop that writes the results of
each step to tensors that are there before it:

    out = zeros([n, ...])
    loop n times, with i, carrying c and out:
        c, y = function(c, x[i])
        out[i] = y
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import sympy
import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node
from torch.utils._sympy.functions import FloorDiv
from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType, NameLoc, StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue

from padc.errors import Obstacle
from padc.frontends.torch_export.function_builder import (
    FunctionBuilder,
    Imported,
    named,
)
from padc.frontends.torch_export.locations import node_location
from padc.frontends.torch_export.types import expression_of, tensor_type, type_of
from padc.ir import torch as torch_d
from padc.ir.torch.describe import describe_type

MOST_OPS = 64
"""A `map` or `scan` that becomes more ops is a loop."""
NO_LIMIT = 2**63 - 1
"""How often a `torch.prim.Loop` may run that only its condition ends."""

ARITHMETIC: Mapping[Any, str] = {
    sympy.Add: "aten.add.int",
    sympy.Mul: "aten.mul.int",
    FloorDiv: "aten.floordiv.int",
}
"""The ops on sizes that functions of sympy are."""


class UnimportedError(Exception):
    """An op of a function cannot be imported, which has been reported."""


class GraphImporter(Protocol):
    """The part of `Importer` that control flow needs: graphs, blocks, regions."""

    function: FunctionBuilder
    """The function, or region of it, that ops are added to."""

    def graph(self, node: Node) -> GraphModule:
        """The function that a node of the current graph names."""
        ...

    def inline(
        self, module: GraphModule, operands: Sequence[Imported]
    ) -> list[Imported]:
        """Add the ops of a graph; returns its results."""
        ...

    def region(
        self, types: Sequence[Attribute], build: Callable[[Sequence[SSAValue]], None]
    ) -> Region:
        """A region whose block has arguments of these types, and what `build` adds."""
        ...


def import_control_flow(importer: GraphImporter, node: Node) -> Imported:
    """Import a call of one of `CALLS`."""
    return CALLS[name_of(node)](importer, node)


def is_control_flow(node: Node) -> bool:
    return name_of(node) in CALLS


def name_of(node: Node) -> str:
    """The name of the higher-order op that a node calls; "" if it calls none."""
    target = node.target
    return target.name() if isinstance(target, HigherOrderOperator) else ""


def import_cond(importer: GraphImporter, node: Node) -> Imported:
    predicate, *functions, given = cast(Sequence[Any], node.args)
    condition = condition_of(importer, node, operand(importer, predicate))
    operands = [operand(importer, each) for each in given]
    returned: list[Sequence[Attribute]] = []

    def branch(function: Node) -> Region:
        def build(_: Sequence[SSAValue]) -> None:
            results = importer.inline(importer.graph(function), operands)
            returned.append([each.type for each in results])
            values = [leaving(importer, node, each) for each in results]
            importer.function.add(torch_d.IfYieldOp(values), node)

        return importer.region([], build)

    on_true, on_false = map(branch, functions)
    types = [common_type(node, a, b) for a, b in zip(*returned, strict=True)]
    crossing = [crossing_type(each) for each in types]
    op = torch_d.IfOp(condition, crossing, on_true, on_false)
    return added(importer, node, op, types)


def import_while_loop(importer: GraphImporter, node: Node) -> Imported:
    test, body, carried, given = cast(Sequence[Any], node.args)
    additional = [operand(importer, each) for each in given]
    test, body = importer.graph(test), importer.graph(body)
    initial = [operand(importer, each) for each in carried]

    def holds(values: Sequence[Imported]) -> SSAValue:
        (condition,) = importer.inline(test, [*values, *additional])
        return condition_of(importer, node, condition)

    def step(_: SSAValue, values: Sequence[Imported]) -> Sequence[Imported]:
        return importer.inline(body, [*values, *additional])

    most = importer.function.constant("int", NO_LIMIT)
    values = [each.meta["val"] for each in body.graph.find_nodes(op="placeholder")]
    types = [type_of(value) for value in values[: len(initial)]]
    return add_loop(importer, node, most, types, initial, step, holds)


def import_map(importer: GraphImporter, node: Node) -> Imported:
    function, xs, additional = cast(Sequence[Any], node.args)
    return import_steps(importer, node, function, [], xs, additional)


def import_scan(importer: GraphImporter, node: Node) -> Imported:
    function, carried, xs, additional = cast(Sequence[Any], node.args)
    return import_steps(importer, node, function, carried, xs, additional)


CALLS: Mapping[str, Callable[[GraphImporter, Node], Imported]] = {
    "cond": import_cond,
    "map_impl": import_map,
    "scan": import_scan,
    "while_loop": import_while_loop,
}
"""By the names of higher-order ops."""


# --- steps over the first dimension of tensors ----------------------------------------


def import_steps(
    importer: GraphImporter,
    node: Node,
    function: Node,
    carried: Sequence[Any],
    xs: Sequence[Node],
    given: Sequence[Any],
) -> Imported:
    """`function(*carried, *x, *given)` for each `x` of `xs`, with stacked results."""
    module = importer.graph(function)
    initial = [operand(importer, each) for each in carried]
    tensors = [operand(importer, each) for each in xs]
    additional = [operand(importer, each) for each in given]

    def step(
        i: int | SSAValue, values: Sequence[Imported]
    ) -> tuple[Sequence[Imported], Sequence[Imported]]:
        parts = [element(importer, node, x, i) for x in tensors]
        results = importer.inline(module, [*values, *parts, *additional])
        return results[: len(initial)], results[len(initial) :]

    count = xs[0].meta["val"].shape[0]
    ops = sum(each.op == "call_function" for each in module.graph.nodes)
    if isinstance(count, int) and 0 < count * ops <= MOST_OPS:
        outputs: list[Sequence[Imported]] = []
        for i in range(count):
            initial, made = step(i, initial)
            outputs.append(made)
        return [*initial, *(stacked(importer, node, ys) for ys in zip(*outputs))]

    examples = node.meta["val"][len(initial) :]
    sources = [each for each in (*carried, *xs, *given) if isinstance(each, Node)]
    zeros = [zeros_like(importer, node, each, sources) for each in examples]

    def body(i: SSAValue, values: Sequence[Imported]) -> Sequence[Imported]:
        kept, outs = values[: len(initial)], values[len(initial) :]
        kept, made = step(i, kept)
        written = [
            write(importer, node, out, y, i) for out, y in zip(outs, made, strict=True)
        ]
        return [*kept, *written]

    types = [type_of(each) for each in node.meta["val"]]
    most = emit_size(importer, node, count, sources)
    true = importer.function.constant("bool", True)
    return add_loop(
        importer, node, most, types, [*initial, *zeros], body, lambda values: true
    )


def element(
    importer: GraphImporter, node: Node, x: SSAValue, i: int | SSAValue
) -> SSAValue:
    """`x[i]`"""
    type = torch_d.VTensorType.get(element_type(x), shape_of(x)[1:])
    return emit(importer, node, "aten.select.int", type, self=x, dim=0, index=i)


def stacked(importer: GraphImporter, node: Node, ys: Sequence[SSAValue]) -> SSAValue:
    type = torch_d.VTensorType.get(element_type(ys[0]), (len(ys), *shape_of(ys[0])))
    return emit(importer, node, "aten.stack", type, tensors=ys, dim=0)


def write(
    importer: GraphImporter, node: Node, out: SSAValue, y: SSAValue, i: SSAValue
) -> SSAValue:
    """`out`, where `y` is `out[i]`."""
    arguments: Any = {"self": out, "src": y, "dim": 0, "index": i}
    return emit(importer, node, "aten.select_scatter", out.type, **arguments)


def zeros_like(
    importer: GraphImporter, node: Node, example: torch.Tensor, sources: Sequence[Node]
) -> SSAValue:
    """A tensor for the results of all steps."""
    sizes = [emit_size(importer, node, size, sources) for size in example.shape]
    arguments: Any = {"size": sizes, "dtype": example.dtype}
    return emit(importer, node, "aten.zeros", tensor_type(example), **arguments)


def emit_size(
    importer: GraphImporter,
    node: Node,
    size: int | torch.SymInt,
    sources: Sequence[Node],
) -> SSAValue:
    """A size that is known, or computed from those of the tensors of `sources`."""
    return emit_expression(importer, node, expression_of(size), sources)


def emit_expression(
    importer: GraphImporter, node: Node, expression: Any, sources: Sequence[Node]
) -> SSAValue:
    if expression.is_Integer:
        return importer.function.constant("int", int(expression))
    for source in sources:
        value = source.meta["val"]
        sizes = value.shape if isinstance(value, torch.Tensor) else ()
        for dim, size in enumerate(sizes):
            if expression_of(size) == expression:
                x, type = operand(importer, source), torch_d.IntType()
                return emit(importer, node, "aten.size.int", type, self=x, dim=dim)
    if (name := ARITHMETIC.get(expression.func)) is None:
        raise Obstacle(
            f"a '{name_of(node)}' whose results have a size that is computed inside, "
            f"{expression}",
            "give it an operand of that size",
        )
    first, *others = (
        emit_expression(importer, node, part, sources) for part in expression.args
    )
    for other in others:
        first = emit(importer, node, name, torch_d.IntType(), a=first, b=other)
    return first


# --- loops ----------------------------------------------------------------------------


def add_loop(
    importer: GraphImporter,
    node: Node,
    most: SSAValue,
    types: Sequence[Attribute],
    initial: Sequence[Imported],
    step: Callable[[SSAValue, Sequence[Imported]], Sequence[Imported]],
    holds: Callable[[Sequence[Imported]], SSAValue],
) -> Imported:
    """A loop that carries values of `types` through `step` while `holds`."""

    def build(arguments: Sequence[SSAValue]) -> None:
        number, *values = arguments
        results = step(number, entered(importer, node, values, types))
        again = holds(results)
        carried = [leaving(importer, node, each) for each in results]
        importer.function.add(torch_d.LoopConditionOp(again, carried), node)

    condition = holds(initial)
    given = [leaving(importer, node, each) for each in initial]
    crossing = [crossing_type(each) for each in types]
    body = importer.region([torch_d.IntType(), *crossing], build)
    op = torch_d.LoopOp(most, condition, given, crossing, body)
    return added(importer, node, op, types)


def added(
    importer: GraphImporter, node: Node, op: Operation, types: Sequence[Attribute]
) -> list[SSAValue]:
    """Add an op of control flow; returns its results, of `types`."""
    op.location = NameLoc(StringAttr(name_of(node)), node_location(node))
    importer.function.add(op)
    for result in op.results:
        named(result, node.name)
    return entered(importer, node, op.results, types)


def entered(
    importer: GraphImporter,
    node: Node,
    values: Sequence[SSAValue],
    types: Sequence[Attribute],
) -> list[SSAValue]:
    return [entering(importer, node, *each) for each in zip(values, types, strict=True)]


# --- values ---------------------------------------------------------------------------


def operand(importer: GraphImporter, given: Any) -> SSAValue:
    """The value of an argument: of a node, or a number."""
    if isinstance(given, Node):
        return importer.function.values[given]
    return importer.function.constant("Scalar", given)


def condition_of(importer: GraphImporter, node: Node, value: SSAValue) -> SSAValue:
    """A tensor of one bool, or a bool, as a bool."""
    if isinstance(value.type, torch_d.VTensorType):
        return emit(importer, node, "aten.Bool.Tensor", torch_d.BoolType(), a=value)
    return value


def leaving(importer: GraphImporter, node: Node, value: SSAValue) -> SSAValue:
    """A value that crosses the border of a region: complex numbers as pairs."""
    if (type := crossing_type(value.type)) == value.type:
        return value
    return emit(importer, node, "aten.view_as_real", type, self=value)


def entering(
    importer: GraphImporter, node: Node, value: SSAValue, type: Attribute
) -> SSAValue:
    """The inverse of `leaving`, for a value that was of `type`."""
    if crossing_type(type) == type:
        return value
    return emit(importer, node, "aten.view_as_complex", type, self=value)


def crossing_type(type: Attribute) -> Attribute:
    """The type in which a value crosses the border of a region."""
    if isinstance(type, torch_d.VTensorType):
        if isinstance(number := type.element_type, ComplexType):
            shape = (*type.get_shape(), 2)
            return torch_d.VTensorType.get(number.element_type, shape)
    return type


def common_type(node: Node, a: Attribute, b: Attribute) -> Attribute:
    """The type of a result whose branches have the types `a` and `b`."""
    if a == b:
        return a
    if isinstance(a, torch_d.VTensorType) and isinstance(b, torch_d.VTensorType):
        m, n = a.get_shape(), b.get_shape()
        if a.element_type == b.element_type and len(m) == len(n):
            shape = tuple(i if i == j else DYNAMIC_INDEX for i, j in zip(m, n))
            return torch_d.VTensorType.get(a.element_type, shape)
    raise Obstacle(
        f"a '{name_of(node)}' whose branches return {describe_type(a)} and "
        f"{describe_type(b)}",
        "return the same dtype and rank from both",
    )


def element_type(value: SSAValue) -> Attribute:
    assert isinstance(value.type, torch_d.VTensorType)
    return value.type.element_type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, torch_d.VTensorType)
    return value.type.get_shape()


def emit(
    importer: GraphImporter, node: Node, name: str, type: Attribute, **arguments: Any
) -> SSAValue:
    """Add the ATen op of a schema, with defaults for the arguments not given."""
    function, schema = importer.function, torch_d.schema_of(name)
    assert schema is not None
    operands = [
        function.operand(each.type, arguments.get(each.name, each.default))
        for each in schema.arguments
    ]
    return function.add(torch_d.aten_op(name, operands, [type]), node).results[0]
