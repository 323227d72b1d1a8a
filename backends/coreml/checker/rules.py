"""
The rules about single ops, each a small function next to its source.

A rule takes the op and the target, and yields a message for each violation. If that
depends on an unknown size or a computed value, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from padc.backends.coreml.checker.checked_op import Op
from padc.ir.mil_forms import DECLARED, MAX_RANK, Form, newest_form
from padc.ir.targets import TARGETS

Check = Callable[[Op, str], Iterator[str]]

COREMLTOOLS = "https://github.com/apple/coremltools"
DOCUMENTATION = (
    "https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs"
    ".html"
)
RANK_AND_CONST = (
    f"{COREMLTOOLS}/blob/9.0/coremltools/converters/mil/mil/program.py, "
    "_check_early_error_out_for_invalid_program"
)


def documented(op: str) -> str:
    """The documentation of an op, named by its module: `iOS15.conv.conv`."""
    return f"{DOCUMENTATION}#coremltools.converters.mil.mil.ops.defs.{op}"


@dataclass(frozen=True)
class Rule:
    """The source of a rule, and the ops that it is about."""

    source: str
    op_types: frozenset[str] = frozenset()
    """The ops that `check` is for; if empty, every op."""
    check: Check | None = None
    """None if the checker itself finds violations."""


RULES: dict[str, Rule] = {
    # About the package, its functions and the names in them.
    "target": Rule(f"{COREMLTOOLS}/issues/2283"),
    "description": Rule(f"{COREMLTOOLS}/blob/9.0/mlmodel/format/Model.proto"),
    "io-type": Rule(
        f"{COREMLTOOLS}/blob/9.0/coremltools/converters/mil/backend/mil/passes/"
        "adjust_io_to_supported_types.py"
    ),
    "io-rank": Rule(f"{COREMLTOOLS}/issues/1765"),
    "state": Rule(
        f"{COREMLTOOLS}/blob/9.0/coremltools/converters/mil/backend/mil/load.py, "
        "get_func_input"
    ),
    "name-unique": Rule(f"{COREMLTOOLS}/blob/9.0/mlmodel/format/MIL.proto"),
    "name-form": Rule(
        f"{COREMLTOOLS}/blob/9.0/coremltools/converters/mil/mil/passes/defs/"
        "preprocess.py, NameSanitizer"
    ),
    "undefined": Rule(f"{COREMLTOOLS}/blob/9.0/mlmodel/format/MIL.proto"),
    "weights": Rule(
        f"{COREMLTOOLS}/blob/9.0/mlmodel/src/MILBlob/Blob/StorageFormat.hpp"
    ),
    # About the types that are declared.
    "element-type": Rule(
        f"{COREMLTOOLS}/blob/9.0/coremltools/converters/mil/backend/mil/passes/"
        "adjust_io_to_supported_types.py"
    ),
    "computed": Rule(DOCUMENTATION),
}
"""Every rule, by name; the decorator `rule` adds those about single ops."""


def rule(name: str, source: str, *op_types: str) -> Callable[[Check], Check]:
    """Make a function the check of a rule about `op_types`, by default every op."""

    def register(check: Check) -> Check:
        RULES[name] = Rule(source, frozenset(op_types), check)
        return check

    return register


# --- every op -------------------------------------------------------------------------

SINCE: dict[str, str] = {
    **dict.fromkeys(("classify", "cond", "custom_layer", "while_loop"), "iOS15"),
    **dict.fromkeys(
        (
            *("list_gather", "list_length", "list_read", "list_scatter"),
            *("list_write", "make_list"),
        ),
        "iOS15",
    ),
    "write_state": "iOS18",
}
"""The first target of the ops that `padc.ir.mil` does not declare."""


SAVED = {name: op for name, op in DECLARED.items() if name != "coreml_update_state"}
"""The forms of the ops that packages have: an update is saved as `write_state`."""


def is_available(since: str, target: str) -> bool:
    return TARGETS.index(since) <= TARGETS.index(target)


def form_of(op: Op, target: str) -> Form | None:
    """The op in the target's opset; None if it does not have it, or `SINCE` has it."""
    forms = SAVED.get(op.type)
    return None if forms is None else newest_form(forms, target)


@rule("opset", DOCUMENTATION)
def opset(op: Op, target: str) -> Iterator[str]:
    """The target's opset has the op."""
    known = op.type in SAVED or op.type in SINCE
    if not known:
        yield "Core ML has no such op"
    elif op.type in SINCE and not is_available(SINCE[op.type], target):
        yield f"the op needs {SINCE[op.type]}, not {target}"
    elif op.type in SAVED and form_of(op, target) is None:
        since = next(t for t in TARGETS if form_of(op, t) is not None)
        yield f"the op needs {since}, not {target}"


