# pyright: basic, reportPrivateUsage=false
"""
Conditions on sizes that PyTorch leaves to its kernels, as guards of a program.

`F.pad(x, (4, -6))` of fewer than 6 elements raises in eager mode, but torch.export
keeps no guard that says so. A circular pad does not even raise: PyTorch pads before it
crops, and returns memory that nobody wrote where cropping leaves fewer elements than
are padded, as `F.pad(x, (3, -2), mode="circular")` of 4 elements.

A condition is of the op, wherever it stands: in the program itself, in a branch, or in
the body of a loop. The bounds of an input's size that follows from another, as 2*n, are
conditions, too: no symbol has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard, cast

import sympy
import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._sympy.functions import FloorDiv, Max, Min
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from padc.errors import SourceLocation, UsageError
from padc.frontends.torch_export.expressions import shown
from padc.frontends.torch_export.locations import node_location
from padc.frontends.torch_export.nodes import is_mutable, nodes_of, schema_name
from padc.frontends.torch_export.types import expression_of
from padc.ir.padding import PAD_LIMITS

Bounds: TypeAlias = Mapping[sympy.Symbol, ValueRanges[Any]]

PADDING_MODES = ("reflect", "replicate", "circular", "constant")
"""The modes of `aten._pad_enum`, by number. Source: `padding_mode` of PyTorch's
aten/src/ATen/native/PadNd.h."""
MODES: Mapping[str, str] = {
    "aten.constant_pad_nd": "constant",
    "aten._pad_circular": "circular",
    **{f"aten.replication_pad{rank}d": "replicate" for rank in (1, 2, 3)},
}
"""The modes of the ops that have one; PyTorch makes the guards of reflection pads."""
CONVOLUTIONS: Mapping[str, int | None] = {
    **{f"aten.conv{rank}d": rank for rank in (1, 2, 3)},
    **{f"aten.conv{rank}d.padding": rank for rank in (1, 2, 3)},
    "aten.conv_transpose1d": 1,
    "aten.conv_transpose2d.input": 2,
    "aten.conv_transpose3d.input": 3,
    "aten.convolution": None,
}
"""The convolutions, and how many dimensions they have windows along; None: any."""
POOLS: Mapping[str, int] = {
    f"aten.{kind}avg_pool{rank}d": rank
    for kind in ("", "adaptive_", "_adaptive_")
    for rank in (1, 2, 3)
}
"""The same for the pools that pad, but refuse what is empty along their windows."""

RESAMPLING = re.compile(r"aten\.(_?upsample_|grid_sampler)\w*(\.vec)?$")
"""Ops that read the nearest elements, of which there have to be some."""
EXTREMES = frozenset(f"aten.{name}" for name in ("max", "max.dim", "min", "min.dim"))
"""Ops that return an element, of which there has to be one."""
INDEXING = frozenset(
    f"aten.{name}" for name in ("embedding", "gather", "index.Tensor", "index_select")
)
"""Ops that read elements at computed places."""
ALIASES = frozenset(f"aten.{name}" for name in ("alias", "detach", "detach_"))
"""Ops whose result is their operand."""
COPIES = frozenset(("aten.clone", "aten.lift_fresh_copy"))
"""Ops whose result has the elements of their operand, in other memory."""


@dataclass(frozen=True)
class Size:
    """A size or an amount, in the formulas of `padc.ir.padding`."""

    expression: sympy.Expr
    bounds: Bounds

    def __add__(self, other: Size | int) -> Size:
        return self._of(self.expression + expression(other))

    def __radd__(self, other: int) -> Size:
        return self + other

    def __sub__(self, other: Size | int) -> Size:
        return self._of(self.expression - expression(other))

    def minimum(self, other: Size | int) -> Size:
        if self.is_at_least(other):
            return self._of(expression(other))
        if self._of(expression(other)).is_at_least(self):
            return self
        return self._of(cast(Any, Min)(self.expression, expression(other)))

    def maximum(self, other: Size | int) -> Size:
        if self.is_at_least(other):
            return self
        if self._of(expression(other)).is_at_least(self):
            return self._of(expression(other))
        return self._of(cast(Any, Max)(self.expression, expression(other)))

    def is_at_least(self, other: Size | int) -> bool:
        """Whether this is known of all sizes that the program takes."""
        rest = (self - other).expression
        return bool(bound_sympy(rest, dict(self.bounds)).lower >= 0)

    def _of(self, expression: sympy.Expr) -> Size:
        return Size(expression, self.bounds)


def expression(size: Size | int) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.expression


@dataclass(frozen=True)
class Limit:
    """A condition on sizes, `value >= least`, of the op that demands it."""

    node: Node
    mode: str
    """That of a pad; empty for other ops."""
    value: Size
    least: Size
    unless: Size | None = None
    """It need not hold where this is 0."""

    @property
    def always_holds(self) -> bool:
        return self.value.is_at_least(self.least)

    @property
    def never_holds(self) -> bool:
        return self.unless is None and self.least.is_at_least(self.value + 1)

    @property
    def is_of_values(self) -> bool:
        return any(is_of_values(x.expression) for x in (self.value, self.least))

    def text(self, sources: Mapping[sympy.Expr, sympy.Expr]) -> str:
        """The condition in Python."""
        value, least = (python(x.expression, sources) for x in (self.value, self.least))
        if self.unless is None:
            return f"{value} >= {least}"
        return f"{value} >= {least} or {python(self.unless.expression, sources)} == 0"


Limits: TypeAlias = Iterator[Limit]


def limit_guards(
    ep: ExportedProgram,
    inputs: Mapping[str, tuple[int, str]],
    of_values: bool = True,
) -> list[str]:
    """
    The conditions on input sizes, in Python as PyTorch writes guards, each once.

    `inputs` are the number and the name of each input, by what guards call it.
    Conditions on numbers read from tensors come, too, unless `of_values` is false.
    Raises UsageError where a condition holds for no size.
    """
    found = [
        limit
        for limit in limits(ep)
        if not limit.always_holds and (of_values or not limit.is_of_values)
    ]
    sources = sources_of_symbols(ep, inputs) if found else {}
    sources = {of_any_size(known): source for known, source in sources.items()}
    for limit in found:
        if limit.never_holds:
            raise never_fits(limit, sources, inputs)
    return list(dict.fromkeys(limit.text(sources) for limit in found))


def limits(ep: ExportedProgram) -> Limits:
    """The conditions of all ops of a program."""
    bounds, constants = bounds_of(ep), constants_of(ep)
    for node in ep.graph.find_nodes(op="placeholder"):
        yield from limits_of_input(node, ep.range_constraints, bounds)
    for node in nodes_of(ep.graph_module):
        name = schema_name(node.target)
        if name in CONVOLUTIONS:
            yield from limits_of_convolution(node, CONVOLUTIONS[name], bounds)
        elif name in POOLS:
            sizes = shape_of(arguments(node)["self"])[-POOLS[name] :]
            yield from limits_of_windows(node, sizes, bounds)
        elif RESAMPLING.match(name):
            image, *_ = arguments(node).values()
            yield from limits_of_windows(node, shape_of(image)[2:], bounds)
        elif name in EXTREMES:
            given = arguments(node)
            shape = shape_of(given["self"])
            if -len(shape) <= (dim := given.get("dim", 0)) < len(shape):
                sizes = [shape[dim]] if "dim" in given else shape
                yield from limits_of_windows(node, sizes, bounds)
        elif name in INDEXING:
            yield from limits_of_indices(node, bounds, constants)
        elif name == "aten.pixel_unshuffle":
            yield from limits_of_unshuffle(node, bounds)
        elif name == "aten.select.int":
            yield from limits_of_index(node, bounds)
        elif name in ("aten.slice_scatter", "aten.select_scatter"):
            yield from limits_of_part(node, bounds)
        elif (mode := mode_of(node, name)) is not None:
            yield from limits_of_pad(node, mode, bounds)


def bounds_of(ep: ExportedProgram) -> Bounds:
    """The bounds of symbolic sizes, from 1 where torch.export says 2."""
    # It does so of all sizes that it was not given bounds for.
    found: dict[sympy.Symbol, ValueRanges[Any]] = {}
    for symbol, bounds in ep.range_constraints.items():
        if isinstance(symbol, sympy.Symbol):
            low = 1 if bounds.lower == 2 else bounds.lower
            found[of_any_size(symbol)] = ValueRanges(low, bounds.upper)
    return found


def of_any_size(expression: sympy.Expr) -> Any:
    """
    The expression with symbols that may be 0.

    PyTorch declares its symbols positive, so sympy simplifies `min(n, 1)` to 1.
    """
    symbols = cast(set[sympy.Symbol], expression.free_symbols)
    plain = {symbol: sympy.Symbol(symbol.name, integer=True) for symbol in symbols}
    return expression.xreplace(plain)


def limits_of_input(node: Node, ranges: Mapping[Any, Any], bounds: Bounds) -> Limits:
    """That sizes which follow from one of another input are in their own bounds."""
    value = node.meta.get("val")
    for size in value.shape if isinstance(value, torch.Tensor) else ():
        known = expression_of(size)
        # Of a sum of several sizes, a package cannot keep them: it takes all sums, of
        # which the results are right.
        if known not in ranges or len(known.free_symbols) != 1:
            continue
        own, given = size_of(size, bounds), ranges[known]
        symbols: Any = {symbol: ranges[symbol] for symbol in known.free_symbols}
        implied = bound_sympy(known, symbols)
        if given.lower > implied.lower:
            yield Limit(node, "", own, Size(given.lower, bounds))
        if given.upper < implied.upper:
            yield Limit(node, "", Size(given.upper, bounds), own)


def limits_of_convolution(node: Node, rank: int | None, bounds: Bounds) -> Limits:
    """Those of windows, but PyTorch takes an empty batch of empty images."""
    shape = shape_of(arguments(node)["input"])
    rank = rank or len(shape) - 2
    for size in shape[-rank:]:
        yield from limit_if_any(node, size, shape[: -rank - 1], bounds)


def limits_of_windows(node: Node, sizes: Sequence[Any], bounds: Bounds) -> Limits:
    """That no dimension with windows is empty."""
    for size in sizes:
        yield Limit(node, "", size_of(size, bounds), Size(sympy.Integer(1), bounds))


def constants_of(ep: ExportedProgram) -> Mapping[Node, torch.Tensor]:
    """The integer tensors that a program holds and never changes, and their copies."""
    lifted = ep.graph_signature.inputs_to_lifted_tensor_constants
    values: dict[Node, torch.Tensor] = {}
    memory: dict[Node, set[Any]] = {}
    """What each node may be a view of: the storage of a constant, or a copy."""
    written: set[Any] = set()
    for node in ep.graph.nodes:
        given = set[Any]().union(*(memory.get(x, ()) for x in node.all_input_nodes))
        name = schema_name(node.target)
        if node.op == "placeholder":
            value = ep.constants.get(lifted.get(node.name, ""))
            if is_list_of_indices(value):
                values[node] = value
                memory[node] = {value.untyped_storage().data_ptr()}
        elif name in ALIASES | COPIES:
            source = next(iter(node.all_input_nodes), None)
            if source in values:
                values[node] = values[source]
            memory[node] = given if name in ALIASES else {node}
        elif isinstance(node.target, OpOverload) and not is_mutable(node):
            memory[node] = given if holds_integers(node) else set()
        elif node.op != "output":
            written |= given  # Regions may write to what they take, too.
    return {node: x for node, x in values.items() if not memory[node] & written}


def is_list_of_indices(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether a constant is a tensor of indices whose elements are known."""
    return (
        isinstance(value, torch.Tensor)
        and not isinstance(value, FakeTensor)
        and value.dtype in (torch.int32, torch.int64)
        and value.layout is torch.strided
        and value.is_cpu
    )


