"""The driver, run as a process, as a shell does."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

BIN = Path(sys.executable).parent

CROP = """\
func.func @main(%x : tensor<4xf32>) -> tensor<2xf32> {
  %y = tcp.replication_pad %x lowerExpansion [-1] upperExpansion [-1] : tensor<4xf32> -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
"""


def run(*arguments: object, input: str = "", tool: str = "padc-opt"):
    return subprocess.run(
        [BIN / tool, *map(str, arguments)], input=input, capture_output=True, text=True
    )


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
        q = torch.linalg.qr(x).Q  # the first line
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


def test_weights_and_locations_go_to_text_and_on_to_pymil(pt2: Path):
    complete = ("--print-weights", "--print-debuginfo")
    lower = ("-p", "convert-torch-to-tcp,canonicalize,convert-tcp-to-mil")

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
    result = run("-p", "convert-tcp-to-mil,canonicalize", input=CROP, tool="xdsl-opt")

    assert (result.returncode, result.stderr) == (0, "")
    assert "mil.slice_by_index" in result.stdout
    assert "mil" in run("-t", "none", tool="xdsl-opt").stderr.rpartition("choose")[2]


def test_reader_that_stops_early():
    many = "\n".join(f"func.func private @f{i}() -> ()" for i in range(9000))

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

BAD_INPUT: dict[str, tuple[list[str], str, int, list[str]]] = {
    "text": ([], "func.func @main(", 4, ["stdin:1:", "func.func @main("]),
    "op": ([], "torch.aten.relux %x", 4, ["torch.aten.relux"]),
    "op that does not verify": (
        [],
        CROP.replace("tensor<2xf32>", "tensor<3xf32>"),
        4,
        ["tensor<3xf32>", "tensor<2xf32>"],
    ),
    "function that does not verify": (
        [],
        "func.func @main(%x : tensor<2xf32>) -> tensor<3xf32> {\n"
        "  func.return %x : tensor<2xf32>\n}",
        4,
        ["expected [tensor<3xf32>], got [tensor<2xf32>]"],
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
        "aten.linalg_qr(A: float32[3,3])",
        "q = torch.linalg.qr(x).Q  # the first line",
        "aten.cummax(self: float32[3,3], dim: 0)",
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