@rule("input-unknown", DOCUMENTATION)
def input_unknown(op: Op, target: str) -> Iterator[str]:
    """The target's opset has the op's inputs."""
    if (form := form_of(op, target)) is not None:
        for name in sorted(op.inputs.keys() - form.inputs.keys()):
            yield f"{target} has no input '{name}' of this op"


def newer(op: Op, target: str) -> Iterator[str]:
    """What in an op the target's opset lacks."""
    yield from opset(op, target)
    yield from input_unknown(op, target)


@rule("input-missing", DOCUMENTATION)
def input_missing(op: Op, target: str) -> Iterator[str]:
    """Inputs that are not optional are given."""
    if (form := form_of(op, target)) is not None:
        for name, declared in form.inputs.items():
            if not declared.optional and not op.inputs.get(name):
                yield f"it has no input '{name}'"


@rule("input-constant", RANK_AND_CONST)
def input_constant(op: Op, target: str) -> Iterator[str]:
    """Inputs that must be constants are constants."""
    if (form := form_of(op, target)) is not None:
        for name, values in op.inputs.items():
            declared = form.inputs.get(name)
            if declared is not None and declared.constant:
                for value in values:
                    if not value.is_constant:
                        yield f"the input '{name}' is computed, '{value.name}'"


@rule("input-type", DOCUMENTATION)
def input_type(op: Op, target: str) -> Iterator[str]:
    """Inputs have the element types that the op takes; some must be equal."""
    if (form := form_of(op, target)) is None:
        return
    bound: dict[str, tuple[str, str]] = {}
    for name, declared in form.inputs.items():
        for value in op.inputs.get(name, ()):
            if (element := value.element_type) is None:
                continue
            if element not in declared.domain:
                allowed = ", ".join(sorted(declared.domain))
                yield f"the input '{name}' is {element}; it may be {allowed}"
            elif declared.variable is not None:
                first, other = bound.setdefault(declared.variable, (name, element))
                if other != element:
                    yield f"'{name}' is {element} where '{first}' is {other}"


@rule("rank", RANK_AND_CONST)
def rank(op: Op, target: str) -> Iterator[str]:
    """No tensor has more than 5 dimensions, except operands of `constexpr_` ops."""
    if op.type.startswith("constexpr_"):
        return
    given = [value for values in op.inputs.values() for value in values]
    for value in [*op.outputs, *filter(lambda value: value.is_constant, given)]:
        if (shape := op.shapes.of(value)) is not None and len(shape) > MAX_RANK:
            yield f"'{value.name}' has rank {len(shape)}, above {MAX_RANK}"


@rule(
    "empty",
    "https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/"
    "coreml/builders/helper.cc, IsInputSupported",
)
def empty(op: Op, target: str) -> Iterator[str]:
    """No op returns a tensor without elements."""
    for value in op.outputs:
        if 0 in (shape := op.shapes.of(value) or ()):
            yield f"'{value.name}' has no elements: its shape is {shape}"


# --- ops with options, and with ranks -------------------------------------------------

PAD_TYPES = ("valid", "custom", "same", "same_lower")
POOLS = ("avg_pool", "l2_pool", "max_pool")
OPTIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("pad", "mode"): ("constant", "reflect", "replicate"),
    **{(op, "pad_type"): PAD_TYPES for op in ("conv", "conv_quantized", *POOLS)},
    ("conv_transpose", "pad_type"): ("valid", "custom", "same"),
    **{("resample", name): options for name, options in {
        "sampling_mode": ("bilinear", "nearest"),
        "padding_mode": ("constant", "border", "reflection", "symmetric"),
        "coordinates_mode": (
            "unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one",
        ),
    }.items()},
}  # fmt: skip
"""The options that the documentation of an op lists for an input."""


@rule("option", DOCUMENTATION, *(op for op, _ in OPTIONS))
def option(op: Op, target: str) -> Iterator[str]:
    """Options are among those that the documentation lists."""
    for (op_type, name), allowed in OPTIONS.items():
        if op_type == op.type and (word := op.text(name, allowed[0])) not in allowed:
            yield f"{name} is '{word}'; it may be {', '.join(allowed)}"
    if target == "iOS15" and op.text("pad_type", "") == "same_lower":
        yield "pad_type 'same_lower' needs iOS16"


