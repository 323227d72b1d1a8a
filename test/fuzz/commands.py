# pyright: basic
"""Command lines of `padc` and `padc-opt`: changes of their arguments."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from random import Random

import numpy as np
import torch
from fuzz.changes import TEXTS, changed_integer
from fuzz.mlir import run_main
from fuzz.seed_models import Model, layers
from fuzz.target import Target

import padc
from padc.tools import padc as padc_command
from padc.tools import padc_opt

LINES = """
padc convert m.pt2 -o out.mlpackage --target iOS16 --precision float16
padc convert net:make -o out.mlpackage --pad-policy native --print-ir-after-all
padc convert net:make --input x:1x2x4..16:float32 -o out.mlpackage --states inputs
padc convert m.mlir -o m.mlpackage --grid-sample-policy decompose --trust
padc verify m.pt2 m.mlpackage --precision float32
padc run m.mlpackage --inputs x.npz --save-outputs y.npz --precision float32
padc run m.mlpackage --inputs random:3 --function main --backend coreml
padc run m.mlir --inputs random:0 --backend reference
padc run net:make --inputs random:0 --backend reference --input x:1x2x8:float32
padc check m.mlpackage --target iOS15
padc same --size 7 9 --kernel 3 --stride 2 --dilation 1 2 --rule onnx_lower
padc same --size 5 --kernel 3 --stride 2 --transposed --padding 1 --output-padding 1
padc --version
padc convert --help
padc-opt m.mlir -p canonicalize,decompose-pads{policy=native} -o out.mlir
padc-opt m.mlir -p convert-tcp-to-mil{target=iOS15} -t mil{target=iOS15}
padc-opt m.pt2 -p convert-torch-to-tcp --mlir-print-ir-after-change --print-weights
padc-opt m.mlir -p cse --mlir-print-ir-before=cse --mlir-print-ir-after-all
padc-opt m.mlir -p reduce-ranks --mlir-pass-pipeline-crash-reproducer=r.mlir
padc-opt --run-reproducer m.mlir --print-debuginfo --split-input-file
padc-opt -f mlir m.mlir --allow-unregistered-dialect --verify-diagnostics
padc-opt m.mlir --print-op-generic --print-no-properties --print-between-passes
"""
SEEDS = [shlex.split(line) for line in LINES.split("\n") if line]
# Systems do not let arguments hold 0.
ARGUMENTS = [text for text in TEXTS if "\0" not in text]
TOKENS = sorted({token for line in SEEDS for token in line[1:]})
MLIR = """\
// passes: canonicalize
func.func @main(%x: tensor<1x2x8xf32>) -> tensor<1x2x10xf32> {
  %y = tcp.circular_pad %x lowerExpansion [0, 0, 1] upperExpansion [0, 0, 1]
     : tensor<1x2x8xf32> to tensor<1x2x10xf32>
  func.return %y : tensor<1x2x10xf32>
}
"""
NETWORK = """
import torch


def make():
    return torch.nn.ReplicationPad1d(1), (torch.ones(1, 2, 8),)
"""


class CommandLines(Target):
    """
    What the command lines do with any arguments.

    A case is JSON: a list of the arguments.
    """

    suffix = ".json"

    def __init__(self):
        torch.manual_seed(0)
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        model, inputs = Model(layers).eval(), (torch.ones(1, 2, 8),)
        program = torch.export.export(model, inputs)
        torch.export.save(program, folder / "m.pt2")
        padc.convert(program).save(folder / "m.mlpackage")
        np.savez(folder / "x.npz", inputs_0=np.ones((1, 2, 8), np.float32))
        (folder / "m.mlir").write_text(MLIR)
        (folder / "net.py").write_text(NETWORK)

    def prepare(self) -> None:
        """The files are there already."""

    def case(self, rng: Random) -> bytes:
        arguments = list(rng.choice(SEEDS))
        for _ in range(rng.randint(1, 3)):
            change(arguments, rng)
        return json.dumps(arguments).encode()

    def run(self, case: bytes) -> None:
        name, *arguments = json.loads(case)
        main = padc_opt.main if name == "padc-opt" else padc_command.main
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            # Two folders deep, so that `../x` is in the temporary one, too.
            work = Path(folder, "one", "two")
            shutil.copytree(self.folder.name, work)
            os.chdir(work)
            os.environ["PADC_DEBUG"] = "1"
            try:
                run_main(main, arguments)
            finally:
                os.chdir(before)


def change(arguments: list[str], rng: Random) -> None:
    """Remove, repeat, exchange or change one argument; the command stays."""
    if len(arguments) < 2:
        return
    at = rng.randrange(1, len(arguments))
    old = arguments[at]
    match rng.randrange(8):
        case 0:
            del arguments[at]
        case 1:
            arguments.insert(rng.randrange(1, len(arguments) + 1), old)
        case 2:
            other = rng.randrange(1, len(arguments))
            arguments[at], arguments[other] = arguments[other], old
        case 3:
            arguments[at] = rng.choice([*ARGUMENTS, "-", "--", ".", "x" * 5000])
        case 4 if any(map(str.isdigit, old)):
            digits = [i for i, character in enumerate(old) if character.isdigit()]
            i = rng.choice(digits)
            arguments[at] = (
                f"{old[:i]}{changed_integer(int(old[i]), rng)}{old[i + 1 :]}"
            )
        case 5:
            i = rng.randrange(len(old) + 1)
            character = rng.choice("=,:{}[]\"'.- é\udc80")
            arguments[at] = old[:i] + character + old[i + rng.randrange(2) :]
        case 6:
            arguments.insert(at, rng.choice(TOKENS))
        case _:
            arguments[at] = rng.choice(TOKENS)
