# pyright: basic, reportMissingTypeStubs=false
"""Small packages that together have most features of packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import torch
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import types
from torch import nn
from torch.nn import functional as F

import padc

ct: Any = coremltools
mb: Any = Builder


def save(path: Path, specs: list[Any], build: Callable[..., Any]) -> Path:
    """Save a program of iOS18 as it is built."""
    program = mb.program(input_specs=specs, opset_version=ct.target.iOS18)(build)
    ct.convert(
        program,
        source="milinternal",
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT32,
        pass_pipeline=ct.PassPipeline.EMPTY,
        skip_model_load=True,
    ).save(str(path))
    return path


def spec(*shape: Any, dtype: Any = types.fp32) -> Any:
    return mb.TensorSpec(shape=shape, dtype=dtype)


def network(path: Path) -> Path:
    """What padc makes of layers."""
    model = nn.Sequential(
        nn.ReflectionPad2d(1),
        nn.Conv2d(2, 4, 3, padding="same"),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(36, 5),
        nn.Softmax(1),
    ).eval()
    padc.convert(model, (torch.ones(1, 2, 4, 4),)).save(path)
    return path


def structures(path: Path) -> Path:
    """What padc does not make: blocks, a list, a state and compressed weights."""
    rng = np.random.default_rng(0)

    def build(total: Any, x: Any) -> Any:
        table = rng.random((1, 1, 4, 1)).astype(np.float16)
        looked_up = mb.constexpr_lut_to_dense(
            indices=rng.integers(0, 4, (8, 8)).astype(types.np_uint2_dtype), lut=table
        )
        scaled = mb.constexpr_blockwise_shift_scale(
            data=rng.integers(-8, 8, (8, 8)).astype(np.int8),
            scale=rng.random((8, 2)).astype(np.float16),
            offset=np.ones((8, 2), np.int8),
        )
        mask = rng.integers(0, 2, (8, 8)).astype(np.uint8)
        sparse = mb.constexpr_sparse_to_dense(
            nonzero_data=rng.random(int(mask.sum())).astype(np.float16),
            mask=mask.astype(types.np_uint1_dtype),
        )

        def body(i: Any, ls: Any) -> Any:
            row = mb.gather(x=looked_up, indices=mb.mod(x=i, y=8), axis=0)
            return mb.add(x=i, y=1), mb.list_write(ls=ls, index=i, value=row)

        ls = mb.make_list(init_length=1, elem_shape=(8,), dtype="fp16")
        _, ls = mb.while_loop(
            _cond=lambda i, _: mb.less(x=i, y=3), _body=body, loop_vars=(0, ls)
        )
        rows = mb.list_gather(ls=ls, indices=[2, 0, 1])
        h, c = mb.fill(shape=(1, 2), value=np.float16(0)), np.zeros((1, 2), np.float16)
        steps, _, _ = mb.lstm(
            x=mb.expand_dims(x=rows, axes=[1]),
            initial_h=h,
            initial_c=c,
            weight_ih=rng.random((8, 8)).astype(np.float16),
            weight_hh=rng.random((8, 2)).astype(np.float16),
            output_sequence=True,
        )
        x = mb.matmul(x=x, y=mb.add(x=scaled, y=sparse))
        x = mb.concat(values=[mb.tile(x=x, reps=[1, 2]), mb.squeeze(x=steps)], axis=1)
        x = mb.pad(x=x, pad=[0, 0, 1, 1], mode="constant", constant_val=np.float16(0))
        x = mb.cond(
            pred=mb.greater(x=mb.reduce_max(x=x), y=np.float16(1)),
            _true_fn=lambda: mb.slice_by_index(x=x, begin=[0, 0], end=[3, 8]),
            _false_fn=lambda: mb.slice_by_size(x=x, begin=[0, 1], size=[3, 8]),
        )
        return mb.coreml_update_state(state=total, value=x, name="y")

    state = mb.StateTensorSpec((3, 8), dtype=types.fp16)
    return save(path, [state, spec(3, 8, dtype=types.fp16)], build)


class Layers(nn.Module):
    """A model of one function, with a buffer that is a state where it changes it."""

    def __init__(self, function: Callable[..., Any], changes: bool = False):
        super().__init__()
        self.function, self.changes = function, changes
        self.register_buffer("total", torch.zeros(2, 3, dtype=torch.float16))

    def forward(self, *inputs: torch.Tensor) -> Any:
        result = self.function(*inputs)
        if self.changes:
            self.get_buffer("total").add_(1)
        return result


def converted(
    function: Callable[..., Any], *inputs: torch.Tensor, **options: Any
) -> Callable[[Path], Path]:
    """What writes a function as a package."""

    def make(path: Path) -> Path:
        changes = options.pop("changes", False)
        padc.convert(Layers(function, changes).eval(), inputs, **options).save(path)
        return path

    return make


def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    y = F.grid_sample(
        x, grid, mode="bilinear", padding_mode="zeros", align_corners=True
    )
    y = F.interpolate(y, size=(6, 5), mode="bilinear", align_corners=False)
    return F.conv_transpose2d(y, torch.ones(2, 1, 2, 2), stride=2, output_padding=1)


def indexed(x: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, order = torch.topk(x, 2, dim=1)
    y = torch.gather(x, 1, indices).scatter(1, indices, 1.0)
    return values, order, torch.cumsum(y, 1), x[:, indices[0]], torch.sort(x, 1)[0]


def reduced(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.einsum("bij,bkj->bik", x, x)
    z = F.layer_norm(y, (3,)).softmax(2).flip(1)
    w = torch.where(z > 0.3, z.exp(), z.erf()).clamp(0, 2).mean((1, 2))
    return torch.cat([y, z], 1).unfold(1, 2, 1), x.argmax(2), w, x.int() // 3


def resized(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = F.avg_pool1d(F.pad(x, (1, 2), mode="reflect"), 3, stride=1)
    return y.reshape(-1, 2), x[:, :, 1:-1].expand(2, 2, -1), x.squeeze(0).flip(1)


def packages() -> dict[str, Callable[[Path], Path]]:
    """The packages, by a name, each as a function that writes it."""
    torch.manual_seed(0)  # Cases have the same weights in every run.
    length = torch.export.Dim("length", min=4, max=32)
    x = torch.arange(12.0).reshape(1, 3, 4)
    grid = torch.zeros(1, 3, 3, 2)
    lstm = nn.LSTM(3, 2, batch_first=True, bidirectional=True)
    return {
        "network": network,
        "structures": structures,
        "sampled": converted(sampled, torch.ones(1, 2, 4, 4), grid, target="iOS16"),
        "indexed": converted(indexed, x[0], torch.tensor([[0, 2], [1, 1], [3, 0]])),
        "reduced": converted(reduced, x, precision="float16", changes=True),
        "resized": converted(resized, x[:, :2], dynamic_shapes=(({2: length},),)),
        "lstm": converted(lambda x: lstm(x)[0], x.mT, target="iOS15"),
        "attention": converted(F.scaled_dot_product_attention, x, x, x),
    }
