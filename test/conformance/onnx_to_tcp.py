# pyright: basic
"""
ONNX nodes as `tcp` programs: ONNX' padding attributes, by padc's arithmetic.

Attributes and their defaults are those of https://onnx.ai/onnx/operators. Amounts, sizes
and scales, which are known when a model is compiled, are read from a test's arrays.
Nothing here is computed on tensors: the reference runs the programs.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from padc.ir import padding, tcp
from padc.ir.element_types import least_value
from padc.ir.padding import Amounts
from padc.ir.tcp import Coordinates, ResampleMode, tensor_type
from padc.ir.torch import VTensorType, builtin_type
from padc.ir.torch.tensors import ELEMENT_TYPES
from padc.passes.aten.builder import AtenBuilder


class NotMappedError(Exception):
    """Why `tcp` has nothing for a node."""


@dataclass
class Node:
    """A node that is being mapped: what it says, and where its program grows."""

    attributes: Mapping[str, Any]
    inputs: Sequence[np.ndarray | None]
    values: Sequence[SSAValue | None]
    build: AtenBuilder

    def get(self, name: str, default: Any) -> Any:
        """An attribute; one without a value counts as left out."""
        return self.attributes.get(name) or default

    def tensor(self, index: int) -> SSAValue:
        value = self.values[index]
        assert value is not None
        return value

    def array(self, index: int) -> np.ndarray | None:
        """An input that is known when a model is compiled."""
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int = 0) -> list[int]:
        return list(tensor_type(self.tensor(index)).get_shape())

    def like(self, shape: Sequence[int]) -> TensorType:
        """A type with the element type of the first input."""
        return TensorType(tensor_type(self.tensor(0)).element_type, shape)

    def pad(
        self, x: SSAValue, amounts: Sequence[Amounts], fill: float | int = 0
    ) -> SSAValue:
        """`x` padded by amounts of its last dimensions."""
        type = tensor_type(x)
        every = [Amounts(0, 0)] * (type.get_num_dims() - len(amounts)) + [*amounts]
        scalar = self.build.insert(tcp.fill_constant(fill, type.element_type))
        lower = [amount.lower for amount in every]
        upper = [amount.upper for amount in every]
        interior = [amount.interior for amount in every]
        return self.build.insert(tcp.PadOp(x, scalar, lower, upper, interior))


MapsNode = Callable[[Node], Sequence[SSAValue]]
MAPPINGS: dict[str, tuple[int, MapsNode]] = {}
"""For each op: how many of its inputs are tensors of the program, and its mapping."""


def maps(op_type: str, tensors: int = 1) -> Callable[[MapsNode], MapsNode]:
    def register(mapping: MapsNode) -> MapsNode:
        MAPPINGS[op_type] = tensors, mapping
        return mapping

    return register


def program(
    op_type: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[np.ndarray | None],
) -> tuple[ModuleOp, list[np.ndarray]]:
    """A module that is the node, and what to run it on. Raises NotMappedError."""
    if op_type not in MAPPINGS:
        raise NotMappedError("no mapping")
    count, mapping = MAPPINGS[op_type]
    given = [array for array in inputs[:count] if array is not None]
    types = [type_of(array) for array in given]
    block = Block([end := ReturnOp()], arg_types=types)
    arguments = iter(block.args)
    values = [None if a is None else next(arguments) for a in inputs[:count]]
    results = mapping(Node(attributes, inputs, values, AtenBuilder(end)))
    end.detach()
    end.erase()
    block.add_op(ReturnOp(*results))
    output_types = [result.type for result in results]
    module = ModuleOp([FuncOp("main", (types, output_types), Region(block))])
    module.verify()
    return module, given


def type_of(array: np.ndarray) -> TensorType:
    element_type = ELEMENT_TYPES[torch.from_numpy(array).dtype]
    return builtin_type(VTensorType.get(element_type, array.shape))


# --- windows ---------------------------------------------------------------------------


@dataclass
class Windows:
    """How a convolution or a pool goes over its spatial dimensions."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    amounts: list[Amounts]

    def result(self, sizes: Sequence[int]) -> list[int]:
        """How many windows there are."""
        each = zip(
            sizes, self.kernel, self.strides, self.dilations, self.amounts, strict=True
        )
        return [
            padding.conv_output_size(size, k, s, d, a.lower, a.upper)
            for size, k, s, d, a in each
        ]


