"""Pads: with a fill, or with elements of the tensor itself in one of several modes."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.dialects.utils.dynamic_index_list import (
    DynamicIndexList,
    get_dynamic_index_list,
    split_dynamic_index_list,
    verify_dynamic_index_list,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import (
    Attribute,
    SSAValue,
)
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    VarOperand,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import (
    RewritePattern,
)
from xdsl.utils.exceptions import VerifyException

from padc.ir import padding
from padc.ir.arithmetic import Whole, maximum, minimum
from padc.ir.padding import Amounts
from padc.ir.tcp.tensors import (
    Amount,
    AnyTensor,
    Check,
    TensorOp,
    fill_type,
    tensor_type,
    verify_result,
)

__all__ = [
    "BORDER_PADS",
    "Border",
    "BorderPadOp",
    "CircularPadOp",
    "ExpandOp",
    "PadOp",
    "ReflectionPadOp",
    "ReplicationPadOp",
    "SymmetricPadOp",
    "padded_type",
]


class ExpandOp(TensorOp, abc.ABC):
    """A pad: every dimension expands by static or dynamic amounts on both sides."""

    if TYPE_CHECKING:
        lower: VarOperand
        upper: VarOperand

    static_lower = prop_def(DenseArrayBase.constr(i64), prop_name="lowerExpansion")
    static_upper = prop_def(DenseArrayBase.constr(i64), prop_name="upperExpansion")

    custom_directives = (DynamicIndexList,)

    @property
    def lower_expansion(self) -> list[Amount]:
        """The amount below each dimension; negative amounts crop."""
        return get_dynamic_index_list(
            self.static_lower.get_values(), self.lower, DYNAMIC_INDEX
        )

    @property
    def upper_expansion(self) -> list[Amount]:
        """The amount above each dimension; negative amounts crop."""
        return get_dynamic_index_list(
            self.static_upper.get_values(), self.upper, DYNAMIC_INDEX
        )

    @property
    def interior_expansion(self) -> list[Amount]:
        """The elements inserted between neighbours of each dimension."""
        return [0] * self.input_type.get_num_dims()

    @property
    def expansions(self) -> list[tuple[Amount, Amount, Amount]]:
        """Lower, upper and interior amount of each dimension."""
        return list(
            zip(
                self.lower_expansion,
                self.upper_expansion,
                self.interior_expansion,
                strict=True,
            )
        )

    @property
    def static_amounts(self) -> list[Amounts] | None:
        """The amounts of each dimension; None if any is dynamic."""
        amounts: list[Amounts] = []
        for lower, upper, interior in self.expansions:
            if not (
                isinstance(lower, int)
                and isinstance(upper, int)
                and isinstance(interior, int)
            ):
                return None
            amounts.append(Amounts(lower, upper, interior))
        return amounts

    def verify_(self) -> None:
        rank = self.input_type.get_num_dims()
        sides = (
            ("lowerExpansion", self.static_lower, self.lower),
            ("upperExpansion", self.static_upper, self.upper),
        )
        for name, static, dynamic in sides:
            verify_amounts(self, name, static, dynamic, rank)
        self.verify_amounts_()
        inferred = padded_type(self.input_type, self.expansions)
        verify_result(self, self.result.type, inferred)

    def verify_amounts_(self) -> None:
        """Raise VerifyException if static amounts break a rule of this pad."""

    def check_static(self, check: Check) -> None:
        """Apply `check` to each dimension whose size and amounts are static."""
        shape = self.input_type.get_shape()
        for dim, (size, (lower, upper, interior)) in enumerate(
            zip(shape, self.expansions, strict=True)
        ):
            if size == DYNAMIC_INDEX or (lower, upper) == (0, 0):
                continue
            if (
                isinstance(lower, int)
                and isinstance(upper, int)
                and isinstance(interior, int)
            ):
                try:
                    check(padding.padded_size(size, 0, 0, interior), lower, upper)
                except ValueError as error:
                    raise VerifyException(
                        f"'{self.name}' of {self.input_type}, dimension {dim}: {error}"
                    ) from error

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`pad(x) -> x` if every amount is zero."""
        if self.input.type == self.result.type and all(
            amounts == (0, 0, 0) for amounts in self.expansions
        ):
            return (self.input,)
        return None


def verify_amounts(
    op: ExpandOp,
    name: str,
    static: DenseArrayBase[IntegerType],
    dynamic: Sequence[SSAValue],
    rank: int,
) -> None:
    verify_dynamic_index_list(
        static.get_values(), dynamic, DYNAMIC_INDEX, f" in {name}"
    )
    if len(static) != rank:
        raise VerifyException(
            f"'{op.name}' has {len(static)} amounts in {name}, "
            f"expected one for each of the {rank} dimensions of {op.input_type}"
        )


