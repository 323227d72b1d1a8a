"""Arguments of a function that are weights, and their packed forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, SSAValue

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


def origin_of(function: func.FuncOp, weight: SSAValue) -> Mapping[str, Attribute]:
    """The attributes of an argument that tell which weight it is, and its type."""
    assert isinstance(weight, BlockArgument) and function.arg_attrs is not None
    data = function.arg_attrs.data[weight.index].data
    return {name: data[name] for name in ("padc.weight", "padc.narrow") if name in data}


def source_of(x: SSAValue) -> SSAValue:
    """The tensor that `x` reshapes: a reshaped weight is a weight too."""
    while isinstance(x.owner, tensor.ExpandShapeOp | tensor.CollapseShapeOp):
        x = x.owner.src
    return x


@dataclass
class WideWeights:
    """The weights of a function as f32, which are new arguments."""

    function: func.FuncOp
    _names: Mapping[SSAValue, StringAttr] = field(init=False)
    _forms: dict[SSAValue, SSAValue] = field(
        default_factory=dict[SSAValue, SSAValue], init=False
    )

    def __post_init__(self) -> None:
        self._names = weight_arguments(self.function)

    def __contains__(self, x: SSAValue) -> bool:
        """Whether `x` is a weight."""
        return x in self._names

    def wide(self, x: SSAValue) -> SSAValue:
        """An argument for the weight `x`, which is converted when it is bound."""
        if x not in self._forms:
            block, shape = body_of(self.function), tensor_type(x).get_shape()
            type = TensorType(f32, shape)
            self._forms[x] = block.insert_arg(type, len(block.args))
            self._forms[x].name_hint = x.name_hint
        return self._forms[x]

    def declare(self) -> None:
        """Give the function the type and the attributes of the new arguments."""
        add_arguments(
            self.function,
            [
                DictionaryAttr(
                    {
                        "padc.weight": self._names[x],
                        "padc.narrow": tensor_type(x).element_type,
                    }
                )
                for x in self._forms
            ],
        )


def add_arguments(function: func.FuncOp, attributes: Sequence[DictionaryAttr]) -> None:
    """Give `function` the type and the attributes of new arguments, its last ones."""
    if attributes:
        function.arg_attrs = ArrayAttr([*(function.arg_attrs or ()), *attributes])
        function.update_function_type()


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
            **origin_of(self.function, source_of(x)),
            "padc.split": DenseArrayBase.from_list(i64, split),
            "padc.order": DenseArrayBase.from_list(i64, order),
        }
        self._attributes.append(DictionaryAttr(attributes))
        return arg

    def declare(self) -> None:
        """Give the function the type and the attributes of the new arguments."""
        add_arguments(self.function, self._attributes)


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
                **origin_of(self.function, kernel),
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