def holds_integers(node: Node) -> bool:
    """Whether a node returns a tensor that may be a view of one of integers."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(
        isinstance(x, torch.Tensor) and not x.is_floating_point() for x in leaves
    )


def limits_of_indices(
    node: Node, bounds: Bounds, constants: Mapping[Node, torch.Tensor]
) -> Limits:
    """That a dimension has the elements at the indices, as far as these are known."""
    given, name = arguments(node), schema_name(node.target)
    match name:
        case "aten.embedding":
            shape, places = shape_of(given["weight"]), {0: given["indices"]}
        case "aten.index.Tensor":
            shape = shape_of(given["self"])
            places = places_of(given["indices"])
        case _:
            shape = shape_of(given["self"])
            places = {given["dim"]: given["index"]}
    for dim, index in places.items():
        if -len(shape) <= dim < len(shape):  # Others are refused by the lowerings.
            # PyTorch's index checks none if its result is empty.
            made, least = node if name == "aten.index.Tensor" else index, 1
            if index in constants and (known := constants[index]).numel():
                least = least_size(int(known.min()), int(known.max()))
            yield from limit_if_any(node, shape[dim], shape_of(made), bounds, least)


def least_size(first: int, last: int) -> int:
    """The least size of a dimension that has these indices, which may be negative."""
    return max(last + 1, -first)


def limit_if_any(
    node: Node, size: Any, others: Sequence[Any], bounds: Bounds, least: int = 1
) -> Limits:
    """That a size is at least `least`, unless one of others is 0."""
    own, needed = size_of(size, bounds), Size(sympy.Integer(least), bounds)
    sizes = [size_of(other, bounds).expression for other in others]
    count = Size(sympy.Mul(*sizes), bounds)
    if own.is_at_least(least):
        return
    if count.is_at_least(1):
        yield Limit(node, "", own, needed)
    elif count.expression != 0:
        yield Limit(node, "", own, needed, unless=count)


def places_of(indices: Sequence[Node | None]) -> Mapping[int, Node]:
    """The dimension that each index is for; masks have positions of true elements."""
    found: dict[int, Node] = {}
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        value = index.meta["val"]
        is_mask = value.dtype in (torch.bool, torch.uint8)
        if not is_mask:
            found[dim] = index
        dim += value.dim() if is_mask else 1
    return found


def limits_of_unshuffle(node: Node, bounds: Bounds) -> Limits:
    """That no dynamic dimension is empty: PyTorch returns an empty tensor as it is."""
    sizes = [
        size for size in shape_of(arguments(node)["self"]) if not isinstance(size, int)
    ]
    yield from limits_of_windows(node, sizes, bounds)


def limits_of_part(node: Node, bounds: Bounds) -> Limits:
    """That what replaces a part has its sizes; PyTorch's kernel checks it."""
    given = arguments(node)
    part = [size_of(size, bounds) for size in shape_of(given["self"])]
    source = [size_of(size, bounds) for size in shape_of(given["src"])]
    rank, dim, one = len(part), given["dim"], Size(sympy.Integer(1), bounds)
    if len(source) + ("index" in given) != rank or not -rank <= dim < rank:
        return  # The lowerings refuse it.
    size = part[dim]
    if "index" in given:
        yield from limits_of_index(node, bounds)
        part[dim] = one
        source.insert(dim % rank, one)
    elif isinstance(step := given["step"], int):
        zero = Size(sympy.Integer(0), bounds)
        first, last = (
            otherwise if given[name] is None else size_of(given[name], bounds)
            for name, otherwise in (("start", zero), ("end", size))
        )
        for place in first, last:
            if not (zero - place).is_at_least(0):
                # One that may be on either side of 0 must not count from the end.
                yield Limit(node, "", place, zero)
        part[dim] = elements_of_slice(size, first, last, step)
    else:
        part[dim] = source[dim]
    for own, other in zip(source, part, strict=True):
        yield Limit(node, "", own, other)
        yield Limit(node, "", other, own)


