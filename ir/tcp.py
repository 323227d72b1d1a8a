"""
The `tcp` dialect: pads that say what they do, and ops that know no padding.

A pad gives, for each dimension, how far the tensor expands below and above,
and where the new elements come from: a fill, or the tensor itself through an
index map (clamp, mirror, wrap). Convolutions and pools only know VALID: a
window never leaves its input. Every op takes any rank, and says which of its
dimensions are what; none of them knows NCHW. The reference semantics of each
op is its implementation in `padc.backends.reference`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from enum import auto
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
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
from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.ir import (
    Attribute,
    Data,
    Dialect,
    Operation,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarOperand,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from padc.ir import padding
from padc.ir.padding import Amounts

AnyTensor: TypeAlias = TensorType[Attribute]
Amount: TypeAlias = int | SSAValue
"""An amount of padding: a static integer, or an SSA value of type index."""
Check: TypeAlias = Callable[[int, int, int], None]
"""A rule of one dimension's size, lower and upper amount; ValueError if broken."""


def tensor_type(value: SSAValue) -> AnyTensor:
    """The type of a value that its op declares to be a tensor."""
    assert isa(value.type, AnyTensor)
    return value.type


def fill_type(element_type: Attribute) -> Attribute:
    """The type of a scalar that fills a tensor: its element type, signless."""
    if isa(element_type, IntegerType[int, Signedness]):
        return IntegerType(element_type.width.data)
    return element_type


def fill_constant(value: float | int | bool, element_type: Attribute) -> ConstantOp:
    """
    A scalar constant to fill tensors of `element_type` with.

    Integers are the bit pattern of `value`, which must be in the type's range.
    """
    signless = fill_type(element_type)
    if isa(signless, IntegerType[int, Signedness]):
        return ConstantOp(IntegerAttr(int(value), signless))
    if isinstance(signless, AnyFloat):
        return ConstantOp(FloatAttr(float(value), signless))
    raise VerifyException(
        f"cannot fill a tensor of {element_type}; expected floats or integers"
    )


@irdl_custom_directive
class IntegerList(CustomDirective):
    """A dense array of integers, written `[1, 2, 3]`."""

    values: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        values = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        self.values.set(state, DenseArrayBase.from_list(i64, values))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        values = self.values.get(op)
        assert isa(values, DenseArrayBase[IntegerType])
        with printer.in_square_brackets():
            printer.print_list(values.get_values(), printer.print_int)
        state.last_was_punctuation = False
        state.should_emit_space = True

    def set_empty(self, state: ParsingState) -> None:
        self.values.set_empty(state)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.values.is_present(op)

    def is_anchorable(self) -> bool:
        return True


class TensorOp(IRDLOperation, HasFolderInterface, abc.ABC):
    """An op from one tensor to another of the same element type and rank."""

    if TYPE_CHECKING:
        # Defined by each op itself: xDSL would put operands of a base last.
        input: SSAValue

    result = result_def(base(AnyTensor))

    traits = traits_def(Pure())

    @property
    def input_type(self) -> AnyTensor:
        return tensor_type(self.input)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return None


def verify_result(op: IRDLOperation, declared: AnyTensor, inferred: AnyTensor) -> None:
    """
    Raise unless a declared type agrees with the one that the op implies.

    A dimension that can't be computed from the types may be declared anything.
    """
    if not agrees(declared, inferred):
        raise VerifyException(f"'{op.name}' makes {inferred}, but {declared} is given")


def agrees(declared: AnyTensor, inferred: AnyTensor) -> bool:
    """Whether `declared` is `inferred`, with any size where that has `?`."""
    return (
        declared.element_type == inferred.element_type
        and declared.get_num_dims() == inferred.get_num_dims()
        and all(
            expected in (DYNAMIC_INDEX, size)
            for expected, size in zip(
                inferred.get_shape(), declared.get_shape(), strict=True
            )
        )
    )


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
        """The amounts of each dimension, or None where any is dynamic."""
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
        """Raise where static amounts break a rule of this pad."""

    def check_static(self, check: Check) -> None:
        """Apply a rule of one dimension to all whose size and amounts are static."""
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
        """`pad(x) -> x` where every amount is zero."""
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
    """The type of a padded tensor; `?` where a size or amount is dynamic."""

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
        """`result_type` may refine the inferred type where that is dynamic."""
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
        return (StaticAmounts(), PadOfPad())


