# pyright: basic, reportPrivateUsage=false
"""
A call of one ATen op as an exported program.

Its inputs are described by dtype and shape only, so that another converter can hand
over its own values: `call_program` runs the op on tensors without data, which gives
the types of the results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from torch._export.verifier import TrainingIRVerifier
from torch._ops import OpOverload
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StrictMinMaxConstraint,
)
from torch.utils._sympy.value_ranges import ValueRanges

from padc.errors import Obstacle
from padc.frontends.torch_export import computed_integers
from padc.frontends.torch_export.decompositions import below_autograd
from padc.frontends.torch_export.expansions import Recorder
from padc.frontends.torch_export.export import quiet, tracing

aten = torch.ops.aten

RESHAPES = frozenset(
    (aten.reshape, aten.reshape_as, aten.view, aten.view_as, aten._unsafe_view)
)
"""Ops of which only the products of sizes need to be equal."""


@dataclass(frozen=True)
class Size:
    """
    A size that is known only at run time, or an integer, which may be negative.

    `low` and `high` are included.
    """

    key: Hashable
    """Sizes with equal keys are equal."""
    low: int
    high: int
    example: int
    """A value that the size may have."""


Shape: TypeAlias = Sequence[int | Size]


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor that an op takes."""

    dtype: torch.dtype
    shape: Shape
    data: torch.Tensor | None = None
    """The elements of a constant."""


@dataclass(frozen=True, eq=False)
class ComplexOperand:
    """A complex tensor that an op takes, as its real and its imaginary part."""

    real: Operand
    imaginary: Operand


@dataclass(frozen=True)
class ComplexShape:
    """The shape of a complex result, of which both parts are outputs."""

    shape: Shape


@dataclass(frozen=True, eq=False)
class Number:
    """An integer that a tensor of rank 0 holds at run time."""

    operand: Operand
    size: Size


@dataclass(frozen=True)
class CallProgram:
    """A program that calls one op."""

    program: ExportedProgram
    inputs: Sequence[Operand]
    """The operands that are inputs of the program, in order."""
    constants: Mapping[str, Operand]
    """The operands that it holds, by name."""
    results: Any
    """
    The shapes of the results: a tuple, or lists as the op returns them.

    A `ComplexShape` stands for two outputs, the real and the imaginary part; None for a
    result that is no output.
    """


def call_program(
    target: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    first_only: bool = False,
    stack_trace: str | None = None,
) -> CallProgram:
    """
    The program that calls `target`.

    Args:
        target: An op whose results are tensors, or lists of tensors.
        args: Its arguments by position: Python values, with an `Operand` for each
            tensor, a `ComplexOperand` for each complex one, and a `Number` for each
            integer that is not known.
        kwargs: Its arguments by keyword.
        first_only: Whether only the first of several results is an output.
        stack_trace: Where the call comes from, for error messages.

    Returns:
        The program. Its outputs are the results, without nesting.

    Raises:
        Obstacle: PyTorch refuses the arguments, or computes the results' shapes for the
            examples of sizes only.
    """
    with tracing(), quiet():
        return CallBuilder(stack_trace).build(target, args, kwargs, first_only)