def limits_of_index(node: Node, bounds: Bounds) -> Limits:
    """That a dimension has the element that an op reads or replaces."""
    given = arguments(node)
    shape, dim = shape_of(given["self"]), given["dim"]
    if not -len(shape) <= dim < len(shape):
        return  # The lowerings refuse it.
    size, index = size_of(shape[dim], bounds), size_of(given["index"], bounds)
    if is_of_values(index.expression):
        yield Limit(node, "", size, Size(sympy.Integer(1), bounds))
    else:
        yield Limit(node, "", size, index + 1)
        yield Limit(node, "", size, Size(-index.expression, bounds))


def is_of_values(expression: sympy.Expr) -> bool:
    """Whether an expression depends on unbacked symbols: numbers read from tensors."""
    symbols = cast(set[sympy.Symbol], expression.free_symbols)
    kinds = SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT
    return any(symbol_is_type(symbol, kinds) for symbol in symbols)


def elements_of_slice(size: Size, first: Size, last: Size, step: int) -> Size:
    """How many elements of `size` a slice has; ends below 0 count from the end."""

    def bounded(place: Size) -> Size:
        from_end = Size(-place.expression, place.bounds).is_at_least(1)
        return (size + place).maximum(0) if from_end else size.minimum(place)

    rest = (bounded(last) - bounded(first)).maximum(0) + (step - 1)
    return replace(rest, expression=cast(Any, FloorDiv)(rest.expression, step))


