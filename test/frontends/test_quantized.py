# pyright: basic
"""Ops around quantized numbers, against PyTorch's kernels."""

import subprocess
import sys

import pytest
import torch
from functions import Several, check_each
from torch.export import export, save

from padc.testing import compile_for_coreml, compile_for_native

pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="has the kernels")

X = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
SCALES = torch.tensor([0.003, 0.02, 0.01, 0.05])
ZEROS = torch.tensor([0, 3, -5, 1])
INT8, UINT8 = (-128, 127, torch.int8), (0, 255, torch.uint8)
OPS = torch.ops.quantized_decomposed


def integers(x: torch.Tensor) -> torch.Tensor:
    return (x * 40).clamp(-100, 100).to(torch.int8)


FUNCTIONS = {
    "quantize": lambda x: OPS.quantize_per_tensor(x, 0.02, 3, *INT8),
    "quantize bytes": lambda x: OPS.quantize_per_tensor(x, 0.02, 128, *UINT8),
    "quantize by tensors": lambda x: OPS.quantize_per_tensor(
        x, SCALES[0], ZEROS[1], *INT8
    ),
    "quantize channels": lambda x: OPS.quantize_per_channel(x, SCALES, ZEROS, 1, *INT8),
    "dequantize": lambda x: OPS.dequantize_per_tensor(integers(x), 0.03, 5, *INT8),
    "dequantize by tensors": lambda x: OPS.dequantize_per_tensor(
        integers(x), SCALES[0], ZEROS[1], *INT8
    ),
    # These scales do not decide the type of the result.
    "quantize by float64": lambda x: OPS.quantize_per_tensor(
        x, SCALES[:1].double(), ZEROS[1:2], *INT8
    ),
    "dequantize by float64": lambda x: OPS.dequantize_per_tensor(
        integers(x), SCALES[:1].double(), ZEROS[1:2], *INT8
    ),
    "dequantize a number": lambda x: OPS.dequantize_per_tensor(
        integers(x[0, 0, 0]), SCALES[:1], ZEROS[1:2], *INT8
    ),
    "quantize the last dimension": lambda x: OPS.quantize_per_channel(
        x[..., :4].contiguous(), SCALES, ZEROS, -1, *INT8
    ),
    "dequantize channels": lambda x: OPS.dequantize_per_channel(
        integers(x), SCALES, ZEROS, 1, *INT8
    ),
    "dequantize around 0": lambda x: OPS.dequantize_per_channel(
        integers(x), SCALES, None, 1, *INT8
    ),
    # The differences wrap around.
    "dequantize by int8": lambda x: OPS.dequantize_per_channel(
        integers(x), SCALES, ZEROS.to(torch.int8) * 20, 1, *INT8
    ),
    "weight": lambda x: torch.conv1d(
        x,
        OPS.dequantize_per_channel(
            integers(X[:, :, :3]).contiguous(), SCALES[:2], None, 0, *INT8
        ),
    ),
}


FACTORIES = """
import torch


def rectified():
    return torch.nn.ReLU(), (torch.ones(3),)
"""
RUNS = """
import sys
import torch
from padc.tools.padc import main


def run(model, *options):
    try:
        main(["run", model, "--inputs", "random:0", *options])
    except SystemExit as exit:
        assert exit.code == 0, model


sys.modules["llvmlite"] = None
run("factories:rectified", "--backend", "reference")
assert "padc.backends.native" not in sys.modules
del sys.modules["llvmlite"]
assert not hasattr(torch.ops.quantized_decomposed, "dequantize_per_channel")
run("quantized.pt2")
"""


def test_saved_programs(tmp_path):
    """
    The ops are defined when a file is loaded, also in a new process.

    The reference, which runs in it before, needs no llvmlite.
    """
    weight = FUNCTIONS["weight"]
    save(export(Several({"weight": weight}), (X,)), tmp_path / "quantized.pt2")
    (tmp_path / "factories.py").write_text(FACTORIES)

    done = subprocess.run(
        [sys.executable, "-c", RUNS], cwd=tmp_path, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    rectified, quantized = done.stdout.splitlines()
    assert ": float32 (3,), " in rectified
    assert ": float32 (2, 2, 7), " in quantized


@pytest.mark.parametrize("path", [compile_for_coreml, compile_for_native])
def test_quantized_numbers(path):
    compiled = path(export(Several(FUNCTIONS), (X,)))

    check_each(FUNCTIONS, compiled(X), X)