class CallBuilder:
    """Builds the graph of a call."""

    def __init__(self, stack_trace: str | None) -> None:
        self.stack_trace = stack_trace
        self.env = ShapeEnv(duck_shape=False)
        self.mode = FakeTensorMode(shape_env=self.env)
        self.graph = Graph()
        self.sizes: dict[Hashable, int | torch.SymInt] = {}
        self.nodes: dict[Operand, Node] = {}
        self.inputs: dict[Operand, Node] = {}
        self.constants: dict[str, Operand] = {}

    def build(
        self,
        target: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        first_only: bool,
    ) -> CallProgram:
        leaves = pytree.tree_leaves((args, kwargs))
        for leaf in leaves:
            match leaf:
                case Number(operand) | (Operand() as operand):
                    self.add_operand(operand)
                case ComplexOperand(real, imaginary):
                    self.add_operand(real)
                    self.add_operand(imaginary)
                case _:
                    pass
        given: Any = pytree.tree_map(self.argument, (tuple(args), dict(kwargs)))
        is_computed = any(isinstance(leaf, Number) for leaf in leaves)
        rule = computed_integers.RULES.get(target) if is_computed else None
        try:
            with self.mode, torch.no_grad(), below_autograd():
                if rule is None:
                    made, outputs = self.call(target, given)
                else:
                    made, outputs = self.record(rule, given)
        except Obstacle:
            raise
        except Exception as error:
            first, *_ = str(error).splitlines() or [type(error).__name__]
            raise Obstacle(f"PyTorch refuses the arguments: {first}") from error
        if any(is_fixed(size) for size in self.sizes.values()):
            raise Obstacle(
                "PyTorch takes one size for a size that varies",
                "write it with ops that take any size, such as torch.arange",
            )
        if target.overloadpacket in RESHAPES and self.has_joined_sizes():
            raise Obstacle("PyTorch takes sizes for equal that need not be equal")
        if is_computed and is_empty(made):
            raise Obstacle(
                "whether the result is empty depends on an integer that is computed"
            )
        shapes = self.shapes(made)
        if first_only:
            count = 2 if isinstance(shapes[0], ComplexShape) else 1
            outputs = outputs[:count]
            shapes = [shapes[0], *([None] * (len(shapes) - 1))]
        self.graph.output(tuple(outputs))
        program = self.program(outputs)
        return CallProgram(program, [*self.inputs], self.constants, shapes)

    def has_joined_sizes(self) -> bool:
        """Whether PyTorch has come to take different sizes for equal."""
        sizes = [x for x in self.sizes.values() if isinstance(x, torch.SymInt)]
        return len({size.node.expr for size in sizes}) < len(sizes)

    def call(self, target: OpOverload, given: Any) -> tuple[Any, list[Node]]:
        """The result of a call for examples, and the nodes of the tensors in it."""
        node = self.graph.call_function(target, *given)
        node.meta["stack_trace"] = self.stack_trace
        args, kwargs = pytree.tree_map_only(Node, value_of, given)
        node.meta["val"] = made = target(*args, **kwargs)
        return made, self.parts(node, made)

    def record(self, rule: Callable[..., Any], given: Any) -> tuple[Any, list[Node]]:
        """The same for a function that calls several ops, none of them complex."""
        recorder = Recorder({}, ())
        recorder.graph = self.graph
        for node in list(self.graph.nodes):
            recorder.note(node, node.meta["val"])
        args, kwargs = pytree.tree_map_only(Node, value_of, given)
        with recorder:
            made = rule(*args, **kwargs)
        outputs = pytree.tree_leaves(pytree.tree_map(recorder.argument, made))
        for node in self.graph.nodes:
            node.meta.setdefault("stack_trace", self.stack_trace)
        return made, outputs

    def add_operand(self, operand: Operand) -> None:
        """Add a placeholder for an operand; constants come first in a program."""
        if operand in self.nodes:
            return
        index = len(self.nodes)
        if operand.data is None:
            node = self.graph.placeholder(f"operand_{index}")
            self.inputs[operand] = node
        else:
            first = next(iter(self.graph.nodes), self.graph._root)
            with self.graph.inserting_before(first):
                node = self.graph.placeholder(f"constant_{index}")
            self.constants = {node.name: operand, **self.constants}
        with self.mode:
            shape = [self.size(each) for each in operand.shape]
            node.meta["val"] = torch.empty(shape, dtype=operand.dtype)
        self.nodes[operand] = node

    def argument(self, value: Any) -> Any:
        """The argument of the call for an argument given."""
        if isinstance(value, Operand):
            return self.nodes[value]
        if isinstance(value, ComplexOperand):
            parts = self.nodes[value.real], self.nodes[value.imaginary]
            return self.called(aten.complex.default, *parts)
        if not isinstance(value, Number):
            return value
        if isinstance(size := self.size(value.size), int):
            return size
        node = self.graph.call_function(aten.item.default, (self.nodes[value.operand],))
        node.meta["val"] = size
        return node

    def called(self, target: OpOverload, *args: Any) -> Node:
        """A call of an op that PyTorch does not refuse."""
        node = self.graph.call_function(target, args)
        with self.mode, torch.no_grad(), below_autograd():
            given = [value_of(x) if isinstance(x, Node) else x for x in args]
            node.meta["val"] = target(*given)
        return node

    def size(self, size: int | Size) -> int | torch.SymInt:
        """A size as PyTorch has it, whose example decides what depends on it."""
        if isinstance(size, int):
            return size
        if size.key not in self.sizes:
            # Importing it takes a second, and torch.export loads it anyway.
            from torch._dynamo.source import ConstantSource

            source = ConstantSource(f"size_{len(self.sizes)}")
            symbol = self.env.create_symbol(
                size.example,
                source,
                DimDynamic.DYNAMIC,
                StrictMinMaxConstraint(
                    vr=ValueRanges(size.low, size.high), warn_only=False
                ),
                positive=True if size.low >= 0 else None,
            )
            made = self.env.create_symintnode(symbol, hint=size.example, source=source)
            self.sizes[size.key] = made
        return self.sizes[size.key]

    def parts(self, node: Node, value: Any) -> list[Node]:
        """The nodes of the tensors in the result of `node`."""
        if isinstance(value, torch.Tensor) and value.is_complex():
            pairs = self.called(
                aten.view_as_real.default, self.called(aten.resolve_conj.default, node)
            )
            return [self.called(aten.select.int, pairs, -1, part) for part in (0, 1)]
        if isinstance(value, torch.Tensor):
            return [node]
        found: list[Node] = []
        for index, part in enumerate(value):
            item = self.graph.call_function(operator.getitem, (node, index))
            item.meta["val"] = part
            found += self.parts(item, part)
        return found

    def shapes(self, value: Any) -> Any:
        """The shapes of results: tuples, in lists as the op returns them."""
        if not isinstance(value, torch.Tensor):
            return [self.shapes(part) for part in value]
        shape = tuple(self.known_size(size) for size in value.shape)
        return ComplexShape(shape) if value.is_complex() else shape

    def known_size(self, size: int | torch.SymInt) -> int | Size:
        """A size with its bounds."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression.is_Integer:
            return int(expression)
        bounds = self.env.bound_sympy(expression)
        low, high = (
            int(min(max(end, 0), 2**63 - 1)) for end in (bounds.lower, bounds.upper)
        )
        hint = size.node.hint
        example = hint if isinstance(hint, int) else max(low, 2)
        return Size(str(expression), low, high, example)

    def program(self, outputs: Sequence[Node]) -> ExportedProgram:
        """The graph as a program."""
        held = [
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name), name)
            for name in self.constants
        ]
        given = [
            InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)
            for node in self.inputs.values()
        ]
        returned = [
            OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None)
            for node in outputs
        ]
        _, taken = pytree.tree_flatten((tuple(range(len(given))), {}))
        _, made = pytree.tree_flatten(tuple(range(len(outputs))))
        signature = ModuleCallSignature([], [], taken, made)
        return ExportedProgram(
            root=GraphModule({}, self.graph),
            graph=self.graph,
            graph_signature=ExportGraphSignature([*held, *given], returned),
            state_dict={},
            range_constraints=dict(self.env.var_to_range),
            module_call_graph=[ModuleCallEntry("", signature)],
            constants={
                name: operand.data
                for name, operand in self.constants.items()
                if operand.data is not None
            },
            # The op may be a composite, which programs after training IR do not have.
            verifiers=[TrainingIRVerifier],
        )


def is_fixed(size: int | torch.SymInt) -> bool:
    """Whether code of PyTorch has fixed a symbol to its example."""
    return isinstance(size, torch.SymInt) and size.node.expr.is_Integer


def is_empty(values: Any) -> bool:
    """Whether a tensor among `values` has no elements, for the examples of sizes."""
    tensors = [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]
    sizes = [size for x in tensors for size in x.shape]
    return 0 in [x if isinstance(x, int) else x.node.hint for x in sizes]


def value_of(node: Node) -> Any:
    """The example of a node's value."""
    value = node.meta["val"]
    assert isinstance(value, FakeTensor | torch.SymInt)
    return value