class BorderPadOp(ExpandOp, HasCanonicalizationPatternsInterface, abc.ABC):
    """A pad whose new elements are read from the input through an index map."""

    input = operand_def(base(AnyTensor))
    lower = var_operand_def(IndexType)
    upper = var_operand_def(IndexType)

    CHECK: ClassVar[Check]
    """What the amounts of one dimension must satisfy."""

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
        """`result_type` may refine the inferred type where that is dynamic."""
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
        self.check_static(type(self).CHECK)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (StaticAmounts(),)


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
    CHECK = staticmethod(padding.check_replication)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (StaticAmounts(), ReplicationOfReplication())


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
    CHECK = staticmethod(padding.check_reflection)


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
    CHECK = staticmethod(padding.check_circular)


class StaticAmounts(RewritePattern):
    """`pad(x, [constant c]) -> pad(x, [c])`: amounts that are known become static."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, PadOp | BorderPadOp):
            return
        lower = [static_amount(amount) for amount in op.lower_expansion]
        upper = [static_amount(amount) for amount in op.upper_expansion]
        interior = [static_amount(amount) for amount in op.interior_expansion]
        if (lower, upper, interior) == (
            op.lower_expansion,
            op.upper_expansion,
            op.interior_expansion,
        ):
            return
        result_type = op.result.type
        if isinstance(op, PadOp):
            new = PadOp(op.input, op.fill, lower, upper, interior, result_type)
        else:
            new = type(op)(op.input, lower, upper, result_type)
        # The users keep the type they have: a cast would only move the question.
        if agrees(result_type, padded_type(op.input_type, new.expansions)):
            rewriter.replace(op, new)


def static_amount(amount: Amount) -> Amount:
    """The integer that an amount is known to be, else the amount."""
    if (
        isinstance(amount, SSAValue)
        and isinstance(amount.owner, ConstantOp)
        and isinstance(value := amount.owner.value, IntegerAttr)
        and value.value.data != DYNAMIC_INDEX  # the mark of an amount that is not
    ):
        return value.value.data
    return amount


class PadOfPad(RewritePattern):
    """`pad(pad(x, f, a), f, b) -> pad(x, f, a + b)`, where no pad undoes a crop."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if not (isinstance(inner, PadOp) and same_scalar(inner.fill, op.fill)):
            return
        folded = folded_amounts(inner, op, padding.constant_pads_fold)
        if folded is None:
            return
        rewriter.replace(
            op,
            PadOp(
                inner.input,
                op.fill,
                [amounts.lower for amounts in folded],
                [amounts.upper for amounts in folded],
                [amounts.interior for amounts in folded],
                op.result.type,
            ),
        )


