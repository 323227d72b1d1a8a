# pyright: reportUnknownMemberType=false
"""Tensors that a caller gives for the results: which fit, and how to fill them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from padc.backends.calls.parameters import Parameter, misfit
from padc.errors import UsageError


def check_outputs(
    outputs: Sequence[torch.Tensor],
    results: Sequence[Parameter],
    shapes: Sequence[Sequence[int]],
) -> None:
    """Raise UsageError unless each output is contiguous and fits its result."""
    if len(outputs) != len(results):
        raise UsageError(f"there are {len(results)} outputs, got {len(outputs)}")
    for i, (output, parameter, shape) in enumerate(
        zip(outputs, results, shapes, strict=True)
    ):
        if parameter.dynamic:
            parameter = Parameter("result", parameter.dtype, tuple(shape))
        if not parameter.fits(output):
            raise misfit(f"output {i}", parameter, output)
        if output.is_neg() or not output.is_contiguous():
            what = "a negated view" if output.is_neg() else "not contiguous"
            raise UsageError(f"output {i} is {what}", hint="give torch.empty(shape)")
        if output.requires_grad and torch.is_grad_enabled():
            raise UsageError(
                f"output {i} requires gradients, and results have none",
                hint="give output.detach(), or call it under torch.no_grad()",
            )


def write_results(
    results: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> None:
    """Copy `results` to `outputs`; UsageError where these do not fit."""
    expected = [
        Parameter("result", str(x.dtype).removeprefix("torch."), tuple(x.shape))
        for x in results
    ]
    check_outputs(outputs, expected, [x.shape for x in results])
    with torch.no_grad():
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result.to_dense())
