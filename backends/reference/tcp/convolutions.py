"""
Convolutions: for each kernel position, a product over the input features.

Sizes and counts are not the formulas of `padc.ir.padding`: independent on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.backends.reference.tcp.windows import wide, windows
from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import ConvDimsAttr


def conv(
    x: torch.Tensor,
    kernel: torch.Tensor,
    bias: torch.Tensor | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    dims: ConvDimsAttr,
) -> torch.Tensor:
    """`tcp.conv`: the product of each window and the kernel."""
    spatial = range(dims.spatial_rank)
    x_wide = in_groups(ordered(wide(x), dims.input, ("b", "f", *spatial)), 1, groups)
    kernel = in_groups(
        ordered(wide(kernel), dims.kernel, ("o", "i", *spatial)), 0, groups
    )
    products = [
        torch.einsum("bgi...,goi->bgo...", taps, kernel[(..., *offsets)])
        for offsets, taps in windows(
            x_wide, range(3, 3 + len(spatial)), kernel.shape[3:], strides, dilations
        )
    ]
    return finished(torch.stack(products).sum(0), bias, dims, x.dtype)


def conv_transpose(
    x: torch.Tensor,
    kernel: torch.Tensor,
    bias: torch.Tensor | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    dims: ConvDimsAttr,
    expansions: Sequence[Amounts],
) -> torch.Tensor:
    """
    `tcp.conv_transpose`: each element's product with the kernel, added to the result.

    Raises ValueError if the expansions crop more than there is.
    """
    spatial = range(dims.spatial_rank)
    x_wide = in_groups(ordered(wide(x), dims.input, ("b", "f", *spatial)), 1, groups)
    kernel = in_groups(
        ordered(wide(kernel), dims.kernel, ("i", "o", *spatial)), 0, groups
    )
    sizes = [
        (size - 1) * stride + (taps - 1) * dilation + 1
        for size, taps, stride, dilation in zip(
            x_wide.shape[3:], kernel.shape[3:], strides, dilations, strict=True
        )
    ]
    batch, outputs = x_wide.shape[0], kernel.shape[2]
    total = torch.zeros([batch, groups, outputs, *sizes], dtype=x_wide.dtype)
    for offsets in itertools.product(*map(range, kernel.shape[3:])):
        targets = [
            slice(first := offset * dilation, first + (size - 1) * stride + 1, stride)
            for offset, dilation, size, stride in zip(
                offsets, dilations, x_wide.shape[3:], strides, strict=True
            )
        ]
        total[(..., *targets)] += torch.einsum(
            "bgi...,gio->bgo...", x_wide, kernel[(..., *offsets)]
        )
    for dim, amount in enumerate(expansions, 3):
        total = expanded(total, dim, amount)
    return finished(total, bias, dims, x.dtype)


def ordered(
    x: torch.Tensor, roles: Sequence[str | int], order: Sequence[str | int]
) -> torch.Tensor:
    """Permute `x` from `roles` to `order`; a missing `b` becomes a size of 1."""
    if "b" not in roles and "b" in order:
        x, roles = x.unsqueeze(0), ("b", *roles)
    return x.permute([roles.index(role) for role in order])


def in_groups(x: torch.Tensor, dim: int, groups: int) -> torch.Tensor:
    """Split dimension `dim` into groups and the elements of a group."""
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    return x.reshape(*before, groups, x.shape[dim] // groups, *after)


def expanded(x: torch.Tensor, dim: int, amount: Amounts) -> torch.Tensor:
    """`x` with dimension `dim` padded with zeros, or cropped."""
    size = x.shape[dim]
    new_size = size + amount.lower + amount.upper
    if new_size < 0:
        raise ValueError(
            f"expanding {size} elements by {amount.lower} and {amount.upper} crops "
            "more than there is"
        )
    shape = [*x.shape[:dim], new_size, *x.shape[dim + 1 :]]
    result = torch.zeros(shape, dtype=x.dtype)
    # Element t goes to t + lower, which must be from 0 to new_size - 1.
    first, last = max(0, -amount.lower), min(size, new_size - amount.lower)
    if first < last:
        part = x.narrow(dim, first, last - first)
        result.narrow(dim, first + amount.lower, last - first).copy_(part)
    return result


def finished(
    y: torch.Tensor,
    bias: torch.Tensor | None,
    dims: ConvDimsAttr,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The result, from `y`, `[batch, groups, features, *spatial]`, and the bias."""
    y = y.flatten(1, 2)
    if bias is not None:
        y = y + wide(bias).reshape(-1, *[1] * dims.spatial_rank)
    roles = ("b", "f", *range(dims.spatial_rank))
    if "b" not in dims.result:
        y, roles = y.squeeze(0), roles[1:]
    return y.to(dtype).permute([roles.index(role) for role in dims.result])


@evaluates(tcp.ConvOp)
def evaluate_conv(op: tcp.ConvOp, args: Sequence[Value]) -> Sequence[Value]:
    return [conv(*_operands(args), *_window(op))]


@evaluates(tcp.ConvTransposeOp)
def evaluate_conv_transpose(
    op: tcp.ConvTransposeOp, args: Sequence[Value]
) -> Sequence[Value]:
    return [conv_transpose(*_operands(args), *_window(op), op.expansions)]


def _operands(
    args: Sequence[Value],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Input, kernel and bias."""
    x, kernel, *bias = args
    return x, kernel, bias[0] if bias else None


def _window(
    op: tcp.ConvolutionOp,
) -> tuple[Sequence[int], Sequence[int], int, ConvDimsAttr]:
    """Strides, dilations, groups and dims."""
    return (
        op.strides.get_values(),
        op.dilations.get_values(),
        op.groups.value.data,
        op.dims,
    )
