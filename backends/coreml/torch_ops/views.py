# pyright: basic
"""
The views of a TorchScript graph that padc can write through.

A view shares the memory of its base. Its inverse makes the new base from the new view,
as `torch.export` does: a written slice is scattered into the tensor it was cut from.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from padc.errors import SourceLocation
from padc.frontends.torch_export.locations import TORCH_FOLDER

FRAME = re.compile(r"^(?:(\S.*)\((\d+)\): | +File \"(.+)\", line (\d+)$)", re.MULTILINE)
"""A line of a traced node, or of a scripted one."""


def nodes_of(block: Any) -> Iterator[Any]:
    """All nodes of a graph or block, those of inner blocks included."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


def location_of(node: Any) -> SourceLocation | None:
    """The innermost line of a node in a file that is not PyTorch's."""
    for match in FRAME.finditer(node.sourceRange()):
        file, line = match[1] or match[3], match[2] or match[4]
        if not file.startswith(TORCH_FOLDER):
            return SourceLocation(file, int(line))
    return None


class Builder:
    """Creates nodes in the place of another node."""

    def __init__(self, graph: Any, node: Any):
        self.graph = graph
        self.node = node

    def __call__(self, kind: str, *inputs: Any) -> Any:
        """The result of a new node."""
        return self.add(self.graph.create(kind, list(inputs), 1)).output()

    def add(self, node: Any) -> Any:
        """Add a node, at the module and the line of the other one."""
        node.insertBefore(self.node)
        node.copyMetadata(self.node)
        return node

    def repeat(self, node: Any, base: Any) -> Any:
        """A copy of `node` with another first input."""
        made = self.add(self.graph.createClone(node, lambda value: value))
        made.replaceInput(0, base)
        return made

    def constant(self, value: Any) -> Any:
        """A number, string or None as a value."""
        self.graph.setInsertPoint(self.node)
        made = self.graph.insertConstant(value)
        made.node().copyMetadata(self.node)
        return made

    def list_of(self, values: Sequence[Any], type: Any) -> Any:
        """A list of values of this type as one value."""
        made = self("prim::ListConstruct", *values)
        made.setType(torch._C.ListType(type))
        return made

    def integers(self, values: Sequence[int]) -> Any:
        """A list of numbers as one value."""
        return self.list_of([self.constant(x) for x in values], torch._C.IntType.get())

    def list_of_tensors(self, values: Sequence[Any]) -> Any:
        return self.list_of(values, torch._C.TensorType.get())


Inverse = Callable[[Builder, Any, Any, Any], Any]
"""
The base after a write: `inverse(build, node, base, new)`.

`node` makes the view of `base`, and `new` is the view after the write: a value, or a
list of values if the view is a list of tensors.
"""


@dataclass(frozen=True)
class Copy:
    """The answer for a node that returns a copy."""


COPY = Copy()


def view_of(node: Any) -> Inverse | Copy | None:
    """
    How a node's result is a view of its first input.

    Returns None if the graph does not tell, or if padc has no inverse.
    """
    kind = node.kind().removeprefix("aten::").removesuffix("_")
    if node.kind().startswith("aten::__"):
        return None
    if find := DECIDED.get(kind):
        return find(node)
    return VIEWS.get(kind)


def argument(node: Any, index: int) -> Any:
    """The value of an argument that is a constant; None if it is not one."""
    return node.inputsAt(index).toIValue() if index < node.inputsSize() else None


def integers(value: Any) -> Sequence[int] | None:
    """The constants of a list."""
    if value.node().kind() != "prim::ListConstruct":
        return value.toIValue()
    found = [each.toIValue() for each in value.node().inputs()]
    return None if None in found else found


def rest(node: Any) -> Sequence[Any]:
    return list(node.inputs())[1:]


# --- inverses -------------------------------------------------------------------------