def mode_of(node: Node, name: str) -> str | None:
    """The mode of a pad; None for other ops, and for modes that PyTorch lacks."""
    match name:
        case "aten.pad":
            mode = arguments(node)["mode"]
        case "aten._pad_enum":
            number = arguments(node)["mode"]
            mode = PADDING_MODES[number] if number in range(4) else ""
        case _:
            mode = MODES.get(name)
    return mode if mode in PAD_LIMITS else None


def limits_of_pad(node: Node, mode: str, bounds: Bounds) -> Limits:
    """The conditions of each dimension that amounts are given for."""
    given = arguments(node)
    amounts = cast(Sequence[Any], given["padding" if "padding" in given else "pad"])
    shape = shape_of(given["self"])
    for place, sides in enumerate(zip(amounts[::2], amounts[1::2])):
        size = size_of(shape[len(shape) - 1 - place], bounds)
        lower, upper = (size_of(side, bounds) for side in sides)
        for value, least in PAD_LIMITS[mode](size, lower, upper):
            least = Size(expression(least), bounds)
            yield Limit(node, mode, value, least)


def arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call by their names, and the defaults of the others."""
    schema = cast(Any, node.target)._schema.arguments
    given = {each.name: each.default_value for each in schema}
    positional = zip((each.name for each in schema), node.args, strict=False)
    return {**given, **dict(positional), **node.kwargs}


def shape_of(node: Node) -> Sequence[Any]:
    return node.meta["val"].shape


def size_of(size: Any, bounds: Bounds) -> Size:
    """A size or an amount, which may be the result of a node."""
    value = size.meta.get("val") if isinstance(size, Node) else size
    if not isinstance(value, int | torch.SymInt):
        return Size(sympy.Symbol(str(size), integer=True), bounds)
    return Size(of_any_size(expression_of(value)), bounds)


def sources_of_symbols(
    ep: ExportedProgram, inputs: Mapping[str, tuple[int, str]]
) -> Mapping[sympy.Expr, sympy.Expr]:
    """
    The sizes of inputs that symbols are, as guards call them: largest terms first.

    For a dimension of size `2*n`, that is the size itself, and `size // 2` for `n`.
    """
    values = {node.name: node.meta.get("val") for node in ep.graph.nodes}
    plain: dict[sympy.Expr, sympy.Expr] = {}
    derived: dict[sympy.Expr, sympy.Expr] = {}
    solved: dict[sympy.Expr, sympy.Expr] = {}
    for source, (_, name) in inputs.items():
        value = values[name]
        assert isinstance(value, torch.Tensor)
        for dim, size in enumerate(value.shape):
            known = expression_of(size)
            given = sympy.Symbol(f"{source}.size()[{dim}]", integer=True)
            if isinstance(known, sympy.Symbol):
                plain.setdefault(known, given)
            elif len(known.free_symbols) == 1:
                derived.setdefault(known, given)
                (symbol,) = cast(set[sympy.Symbol], known.free_symbols)
                if (value_of := solution(known, symbol, given)) is not None:
                    solved.setdefault(symbol, value_of)
    return {**derived, **solved, **plain}


def solution(
    size: sympy.Expr, symbol: sympy.Symbol, given: sympy.Expr
) -> sympy.Expr | None:
    """The value of the symbol for which a size is `given`; None if it is not linear."""
    offset = size.subs(symbol, 0)
    factor = size.subs(symbol, 1) - offset
    if sympy.expand(factor * symbol + offset - size) != 0:
        return None
    return cast(sympy.Expr, FloorDiv(given - offset, factor))


def python(expression: sympy.Basic, sources: Mapping[sympy.Expr, sympy.Expr]) -> str:
    """An expression of sizes as Python, in terms of the sizes of inputs."""
    for known, source in sources.items():
        expression = expression.subs(known, source)
    return PythonPrinter().doprint(expression)


def never_fits(
    limit: Limit,
    sources: Mapping[sympy.Expr, sympy.Expr],
    inputs: Mapping[str, tuple[int, str]],
) -> UsageError:
    left, least = (
        shown(python(size.expression, sources), inputs)
        for size in (limit.value, limit.least)
    )
    if limit.mode == "circular":
        message = (
            f"a circular pad by {least} after a crop that leaves {left} "
            f"element{'' if left == '1' else 's'}: PyTorch returns memory that nobody "
            "wrote"
        )
        hint = "crop the result instead of the input, or pad by less"
    else:
        what = f"a {limit.mode} pad" if limit.mode else schema_name(limit.node.target)
        message = f"{what} needs {left} >= {least}, which no size satisfies"
        hint = "crop or pad by less" if limit.mode else "give it operands that fit"
    location = SourceLocation.of(node_location(limit.node))
    return UsageError(message, location=location, hint=hint)
