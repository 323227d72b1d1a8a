"""The driver: called as a function, and as a process where that is the point."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

import padc
from padc.errors import UsageError
from padc.ir.torch import VTensorType
from padc.ir.weights import weights_of
from padc.passes import get_all_passes
from padc.tools import padc_opt
from padc.tools.pass_help import orders, pass_help

BIN = Path(sys.executable).parent

CROP = """\
func.func @main(%x : tensor<4xf32>) -> tensor<2xf32> {
  %y = tcp.replication_pad %x lowerExpansion [-1] upperExpansion [-1] : tensor<4xf32> -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
"""


@dataclass
class Result:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, input: str = "") -> Result:
    """What `padc-opt` does, called in this process."""
    stdin = io.TextIOWrapper(io.BytesIO(input.encode()))
    with (
        patch.object(sys, "stdin", stdin),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        try:
            padc_opt.main([*map(str, arguments)])
            code = 0
        except SystemExit as exit:
            code = exit.code or 0
    assert isinstance(code, int)
    return Result(code, out.getvalue(), err.getvalue())


def printed(*arguments: object, input: str = "") -> str:
    """What a run that succeeds prints."""
    result = run(*arguments, input=input)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 3, padding=1, padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()


class Unsupported(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q = torch.linalg.svd(x).U  # the first line
        return q + torch.cummax(x, 0).values  # the second line


def saved(module: nn.Module, x: Tensor, path: Path) -> Path:
    torch.export.save(torch.export.export(module, (x,)), path)
    return path


@pytest.fixture(scope="module")
def pt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "padded.pt2"
    return saved(Padded(), torch.ones(1, 2, 8), path)


def test_start_imports_neither_torch_nor_coremltools():
    program = (
        "import sys; from padc.tools.padc_opt import PadcOptMain;"
        "PadcOptMain(args=['-p', 'convert-torch-to-tcp,convert-tcp-to-mil']).run();"
        "print(sorted({'torch', 'coremltools'} & sys.modules.keys()))"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], input=CROP, capture_output=True, text=True
    )

    assert "mil.slice_by_index" in result.stdout, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


def test_reads_mlir_and_runs_passes(tmp_path: Path):
    path = tmp_path / "crop.mlir"
    path.write_text(CROP)

    assert "tcp.replication_pad" in printed(path)
    assert "mil.slice_by_index" in printed("-p", "convert-tcp-to-mil", path)
    assert printed(input=CROP) == printed(path)


def test_reads_pt2(pt2: Path):
    torch_text = printed(pt2)
    tcp_text = printed("-p", "convert-torch-to-tcp,canonicalize", pt2)

    assert "torch.aten.conv1d" in torch_text
    assert "dense_resource<conv.weight>" in torch_text
    assert "dialect_resources" not in torch_text
    assert "tcp.conv" in tcp_text
    assert printed(input=torch_text) == torch_text
    lowered = printed("-p", "convert-torch-to-tcp,canonicalize", input=torch_text)
    assert lowered == tcp_text


def test_the_pipeline_to_core_ml(pt2: Path):
    """The passes that --help lists make what `padc convert` makes."""
    order = orders()["the whole Core ML program"]
    assert order in "".join(run("--help").stdout.split())

    text = printed("-p", order, pt2)

    program = padc.convert(pt2)
    assert text.split() == program.mlir("mil").split()
    early = run("-p", "convert-torch-to-mil", pt2)
    assert early.returncode == UsageError.exit_code
    assert "aten.conv1d, aten.pad: convert-torch-to-mil takes what" in early.stderr
    assert "does not lower" not in early.stderr


def test_the_pipeline_to_machine_code(tmp_path: Path):
    """The passes that --help lists make what `padc.compile` makes."""
    order = orders()["machine code"]
    assert order in "".join(run("--help").stdout.split())

    class Addr(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.addr(x, y[0], y[1]).nansum()

    path = tmp_path / "addr.pt2"
    inputs = torch.randn(3, 3), torch.randn(2, 3)
    torch.export.save(torch.export.export(Addr(), inputs), path)
    # Neither op has a lowering: what they are decomposed to has.
    assert "llvm.func" in printed("-p", order, path)


def test_weights_and_locations_go_to_text_and_on_to_pymil(pt2: Path):
    complete = ("--print-weights", "--print-debuginfo")
    lower = (
        "-p",
        "convert-torch-to-tcp,canonicalize,convert-tcp-to-mil,"
        "convert-torch-to-mil,canonicalize",
    )

    text = printed(*complete, pt2)
    pymil = printed(*lower, "-t", "mil{target=iOS16}", input=text)

    source = Path(__file__).read_text().splitlines()
    (line,) = (i for i, code in enumerate(source, 1) if code.endswith("relu()"))
    assert f'test_padc_opt.py":{line}:0' in text
    weight = torch.export.load(pt2).state_dict["conv.weight"].detach()
    assert f"0x10000000{weight.numpy().tobytes().hex().upper()}" in text
    assert printed(*complete, input=text) == text
    assert "dialect_resources" not in printed(input=text)
    assert pymil.startswith("\nmain[CoreML6]")  # as coremltools calls iOS16
    assert "%pad: (1, 2, 10, fp32)(Tensor) = pad(x=%x, pad=[1, 1]" in pymil


def test_xdsl_opt_has_what_padc_adds():
    def xdsl_opt(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "xdsl-opt", *arguments], input=CROP, capture_output=True, text=True
        )

    result = xdsl_opt("-p", "convert-tcp-to-mil,canonicalize")

    assert (result.returncode, result.stderr) == (0, "")
    assert "mil.slice_by_index" in result.stdout
    assert "mil" in xdsl_opt("-t", "none").stderr.rpartition("choose")[2]


def test_runs_as_a_process_of_its_own():
    result = subprocess.run(
        [BIN / "padc-opt"], input="no.op", capture_output=True, text=True
    )

    assert (result.returncode, result.stdout) == (4, "")
    assert "no.op" in result.stderr


def test_reader_that_stops_early():
    many = "\n".join(f"func.func private @f{i}() -> ()" for i in range(4000))

    result = subprocess.run(
        f"'{BIN}/padc-opt' | head -1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        input=many,
        capture_output=True,
        text=True,
    )

    assert (result.stdout, result.stderr) == ("builtin.module {\n0\n", "")


# --- bad input ------------------------------------------------------------------

GENERIC_OF_TENSORS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
GENERIC = """func.func @f(%x: memref<4xindex>) {
  linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]
  } outs(%x : memref<4xindex>) {
  ^bb0(%a: index):
    %i = linalg.index INDEX : index
    linalg.yield %i : index
  }
  return
}"""

GRID_SAMPLER = """
!x = !torch.vtensor<[1,1,4,4],f32>
!grid = !torch.vtensor<[1,2,2,2],f32>
!result = !torch.vtensor<[1,1,2,2],f32>
func.func @main(%x: !x, %grid: !grid) -> !result {
  %mode = torch.constant.int MODE
  %padding = torch.constant.int 0
  %no = torch.constant.bool false
  %y = torch.aten.grid_sampler %x, %grid, %mode, %padding, %no
    : !x, !grid, !torch.int, !torch.int, !torch.bool -> !result
  return %y : !result
}"""

SWAP = """func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a, %b = linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  } outs(%x, %y : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%c: f32, %d: f32):
    linalg.yield %d, %c : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %a : tensor<4xf32>
}"""

BAD_INPUT: dict[str, tuple[list[str], str, int, list[str]]] = {
    "text": ([], "func.func @main(", 4, ["stdin:1:", "func.func @main("]),
    "op": ([], "torch.aten.relux %x", 4, ["torch.aten.relux"]),
    "op that does not verify": (
        [],
        CROP.replace("tensor<2xf32>", "tensor<3xf32>"),
        4,
        ["tensor<3xf32>", "tensor<2xf32>"],
    ),
    "use before its definition": (
        [],
        "func.func @main(%x : i32) -> i32 {\n"
        "  %y = arith.addi %x, %z : i32\n"
        "  %z = arith.muli %x, %x : i32\n"
        "  func.return %y : i32\n}",
        4,
        ["'arith.addi' uses %z (operand #1)", "'arith.muli' defines it later"],
    ),
    "function that does not verify": (
        [],
        "func.func @main(%x : tensor<2xf32>) -> tensor<3xf32> {\n"
        "  func.return %x : tensor<2xf32>\n}",
        4,
        ["expected [tensor<3xf32>], got [tensor<2xf32>]"],
    ),
    "depth": (
        [],
        "module {" * 3000 + "}" * 3000,
        4,
        ["the text is nested too deeply"],
    ),
    "integer out of range": (
        [],
        CROP.replace("-1", "99999999999999999999"),
        4,
        ["cannot be parsed", "99999999999999999999"],
    ),
    "integer of Python's": (
        [],
        "%x = torch.constant.int 99999999999999999999",
        4,
        ["an integer of 64 bits"],
    ),
    "float without a point": (
        [],
        "%x = torch.constant.float 99999999999999999999999",
        4,
        ["a number with a decimal point"],
    ),
    "string without an end": (
        [],
        '"test.op"() {a = "' + "a" * 1000 + "\n} : () -> ()",
        4,
        ["line 1: a string literal has no end"],
    ),
    "what a verifier of xDSL does not expect": (
        [],
        '%x, %y = "test.op"() : () -> (memref<2xf32>, index)\n'
        "%z = memref.load %x[%y, %y] : memref<2xf32>",
        4,
        ["'memref.load' is not valid: expected an index for each dimension"],
    ),
    "strides of no dimension": (
        [],
        '%x, %w, %y = "test.op"() : () -> (tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>,'
        " tensor<1x1x2x2xf32>)\n"
        "%z = linalg.conv_2d_nchw_fchw {strides = dense<> : tensor<0xi64>,"
        " dilations = dense<1> : tensor<2xi64>}"
        " ins(%x, %w : tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>)"
        " outs(%y : tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>",
        4,
        ["'linalg.conv_2d_nchw_fchw' is not valid: ", "expected 2, got 0"],
    ),
    "size out of range": (
        [],
        "func.func @main(%x : !torch.vtensor<[2,18446744073709551616],f32>) {\n"
        "  return\n}",
        4,
        ["'func.func' has a tensor of the size 18446744073709551616"],
    ),
    "constant that needs much memory": (
        [],
        "!t = tensor<65536x65536xf32>\n%x = arith.constant dense<1.0> : !t",
        4,
        [":2:27", "a constant has 65536x65536 equal elements", "33554432 at most"],
    ),
    "groups of dimensions that do not fit": (
        [],
        '%x = "test.op"() : () -> memref<6x2xf32>\n'
        "%y = memref.expand_shape %x [[0 : i64, 1 : i64], [2 : i64], [3 : i64]] "
        "output_shape [2, 3, 2] : memref<6x2xf32> into memref<2x3x2xf32>",
        4,
        ["has the groups [[0, 1], [2], [3]]; expected 2, of 3 dimensions"],
    ),
    "amounts that do not fit": (
        [],
        '%x = "test.op"() : () -> memref<6x2xf32>\n'
        "%y = memref.subview %x[0, 0] [6, 2] [1] : memref<6x2xf32> to memref<6x2xf32>",
        4,
        ["'memref.subview' has 1 strides; expected one for each of 2 dimensions"],
    ),
    "a cast to other sizes": (
        [],
        '%x = "test.op"() : () -> memref<?x2xf32>\n'
        '%y = "memref.cast"(%x) : (memref<?x2xf32>) -> memref<?x3xf32>',
        4,
        ["'memref.cast' makes memref<?x3xf32> of memref<?x2xf32>"],
    ),
    "no rank": (
        ["-p", "bufferize-tcp"],
        '%x = "test.op"() : () -> tensor<*xf32>',
        4,
        ["'test.op' has a value of type tensor<*xf32>; expected a known rank"],
    ),
    "complex argument": (
        ["-p", "split-complex"],
        "func.func @main(%c: !torch.vtensor<[3],complex<f32>>) {\n"
        "  %d = torch.aten.neg %c : !torch.vtensor<[3],complex<f32>> -> "
        "!torch.vtensor<[3],complex<f32>>\n  func.return\n}",
        3,
        ["'torch.aten.neg' takes complex numbers", "pass torch.view_as_real(x)"],
    ),
    "wide integer": (
        ["-p", "canonicalize"],
        "%x = arith.constant 5 : i99999999999",
        4,
        ["i99999999999 is wider than 16777215 bits"],
    ),
    **{
        f"wide integer in {type}": (
            [],
            f"func.func private @f(%x: {type})",
            4,
            ["i99999999 is wider than 16777215 bits"],
        )
        for type in (
            "tensor<4xi99999999>",
            "tensor<?x4 xi99999999>",
            "tensor< 4xi99999999>",
            "tensor<2x 4xi99999999>",
            "vector<4x[2]xi99999999>",
            "memref<*xi99999999>",
        )
    },
    "what a pass of xDSL does not take": (
        ["-p", "convert-linalg-to-loops"],
        GENERIC_OF_TENSORS,
        3,
        ["convert-linalg-to-loops, a pass of xDSL, does not take this program"],
    ),
    "array of wide integers": (
        [],
        '"test.op"() {a = array<i100000000: 1>} : () -> ()',
        4,
        ["i100000000 is wider"],
    ),
    "array of odd integers": (
        [],
        '"test.op"() {a = array<i1000: 1>} : () -> ()',
        4,
        ["cannot be parsed"],
    ),
    **{
        f"division: {index}": (
            [],
            GENERIC.replace("INDEX", "0").replace("-> (d0)", f"-> ({index})"),
            4,
            ["'linalg.generic' has the map", f"divides by {divisor}"],
        )
        for index, divisor in {
            "d0 floordiv 0": "0",
            "d0 mod 0": "0",
            "d0 ceildiv 0": "0",
            "d0 + d0 mod -2": "-2",
        }.items()
    },
    "too much is yielded": (
        [],
        GENERIC.replace("INDEX", "0").replace("%i : index", "%i, %i : index, index"),
        4,
        ["'linalg.generic' yields (index, index); expected (index)"],
    ),
    "nothing is yielded": (
        [],
        GENERIC.replace("INDEX", "0").replace(
            "linalg.yield %i : index", "llvm.unreachable"
        ),
        4,
        ["'linalg.generic' has no linalg.yield at the end"],
    ),
    "no output": (
        [],
        "linalg.generic {indexing_maps = [], iterator_types = []} {\n"
        "^bb0:\n  linalg.yield\n}",
        4,
        ["'linalg.generic' has no output"],
    ),
    "map of another kind": (
        [],
        GENERIC.replace("INDEX", "0").replace("affine_map<(d0) -> (d0)>", "1"),
        4,
        ["1 : i64 should be of base attribute affine_map"],
    ),
    "dimension of another kind": (
        [],
        GENERIC.replace(
            "linalg.index INDEX : index", '"linalg.index"() <{dim = "x"}> : () -> index'
        ),
        4,
        ['"x" should be of base attribute integer'],
    ),
    "no such dimension": (
        ["-p", "convert-buffers-to-llvm"],
        GENERIC.replace("INDEX", "64"),
        4,
        ["there is no dimension 64 of 1 loops"],
    ),
    "linalg of buffers": (
        ["-p", "bufferize-tcp"],
        GENERIC.replace("INDEX", "0"),
        4,
        ["'linalg.generic' of tensors", "memref<4xindex>"],
    ),
    "no such mode": (
        ["-p", "convert-torch-to-tcp"],
        GRID_SAMPLER.replace("MODE", "7"),
        3,
        ["no interpolation_mode 7", "0, 1 or 2"],
    ),
    "negative mode": (
        ["-p", "convert-torch-to-tcp"],
        GRID_SAMPLER.replace("MODE", "-1"),
        3,
        ["no interpolation_mode -1"],
    ),
    "no @main": (["-t", "mil"], "builtin.module {}", 4, ["no function @main"]),
    "missing file": (["missing.mlir"], "", 2, ["missing.mlir", "No such file"]),
    "missing .pt2": (["missing.pt2"], "", 2, ["missing.pt2", "No such file"]),
    ".pt2 on standard input": (["-f", "pt2"], "", 2, ["padc-opt model.pt2"]),
    "folder": (["."], "", 2, [".", "directory"]),
    "suffix": ([__file__], "", 2, ["'py'", "-f"]),
    "output folder": (["-o", "missing/x.mlir"], CROP, 2, ["missing/x.mlir"]),
    "option": (["--frobnicate"], "", 2, ["--frobnicate"]),
    "pass": (["-p", "frobnicate"], CROP, 2, ["'frobnicate'", "--help"]),
    "pass option": (["-p", "canonicalize{a=1}"], CROP, 2, ['"a"', "--help"]),
    "choice of a pass option": (
        ["-p", "canonicalize,decompose-pads{policy=foo}"],
        CROP,
        2,
        ["no decompose-pads policy 'foo'", "choose one of auto, native, decompose"],
    ),
    "pass to print before": (["--mlir-print-ir-before=cs"], CROP, 2, ["'cs'"]),
    "reproducer from stdin": (["--run-reproducer"], CROP, 2, ["as a file"]),
    "reproducer and passes": (["--run-reproducer", "-p", "cse"], "", 2, ["--passes"]),
    "pipeline": (["-p", "canonicalize{"], CROP, 2, ["canonicalize{", "argument name"]),
    "target": (["-t", "frobnicate"], CROP, 2, ["'frobnicate'", "mil"]),
    "target option": (["-t", "mil{a=1}"], CROP, 2, ['"a"', "--help"]),
    "target syntax": (["-t", "mil{"], CROP, 2, ["mil{", "argument name"]),
    "version of Core ML": (
        ["-p", "convert-tcp-to-mil{target=iOS3}"],
        CROP,
        2,
        ["'iOS3'", "iOS15"],
    ),
}


@pytest.mark.parametrize("text", [SWAP, "%x = torch.constant.float 1.0e+23"])
def test_what_is_printed_is_parsed(text: str):
    once = printed(input=text)

    assert printed(input=once) == once


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    arguments, text, exit_code, mentioned = BAD_INPUT[case]
    monkeypatch.chdir(tmp_path)

    result = run(*arguments, input=text)

    assert result.returncode == exit_code, result.stderr
    assert "Traceback" not in result.stderr
    for part in mentioned:
        assert part in result.stderr
    assert result.stdout == ""
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_what_they_seem(pt2: Path, tmp_path: Path):
    binary, truncated = tmp_path / "binary.mlir", tmp_path / "truncated.pt2"
    binary.write_bytes(b"\xff\xfe")
    truncated.write_bytes(pt2.read_bytes()[:-500])

    for path, mentioned in (binary, "not text"), (truncated, "torch.export.save"):
        result = run(path)
        assert result.returncode == 4, result.stderr
        assert "Traceback" not in result.stderr
        assert mentioned in result.stderr


def test_unsupported_ops_with_their_lines(tmp_path: Path):
    path = saved(Unsupported(), torch.ones(3, 3), tmp_path / "unsupported.pt2")

    result = run("-t", "mil", path)

    assert result.returncode == 3
    assert "Traceback" not in result.stderr
    for part in (
        "aten.linalg_svd of",
        "q = torch.linalg.svd(x).U  # the first line",
        "aten.cummax of",
        "return q + torch.cummax(x, 0).values  # the second line",
        "test_padc_opt.py:",
    ):
        assert part in result.stderr


def test_a_failure_leaves_the_output_file_as_it_was(tmp_path: Path):
    output = tmp_path / "out.mlir"
    output.write_text("before")

    failed = run("-o", output, input="no.op")
    kept = output.read_text()
    printed("-o", output, input=CROP)

    assert (failed.returncode, kept) == (4, "before")
    assert "tcp.replication_pad" in output.read_text()
    assert list(tmp_path.iterdir()) == [output]


# --- help -----------------------------------------------------------------------


def test_help_describes_passes_without_torch():
    program = (
        "import atexit, sys; from padc.tools.padc_opt import main;"
        "atexit.register(lambda: "
        "print({'torch', 'coremltools'} & sys.modules.keys()));"
        "main(['--help'])"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )

    text = " ".join(result.stdout.split())
    assert (result.returncode, result.stderr) == (0, "")
    assert text.endswith("set()")
    ours, xdsl = text.split("passes of xDSL (")
    _, ours = ours.split("passes of padc")
    for name, pass_class in get_all_passes().items():
        assert name in ours
        assert name not in xdsl.replace(",", "").split()
        for field in fields(pass_class()):
            assert f"{field.name.replace('_', '-')}=" in ours
    assert " canonicalize," in xdsl
    assert "vector-bytes=N" in ours
    assert "tile=N " in ours
    assert " crop: a VALID transposed convolution" in ours
    assert "None" not in ours
    assert "policy=auto|native|decompose " in ours
    assert "(default: auto)" in ours


@dataclass(frozen=True)
class OptionsPass(ModulePass):
    """Show what help does with a docstring
    of two lines. This sentence is left out."""

    name = "options"

    how_often: int
    """How often it is done"""
    manner: Literal["fast", "slow"] = "fast"
    """
    The manner in which it is done. slow: with care.

    This paragraph is left out.
    """
    again: bool = False
    silent: str | None = None
    """Whom to tell. (default: nobody)"""

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


def test_help_of_options():
    assert pass_help(OptionsPass) == [
        "    options                     Show what help does with a docstring of two lines.",
        "        how-often=N             How often it is done (required)",
        "        manner=fast|slow        The manner in which it is done. slow: with care.",
        "                                (default: fast)",
        "        again=true|false        (default: false)",
        "        silent=NAME             Whom to tell. (default: nobody)",
    ]


# --- printing -------------------------------------------------------------------

PIPELINE = "canonicalize,convert-tcp-to-mil{target=iOS16},cse"


def dumps(*arguments: str) -> list[str]:
    """The headers of the IR that is printed to standard error."""
    result = run("-p", PIPELINE, *arguments, input=CROP)
    assert result.returncode == 0
    assert "mil.slice_by_index" in result.stdout
    assert "IR Dump" not in result.stdout
    return [line for line in result.stderr.splitlines() if "//" in line]


def header(when: str, class_name: str, name: str) -> str:
    return f"// -----// IR Dump {when} {class_name} ({name}) //----- //"


NAMES = (
    ("CanonicalizePass", "canonicalize"),
    ("ConvertTcpToMilPass", "convert-tcp-to-mil"),
    ("CommonSubexpressionElimination", "cse"),
)


def test_print_before_and_after_all():
    before = [header("Before", *name) for name in NAMES]
    after = [header("After", *name) for name in NAMES]

    assert dumps("--mlir-print-ir-before-all") == before
    assert dumps("--mlir-print-ir-after-all") == after
    both = dumps("--mlir-print-ir-before-all", "--mlir-print-ir-after-all")
    assert both == [line for pair in zip(before, after, strict=True) for line in pair]


def test_print_around_named_passes():
    assert dumps("--mlir-print-ir-before=cse,canonicalize") == [
        header("Before", *NAMES[0]),
        header("Before", *NAMES[2]),
    ]
    assert dumps("--mlir-print-ir-after=convert-tcp-to-mil") == [
        header("After", *NAMES[1])
    ]


def test_print_what_changed():
    assert dumps("--mlir-print-ir-after-change") == [
        header("After", *NAMES[0]),
        header("After", *NAMES[1]),
    ]
    changed = "--mlir-print-ir-after-change"
    assert dumps(changed, "--mlir-print-ir-after=cse,convert-tcp-to-mil") == [
        header("After", *NAMES[1])
    ]


def test_printed_ir_is_that_of_the_pass():
    before = run(
        "-p", PIPELINE, "--mlir-print-ir-before=convert-tcp-to-mil", input=CROP
    )
    after = run("-p", PIPELINE, "--mlir-print-ir-after=convert-tcp-to-mil", input=CROP)

    assert "tcp.pad" in before.stderr
    assert "mil.slice_by_index" not in before.stderr
    assert "tcp.pad" not in after.stderr
    assert "mil.slice_by_index" in after.stderr


# --- reproducers ----------------------------------------------------------------


class CrashPass(ModulePass):
    """A pass with a bug: it changes the IR, then raises."""

    name = "crash"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = op.body.block.first_op
        assert function is not None
        function.detach()
        weights_of(ctx).clear()
        raise IndexError("out of range")


class SwapPass(ModulePass):
    """A pass with a bug: a use comes before its definition."""

    name = "swap"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = op.body.block.first_op
        assert function is not None
        first = function.regions[0].block.first_op
        assert first is not None
        last = first.next_op
        assert last is not None
        first.detach()
        function.regions[0].block.insert_op_after(first, last)


@pytest.fixture
def broken_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = get_all_passes() | {"crash": lambda: CrashPass, "swap": lambda: SwapPass}
    monkeypatch.setattr(padc_opt, "get_all_passes", lambda: passes)


@pytest.mark.parametrize(
    ("dim", "code", "message"),
    [
        (0, 70, "IndexError: out of range"),
        (9, 4, "aten.unsqueeze: PyTorch does not take its operands: Dimension out of"),
    ],
)
def test_a_pass_that_fails_after_an_op_that_pytorch_does_not_make(
    dim: int, code: int, message: str, broken_passes: None
):
    text = f"""
      func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[1,2],f32> {{
        %i = torch.constant.int {dim}
        %y = torch.aten.unsqueeze %x, %i : !torch.vtensor<[2],f32>, !torch.int -> !torch.vtensor<[1,2],f32>
        func.return %y : !torch.vtensor<[1,2],f32>
      }}"""

    failed = run("-p", "crash", input=text)

    assert failed.returncode == code
    assert message in failed.stderr


def reproduced(tmp_path: Path, code: int, message: str, *arguments: object) -> str:
    """The text of the reproducer, which fails as `arguments` do."""
    path = tmp_path / "reproducer.mlir"
    write = f"--mlir-pass-pipeline-crash-reproducer={path}"

    failed = run(write, *arguments)
    again = run("--run-reproducer", path)

    assert failed.returncode == again.returncode == code
    assert message in failed.stderr and message in again.stderr
    assert f"padc-opt --run-reproducer {path}" in failed.stderr
    assert "reproducer" not in again.stderr
    return path.read_text()


def test_reproducer_of_a_pass_that_fails(tmp_path: Path):
    model = tmp_path / "pad.mlir"
    model.write_text(
        "func.func @main(%x : tensor<4xf32>) -> tensor<6xf32> {\n"
        "  %y = tcp.circular_pad %x lowerExpansion [1] upperExpansion [1]"
        ' : tensor<4xf32> -> tensor<6xf32> loc("model.py":7:0)\n'
        "  func.return %y : tensor<6xf32>\n}"
    )
    passes = "canonicalize,decompose-pads{policy=native},convert-tcp-to-mil"

    text = reproduced(tmp_path, 3, "at model.py:7", "-p", passes, model)

    assert '\n// passes: decompose-pads{policy="native"}\n' in text
    assert "tcp.circular_pad" in text


def test_reproducer_of_a_crash_holds_the_weights(
    pt2: Path, tmp_path: Path, broken_passes: None
):
    passes = "convert-torch-to-tcp,crash,canonicalize"

    text = reproduced(tmp_path, 70, "IndexError: out of range", "-p", passes, pt2)

    weight = torch.export.load(pt2).state_dict["conv.weight"].detach()
    assert "\n// passes: crash\n" in text
    assert "tcp.conv" in text
    assert weight.numpy().tobytes().hex().upper() in text
    assert "weights without data" not in text


def test_reproducer_says_which_weights_have_no_data(
    pt2: Path, tmp_path: Path, broken_passes: None
):
    model = tmp_path / "model.mlir"
    model.write_text(printed(pt2))

    text = reproduced(tmp_path, 70, "IndexError", "-p", "crash", model)

    assert "// weights without data: conv.bias, conv.weight\n" in text


def test_reproducer_of_a_pass_whose_result_does_not_verify(
    tmp_path: Path, broken_passes: None
):
    model = tmp_path / "model.mlir"
    model.write_text(
        "func.func @main(%x : i32) -> i32 {\n"
        "  %a = arith.muli %x, %x : i32\n"
        "  %b = arith.addi %a, %x : i32\n"
        "  func.return %b : i32\n}"
    )
    message = "'arith.addi' uses %a (operand #0), which does not dominate this use"

    text = reproduced(tmp_path, 4, message, "-p", "swap,canonicalize", model)
    failed = run("-p", "swap", "--mlir-print-ir-after-all", model)

    assert "\n// passes: swap\n" in text
    assert text.index("%a = arith.muli") < text.index("%b = arith.addi")
    assert "// -----// IR Dump After SwapPass Failed (swap) //----- //" in failed.stderr
    assert run("-p", "swap", "--disable-verify", model).returncode == 0
    with pytest.raises(VerifyException):
        VTensorType(ArrayAttr([IntAttr(2)]), IndexType())


def test_a_reproducer_that_cannot_be_written_does_not_hide_the_error(
    tmp_path: Path, broken_passes: None
):
    write = f"--mlir-pass-pipeline-crash-reproducer={tmp_path}/missing/x.mlir"

    result = run(write, "-p", "crash", input=CROP)

    assert result.returncode == 70
    assert "note: Reproducer failed" in result.stderr
    assert f"directory: '{tmp_path}/missing/x.mlir'" in result.stderr
    assert "IndexError: out of range" in result.stderr


@pytest.mark.parametrize(
    "option, message",
    [
        ("plan-buffers{guard=-64}", "plan-buffers guard is -64"),
        ("run-in-blocks{block-bytes=0}", "run-in-blocks block-bytes is 0"),
        ("plan-buffers{guard=many}", "plan-buffers guard is many"),
        ("plan-buffers{guard=1,2}", "plan-buffers guard has 2 values"),
        ("pack-weights{vector-bytes=-4}", "pack-weights vector-bytes is -4"),
        ("pack-layouts{vector-bytes=0}", "pack-layouts vector-bytes is 0"),
        ("convert-to-winograd{tile=3}", "convert-to-winograd tile is 3"),
        ("convert-to-winograd{tile=0}", "convert-to-winograd tile is 0"),
        ("convert-buffers-to-llvm{vector-bytes=6}", "vector-bytes is 6"),
        ("convert-buffers-to-llvm{grain=0}", "convert-buffers-to-llvm grain is 0"),
        ("decompose-pads{policy=native,auto}", "decompose-pads policy has 2 values"),
    ],
)
def test_options_that_a_pass_does_not_take(option: str, message: str):
    result = run("-p", option, input="")

    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    "pass_name",
    ["pack-layouts", "pack-weights", "convert-to-winograd", "bufferize-tcp"],
)
@pytest.mark.parametrize(
    "end, message",
    [
        ("cf.br ^next\n ^next:\n return", "@f has 2 blocks, expected one"),
        ('"test.termop"() : () -> ()', "@f does not end in 'func.return'"),
    ],
)
def test_functions_that_are_no_single_block(pass_name: str, end: str, message: str):
    result = run("-p", pass_name, input=f"func.func @f() {{ {end} }}")

    assert result.returncode == 4
    assert message in result.stderr


def test_nothing_is_written_without_a_failure(tmp_path: Path):
    path = tmp_path / "reproducer.mlir"
    write = f"--mlir-pass-pipeline-crash-reproducer={path}"

    assert run(write, "-p", "canonicalize", input=CROP).returncode == 0
    assert run(write, "-p", "canonicalize", input="no.op").returncode == 4
    assert not path.exists()


def test_a_file_that_is_no_reproducer(tmp_path: Path):
    path = tmp_path / "crop.mlir"
    path.write_text(CROP)

    result = run("--run-reproducer", path)

    assert result.returncode == 4
    assert "crop.mlir is not a reproducer" in result.stderr