class ReplicationOfReplication(RewritePattern):
    """`replicate(replicate(x, a), b) -> replicate(x, a + b)`, of no cropped edge."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: ReplicationPadOp, rewriter: PatternRewriter, /
    ) -> None:
        inner = op.input.owner
        if not isinstance(inner, ReplicationPadOp):
            return
        folded = folded_amounts(inner, op, padding.replication_pads_fold)
        if folded is None:
            return
        lower = [amounts.lower for amounts in folded]
        upper = [amounts.upper for amounts in folded]
        rewriter.replace(
            op, ReplicationPadOp(inner.input, lower, upper, op.result.type)
        )


def folded_amounts(
    inner: ExpandOp, outer: ExpandOp, fold: Callable[[Amounts, Amounts], bool]
) -> list[Amounts] | None:
    """The amounts of two pads as one, where `fold` allows it in each dimension."""
    # An inner pad that others use too is made anyway: padding it is cheaper.
    if not inner.result.has_one_use():
        return None
    inner_amounts, outer_amounts = inner.static_amounts, outer.static_amounts
    if inner_amounts is None or outer_amounts is None:
        return None
    pairs = list(zip(inner_amounts, outer_amounts, strict=True))
    return [a + b for a, b in pairs] if all(fold(a, b) for a, b in pairs) else None


def same_scalar(a: SSAValue, b: SSAValue) -> bool:
    """Whether two scalars are known to be equal, bit for bit."""
    if a is b:
        return True
    match a.owner, b.owner:
        case ConstantOp() as left, ConstantOp() as right:
            # As text, because 0.0 == -0.0 and nan != nan.
            return str(left.value) == str(right.value)
        case _:
            return False


Role: TypeAlias = str | int


@irdl_attr_definition
class ConvDimsAttr(Data[tuple[tuple[Role, ...], ...]]):
    """
    What each dimension of a convolution's input, kernel and result is.

    `b` is a batch, `f` the feature (channel), `o` and `i` the kernel's output and
    input features, and a number is a spatial dimension. There may be no `b`.

    ```mlir
    #tcp.conv_dims<[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]>
    ```
    """

    name = "tcp.conv_dims"

    @staticmethod
    def channels_first(spatial_rank: int, batched: bool = True) -> ConvDimsAttr:
        """PyTorch's order: `[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]`."""
        spatial = tuple(range(spatial_rank))
        activation = ("b", "f", *spatial) if batched else ("f", *spatial)
        return ConvDimsAttr((activation, ("o", "i", *spatial), activation))

    @property
    def input(self) -> tuple[Role, ...]:
        return self.data[0]

    @property
    def kernel(self) -> tuple[Role, ...]:
        return self.data[1]

    @property
    def result(self) -> tuple[Role, ...]:
        return self.data[2]

    @property
    def spatial_rank(self) -> int:
        return sum(isinstance(role, int) for role in self.input)

    @staticmethod
    def spatial(roles: tuple[Role, ...]) -> tuple[int, ...]:
        """The positions of the spatial dimensions 0, 1, ... among `roles`."""
        count = sum(isinstance(role, int) for role in roles)
        return tuple(roles.index(number) for number in range(count))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Role, ...], ...]:
        def parse_role() -> Role:
            if (number := parser.parse_optional_integer()) is not None:
                return number
            return parser.parse_identifier(" for the role of a dimension")

        def parse_roles() -> tuple[Role, ...]:
            return tuple(
                parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_role)
            )

        with parser.in_angle_brackets():
            input_roles = parse_roles()
            parser.parse_characters("x")
            kernel_roles = parse_roles()
            parser.parse_punctuation("->")
            return input_roles, kernel_roles, parse_roles()

    def print_parameter(self, printer: Printer) -> None:
        def text(roles: tuple[Role, ...]) -> str:
            return f"[{', '.join(map(str, roles))}]"

        with printer.in_angle_brackets():
            printer.print_string(
                f"{text(self.input)} x {text(self.kernel)} -> {text(self.result)}"
            )

    def verify(self) -> None:
        spatial = set(range(self.spatial_rank))
        for what, roles, letters in (
            ("input", self.input, {"b", "f"}),
            ("kernel", self.kernel, {"o", "i"}),
            ("result", self.result, {"b", "f"}),
        ):
            required = spatial | (letters - {"b"})
            if len(set(roles)) != len(roles) or not (
                required <= set(roles) <= required | letters
            ):
                raise VerifyException(
                    f"dimension roles of the {what} are {list(roles)}; expected each "
                    f"of {sorted(map(str, required))} once"
                    + (" and at most one b" if "b" in letters else "")
                )
        if ("b" in self.input) != ("b" in self.result):
            raise VerifyException("expected a batch in both input and result, or none")


def verify_positive(op: IRDLOperation, rank: int, **lists: Sequence[int]) -> None:
    """Raise unless each list has `rank` positive integers."""
    for name, values in lists.items():
        if len(values) != rank or any(value < 1 for value in values):
            raise VerifyException(
                f"'{op.name}' has {name} {list(values)}; expected {rank} positive "
                "integers, one for each spatial dimension"
            )


def windows(
    op: IRDLOperation, size: int, kernel: int, stride: int, dilation: int
) -> int:
    """How many VALID windows a dimension has; `?` where a size is dynamic."""
    if kernel == 0:
        raise VerifyException(
            f"'{op.name}' has a kernel without elements; expected 1 or more"
        )
    if DYNAMIC_INDEX in (size, kernel):
        return DYNAMIC_INDEX
    count = padding.conv_output_size(size, kernel, stride, dilation)
    if count < 1:
        raise VerifyException(
            f"'{op.name}' has a window of {dilation * (kernel - 1) + 1} elements "
            f"(kernel {kernel}, dilation {dilation}), larger than its input's {size}; "
            "pad the input first"
        )
    return count


