"""Grid sampling: interpolation at coordinates that are themselves a tensor."""

from __future__ import annotations

from collections.abc import Callable
from enum import auto

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    TensorType,
    UnitAttr,
    f32,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from padc.ir.arithmetic import Real, Whole, clamp
from padc.ir.resampling import MakeReal
from padc.ir.tcp.resample import ResampleMode, ResampleModeAttr
from padc.ir.tcp.tensors import AnyTensor, tensor_type, verify_result

__all__ = [
    "GridPadding",
    "GridPaddingAttr",
    "GridSampleOp",
]


class GridPadding(StrEnum):
    """
    What `tcp.grid_sample` reads outside of its input.

    `ZEROS`: zeros. `BORDER`: the nearest element. `REFLECTION`: the input mirrored at
    the centres of its outermost elements with `align_corners`, otherwise at their
    edges.
    """

    ZEROS = auto()
    BORDER = auto()
    REFLECTION = auto()


@irdl_attr_definition
class GridPaddingAttr(EnumAttribute[GridPadding], SpacedOpaqueSyntaxAttribute):
    name = "tcp.grid_padding"


@irdl_op_definition
class GridSampleOp(IRDLOperation):
    """
    Sample `input` [N, C, *S] at the points of `grid` [N, *O, len(S)]: [N, C, *O].

    A point's first number is its coordinate along the last dimension of S, from -1 to
    1: with `align_corners` these are the centres of the first and last element,
    otherwise their outer edges. `nearest` rounds half to even, after padding has moved
    the coordinate. With `zeros`, `linear` skips elements outside, whose weights may be
    infinite. `cubic` (a = -0.75) pads each of the elements that it combines.
    This is `torch.nn.functional.grid_sample`, for any number of dimensions; NaN and
    infinities as coordinates are what PyTorch's 2-D kernels make of them.

    ```mlir
    %y = tcp.grid_sample %x, %grid mode linear padding zeros align_corners
       : tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32> -> tensor<1x3x4x5xf32>
    ```
    """

    name = "tcp.grid_sample"

    input = operand_def(base(AnyTensor))
    grid = operand_def(base(AnyTensor))
    mode = prop_def(ResampleModeAttr)
    padding = prop_def(GridPaddingAttr)
    align_corners = opt_prop_def(UnitAttr)
    result = result_def(base(AnyTensor))

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$input `,` $grid `mode` $mode `padding` $padding "
        "(`align_corners` $align_corners^)? attr-dict "
        "`:` type($input) `,` type($grid) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        grid: SSAValue,
        mode: ResampleMode,
        padding: GridPadding,
        align_corners: bool,
        result_type: AnyTensor,
    ):
        super().__init__(
            operands=[input, grid],
            result_types=[result_type],
            properties={
                "mode": ResampleModeAttr(mode),
                "padding": GridPaddingAttr(padding),
                "align_corners": UnitAttr() if align_corners else None,
            },
        )

    @property
    def input_type(self) -> AnyTensor:
        return tensor_type(self.input)

    @property
    def grid_type(self) -> AnyTensor:
        return tensor_type(self.grid)

    @property
    def spatial_rank(self) -> int:
        """The number of sampled dimensions."""
        return self.input_type.get_num_dims() - 2

    def padded(
        self, at: Real, size: Whole, real: MakeReal, reflected: Callable[..., Real]
    ) -> Real:
        """
        A coordinate that padding has moved inside; unchanged with zeros.

        `reflected` is `padc.ir.resampling.reflected` or a variant of it.
        """
        match self.padding.data:
            case GridPadding.ZEROS:
                return at
            case GridPadding.BORDER:
                pass
            case GridPadding.REFLECTION:
                at = reflected(at, size, self.align_corners is not None, real)
        return clamp(at, 0.0, real(size - 1))

    def verify_(self) -> None:
        input_type, grid_type = self.input_type, self.grid_type
        rank = self.spatial_rank
        element_type = input_type.element_type
        if not isinstance(element_type, AnyFloat) or (
            grid_type.element_type not in (element_type, f32)
        ):
            raise VerifyException(
                f"'tcp.grid_sample' samples {element_type} at "
                f"{grid_type.element_type}; expected floats at floats of the same "
                "type or f32; convert one of them"
            )
        if rank < 1 or grid_type.get_num_dims() != rank + 2:
            raise VerifyException(
                f"'tcp.grid_sample' samples {input_type} at {grid_type}; expected "
                "[N, C, *S] at [N, *O, len(S)], with as many O as S"
            )
        batch, channels, *sizes = input_type.get_shape()
        grid_batch, *points, coordinates = grid_type.get_shape()
        if coordinates not in (rank, DYNAMIC_INDEX):
            raise VerifyException(
                f"'tcp.grid_sample' has points of {coordinates} numbers in "
                f"{grid_type}; expected {rank}, one for each dimension that is sampled"
            )
        if batch != grid_batch and DYNAMIC_INDEX not in (batch, grid_batch):
            raise VerifyException(
                f"'tcp.grid_sample' has {batch} inputs and {grid_batch} grids; "
                "expected as many"
            )
        if 0 in sizes:
            raise VerifyException(
                f"'tcp.grid_sample' samples {input_type}; expected at least one "
                "element in each dimension that is sampled"
            )
        batch = grid_batch if batch == DYNAMIC_INDEX else batch
        inferred = TensorType(element_type, [batch, channels, *points])
        verify_result(self, tensor_type(self.result), inferred)