def windows(node: Node, kernel: Sequence[int]) -> Windows:
    """The windows of an input `[N, C, ..]`, padded as `auto_pad` or `pads` says."""
    rank = len(kernel)
    strides = node.get("strides", [1] * rank)
    dilations = node.get("dilations", [1] * rank)
    each = zip(node.shape()[2:], kernel, strides, dilations, strict=True)
    match node.get("auto_pad", "NOTSET"):
        case "SAME_UPPER":
            amounts = [padding.same_upper(*one) for one in each]
        case "SAME_LOWER":
            amounts = [padding.same_lower(*one) for one in each]
        case "VALID":
            amounts = [Amounts(0, 0)] * rank
        case _:
            amounts = explicit(node, rank)
    return Windows(list(kernel), list(strides), list(dilations), amounts)


def explicit(node: Node, rank: int) -> list[Amounts]:
    """`pads`: all begins, then all ends."""
    pads = node.get("pads", [0] * 2 * rank)
    return [Amounts(*pair) for pair in zip(pads[:rank], pads[rank:], strict=True)]


@maps("Conv", tensors=3)
def conv(node: Node) -> list[SSAValue]:
    features, _, *kernel = node.shape(1)
    w = windows(node, kernel)
    sizes = w.result(node.shape()[2:])
    op = tcp.ConvOp(
        node.pad(node.tensor(0), w.amounts),
        node.tensor(1),
        node.tensor(2) if len(node.values) > 2 else None,
        w.strides,
        w.dilations,
        node.get("group", 1),
        tcp.ConvDimsAttr.channels_first(len(kernel)),
        node.like([node.shape()[0], features, *sizes]),
    )
    return [node.build.insert(op)]


@maps("ConvTranspose", tensors=3)
def conv_transpose(node: Node) -> list[SSAValue]:
    """The zero insertion of `ir/padding.py`, less what VALID inserts at the edges."""
    batch, _, *sizes = node.shape()
    _, features, *kernel = node.shape(1)
    rank, groups = len(kernel), node.get("group", 1)
    strides = node.get("strides", [1] * rank)
    dilations = node.get("dilations", [1] * rank)
    extra = node.get("output_padding", [0] * rank)
    crops = explicit(node, rank)
    wanted = node.get("output_shape", [None] * rank)
    auto_pad = node.get("auto_pad", "NOTSET")
    expansions: list[Amounts] = []
    for n in range(rank):
        window = kernel[n], strides[n], dilations[n]
        edge = dilations[n] * (kernel[n] - 1)
        if wanted[n] is not None:
            full = padding.conv_transpose_output_size(sizes[n], *window)
            total = max(full + extra[n] - wanted[n], 0)
            start = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            expansions.append(Amounts(-start, wanted[n] - full + start))
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            found = padding.onnx_conv_transpose_amounts(*window, extra[n], auto_pad)
            expansions.append(Amounts(found.lower - edge, found.upper - edge))
        else:
            crop = crops[n]
            below = padding.conv_transpose_amounts(*window, crop.lower)
            above = padding.conv_transpose_amounts(*window, crop.upper, extra[n])
            expansions.append(Amounts(below.lower - edge, above.upper - edge))
    result = [
        padding.conv_transpose_output_size(size, k, s, d) + a.lower + a.upper
        for size, k, s, d, a in zip(sizes, kernel, strides, dilations, expansions)
    ]
    op = tcp.ConvTransposeOp(
        node.tensor(0),
        node.tensor(1),
        node.tensor(2) if len(node.values) > 2 else None,
        strides,
        dilations,
        groups,
        tcp.ConvDimsAttr.transposed(rank),
        node.like([batch, features * groups, *result]),
        expansions,
    )
    return [node.build.insert(op)]


# --- pools -----------------------------------------------------------------------------