@irdl_op_definition
class ConvOp(IRDLOperation):
    """
    Convolution (cross-correlation) of every window that lies within the input.

    ```mlir
    %y = tcp.conv %x, %w, %b strides [1, 1] dilations [1, 1] groups 1
         dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]>
       : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x4x6x6xf32>
    ```
    """

    name = "tcp.conv"

    input = operand_def(base(AnyTensor))
    kernel = operand_def(base(AnyTensor))
    bias = opt_operand_def(base(AnyTensor))
    strides = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    groups = prop_def(IntegerAttr.constr(i64))
    dims = prop_def(ConvDimsAttr)
    result = result_def(base(AnyTensor))

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $kernel (`,` $bias^)? `strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) `groups` $groups `dims` $dims "
        "attr-dict `:` type($input) `,` type($kernel) (`,` type($bias)^)? "
        "`->` type($result)"
    )

    custom_directives = (IntegerList,)

    def __init__(
        self,
        input: SSAValue,
        kernel: SSAValue,
        bias: SSAValue | None,
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int,
        dims: ConvDimsAttr,
        result_type: AnyTensor,
    ):
        super().__init__(
            operands=[input, kernel, bias],
            result_types=[result_type],
            properties={
                "strides": DenseArrayBase.from_list(i64, strides),
                "dilations": DenseArrayBase.from_list(i64, dilations),
                "groups": IntegerAttr(groups, i64),
                "dims": dims,
            },
        )

    def verify_(self) -> None:
        input_type, kernel_type = tensor_type(self.input), tensor_type(self.kernel)
        dims, rank = self.dims, self.dims.spatial_rank
        for what, type, roles in (
            ("input", input_type, dims.input),
            ("kernel", kernel_type, dims.kernel),
        ):
            if type.get_num_dims() != len(roles):
                raise VerifyException(
                    f"'tcp.conv' has {what} {type}, but roles {list(roles)} "
                    f"for {len(roles)} dimensions"
                )
        if kernel_type.element_type != input_type.element_type:
            raise VerifyException(
                f"'tcp.conv' has input {input_type} and kernel {kernel_type}; "
                "expected one element type"
            )
        verify_positive(
            self,
            rank,
            strides=self.strides.get_values(),
            dilations=self.dilations.get_values(),
        )
        groups = self.groups.value.data
        features = input_type.get_shape()[dims.input.index("f")]
        kernel_features = kernel_type.get_shape()[dims.kernel.index("i")]
        outputs = kernel_type.get_shape()[dims.kernel.index("o")]
        if groups < 1 or (outputs != DYNAMIC_INDEX and outputs % groups):
            raise VerifyException(
                f"'tcp.conv' cannot split {outputs} output features "
                f"into {groups} groups"
            )
        if (
            DYNAMIC_INDEX not in (features, kernel_features)
            and features != kernel_features * groups
        ):
            raise VerifyException(
                f"'tcp.conv' has {features} input features in {input_type}; "
                f"kernel {kernel_type} in {groups} groups expects "
                f"{kernel_features * groups}"
            )
        if self.bias is not None:
            bias_type = tensor_type(self.bias)
            if bias_type != TensorType(input_type.element_type, [outputs]):
                raise VerifyException(
                    f"'tcp.conv' has bias {bias_type}; expected one "
                    f"{input_type.element_type} for each of {outputs} output features"
                )
        verify_result(self, self.result.type, self.infer_type())

    def infer_type(self) -> AnyTensor:
        """The type of the result, from the types of the operands."""
        dims = self.dims
        input_type = tensor_type(self.input)
        input_shape = input_type.get_shape()
        kernel_shape = tensor_type(self.kernel).get_shape()
        sizes: dict[Role, int] = {"f": kernel_shape[dims.kernel.index("o")]}
        if "b" in dims.input:
            sizes["b"] = input_shape[dims.input.index("b")]
        for number, (stride, dilation) in enumerate(
            zip(self.strides.get_values(), self.dilations.get_values(), strict=True)
        ):
            sizes[number] = windows(
                self,
                input_shape[dims.input.index(number)],
                kernel_shape[dims.kernel.index(number)],
                stride,
                dilation,
            )
        return TensorType(
            input_type.element_type, [sizes[role] for role in dims.result]
        )


class PoolOp(TensorOp, abc.ABC):
    """A reduction of every window that lies within the input, in some dimensions."""

    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    dims = prop_def(DenseArrayBase.constr(i64))

    custom_directives = (IntegerList,)

    def verify_(self) -> None:
        input_type = self.input_type
        dims = self.dims.get_values()
        verify_dims(self, input_type, dims)
        verify_positive(
            self,
            len(dims),
            kernel=self.kernel.get_values(),
            strides=self.strides.get_values(),
            dilations=self.dilations.get_values(),
        )
        shape = list(input_type.get_shape())
        for dim, kernel, stride, dilation in zip(
            dims,
            self.kernel.get_values(),
            self.strides.get_values(),
            self.dilations.get_values(),
            strict=True,
        ):
            shape[dim] = windows(self, shape[dim], kernel, stride, dilation)
        inferred = TensorType(input_type.element_type, shape)
        verify_result(self, self.result.type, inferred)


def verify_dims(op: IRDLOperation, type: AnyTensor, dims: Sequence[int]) -> None:
    """Raise unless `dims` are different dimensions of `type`."""
    rank = type.get_num_dims()
    if len(set(dims)) != len(dims) or not all(0 <= dim < rank for dim in dims):
        raise VerifyException(
            f"'{op.name}' has dims {list(dims)}; expected different dimensions "
            f"of {type}, each from 0 to {rank - 1}"
        )


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """
    The largest element of every window that lies within the input; NaN wins.

    ```mlir
    %y = tcp.max_pool %x kernel [3, 3] strides [2, 2] dilations [1, 1] dims [2, 3]
       : tensor<1x4x9x9xf32> -> tensor<1x4x4x4xf32>
    ```
    """

    name = "tcp.max_pool"

    input = operand_def(base(AnyTensor))

    assembly_format = (
        "$input `kernel` custom<IntegerList>($kernel) "
        "`strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) "
        "`dims` custom<IntegerList>($dims) attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        dims: Sequence[int],
        result_type: AnyTensor,
    ):
        super().__init__(
            operands=[input],
            result_types=[result_type],
            properties={
                "kernel": DenseArrayBase.from_list(i64, kernel),
                "strides": DenseArrayBase.from_list(i64, strides),
                "dilations": DenseArrayBase.from_list(i64, dilations),
                "dims": DenseArrayBase.from_list(i64, dims),
            },
        )


