"""
Make padding explicit: ATen's convolutions, pads, pools and upsampling become `tcp`.

Afterwards no convolution and no pool has padding: a pad stands before it. Ops that
`tcp` has nothing for stay as they are, and so do those that give what a `tcp` op
does not: a max pool whose indices are used, a transposed convolution, antialiasing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    Signedness,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from padc.errors import Problem, SourceLocation, UnsupportedError
from padc.ir import padding, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import Amount, AnyTensor, Coordinates, ResampleMode, tensor_type
from padc.ir.torch import (
    AtenOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    NoneType,
    NotConstantError,
    PythonValue,
    ToBuiltinTensorOp,
    ToI64Op,
    VTensorType,
    builtin_type,
    constant_value,
)


@dataclass(frozen=True)
class Lowered:
    """An ATen op that is being lowered: its arguments, and where new ops go."""

    op: AtenOp
    builder: Builder

    def insert(self, op: Operation) -> SSAValue:
        """Put a new op before the old one, at its source line, and by its name."""
        op.location = NameLoc(StringAttr(self.op.schema.name), self.op.location)
        return self.builder.insert(op).results[0]

    def tensor(self, name: str) -> SSAValue:
        """A tensor argument, as a builtin tensor."""
        return self.insert(ToBuiltinTensorOp(self.op.arg(name)))

    def optional_tensor(self, name: str) -> SSAValue | None:
        """A tensor argument that may be None."""
        is_tensor = isinstance(self.op.arg(name).type, VTensorType)
        return self.tensor(name) if is_tensor else None

    def result_type(self) -> AnyTensor:
        """The type that PyTorch gives the first result, as a builtin tensor."""
        type = self.op.results[0].type
        assert isinstance(type, VTensorType)
        return builtin_type(type)

    def constant(self, name: str) -> PythonValue:
        return self.op.constant(name)

    def is_none(self, name: str) -> bool:
        return isinstance(self.op.arg(name).type, NoneType)

    def boolean(self, name: str) -> bool:
        return bool(self.constant(name))

    def integers(self, name: str, count: int) -> list[int]:
        """A list of integers; one stands for `count` of them."""
        values = self.constant(name)
        assert isinstance(values, list)
        values = values * count if len(values) == 1 else values
        return [value for value in values if isinstance(value, int)]

    def amounts(self, name: str) -> list[Amount]:
        """A list of integers, each static or computed when the program runs."""
        owner = self.op.arg(name).owner
        if not isinstance(owner, ListConstructOp):
            raise NotConstantError(f"{name} is not a list with a known length")
        return [self.amount(element) for element in owner.elements]

    def amount(self, value: SSAValue) -> Amount:
        """An integer, static or as an index."""
        try:
            constant = constant_value(value)
        except NotConstantError:
            return self.insert(arith.IndexCastOp(self.insert(ToI64Op(value)), INDEX))
        assert isinstance(constant, int)
        return constant

    def pad(
        self, x: SSAValue, fill: float | int, amounts: Sequence[Amounts]
    ) -> SSAValue:
        """`x` padded by static amounts in its last dimensions; `x` itself by none."""
        if not any((a.lower, a.upper) != (0, 0) for a in amounts):
            return x
        type = tensor_type(x)
        leading = [0] * (type.get_num_dims() - len(amounts))
        return self.insert(
            tcp.PadOp(
                x,
                self.insert(tcp.fill_constant(fill, type.element_type)),
                [*leading, *(a.lower for a in amounts)],
                [*leading, *(a.upper for a in amounts)],
            )
        )


INDEX = IndexType()
Lowering: TypeAlias = Callable[[Lowered], SSAValue | None]
"""Builds what computes an op's first result; None where the op must stay."""

LOWERINGS: dict[str, Lowering] = {}


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Register the lowering of the ATen ops `names`."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(names, lowering))
        return lowering

    return register


# Convolutions.


