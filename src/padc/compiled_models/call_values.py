# pyright: reportUnknownMemberType=false
"""Arguments and outputs of a call: arrays as tensors of the same memory, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch

from padc.backends.calls.parameters import data_pointer
from padc.errors import UsageError
from padc.ir.weights import Array


def are_arrays(leaves: Sequence[Any]) -> bool:
    """Whether these arguments have arrays and no tensors."""
    given: list[Any] = [x for x in leaves if isinstance(x, np.ndarray | torch.Tensor)]
    return bool(given) and all(isinstance(x, np.ndarray) for x in given)


def as_tensor(what: str, array: Array) -> torch.Tensor:
    """An array as a tensor, without a copy where PyTorch can share its memory."""
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{what} is an array of dtype {array.dtype} and strides {array.strides}",
            hint="give one that torch.from_numpy takes",
        ) from error


def as_targets(outputs: Any) -> list[torch.Tensor]:
    """Outputs that a caller gives, as tensors of the same memory."""
    if not isinstance(outputs, Sequence):
        raise UsageError(
            f"the outputs are of type {type(outputs).__name__}",
            hint="give a list of tensors",
        )
    return [as_target(i, output) for i, output in enumerate(cast(Any, outputs))]


def as_target(number: int, output: Any) -> torch.Tensor:
    """One output that a caller gives, as a tensor of the same memory."""
    if isinstance(output, torch.Tensor) and output.layout is torch.strided:
        return output
    what = f"output {number}"
    if isinstance(output, torch.Tensor):
        raise UsageError(f"{what} is {output.layout}", hint="give torch.empty(shape)")
    if not isinstance(output, np.ndarray):
        raise UsageError(
            f"{what} is of type {type(output).__name__}",
            hint="give a torch.Tensor or a numpy array",
        )
    array = cast(Array, output)
    if not array.flags.writeable or not array.flags.c_contiguous:
        raise UsageError(
            f"{what} is not writable, or not contiguous", hint="give numpy.empty(shape)"
        )
    return as_tensor(what, array)


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor as an array, of the same memory if numpy has its dtype and layout."""
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return tensor.resolve_conj().resolve_neg().numpy()


def describe(value: Any) -> str:
    """The value itself for numbers, strings and None; the type for others."""
    plain = isinstance(value, int | float | str | None)
    return repr(value) if plain else type(value).__name__


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses where a tensor begins and ends; (0, 0) without storage."""
    if not (begin := data_pointer(tensor)):
        return 0, 0
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return begin, begin + (last + 1) * tensor.element_size()


def check_apart(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> None:
    """Raise UsageError where an output overlaps an input or another output."""
    taken = [("input", i, *span(x)) for i, x in enumerate(inputs)]
    for i, output in enumerate(outputs):
        begin, end = span(output)
        for kind, number, other_begin, other_end in taken:
            if begin < other_end and other_begin < end:
                raise UsageError(f"output {i} shares memory with {kind} {number}")
        taken.append(("output", i, begin, end))


def check_names(given: Mapping[str, Any], expected: Sequence[str]) -> None:
    """Raise UsageError unless the names given are those expected."""
    missing = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        what = f"missing: {', '.join(missing)}" if missing else ""
        extra = f"unknown: {', '.join(unknown)}" if unknown else ""
        raise UsageError(
            f"inputs {'; '.join(filter(None, [what, extra]))}",
            hint=f"the model's inputs are {', '.join(expected) or 'none'}",
        )
