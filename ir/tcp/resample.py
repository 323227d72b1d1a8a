"""Resampling: interpolation and upsampling along some dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.dialects.utils.dynamic_index_list import (
    DynamicIndexList,
    get_dynamic_index_list,
    split_dynamic_index_list,
    verify_dynamic_index_list,
)
from xdsl.ir import (
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    ParsePropInAttrDict,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from padc.ir.resampling import Coordinates, ResampleMode, Sampling
from padc.ir.tcp.tensors import (
    Amount,
    AnyTensor,
    IntegerList,
    TensorOp,
    verify_dims,
    verify_result,
)

__all__ = [
    "Coordinates",
    "CoordinatesAttr",
    "ResampleMode",
    "ResampleModeAttr",
    "ResampleOp",
    "Sampling",
]


@irdl_attr_definition
class ResampleModeAttr(EnumAttribute[ResampleMode], SpacedOpaqueSyntaxAttribute):
    name = "tcp.resample_mode"


@irdl_attr_definition
class CoordinatesAttr(EnumAttribute[Coordinates], SpacedOpaqueSyntaxAttribute):
    name = "tcp.coordinates"


@irdl_op_definition
class ResampleOp(TensorOp):
    """
    Resize some dimensions by sampling them at evenly spaced coordinates.

    `nearest` takes the element at `floor(coordinate)`, or with half-pixel
    coordinates at `floor(coordinate + 1/2)`; `linear` and `cubic` (a = -0.75)
    interpolate between 2 and 4 in each dimension, `linear` from coordinates that
    are at least 0. Elements outside repeat the border. `scales` are the numbers of
    result elements for each input element. By default they are the ratios of the sizes.
    If the sizes are equal, `linear` and `antialias` ignore `scales`.

    With `antialias`, `linear`, `cubic` (a = -0.5) and `lanczos` (3 lobes) are stretched
    by the input elements per result element, and read nothing outside. `area`, with
    half-pixel coordinates, is a mean: element j of a result of n is that of the
    elements from `floor(j * D / n)` to `ceil((j + 1) * D / n)`.
    This is `torch.nn.functional.interpolate`.

    ```mlir
    %y = tcp.resample %x size [16, %w] dims [2, 3] mode linear coordinates half_pixel
       : tensor<1x4x8x?xf32> -> tensor<1x4x16x?xf32>
    ```
    """

    name = "tcp.resample"

    input = operand_def(base(AnyTensor))
    size = var_operand_def(IndexType)
    static_size = prop_def(DenseArrayBase.constr(i64))
    dims = prop_def(DenseArrayBase.constr(i64))
    mode = prop_def(ResampleModeAttr)
    coordinates = prop_def(CoordinatesAttr)
    scales = opt_prop_def(DenseArrayBase.constr(f64))
    antialias = opt_prop_def(UnitAttr)

    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$input `size` custom<DynamicIndexList>($size, $static_size) "
        "`dims` custom<IntegerList>($dims) `mode` $mode `coordinates` $coordinates "
        "attr-dict `:` type($input) `->` type($result)"
    )

    custom_directives = (DynamicIndexList, IntegerList)

    def __init__(
        self,
        input: SSAValue,
        size: Sequence[Amount],
        dims: Sequence[int],
        mode: ResampleMode,
        coordinates: Coordinates,
        scales: Sequence[float] | None,
        result_type: AnyTensor,
        *,
        antialias: bool = False,
    ):
        static_size, dynamic_size = split_dynamic_index_list(size, DYNAMIC_INDEX)
        super().__init__(
            operands=[input, dynamic_size],
            result_types=[result_type],
            properties={
                "static_size": DenseArrayBase.from_list(i64, static_size),
                "dims": DenseArrayBase.from_list(i64, dims),
                "mode": ResampleModeAttr(mode),
                "coordinates": CoordinatesAttr(coordinates),
                "scales": (
                    None if scales is None else DenseArrayBase.from_list(f64, scales)
                ),
                "antialias": UnitAttr() if antialias else None,
            },
        )

    @property
    def sizes(self) -> list[Amount]:
        """The result's size in each of `dims`."""
        return get_dynamic_index_list(
            self.static_size.get_values(), self.size, DYNAMIC_INDEX
        )

    def sampling(self, i: int) -> Sampling:
        """The resampling of the i-th of `dims`."""
        return Sampling(
            self.mode.data,
            self.coordinates.data,
            None if self.scales is None else self.scales.get_values()[i],
            self.antialias is not None,
        )

    def verify_(self) -> None:
        mode, antialias = self.mode.data, self.antialias is not None
        with_or_without = (ResampleMode.LINEAR, ResampleMode.CUBIC)
        needed = mode is ResampleMode.LANCZOS
        if mode not in with_or_without and antialias != needed:
            expected = "no antialias" if antialias else "antialias"
            raise VerifyException(
                f"'tcp.resample' has mode {mode.value}; expected {expected} with it"
            )
        if mode is ResampleMode.AREA and (
            self.scales is not None
            or self.coordinates.data is not Coordinates.HALF_PIXEL
        ):
            raise VerifyException(
                "'tcp.resample' has mode area; expected half_pixel and no scales"
            )
        dims, sizes = self.dims.get_values(), self.static_size.get_values()
        verify_dims(self, self.input_type, dims)
        verify_dynamic_index_list(sizes, self.size, DYNAMIC_INDEX, " in size")
        if len(sizes) != len(dims):
            raise VerifyException(
                f"'tcp.resample' has {len(sizes)} sizes for {len(dims)} dims; "
                "expected one for each"
            )
        if self.scales is not None and (
            len(self.scales) != len(dims)
            or not all(scale > 0 for scale in self.scales.get_values())
        ):
            raise VerifyException(
                f"'tcp.resample' has scales {list(self.scales.get_values())}; "
                f"expected {len(dims)} positive numbers, one for each of dims"
            )
        shape = list(self.input_type.get_shape())
        for dim, size in zip(dims, sizes, strict=True):
            if size != DYNAMIC_INDEX and (size < 1 or shape[dim] == 0):
                raise VerifyException(
                    f"'tcp.resample' makes {size} elements from {shape[dim]} "
                    f"in dimension {dim}; expected at least one of each"
                )
            shape[dim] = size
        inferred = TensorType(self.input_type.element_type, shape)
        verify_result(self, self.result.type, inferred)
