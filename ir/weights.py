"""
Weights: arrays that the IR refers to by name.

A constant in the IR is `dense_resource<name> : type`; its data is the numpy array of
that name in the `Weights` of the context. xDSL keeps such data as text, in one table
for the whole process; here it stays a numpy array, memory-mapped if it comes from a
file. numpy has no bfloat16: the bits of a bfloat16 are held as `uint16`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    BFloat16Type,
    Builtin,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Dialect

from padc.errors import InvalidProgramError
from padc.ir import text as text  # Mends what is printed.
from padc.ir.names import identifier, unique_name
from padc.ir.type_tests import is_tensor

Array: TypeAlias = npt.NDArray[Any]

ALIGNMENT = (16).to_bytes(4, "little")
"""The alignment of printed data: enough for every element type, up to complex<f64>."""


class Derivation(Protocol):
    """A rule that computes some weights from others, whose data may change."""

    @property
    def names(self) -> Sequence[str]:
        """The weights that it computes."""
        ...

    def apply(self, weights: Weights) -> None:
        """Compute the weights."""
        ...


class Weights(dict[str, Array]):
    """
    The arrays that the IR of one context refers to, by name.

    Read them with `array`: data that was parsed from text is bytes until an attribute
    gives its dtype and shape.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        super().__init__(arrays or {})
        self.sources: dict[str, str] = {}
        """For each weight that comes from a model, its name there."""
        self.derivations: list[Derivation] = []
        """How the weights that passes added are computed from the model's."""

    print_blobs: bool = False
    """Whether a module is printed with the data of its weights."""

    def array(self, attribute: DenseResourceAttr | DenseIntOrFPElementsAttr) -> Array:
        """
        The data of `attribute`, in the dtype (see `numpy_dtype`) and shape of its type.

        Raises InvalidProgramError if there is no data, or not the right amount.
        """
        type = attribute.get_type()
        assert is_tensor(type)
        dtype, shape = numpy_dtype(type.element_type), tuple(type.get_shape())
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            return np.frombuffer(attribute.data.data, dtype).reshape(shape)
        name = attribute.resource_handle.data
        array = self.get(name)
        if array is None:
            raise InvalidProgramError(
                f"there is no data for the weight '{name}'",
                hint="print the module with its weights, or start from the model",
            )
        if array.dtype == dtype and array.shape == shape:
            return array
        expected = dtype.itemsize * math.prod(shape)
        if array.nbytes != expected:
            raise InvalidProgramError(
                f"the weight '{name}' of type {type} needs {expected} bytes, "
                f"got {array.nbytes}"
            )
        self[name] = array.reshape(-1).view(dtype).reshape(shape)
        return self[name]

    def add(self, name: str, array: Array) -> str:
        """
        Store `array` under `name`, made an identifier and unique.

        Returns the name in the store.
        """
        unique = unique_name(identifier(name, also="$."), self)
        self[unique] = array
        return unique


_FLOATS: dict[type[Attribute], str] = {
    BFloat16Type: "u2",
    Float16Type: "f2",
    Float32Type: "f4",
    Float64Type: "f8",
}


def numpy_dtype(element_type: Attribute) -> np.dtype[Any]:
    """
    The dtype in which a weight of this element type is held.

    `i1` is bool, a byte each; signless integers are signed; `bf16` is its bits.
    """
    match element_type:
        case IntegerType(width=width, signedness=signedness):
            if width.data == 1:
                return np.dtype(np.bool_)
            kind = "u" if signedness.data == Signedness.UNSIGNED else "i"
            return np.dtype(f"{kind}{width.data // 8}")
        case IndexType():
            return np.dtype(np.int64)
        case ComplexType(element_type=part):
            return np.dtype(f"c{2 * numpy_dtype(part).itemsize}")
        case _:
            return np.dtype(_FLOATS[type(element_type)])


def float32_of_bfloat16(bits: Array) -> Array:
    """The values of a bfloat16 weight, whose bits begin those of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


class WeightsInterface(OpAsmDialectInterface):
    """The interface through which xDSL's parser and printer use `Weights`."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = Weights()

    def declare_resource(self, key: str) -> str:
        return key

    def parse_resource(self, key: str, val: str) -> None:
        # MLIR's format: the alignment, 4 bytes little-endian, then the data.
        data = bytes.fromhex(val.removeprefix("0x"))
        if not val.startswith("0x") or len(data) < 4:
            raise ValueError(f"expected 0x, 4 bytes of alignment and data, got {val}")
        self.weights[key] = np.frombuffer(data, np.uint8, offset=4)

    def lookup(self, key: str) -> str | None:
        array = self.weights.get(key)
        if array is None:
            return None
        return f"0x{(ALIGNMENT + array.tobytes()).hex().upper()}"

    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        if not self.weights.print_blobs:
            return {}
        found = {key: self.lookup(key) for key in keys}
        return {key: blob for key, blob in found.items() if blob is not None}


def weights_builtin_dialect() -> Dialect:
    """xDSL's builtin dialect with its own store of weights."""
    return Dialect(
        "builtin",
        list(Builtin.operations),
        list(Builtin.attributes),
        [WeightsInterface()],
    )


def weights_of(ctx: Context) -> Weights:
    """
    The weights that the IR of `ctx` refers to.

    Contexts that `padc.ir.make_context` did not make, such as xdsl-opt's, have none.
    """
    interface = ctx.get_dialect("builtin").get_interface(WeightsInterface)
    return Weights() if interface is None else interface.weights
