# pyright: basic, reportMissingTypeStubs=false
"""Ops of float16 programs that the user keeps in float32."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import ExportedProgram

import padc
from padc.backends.coreml.blocks import modules


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.conv(self.norm(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.flow = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor, identity: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        flow = self.flow(x).permute(0, 2, 3, 1)
        return F.grid_sample(x, identity + 0.1 * flow, align_corners=False).softmax(1)


@pytest.fixture(scope="module")
def exported() -> ExportedProgram:
    torch.manual_seed(0)
    inputs = torch.randn(1, 4, 6, 6), torch.rand(1, 6, 6, 2)
    return torch.export.export(Model().eval(), inputs)


def in_float32(exported: ExportedProgram, names: Sequence[Any]) -> set[tuple[str, str]]:
    """The type, and the module, of the ops that compute in float32."""
    program = padc.convert(exported, precision="float16", keep_float32=names)
    found = set[tuple[str, str]]()
    for op in program._pymil.functions["main"].operations:
        if op.op_type not in ("const", "cast"):
            if op.outputs[0].is_tensor_or_scalar_of(dtype="fp32"):
                found.add((op.op_type, "".join(modules(op)[-1:])))
    return found


def kept(exported: ExportedProgram, names: Sequence[Any]) -> set[tuple[str, str]]:
    """The same of those that compute in float32 because of names."""
    return in_float32(exported, names) - in_float32(exported, ())


def test_kinds(exported: ExportedProgram):
    assert kept(exported, ["softmax"]) == {("softmax", "")}
    assert kept(exported, ["convolutions"]) == {
        ("conv", "blocks.0.conv"),
        ("conv", "blocks.1.conv"),
        ("conv", "flow"),
    }
    norms = kept(exported, ["norms"])
    assert {path for _, path in norms} == {"blocks.0.norm", "blocks.1.norm"}


def test_modules(exported: ExportedProgram):
    assert kept(exported, ["flow"]) == {("conv", "flow")}
    first = kept(exported, ["blocks.0"])
    assert {path for _, path in first} == {"blocks.0", "blocks.0.conv", "blocks.0.norm"}
    assert {path for _, path in kept(exported, ["blocks.*.conv"])} == {
        "blocks.0.conv",
        "blocks.1.conv",
    }


def test_coordinates_are_in_float32_without_being_named(exported: ExportedProgram):
    """The ops that compute the grid; the network and the image are in float16."""
    types = {type for type, path in in_float32(exported, ())}

    assert {"add", "mul", "transpose", "resample"} <= types
    assert not types & {"conv", "softmax", "gelu", "pad"}
    assert not kept(exported, ["coordinates"])


class Warp(nn.Module):
    """A flow of pixels on a wide image, whose coordinates float16 does not have."""

    def forward(self, image: Tensor, flow: Tensor) -> Tensor:
        positions = torch.arange(600.0).expand(4, 600) + flow
        rows = torch.arange(4.0)[:, None].expand(4, 600)
        grid = torch.stack([positions / 299.5 - 1, rows / 1.5 - 1], -1)
        return F.grid_sample(image, grid[None], align_corners=True)


def test_a_warp_is_exact():
    torch.manual_seed(0)
    inputs = torch.rand(1, 1, 4, 600), torch.rand(4, 600)
    program = padc.convert(Warp(), inputs, precision="float16")

    (comparison,) = program.verify()

    assert comparison.relative_error < 2e-3


class Camera(nn.Module):
    """An image warped by the pose of a camera, whose products are no network's."""

    def forward(self, image: Tensor, points: Tensor, pose: Tensor) -> Tensor:
        xyw = (points @ pose.mT).reshape(1, 4, 600, 3)
        return F.grid_sample(image, xyw[..., :2] / xyw[..., 2:], align_corners=True)


def test_products_with_poses_are_exact():
    torch.manual_seed(0)
    pixels = torch.cartesian_prod(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 600))
    points = torch.cat([pixels.flip(-1), torch.ones(2400, 1)], -1) * 3
    pose = torch.eye(3) + 0.01 * torch.randn(3, 3)
    inputs = torch.rand(1, 1, 4, 600), points, pose
    program = padc.convert(Camera(), inputs, precision="float16")

    (comparison,) = program.verify()

    assert comparison.relative_error < 2e-3


def test_functions(exported: ExportedProgram):
    assert kept(exported, [lambda op: op.op_type == "gelu"]) == {
        ("gelu", "blocks.0"),
        ("gelu", "blocks.1"),
    }


def test_programs_that_keep_ops_are_right(exported: ExportedProgram):
    names = ["coordinates", "softmax", "blocks.0"]
    padc.convert(exported, precision="float16", keep_float32=names, verify=True)


def test_names_that_do_not_fit(exported: ExportedProgram):
    with pytest.raises(padc.UsageError, match="no op is of 'block'") as caught:
        padc.convert(exported, precision="float16", keep_float32=["norms", "block"])
    assert caught.value.hint is not None
    assert "the modules blocks, flow" in caught.value.hint
    with pytest.raises(padc.UsageError, match='precision is "float32"'):
        padc.convert(exported, keep_float32=["norms"])
    with pytest.raises(padc.UsageError, match="keep_float32 is a string"):
        padc.convert(exported, precision="float16", keep_float32="norms")
    with pytest.raises(padc.UsageError, match="neither a name nor a function"):
        padc.convert(exported, precision="float16", keep_float32=[3])  # pyright: ignore


def test_kinds_that_a_program_does_not_have():
    program = padc.convert(
        nn.ReLU(), (torch.ones(2),), precision="float16", keep_float32=["norms"]
    )

    assert program.operation_count == 3
