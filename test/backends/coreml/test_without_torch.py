# pyright: basic
"""Packages are run and checked with numpy and protobuf alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import padc

WITHOUT = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "coremltools", "llvmlite", "xdsl"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refused())
"""

API = """
import numpy as np
import padc
assert padc.coreml.check("m.mlpackage") == []
outputs = padc.coreml.load("m.mlpackage").predict({"input": np.load("x.npy")})
np.savez("api.npz", **outputs)
"""

COMMANDS = """
from padc.tools.padc import main

def run(*arguments):
    try:
        main(arguments)
    except SystemExit as exit:
        assert not exit.code, (arguments, exit.code)

run("--version")
run("same", "--size", "5", "--kernel", "3")
run("check", "m.mlpackage")
run("run", "m.mlpackage", "--inputs", "x.npz", "--save-outputs", "cli.npz")
"""


class Network(nn.Module):
    """Convolutions, pools, norms and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, padding_mode="circular"),
            nn.BatchNorm2d(8),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(8, 4, 3, 2, groups=2),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            nn.Flatten(2),
            nn.LayerNorm(16),
        )
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x = self.layers(input)
        return torch.softmax(self.attention(x, x, x)[0], -1)


def test_packages_need_numpy_and_protobuf_only(tmp_path: Path):
    torch.manual_seed(0)
    model, x = Network().eval(), torch.randn(1, 3, 14, 14)
    padc.convert(model, (x,)).save(tmp_path / "m.mlpackage")
    np.save(tmp_path / "x.npy", x.numpy())
    np.savez(tmp_path / "x.npz", input=x.numpy())
    (expected,) = (
        padc.coreml.load(tmp_path / "m.mlpackage")
        .predict({"input": x.numpy()})
        .values()
    )

    subprocess.run(
        [sys.executable, "-c", WITHOUT + API + COMMANDS],
        cwd=tmp_path,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )

    for name in ("api", "cli"):
        (actual,) = np.load(tmp_path / f"{name}.npz").values()
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        np.testing.assert_allclose(expected, model(x), rtol=1e-4, atol=1e-5)
