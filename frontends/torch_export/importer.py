# pyright: basic
"""
Exported programs to modules of the `torch` dialect.

One pass over the graph: each node becomes one op. Only nodes that the outputs need are
imported, and the assertions on values for backends that can raise an error. Everything
that cannot be imported is collected, and raised as one `UnsupportedError` at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import sympy
import torch
import torch.utils._pytree as pytree
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
)
from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Region, SSAValue

from padc.errors import Obstacle, Problem, SourceLocation, UnsupportedError
from padc.frontends.torch_export.calls import import_call
from padc.frontends.torch_export.control_flow import (
    UnimportedError,
    import_control_flow,
    is_control_flow,
    operand,
)
from padc.frontends.torch_export.decompositions import (
    Decompositions,
    decompositions_of,
    unmarked_views,
)
from padc.frontends.torch_export.dropouts import without_idle_dropouts
from padc.frontends.torch_export.expansions import (
    Expansion,
    expansions_of,
)
from padc.frontends.torch_export.export import quiet, tracing
from padc.frontends.torch_export.function_builder import (
    FunctionBuilder,
    Imported,
    named,
)
from padc.frontends.torch_export.functional import in_place_changes
from padc.frontends.torch_export.guards import restore_guards
from padc.frontends.torch_export.locations import node_location, stack_location
from padc.frontends.torch_export.nodes import (
    ASSERTIONS,
    attribute_of,
    live_nodes,
    schema_name,
)
from padc.frontends.torch_export.output_names import output_names
from padc.frontends.torch_export.remade_guards import no_further_guards
from padc.frontends.torch_export.size_assertions import size_assertions
from padc.frontends.torch_export.small_sizes import narrow_small_sizes
from padc.frontends.torch_export.symbolic_sizes import SymbolicSizes
from padc.frontends.torch_export.training import training_problems
from padc.frontends.torch_export.types import describe, tensor_type
from padc.frontends.torch_export.weights import held_tensors, is_shared
from padc.ir import torch as torch_d
from padc.ir.model_buffers import (
    BUFFER,
    Initial,
    buffer_attributes,
    text,
    update_attributes,
)
from padc.ir.names import identifier, unique_name
from padc.ir.torch.tensors import weight_array
from padc.ir.weights import Weights

HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
"""Inputs that the model holds."""


def import_exported_program(
    ep: ExportedProgram,
    weights: Weights,
    *,
    legal: Collection[str] | None = None,
    leave_out_constants: bool = False,
    with_assertions: bool = False,
) -> ModuleOp:
    """
    A module whose `func.func @main` computes what `ep` computes.

    Its arguments are the program's tensor inputs, its results the tensor outputs; the
    attribute `padc.name` of each has its name (see `output_names`). An output that is
    None is left out. The buffers that the program changes are further arguments and
    results (see `padc.ir.model_buffers`).

    Args:
        ep: The program, which is not changed; the symbols of a saved one learn its
            guards.
        weights: Receives the tensors that the model holds, by qualified name, without
            a copy if they are contiguous.
        legal: The names of the ATen schemas that later steps have. PyTorch decomposes
            other ops, where that leads to these. None: all ops stay whole.
        leave_out_constants: Leave out outputs that are numbers or strings, instead of
            refusing them.
        with_assertions: Import the program's assertions on values, too.

    Raises:
        UnsupportedError: Lists all parts of the program that padc cannot express.
    """
    names = output_names(ep)
    restore_guards(ep)
    with tracing(), quiet(), no_further_guards(ep):
        importer = importer_of(ep, weights, legal, leave_out_constants, with_assertions)
    for node, error in training_problems(ep, importer.changed_buffers):
        importer.report(node, error)
    module = importer.run(names)
    narrow_small_sizes(module, ep)
    return module


def importer_of(
    ep: ExportedProgram,
    weights: Weights,
    legal: Collection[str] | None,
    leave_out_constants: bool,
    with_assertions: bool,
) -> Importer:
    """An importer of `ep`, with decompositions as in `import_exported_program`."""
    table = {} if legal is None else decompositions_of(ep, legal)
    options = leave_out_constants, with_assertions
    if not table and ep.dialect == "ATEN":
        return Importer(ep, weights, {}, {}, *options)
    if (changed := in_place_changes(ep.graph_module)) is not None:
        expansions = expansions_of(ep, table, legal or ())
        if expansions is not None:
            return Importer(ep, weights, changed, expansions, *options)
    functional = decompose(ep, weights, table)
    return Importer(functional, weights, {}, {}, *options)


def decompose(
    ep: ExportedProgram, weights: Weights, table: Decompositions
) -> ExportedProgram:
    """
    `ep` without ops in place, and without those of `table` if PyTorch can do that.

    Raises UnsupportedError if PyTorch cannot make the program functional.
    """
    try:
        functional = without_idle_dropouts(ep)
        views = unmarked_views(functional)
        if table:
            with contextlib.suppress(Exception):
                return functional.run_decompositions({**views, **table})
        return functional.run_decompositions({**views})
    except Exception as error:
        importer = Importer(ep, weights, {}, {}, False, False)
        importer.import_placeholders(list(ep.graph.nodes))
        # What PyTorch says of buffers that share memory is about itself.
        importer.check_shared(buffers := held_buffers(ep), buffers)
        importer.check_updates()
        location = SourceLocation.of(stack_location(str(error)))
        message = f"PyTorch cannot make the program functional: {error}"
        hint = None
        if isinstance(error, SyntaxError):
            hint = "rename buffers that are called like keywords of Python"
        problem = Problem(message.partition("\n")[0], location, hint)
        raise UnsupportedError([*importer.problems, problem]) from error


class Importer:
    """The state of one import: the function so far, and the problems so far."""

    def __init__(
        self,
        ep: ExportedProgram,
        weights: Weights,
        changed: Mapping[Node, Sequence[Node]],
        expansions: Mapping[Node, Expansion],
        leave_out_constants: bool,
        with_assertions: bool,
    ):
        self.ep = ep
        self.weights = weights
        self.changed = changed
        """Each op in place with the nodes it changes."""
        self.expansions = expansions
        """The graphs that replace calls which are not imported as they are."""
        self.leave_out_constants = leave_out_constants
        self.with_assertions = with_assertions
        self.tensors = held_tensors(ep)
        self.nodes = {node.name: node for node in ep.graph.nodes}
        self.function = FunctionBuilder()
        self.module = ep.graph_module
        """The graph that is being imported."""
        self.sizes: dict[sympy.Expr, Imported] = {}
        """The value of each dynamic size, by its expression."""
        self.problems: list[Problem] = []
        self.changed_buffers = {
            cast(str, spec.target): spec.arg
            for spec in ep.graph_signature.output_specs
            if spec.kind == OutputKind.BUFFER_MUTATION
        }
        """The new value of each buffer that the program changes, by its target."""

    def run(self, names: Sequence[str]) -> ModuleOp:
        """The module; `names` are the outputs' names, made unique."""
        nodes = list(self.ep.graph.nodes)
        self.check_outputs()
        self.check_updates()
        argument_attributes = self.import_placeholders(nodes)
        self.import_calls(nodes)
        taken = set(map(name_of, argument_attributes))
        outputs, result_attributes = self.import_outputs(nodes[-1], names, taken)
        updates, update_attributes = self.import_updates(argument_attributes, taken)
        if self.problems:
            raise UnsupportedError(list(dict.fromkeys(self.problems)))
        returned = [*outputs, *updates]
        self.function.add(ReturnOp(*returned))
        block = self.function.block
        function = FuncOp(
            "main",
            (block.arg_types, [value.type for value in returned]),
            Region(block),
            arg_attrs=ArrayAttr(argument_attributes),
            res_attrs=ArrayAttr([*result_attributes, *update_attributes]),
        )
        return ModuleOp([function])

    def report(self, node: Node | None, error: Obstacle) -> None:
        """Keep a problem for the end."""
        location = None if node is None else SourceLocation.of(node_location(node))
        self.problems.append(Problem(error.message, location, error.hint))

    def attempt(self, node: Node, importer: Callable[[Node], Imported]) -> None:
        """Import a node; skip it silently if it uses one that failed."""
        if any(
            input not in self.function.values and input.op != "get_attr"
            for input in node.all_input_nodes
        ):
            return
        try:
            self.function.values[node] = importer(node)
        except Obstacle as error:
            self.report(node, error)
        except UnimportedError:
            pass  # What stopped the import of a function has been reported.

    # --- the body --------------------------------------------------------------------

    def assertions(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """The assertions on values; those on sizes are guards, which calls check."""
        on_sizes = size_assertions(self.ep)
        return [
            node
            for node in nodes
            if schema_name(node.target) in ASSERTIONS and node not in on_sizes
        ]

    def import_calls(self, nodes: Sequence[Node]) -> None:
        """Import the calls that the outputs need."""
        live = live_nodes(nodes, self.assertions(nodes) if self.with_assertions else ())
        for node in nodes:
            if node.op == "get_attr" and isinstance(node.meta.get("val"), torch.Tensor):
                self.attempt(node, self.import_constant)
            if node.op != "call_function" or node not in live:
                continue
            self.attempt(node, self.import_call)
            if node in self.function.values:
                for each in self.changed.get(node, ()):
                    self.function.values[each] = self.function.values[node]

    def import_call(self, node: Node) -> Imported:
        if is_control_flow(node):
            return import_control_flow(self, node)
        value = node.meta.get("val")
        size = value.node.expr if isinstance(value, torch.SymInt) else None
        if isinstance(size, sympy.Integer):
            # PyTorch found it to be constant: the remainder of 8*n by 8 is 0.
            return self.function.constant("int", int(size))
        if (expansion := self.expansions.get(node)) is None:
            return self.import_once(node, size)
        values = self.function.values
        placeholders = expansion.graph.find_nodes(op="placeholder")
        for placeholder, given in zip(placeholders, expansion.given, strict=True):
            values[placeholder] = values[given]
        for each in expansion.graph.nodes:
            if each.op != "call_function":
                continue
            each.meta["stack_trace"] = node.meta.get("stack_trace")
            values[each] = self.import_once(each, expansion.sizes.get(each))
        return pytree.tree_map_only(Node, values.get, expansion.results)

    def import_once(self, node: Node, size: sympy.Expr | None) -> Imported:
        """Import a call, or take the value that its result, a size, has already."""
        if size is None or size not in self.sizes:
            imported = import_call(self.function, node)
            if size is None:
                return imported
            self.sizes[size] = imported
        return self.sizes[size]

    # --- functions that ops call ------------------------------------------------------

    def graph(self, node: Node) -> GraphModule:
        """The function that a node of the current graph names."""
        return cast(GraphModule, self.module.get_submodule(cast(str, node.target)))

    def inline(
        self, module: GraphModule, operands: Sequence[Imported]
    ) -> list[Imported]:
        """
        Add the ops of a graph; returns its results.

        Raises UnimportedError if an op cannot be imported.
        """
        *nodes, output = module.graph.nodes
        placeholders = module.graph.find_nodes(op="placeholder")
        self.function.values.update(zip(placeholders, operands, strict=True))
        outer = self.module, self.sizes
        # Its sizes are those of this call.
        self.module, self.sizes = module, dict(self.sizes)
        self.import_calls([*nodes, output])
        self.module, self.sizes = outer
        results = pytree.tree_leaves(output.args[0])
        if any(isinstance(x, Node) and x not in self.function.values for x in results):
            raise UnimportedError
        return [operand(self, result) for result in results]

    def region(
        self, types: Sequence[Attribute], build: Callable[[Sequence[SSAValue]], None]
    ) -> Region:
        """A region whose block has arguments of these types, and what `build` adds."""
        outer, self.function = self.function, self.function.region(types)
        try:
            build(self.function.block.args)
            return Region(self.function.block)
        finally:
            self.function = outer

    # --- inputs and weights ----------------------------------------------------------

    def import_placeholders(self, nodes: Sequence[Node]) -> list[DictionaryAttr]:
        """Import arguments and weights; returns the attributes of the arguments."""
        placeholders = [node for node in nodes if node.op == "placeholder"]
        specs = self.ep.graph_signature.input_specs
        arguments: list[Node] = []
        literals: list[tuple[Node, str]] = []
        buffers: list[tuple[Node, str]] = []
        for node, spec in zip(placeholders, specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                if isinstance(spec.arg, TensorArgument):
                    self.attempt(node, self.import_argument)
                    arguments.append(node)
                # A constant is in the graph already, which does not use the input.
                elif not isinstance(spec.arg, ConstantArgument):
                    self.refuse_input(node, spec)
            elif spec.kind in HELD:
                target = cast(str, spec.target)
                if target in self.changed_buffers:
                    buffers.append((node, target))
                elif node.users:
                    literals.append((node, target))
            else:
                self.refuse_input(node, spec)
        self.import_sizes(arguments)
        for node, target in literals:
            self.attempt(node, lambda node: self.import_literal(node, target))
        held = [target for _, target in (*literals, *buffers)]
        self.check_shared(self.changed_buffers, held)
        names = [node.name for node in arguments]
        return [*name_attributes(names), *self.import_buffers(buffers, set(names))]

    def check_shared(self, buffers: Collection[str], held: Sequence[str]) -> None:
        """Refuse to change memory of `buffers` that another tensor has, too."""
        for target in buffers:
            for other in held:
                if other != target and is_shared(
                    self.tensors[target], self.tensors[other]
                ):
                    message = f"the model changes its buffer '{target}', which shares"
                    message = f"{message} memory with '{other}'"
                    self.report(None, Obstacle(message, "clone() one of them"))

    def import_buffers(
        self, buffers: Sequence[tuple[Node, str]], taken: set[str]
    ) -> list[DictionaryAttr]:
        """Import the buffers that the program changes as arguments."""
        attributes: list[DictionaryAttr] = []
        for node, target in buffers:
            self.attempt(node, lambda node: self.import_buffer(node, target))
            if node in self.function.values:
                name = unique_name(identifier(target), taken)
                taken.add(name)
                self.function.values[node].name_hint = name
                initial = self.literal(target)
                attributes.append(buffer_attributes(name, target, initial))
        return attributes

    def import_buffer(self, node: Node, target: str) -> SSAValue:
        if isinstance(tensor_type(self.tensors[target]).element_type, ComplexType):
            text = describe(node.meta["val"])
            message = f"the model changes its buffer '{target}' of type {text}"
            raise Obstacle(message, "hold torch.view_as_real(x) in the buffer")
        if self.tensors[target].is_meta:
            raise no_data(target)
        return self.import_argument(node)

    def refuse_input(self, node: Node, spec: InputSpec) -> None:
        """Report an input that is no tensor, or the ops that draw from a generator."""
        if spec.kind == InputKind.USER_INPUT:
            message = f"the input '{node.name}' is a number, not a tensor"
            hint = "pass it as a tensor, or as a constant"
        elif not isinstance(spec.arg, CustomObjArgument):
            message = f"the input '{node.name}' of kind {spec.kind.name}"
            hint = None
        elif spec.arg.class_fqn == "torch._C.Generator":
            for user in node.users:
                message = "it draws random numbers from a generator, and each run would"
                message = f"{schema_name(user.target)}: {message} give others"
                self.report(user, Obstacle(message, "pass the numbers as an input"))
            return
        else:
            message = f"the model holds an object of class {spec.arg.class_fqn}"
            hint = "hold tensors"
        self.report(node, Obstacle(message, hint))

    def import_argument(self, node: Node) -> SSAValue:
        type = tensor_type(node.meta["val"])
        if isinstance(type.element_type, ComplexType):
            raise Obstacle(
                f"the input '{node.name}' of type {describe(node.meta['val'])}",
                "pass torch.view_as_real(x), and call view_as_complex in the model",
            )
        block = self.function.block
        argument = block.insert_arg(type, len(block.args))
        argument.name_hint = node.name
        return argument

    def import_sizes(self, arguments: Sequence[Node]) -> None:
        """Declare the symbolic sizes of the arguments, and which sizes they are."""
        sizes = SymbolicSizes(self.function, self.ep.range_constraints)
        values = self.function.values
        shapes = [
            (values[node], node.meta["val"].shape)
            for node in arguments
            if node in values
        ]
        for _, shape in shapes:
            for size in shape:
                sizes.declare(size)
        for argument, shape in shapes:
            try:
                sizes.bind(argument, shape)
            except Obstacle as error:
                self.report(None, error)

    def import_literal(self, node: Node, name: str) -> SSAValue:
        """A tensor that the model holds, by name; an integer of rank 0 in line."""
        if self.tensors[name].is_meta:
            raise no_data(name)
        op = self.function.add(torch_d.LiteralOp(self.literal(name)))
        return named(op.results[0], node.name)

    def import_constant(self, node: Node) -> SSAValue:
        """A constant that the function of a branch or loop holds."""
        tensor = attribute_of(self.module, cast(str, node.target))
        op = self.function.add(torch_d.LiteralOp(self.data_of(tensor, node.name)))
        return named(op.results[0], node.name)

    def literal(self, name: str) -> Initial:
        """The data of a tensor that the model holds."""
        data = self.data_of(self.tensors[name], name)
        if isinstance(data, DenseResourceAttr):
            self.weights.sources[data.resource_handle.data] = name
        return data

    def data_of(self, tensor: torch.Tensor, name: str) -> Initial:
        """A tensor, stored by its name; an integer of rank 0 is in line."""
        type = tensor_type(tensor)
        builtin_type = TensorType(type.element_type, tensor.shape)
        if isinstance(tensor, FakeTensor):
            raise untraced_data(name)
        array = weight_array(tensor)
        if tensor.dim() == 0 and isinstance(type.element_type, IntegerType):
            data = BytesAttr(array.tobytes())
            return DenseIntOrFPElementsAttr(cast(Any, builtin_type), data)
        unique = self.weights.add(name, array)
        return DenseResourceAttr.from_params(unique, builtin_type)

    # --- outputs ---------------------------------------------------------------------

    def check_updates(self) -> None:
        """Refuse buffers whose new values have another type."""
        for target, argument in self.changed_buffers.items():
            node, old = self.nodes[argument.name], self.tensors[target]
            new = node.meta["val"]
            if (new.dtype, tuple(new.shape)) != (old.dtype, tuple(old.shape)):
                message = f"the model changes its buffer '{target}' of type"
                message = f"{message} {describe(old)} to {describe(new)}"
                hint = "keep its dtype, and write to a part of a buffer that is large"
                self.report(node, Obstacle(message, f"{hint} enough"))

    def check_outputs(self) -> None:
        """Refuse programs that change inputs or parameters."""
        for spec in self.ep.graph_signature.output_specs:
            # By name: PyTorch 2.8 has no PARAMETER_MUTATION.
            match spec.kind.name:
                case "USER_OUTPUT" | "BUFFER_MUTATION":
                    continue
                case "PARAMETER_MUTATION":
                    message = f"the model changes its parameter '{spec.target}'"
                    hint = (
                        "register it as a buffer; nn.Embedding with max_norm changes "
                        "its weight: normalize that before"
                    )
                case "USER_INPUT_MUTATION":
                    message = f"the model changes its input '{spec.target}' in place"
                    hint = "work on a clone and return it as an output"
                case name:
                    message, hint = f"an output of kind {name}", None
            self.report(self.nodes.get(spec.arg.name), Obstacle(message, hint))

    def import_outputs(
        self, node: Node, proposed: Sequence[str], taken: set[str]
    ) -> tuple[list[SSAValue], list[DictionaryAttr]]:
        """The tensors that the model returns, and their attributes."""
        specs = self.ep.graph_signature.output_specs
        first_user = sum(spec.kind != OutputKind.USER_OUTPUT for spec in specs)
        outputs: list[SSAValue] = []
        names: list[str] = []
        results = cast(Sequence[Any], node.args[0])
        for index, (spec, result) in enumerate(zip(specs, results, strict=True)):
            if spec.kind != OutputKind.USER_OUTPUT or result is None:
                continue
            name = proposed[index - first_user]
            if isinstance(spec.arg, TensorArgument):
                if result in self.function.values:
                    outputs.append(self.function.values[result])
                    names.append(unique_name(name, taken))
                    taken.add(names[-1])
            elif not isinstance(spec.arg, ConstantArgument) or (
                not self.leave_out_constants
            ):
                which = f"output '{name}'" if name else f"output {index - first_user}"
                message = f"{which} is not a tensor: {spec.arg}"
                hint = "return a tensor, or leave it out"
                self.report(None, Obstacle(message, hint))
        return outputs, name_attributes(names)

    def import_updates(
        self, arguments: Sequence[DictionaryAttr], taken: set[str]
    ) -> tuple[list[SSAValue], list[DictionaryAttr]]:
        """The new values of the buffers that the program changes."""
        values: list[SSAValue] = []
        attributes: list[DictionaryAttr] = []
        for entry in arguments:
            if (target := text(entry.data, BUFFER)) is None:
                continue
            node = self.nodes[self.changed_buffers[target].name]
            if node in self.function.values:
                values.append(self.function.values[node])
                name = unique_name(f"{name_of(entry)}_out", taken)
                taken.add(name)
                attributes.append(update_attributes(name, target))
        return values, attributes


def held_buffers(ep: ExportedProgram) -> list[str]:
    """The buffers that a program uses."""
    specs = ep.graph_signature.input_specs
    names = {node.name for node in ep.graph.nodes if node.users}
    return [
        cast(str, spec.target)
        for spec in specs
        if spec.kind == InputKind.BUFFER and spec.arg.name in names
    ]


def no_data(name: str) -> Obstacle:
    return Obstacle(f"'{name}' is on the meta device, without data", "load it")


def untraced_data(name: str) -> Obstacle:
    """Older versions of PyTorch export such a program; newer ones refuse the model."""
    return Obstacle(
        f"the constant '{name}' has no values: the model uses the data of a tensor, "
        "which torch.export cannot trace",
        "use x.detach() instead of x.data",
    )


def name_of(entry: DictionaryAttr) -> str:
    """The name in the attributes of an argument."""
    return cast(StringAttr, entry.data["padc.name"]).data


def name_attributes(names: Sequence[str]) -> list[DictionaryAttr]:
    return [DictionaryAttr({"padc.name": StringAttr(name)}) for name in names]
