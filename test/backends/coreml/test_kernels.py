# pyright: basic
"""The kernels as numpy computes them, against PyTorch's."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from padc.backends.coreml.evaluator.values import kernels

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -3.5, 7.0], np.float32)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape)


def convolutions() -> Any:
    """Of each rank, with groups, strides, uneven padding and dilations."""
    for rank, groups, stride, dilation, pair in itertools.product(
        (1, 2, 3), (1, 2, 4), (1, 2), (1, 2), ((0, 0), (2, 1), (1, 1))
    ):
        x, weight = (
            floats(2, 4, *[6, 5, 7][:rank]),
            floats(8, 4 // groups, *[3, 2, 1][:rank]),
        )
        bias = floats(8) if stride == 2 else None
        strides, dilations = [stride, 1, 2][:rank], [1, dilation, 1][:rank]
        padding = [pair, (0, 0), (1, 0)][:rank]
        yield x, weight, bias, strides, padding, dilations, groups


def transposed() -> Any:
    for rank, groups, stride, dilation in itertools.product(
        (1, 2, 3), (1, 2, 4), (1, 3), (1, 2)
    ):
        x, weight = floats(2, 4, *[3, 5, 2][:rank]), floats(4, 3, *[2, 3, 1][:rank])
        yield x, weight, [1, stride, 2][:rank], [dilation, 1, 1][:rank], groups


def pools() -> Any:
    for rank, size, stride in itertools.product((1, 2, 3), (1, 3), (1, 2)):
        x = floats(2, 3, *[6, 5, 4][:rank])
        x[0, 0].flat[:2] = np.nan, np.inf
        yield x, [size, 2, 1][:rank], [stride, 1, 2][:rank]


def pairs() -> Any:
    """Two operands of every combination of special values, and broadcast ones."""
    yield SPECIAL[:, None], SPECIAL
    yield floats(3, 1, 4), floats(2, 4)
    yield floats(0, 4), floats(1)
    yield floats(1)[0:1].reshape(()), floats(2)


def integers() -> Any:
    yield ints(90, 5, 4).astype(np.int32) - 45, ints(6, 4).astype(np.int32) - 7


def singles() -> Any:
    yield from ((SPECIAL * scale,) for scale in (1, 0.1, 1e5))
    yield (floats(4, 3)[:, ::-1],)
    yield (np.broadcast_to(floats(3, 1), (3, 5)),)
    yield (floats(0, 3),)


def indexed() -> Any:
    for axis, rank in ((0, 1), (1, 2), (2, 3), (-2, 3)):
        sizes = [4, 3, 5][:rank]
        yield floats(*sizes), ints(sizes[axis], *sizes), axis


def scattered() -> Any:
    for axis, mode in itertools.product((0, 1, -1), ("add", "mul", "max", "min")):
        data, updates = floats(3, 4, 5), floats(3, 4, 5)
        yield data, ints(data.shape[axis], 3, 4, 5), updates, axis, mode
    order = np.argsort(floats(3, 4, 5), 1)
    yield floats(3, 4, 5), order, floats(3, 4, 5), 1, "update"


def sums() -> Any:
    for axes, keepdims in itertools.product(
        ([0], [0, 2], [-1, 1], [0, 1, 2]), (False, True)
    ):
        yield floats(3, 4, 5), axes, keepdims
        yield ints(9, 3, 4, 5).astype(np.int32), axes, keepdims


CASES: dict[str, Any] = {
    "average_pool": lambda: (case for case in pools()),
    "batch_norm": lambda: [
        (floats(2, 3, 4), floats(3), floats(3) ** 2, gamma, beta, 1e-5)
        for gamma, beta in itertools.product((None, floats(3)), (None, floats(3)))
    ],
    "_convolution": convolutions,
    "cumulative_sum": lambda: [
        *((floats(3, 4), axis) for axis in (0, 1, -1)),
        (ints(9, 3, 4).astype(np.int32), 0),
    ],
    "erf": singles,
    "floor_divide": lambda: [*pairs(), *integers()],
    "gather_along_axis": indexed,
    "_integer_product": lambda: [
        (ints(9, 2, 3, 4).astype(np.int32), ints(2**31, 4, 5).astype(np.int32))
    ],
    "leaky_relu": lambda: ((x, slope) for (x,) in singles() for slope in (0.1, -2.0, 3.0)),
    "max_pool": pools,
    "power": lambda: [
        *pairs(),
        *((SPECIAL, np.array(y, np.float32)) for y in (0.5, -0.5, 2, 3, -1, 0)),
        (np.array(-np.inf, np.float32), np.array(0.5, np.float32)),
    ],
    "remainder": lambda: [*pairs(), *integers()],
    "rounded_to_fp16": lambda: [
        *singles(),
        (np.array([65519, 65520, 1 + 2**-11, 2**-24, 2**-25, 3e-8], np.float32),),
    ],
    "scatter_along_axis": scattered,
    "sigmoid": singles,
    "softmax": lambda: [
        *((floats(3, 4, 5), axis) for axis in (0, 1, -1)),
        (floats(0, 4), 1),
        (np.array([[-np.inf, -np.inf], [np.inf, 0], [1e30, -1e30]], np.float32), -1),
    ],
    "total": sums,
    "_transposed_convolution": transposed,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_numpy_and_pytorch_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch):
    kernel, cases = getattr(kernels, name), list(CASES[name]())

    assert cases
    for case in cases:
        monkeypatch.setattr(kernels, "WORTH", np.inf)
        with np.errstate(all="ignore"):
            ours = kernel(*case)
        monkeypatch.setattr(kernels, "WORTH", -1)
        theirs = kernel(*case)

        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


def test_every_kernel_that_pytorch_computes_has_cases():
    decorated = {
        name for name, it in vars(kernels).items() if hasattr(it, "__wrapped__")
    }

    assert decorated - {"pytorch"} == CASES.keys()


def test_small_arrays_and_an_install_without_pytorch_use_numpy(
    monkeypatch: pytest.MonkeyPatch,
):
    x = floats(kernels.WORTH)
    monkeypatch.setattr(kernels, "pytorch", lambda: None)

    assert isinstance(kernels.sigmoid(x), np.ndarray)

    monkeypatch.setattr(kernels, "pytorch", lambda: 1 / 0)
    kernels.sigmoid(x[:-1])
    with pytest.raises(ZeroDivisionError):
        kernels.sigmoid(x)


def test_read_only_and_reversed_arrays_are_copied_for_pytorch():
    x = floats(1).repeat(kernels.WORTH)
    still = np.broadcast_to(x[:1], x.shape)

    expected = torch.sigmoid(torch.from_numpy(x)).numpy()

    np.testing.assert_array_equal(kernels.sigmoid(still), expected)
    np.testing.assert_array_equal(kernels.sigmoid(x[::-1]), expected)


@pytest.mark.parametrize(
    "arguments",
    [
        (floats(1, 3, 4), floats(2, 4, 3), None, [1], [(0, 0)], [1], 1),
        (floats(1, 4, 4), floats(3, 2, 3), None, [1], [(0, 0)], [1], 2),
        (floats(1, 4, 4), floats(2, 4, 3), floats(3), [1], [(0, 0)], [1], 1),
        (floats(1, 4, 4), floats(2, 4, 3), None, [0], [(0, 0)], [1], 1),
        (floats(1, 4, 4), floats(2, 4, 3), None, [1], [(0, 0)], [0], 1),
        (floats(1, 4, 4), floats(2, 4, 5), None, [1], [(0, 0)], [1], 1),
        (floats(1, 4, 4), floats(2, 4, 0), None, [1], [(0, 0)], [1], 1),
        (floats(1, 4, 4), floats(2, 4, 3), None, [1], [(0, 0)], [1], 0),
    ],
)
def test_convolutions_that_do_not_fit_are_refused(arguments: Any):
    with pytest.raises(ValueError):
        kernels.convolution(*arguments)
