"""VALID convolutions and their transposes, with dimensions in any order."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import (
    Data,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from padc.ir import padding
from padc.ir.padding import Amounts
from padc.ir.tcp.tensors import (
    AnyTensor,
    IntegerList,
    agrees,
    tensor_type,
    verify_positive,
    verify_result,
    windows,
)

__all__ = [
    "ConvDimsAttr",
    "ConvOp",
    "ConvTransposeOp",
    "ConvolutionOp",
]

Role: TypeAlias = str | int


@irdl_attr_definition
class ConvDimsAttr(Data[tuple[tuple[Role, ...], ...]]):
    """
    The role of each dimension of a convolution's input, kernel and result.

    `b` is a batch, `f` the feature (channel), `o` and `i` the kernel's output and
    input features, and a number is a spatial dimension. `b` is optional. With groups,
    a convolution's kernel has the output features of all groups and the input features
    of one; a transposed convolution's kernel has the input features of all groups and
    the output features of one.

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

    @staticmethod
    def transposed(spatial_rank: int, batched: bool = True) -> ConvDimsAttr:
        """PyTorch's order for transposed convolutions, whose kernel has `i` first."""
        spatial = tuple(range(spatial_rank))
        activation = ("b", "f", *spatial) if batched else ("f", *spatial)
        return ConvDimsAttr((activation, ("i", "o", *spatial), activation))

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


class ConvolutionOp(IRDLOperation, abc.ABC):
    """A convolution or transposed convolution."""

    input = operand_def(base(AnyTensor))
    kernel = operand_def(base(AnyTensor))
    bias = opt_operand_def(base(AnyTensor))
    strides = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    groups = prop_def(IntegerAttr.constr(i64))
    dims = prop_def(ConvDimsAttr)
    result = result_def(base(AnyTensor))

    traits = traits_def(Pure())

    custom_directives = (IntegerList,)

    @property
    def kernel_sizes(self) -> dict[Role, int]:
        """The sizes of the kernel's dimensions, by role."""
        shape = tensor_type(self.kernel).get_shape()
        return dict(zip(self.dims.kernel, shape, strict=True))

    @property
    @abc.abstractmethod
    def features(self) -> tuple[int, int]:
        """The numbers of features of input and result, from kernel and groups."""

    @abc.abstractmethod
    def result_size(self, number: int, size: int) -> int:
        """
        The result's size in spatial dimension `number`, for an input of `size`.

        Dynamic if `size` or the kernel's size is. VerifyException if no window fits.
        """

    def in_groups(self, size: int) -> int:
        """`size` times the number of groups; dynamic if `size` is."""
        return size if size == DYNAMIC_INDEX else size * self.groups.value.data

    def verify_(self) -> None:
        input_type, kernel_type = tensor_type(self.input), tensor_type(self.kernel)
        dims, rank = self.dims, self.dims.spatial_rank
        for what, type, roles in (
            ("input", input_type, dims.input),
            ("kernel", kernel_type, dims.kernel),
        ):
            if type.get_num_dims() != len(roles):
                raise VerifyException(
                    f"'{self.name}' has {what} {type}, but roles {list(roles)} "
                    f"for {len(roles)} dimensions"
                )
        if kernel_type.element_type != input_type.element_type:
            raise VerifyException(
                f"'{self.name}' has input {input_type} and kernel {kernel_type}; "
                "expected one element type"
            )
        verify_positive(
            self,
            rank,
            strides=self.strides.get_values(),
            dilations=self.dilations.get_values(),
        )
        if (groups := self.groups.value.data) < 1:
            raise VerifyException(
                f"'{self.name}' has groups {groups}; expected 1 or more"
            )
        inputs, outputs = self.features
        for what, count in (("input", inputs), ("output", outputs)):
            if count != DYNAMIC_INDEX and count % groups:
                raise VerifyException(
                    f"'{self.name}' cannot split {count} {what} features "
                    f"into {groups} groups"
                )
        features = input_type.get_shape()[dims.input.index("f")]
        if DYNAMIC_INDEX not in (features, inputs) and features != inputs:
            raise VerifyException(
                f"'{self.name}' has {features} input features in {input_type}; "
                f"kernel {kernel_type} in {groups} groups expects {inputs}"
            )
        if self.bias is not None:
            bias_type = tensor_type(self.bias)
            if not agrees(bias_type, TensorType(input_type.element_type, [outputs])):
                raise VerifyException(
                    f"'{self.name}' has bias {bias_type}; expected one "
                    f"{input_type.element_type} for each of {outputs} output features"
                )
        verify_result(self, self.result.type, self.infer_type())

    def infer_type(self) -> AnyTensor:
        """The result type, inferred from the operand types."""
        dims = self.dims
        input_type = tensor_type(self.input)
        input_shape = input_type.get_shape()
        _, outputs = self.features
        sizes: dict[Role, int] = {"f": outputs}
        for role, size in zip(dims.input, input_shape, strict=True):
            if isinstance(role, int):
                sizes[role] = self.result_size(role, size)
            elif role == "b":
                sizes[role] = size
        return TensorType(
            input_type.element_type, [sizes[role] for role in dims.result]
        )


