"""
What a user does who installed the wheel: convert, verify, run, compile.

    python installed.py REPOSITORY

exits with 0 if padc converts, verifies, runs and compiles, and is not imported from the
repository.
"""

import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import padc

BIN = Path(sys.executable).parent


class Padded(nn.Module):
    """A convolution with padding that Core ML does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")

    def forward(self, image: Tensor) -> Tensor:
        return self.conv(image).relu()


def main() -> None:
    repository = Path(sys.argv[1]).resolve()
    assert padc.__file__ is not None
    assert not Path(padc.__file__).resolve().is_relative_to(repository), padc.__file__
    torch.manual_seed(0)
    model, x = Padded().eval(), torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        expected = model(x)

    program = padc.convert(model, (x,), target="iOS17")
    program.verify()
    program.save("model.mlpackage")
    print("padc.convert, verify and save")

    compiled = padc.compile(model, (x,))
    assert compiled.is_native, compiled.report()
    torch.testing.assert_close(compiled(x), expected)
    print("padc.compile")

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="padc")(x), expected)
    print("torch.compile")

    torch.export.save(torch.export.export(model, (x,)), "model.pt2")
    for arguments in (
        "padc --version",
        "padc convert model.pt2 -o again.mlpackage --verify",
        "padc verify model.pt2 model.mlpackage",
        "padc run model.mlpackage --inputs random:0",
        "padc run model.pt2 --inputs random:0",
        "padc check model.mlpackage",
        "padc-opt -p convert-torch-to-tcp,canonicalize model.pt2",
        "padc-opt -p convert-torch-to-tcp,decompose-pads,convert-tcp-to-mil model.pt2",
    ):
        tool, *rest = arguments.split()
        result = subprocess.run([BIN / tool, *rest], capture_output=True, text=True)
        print(arguments)
        if result.returncode:
            sys.exit(f"exited with {result.returncode}: {result.stderr}")


if __name__ == "__main__":
    main()
