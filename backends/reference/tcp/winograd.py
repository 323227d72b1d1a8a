"""Winograd's convolutions, by the equation that defines them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.backends.reference.tcp.windows import wide
from padc.ir import tcp
from padc.ir.winograd import Matrix, winograd


@evaluates(tcp.WinogradConvOp)
def evaluate_winograd_conv(
    op: tcp.WinogradConvOp, args: Sequence[Value]
) -> Sequence[Value]:
    """All tiles of the image at once, with zeros until tiles of one size cover it."""
    x, filters, init = args
    size, (_, _, rows, columns, _) = op.tile.value.data, init.shape
    transforms = winograd(size)
    batch, channels, height, width, lanes = x.shape
    shape = batch, channels, height + -rows % size, width + -columns % size, lanes
    whole = torch.zeros(shape, dtype=torch.float64)
    whole[:, :, :height, :width] = wide(x)
    tiles = whole.unfold(2, transforms.inputs, size).unfold(3, transforms.inputs, size)
    to, back = matrix(transforms.input), matrix(transforms.output)
    inputs = torch.einsum("iy,jx,nctulyx->ijnctul", to, to, tiles)
    products = torch.einsum("ijkclm,ijnctul->ijnktum", wide(filters), inputs)
    results = torch.einsum("yi,xj,ijnktum->nktyuxm", back, back, products)
    sums = results.flatten(4, 5).flatten(2, 3)[:, :, :rows, :columns]
    return [(wide(init) + sums).to(init.dtype)]


def matrix(rows: Matrix) -> torch.Tensor:
    return torch.tensor([[float(x) for x in row] for row in rows], dtype=torch.float64)
