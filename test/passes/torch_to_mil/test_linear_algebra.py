# pyright: basic
"""Small matrices and distances in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from functions import Functions, Several, check_each
from torch import Tensor, linalg

import padc
from padc.errors import UnsupportedError

MATRICES: Functions = {
    "inv": lambda x: [linalg.inv(x), linalg.inv(x[0, :2, :2]), linalg.inv_ex(x)[0]],
    "inv of zeros on the diagonal": lambda x: linalg.inv(x * (1 - torch.eye(4))),
    "det": lambda x: [linalg.det(x), torch.det(x[0, :2, :2]), linalg.det(x[:, :1, :1])],
    "det of a singular one": lambda x: linalg.det(x * 0 + 1),
    "slogdet": lambda x: linalg.slogdet(x),
    "logdet": lambda x: torch.logdet(x),
    "solve": lambda x: [linalg.solve(x, x[..., :2]), linalg.solve(x[0], x)],
    "solve vectors": lambda x: linalg.solve(x, x[..., 0]),
    "solve from the right": lambda x: linalg.solve(x, x[:, :3], left=False),
    "solve_triangular": lambda x: linalg.solve_triangular(x, x[..., :2], upper=True),
    "solve_triangular from the right": lambda x: linalg.solve_triangular(
        x, x[:, :2], upper=False, left=False, unitriangular=True
    ),
    "cholesky": lambda x: [
        linalg.cholesky(x @ x.mT + torch.eye(4), upper=upper) for upper in (False, True)
    ],
    "cross": lambda x: linalg.cross(x[..., :3], x[..., 1:]),
    "cross of rows": lambda x: torch.cross(x[:, :3], x[:, 1:], dim=1),
    "matrix_power": lambda x: [torch.matrix_power(x, n) for n in (0, 1, 2, 3, 6, -3)],
}

LATE = torch.tensor([[0.0, 0, 1], [4, 0, 0], [-4, 3, 0]])
"""The pivot of each step is not the next row, and two of a column are equal."""


def lu_solved(x: Tensor) -> list[Tensor]:
    lu, pivots = linalg.lu_factor(x)
    return [
        linalg.lu_solve(lu, pivots, x[..., :2], adjoint=adjoint)
        for adjoint in (False, True)
    ] + [linalg.lu_solve(lu, pivots, x[:, :2], left=False)]


FACTORS: Functions = {
    "lu_factor": lambda x: linalg.lu_factor_ex(x),
    "lu_factor of wide and high ones": lambda x: [
        *linalg.lu_factor(x[:, :2]),
        *linalg.lu_factor(x[..., :2]),
    ],
    "lu": lambda x: [*linalg.lu(x), *linalg.lu(x[..., :2]), *linalg.lu(LATE + 0 * x)],
    "lu_unpack": lambda x: torch.lu_unpack(*linalg.lu_factor(x[:, :2])),
    "lu_solve": lu_solved,
    "info of lu": lambda x: linalg.lu_factor_ex(x * torch.tensor([1.0, 0, 1])).info,
    "inv_ex": lambda x: linalg.inv_ex(x),
    "info of inv": lambda x: linalg.inv_ex(x[:, :2, :2] * 0).info,
    "solve_ex": lambda x: linalg.solve_ex(x, x[..., :2]),
    "cholesky_ex": lambda x: linalg.cholesky_ex(x @ x.mT + torch.eye(3)),
    "info of cholesky": lambda x: (
        linalg.cholesky_ex(x @ x.mT + torch.tensor([1.0, -90, 1]).diag()).info
    ),
    "cholesky_solve": lambda x: [
        torch.cholesky_solve(x[..., :2], x, upper=upper) for upper in (False, True)
    ],
    "cholesky_inverse": lambda x: [
        torch.cholesky_inverse(x + 4 * torch.eye(3), upper=upper)
        for upper in (False, True)
    ],
    "triangular_solve": lambda x: [
        torch.triangular_solve(x[0, :, :2], x, *flags)[0]
        for flags in ((True,), (False, True), (True, True, True))
    ],
    "qr": lambda x: [
        *linalg.qr(x[..., :2], "complete"),
        *linalg.qr(x[..., :2]),
        *linalg.qr(x[:, :2]),
        *linalg.qr(LATE + 0 * x),
        *linalg.qr(x[..., :2] * 0),
    ],
    "geqrf": lambda x: [*torch.geqrf(x), *torch.geqrf(x[:, :2])],
    "householder_product": lambda x: [
        linalg.householder_product(x, x[:, 0]),
        linalg.householder_product(x, x[:, 0, :2]),
    ],
    "ormqr": lambda x: [
        torch.ormqr(x, x[:, 0], x, left, transpose)
        for left, transpose in ((False, True), (True, False), (True, True))
    ],
    "tensorinv": lambda x: linalg.tensorinv(x[0, :2, :2, None], 1),
}


def test_factors() -> None:
    x = matrices()[:2, :3, :3]

    program = padc.convert(Several(FACTORS), (x,), target="iOS15")

    check_each(FACTORS, program.run(x), x, rtol=1e-3, atol=1e-4)
    assert program.check() == []


DISTANCES: Functions = {
    "cdist": lambda x: [
        torch.cdist(x, x[:1], p) for p in (0.0, 1.0, 2.0, 3.0, math.inf)
    ],
    "cdist of many": lambda x: torch.cdist(x.reshape(-1, 2), x.reshape(-1, 2)[:29] + 1),
    "pdist": lambda x: [torch.pdist(x[0], p) for p in (1.0, 2.0, 3.0)],
    "pairwise_distance": lambda x: F.pairwise_distance(x, x[:1], p=3.0),
    "pairwise_distance kept": lambda x: F.pairwise_distance(x, x + 1, keepdim=True),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1, dim=1),
    "cosine_similarity along repeated rows": lambda x: F.cosine_similarity(
        x[:2, :1], x[1:2], dim=-2
    ),
    "cosine_similarity of zeros": lambda x: F.cosine_similarity(x[0] * 0, x, dim=-1),
}


def matrices() -> Tensor:
    return torch.randn(16, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("functions", [MATRICES, DISTANCES], ids=["matrices", "rows"])
def test_small_matrices(functions: Functions) -> None:
    x = matrices()

    program = padc.convert(Several(functions), (x,), target="iOS15")

    # The order of sums differs, which a matrix close to a singular one amplifies.
    check_each(functions, program.run(x), x, equal_nan=True, rtol=1e-4, atol=1e-4)
    assert program.check() == []


CONVOLUTIONS: Functions = {
    "conv_tbc": lambda x: torch.conv_tbc(x, x[:3, :, :2], x[0, 0, :2], 1),
    "_convolution": lambda x: torch.ops.aten._convolution.deprecated(
        x, x[:2, :, :3], None, [2], [1], [1], False, [0], 1, False, False, True
    ),
    "_convolution, transposed": lambda x: torch.ops.aten._convolution(
        x, x[:4, :, :3], None, [2], [1], [1], True, [0], 1, False, False, True, True
    ),
}


def test_other_names_of_convolutions() -> None:
    x = matrices()

    program = padc.convert(Several(CONVOLUTIONS), (x,))

    check_each(CONVOLUTIONS, program.run(x), x)


def test_factors_that_depend_on_memory_are_refused() -> None:
    functions = {"det": lambda x: torch.ops.aten._linalg_det(x)}

    with pytest.raises(UnsupportedError, match="depend on the order of memory"):
        padc.convert(Several(functions), (torch.eye(3),))


def test_large_matrices_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="a matrix of 9 rows"):
        padc.convert(Several({"inv": linalg.inv}), (torch.eye(9),))