def padded_type(
    input_type: AnyTensor, expansions: Sequence[tuple[Amount, Amount, Amount]]
) -> AnyTensor:
    """The type of a padded tensor; a size is `?` if it or an amount is dynamic."""

    def padded(size: int, amounts: tuple[Amount, Amount, Amount]) -> int:
        lower, upper, interior = amounts
        if amounts == (0, 0, 0):
            return size
        if (
            size == DYNAMIC_INDEX
            or isinstance(lower, SSAValue)
            or isinstance(upper, SSAValue)
            or isinstance(interior, SSAValue)
        ):
            return DYNAMIC_INDEX
        result = padding.padded_size(size, lower, upper, interior)
        if result < 0:
            raise VerifyException(
                f"amounts {lower} and {upper} crop more than the {size} elements "
                f"of a dimension of {input_type}"
            )
        return result

    shape = [
        padded(size, amounts)
        for size, amounts in zip(input_type.get_shape(), expansions, strict=True)
    ]
    return TensorType(input_type.element_type, shape)


@irdl_op_definition
class PadOp(ExpandOp, HasCanonicalizationPatternsInterface):
    """
    Expand with a fill: below, above, and between the elements of each dimension.

    A dimension of size D becomes `D + lower + upper + max(D - 1, 0) * interior`.
    Element j of the result is `input[(j - lower) / (interior + 1)]` where that is
    an index of the input, else the fill. Negative lower and upper amounts crop,
    after the interior is inserted; interior amounts are never negative.

    ```mlir
    %y = tcp.pad %x, %zero lowerExpansion [0, 1] upperExpansion [0, %n]
       : tensor<3x8xf32>, f32 -> tensor<3x?xf32>
    ```
    """

    name = "tcp.pad"

    input = operand_def(base(AnyTensor))
    fill = operand_def(AnyAttr())
    lower = var_operand_def(IndexType)
    upper = var_operand_def(IndexType)
    interior = var_operand_def(IndexType)
    static_interior = prop_def(
        DenseArrayBase.constr(i64), prop_name="interiorExpansion"
    )

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "$input `,` $fill "
        "`lowerExpansion` custom<DynamicIndexList>($lower, $lowerExpansion) "
        "`upperExpansion` custom<DynamicIndexList>($upper, $upperExpansion) "
        "(`interiorExpansion` "
        "custom<DynamicIndexList>($interior, $interiorExpansion)^)? "
        "attr-dict `:` type($input) `,` type($fill) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        fill: SSAValue,
        lower: Sequence[Amount],
        upper: Sequence[Amount],
        interior: Sequence[Amount] | None = None,
        result_type: AnyTensor | None = None,
    ):
        """`result_type` may be more static than the inferred type."""
        static_lower, dynamic_lower = split_dynamic_index_list(lower, DYNAMIC_INDEX)
        static_upper, dynamic_upper = split_dynamic_index_list(upper, DYNAMIC_INDEX)
        # No interior at all is written as no list, which the syntax leaves out.
        if interior is None or all(amount == 0 for amount in interior):
            interior = []
        static_interior, dynamic_interior = split_dynamic_index_list(
            interior, DYNAMIC_INDEX
        )
        if result_type is None:
            between = interior or [0] * len(lower)
            result_type = padded_type(
                tensor_type(input), list(zip(lower, upper, between, strict=True))
            )
        super().__init__(
            operands=[input, fill, dynamic_lower, dynamic_upper, dynamic_interior],
            result_types=[result_type],
            properties={
                "lowerExpansion": DenseArrayBase.from_list(i64, static_lower),
                "upperExpansion": DenseArrayBase.from_list(i64, static_upper),
                "interiorExpansion": DenseArrayBase.from_list(i64, static_interior),
            },
        )

    @property
    def interior_expansion(self) -> list[Amount]:
        if not len(self.static_interior):
            return [0] * self.input_type.get_num_dims()
        return get_dynamic_index_list(
            self.static_interior.get_values(), self.interior, DYNAMIC_INDEX
        )

    def verify_amounts_(self) -> None:
        if len(self.static_interior):
            verify_amounts(
                self,
                "interiorExpansion",
                self.static_interior,
                self.interior,
                self.input_type.get_num_dims(),
            )
        for amount in self.interior_expansion:
            if isinstance(amount, int) and amount < 0:
                raise VerifyException(
                    f"'tcp.pad' cannot remove elements between elements: "
                    f"interiorExpansion {amount}; expected 0 or more"
                )
        self.check_static(padding.check_constant)
        expected = fill_type(self.input_type.element_type)
        if self.fill.type != expected:
            raise VerifyException(
                f"'tcp.pad' fills {self.input_type} with {self.fill.type}; "
                f"expected a scalar of type {expected}"
            )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from padc.ir.tcp import pad_patterns as patterns

        return (
            patterns.StaticAmounts(),
            patterns.NoInterior(),
            patterns.PadOfNothing(),
            patterns.PadOfLiteral(),
            patterns.PadOfFull(),
            patterns.PadOfPad(),
            patterns.BorderPadOfBorderPad(),
            patterns.ConcatOfPads(),
        )


