"""Types of the `torch` dialect, and the builtin tensor types that they stand for."""

from __future__ import annotations

import functools

from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from padc.ir.type_tests import AnyTensor, is_tensor


class TorchType(ParametrizedAttribute, TypeAttribute):
    """A type of the dialect. Nested types are written without `!torch.`."""

    @staticmethod
    def parse_inner(parser: AttrParser) -> Attribute:
        """A type inside another: `int`, `list<int>`, `vtensor<[2],f32>`."""
        name = parser.parse_identifier(" for a torch type")
        type_class = parser.ctx.get_optional_type(f"torch.{name}")
        if type_class is None or not issubclass(type_class, TorchType):
            parser.raise_error(f"'{name}' is not a type of the torch dialect")
        return type_class.new(type_class.parse_parameters(parser))

    @staticmethod
    def print_inner(type: Attribute, printer: Printer) -> None:
        """Write what `parse_inner` reads."""
        assert isinstance(type, TorchType)
        printer.print_string(type.name.removeprefix("torch."))
        type.print_parameters(printer)


@irdl_attr_definition
class IntType(TorchType):
    """A Python int or a symbolic size."""

    name = "torch.int"


@irdl_attr_definition
class FloatType(TorchType):
    """A Python float."""

    name = "torch.float"


@irdl_attr_definition
class BoolType(TorchType):
    """A Python bool."""

    name = "torch.bool"


@irdl_attr_definition
class NumberType(TorchType):
    """An int, a float or a bool: ATen's `Scalar`."""

    name = "torch.number"


@irdl_attr_definition
class StringType(TorchType):
    """A Python str."""

    name = "torch.str"


@irdl_attr_definition
class NoneType(TorchType):
    """The type of `None`."""

    name = "torch.none"


@irdl_attr_definition
class AnyType(TorchType):
    """Any value at all."""

    name = "torch.any"


@irdl_attr_definition
class DeviceType(TorchType):
    """A `torch.device`."""

    name = "torch.Device"


@irdl_attr_definition
class GeneratorType(TorchType):
    """A `torch.Generator`."""

    name = "torch.Generator"


class ContainerType(TorchType):
    """A type with element types, `list<int>` or `tuple<int, str>`."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        return list(
            parser.parse_comma_separated_list(
                parser.Delimiter.ANGLE, lambda: TorchType.parse_inner(parser)
            )
        )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(
                self.parameters, lambda type: TorchType.print_inner(type, printer)
            )


@irdl_attr_definition
class ListType(ContainerType):
    """A Python list of one type."""

    name = "torch.list"

    element_type: Attribute


@irdl_attr_definition
class OptionalType(ContainerType):
    """A value of one type, or `None`."""

    name = "torch.optional"

    element_type: Attribute


@irdl_attr_definition
class TupleType(TorchType):
    """A Python tuple."""

    name = "torch.tuple"

    element_types: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        return [ArrayAttr(ContainerType.parse_parameters(parser))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(
                self.element_types, lambda type: TorchType.print_inner(type, printer)
            )


@irdl_attr_definition
class VTensorType(TorchType):
    """
    A tensor with value semantics: `!torch.vtensor<[1,3,?],f32>`.

    An unknown shape or element type is `NoneAttr` (`<*,f32>`, `<[2],unk>` and bare
    `!torch.vtensor`). Signed integers are `si8` to `si64`, bool is `i1`.
    """

    name = "torch.vtensor"

    shape: ArrayAttr[IntAttr] | NoneAttr
    element_type: Attribute

    def verify(self) -> None:
        if not isinstance(
            self.element_type, AnyFloat | IntegerType | ComplexType | NoneAttr
        ):
            raise VerifyException(
                f"expected a tensor of numbers, got one of {self.element_type}"
            )

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def get(element_type: Attribute, shape: tuple[int, ...]) -> VTensorType:
        """The type of this element type and shape; `DYNAMIC_INDEX` is `?`."""
        return VTensorType(ArrayAttr(map(IntAttr, shape)), element_type)

    def get_shape(self) -> tuple[int, ...]:
        """The sizes, `DYNAMIC_INDEX` for `?`; VerifyException if unranked."""
        if isinstance(self.shape, NoneAttr):
            raise VerifyException(f"expected a tensor of known rank, got {self}")
        return tuple(dim.data for dim in self.shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        if parser.parse_optional_punctuation("<") is None:
            return [NoneAttr(), NoneAttr()]
        shape: Attribute = NoneAttr()
        if parser.parse_optional_characters("*") is None:
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_dimension(parser)
            )
            shape = ArrayAttr(map(IntAttr, dims))
        parser.parse_punctuation(",")
        element_type: Attribute = NoneAttr()
        if parser.parse_optional_keyword("unk") is None:
            element_type = parser.parse_type()
        parser.parse_punctuation(">")
        return [shape, element_type]

    def print_parameters(self, printer: Printer) -> None:
        no_shape = isinstance(self.shape, NoneAttr)
        no_element = isinstance(self.element_type, NoneAttr)
        if no_shape and no_element:
            return
        with printer.in_angle_brackets():
            if no_shape:
                printer.print_string("*")
            else:
                dims = ("?" if d == DYNAMIC_INDEX else str(d) for d in self.get_shape())
                printer.print_string(f"[{','.join(dims)}]")
            printer.print_string(",")
            if no_element:
                printer.print_string("unk")
            else:
                printer.print_attribute(self.element_type)


def _parse_dimension(parser: AttrParser) -> int:
    if parser.parse_optional_punctuation("?") is not None:
        return DYNAMIC_INDEX
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def builtin_type(type: VTensorType) -> TensorType[Attribute]:
    """`tensor<>` for `vtensor<>`: signed integers become signless."""
    if isinstance(type.element_type, NoneAttr):
        raise VerifyException(f"expected a tensor of known dtype, got {type}")
    element_type = _with_sign(type.element_type, Signedness.SIGNED, Signedness.SIGNLESS)
    return TensorType(element_type, type.get_shape())


def vtensor_type(type: TensorType[Attribute]) -> VTensorType:
    """`vtensor<>` for `tensor<>`: signless integers, except `i1`, become signed."""
    element_type = type.element_type
    if element_type != i1:
        element_type = _with_sign(element_type, Signedness.SIGNLESS, Signedness.SIGNED)
    return VTensorType.get(element_type, tuple(type.get_shape()))


def _with_sign(type: Attribute, before: Signedness, after: Signedness) -> Attribute:
    if isa(type, IntegerType) and type.signedness.data == before:
        return IntegerType(type.width.data, after)
    return type


def is_any_tensor(type: Attribute) -> TypeIs[VTensorType | AnyTensor]:
    """Whether a type is that of a tensor, torch's or builtin."""
    return isinstance(type, VTensorType) or is_tensor(type)
