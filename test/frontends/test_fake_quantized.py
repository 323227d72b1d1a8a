# pyright: basic
"""Fake quantization, as Core ML's ops and as machine code, against PyTorch's kernels."""

from __future__ import annotations

import math

import pytest
import torch
from functions import Functions, Several, check_each
from torch.export import export

from padc.testing import compile_for_coreml, compile_for_native

aten = torch.ops.aten
SCALES = torch.tensor([0.003, 0.02, 0.01, 0.05])
ZEROS = torch.tensor([0, 3, -5, 100], dtype=torch.int32)
INT8, UINT8 = (-128, 127), (0, 255)
ONE, NONE = torch.ones(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)

FUNCTIONS: Functions = {
    "one scale": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, *UINT8),
    "ties": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, -7, *INT8),
    "one scale and its mask": lambda x: torch.cat(
        [
            part.float()
            for part in aten.fake_quantize_per_tensor_affine_cachemask(
                x, 0.0237, 100, *INT8
            )
        ]
    ),
    "a scale in a tensor": lambda x: torch.fake_quantize_per_tensor_affine(
        x, SCALES[:1], ZEROS[1:2], *INT8
    ),
    "enabled": lambda x: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        x, SCALES[0], ZEROS[1], ONE, *INT8
    )[0],
    "not enabled": lambda x: (
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, SCALES[0], ZEROS[1], NONE, *INT8
        )[0]
    ),
    "channels": lambda x: torch.fake_quantize_per_channel_affine(
        x, SCALES, ZEROS, 1, *INT8
    ),
    "channels and their mask": lambda x: torch.cat(
        [
            part.float()
            for part in aten.fake_quantize_per_channel_affine_cachemask(
                x, SCALES, ZEROS, 1, *INT8
            )
        ]
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_both_paths(dtype: torch.dtype) -> None:
    x = torch.randn(2, 4, 33, generator=torch.Generator().manual_seed(0)) * 20
    x[0, :, :20] = (torch.arange(20) - 9) / 4  # ties where the scale is 0.5
    x[1, :, 0] = math.nan
    x = x.to(dtype)
    model = Several(FUNCTIONS)
    exported = export(model, (x,))

    for compiled in compile_for_coreml(exported), compile_for_native(exported):
        check_each(FUNCTIONS, compiled(x), x, rtol=0, atol=0, equal_nan=True)


def test_infinities_of_one_scale_are_clamped() -> None:
    x = torch.tensor([math.inf, -math.inf, 1e30, -1e30])
    model = Several({"one scale": FUNCTIONS["one scale"]})
    exported = export(model, (x,))

    for compiled in compile_for_coreml(exported), compile_for_native(exported):
        # PyTorch 2.8 converts infinities to any integers.
        check_each(model.functions, compiled(x), x.clamp(-1e4, 1e4), rtol=0, atol=0)
