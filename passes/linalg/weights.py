"""Arguments of a function that are weights, and their packed forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from padc.ir.main_function import body_of
from padc.ir.tcp import tensor_type
from padc.ir.winograd import TAPS, winograd
from padc.passes.linalg.packing import Tiles, packed_type, split_order, split_sizes


def weight_arguments(function: func.FuncOp) -> Mapping[SSAValue, StringAttr]:
    """The arguments of `function` that are weights, and their names."""
    attributes = function.arg_attrs or ()
    names = [each.data.get("padc.weight") for each in attributes]
    return {
        arg: name
        for arg, name in zip(body_of(function).args, names, strict=False)
        if isinstance(name, StringAttr)
    }


def source_of(x: SSAValue) -> SSAValue:
    """The tensor that `x` reshapes: a reshaped weight is a weight too."""
    while isinstance(x.owner, tensor.ExpandShapeOp | tensor.CollapseShapeOp):
        x = x.owner.src
    return x


@dataclass
class PackedWeights:
    """The packed forms of a function's weights, which are new arguments."""

    function: func.FuncOp
    names: Mapping[SSAValue, StringAttr] = field(init=False)
    _attributes: list[DictionaryAttr] = field(
        default_factory=list[DictionaryAttr], init=False
    )
    _forms: dict[tuple[StringAttr, Attribute, Tiles], SSAValue] = field(
        default_factory=dict[tuple[StringAttr, Attribute, Tiles], SSAValue], init=False
    )
    """By the name of the weight, and the shape in which it is packed."""

    def __post_init__(self) -> None:
        self.names = weight_arguments(self.function)

    def __contains__(self, x: SSAValue) -> bool:
        """Whether `x` is a weight, or one in another shape."""
        return source_of(x) in self.names

    def packed(self, x: SSAValue, tiles: Tiles) -> SSAValue:
        """An argument for the weight `x`, which is packed when it is bound."""
        key = self.names[source_of(x)], x.type, tiles
        if key not in self._forms:
            self._forms[key] = self._argument(x, tiles)
        return self._forms[key]

    def _argument(self, x: SSAValue, tiles: Tiles) -> SSAValue:
        block, shape = body_of(self.function), tensor_type(x).get_shape()
        arg = block.insert_arg(packed_type(x, tiles), len(block.args))
        arg.name_hint = x.name_hint
        split = split_sizes(shape, tiles)
        order = split_order(len(shape), tiles)
        attributes = {
            "padc.weight": self.names[source_of(x)],
            "padc.split": DenseArrayBase.from_list(i64, split),
            "padc.order": DenseArrayBase.from_list(i64, order),
        }
        self._attributes.append(DictionaryAttr(attributes))
        return arg

    def declare(self) -> None:
        """Give the function the type and the attributes of the new arguments."""
        if not self._attributes:
            return
        function, known = self.function, self.function.arg_attrs
        function.arg_attrs = ArrayAttr([*(known or ()), *self._attributes])
        function.update_function_type()


@dataclass
class WinogradFilters:
    """The filter transforms of a function's packed kernels, which are new arguments."""

    function: func.FuncOp
    _attributes: dict[SSAValue, DictionaryAttr] = field(init=False)
    _forms: dict[tuple[SSAValue, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int], SSAValue], init=False
    )

    def __post_init__(self) -> None:
        self._attributes = dict(
            zip(
                body_of(self.function).args,
                self.function.arg_attrs or (),
                strict=False,
            )
        )

    def __contains__(self, x: SSAValue) -> bool:
        """Whether `x` is a kernel that is packed when it is bound."""
        attributes = self._attributes.get(x)
        return attributes is not None and "padc.order" in attributes.data

    def transformed(self, kernel: SSAValue, tile: int) -> SSAValue:
        """An argument for the filter transform of a packed 3x3 kernel."""
        if (kernel, tile) not in self._forms:
            self._forms[kernel, tile] = self._argument(kernel, tile)
        return self._forms[kernel, tile]

    def _argument(self, kernel: SSAValue, tile: int) -> SSAValue:
        block, type = body_of(self.function), tensor_type(kernel)
        outputs, inputs, *_, lanes, output_lanes = type.get_shape()
        side = winograd(tile).inputs
        split = [outputs, output_lanes, inputs, lanes, TAPS, TAPS]
        order = [4, 5, 0, 2, 3, 1]
        shape = [side, side, outputs, inputs, lanes, output_lanes]
        arg = block.insert_arg(TensorType(type.element_type, shape), len(block.args))
        arg.name_hint = kernel.name_hint
        self._attributes[arg] = DictionaryAttr(
            {
                "padc.weight": self._attributes[kernel].data["padc.weight"],
                "padc.tile": IntegerAttr(tile, i64),
                "padc.split": DenseArrayBase.from_list(i64, split),
                "padc.order": DenseArrayBase.from_list(i64, order),
            }
        )
        return arg

    def declare(self) -> None:
        """Give the function the type and the attributes of its arguments."""
        block, none = body_of(self.function), DictionaryAttr({})
        self.function.arg_attrs = ArrayAttr(
            [self._attributes.get(arg, none) for arg in block.args]
        )
        self.function.update_function_type()
