# pyright: basic, reportMissingTypeStubs=false
"""
Writes in place in a TorchScript graph, as operators that write nothing.

coremltools takes `add_` for `add`, and drops what it writes to other tensors that share
the memory. Here a write through a view makes a new base; what reads the base or another
view of it afterwards gets the new one. That is what `torch.export` does.

    v = select(y, 0, 0)        v = select(y, 0, 0)
    w = add_(v, x)        ->   w = add(v, x)
    return y                   z = select_scatter(y, w, 0, 0)
                               return z

If the graph does not tell whether tensors share memory, and it matters, or if a write
has no such form, the conversion stops.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.views import (
    OF_SHAPE,
    TURNED,
    UNMARKED,
    Builder,
    Copy,
    Inverse,
    item,
    location_of,
    nodes_of,
    view_of,
)
from padc.errors import Problem, UnsupportedError

with quiet():
    from coremltools.converters.mil import Builder as MilBuilder
    from coremltools.converters.mil.mil import types

mb: Any = MilBuilder

CAST = "padc::cast_like"
"""`cast_like(x, like)`: x with the dtype of `like`."""
ASSIGN = "padc::assign_"
"""
`assign_(buffer, x)`: x, which is the buffer's new value.

coremltools updates the state of a first operand after each op that ends in `_`.
"""
HINT = (
    "convert the program of torch.export.export(model, inputs) instead, in which "
    "PyTorch has replaced all writes in place"
)


@dataclass(eq=False)
class Storage:
    """Memory that tensors share."""

    is_buffer: bool = False
    is_outside: bool = False
    """Whether it may be memory of the graph around a block."""
    version: int = 0
    """How often it has been written."""
    related: "set[Storage]" = field(default_factory=set["Storage"])
    """The storages that may be the same memory."""
    spoilt_by: Any = None
    """A write after which the elements are not known."""

    def relate(self, other: "Storage") -> None:
        self.related.add(other)
        other.related.add(self)

    def others(self) -> "set[Storage]":
        """All that may be the same memory."""
        found: set[Storage] = {self}
        waiting: list[Storage] = [self]
        while waiting:
            new = waiting.pop().related - found
            found |= new
            waiting.extend(new)
        return found - {self}


@dataclass(eq=False)
class View:
    """A tensor, or a list of tensors, in memory that others may share."""

    storage: Storage
    value: Any
    """Its value in the graph when the storage had `version`."""
    version: int = 0
    parent: "View | None" = None
    """The view that `node` makes it from; None if it is the whole storage."""
    node: Any = None
    index: int = 0
    """Which of the node's results it is."""
    inverse: Inverse | None = None


def replace_writes(graph: Any, parameters: Mapping[str, Any]) -> None:
    """
    Replace the writes in place of a TorchScript graph that nothing else holds.

    Args:
        graph: An inlined graph, which is changed.
        parameters: The parameters and buffers, by the names of their values.

    Raises:
        UnsupportedError: A write may change a tensor that is used afterwards, and padc
            cannot tell, or cannot express it.
    """
    if any(is_write(node) for node in nodes_of(graph)):
        Replacer(graph, parameters).run()


