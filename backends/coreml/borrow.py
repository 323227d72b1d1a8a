# pyright: basic, reportMissingTypeStubs=false, reportPrivateImportUsage=false
"""
Ordinary aten ops, converted by coremltools' own torch converters.

coremltools converts a whole `ExportedProgram`, node by node. Here one op of the
`torch` dialect at a time becomes such a node. Its arguments are those of an fx graph:
arguments equal to their defaults are left out, and keyword-only ones are separate.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from xdsl.dialects.builtin import f16
from xdsl.ir import Attribute

from padc.backends.coreml import quiet
from padc.errors import Obstacle
from padc.ir.torch import AtenOp, Schema, VTensorType
from padc.ir.torch.schemas import declarations

with quiet():
    from coremltools.converters.mil.frontend.torch.converter import (
        TranscriptionContext,
    )
    from coremltools.converters.mil.frontend.torch.internal_graph import (
        InternalTorchIRNode,
    )
    from coremltools.converters.mil.frontend.torch.torch_op_registry import (
        _TORCH_OPS_REGISTRY,
    )
    from coremltools.converters.mil.frontend.torch.utils import (
        NUM_TO_TORCH_DTYPE,
        TORCH_DTYPE_TO_NUM,
        TorchFrontend,
        sanitize_op_kind,
    )
    from coremltools.converters.mil.mil import Builder, Var, types

# coremltools attaches the op builders at run time, where no type checker looks.
mb: Any = Builder

INT32 = range(-(2**31), 2**31)


# Arguments without effect in Core ML, or given by the type of the result.
IGNORED_KEYWORDS = {"dtype", "pin_memory", "non_blocking"}
IGNORED_TYPES = {"Device", "Layout", "MemoryFormat", "Generator"}


REWRITE = (
    "write it with other ops of PyTorch; if run_decompositions() made it, export "
    "without that"
)
EVAL = "call model.eval() before converting"


@cache
def borrowed() -> frozenset[str]:
    """The names of the schemas that coremltools has a converter for, or padc here."""
    return frozenset(
        name
        for name in declarations()
        if name in CORRECTIONS or _TORCH_OPS_REGISTRY.get_func(_kind(name)) is not None
    )


def borrow(op: AtenOp, operands: Sequence[Any], name: str) -> list[Any]:
    """
    Convert `op` into the pymil function that is being built, and return its results.

    `operands` are pymil variables, Python values and lists of both. `name` becomes the
    name of the pymil op and must be unique. Raises `Obstacle` if coremltools has no
    converter or is known to be wrong, and passes on what its converter raises.
    """
    schema = op.schema
    positions = zip(schema.arguments, operands, strict=True)
    arguments = {argument.name: value for argument, value in positions}
    if (correct := CORRECTIONS.get(schema.name)) is not None:
        if (result := correct(arguments, name)) is not None:
            return [result]
    results = _convert(schema, arguments, name)
    if len(results) != len(op.results):
        return results
    return [
        _rounded(value, result.type)
        for value, result in zip(results, op.results, strict=True)
    ]


def _rounded(value: Any, type_: Attribute) -> Any:
    """
    `value`, cast to fp16 if PyTorch's result is float16.

    Some converters compute in fp32 if an operand is a Python number. So does PyTorch
    inside an op, but its result is float16.
    """
    is_half = isinstance(type_, VTensorType) and type_.element_type == f16
    is_float = isinstance(value, Var) and value.dtype == types.fp32
    return mb.cast(x=value, dtype="fp16") if is_half and is_float else value


def _convert(schema: Schema, arguments: dict[str, Any], name: str) -> list[Any]:
    """Call coremltools' converter of the op that `schema` declares."""
    kind = _kind(schema.name)
    if (converter := _TORCH_OPS_REGISTRY.get_func(kind)) is None:
        raise Obstacle("coremltools has no converter for it", REWRITE)
    context = TranscriptionContext(frontend=TorchFrontend.TORCHEXPORT)

    def encode(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(encode, value))
        if isinstance(value, Var):
            # No string argument of an op starts with %.
            key = f"%{id(value)}"
            if key not in context:
                context.add(value, key)
            return key
        return value

    positional: list[Any] = []
    keywords = _Keywords()
    defaults = 0
    for argument in schema.arguments:
        type_, value = argument.type.rstrip("?"), arguments[argument.name]
        if type_ in IGNORED_TYPES:
            continue
        # Types count, as in PyTorch: the Scalar 1.0 is not the default 1.
        is_default = type(value) is type(argument.default) and value == argument.default
        if type_ == "ScalarType" and isinstance(value, int):
            value = _dtype_number(value)
        elif argument.name not in ("start", "end"):  # where any big number means "all"
            _check_integers(argument.name, value)
        if argument.name in _keyword_only(schema.name):
            if not (argument.has_default and is_default) and value is not None:
                keywords[argument.name] = (encode(value),)
            continue
        positional.append(encode(value))
        defaults = defaults + 1 if argument.has_default and is_default else 0

    def call(inputs: list[Any]) -> None:
        node = InternalTorchIRNode(
            kind=kind,
            name=name,
            inputs=inputs,
            kwinputs=keywords or None,
            outputs=[name],
            meta={},
        )
        converter(context, node)

    try:
        call(positional[: len(positional) - defaults])
    except Exception:
        # Some converters want the defaults written out.
        if not defaults:
            raise
        call(positional)
    for keyword in keywords.keys() - keywords.read - IGNORED_KEYWORDS:
        raise Obstacle(f"coremltools ignores {keyword}={arguments[keyword]}", REWRITE)
    results = context[name]
    return list(results) if isinstance(results, tuple | list) else [results]


