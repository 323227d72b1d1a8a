"""The text of the example networks: padc reads it back, and torch-mlir that of ATen."""

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import functions
import pytest
import torch
from torch import nn
from xdsl.printer import Printer

import padc
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context
from padc.ir.text import Parser
from padc.ir.weights import weights_of
from padc.passes import pipelines
from padc.verification import sample_inputs

NETWORKS = (
    pytest.param("resnet50", marks=pytest.mark.slow),
    pytest.param("unet", marks=pytest.mark.slow),
    "style_transfer",
    "same_padding",
)

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


@pytest.fixture(scope="module", params=NETWORKS)
def program(request: pytest.FixtureRequest) -> torch.export.ExportedProgram:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(Path(__file__).parents[2])
        module = importlib.import_module(f"examples.{request.param}")
    build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]
    build = getattr(module, request.param)
    return torch.export.export(*build()).run_decompositions({})


@pytest.fixture(scope="module")
def texts(program: torch.export.ExportedProgram) -> dict[bool, str]:
    """What padc-opt prints: with --print-debuginfo under True."""
    ctx = make_context()
    module = import_exported_program(program, weights_of(ctx))
    module.verify()
    return {debug: printed(module, debug) for debug in (False, True)}


def printed(module: Any, debug: bool) -> str:
    text = io.StringIO()
    Printer(text, print_debuginfo=debug).print_op(module)
    return text.getvalue()


@pytest.mark.parametrize("debug", [False, True], ids=["plain", "locations"])
def test_padc_reads_its_own_text(texts: dict[bool, str], debug: bool):
    module = Parser(make_context(), texts[debug]).parse_module()

    module.verify()
    assert printed(module, debug) == texts[debug]
    assert ("loc(" in texts[debug]) == debug


@pytest.mark.parametrize("debug", [False, True], ids=["plain", "locations"])
def test_torch_mlir_reads_the_text(texts: dict[bool, str], debug: bool):
    ir = pytest.importorskip(
        "torch_mlir.ir", reason="there is no torch-mlir for this platform"
    )
    from torch_mlir.dialects import torch as torch_dialect  # pyright: ignore

    ctx = ir.Context()
    torch_dialect.register_dialect(ctx)

    module = ir.Module.parse(texts[debug], ctx)

    assert module.operation.verify()
    (function,) = module.body.operations
    operations = list(function.regions[0].blocks[0].operations)
    ours = Parser(make_context(), texts[debug]).parse_module()
    (our_function,) = ours.ops
    our_operations = list(our_function.regions[0].block.ops)
    assert [op.operation.name for op in operations] == [
        op.name for op in our_operations
    ]
    convolution = next(op for op in operations if "aten.conv" in op.operation.name)
    # Those of a plain nn.Sequential have no line.
    assert (".py" in str(convolution.operation.location)) == (".py" in texts[debug])


@pytest.mark.slow
def test_the_mil_level_is_a_model(
    program: torch.export.ExportedProgram, tmp_path: Path
):
    """Printed with its weights and converted, it is the same package."""
    ctx, module = pipelines.import_program(program, legal=pipelines.legal_for_mil())
    to_mil = pipelines.to_mil("iOS17", "auto", "auto")
    pipelines.run_passes(ctx, module, to_mil)
    assert "torch" not in str(module)
    weights_of(ctx).print_blobs = True
    text = functions.printed(module, ctx)
    (tmp_path / "program.mlir").write_text(text)

    converted = [padc.convert(each) for each in (program, tmp_path / "program.mlir")]

    for each, name in zip(converted, "ab", strict=True):
        each.save(tmp_path / f"{name}.mlpackage")
    one, two = (sorted((tmp_path / f"{n}.mlpackage").rglob("weight.bin")) for n in "ab")
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    for inputs in sample_inputs(program):
        results = [each.run(*inputs) for each in converted]
        assert all(map(torch.equal, *results))