def pool_windows(node: Node) -> Windows:
    """The windows of a pool, with what `ceil_mode` adds above."""
    w = windows(node, node.attributes["kernel_shape"])
    if not node.get("ceil_mode", 0):
        return w
    if any(amount.lower != amount.upper for amount in w.amounts):
        raise NotMappedError("ceil_mode of two different amounts")
    w.amounts = [
        padding.pool_amounts(k, s, d, amount.lower, True)
        for k, s, d, amount in zip(w.kernel, w.strides, w.dilations, w.amounts)
    ]
    return w


def pool(
    node: Node,
    op_type: type[tcp.PoolOp],
    x: SSAValue,
    w: Windows,
    fill: float | int,
    type: TensorType | None = None,
    **options: Any,
) -> SSAValue:
    batch, features, *sizes = node.shape()
    shape = [batch, features, *w.result(sizes)]
    return node.build.insert(
        op_type(
            node.pad(x, w.amounts, fill),
            w.kernel,
            w.strides,
            w.dilations,
            list(range(2, 2 + len(sizes))),
            TensorType(i64, shape) if type else node.like(shape),
            **options,
        )
    )


@maps("MaxPool")
def max_pool(node: Node) -> list[SSAValue]:
    x, w = node.tensor(0), pool_windows(node)
    least = least_value(tensor_type(x).element_type)
    return [pool(node, tcp.MaxPoolOp, x, w, least)]


@maps("MaxPoolWithIndices")
def max_pool_with_indices(node: Node) -> list[SSAValue]:
    """A MaxPool with its second output: positions in the whole tensor."""
    if node.get("storage_order", 0):
        raise NotMappedError("indices in column-major order")
    if math.prod(node.shape()[:2]) != 1:
        raise NotMappedError("indices counted over batch and features")
    x, w = node.tensor(0), pool_windows(node)
    least = least_value(tensor_type(x).element_type)
    indices = pool(
        node,
        tcp.ArgMaxPoolOp,
        x,
        w,
        least,
        TensorType(i64, []),
        uncounted_lower=[amount.lower for amount in w.amounts],
        uncounted_upper=[amount.upper for amount in w.amounts],
    )
    return [*max_pool(node), indices]


@maps("AveragePool")
def average_pool(node: Node) -> list[SSAValue]:
    w, sides = pool_windows(node), [Amounts(0, 0)] * len(node.shape()[2:])
    if node.get("count_include_pad", 0):
        # Elements that ceil_mode adds after the padding are never counted.
        sides = windows(node, w.kernel).amounts
    pairs = list(zip(w.amounts, sides, strict=True))
    return [
        pool(
            node,
            tcp.AvgPoolOp,
            node.tensor(0),
            w,
            0,
            uncounted_lower=[a.lower - counted.lower for a, counted in pairs],
            uncounted_upper=[a.upper - counted.upper for a, counted in pairs],
        )
    ]


@maps("LpPool")
def lp_pool(node: Node) -> list[SSAValue]:
    """`(sum of |x|^p)^(1/p)`."""
    build, p, w = node.build, node.get("p", 2), pool_windows(node)
    powers = build.elementwise("abs", node.tensor(0))
    powers = build.elementwise("pow.Tensor_Scalar", powers, exponent=p)
    total = pool(node, tcp.AvgPoolOp, powers, w, 0, divisor=1)
    return [build.elementwise("pow.Tensor_Scalar", total, exponent=1 / p)]


# --- pads ------------------------------------------------------------------------------

BORDERS = {
    "edge": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "wrap": tcp.CircularPadOp,
}


def axes_of(node: Node, axes: Iterable[int] | None) -> list[int]:
    rank = len(node.shape())
    return [int(axis) % rank for axis in (range(rank) if axes is None else axes)]


@maps("Pad")
def pad(node: Node) -> list[SSAValue]:
    pads = node.array(1)
    assert pads is not None
    axes = axes_of(node, node.array(3))
    every = [Amounts(0, 0)] * len(node.shape())
    for i, axis in enumerate(axes):
        every[axis] = Amounts(int(pads[i]), int(pads[i + len(axes)]))
    mode = node.get("mode", "constant")
    if mode == "constant":
        value = node.array(2)
        return [node.pad(node.tensor(0), every, 0 if value is None else value.item())]
    lower, upper = [a.lower for a in every], [a.upper for a in every]
    return [node.build.insert(BORDERS[mode](node.tensor(0), lower, upper))]


