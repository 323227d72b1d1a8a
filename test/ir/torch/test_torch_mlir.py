"""torch-mlir reads what padc prints, and padc what torch-mlir prints."""

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

ir = pytest.importorskip("torch_mlir.ir")

from torch_mlir.dialects import torch as torch_mlir_torch  # noqa: E402

Parse = Callable[[str], ModuleOp]


def through_torch_mlir(text: str, **how_to_print: bool) -> str:
    context = ir.Context()
    torch_mlir_torch.register_dialect(context)
    return ir.Module.parse(text, context).operation.get_asm(**how_to_print)


@pytest.mark.parametrize("generic", [False, True])
def test_round_trip_through_torch_mlir(parse: Parse, generic: bool):
    source = (Path(__file__).parent / "ops.mlir").read_text()
    # torch-mlir's Python package has no torch_c.
    module = parse(source.split("// CHECK-LABEL: func.func @casts")[0])

    theirs = through_torch_mlir(str(module), print_generic_op_form=generic)

    assert str(parse(through_torch_mlir(str(parse(theirs))))) == str(
        parse(through_torch_mlir(str(module)))
    )


def test_output_of_the_fx_importer(parse: Parse):
    torch = pytest.importorskip("torch")
    fx = pytest.importorskip("torch_mlir.fx")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.register_buffer("order", torch.tensor([2, 0, 1]))

        def forward(self, x):
            y, where = torch.nn.functional.max_pool2d(
                self.conv(x), 2, return_indices=True
            )
            return (
                y * float("-inf"),
                where,
                x[:, self.order % 3],
                *y.split(2, 1),
                y.bool(),
            )

    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(
        Model(), (torch.ones(2, 3, 9, 9),), dynamic_shapes=({0: batch},)
    )

    module = parse(str(fx.export_and_import(program, output_type="raw")))

    assert str(parse(str(module))) == str(module)
    through_torch_mlir(str(module))
