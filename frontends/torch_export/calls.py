# pyright: basic, reportPrivateUsage=false
"""A node that calls an ATen op becomes one op, with all arguments written out."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.utils._pytree as pytree
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.frontends.compat import unknown_arguments
from padc.frontends.torch_export.dropouts import is_idle_dropout
from padc.frontends.torch_export.function_builder import (
    FunctionBuilder,
    Imported,
    RankZero,
    named,
)
from padc.frontends.torch_export.functional import as_functional
from padc.frontends.torch_export.nodes import is_mutable, schema_name
from padc.frontends.torch_export.scalars import SCALAR_OPS, import_scalar_op
from padc.frontends.torch_export.size_limits import arguments, shape_of
from padc.frontends.torch_export.types import describe_operands, type_of
from padc.ir import torch as torch_d

# With a number as first operand: the same op with the number as second operand.
SWAPPED: Mapping[str, str] = {
    "aten.sub.Tensor": "aten.rsub.Tensor",
    "aten.mul.Tensor": "aten.mul.Tensor",
}


def import_call(function: FunctionBuilder, node: Node) -> Imported:
    """
    Import a call; raises Obstacle if padc does not have the op.

    An op in place is imported as `as_functional`.
    """
    target = node.target
    if target is operator.getitem:
        source, index = cast(tuple[Node, int], node.args)
        return function.values[source][index]
    if target in SCALAR_OPS:
        return import_scalar_op(function, node)
    if is_batch_norm_in_inference(node):
        return [import_batch_norm(function, node)]
    if not isinstance(target, torch._ops.OpOverload):
        raise not_an_op(node)
    if is_idle_dropout(node) or schema_name(target) == "aten.detach_":
        return function.values[cast(Node, node.args[0])]
    name, args = as_functional(node)
    if name.startswith("aten.squeeze"):
        check_squeeze(node)
    schema = torch_d.schema_of(name)
    if schema is None:
        raise unknown_op(name, node)
    if schema.name == schema_name(target) and (
        unknown := unknown_arguments(node, schema)
    ):
        raise Obstacle(
            f"'{name}' on {describe_operands(node)} with {', '.join(unknown)}",
            f"padc does not know this argument of PyTorch {torch.__version__}; leave "
            "it out",
        )
    arguments = [
        args[index]
        if index < len(args)
        else node.kwargs.get(argument.name, argument.default)
        for index, argument in enumerate(schema.arguments)
    ]
    schema, arguments = with_numbers(schema, arguments)
    return add_aten(function, node, schema, arguments, results_of(node))


def check_squeeze(node: Node) -> None:
    """Raise Obstacle if it depends on values which dimensions are left."""
    given = arguments(node)
    shape = shape_of(given["self"])
    dims = given.get("dim", range(len(shape)))
    for dim in [dims] if isinstance(dims, int) else dims:
        # PyTorch takes 0 and -1 as dimensions of a number, too.
        if -len(shape) <= dim < len(shape) and free_unbacked_symbols(shape[dim]):
            raise Obstacle(
                f"'{schema_name(node.target)}' of a size that depends on values, and "
                "may be 1",
                "index the dimension instead, x[0]",
            )


def not_an_op(node: Node) -> Obstacle:
    """Why a call of a function that is no op cannot be imported."""
    if isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool):
        name = getattr(node.target, "__name__", node.target)
        message = f"'{name}' on {describe_operands(node)}"
        message = f"{message}: padc has no such function of sizes"
        return Obstacle(message, "compute sizes by +, -, * and //")
    return Obstacle(
        f"'{node.target}' on {describe_operands(node)}",
        "padc imports graphs of ATen ops; write it with ordinary tensor ops",
    )


def unknown_op(name: str, node: Node) -> Obstacle:
    """Why a call of an op that the dialect does not have cannot be imported."""
    values = node.meta.get("val"), [x.meta.get("val") for x in node.all_input_nodes]
    tensors = [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]
    if any(x.layout != torch.strided for x in tensors):
        reason, hint = "padc has no sparse tensors", "compute with dense tensors"
    elif name.startswith("quantized_decomposed."):
        reason = "padc has quantization by known scales, of tensors and channels"
        hint = "quantize statically, not dynamically or by groups"
    elif not name.startswith(("aten.", "prims.")):
        reason, hint = "it is not one of ATen's ops", "write it with ops of PyTorch"
    elif is_mutable(node):
        reason = "it changes a tensor in place, and PyTorch has no other form of it"
        hint = "write it with ops that return new tensors"
    else:
        reason, hint = "padc does not have it", "write it with other ops of PyTorch"
    return Obstacle(f"'{name}' on {describe_operands(node)}: {reason}", hint)


def results_of(node: Node) -> Any:
    """
    The results that a call declares.

    PyTorch 2.8 gives the states of an LSTM a dimension too many.
    """
    results: Any = node.meta.get("val")
    if node.target != torch.ops.aten.lstm.input or results[1].dim() == 3:
        return results
    return results[0], *(state.squeeze(1) for state in results[1:])


def is_batch_norm_in_inference(node: Node) -> bool:
    """Whether `node` is a `batch_norm(training=False)` with one result in use."""
    target = torch.ops.aten._native_batch_norm_legit_no_training.default
    return node.target == target and all(user.args[1] == 0 for user in node.users)


def import_batch_norm(function: FunctionBuilder, node: Node) -> SSAValue:
    """The first result of a `_native_batch_norm_legit_no_training`."""
    *tensors, momentum, eps = node.args
    arguments = [*tensors, False, momentum, eps, False]
    schema = torch_d.schema_of("aten.batch_norm")
    assert schema is not None
    return add_aten(function, node, schema, arguments, node.meta["val"][0])


def add_aten(
    function: FunctionBuilder,
    node: Node,
    schema: torch_d.Schema,
    arguments: Sequence[Any],
    value: Any,
) -> Imported:
    """Add the op of `schema`; its results have the types of `value`."""
    operands = [
        function.operand(argument.type, given)
        for argument, given in zip(schema.arguments, arguments, strict=True)
    ]
    if len(schema.returns) <= 1:
        value = [value] if schema.returns else []
    types = [type_of(part) for part in value]
    op = function.add(torch_d.aten_op(schema.name, operands, types), node)
    results = [
        unpacked(function, node, named(result, node.name), part)
        for result, part in zip(op.results, value, strict=True)
    ]
    return results[0] if len(results) == 1 else results


def unpacked(
    function: FunctionBuilder, node: Node, result: SSAValue, value: Any
) -> Imported:
    """A result, or its elements if it is a list, as `value` is."""
    if not isinstance(value, list | tuple):
        return result
    types = [type_of(part) for part in value]
    unpack = function.add(torch_d.ListUnpackOp(result, types), node)
    return [named(part, node.name) for part in unpack.results]


# --- numbers where a schema has tensors ----------------------------------------------


def with_numbers(
    schema: torch_d.Schema, arguments: Sequence[Any]
) -> tuple[torch_d.Schema, Sequence[Any]]:
    """The overload that takes the numbers among `arguments`, and its arguments."""
    numbers = tuple(
        index
        for index, (argument, given) in enumerate(zip(schema.arguments, arguments))
        if argument.type == "Tensor" and is_number(given)
    )
    if numbers == (0,) and schema.name in SWAPPED:
        swapped = torch_d.schema_of(SWAPPED[schema.name])
        assert swapped is not None
        schema, numbers = swapped, (1,)
        arguments = [arguments[1], arguments[0], *arguments[2:]]
    if not numbers:
        return schema, arguments
    if (other := scalar_overload(schema, numbers)) is not None:
        return other, arguments
    return schema, with_tensors(schema, arguments, numbers)


def is_number(value: Any) -> bool:
    """Whether an argument is a number, known now or only at run time."""
    if isinstance(value, Node):
        value = value.meta.get("val")
    return isinstance(value, int | float | torch.SymInt | torch.SymFloat)


@functools.cache
def scalar_overload(
    schema: torch_d.Schema, numbers: tuple[int, ...]
) -> torch_d.Schema | None:
    """
    The overload of the same op with numbers for the arguments at `numbers`.

    In an exported graph a Python number may occur where the schema has a tensor.
    """
    wanted = [
        "Scalar" if index in numbers else argument.type
        for index, argument in enumerate(schema.arguments)
    ]
    for other in torch_d.overloads_of(schema):
        if [argument.type for argument in other.arguments] == wanted:
            return other
    return None


def with_tensors(
    schema: torch_d.Schema, arguments: Sequence[Any], numbers: Sequence[int]
) -> Sequence[Any]:
    """
    The arguments with tensors of rank 0 for the numbers at `numbers`.

    They get the dtype to which PyTorch promotes the number and the other tensors.
    Raises Obstacle if a number is known only at run time, or there is no other tensor.
    """
    values = [x.meta.get("val") if isinstance(x, Node) else x for x in arguments]
    tensors = [x for x in values if isinstance(x, torch.Tensor)]
    result = list(arguments)
    for index in numbers:
        number = values[index]
        if not isinstance(number, int | float) or not tensors:
            names = ", ".join(schema.arguments[i].name for i in numbers)
            raise Obstacle(
                f"'{schema.name}' with a number for {names}", "pass a tensor of rank 0"
            )
        dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors))
        like = next((x for x in tensors if x.dtype == dtype), tensors[0])
        result[index] = RankZero(number, torch.result_type(number, like))
    return result