@lowers(
    *(f"aten.conv{rank}d" for rank in (1, 2, 3)),
    *(f"aten.conv{rank}d.padding" for rank in (1, 2, 3)),
    "aten.convolution",
)
def lower_convolution(call: Lowered) -> SSAValue | None:
    """`conv(x, w, b, padding=p) -> tcp.conv(tcp.pad(x, 0, p), w, b)`."""
    if call.op.schema.name == "aten.convolution" and call.boolean("transposed"):
        return None
    x, kernel = call.tensor("input"), call.tensor("weight")
    kernel_type = tensor_type(kernel)
    rank = kernel_type.get_num_dims() - 2
    strides = call.integers("stride", rank)
    dilations = call.integers("dilation", rank)
    match call.constant("padding"):
        case "valid":
            amounts = [Amounts(0, 0)] * rank
        case "same":
            sizes = kernel_type.get_shape()[2:]
            if DYNAMIC_INDEX in sizes:
                raise VerifyException(
                    f"padding='same' for a kernel of dynamic size, {kernel_type}"
                )
            amounts = [
                padding.same_pytorch(size, dilation)
                for size, dilation in zip(sizes, dilations, strict=True)
            ]
        case _:
            amounts = [Amounts(p, p) for p in call.integers("padding", rank)]
    batched = tensor_type(x).get_num_dims() == rank + 2
    groups = call.constant("groups")
    assert isinstance(groups, int)
    return call.insert(
        tcp.ConvOp(
            call.pad(x, 0, amounts),
            kernel,
            call.optional_tensor("bias"),
            strides,
            dilations,
            groups,
            tcp.ConvDimsAttr.channels_first(rank, batched),
            call.result_type(),
        )
    )


# Pads.


@lowers("aten.pad", "aten.constant_pad_nd")
def lower_pad(call: Lowered) -> SSAValue:
    """`pad(x, [.., lo, hi]) -> tcp.pad`, or the pad of another mode."""
    mode = call.constant("mode") if call.op.schema.name == "aten.pad" else "constant"
    assert isinstance(mode, str)
    if mode != "constant":
        return border_pad(call, MODES[mode], "pad")
    x = call.tensor("self")
    type = tensor_type(x)
    lower, upper = expansions(call.amounts("pad"), type.get_num_dims())
    value = call.constant("value")
    assert value is None or isinstance(value, int | float)
    fill = call.insert(
        tcp.fill_constant(
            fill_value(0 if value is None else value, type.element_type),
            type.element_type,
        )
    )
    return call.insert(tcp.PadOp(x, fill, lower, upper, result_type=call.result_type()))


MODES: dict[str, type[tcp.BorderPadOp]] = {
    "replicate": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "circular": tcp.CircularPadOp,
}


@lowers(*(f"aten.replication_pad{rank}d" for rank in (1, 2, 3)))
def lower_replication_pad(call: Lowered) -> SSAValue:
    return border_pad(call, tcp.ReplicationPadOp, "padding")


@lowers(*(f"aten.reflection_pad{rank}d" for rank in (1, 2, 3)))
def lower_reflection_pad(call: Lowered) -> SSAValue:
    return border_pad(call, tcp.ReflectionPadOp, "padding")


@lowers("aten._pad_circular")
def lower_circular_pad(call: Lowered) -> SSAValue:
    return border_pad(call, tcp.CircularPadOp, "pad")


def border_pad(call: Lowered, op_type: type[tcp.BorderPadOp], amounts: str) -> SSAValue:
    x = call.tensor("self")
    rank = tensor_type(x).get_num_dims()
    lower, upper = expansions(call.amounts(amounts), rank)
    return call.insert(op_type(x, lower, upper, call.result_type()))


