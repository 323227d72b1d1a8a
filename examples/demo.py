"""
Convert the example networks to Core ML and to machine code, run both, and compare the
results with PyTorch's.

Prints a table. Exits with 1 if a result is wrong, or if a network does not compile to
one native function.
"""

from __future__ import annotations

import copy
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from xdsl.dialects.builtin import ModuleOp

import padc
from examples.flow_warp import flow_warp
from examples.mobilenet_v2 import mobilenet_v2
from examples.resnet50 import resnet50
from examples.same_padding import same_padding
from examples.spatial_transformer import spatial_transformer
from examples.style_transfer import style_transfer
from examples.unet import unet
from examples.voxel_morph import voxel_morph
from padc.backends.coreml import quiet
from padc.ir import mil, tcp
from padc.ir.precisions import NativePrecision
from padc.verification import compare, sample_inputs, verify_package

with quiet():
    import coremltools as ct

NETWORKS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]]] = {
    "ResNet-50, 224x224": resnet50,
    "MobileNetV2, 224x224": mobilenet_v2,
    "U-Net, 256x256, replicate padding": unet,
    "style transfer, 256x256, reflection": style_transfer,
    "even kernels, same padding, ceil mode": same_padding,
    "spatial transformer, affine grid": spatial_transformer,
    "flow warp, 128x160, bicubic": flow_warp,
    "VoxelMorph, 24x32x28, trilinear": voxel_morph,
}
COLUMNS: tuple[str, ...] = (
    "network",
    "layers",
    "pads",
    "folded",
    "MIL ops",
    "export s",
    "padc s",
    "coremltools s",
    "max error",
    "of range",
    "native",
    "strict",
    "",
)
"""
`of range`, `native`, `strict`: errors of the package, of machine code, and of machine
code with `precision="strict"`, in parts of the range.
"""
TARGET = "iOS17"
TOLERANCES: dict[NativePrecision, float] = {"default": 5e-5, "strict": 1e-5}
"""
The largest error allowed for machine code of a precision, in parts of the expected
range, unless PyTorch in float32 differs as much from PyTorch in float64.
"""


class PadCounter:
    """Counts the pads that convert-torch-to-tcp makes, and those folded back later."""

    def __init__(self) -> None:
        self.explicit = self.folded = 0

    def __call__(self, step: str, module: ModuleOp | None, seconds: float) -> None:
        if module is None:
            return
        if step == "convert-torch-to-tcp":
            self.explicit = sum(isinstance(op, tcp.ExpandOp) for op in module.walk())
        if step == "convert-tcp-to-mil":
            windows = ("mil.conv", "mil.max_pool", "mil.avg_pool")
            self.folded = sum(
                isinstance(pad := op.input("pad"), list) and any(pad)
                for op in module.walk()
                if isinstance(op, mil.MilOp) and op.name in windows
            )


def convert_and_verify(name: str, folder: Path) -> tuple[list[str], bool]:
    """One network's row of the table, and whether all results agree with PyTorch."""
    model, inputs = NETWORKS[name]()
    layers = sum(not list(module.children()) for module in model.modules())
    start = time.perf_counter()
    exported = torch.export.export(model, inputs)
    export_seconds = time.perf_counter() - start

    pads = PadCounter()
    path = folder / "padc.mlpackage"
    start = time.perf_counter()
    program = padc.convert(exported, target=TARGET, observer=pads)
    program.save(path)
    padc_seconds = time.perf_counter() - start

    try:
        (worst,) = verify_package(model, exported, path, sample_inputs(exported))
        agrees, errors = True, [f"{worst.max_error:.1e}", f"{worst.relative_error:.1e}"]
    except padc.WrongResultError as error:
        print(f"{name}: {error}", file=sys.stderr)
        agrees, errors = False, ["see above", ""]
    native: list[str] = []
    for precision in TOLERANCES:
        error, is_right = run_native(name, model, exported, precision)
        native.append(error)
        agrees &= is_right
    row = [
        name,
        str(layers),
        str(pads.explicit),
        str(pads.folded),
        str(program.operation_count),
        f"{export_seconds:.2f}",
        f"{padc_seconds:.2f}",
        coremltools_seconds(exported, folder),
        *errors,
        *native,
        "ok" if agrees else "WRONG",
    ]
    return row, agrees


def run_native(
    name: str,
    model: torch.nn.Module,
    exported: torch.export.ExportedProgram,
    precision: NativePrecision,
) -> tuple[str, bool]:
    """The error of machine code, in parts of the range, and whether that is allowed."""
    compiled = padc.compile(exported, precision=precision)
    if not compiled.is_native:
        print(f"{name}: {compiled.report()}", file=sys.stderr)
        return "in parts", False
    worst, is_right = 0.0, True
    for inputs in sample_inputs(exported):
        expected = outputs(model, inputs)
        error = distance(outputs(compiled, inputs), expected)
        worst = max(worst, error)
        if error > TOLERANCES[precision]:
            # Both results may be as far from the exact one as PyTorch's is.
            doubles = [x.double() if x.is_floating_point() else x for x in inputs]
            exact = outputs(copy.deepcopy(model).double(), doubles)
            is_right &= error <= 2 * distance(expected, exact)
    return f"{worst:.1e}", is_right


def outputs(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    with torch.no_grad():
        return pytree.tree_leaves(function(*inputs))


def distance(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest error of any output, in parts of its range."""
    pairs = zip(actual, expected, strict=True)
    return max(compare("", is_, should).relative_error for is_, should in pairs)


def coremltools_model(exported: torch.export.ExportedProgram) -> Any:
    """What coremltools makes of a program for the same target, in float32."""
    with redirect_stderr(io.StringIO()):  # coremltools draws progress bars.
        return ct.convert(
            exported.run_decompositions({}),
            minimum_deployment_target=getattr(ct.target, TARGET),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )


def coremltools_seconds(exported: torch.export.ExportedProgram, folder: Path) -> str:
    """How long coremltools takes for the same, or that it fails."""
    start = time.perf_counter()
    try:
        converted = coremltools_model(exported)
        converted.save(str(folder / "coremltools.mlpackage"))
    except Exception as error:
        print(f"coremltools: {type(error).__name__}: {error}", file=sys.stderr)
        return "fails"
    return f"{time.perf_counter() - start:.2f}"


def main() -> int:
    warnings.filterwarnings("ignore")
    rows, all_agree = [list(COLUMNS)], True
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            print(f"converting {name} ...", file=sys.stderr, flush=True)
            row, agrees = convert_and_verify(name, Path(folder))
            rows.append(row)
            all_agree &= agrees
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        print(first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others))
    return 0 if all_agree else 1


if __name__ == "__main__":
    sys.exit(main())
