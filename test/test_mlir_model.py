"""Programs in MLIR text are converted, run and verified like models."""

from collections.abc import Callable
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch

import padc
from padc.errors import (
    InvalidProgramError,
    UnsupportedError,
    UsageError,
    WrongResultError,
)
from padc.models.mlir_model import MlirModel
from padc.tools import padc_opt
from padc.tools.padc import main

TORCH_MLIR = Path(__file__).with_name("torch_mlir.txt")
"""A convolution and a batch norm, as torch-mlir 20260615 prints them."""

TCP = """
func.func @main(%x: tensor<1x1x?x4xf32> {padc.name = "image", padc.sizes = ["h in 2..8"]})
    -> (tensor<1x1x?x6xf32> {padc.name = "padded"}) {
  %y = tcp.symmetric_pad %x lowerExpansion [0, 0, 1, 2] upperExpansion [0, 0, 0, 0]
     : tensor<1x1x?x4xf32> -> tensor<1x1x?x6xf32>
  func.return %y : tensor<1x1x?x6xf32>
}
"""

MIL = """
func.func @main(%x: tensor<?x3xf32> {padc.sizes = ["n in 1..4"]}) -> tensor<3x?xf32> {
  %y = mil.transpose(x = %x, perm = [1, 0]) : (tensor<?x3xf32>) -> tensor<3x?xf32>
  func.return %y : tensor<3x?xf32>
}
"""


FIXED_COUNT = """
!x = !torch.vtensor<[?,?],f32>
!y = !torch.vtensor<[2,12],f32>
func.func @main(%x: !x {padc.sizes = ["n in 1..8", "m in 1..8"]}) -> !y {
  %2 = torch.constant.int 2
  %12 = torch.constant.int 12
  %shape = torch.prim.ListConstruct %2, %12 : (!torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.reshape %x, %shape : !x, !torch.list<int> -> !y
  func.return %y : !y
}
"""

