# pyright: basic
"""The mapping of ONNX nodes, and that the harness reports a wrong one."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

X = torch.arange(1, 1 * 2 * 6 * 7 + 1).float().reshape(1, 2, 6, 7).sin() * 8
W = torch.arange(1, 3 * 2 * 3 * 2 + 1).float().reshape(3, 2, 3, 2).cos()
STRIDED = {"strides": [2, 2]}

# An op, what it says, its inputs, and what PyTorch makes of them.
CASES: dict[str, tuple[str, dict[str, Any], list[Tensor], Tensor]] = {
    "same_upper": (
        "Conv",
        {"auto_pad": "SAME_UPPER", **STRIDED},
        [X, W],
        F.conv2d(F.pad(X, (0, 1, 0, 1)), W, stride=2),
    ),
    "same_lower": (
        "Conv",
        {"auto_pad": "SAME_LOWER", **STRIDED},
        [X, W],
        F.conv2d(F.pad(X, (1, 0, 1, 0)), W, stride=2),
    ),
    "conv_transpose_amounts": (
        "ConvTranspose",
        {"pads": [1, 1, 1, 1], "output_padding": [1, 0], **STRIDED},
        [X, W.transpose(0, 1).contiguous()],
        F.conv_transpose2d(
            X, W.transpose(0, 1), stride=2, padding=1, output_padding=(1, 0)
        ),
    ),
    "onnx_conv_transpose_amounts": (
        "ConvTranspose",
        {"auto_pad": "SAME_LOWER", **STRIDED},
        [X, W.transpose(0, 1).contiguous()],
        F.conv_transpose2d(X, W.transpose(0, 1), stride=2)[..., 1:, :],
    ),
    "pool_amounts": (
        "AveragePool",
        {"kernel_shape": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1], **STRIDED},
        [X],
        F.avg_pool2d(X, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    ),
}


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("onnx_nodes")


def outcome(harness: Any, name: str) -> str:
    op_type, attributes, inputs, expected = CASES[name]
    arrays = [x.numpy() for x in inputs]
    case = harness.Case(name, op_type, attributes, arrays, [expected.numpy()])
    return harness.outcome(case)[0]


@pytest.mark.parametrize("name", CASES)
def test_mapping(harness: Any, name: str):
    assert outcome(harness, name) == "passed"


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_amount_fails(harness: Any, monkeypatch: pytest.MonkeyPatch, name: str):
    from padc.ir import padding

    right: Callable[..., padding.Amounts] = getattr(padding, name)

    def wrong(*args: Any) -> padding.Amounts:
        amounts = right(*args)
        return padding.Amounts(amounts.lower + 1, amounts.upper - 1, amounts.interior)

    monkeypatch.setattr(padding, name, wrong)

    assert outcome(harness, name) == "failed"


def test_what_tcp_has_not_is_not_mapped(harness: Any):
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    sizes = np.array([1, 2, 3, 3])
    case = harness.Case("", "Resize", attributes, [X.numpy(), None, None, sizes], [])

    assert harness.outcome(case) == ("not mapped", "tf_crop_and_resize coordinates")
