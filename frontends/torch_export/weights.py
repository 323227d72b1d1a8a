"""The tensors that a model holds, as weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram


def held_tensors(ep: ExportedProgram) -> Mapping[str, torch.Tensor]:
    """The parameters, buffers and constants of a program, by qualified name."""
    held = {**ep.constants, **ep.state_dict}
    return {k: v for k, v in held.items() if isinstance(v, torch.Tensor)}


def is_shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors may have elements at the same addresses."""
    if a.layout != torch.strided or b.layout != torch.strided or a.is_meta or b.is_meta:
        return False
    (first, first_end), (second, second_end) = span(a), span(b)
    return first < second_end and second < first_end


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses where a tensor begins and ends; equal if it has no elements."""
    begin = tensor.data_ptr()
    if not tensor.numel():
        return begin, begin
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    return begin, begin + (last + 1) * tensor.element_size()
