# pyright: basic, reportPrivateUsage=false
"""
Checking that the ops of a program compute values of the sizes that it says.

A program that was exported is right by construction. One in a file may say anything,
and machine code that trusted it would read and write the memory of others. PyTorch
computes the sizes of each op again here, from those of its operands.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    ValueRangesSLoc,
    free_unbacked_symbols,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from padc.common.archive import UnsafeError
from padc.errors import UnsupportedError
from padc.frontends.torch_export.expressions import LARGEST_EXPONENT
from padc.frontends.torch_export.guards import (
    guards_code,
    input_numbers,
    read_guard,
    restore_guards,
)
from padc.frontends.torch_export.nodes import (
    attribute_of,
    graph_modules,
    is_mutable,
    schema_name,
)
from padc.frontends.torch_export.remade_guards import remade_guards
from padc.frontends.torch_export.small_sizes import LEAST

SAMPLES = 64
"""How many choices of sizes expressions are compared at."""
LARGEST = 2**20
"""The largest of them, where a size has no bound."""


class InconsistentError(ValueError):
    """The message names a node, and what is wrong with its value."""


def check_consistency(program: ExportedProgram) -> None:
    """Raise InconsistentError at the first node whose value is not what it computes."""
    check_held(program)
    check_outputs(program)
    give_ranges(program)
    if wrong := restore_guards(program):
        # PyTorch would conclude that it never holds.
        raise InconsistentError(f"its example does not fit its guard {wrong[0]}")
    with remade_guards(program) as guards:
        check_nodes(program)
    add_guards(program, guards)


def add_guards(program: ExportedProgram, guards: Sequence[str]) -> None:
    """
    Add guards without which the program's values have other sizes than it says.

    Raises UnsafeError for one that cannot be checked at a call.
    """
    inputs = input_numbers(program)
    for text in guards:
        try:
            read_guard(text, inputs)
        except UnsupportedError as error:
            raise UnsafeError(
                f"its sizes are right only where {text}, which padc cannot check"
            ) from error
    program._guards_code = list(dict.fromkeys([*guards_code(program), *guards]))


def check_nodes(program: ExportedProgram) -> None:
    """Raise InconsistentError at the first node whose value is not what it computes."""
    modes: dict[int, Any] = {}
    for module in graph_modules(program.graph_module):
        mode = modes.get(id(module))
        with contextlib.nullcontext() if mode is None else autocast(*mode):
            for node in module.graph.nodes:
                check_node(module, node)
        for node in module.graph.nodes:
            # The graphs of an op, which come later.
            own = node.args[:4] if node.target is AUTOCAST else mode
            for each in node.args:
                if isinstance(each, Node) and each.op == "get_attr":
                    graph = attribute_of(module, str(each.target))
                    modes[id(graph)] = own


def autocast(device: Any, dtype: Any, enabled: Any, *_: Any) -> Any:
    """The mode that a `wrap_with_autocast` names; InconsistentError if none does."""
    try:
        # Its cache would keep fake tensors.
        return torch.autocast(device, dtype, bool(enabled), cache_enabled=False)
    except Exception as error:
        raise InconsistentError(f"no mode of autocast: {error}") from error


def check_node(module: torch.fx.GraphModule, node: Node) -> None:
    """Raise InconsistentError if a node of a module is not what it computes."""
    if isinstance(node.target, OpOverload):
        check_call(node)
    elif node.target in (operator.getitem, *POWERS):
        check_operator(node)
    if node.target in WITH_LISTS:
        check_lists(node, *WITH_LISTS[node.target])
    if node.target is torch.ops.higher_order.cond:
        check_condition(node)
    if node.target in REGIONS:
        check_regions(module, node, *REGIONS[node.target])


def check_held(program: ExportedProgram) -> None:
    """Raise InconsistentError unless parameters and buffers are as the graph says."""
    nodes = {node.name: node for node in program.graph.nodes}
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT or not isinstance(spec.target, str):
            continue
        held = program.state_dict.get(spec.target)
        held = program.constants.get(spec.target) if held is None else held
        is_constant = spec.kind == InputKind.CONSTANT_TENSOR
        if is_constant and isinstance(held, torch.nn.Parameter):
            raise InconsistentError(f"the constant {spec.target} is a parameter")
        node = nodes.get(spec.arg.name)
        if node is not None and isinstance(held, torch.Tensor):
            compare(node, held, node.meta.get("val"))


def check_outputs(program: ExportedProgram) -> None:
    """Raise InconsistentError unless calls return what the graph does."""
    specs = program.graph_signature.output_specs
    results: Any = list(program.graph.nodes)[-1].args[0]
    try:
        structures = program.call_spec
    except AssertionError as error:
        raise InconsistentError(f"the structure of its calls: {error}") from error
    returned = [spec for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    taken = [
        spec
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    ]
    for structure, leaves in (
        (structures.in_spec, taken),
        (structures.out_spec, returned),
    ):
        if structure is None or structure.num_leaves != len(leaves):
            raise InconsistentError(f"calls do not have {len(leaves)} values")
    if len(specs) != len(results):
        raise InconsistentError(f"{len(specs)} outputs are described")
    for spec, result in zip(specs, results, strict=True):
        if isinstance(spec.arg, TensorArgument) and not is_tensor(result):
            raise InconsistentError(f"the output {result} is not a tensor")


def is_tensor(value: Any) -> bool:
    return isinstance(value, Node) and isinstance(value.meta.get("val"), torch.Tensor)


AUTOCAST = torch.ops.higher_order.wrap_with_autocast
REGIONS: Mapping[Any, tuple[slice, slice, slice]] = {
    torch.ops.higher_order.cond: (slice(1, 3), slice(3, 4), slice(1, 3)),
    torch.ops.higher_order.while_loop: (slice(0, 2), slice(2, 4), slice(1, 2)),
    **{
        op: (slice(at, at + 1), slice(at + 1, None), slice(at, at + 1))
        for op, at in (
            (torch.ops.higher_order.wrap_with_set_grad_enabled, 1),
            (AUTOCAST, 4),
        )
    },
}
"""
The arguments of ops that run graphs: the graphs, their operands, those for results.