@dataclass(frozen=True)
class Border:
    """
    Which elements of the input a border shows, from the input outwards.

    The nth element of a border, counted from 0, shows the input's element at distance
    `first + n * step` from an edge: the edge that the border adjoins, or the opposite
    one.
    """

    first: int
    step: Literal[0, 1]
    opposite: bool = False


class BorderPadOp(ExpandOp, HasCanonicalizationPatternsInterface, abc.ABC):
    """
    A pad that shows elements of its input in the border: a class for each mode.

    Everything that depends on the mode is said by the class, one dimension at a time.
    """

    input = operand_def(base(AnyTensor))
    lower = var_operand_def(IndexType)
    upper = var_operand_def(IndexType)

    BORDER: ClassVar[Border]
    """The content of the border, for lowerings that build it from slices and copies."""

    CROPS_FIRST: ClassVar[bool] = False
    """Whether negative amounts crop the input; otherwise they crop the result."""

    MIL_MODE: ClassVar[str | None] = None
    """The name of this mode in Core ML's `pad`; None if `pad` does not have it."""

    @staticmethod
    @abc.abstractmethod
    def check_amounts(size: int, lower: int, upper: int) -> None:
        """Raise ValueError if a dimension cannot be padded by these amounts."""

    @staticmethod
    @abc.abstractmethod
    def source_index(j: Whole, size: Whole, lower: Whole, upper: Whole) -> Whole:
        """The position in the input that position `j` of the result shows."""

    @staticmethod
    @abc.abstractmethod
    def folds(inner: Amounts, outer: Amounts) -> bool:
        """
        Whether two pads of this mode are one, by `inner.then(outer)`.

        Either may also be a crop. The answer holds for all sizes.
        """

    @property
    def mode(self) -> str:
        """The mode as it stands in the op's name: "reflection"."""
        return self.name.removeprefix("tcp.").removesuffix("_pad")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "$input `lowerExpansion` custom<DynamicIndexList>($lower, $lowerExpansion) "
        "`upperExpansion` custom<DynamicIndexList>($upper, $upperExpansion) "
        "attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        lower: Sequence[Amount],
        upper: Sequence[Amount],
        result_type: AnyTensor | None = None,
    ):
        """`result_type` may be more static than the inferred type."""
        static_lower, dynamic_lower = split_dynamic_index_list(lower, DYNAMIC_INDEX)
        static_upper, dynamic_upper = split_dynamic_index_list(upper, DYNAMIC_INDEX)
        if result_type is None:
            between = [0] * len(lower)
            result_type = padded_type(
                tensor_type(input), list(zip(lower, upper, between, strict=True))
            )
        super().__init__(
            operands=[input, dynamic_lower, dynamic_upper],
            result_types=[result_type],
            properties={
                "lowerExpansion": DenseArrayBase.from_list(i64, static_lower),
                "upperExpansion": DenseArrayBase.from_list(i64, static_upper),
            },
        )

    def verify_amounts_(self) -> None:
        self.check_static(self.check_amounts)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from padc.ir.tcp import pad_patterns as patterns

        return (
            patterns.StaticAmounts(),
            patterns.CropByBorderPad(),
            patterns.PadOfLiteral(),
            patterns.PadOfFull(),
            patterns.BorderPadOfBorderPad(),
        )


@irdl_op_definition
class ReplicationPadOp(BorderPadOp):
    """
    Expand by repeating the border elements.

    Element j of the result is `input[clamp(j - lower, 0, D - 1)]`, also where
    negative amounts crop: the crop selects from the result, never changes it.

    ```mlir
    %y = tcp.replication_pad %x lowerExpansion [0, 1] upperExpansion [0, 2]
       : tensor<3x8xf32> -> tensor<3x11xf32>
    ```
    """

    name = "tcp.replication_pad"

    BORDER: ClassVar = Border(first=0, step=0)
    MIL_MODE: ClassVar = "replicate"

    @staticmethod
    def check_amounts(size: int, lower: int, upper: int) -> None:
        padding.check_replication(size, lower, upper)

    @staticmethod
    def source_index(j: Whole, size: Whole, lower: Whole, upper: Whole) -> Whole:
        return padding.source_index_replication(j, size, lower)

    @staticmethod
    def folds(inner: Amounts, outer: Amounts) -> bool:
        return padding.replication_pads_fold(inner, outer)