SPATIAL = range(3, 6)
RANKS: dict[tuple[str, str], range] = {
    **{(op, "x"): SPATIAL for op in ("conv", "conv_quantized", "conv_transpose")},
    **{(op, "x"): SPATIAL for op in ("avg_pool", "batch_norm", "max_pool")},
    **{(op, "x"): range(3, 5) for op in ("instance_norm", "l2_pool")},
    ("local_response_norm", "x"): range(3, 5),
    **{(op, "x"): range(3, 6) for op in ("crop", "l2_norm")},
    **{(op, "x"): range(3, 6) for op in ("resize_bilinear", "upsample_bilinear")},
    ("resize_nearest_neighbor", "x"): range(3, 6),
    ("upsample_nearest_neighbor", "x"): range(3, 6),
    **{(op, "x"): range(4, 5) for op in ("affine", "depth_to_space", "resample")},
    **{(op, "x"): range(4, 5) for op in ("pixel_shuffle", "space_to_depth")},
    ("affine", "transform_matrix"): range(2, 3),
    ("resample", "coordinates"): range(4, 5),
}
"""The ranks that the documentation of an op allows for an input."""


@rule("input-rank", DOCUMENTATION, *(op for op, _ in RANKS))
def input_rank(op: Op, target: str) -> Iterator[str]:
    """Inputs have a rank that the op takes."""
    for (op_type, name), ranks in RANKS.items():
        if op_type == op.type and (shape := op.shape(name)) is not None:
            if len(shape) not in ranks:
                allowed = " to ".join(map(str, sorted({ranks[0], ranks[-1]})))
                yield f"'{name}' has rank {len(shape)}; it may have rank {allowed}"


@rule("resample-coordinates", documented("iOS15.image_resizing.resample"), "resample")
def resample_coordinates(op: Op, target: str) -> Iterator[str]:
    """Coordinates are pairs, and there are as many batches of them as images."""
    x, coordinates = op.shape("x"), op.shape("coordinates")
    if x and coordinates and len(x) == len(coordinates) == 4:
        if coordinates[3] not in (2, None):
            yield f"coordinates have {coordinates[3]} numbers each, not 2"
        if None not in (x[0], coordinates[0]) and x[0] != coordinates[0]:
            yield f"'coordinates' are for {coordinates[0]} images, 'x' has {x[0]}"


# --- pad ------------------------------------------------------------------------------

PAD = documented("iOS15.tensor_operation.pad")


def pairs(op: Op) -> list[tuple[int, int]] | None:
    """A constant `pad` as (before, after); None if it is not given, or computed."""
    amounts = op.integers("pad")
    return None if amounts is None else list(zip(amounts[::2], amounts[1::2]))


def padded_axes(op: Op, mode: str) -> Iterator[tuple[int, int | None, tuple[int, int]]]:
    """Axis, size and amounts of each axis that a `pad` of this mode pads."""
    shape, amounts = op.shape("x"), pairs(op)
    if shape is None or amounts is None or op.text("mode", "constant") != mode:
        return
    first = len(shape) - len(amounts)
    for axis, pair in enumerate(amounts, first):
        if any(pair) and axis >= 0:
            yield axis, shape[axis], pair


@rule("pad-axes", f"{COREMLTOOLS}/pull/2701, issues 2571 and 2576", "pad")
def pad_axes(op: Op, target: str) -> Iterator[str]:
    """Modes other than constant only pad the last two dimensions."""
    for mode in ("reflect", "replicate"):
        for axis, _, pair in padded_axes(op, mode):
            if axis < len(op.shape("x") or ()) - 2:
                yield f"{mode} pads dimension {axis} by {pair}, not one of the last two"


@rule("pad-reflect", PAD, "pad")
def pad_reflect(op: Op, target: str) -> Iterator[str]:
    """reflect pads by at most the size minus one, on each side."""
    for axis, size, pair in padded_axes(op, "reflect"):
        if size is not None and max(pair) > size - 1:
            yield f"reflect pads dimension {axis} of size {size} by {pair}"


@rule("pad-replicate", PAD, "pad")
def pad_replicate(op: Op, target: str) -> Iterator[str]:
    """replicate pads by at most the size, on each side."""
    for axis, size, pair in padded_axes(op, "replicate"):
        if size is not None and max(pair) > size:
            yield f"replicate pads dimension {axis} of size {size} by {pair}"


@rule("pad-length", PAD, "pad")
def pad_length(op: Op, target: str) -> Iterator[str]:
    """There are two amounts for each padded dimension."""
    shape, amounts = op.shape("x"), op.integers("pad")
    if shape is not None and amounts is not None:
        if len(amounts) % 2 or len(amounts) > 2 * len(shape):
            yield f"pad has {len(amounts)} amounts for {len(shape)} dimensions"


@rule("pad-dynamic", f"{PAD}; {COREMLTOOLS}/issues/2654, pull/2588", "pad")
def pad_dynamic(op: Op, target: str) -> Iterator[str]:
    """Amounts are constant, unless x has rank 1."""
    shape = op.shape("x")
    for value in op.inputs.get("pad", ()):
        if not value.is_constant and shape is not None and len(shape) > 1:
            yield f"the amounts are computed, '{value.name}', for rank {len(shape)}"


