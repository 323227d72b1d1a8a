# pyright: basic
"""Fractional max pools by numbers that are inputs: PyTorch's windows on both paths."""

import torch
import torch.nn.functional as F
from functions import Functions, Several, check_each
from torch import Tensor

import padc
from padc.frontends.torch_export.fractional_pools import pool_2d, pool_3d

GENERATOR = torch.Generator().manual_seed(0)
BELOW_1 = 1 - 2**-24


def random(*shape: int) -> Tensor:
    return torch.rand(shape, generator=GENERATOR)


def integers(low: int, high: int, count: int) -> list[int]:
    return torch.randint(low, high, (count,), generator=GENERATOR).tolist()


def test_windows_are_those_of_the_kernel() -> None:
    for dims, rule in ((2, pool_2d), (3, pool_3d)):
        op: torch._ops.OpOverload = getattr(
            torch.ops.aten, f"fractional_max_pool{dims}d"
        ).default
        for samples in (random(2, 3, dims), random(2, 3, dims) * 0, None):
            for _ in range(12):
                if samples is None:
                    samples = torch.full((2, 3, dims), BELOW_1)
                kernel, more = integers(1, 4, dims), integers(1, 9, dims)
                sizes = [k + m for k, m in zip(kernel, more)]
                counts = [int(n) + 1 for n in (random(dims) * torch.tensor(more))]
                x = random(2, 3, *sizes).mul(9).round()  # Some elements are equal.

                expected = op(x, kernel, counts, samples)

                for own, other in zip(rule(x, kernel, counts, samples), expected):
                    assert torch.equal(own, other), (kernel, sizes, counts, samples)


POOLS: Functions = {
    "2d": lambda x, s: F.fractional_max_pool2d(
        x[:, :, 0], (2, 3), (4, 3), _random_samples=s[..., :2], return_indices=True
    ),
    "one window": lambda x, s: F.fractional_max_pool2d(
        x[:, :, 0], 2, 1, _random_samples=s[..., :2]
    ),
    "3d": lambda x, s: F.fractional_max_pool3d(
        x, (2, 1, 3), (3, 4, 2), _random_samples=s, return_indices=True
    ),
}


def test_pools_in_core_ml_and_machine_code() -> None:
    x, samples = random(2, 3, 5, 7, 8), random(2, 3, 3)
    model = Several(POOLS).eval()

    program = padc.convert(model, (x, samples))
    compiled = padc.compile(model, (x, samples))

    assert not program.check()
    assert compiled.is_native
    for numbers in (samples, torch.full((2, 3, 3), BELOW_1)):
        for results in (program.run(x, numbers), compiled(x, numbers)):
            check_each(POOLS, results, x, numbers, rtol=0, atol=0, check_dtype=False)
