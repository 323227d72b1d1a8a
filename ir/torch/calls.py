# pyright: reportUnknownMemberType=false
"""One ATen op, called in PyTorch: on operands, or on tensors without data."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.errors import first_line
from padc.ir.torch import (
    AtenOp,
    ConstantDeviceOp,
    IntType,
    ListConstructOp,
    NotConstantError,
    VTensorType,
    constant_value,
)
from padc.ir.torch.describe import describe_type
from padc.ir.torch.tensors import torch_dtype

META = torch.device("meta")
"""Where tensors have no data."""
UNSAFE = {
    "aten.from_file": "reads or makes a file",
    **dict.fromkeys(
        (
            *("aten._stack", "aten._add_batch_dim", "aten._remove_batch_dim"),
            *("aten._dyn_quant_matmul_4bit", "aten._dyn_quant_pack_4bit_weight"),
            *("aten._cholesky_solve_helper", "aten._new_zeros_with_same_feature_meta"),
        ),
        "may end the process",
    ),
}
"""Ops that programs that are not trusted must not call, and what they do."""
SIZES = 1, 2, 16, 60
"""Sizes that are tried out in place of those that are known only at run time."""
MOST_BYTES = 2**24
"""The most bytes that are tried out."""


class TorchRefusalError(Exception):
    """PyTorch does not take the operands of an op, or does not have the op."""


class NeedsDataError(TorchRefusalError):
    """PyTorch cannot say what an op makes of tensors without data."""


def function_of(op: AtenOp) -> Any:
    """PyTorch's function for an op; TorchRefusalError if it has none that is safe."""
    if (danger := UNSAFE.get(op.schema.name)) is not None:
        raise TorchRefusalError(f"it is not called, since it {danger}")
    namespace, packet, overload = [*op.schema.name.split("."), "default"][:3]
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except AttributeError as error:
        raise TorchRefusalError("this version of PyTorch does not have it") from error


def call(
    op: AtenOp, operands: Sequence[Any], device: torch.device | None = None
) -> Sequence[Any]:
    """
    The results of an op; on `device`, if given, where it makes a tensor.

    Raises TorchRefusalError if PyTorch raises anything, NeedsDataError if that is
    because tensors are without data.
    """
    function = function_of(op)
    given = dict(zip((a.name for a in op.schema.arguments), operands, strict=True))
    if device is not None and "device" in given:
        given["device"] = device
    try:
        with torch.no_grad():
            result = tree_map_only(torch.Tensor, resolved, function(**given))
    except Exception as error:  # Among others AssertionError, KeyError, MemoryError.
        cannot_tell = isinstance(error, NotImplementedError) or "meta" in str(error)
        needs_data = device == META and cannot_tell
        kind = NeedsDataError if needs_data else TorchRefusalError
        message = f"PyTorch does not take its operands: {first_line(error)}"
        raise kind(message) from error
    return [result] if len(op.results) == 1 else list(result)


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose elements are in memory as they are."""
    return tensor.resolve_conj().resolve_neg()


def without_data(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any] | None:
    """
    The results of an op, tensors without data; None if PyTorch needs data for them.

    Raises TorchRefusalError if PyTorch does not take the operands.
    """
    empty = tree_map_only(torch.Tensor, lambda x: x.to(META), list(operands))
    try:
        return call(op, empty, META)
    except NeedsDataError:
        return None


def bytes_of(values: Any) -> int:
    tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# --- programs that PyTorch did not make -----------------------------------------------


def why_invalid(op: AtenOp) -> str | None:
    """
    Why PyTorch makes no such op: its operands, or the declared types of its results.

    None if PyTorch makes it, or cannot tell without data and without unknown sizes.
    """
    try:
        function_of(op)
        return why_other_types(op, made_of(op, META))
    except (NotConstantError, NeedsDataError):
        return None
    except TorchRefusalError as error:
        return str(error)


def why_invalid_here(op: AtenOp) -> str | None:
    """
    The same for an op that could not be lowered, which may be padc's fault.

    Sizes that are known only at run time are tried out: the op is invalid if it is for
    each of `SIZES`. Tensors of zeros are, too: PyTorch checks some dtypes only then.
    """
    reasons = [why_invalid_at(op, size) for size in SIZES]
    return None if None in reasons else reasons[0]


def why_invalid_at(op: AtenOp, size: int) -> str | None:
    try:
        with contextlib.suppress(NeedsDataError):
            made = made_of(op, META, size)
            if bytes_of(made) > MOST_BYTES:
                return why_other_types(op, made)
        made = made_of(op, torch.device("cpu"), size)
    except NotConstantError:
        return None
    except TorchRefusalError as error:
        return str(error)
    return why_other_types(op, made)


def made_of(op: AtenOp, device: torch.device, size: int | None = None) -> Sequence[Any]:
    """
    What PyTorch makes of zeros on `device`, and of the other operands of an op.

    Dynamic sizes, and integers that are computed, are `size`, if that is given.
    Raises NotConstantError for other values that are known only at run time.
    """

    def value(x: SSAValue) -> Any:
        if isinstance(type := x.type, VTensorType):
            return zeros(type, device, size)
        if isinstance(x.owner, ListConstructOp):
            return [value(element) for element in x.owner.elements]
        if isinstance(x.owner, ConstantDeviceOp):
            return device
        if size is not None and isinstance(type, IntType) and not is_constant(x):
            return size
        return constant_value(x)

    return call(op, [value(x) for x in op.operands], device)


def is_constant(value: SSAValue) -> bool:
    try:
        constant_value(value)
    except NotConstantError:
        return False
    return True


def zeros(type: VTensorType, device: torch.device, size: int | None) -> torch.Tensor:
    """A tensor of a type; NotConstantError if its rank, dtype or sizes are unknown."""
    try:
        shape, dtype = type.get_shape(), torch_dtype(type.element_type)
    except (VerifyException, ValueError) as error:
        raise NotConstantError(first_line(error)) from error
    if size is not None:
        shape = [size if dim == DYNAMIC_INDEX else dim for dim in shape]
    if DYNAMIC_INDEX in shape:
        raise NotConstantError("a dynamic size")
    try:
        return torch.zeros(shape, dtype=dtype, device=device)
    except (
        RuntimeError
    ) as error:  # More elements than 64 bits count, or than memory has.
        raise NotConstantError(first_line(error)) from error


def why_other_types(op: AtenOp, made: Sequence[Any]) -> str | None:
    """Which result does not have the type that the program declares; None if all do."""
    for result, tensor in zip(op.results, made, strict=False):
        if isinstance(tensor, torch.Tensor) and not fits(result, tensor):
            dtype = str(tensor.dtype).removeprefix("torch.")
            sizes = ",".join(map(str, tensor.shape))
            return (
                f"the program declares {describe_type(result.type)}, and PyTorch makes "
                f"{dtype}[{sizes}]"
            )
    return None


def fits(value: SSAValue, tensor: torch.Tensor) -> bool:
    """Whether a value is declared with the type of `tensor`, where that is known."""
    try:
        if not isinstance(type := value.type, VTensorType):
            return True
        shape, dtype = type.get_shape(), torch_dtype(type.element_type)
    except (VerifyException, ValueError):
        return True
    return (
        dtype == tensor.dtype
        and len(shape) == tensor.dim()
        and all(
            declared in (DYNAMIC_INDEX, size)
            for declared, size in zip(shape, tensor.shape, strict=True)
        )
    )