@rule("pad-negative", PAD, "pad", "conv", "conv_quantized", "conv_transpose", *POOLS)
def pad_negative(op: Op, target: str) -> Iterator[str]:
    """No amount is negative."""
    if min(amounts := op.integers("pad") or [0]) < 0:
        yield f"pad is {amounts}; amounts may not be negative"


# --- convolutions and pools -----------------------------------------------------------


@rule("pad-same", documented("iOS15.conv.conv"), "conv", "conv_quantized", *POOLS)
def pad_same(op: Op, target: str) -> Iterator[str]:
    """pad_type is not `same`, whose documented amounts and sizes disagree."""
    if (word := op.text("pad_type", "valid")) in ("same", "same_lower"):
        yield f"pad_type is '{word}', on which the documentation contradicts itself"


@rule("dynamic-weight", documented("iOS15.conv.conv"), "conv")
def dynamic_weight(op: Op, target: str) -> Iterator[str]:
    """A computed weight is not dilated."""
    dilations = op.integers("dilations") or [1]
    for value in op.inputs.get("weight", ()):
        if not value.is_constant and max(dilations) > 1:
            yield f"the weight is computed, '{value.name}', and dilated by {dilations}"


@rule("ceil-mode", documented("iOS15.pool.avg_pool"), *POOLS)
def ceil_mode(op: Op, target: str) -> Iterator[str]:
    """ceil_mode is for 1-D and 2-D pools with equal padding on both sides."""
    if not any(op.integers("ceil_mode") or ()):
        return
    if len(op.shape("x") or ()) > 4:
        yield "ceil_mode is for 1-D and 2-D pools only"
    if (word := op.text("pad_type", "valid")) in ("same", "same_lower"):
        yield f"ceil_mode with pad_type '{word}'"
    elif any(before != after for before, after in pairs(op) or ()):
        yield f"ceil_mode with the padding {op.integers('pad')}, which is uneven"


@rule("ceil-overhang", f"{COREMLTOOLS}/issues/2772", "avg_pool")
def ceil_overhang(op: Op, target: str) -> Iterator[str]:
    """An average does not count elements beyond the padding."""
    excludes = any(op.integers("exclude_padding_from_average") or ())
    if excludes or not any(op.integers("ceil_mode") or ()):
        return
    for axis, overhang in overhangs(op):
        yield (
            f"its last window reaches {overhang} beyond the padding of dimension "
            f"{axis}; Core ML counts that in the average, PyTorch does not"
        )


def overhangs(op: Op) -> Iterator[tuple[int, int]]:
    """The dimensions whose last window exceeds the padding, and by how much."""
    shape, kernel = op.shape("x"), op.integers("kernel_sizes")
    if shape is None or kernel is None or len(kernel) != len(shape) - 2:
        return
    strides = op.integers("strides") or [1] * len(kernel)
    is_custom = op.text("pad_type", "valid") == "custom"
    padding = (pairs(op) if is_custom else None) or [(0, 0)] * len(kernel)
    axes = zip(shape[2:], kernel, strides, padding)
    for axis, (size, window, stride, pad) in enumerate(axes, 2):
        if size is None or stride < 1:
            continue
        count = -(-(size + sum(pad) - window) // stride) + 1
        if sum(pad) and (count - 1) * stride >= size + pad[0]:
            count -= 1
        overhang = (count - 1) * stride + window - size - sum(pad)
        if overhang > 0:
            yield axis, overhang


# --- gathers --------------------------------------------------------------------------

GATHERS = ("gather", "gather_along_axis", "gather_nd")
SCATTERS = ("scatter", "scatter_along_axis", "scatter_nd")


@rule(
    "negative-index",
    documented("iOS17.scatter_gather.gather"),
    *GATHERS,
    *SCATTERS,
)
def negative_index(op: Op, target: str) -> Iterator[str]:
    """Since iOS17, no index is negative."""
    if is_available("iOS17", target) and (indices := op.array("indices")) is not None:
        if indices.size and indices.min() < 0:
            yield f"an index is {indices.min()}, which is out of bounds since iOS17"


@rule(
    "index-range",
    documented("iOS17.scatter_gather.gather"),
    "gather",
    "gather_along_axis",
    "scatter",
    "scatter_along_axis",
)
def index_range(op: Op, target: str) -> Iterator[str]:
    """Indices are less than the size of the axis."""
    shape = op.shape("x" if op.type in GATHERS else "data")
    indices = op.array("indices")
    axis = (op.integers("axis") or [0])[0]
    if shape is None or indices is None or not indices.size:
        return
    if -len(shape) <= axis < len(shape) and (size := shape[axis]) is not None:
        if indices.max() >= size:
            yield f"an index is {indices.max()}, but dimension {axis} has size {size}"
