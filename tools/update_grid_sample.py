# pyright: basic, reportMissingTypeStubs=false
"""
Write docs/grid_sample.md: the ops that each kind of grid sampling becomes in Core ML.

    python -m padc.tools.update_grid_sample

coremltools' counts stand next to padc's, if it converts the model: for the exported
program, and after PyTorch's decompositions.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch._decomp import get_decompositions
from torch.export import default_decompositions

import padc
from padc.backends.coreml import quiet

with quiet():
    import coremltools as ct

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "grid_sample.md"
HEAD = """# Grid sampling in Core ML

How many ops a `grid_sample` of two images or volumes of three channels becomes.
`make grid-sample-counts` writes this page. The last two columns are coremltools 9.0 on
the program as exported, and after PyTorch's decomposition of `grid_sampler_2d`. For
points halfway between two pixels, its nearest `resample` differs from PyTorch's.

NaN and infinities as coordinates are what PyTorch's 2-D kernels make of them on CPUs,
in machine code and in the reference, of images and volumes: NaN, and an infinity with
reflection, is coordinate 0 with `border` and `reflection`; with `zeros`, linear
results are NaN and nearest ones 0; cubic results are NaN. PyTorch's 3-D kernels give 0
with `zeros`, and the last element in place of coordinate 0. Reflections of coordinates
beyond 2^24 are rounded otherwise by each kernel. A package may give any of these
results, but reads nothing outside of the input.

"""
COLUMNS = (
    *("dims", "mode", "padding", "align_corners"),
    *("padc", "padc, decomposed", "coremltools", "coremltools, decomposed"),
)


class Sampler(torch.nn.Module):
    def __init__(self, mode: str, padding: str, align_corners: bool):
        super().__init__()
        self.options: dict[str, Any] = {
            "mode": mode,
            "padding_mode": padding,
            "align_corners": align_corners,
        }

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, **self.options)


def coremltools_ops(exported: torch.export.ExportedProgram) -> int:
    """The ops of coremltools' program, without its constants."""
    with redirect_stderr(io.StringIO()):
        model: Any = ct.convert(
            exported,
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
    (block,) = (
        model.get_spec().mlProgram.functions["main"].block_specializations.values()
    )
    return sum(op.type != "const" for op in block.operations)


def attempt(count: Callable[[], int]) -> str:
    """A count, or "-" if counting fails."""
    try:
        return str(count())
    except Exception:  # coremltools raises anything.
        return "-"


def line(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def rows() -> list[str]:
    lines = [line(COLUMNS), line(["---"] * len(COLUMNS))]
    decompositions = default_decompositions()
    decompositions.update(get_decompositions([torch.ops.aten.grid_sampler_2d]))
    for rank, mode, padding, aligned in itertools.product(
        (2, 3),
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
        (True, False),
    ):
        if (rank, mode) == (3, "bicubic"):
            continue
        model = Sampler(mode, padding, aligned)
        x = torch.randn(2, 3, *(8, 9, 7)[:rank])
        inputs = x, torch.rand(2, *(4, 3, 2)[:rank], rank)
        own = [
            padc.convert(model, inputs, grid_sample_policy=policy).operation_count
            for policy in ("auto", "decompose")
        ]
        exported = torch.export.export(model, inputs)
        theirs = [
            attempt(lambda: coremltools_ops(exported.run_decompositions({}))),
            attempt(
                lambda: coremltools_ops(exported.run_decompositions(decompositions))
            ),
        ]
        cells = [f"{rank}-D", mode, padding, aligned, *own, *theirs]
        lines.append(line(cells))
    return lines


def main() -> None:
    warnings.filterwarnings("ignore")
    text = HEAD + "\n".join(rows()) + "\n"
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