The graphs of scans and maps take slices of the op's operands.
"""


BRANCHES = torch.ops.higher_order.cond, torch.ops.higher_order.while_loop
WITH_LISTS: Mapping[Any, tuple[int, int]] = {
    torch.ops.higher_order.cond: (4, 1),
    torch.ops.higher_order.while_loop: (4, 2),
    torch.ops.higher_order.map_impl: (3, 2),
    torch.ops.higher_order.scan: (4, 3),
}
"""How many arguments an op takes, and how many of these, the last ones, are lists."""


def check_lists(node: Node, count: int, lists: int) -> None:
    """Raise InconsistentError unless an op takes its operands as lists."""
    if len(node.args) != count or node.kwargs:
        raise InconsistentError(f"{node.name} does not take {count} arguments")
    for each in node.args[-lists:]:
        if not isinstance(each, tuple | list):
            raise InconsistentError(f"{node.name} takes {each}, which is no list")


def check_condition(node: Node) -> None:
    """Raise InconsistentError unless a branch depends on a bool."""
    condition = values_of(node.args[0])
    is_bool = isinstance(condition, torch.Tensor) and condition.dtype == torch.bool
    if not is_bool and not isinstance(condition, bool | torch.SymBool):
        raise InconsistentError(f"{node.name} depends on {node.args[0]}, not on a bool")


def check_regions(
    module: Any, node: Node, graphs: slice, operands: slice, returning: slice
) -> None:
    """Raise InconsistentError unless graphs take and return what their op does."""
    said = node.meta.get("val")
    if node.target in BRANCHES and not isinstance(said, tuple | list):
        raise InconsistentError(f"{node.name} has one value, not a tuple of values")
    given = pytree.tree_leaves(values_of(node.args[operands]))
    arguments: Any = node.args
    for graph in arguments[graphs]:
        if not isinstance(graph, Node) or graph.op != "get_attr":
            raise InconsistentError(f"{node.name} runs {graph}, which is no graph")
        nodes = list(attribute_of(module, str(graph.target)).graph.nodes)
        taken = [each for each in nodes if each.op == "placeholder"]
        if len(taken) != len(given):
            raise InconsistentError(f"{graph.target} takes {len(taken)} arguments")
        for each, value in zip(taken, given, strict=True):
            compare(each, value, each.meta.get("val"))
    for graph in arguments[returning]:
        results = list(attribute_of(module, str(graph.target)).graph.nodes)[-1].args[0]
        compare(node, values_of(results), said)


def check_call(node: Node) -> None:
    """
    Raise InconsistentError if an op computes another value than its node says.

    Raises UnsafeError if PyTorch could tell only by running it.
    """
    args, kwargs = values_of((node.args, node.kwargs))
    said = node.meta.get("val")
    tensors = [
        leaf
        for leaf in pytree.tree_leaves((args, kwargs, said))
        if isinstance(leaf, FakeTensor)
    ]
    if not has_tensors(node.target) and schema_name(node.target) not in ON_NUMBERS:
        raise InconsistentError(f"{node.name}, {node.target}, computes no tensor")
    # Without any tensor, too, or the op would be run.
    mode = tensors[0].fake_mode if tensors else FakeTensorMode()
    mode.allow_fallback_kernels = False  # Real kernels, on operands of the file's.
    try:
        # As torch.export has it: in C++, some ops would make dynamic sizes static.
        with enable_python_dispatcher(), torch.no_grad(), mode, ExitStack() as stack:
            env: Any = mode.shape_env
            if env is not None:
                stack.enter_context(env.ignore_fresh_unbacked_symbols())
            if is_mutable(node):
                # It may change the sizes of its operand, which the node must keep.
                args, kwargs = pytree.tree_map_only(FakeTensor, fresh, (args, kwargs))
            computed = node.target(*args, **kwargs)  # pyright: ignore[reportCallIssue]
    except GuardOnDataDependentSymNode:
        return  # It depends on values, which nobody knows yet.
    except UnsupportedOperatorException as error:
        raise UnsafeError(
            f"it calls {node.target}, of which PyTorch does not know without data "
            "what it returns"
        ) from error
    except Exception as error:
        raise InconsistentError(f"{node.name}, {node.target}: {error}") from error
    if said is None and isinstance(computed, torch.Tensor):
        raise InconsistentError(f"{node.name} has no value")
    compare(node, computed, said)


def give_ranges(program: ExportedProgram) -> None:
    """
    Give all symbols of the inputs a range, of 2 and more as torch.export does.

    Else PyTorch would make guards that sizes are not 1, which most ops do not need: see
    `small_sizes`. Files have no range of symbols that only strides depend on.
    """
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            for number in (*value.shape, *value.stride(), value.storage_offset()):
                if isinstance(number, torch.SymInt):
                    for symbol in number.node.expr.free_symbols:
                        env = number.node.shape_env
                        bounds = env.var_to_range.get(symbol, ValueRanges(0, int_oo))
                        if bounds.lower < LEAST <= bounds.upper:
                            bounds = ValueRanges(LEAST, bounds.upper)
                        env.var_to_range[symbol] = bounds
                        place = env._get_sloc()
                        places = ValueRangesSLoc(place, place)
                        env.var_to_range_sloc.setdefault(symbol, places)


def check_operator(node: Node) -> None:
    """Raise InconsistentError for an element that is not there, or a huge power."""
    *_, last = values_of(node.args)
    if node.target is operator.getitem:
        (sequence, place) = values_of(node.args)
        if not isinstance(sequence, list | tuple) or not (
            isinstance(place, int) and -len(sequence) <= place < len(sequence)
        ):
            raise InconsistentError(f"{node.name} takes an element that is not there")
    elif node.target in POWERS and not (
        isinstance(last, int | float) and abs(last) <= LARGEST_EXPONENT
    ):
        raise InconsistentError(f"{node.name} has the exponent {last}")


POWERS = (operator.pow, operator.lshift)


def has_tensors(op: Any) -> bool:
    """Whether an op returns tensors."""
    return any("Tensor" in str(result.type) for result in op._schema.returns)


ON_NUMBERS = frozenset(
    f"aten.{name}"
    for name in (
        *("sym_size.int", "sym_stride.int", "sym_numel", "sym_storage_offset"),
        *("item", "_local_scalar_dense", "sym_constrain_range"),
        *("sym_constrain_range_for_size", "_assert_scalar", "_assert_async"),
        *("_assert_async.msg", "_assert_tensor_metadata"),
    )
)
"""Ops that return numbers, or nothing, and change nothing outside of the program."""


def fresh(tensor: FakeTensor) -> torch.Tensor:
    """Another tensor of the same sizes, in the mode that is entered."""
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )


def values_of(arguments: Any) -> Any:
    """The arguments of a call, with the value of each node in its place."""
    return torch.fx.map_arg(arguments, lambda node: node.meta.get("val"))


def compare(node: Node, computed: Any, said: Any) -> None:
    """Raise InconsistentError unless two values have the same dtypes and sizes."""
    pairs = [pytree.tree_leaves(each) for each in (computed, said)]
    if len(pairs[0]) != len(pairs[1]):
        raise InconsistentError(f"{node.name} has {len(pairs[1])} values")
    for one, other in zip(*pairs, strict=True):
        if isinstance(one, torch.SymInt) and isinstance(other, int | torch.SymInt):
            if not is_same_size(one, other):
                raise InconsistentError(f"{node.name} is {one}, not {other}")
        if not isinstance(one, torch.Tensor) or other is None:
            continue
        if not isinstance(other, torch.Tensor) or not is_alike(one, other):
            raise InconsistentError(
                f"{node.name} is {described(one)}, not {described(other)}"
            )


def described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} of shape {list(value.shape)}"
    return type(value).__name__


def is_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype and sizes."""
    return (
        one.dtype == other.dtype
        and one.dim() == other.dim()
        and all(map(is_same_size, one.shape, other.shape))
    )


def is_same_size(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two sizes are equal, whatever their symbols are, as samples tell."""
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    if free_unbacked_symbols([one, other]):
        # Sizes that depend on values get other symbols each time.
        return all(map(free_unbacked_symbols, (one, other)))
    env = next(x for x in (one, other) if isinstance(x, torch.SymInt)).node.shape_env
    exprs = [x if isinstance(x, int) else x.node.expr for x in (one, other)]
    difference: Any = exprs[0] - exprs[1]
    if isinstance(difference, int) or difference == 0:
        return difference == 0
    return all(
        difference.subs(point) == 0
        for point in points(difference.free_symbols, env.var_to_range)
    )


def points(symbols: Iterable[Any], ranges: Mapping[Any, Any]) -> list[dict[Any, int]]:
    """Values of symbols in their ranges: the same ones each time."""
    rng = Random(0)
    bounds = {
        symbol: (int(ranges[symbol].lower), int(min(ranges[symbol].upper, LARGEST)))
        for symbol in sorted(symbols, key=str)
    }
    return [
        {symbol: rng.randint(*bound) for symbol, bound in bounds.items()}
        for _ in range(SAMPLES)
    ]