@irdl_op_definition
class AvgPoolOp(PoolOp):
    """
    The mean of every window that lies within the input.

    The first `uncountedLower` and last `uncountedUpper` elements of a pooled
    dimension are part of the sum, but not counted: each sum is divided by the number
    of elements of its window that count. With a `divisor`, it is divided by that.
    Integers divide towards zero.

    ```mlir
    %y = tcp.avg_pool %x kernel [3, 3] strides [2, 2] dilations [1, 1] dims [2, 3]
         uncountedLower [0, 0] uncountedUpper [1, 1]
       : tensor<1x4x9x9xf32> -> tensor<1x4x4x4xf32>
    ```
    """

    name = "tcp.avg_pool"

    input = operand_def(base(AnyTensor))
    uncounted_lower = opt_prop_def(
        DenseArrayBase.constr(i64), prop_name="uncountedLower"
    )
    uncounted_upper = opt_prop_def(
        DenseArrayBase.constr(i64), prop_name="uncountedUpper"
    )
    divisor = opt_prop_def(IntegerAttr.constr(i64))

    assembly_format = (
        "$input `kernel` custom<IntegerList>($kernel) "
        "`strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) "
        "`dims` custom<IntegerList>($dims) "
        "(`uncountedLower` custom<IntegerList>($uncountedLower)^)? "
        "(`uncountedUpper` custom<IntegerList>($uncountedUpper)^)? "
        "(`divisor` $divisor^)? attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        dims: Sequence[int],
        result_type: AnyTensor,
        *,
        uncounted_lower: Sequence[int] | None = None,
        uncounted_upper: Sequence[int] | None = None,
        divisor: int | None = None,
    ):
        def optional(amounts: Sequence[int] | None) -> DenseArrayBase | None:
            if amounts is None or not any(amounts):
                return None
            return DenseArrayBase.from_list(i64, amounts)

        super().__init__(
            operands=[input],
            result_types=[result_type],
            properties={
                "kernel": DenseArrayBase.from_list(i64, kernel),
                "strides": DenseArrayBase.from_list(i64, strides),
                "dilations": DenseArrayBase.from_list(i64, dilations),
                "dims": DenseArrayBase.from_list(i64, dims),
                "uncountedLower": optional(uncounted_lower),
                "uncountedUpper": optional(uncounted_upper),
                "divisor": None if divisor is None else IntegerAttr(divisor, i64),
            },
        )

    @property
    def uncounted(self) -> list[tuple[int, int]]:
        """How many elements below and above each of `dims` do not count."""
        none = (0,) * len(self.dims)
        lower, upper = self.uncounted_lower, self.uncounted_upper
        return list(
            zip(
                none if lower is None else lower.get_values(),
                none if upper is None else upper.get_values(),
                strict=True,
            )
        )

    def counts(self) -> list[list[int]] | None:
        """
        For each of `dims`, how many elements of each window count along it.

        None where a size is dynamic. A window's divisor is the product over `dims`.
        """
        counts: list[list[int]] = []
        for dim, kernel, stride, dilation, (lower, upper) in zip(
            self.dims.get_values(),
            self.kernel.get_values(),
            self.strides.get_values(),
            self.dilations.get_values(),
            self.uncounted,
            strict=True,
        ):
            size = self.input_type.get_shape()[dim]
            if size == DYNAMIC_INDEX:
                return None
            counts.append(
                padding.window_counts(size, kernel, stride, dilation, lower, upper)
            )
        return counts

    def verify_(self) -> None:
        super().verify_()
        rank = len(self.dims)
        for name, amounts in (
            ("uncountedLower", self.uncounted_lower),
            ("uncountedUpper", self.uncounted_upper),
        ):
            if amounts is None:
                continue
            values = amounts.get_values()
            if len(values) != rank or any(value < 0 for value in values):
                raise VerifyException(
                    f"'tcp.avg_pool' has {name} {list(values)}; expected {rank} "
                    "non-negative integers, one for each of dims"
                )
        if self.divisor is not None and self.divisor.value.data == 0:
            raise VerifyException("'tcp.avg_pool' has divisor 0; expected another")
        if self.divisor is None and (counts := self.counts()) is not None:
            if any(count < 1 for along in counts for count in along):
                raise VerifyException(
                    "'tcp.avg_pool' has a window in which no element counts; "
                    "make it smaller, or give a divisor"
                )