class Replacer:
    """Goes through a graph, and knows the value of each tensor at that point."""

    def __init__(self, graph: Any, parameters: Mapping[str, Any]):
        self.graph = graph
        self.parameters = parameters
        self.holders: dict[int, list[str]] = {}
        """The names of the parameters in each memory."""
        for name, tensor in parameters.items():
            self.holders.setdefault(memory_of(tensor), []).append(name)
        self.views: dict[int, View] = {}
        """By the number of a value in the graph before all changes."""
        self.replaced: list[Any] = []
        self.build = Builder(graph, graph.return_node())

    def run(self) -> None:
        for value in self.graph.inputs():
            self.view(value)
        end = self.graph.return_node()
        names = [value.debugName() for value in end.inputs()]
        self.visit_block(self.graph)
        self.build = Builder(self.graph, end)
        self.refresh(end)
        for node in reversed(self.replaced):
            node.destroy()
        for name, value in zip(names, end.inputs(), strict=True):
            # Only PyTorch itself gives names that are numbers.
            if name != value.debugName() and not name.isdecimal():
                value.setDebugName(name)

    def visit_block(self, block: Any) -> None:
        for node in list(block.nodes()):
            self.build = Builder(self.graph, node)
            self.visit(node)

    def visit(self, node: Any) -> None:
        if node.kind() in OF_SHAPE:
            self.refresh(node, of_shape=True)
            return
        given = [self.view(x) if holds_tensors(x) else None for x in node.inputs()]
        if is_write(node):
            self.refresh(node)
            if (position := written_argument(node)) is None:
                self.visit_list_write(node, given)
            else:
                self.visit_write(node, given, position)
        elif any(True for _ in node.blocks()):
            self.visit_blocks(node, given)
        else:
            self.refresh(node)
            self.note_results(node, given)

    # --- reads ------------------------------------------------------------------------

    def view(self, value: Any) -> View:
        """The view of a value; one that shares nothing if it is new."""
        key = value.unique()
        if key not in self.views:
            self.views[key] = View(Storage(), value)
        return self.views[key]

    def refresh(self, node: Any, of_shape: bool = False) -> None:
        """Let a node read the values that tensors have now, or only their shapes."""
        for index, value in enumerate(list(node.inputs())):
            if view := self.views.get(value.unique()):
                node.replaceInput(index, view.value if of_shape else self.current(view))

    def current(self, view: View) -> Any:
        """The value of a tensor now."""
        storage = view.storage
        if storage.spoilt_by is not None:
            raise refusal(
                storage.spoilt_by, "it may change another tensor, which is used later"
            )
        if view.version < storage.version:
            assert view.parent is not None
            node = self.build.repeat(view.node, self.current(view.parent))
            self.update(view, node.outputsAt(view.index))
        return view.value

    def update(self, view: View, value: Any) -> None:
        """Note the value of a tensor after the last write."""
        if not value.isCompleteTensor():
            value.setTypeAs(view.value)
        view.value, view.version = value, view.storage.version
        self.views[value.unique()] = view

    # --- results ----------------------------------------------------------------------

    def note_results(self, node: Any, given: Sequence[View | None]) -> None:
        """Note which memory the results of a node have."""
        results = [value for value in node.outputs() if holds_tensors(value)]
        for value in results:
            self.view(value)
        if not results:
            return
        if node.kind() == "prim::GetAttr":
            self.note_buffer(results[0])
        elif makes_new_tensors(node):
            return
        elif (base := given[0] if given else None) is None:
            self.relate(given, results)
        elif node.kind() == "prim::ListUnpack" and base.node is not None:
            self.note_views(node, base, item)
        elif (inverse := view_of(node)) is None:
            self.relate(given, results)
        elif not isinstance(inverse, Copy):
            self.note_views(node, base, lambda index: inverse)

    def note_buffer(self, value: Any) -> None:
        view = self.views[value.unique()] = View(Storage(is_buffer=True), value)
        if (tensor := self.parameters.get(value.debugName())) is None:
            return
        for name in self.holders[memory_of(tensor)]:
            if name != value.debugName():
                view.storage.relate(self.storage_of_parameter(name))

    def storage_of_parameter(self, name: str) -> Storage:
        """The memory of a parameter, whose node may come later."""
        for node in self.graph.nodes():
            for value in node.outputs():
                if value.debugName() == name:
                    if value.unique() not in self.views:
                        storage = Storage(is_buffer=True)
                        self.views[value.unique()] = View(storage, value)
                    return self.view(value).storage
        return Storage()

    def note_views(
        self, node: Any, base: View, inverse_at: Callable[[int], Inverse]
    ) -> None:
        """Note that the results of a node are views of its first input."""
        storage = base.storage
        for index, value in enumerate(node.outputs()):
            self.views[value.unique()] = View(
                storage, value, storage.version, base, node, index, inverse_at(index)
            )

    def relate(self, given: Iterable[View | None], results: Sequence[Any]) -> None:
        """Note that results may be views of any operand."""
        storages = [self.view(value).storage for value in results]
        for view in given:
            for storage in storages:
                if view is not None:
                    storage.relate(view.storage)
        for storage in storages[1:]:
            storage.relate(storages[0])

    # --- blocks -----------------------------------------------------------------------

    def visit_blocks(self, node: Any, given: Sequence[View | None]) -> None:
        """Visit the blocks of a loop or condition, which may write only their own."""
        outside = [view.storage for view in self.views.values()]
        before = [(storage, storage.is_outside) for storage in outside]
        # What a block reads from outside has to be there before it.
        for inner in nodes_of_blocks(node):
            self.refresh(inner)
        self.refresh(node)
        for storage in outside:
            storage.is_outside = True
        shared = [*given]
        for block in node.blocks():
            for value in filter(holds_tensors, block.inputs()):
                shared.append(self.view(value))
                self.view(value).storage.is_outside = True
            self.visit_block(block)
            self.build = Builder(self.graph, block.returnNode())
            self.refresh(block.returnNode())
            outputs = filter(holds_tensors, block.outputs())
            shared += [self.view(value) for value in outputs]
        for storage, was_outside in before:
            storage.is_outside = was_outside
        results = [value for value in node.outputs() if holds_tensors(value)]
        for value in results:
            self.view(value)
        self.relate(shared, results)

    # --- writes -----------------------------------------------------------------------

    def visit_list_write(self, node: Any, given: Sequence[View | None]) -> None:
        """A list of Python changes, which coremltools follows."""
        if node.kind().startswith("aten::_foreach_"):
            raise refusal(node, "it changes a list of tensors")
        self.relate(
            given[1:], [node.inputsAt(0), *filter(holds_tensors, node.outputs())]
        )

    def visit_write(
        self, node: Any, given: Sequence[View | None], position: int
    ) -> None:
        target, name = given[position], node.kind().removeprefix("aten::")
        assert target is not None
        if target.storage.is_outside:
            raise refusal(node, "it changes a tensor from outside of its block")
        if name in TURNED:
            self.turn(node, target)
        elif (made := self.written(node, name, position, target)) is None:
            self.keep(node, target)
        else:
            self.write(node, target, made)
            self.replace(node, target)

    def turn(self, node: Any, base: View) -> None:
        """Replace a node that changes a tensor to a view of itself."""
        kind = node.kind().removesuffix("_")
        value = self.build(kind, *node.inputs())
        value.setTypeAs(node.output())
        inverse = view_of(value.node())
        assert inverse is not None and not isinstance(inverse, Copy)
        self.note_views(value.node(), base, lambda index: inverse)
        self.replace(node, self.view(value))

    def replace(self, node: Any, view: View) -> None:
        """Let what reads the result of a node read a view."""
        self.views[node.output().unique()] = view
        self.replaced.append(node)

    def keep(self, node: Any, target: View) -> None:
        """Leave a write that has no other form to coremltools, if nothing shares it."""
        shares = any(
            view.storage is target.storage and view is not target
            for view in self.views.values()
        )
        if shares or target.storage.is_buffer or target.storage.others():
            raise refusal(node, "it changes a tensor that has other views")
        self.views[node.output().unique()] = target
        target.value = node.output()

    def written(self, node: Any, name: str, position: int, target: View) -> Any:
        """The value that a node writes; None if no op computes it."""
        inputs = list(node.inputs())
        if name == "copy_":
            return self.like_base(self.expanded(inputs[1], inputs[0]), target)
        if name == "zero_":
            return self.build("aten::fill", inputs[0], self.build.constant(0))
        if not name.endswith("_"):  # It writes to `out`.
            before, after = sizes(inputs[position]), sizes(node.output())
            if before is None or before != after:
                raise refusal(node, "it may change the size of its result")
            inputs.pop(position)
            functional = name
        elif (functional := functional_name(node, name)) is None:
            return None
        return self.like_base(self.build(f"aten::{functional}", *inputs), target)

    def expanded(self, value: Any, like: Any) -> Any:
        same = sizes(value) is not None and sizes(value) == sizes(like)
        return value if same else self.build("aten::expand_as", value, like)

    def like_base(self, value: Any, target: View) -> Any:
        """A value in the dtype of the memory that it is written to."""
        while target.parent is not None:
            target = target.parent
        return self.build(CAST, value, self.current(target))

    def write(self, node: Any, target: View, new: Any) -> None:
        """Give a tensor, and what shares its memory, new elements."""
        storage = target.storage
        view, made = target, [(target, new)]
        while view.parent is not None:
            base = self.current(view.parent)
            assert view.inverse is not None
            source = view.node
            if base.unique() != source.inputsAt(0).unique():
                source = self.build.repeat(source, base)
            new = view.inverse(self.build, source, base, new)
            view = view.parent
            made.append((view, new))
        if storage.is_buffer:
            new = self.build(ASSIGN, view.value, new)
            made[-1] = view, new
        storage.version += 1
        for view, value in made:
            if not isinstance(value, list):
                self.update(view, value)
        for other in storage.others():
            other.spoilt_by = node
            if other.is_buffer:
                raise refusal(node, "it changes a buffer by another name")