PUT = """
!x = !torch.vtensor<[?,3],f32>
!values = !torch.vtensor<[?,1],f32>
!index = !torch.vtensor<[1],si64>
!indices = !torch.list<optional<vtensor>>
func.func @main(%x: !x {padc.sizes = ["n in 1..8"]},
                %values: !values {padc.sizes = ["m in 1..8"]}) -> !x {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %index = torch.vtensor.literal(dense<2> : tensor<1xsi64>) : !index
  %indices = torch.prim.ListConstruct %none, %index : (!torch.none, !index) -> !indices
  %y = torch.aten.index_put %x, %indices, %values, %false
    : !x, !indices, !values, !torch.bool -> !x
  func.return %y : !x
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def file(text: str) -> Path:
        path = tmp_path / "model.mlir"
        path.write_text(text)
        return path

    return file


def test_torch_mlir(file: Callable[[str], Path]):
    program = padc.convert(file(TORCH_MLIR.read_text()), verify=True)
    x = torch.arange(12.0).reshape(1, 1, 3, 4)

    (actual,) = program.run(x)

    # What PyTorch computed there.
    expected = [0.09196466207504272, 0.17672160267829895, -3.6240689754486084]
    torch.testing.assert_close(actual[0, [0, 1, -1]], torch.tensor(expected))
    assert "tcp.conv" in program.mlir("tcp")
    assert "torch.aten" in program.mlir("torch")


def test_the_tcp_level(file: Callable[[str], Path]):
    program = padc.convert(file(TCP), verify=True)
    x = torch.randn(1, 1, 5, 4)

    (actual,) = program.run(x)

    expected = torch.cat([x[..., [1, 0]], x], -1)
    torch.testing.assert_close(actual, torch.cat([expected[:, :, :1], expected], 2))


@pytest.mark.parametrize("rows, values", [(5, 1), (5, 5), (1, 1)])
def test_values_whose_size_may_be_1(
    rows: int, values: int, file: Callable[[str], Path]
):
    """PyTorch repeats them, and scatters of Core ML do not."""
    program = padc.convert(file(PUT))
    x, y = torch.rand(rows, 3), torch.rand(values, 1)

    (actual,) = program.run(x, y)

    expected = x.clone()
    expected[:, torch.tensor([2])] = y
    torch.testing.assert_close(actual, expected)


def test_sizes_that_depend_on_each_other(tmp_path: Path, file: Callable[[str], Path]):
    """A package that has a range for each also takes some that do not fit together."""
    made = file(FIXED_COUNT)
    package = tmp_path / "model.mlpackage"

    with pytest.raises(UnsupportedError, match="list the shapes that belong together"):
        padc.convert(made).save(package)
    assert not package.exists()
    shapes = ct.EnumeratedShapes([(4, 6), (8, 3)])
    program = padc.convert(made, inputs=[ct.TensorType(shape=shapes)])
    program.save(package)

    for shape in shapes.shapes:
        x = torch.randn(*shape.shape)
        (actual,) = program.run(x)
        assert torch.equal(actual, x.reshape(2, 12))


def test_the_mil_level(file: Callable[[str], Path]):
    program = padc.convert(file(MIL))

    (actual,) = program.run(x := torch.randn(3, 3))

    torch.testing.assert_close(actual, x.T)
    (comparison,) = program.verify()
    assert comparison.relative_error == 0
    with pytest.raises(UnsupportedError, match=r"as 'mil\.transpose'"):
        MlirModel(file(MIL))(x)


def test_the_mil_level_has_names_like_those_of_results(file: Callable[[str], Path]):
    """pymil names the results of one op `topk_0` and `topk_1`."""
    program = padc.convert(
        file("""
        func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
          %topk_1 = mil.exp(x = %x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
          %topk, %indices = mil.topk(x = %topk_1, k = 2) :
            (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
          %topk_0 = mil.log(x = %topk) : (tensor<2x2xf32>) -> tensor<2x2xf32>
          func.return %topk_0, %indices : tensor<2x2xf32>, tensor<2x2xi32>
        }""")
    )

    assert all(each.relative_error == 0 for each in program.verify())


def test_text_that_padc_prints(
    tmp_path: Path, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
):
    model = padc.convert(
        torch.nn.Linear(4, 5),
        (torch.randn(2, 4),),
        dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=9)},),
    )
    expected = model.run(x := torch.randn(3, 4))
    assert not isinstance(model.exported, MlirModel)
    torch.export.save(model.exported, tmp_path / "model.pt2")
    for passes in ("", "convert-torch-to-tcp,convert-tcp-to-mil,convert-torch-to-mil"):
        options = ["--print-weights", *(["-p", passes] * bool(passes))]
        padc_opt.main([*options, str(tmp_path / "model.pt2")])

        (actual,) = padc.convert(file(capsys.readouterr().out)).run(x)

        assert torch.equal(actual, expected[0])


def test_the_command_line(
    tmp_path: Path, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
):
    def padc_(*arguments: object) -> int:
        with pytest.raises(SystemExit) as done:
            main([*map(str, arguments)])
        return int(done.value.code or 0)

    path, package = file(TCP), tmp_path / "model.mlpackage"
    np.savez(
        tmp_path / "x.npz", image=np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    )
    inputs = ["--inputs", tmp_path / "x.npz"]

    assert padc_("convert", path, "-o", package, "--verify") == 0
    assert padc_("verify", path, package) == 0
    capsys.readouterr()
    for what in (path, package):
        assert padc_("run", what, *inputs) == 0
        assert "padded: float32 (1, 1, 3, 6)" in capsys.readouterr().out
    assert padc_("run", path, *inputs, "--backend", "native") == UsageError.exit_code
    assert "--backend reference" in capsys.readouterr().err
    assert padc_("run", path, *inputs, "--backend", "coreml") == UsageError.exit_code
    assert "padc convert" in capsys.readouterr().err

    path = file(MIL)
    assert padc_("convert", path, "-o", package) == 0
    np.savez(tmp_path / "x.npz", input_0=np.arange(9, dtype=np.float32).reshape(3, 3))
    assert padc_("run", path, *inputs) == 0
    of_text = capsys.readouterr().out
    assert of_text.startswith("output_0: float32 (3, 3), min 0, max 8")
    assert padc_("run", package, *inputs) == 0
    assert capsys.readouterr().out == of_text
    on_reference = "run", path, "--inputs", "random:0", "--backend", "reference"
    assert padc_(*on_reference) == UnsupportedError.exit_code
    assert "padc run runs this one as a package" in capsys.readouterr().err
    assert padc_("verify", path, package) == 0
    assert padc_("convert", path, "-o", package, "--verify") == 0
    assert "agrees with the text" in capsys.readouterr().out
    exp = "%z = mil.exp(x = %y) : (tensor<3x?xf32>) -> tensor<3x?xf32>\n func.return %z"
    path.write_text(MIL.replace("func.return %y", exp))
    assert padc_("verify", path, package) == WrongResultError.exit_code


@pytest.mark.parametrize(
    "text, message",
    [
        ("func.func @main(", "is not valid MLIR"),
        ("func.func @other() { func.return }", "has no function @main"),
        ("func.func private @main()", "has no function @main"),
        (
            "func.func @main(%x: index) -> index { func.return %x : index }",
            "of type index",
        ),
        (
            "func.func @main(%x: !torch.vtensor) -> !torch.vtensor {"
            " func.return %x : !torch.vtensor }",
            "known dtype and rank|known rank",
        ),
        ("func.func @main() { cf.br ^b\n^b:\n func.return }", "has branches"),
        (TCP.replace("h in 2..8", "h"), "'h' in padc.sizes is not a range"),
        (
            "func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],si64> {"
            " %y = torch.aten.tanh %x"
            " : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],si64>"
            " func.return %y : !torch.vtensor<[2],si64> }",
            r"aten.tanh: the program declares int64\[2\], and PyTorch makes float32\[2\]",
        ),
        (
            "func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[3],f32> {"
            " %y = torch.aten.tanh %x"
            " : !torch.vtensor<[2],f32> -> !torch.vtensor<[3],f32>"
            " func.return %y : !torch.vtensor<[3],f32> }",
            r"aten.tanh: the program declares float32\[3\], and PyTorch makes float32\[2\]",
        ),
        (
            "func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[1],f32> {"
            " %i = torch.constant.int 9"
            " %y = torch.aten.unsqueeze %x, %i"
            " : !torch.vtensor<[2],f32>, !torch.int -> !torch.vtensor<[1],f32>"
            " func.return %y : !torch.vtensor<[1],f32> }",
            "aten.unsqueeze: PyTorch does not take its operands: Dimension out of range",
        ),
        (
            "func.func @main(%n: !torch.vtensor<[],si64>) -> !torch.vtensor<[4],f32> {"
            ' %name = torch.constant.str "made"'
            " %true = torch.constant.bool true"
            " %none = torch.constant.none"
            " %size = torch.aten.Int.Tensor %n : !torch.vtensor<[],si64> -> !torch.int"
            ' %y = torch.operator "torch.aten.from_file"'
            "(%name, %true, %size, %none, %none, %none, %none) :"
            " (!torch.str, !torch.bool, !torch.int, !torch.none, !torch.none,"
            " !torch.none, !torch.none) -> (!torch.vtensor<[4],f32>)"
            " func.return %y : !torch.vtensor<[4],f32> }",
            "aten.from_file: it is not called, since it reads or writes files",
        ),
    ],
)
def test_what_is_no_program(text: str, message: str, file: Callable[[str], Path]):
    with pytest.raises(InvalidProgramError, match=message):
        _ = MlirModel(file(text)).example_inputs


def test_usage(tmp_path: Path, file: Callable[[str], Path]):
    with pytest.raises(UsageError, match="No such file"):
        padc.convert(tmp_path / "none.mlir")
    for name in ("state.pth", "model.mlpackage", "model"):
        with pytest.raises(UsageError, match=rf"{name} is neither a \.pt2 nor"):
            padc.convert(tmp_path / name)
    with pytest.raises(UsageError, match="has its inputs"):
        padc.convert(file(TCP), (torch.ones(1),))
    with pytest.raises(UsageError, match="takes models of PyTorch"):
        padc.compile(MlirModel(file(TCP)), (torch.ones(1),))


def test_weights_without_data_are_named(file: Callable[[str], Path]):
    text = TORCH_MLIR.read_text().partition("{-#")[0]

    with pytest.raises(InvalidProgramError, match="no data for the weight"):
        padc.convert(file(text))