class ResampleMode(StrEnum):
    """How `tcp.resample` combines the elements around a coordinate."""

    NEAREST = auto()
    LINEAR = auto()
    CUBIC = auto()


class Coordinates(StrEnum):
    """
    Where element j of a resampled dimension lies in its input, which has D elements.

    With `s` input elements for one of the result's: `ASYMMETRIC` at `j * s`,
    `HALF_PIXEL` at `(j + 1/2) * s - 1/2`, `ALIGN_CORNERS` at
    `j * (D - 1) / (result's size - 1)`.
    """

    ASYMMETRIC = auto()
    HALF_PIXEL = auto()
    ALIGN_CORNERS = auto()


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
    are at least 0. Elements outside repeat the border. `scales` are the result's
    elements for one of the input's; left out, they are the ratio of the sizes.
    This is `torch.nn.functional.interpolate` without `antialias`.

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
            },
        )

    @property
    def sizes(self) -> list[Amount]:
        """The result's size in each of `dims`."""
        return get_dynamic_index_list(
            self.static_size.get_values(), self.size, DYNAMIC_INDEX
        )

    def verify_(self) -> None:
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


Tcp = Dialect(
    "tcp",
    [
        AvgPoolOp,
        CircularPadOp,
        ConvOp,
        MaxPoolOp,
        PadOp,
        ReflectionPadOp,
        ReplicationPadOp,
        ResampleOp,
    ],
    [ConvDimsAttr, CoordinatesAttr, ResampleModeAttr],
)