def expansions(
    amounts: Sequence[Amount], rank: int
) -> tuple[list[Amount], list[Amount]]:
    """PyTorch's flat list, last dimension first, as the amounts of all dimensions."""
    lower: list[Amount] = [0] * rank
    upper: list[Amount] = [0] * rank
    for i in range(len(amounts) // 2):
        lower[rank - 1 - i], upper[rank - 1 - i] = amounts[2 * i : 2 * i + 2]
    return lower, upper


LARGEST: dict[type[Attribute], float] = {
    BFloat16Type: (2 - 2**-7) * 2.0**127,
    Float16Type: 65504.0,
    Float32Type: (2 - 2**-23) * 2.0**127,
}


def fill_value(value: float | int, element_type: Attribute) -> float | int:
    """
    What PyTorch fills a tensor with when asked for `value`.

    Integers truncate, and are a bit pattern here; bool is whether `value` is not 0. A
    value that does not fit raises ValueError, as it does in PyTorch: `overflows` of
    c10/util/overflows.h, which lets negative integers wrap around to unsigned ones.
    """
    if element_type == i1:
        return int(bool(value))
    if isa(element_type, IntegerType[int, Signedness]):
        bits = element_type.width.data
        unsigned = element_type.signedness.data == Signedness.UNSIGNED
        most = 2**bits - 1 if unsigned else 2 ** (bits - 1) - 1
        least = -most - 1
        if unsigned:
            least = -most if isinstance(value, int) else 0
        if not least <= value <= most:
            raise ValueError(f"fill {value} does not fit {element_type}")
        return int(value) % 2**bits
    largest = LARGEST.get(type(element_type), math.inf)
    if math.isfinite(value) and abs(value) > largest:
        raise ValueError(f"fill {value} does not fit {element_type}")
    return value


# Pools.


@lowers(*(f"aten.max_pool{rank}d" for rank in (1, 2, 3)))
def lower_max_pool(call: Lowered) -> SSAValue:
    """`max_pool(x, padding=p) -> tcp.max_pool(tcp.pad(x, least value, p))`."""
    x = call.tensor("self")
    kernel, strides, dilations, amounts = window(call)
    dims = last_dims(x, len(kernel))
    return call.insert(
        tcp.MaxPoolOp(
            call.pad(x, least_value(tensor_type(x).element_type), amounts),
            kernel,
            strides,
            dilations,
            dims,
            call.result_type(),
        )
    )


@lowers(*(f"aten.max_pool{rank}d_with_indices" for rank in (1, 2, 3)))
def lower_max_pool_with_indices(call: Lowered) -> SSAValue | None:
    _, indices = call.op.results
    return lower_max_pool(call) if indices.first_use is None else None


@lowers(*(f"aten.avg_pool{rank}d" for rank in (1, 2, 3)))
def lower_avg_pool(call: Lowered) -> SSAValue:
    """`avg_pool(x, padding=p) -> tcp.avg_pool(tcp.pad(x, 0, p))`, counting the same."""
    x = call.tensor("self")
    kernel, strides, dilations, amounts = window(call)
    # What lies behind the padding never counts: ceil mode lets windows reach there.
    counted = call.integers("padding", len(kernel))
    if not call.boolean("count_include_pad"):
        counted = [0] * len(kernel)
    sides = list(zip(amounts, counted, strict=True))
    override = (
        call.constant("divisor_override")
        if "divisor_override" in call.op.schema.positions
        else None
    )
    assert override is None or isinstance(override, int)
    return call.insert(
        tcp.AvgPoolOp(
            call.pad(x, 0, amounts),
            kernel,
            strides,
            dilations,
            last_dims(x, len(kernel)),
            call.result_type(),
            uncounted_lower=[amount.lower - count for amount, count in sides],
            uncounted_upper=[amount.upper - count for amount, count in sides],
            divisor=override,
        )
    )


def window(call: Lowered) -> tuple[list[int], list[int], list[int], list[Amounts]]:
    """Kernel, strides, dilations and padding of a pool, for each of its dimensions."""
    name = call.op.schema.name
    rank = int(name[name.index("_pool") + len("_pool")])
    kernel = call.integers("kernel_size", rank)
    strides = call.integers("stride", rank) or kernel
    dilated = "dilation" in call.op.schema.positions
    dilations = call.integers("dilation", rank) if dilated else [1] * rank
    amounts = [
        padding.pool_amounts(k, s, d, p, call.boolean("ceil_mode"))
        for k, s, d, p in zip(
            kernel, strides, dilations, call.integers("padding", rank), strict=True
        )
    ]
    return kernel, strides, dilations, amounts


def last_dims(x: SSAValue, count: int) -> list[int]:
    rank = tensor_type(x).get_num_dims()
    return list(range(rank - count, rank))


def least_value(element_type: Attribute) -> float | int:
    """What no element is less than."""
    if isa(element_type, IntegerType[int, Signedness]):
        unsigned = element_type.signedness.data == Signedness.UNSIGNED
        return 0 if unsigned else -(2 ** (element_type.width.data - 1))
    return -math.inf


# Upsampling.

NEAREST = (ResampleMode.NEAREST, Coordinates.ASYMMETRIC)
NEAREST_EXACT = (ResampleMode.NEAREST, Coordinates.HALF_PIXEL)
LINEAR = (ResampleMode.LINEAR, Coordinates.HALF_PIXEL)
CUBIC = (ResampleMode.CUBIC, Coordinates.HALF_PIXEL)
UPSAMPLING: dict[str, tuple[ResampleMode, Coordinates]] = {
    "upsample_nearest1d": NEAREST,
    "upsample_nearest2d": NEAREST,
    "upsample_nearest3d": NEAREST,
    "_upsample_nearest_exact1d": NEAREST_EXACT,
    "_upsample_nearest_exact2d": NEAREST_EXACT,
    "_upsample_nearest_exact3d": NEAREST_EXACT,
    "upsample_linear1d": LINEAR,
    "upsample_bilinear2d": LINEAR,
    "upsample_trilinear3d": LINEAR,
    "upsample_bicubic2d": CUBIC,
}


@lowers(
    *(f"aten.{name}" for name in UPSAMPLING),
    *(f"aten.{name}.vec" for name in UPSAMPLING),
)
def lower_upsample(call: Lowered) -> SSAValue | None:
    """`upsample(x, size, scales) -> tcp.resample(x, size)`."""
    name = call.op.schema.name.removeprefix("aten.").removesuffix(".vec")
    mode, coordinates = UPSAMPLING[name]
    rank = int(name[-2])
    vector = call.op.schema.name.endswith(".vec")
    x = call.tensor("input" if vector else "self")
    type = tensor_type(x)
    if mode is not ResampleMode.NEAREST and not isinstance(type.element_type, AnyFloat):
        return None  # PyTorch interpolates bytes in fixed point.
    if "align_corners" in call.op.schema.positions and call.boolean("align_corners"):
        coordinates = Coordinates.ALIGN_CORNERS
    factors = scale_factors(call, rank, vector)
    # PyTorch takes a scale for what it is only where corners do not align.
    given = None if coordinates is Coordinates.ALIGN_CORNERS else factors or None
    dims = last_dims(x, rank)
    if vector and call.is_none("output_size"):
        sizes = [
            scaled_size(call, x, dim, factor)
            for dim, factor in zip(dims, factors, strict=True)
        ]
    else:
        sizes = call.amounts("output_size")
    return call.insert(
        tcp.ResampleOp(
            x,
            sizes,
            dims,
            mode,
            coordinates,
            given,
            call.result_type(),
        )
    )


def scale_factors(call: Lowered, rank: int, vector: bool) -> list[float]:
    """The result's elements for one of the input's; none where sizes decide."""
    if vector:
        scales = call.constant("scale_factors")
    else:
        names = ("scales_d", "scales_h", "scales_w")[-rank:]
        scales = [call.constant(name) for name in (names if rank > 1 else ["scales"])]
    given = scales if isinstance(scales, list) else []
    factors = [factor for factor in given if isinstance(factor, float)]
    if factors and len(factors) != rank:
        raise ValueError(f"scales {scales} for {rank} dimensions; give all or none")
    return factors


def scaled_size(call: Lowered, x: SSAValue, dim: int, factor: float) -> Amount:
    """`floor(size * factor)`, `compute_output_size` of PyTorch's UpSample.cpp."""
    size = tensor_type(x).get_shape()[dim]
    if size != DYNAMIC_INDEX:
        return int(size * factor)
    position = call.insert(arith.ConstantOp(IntegerAttr(dim, INDEX)))
    size = call.insert(tensor.DimOp(x, position))
    if factor == 1:
        return size
    if factor.is_integer():
        times = call.insert(arith.ConstantOp(IntegerAttr(int(factor), INDEX)))
        return call.insert(arith.MuliOp(size, times))
    real = call.insert(arith.SIToFPOp(call.insert(arith.IndexCastOp(size, i64)), f64))
    times = call.insert(tcp.fill_constant(factor, f64))
    scaled = call.insert(arith.MulfOp(real, times))
    return call.insert(
        arith.IndexCastOp(call.insert(arith.FPToSIOp(scaled, i64)), INDEX)
    )


def lower(op: AtenOp) -> Problem | None:
    """Replace `op` where there is a lowering, or say why that can't be done."""
    lowering = LOWERINGS.get(op.schema.name)
    if lowering is None:
        return None
    call = Lowered(op, Builder(InsertPoint.before(op)))
    if any(is_complex(operand.type) for operand in op.operands):
        return problem(op, "complex tensors", "convert real and imaginary parts apart")
    try:
        result = lowering(call)
    except NotConstantError as error:
        return problem(
            op, f"an argument that is computed: {error}", "make it a constant"
        )
    except (ValueError, VerifyException) as error:
        return problem(op, str(error), None)
    if result is not None:
        result.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(call.insert(FromBuiltinTensorOp(result)))
        op.detach()
        op.erase()
    return None


def is_complex(type: Attribute) -> bool:
    return isinstance(type, VTensorType) and isinstance(type.element_type, ComplexType)


def problem(op: AtenOp, what: str, hint: str | None) -> Problem:
    types = [str(type) for type in op.operand_types if isinstance(type, VTensorType)]
    message = f"{op.schema.name} of {', '.join(types)}: {what}"
    return Problem(message, SourceLocation.of(op.location), hint)


class ConvertTorchToTcpPass(ModulePass):
    """Make the padding of ATen ops explicit, in `tcp` ops."""

    name = "convert-torch-to-tcp"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = [call for call in op.walk() if isinstance(call, AtenOp)]
        problems = [found for call in calls if (found := lower(call)) is not None]
        if problems:
            raise UnsupportedError(problems)
        region_dce(op.body)