@irdl_op_definition
class ReflectionPadOp(BorderPadOp):
    """
    Expand by mirroring at the border elements, which are not repeated.

    Element j of the result is `input[mirror(j - lower)]`, where `mirror(i)` is `-i`
    below 0 and `2 * (D - 1) - i` above D - 1. Each amount is less than D.

    ```mlir
    %y = tcp.reflection_pad %x lowerExpansion [0, 1] upperExpansion [0, 2]
       : tensor<3x8xf32> -> tensor<3x11xf32>
    ```
    """

    name = "tcp.reflection_pad"

    BORDER: ClassVar = Border(first=1, step=1)
    MIL_MODE: ClassVar = "reflect"

    @staticmethod
    def check_amounts(size: int, lower: int, upper: int) -> None:
        padding.check_reflection(size, lower, upper)

    @staticmethod
    def source_index(j: Whole, size: Whole, lower: Whole, upper: Whole) -> Whole:
        return padding.source_index_reflection(j, size, lower)

    @staticmethod
    def folds(inner: Amounts, outer: Amounts) -> bool:
        return padding.reflection_pads_fold(inner, outer)


@irdl_op_definition
class CircularPadOp(BorderPadOp):
    """
    Expand by wrapping around.

    Negative amounts crop first; then element j of the result is the cropped
    input's `[(j - max(lower, 0)) mod D']`, D' being its size.

    ```mlir
    %y = tcp.circular_pad %x lowerExpansion [0, 1] upperExpansion [0, 2]
       : tensor<3x8xf32> -> tensor<3x11xf32>
    ```
    """

    name = "tcp.circular_pad"

    BORDER: ClassVar = Border(first=0, step=1, opposite=True)
    CROPS_FIRST: ClassVar = True

    @staticmethod
    def check_amounts(size: int, lower: int, upper: int) -> None:
        padding.check_circular(size, lower, upper)

    @staticmethod
    def source_index(j: Whole, size: Whole, lower: Whole, upper: Whole) -> Whole:
        return padding.source_index_circular(j, size, lower, upper)

    @staticmethod
    def folds(inner: Amounts, outer: Amounts) -> bool:
        return padding.circular_pads_fold(inner, outer)


@irdl_op_definition
class SymmetricPadOp(BorderPadOp):
    """
    Expand by mirroring at the edges of the border elements, which are repeated.

    Element j of the result is `input[mirror(j - lower)]`, where `mirror(i)` is `-1 - i`
    below 0 and `2 * D - 1 - i` above D - 1. Each amount is at most D. Negative amounts
    crop the result. Source: "SYMMETRIC" of
    https://www.tensorflow.org/api_docs/python/tf/pad; "symmetric" of `numpy.pad`.

    ```mlir
    %y = tcp.symmetric_pad %x lowerExpansion [0, 1] upperExpansion [0, 2]
       : tensor<3x8xf32> -> tensor<3x11xf32>
    ```
    """

    name = "tcp.symmetric_pad"

    BORDER: ClassVar = Border(first=0, step=1)

    @staticmethod
    def check_amounts(size: int, lower: int, upper: int) -> None:
        padding.check_border("symmetric", size, lower, upper)
        if max(lower, upper) > size:
            raise ValueError(
                f"symmetric padding by {lower} and {upper} of a dimension of size "
                f"{size}: each may be at most {size}, the size"
            )

    @staticmethod
    def source_index(j: Whole, size: Whole, lower: Whole, upper: Whole) -> Whole:
        inner = maximum(j - lower, lower - j - 1)
        return minimum(inner, 2 * size - 1 - inner)

    @staticmethod
    def folds(inner: Amounts, outer: Amounts) -> bool:
        # The sides that may mirror are the same, whether the edge is repeated or not.
        return padding.reflection_pads_fold(inner, outer)


BORDER_PADS: tuple[type[BorderPadOp], ...] = (
    CircularPadOp,
    ReflectionPadOp,
    ReplicationPadOp,
    SymmetricPadOp,
)
"""All modes. Lowerings that are the same for each are registered for these."""