# --- nodes ----------------------------------------------------------------------------


def nodes_of_blocks(node: Any) -> Iterator[Any]:
    for block in node.blocks():
        yield from nodes_of(block)
        yield block.returnNode()


@functools.cache
def parsed(schema: str) -> Any:
    """A schema; None for ops that have none."""
    try:
        return torch._C.parse_schema(schema)
    except RuntimeError:
        return None


def is_write(node: Any) -> bool:
    schema = parsed(node.schema())
    return schema is not None and schema.is_mutable


def written_argument(node: Any) -> int | None:
    """The position of the tensor that a node changes; None if that is a list."""
    for position, argument in enumerate(parsed(node.schema()).arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            is_list = node.inputsAt(position).type().kind() == "ListType"
            return None if is_list else position
    return None


def makes_new_tensors(node: Any) -> bool:
    """Whether the results of a node share no memory with its operands."""
    if node.kind() in ("prim::Constant", "prim::NumToTensor"):
        return True
    schema = parsed(node.schema())
    if schema is None or node.kind().startswith("prim::"):
        return False
    if node.kind().removeprefix("aten::") in UNMARKED:
        return False
    return all(each.alias_info is None for each in schema.returns)


def functional_name(node: Any, name: str) -> str | None:
    """The op that takes the same arguments as one in place, and changes none."""
    if name.startswith("__i"):
        name = f"__{name.removeprefix('__i')}"
    else:
        name = name.removesuffix("_")
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        if signature(schema) == signature(parsed(node.schema())):
            return name
    return None


def signature(schema: Any) -> Sequence[tuple[str, str]]:
    return [(each.name, str(each.type)) for each in schema.arguments]


def holds_tensors(value: Any) -> bool:
    """Whether a value is a tensor, or a list or tuple that may hold one."""
    type = value.type()
    return type.kind() not in ("ClassType", "StringType") and "Tensor" in str(type)


def sizes(value: Any) -> Sequence[int] | None:
    """The sizes of a traced tensor; None if they are not known."""
    type = value.type()
    return type.sizes() if type.kind() == "TensorType" else None


def memory_of(parameter: Any) -> int:
    """A key that is equal for parameters that share memory."""
    is_tensor = isinstance(parameter, torch.Tensor) and parameter.numel() > 0
    return parameter.untyped_storage().data_ptr() if is_tensor else id(parameter)


def refusal(node: Any, why: str) -> UnsupportedError:
    """The error for a write that padc does not replace."""
    message = f"{node.kind()} writes in place, and {why}"
    return UnsupportedError([Problem(message, location_of(node), HINT)])


# --- converters -----------------------------------------------------------------------


def cast_like(context: Any, node: Any) -> None:
    """Convert a node of the kind CAST."""
    x, like = (context[name] for name in node.inputs)
    if x.dtype != like.dtype and not types.is_complex(like.dtype):
        x = mb.cast(x=x, dtype=types.builtin_to_string(like.dtype), name=node.name)
    elif x.op is None:
        x = mb.identity(x=x, name=node.name)
    context.add(x, torch_name=node.name)


def assign(context: Any, node: Any) -> None:
    """Convert a node of the kind ASSIGN."""
    context.add(context[node.inputs[1]], torch_name=node.name)


CONVERTERS = {CAST: cast_like, ASSIGN.removesuffix("_"): assign}
"""The converters of the ops that writes become, by their names in the registry."""