def unchanged(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return new


def reshaped(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return build("aten::reshape_as", new, base)


def repeated(build: Builder, node: Any, base: Any, new: Any) -> Any:
    """The inverse of a transposition is the transposition."""
    return build(node.kind().removesuffix("_"), new, *rest(node))


def squeezed(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return build("aten::squeeze", new, node.inputsAt(1))


def moved(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return build(node.kind(), new, node.inputsAt(2), node.inputsAt(1))


def scattered(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return build(f"{node.kind()}_scatter", base, new, *rest(node))


def scattered_slice(build: Builder, node: Any, base: Any, new: Any) -> Any:
    start, end, step = (argument(node, index) for index in (2, 3, 4))
    starts_first = start == 0 or node.inputsAt(2).node().mustBeNone()
    ends_last = end == 2**63 - 1 or node.inputsAt(3).node().mustBeNone()
    if starts_first and ends_last and step == 1:
        return new
    return scattered(build, node, base, new)


def item(index: int) -> Inverse:
    """The inverse of one tensor of a list: the list with another one there."""

    def replaced(build: Builder, node: Any, base: Any, new: Any) -> Any:
        return [new if i == index else old for i, old in enumerate(node.outputs())]

    return replaced


def concatenated(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return build("aten::cat", build.list_of_tensors(new), node.inputsAt(2))


def stacked(build: Builder, node: Any, base: Any, new: Any) -> Any:
    return build("aten::stack", build.list_of_tensors(new), node.inputsAt(1))


# --- views that the arguments decide --------------------------------------------------


def permuted(node: Any) -> Inverse | None:
    if (dims := integers(node.inputsAt(1))) is None:
        return None
    places = [dim % len(dims) for dim in dims]
    inverse = [places.index(dim) for dim in range(len(dims))]

    def invert(build: Builder, node: Any, base: Any, new: Any) -> Any:
        return build("aten::permute", new, build.integers(inverse))

    return invert


def narrowed(node: Any) -> Inverse | None:
    dim, start, length = (argument(node, index) for index in (1, 2, 3))
    if not all(isinstance(x, int) for x in (dim, start, length)):
        return None
    end = start + length
    if start < 0 and end == 0:
        end = 2**63 - 1

    def scatter(build: Builder, node: Any, base: Any, new: Any) -> Any:
        ends = [build.constant(x) for x in (dim, start, end, 1)]
        return build("aten::slice_scatter", base, new, *ends)

    return scatter


def as_other_shape(node: Any) -> Inverse | Copy | None:
    """A reshaped tensor, which is a copy if its memory does not allow a view."""
    before, after = node.inputsAt(0).type(), node.output().type()
    if not (is_known(before) and after.sizes() is not None):
        return None
    tensor = torch.empty_strided(before.sizes(), before.strides(), device="meta")
    if math.prod(before.sizes()) != math.prod(after.sizes()):
        return None
    return reshaped if tensor.reshape(after.sizes())._is_view() else COPY


def as_view(node: Any) -> Inverse | None:
    """A view as another shape; not as another dtype."""
    return None if node.schema().startswith("aten::view.dtype") else reshaped


def as_same(node: Any) -> Inverse | Copy | None:
    """A tensor in a dtype and memory format, which is itself if it has them."""
    before, after = node.inputsAt(0).type(), node.output().type()
    if not (is_known(before) and is_known(after)):
        return None
    differs = (
        before.dtype() != after.dtype()
        or before.strides() != after.strides()
        or (
            "bool copy" in node.schema()
            and argument(node, copy_position(node)) is not False
        )
    )
    return COPY if differs else unchanged


def copy_position(node: Any) -> int:
    """The position of the argument `copy` of `to`."""
    names = [each.name for each in torch._C.parse_schema(node.schema()).arguments]
    return names.index("copy")


def as_large(node: Any) -> Inverse | None:
    """An expanded tensor: PyTorch writes to it only if no element is repeated."""
    before, after = node.inputsAt(0).type(), node.output().type()
    if before.sizes() is None or before.sizes() != after.sizes():
        return None
    return unchanged


def without_dropout(node: Any) -> Inverse | None:
    return unchanged if argument(node, 2) is False else None


def is_known(type: Any) -> bool:
    """Whether a traced tensor has sizes, strides and a dtype."""
    return None not in (type.sizes(), type.strides(), type.dtype())


def of_kinds(kinds: str, value: Any) -> Mapping[str, Any]:
    return dict.fromkeys(kinds.split(), value)


VIEWS: Mapping[str, Inverse] = {
    **of_kinds("detach alias resolve_conj resolve_neg", unchanged),
    **of_kinds("_unsafe_view view_as unflatten squeeze", reshaped),
    **of_kinds("transpose swapaxes swapdims t numpy_T mT", repeated),
    **of_kinds("select diagonal", scattered),
    **of_kinds("movedim moveaxis", moved),
    **of_kinds("split split_with_sizes chunk tensor_split", concatenated),
    **of_kinds("unsafe_split unsafe_split_with_sizes unsafe_chunk", concatenated),
    "slice": scattered_slice,
    "unbind": stacked,
    "unsqueeze": squeezed,
}
"""The inverses of the ops that always return views."""

DECIDED: Mapping[str, Callable[[Any], Inverse | Copy | None]] = {
    **of_kinds("reshape reshape_as flatten ravel", as_other_shape),
    **of_kinds("contiguous to type_as float half", as_same),
    **of_kinds("expand expand_as", as_large),
    **of_kinds("dropout feature_dropout alpha_dropout", without_dropout),
    "feature_alpha_dropout": without_dropout,
    "narrow": narrowed,
    "permute": permuted,
    "view": as_view,
}
"""How to invert an op whose arguments tell whether it returns a view."""

UNMARKED = frozenset(
    """
    dropout feature_dropout alpha_dropout feature_alpha_dropout type_as atleast_1d
    atleast_2d atleast_3d broadcast_tensors meshgrid einsum lift sum_to_size
    cartesian_prod unsafe_split unsafe_split_with_sizes unsafe_chunk _unsafe_view
    """.split()
)
"""Ops that may return a view, although their schemas do not say so."""

TURNED = frozenset(
    "unsqueeze_ squeeze_ transpose_ swapaxes_ swapdims_ t_ detach_".split()
)
"""Ops that change a tensor to a view of itself."""

OF_SHAPE = frozenset(
    """
    aten::size aten::dim aten::numel aten::stride aten::len aten::is_floating_point
    aten::is_complex prim::shape prim::device prim::dtype prim::layout prim::is_cuda
    """.split()
)
"""Ops that read no elements."""