@maps("CenterCropPad")
def center_crop_pad(node: Node) -> list[SSAValue]:
    """Crops or adds half of the difference below, and the rest above."""
    shape = node.array(1)
    assert shape is not None
    every = [Amounts(0, 0)] * len(node.shape())
    for axis, size in zip(axes_of(node, node.get("axes", None)), shape, strict=True):
        missing = int(size) - node.shape()[axis]
        lower = missing // 2 if missing > 0 else -(-missing // 2)
        every[axis] = Amounts(lower, missing - lower)
    return [node.pad(node.tensor(0), every)]


@maps("Col2Im")
def col2im(node: Node) -> list[SSAValue]:
    """Each position in the block, spread by its stride and moved into place; summed."""
    image, block = node.array(1), node.array(2)
    assert image is not None and block is not None
    rank, (batch, rows, _) = len(block), node.shape()
    strides = node.get("strides", [1] * rank)
    dilations = node.get("dilations", [1] * rank)
    crops, build = explicit(node, rank), node.build
    w = Windows([*map(int, block)], strides, dilations, crops)
    counts, features = w.result([*map(int, image)]), rows // math.prod(w.kernel)
    x = build.reshape(
        node.tensor(0), [batch, features, math.prod(w.kernel), math.prod(counts)]
    )
    terms: list[SSAValue] = []
    for row, position in enumerate(itertools.product(*map(range, w.kernel))):
        part = build.slice(x, 2, row, row + 1)
        part = build.reshape(part, [batch, features, *counts])
        amounts: list[Amounts] = []
        for n, at in enumerate(position):
            lower = at * dilations[n] - crops[n].lower
            spread = (counts[n] - 1) * strides[n] + 1
            upper = int(image[n]) - lower - spread
            amounts.append(Amounts(lower, upper, strides[n] - 1))
        terms.append(node.pad(part, amounts))
    result = terms[0]
    for term in terms[1:]:
        result = build.elementwise("add.Tensor", result, other=term)
    return [result]


@maps("DepthToSpace")
def depth_to_space(node: Node) -> list[SSAValue]:
    batch, features, height, width = node.shape()
    n, build = node.attributes["blocksize"], node.build
    depth = features // n**2
    if node.get("mode", "DCR") == "DCR":
        x = build.reshape(node.tensor(0), [batch, n, n, depth, height, width])
        x = build.permute(x, [0, 3, 4, 1, 5, 2])
    else:
        x = build.reshape(node.tensor(0), [batch, depth, n, n, height, width])
        x = build.permute(x, [0, 1, 4, 2, 5, 3])
    return [build.reshape(x, [batch, depth, height * n, width * n])]