def _kind(name: str) -> str:
    """The name under which coremltools has the converter of a schema."""
    kind = sanitize_op_kind(name)
    for overload in ".scalar", ".using_ints":  # which fx never has
        kind = kind.partition(overload)[0]
    return kind


class _Keywords(dict[str, Any]):
    """Keyword arguments that record which of them a converter reads."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


@cache
def _keyword_only(name: str) -> frozenset[str]:
    """The keyword-only arguments of a schema, as torch itself declares them."""
    namespace, operator, *overload = name.split(".")
    schema = torch._C._get_schema(f"{namespace}::{operator}", "".join(overload))
    return frozenset(a.name for a in schema.arguments if a.kwarg_only)


def _dtype_number(number: int) -> int:
    """The number that coremltools' converters expect for a dtype of this number."""
    if (dtype := NUM_TO_TORCH_DTYPE.get(number)) is None or dtype == torch.float64:
        raise Obstacle(f"Core ML does not have {dtype or f'the dtype {number}'}")
    return TORCH_DTYPE_TO_NUM[dtype]


def _check_integers(name: str, value: Any) -> None:
    """Refuse integers outside of int32, which coremltools would wrap silently."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int) and item not in INT32:
            raise Obstacle(f"{name} = {item} does not fit Core ML's int32")


# --- where coremltools 9.0 is wrong without saying so, or slow ------------------------

Correction = Callable[[dict[str, Any], str], Any]
"""
Takes the arguments of an op, and its name. Returns the result; or None, if coremltools
converts the arguments correctly, which the correction may have changed. Raises
`Obstacle` if there is no correct conversion.
"""


def _dropout(arguments: dict[str, Any], name: str) -> None:
    if arguments["train"] is not False:
        raise Obstacle("it draws random numbers", EVAL)


def _interpolate(arguments: dict[str, Any], name: str) -> None:
    x = arguments["input"] if "input" in arguments else arguments["self"]
    if not types.is_float(x.dtype):
        raise Obstacle(
            "PyTorch interpolates bytes in fixed point, which Core ML does not have",
            "interpolate floats: x.float()",
        )


def _antialias(arguments: dict[str, Any], name: str) -> None:
    _interpolate(arguments, name)
    raise Obstacle("coremltools ignores antialias", REWRITE)


def _refuse(reason: str, hint: str = REWRITE) -> Correction:
    def correct(arguments: dict[str, Any], name: str) -> None:
        raise Obstacle(reason, hint)

    return correct


CORRECTIONS: dict[str, Correction] = {
    "aten._upsample_bicubic2d_aa": _antialias,
    "aten._upsample_bicubic2d_aa.vec": _antialias,
    "aten._upsample_bilinear2d_aa": _antialias,
    "aten._upsample_bilinear2d_aa.vec": _antialias,
    "aten.native_dropout": _dropout,
    "aten.upsample_bicubic2d": _interpolate,
    "aten.upsample_bicubic2d.vec": _interpolate,
    "aten.upsample_bilinear2d": _interpolate,
    "aten.upsample_bilinear2d.vec": _interpolate,
    "aten.upsample_linear1d": _interpolate,
    "aten.upsample_linear1d.vec": _interpolate,
    "aten.upsample_trilinear3d": _interpolate,
    "aten.upsample_trilinear3d.vec": _interpolate,
}
