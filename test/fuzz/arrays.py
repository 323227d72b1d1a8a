# pyright: basic
"""`.npz` files: changes of their bytes, and of the headers of their arrays."""

from __future__ import annotations

import io
import os
import struct
import tempfile
import zipfile
from pathlib import Path
from random import Random

import numpy as np
from fuzz.archives import with_changed_record
from fuzz.changes import TEXTS, changed_bytes, changed_integer
from fuzz.seed_models import Model, layers
from fuzz.target import Target

import padc
from padc.packages.session import Session
from padc.tools.padc_run import read_inputs

SEEDS = {
    "inputs": np.arange(16, dtype=np.float32).reshape(1, 2, 8),
    "index": np.arange(6).reshape(2, 3),
    "half": np.ones((1, 2, 8), np.float16),
}
TYPES = ("<f4", "<f8", ">f4", "<i8", "|b1", "|O", "<U9", "|V4", "<c8", "<M8[s]", "<f3")


class Arrays(Target):
    """
    What `padc run --inputs` does with a file of arrays.

    A case is the file.
    """

    suffix = ".npz.zip"

    def __init__(self):
        import torch

        torch.manual_seed(0)
        x = torch.ones(1, 2, 8)
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder, "m.mlpackage")
            padc.convert(Model(layers).eval(), (x,)).save(package)
            self.session = Session(padc.coreml.load(package))
        self.name = self.session.inputs[0].name

    def prepare(self) -> None:
        """The files are made one at a time."""

    def case(self, rng: Random) -> bytes:
        name = rng.choice(list(SEEDS))
        data = io.BytesIO()
        np.lib.format.write_array(data, SEEDS[name])
        array = data.getvalue()
        compression = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as archive:
            names = [self.name] * 8 + [*TEXTS]
            for _ in range(rng.choice((1, 1, 1, 2))):
                info = zipfile.ZipInfo(f"{rng.choice(names)}.npy")
                archive.writestr(info, changed_array(array, rng), compression)
        match rng.randrange(4):
            case 0:
                return changed_bytes(file.getvalue(), rng)
            case 1:
                return with_changed_record(file.getvalue(), rng)
            case _:
                return file.getvalue()

    def run(self, case: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npz")
            Path(path).write_bytes(case)
            self.session.predict(read_inputs(path, self.session.inputs))


def changed_array(array: bytes, rng: Random) -> bytes:
    """The array, another shape or type in its header, or a change of its bytes."""
    match rng.randrange(5):
        case 0:
            return array
        case 1:
            return changed_bytes(array, rng)
        case 2:
            return array[:10] + changed_bytes(array[10:128], rng) + array[128:]
    sizes = [
        rng.choice((1, 2, 8, changed_integer(8, rng))) for _ in range(rng.randrange(5))
    ]
    shape = rng.choice((tuple(sizes), (1, 2, 8), sizes, "x", 4))
    kind = rng.choice((*TYPES, "<f4", "<f4", [("a", "<f4")], "O,f4", 3, None))
    header = {"descr": kind, "fortran_order": rng.random() < 0.3, "shape": shape}
    text = f"{header!r}\n".encode()
    if rng.random() < 0.05:
        text = b"(" * rng.choice((50, 5000)) + text
    return array[:8] + struct.pack("<H", len(text) & 0xFFFF) + text + array[128:]