@maps("SpaceToDepth")
def space_to_depth(node: Node) -> list[SSAValue]:
    batch, depth, height, width = node.shape()
    n, build = node.attributes["blocksize"], node.build
    shape = [batch, depth, height // n, n, width // n, n]
    is_depth_inner = node.get("mode", "DCR") == "DCR"
    order = [0, 3, 5, 1, 2, 4] if is_depth_inner else [0, 1, 3, 5, 2, 4]
    x = build.permute(build.reshape(node.tensor(0), shape), order)
    return [build.reshape(x, [batch, depth * n * n, height // n, width // n])]


# --- resampling ------------------------------------------------------------------------

COORDINATES = {
    "half_pixel": Coordinates.HALF_PIXEL,
    "pytorch_half_pixel": Coordinates.HALF_PIXEL,
    "asymmetric": Coordinates.ASYMMETRIC,
    "align_corners": Coordinates.ALIGN_CORNERS,
}


@maps("Upsample")
def upsample(node: Node) -> list[SSAValue]:
    scales = node.array(1)
    assert scales is not None
    return resample(node, [*map(float, scales)], None, "asymmetric", "floor")


@maps("Resize")
def resize(node: Node) -> list[SSAValue]:
    coordinates = node.get("coordinate_transformation_mode", "half_pixel")
    if coordinates not in COORDINATES:
        raise NotMappedError(f"{coordinates} coordinates")
    # Without antialiasing tcp repeats the border, with it takes what is inside.
    antialias, inside = node.get("antialias", 0), node.get("exclude_outside", 0)
    if antialias != inside:
        raise NotMappedError("exclude_outside" if inside else "antialias of borders")
    shape = node.shape()
    axes = axes_of(node, node.get("axes", None))
    scales, sizes = node.array(2), node.array(3)
    if scales is not None and scales.size:
        every = [1.0] * len(shape)
        for axis, scale in zip(axes, scales, strict=True):
            every[axis] = float(scale)
        return resample(node, every, None, coordinates)
    assert sizes is not None
    wanted = dict(zip(axes, map(int, sizes), strict=True))
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        choose = min if policy == "not_larger" else max
        scale = choose(Fraction(size, shape[axis]) for axis, size in wanted.items())
        # Half away from zero.
        wanted = {a: math.floor(scale * shape[a] + Fraction(1, 2)) for a in wanted}
        every = [float(scale) if axis in wanted else 1.0 for axis in range(len(shape))]
        result = [wanted.get(axis, size) for axis, size in enumerate(shape)]
        return resample(node, every, result, coordinates)
    result = [wanted.get(axis, size) for axis, size in enumerate(shape)]
    return resample(node, None, result, coordinates)


def resample(
    node: Node,
    scales: list[float] | None,
    sizes: list[int] | None,
    coordinates: str,
    rounding: str | None = None,
) -> list[SSAValue]:
    """`tcp.resample` in the dimensions that change, if its rules are the node's."""
    shape = node.shape()
    if sizes is None:
        assert scales is not None
        sizes = [math.floor(n * scale) for n, scale in zip(shape, scales, strict=True)]
    dims = [dim for dim, size in enumerate(shape) if sizes[dim] != size]
    kind, antialias = node.get("mode", "nearest"), bool(node.get("antialias", 0))
    steps = [
        Fraction(n, size) if scales is None else 1 / Fraction(scales[dim])
        for dim, (n, size) in enumerate(zip(shape, sizes, strict=True))
    ]
    if kind == "nearest":
        mode = rounding or node.get("nearest_mode", "round_prefer_floor")
        check_rounding(coordinates, mode, [(steps[d], sizes[d]) for d in dims])
    if kind == "cubic":
        a = node.get("cubic_coeff_a", -0.75)
        if a != (-0.5 if antialias else -0.75):
            raise NotMappedError(f"cubic_coeff_a {a}")
    if coordinates == "align_corners" and any(
        sizes[d] != shape[d] / steps[d] for d in dims
    ):
        # ONNX computes with the size before it is rounded down.
        raise NotMappedError("align_corners to a size that is rounded")
    if coordinates == "pytorch_half_pixel" and any(sizes[d] == 1 for d in dims):
        # There ONNX takes the first element, PyTorch the middle.
        raise NotMappedError("pytorch_half_pixel to a single element")
    op = tcp.ResampleOp(
        node.tensor(0),
        [sizes[dim] for dim in dims],
        dims,
        ResampleMode(kind),
        COORDINATES[coordinates],
        None if scales is None else [scales[dim] for dim in dims],
        node.like(sizes),
        antialias=antialias,
    )
    return [node.build.insert(op)]


def check_rounding(
    coordinates: str, rounding: str, steps: Sequence[tuple[Fraction, int]]
) -> None:
    """
    Raise NotMappedError unless `nearest` of tcp takes the same elements.

    It takes the floor of a coordinate, but rounds half-pixel ones, halves up. Halves
    that do not occur are rounded alike by all.
    """
    half = coordinates.endswith("half_pixel")
    if rounding == ("round_prefer_ceil" if half else "floor"):
        return
    at = [j * step for step, count in steps for j in range(count)]
    if half and rounding == "round_prefer_floor":
        half = Fraction(1, 2)
        at = [(j + half) * step - half for step, count in steps for j in range(count)]
        if all(x % 1 != half for x in at):
            return
    elif coordinates == "asymmetric" and all(x.denominator == 1 for x in at):
        return
    raise NotMappedError(f"nearest_mode {rounding} of {coordinates} coordinates")