@irdl_op_definition
class ConvOp(ConvolutionOp):
    """
    Convolution (cross-correlation) of every window that lies within the input.

    ```mlir
    %y = tcp.conv %x, %w, %b strides [1, 1] dilations [1, 1] groups 1
         dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]>
       : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x4x6x6xf32>
    ```
    """

    name = "tcp.conv"

    assembly_format = (
        "$input `,` $kernel (`,` $bias^)? `strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) `groups` $groups `dims` $dims "
        "attr-dict `:` type($input) `,` type($kernel) (`,` type($bias)^)? "
        "`->` type($result)"
    )

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

    @property
    def features(self) -> tuple[int, int]:
        return self.in_groups(self.kernel_sizes["i"]), self.kernel_sizes["o"]

    def result_size(self, number: int, size: int) -> int:
        return windows(
            self,
            size,
            self.kernel_sizes[number],
            self.strides.get_values()[number],
            self.dilations.get_values()[number],
        )


@irdl_op_definition
class ConvTransposeOp(ConvolutionOp):
    """
    Transposed convolution: the sum of the kernel times each element of the input.

    With stride s, dilation d and kernel k, element t of the input adds to positions
    `t * s + j * d`, j in [0, k): a dimension of size D becomes `(D - 1) * s +
    d * (k - 1) + 1`. The result is then expanded below and above, usually by negative
    amounts, which crop. Positions that are added are 0. The bias is added last, to
    these too; therefore expanding is a part of the op, not a pad after it.

    PyTorch's padding p and output_padding are `lowerExpansion` -p and
    `upperExpansion` output_padding - p.

    ```mlir
    %y = tcp.conv_transpose %x, %w, %b strides [2] dilations [1] groups 1
         lowerExpansion [-1] upperExpansion [0]
         dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]>
       : tensor<1x3x8xf32>, tensor<3x4x3xf32>, tensor<4xf32> -> tensor<1x4x16xf32>
    ```
    """

    name = "tcp.conv_transpose"

    static_lower = opt_prop_def(DenseArrayBase.constr(i64), prop_name="lowerExpansion")
    static_upper = opt_prop_def(DenseArrayBase.constr(i64), prop_name="upperExpansion")

    assembly_format = (
        "$input `,` $kernel (`,` $bias^)? `strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) `groups` $groups "
        "(`lowerExpansion` custom<IntegerList>($lowerExpansion)^)? "
        "(`upperExpansion` custom<IntegerList>($upperExpansion)^)? `dims` $dims "
        "attr-dict `:` type($input) `,` type($kernel) (`,` type($bias)^)? "
        "`->` type($result)"
    )

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
        expansions: Sequence[Amounts] = (),
    ):
        """`expansions` has one entry for each spatial dimension; none means VALID."""

        def optional(amounts: list[int]) -> DenseArrayBase | None:
            return DenseArrayBase.from_list(i64, amounts) if any(amounts) else None

        super().__init__(
            operands=[input, kernel, bias],
            result_types=[result_type],
            properties={
                "strides": DenseArrayBase.from_list(i64, strides),
                "dilations": DenseArrayBase.from_list(i64, dilations),
                "groups": IntegerAttr(groups, i64),
                "lowerExpansion": optional([amount.lower for amount in expansions]),
                "upperExpansion": optional([amount.upper for amount in expansions]),
                "dims": dims,
            },
        )

    @property
    def expansions(self) -> list[Amounts]:
        """The expansion of each spatial dimension of the VALID result."""
        none = (0,) * self.dims.spatial_rank
        lower, upper = self.static_lower, self.static_upper
        return [
            Amounts(low, high)
            for low, high in zip(
                none if lower is None else lower.get_values(),
                none if upper is None else upper.get_values(),
                strict=True,
            )
        ]

    @property
    def features(self) -> tuple[int, int]:
        return self.kernel_sizes["i"], self.in_groups(self.kernel_sizes["o"])

    def result_size(self, number: int, size: int) -> int:
        kernel = self.kernel_sizes[number]
        stride = self.strides.get_values()[number]
        dilation = self.dilations.get_values()[number]
        lower, upper = self.expansions[number].lower, self.expansions[number].upper
        if 0 in (size, kernel):
            raise VerifyException(
                f"'{self.name}' has {'an input' if size == 0 else 'a kernel'} without "
                "elements; expected 1 or more"
            )
        if DYNAMIC_INDEX in (size, kernel):
            return DYNAMIC_INDEX
        valid = padding.conv_transpose_output_size(size, kernel, stride, dilation)
        if (result := valid + lower + upper) < 0:
            raise VerifyException(
                f"'{self.name}' has lowerExpansion {lower} and upperExpansion {upper} "
                f"in spatial dimension {number}, which crop more than its {valid} "
                "elements; crop less"
            )
        return result

    def verify_(self) -> None:
        rank = self.dims.spatial_rank
        for name, amounts in (
            ("lowerExpansion", self.static_lower),
            ("upperExpansion", self.static_upper),
        ):
            if amounts is not None and len(amounts) != rank:
                raise VerifyException(
                    f"'{self.name}' has {len(amounts)} amounts in {name}, expected "
                    f"one for each of {rank} spatial dimensions"
                )
        super().verify_()
