"""The versions of other packages that padc takes, and what `--version` prints."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from padc import versions
from padc.errors import MissingEnvironmentError

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

WITHOUT_TORCH = """
import sys
from padc.tools.{tool} import main
sys.argv = ["{tool}", "--version"]
try:
    main()
except SystemExit as exit:
    sys.exit(exit.code or "torch" in sys.modules or "coremltools" in sys.modules)
"""


def printed(*command: object) -> str:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True
    ).stdout


def test_every_command_line_prints_the_same_versions():
    text = printed(BIN / "padc", "--version")

    assert text.startswith(f"padc {version('padc')}\nPython 3.")
    for package in ("torch", "coremltools", "xdsl", "llvmlite", "numpy", "protobuf"):
        assert f"\n{package} {version(package)}\n" in text
    assert printed(sys.executable, "-m", "padc", "--version") == text
    assert printed(BIN / "padc-opt", "--version") == text
    assert printed(BIN / "padc-opt", "-v") == text


@pytest.mark.parametrize("tool", ["padc", "padc_opt"])
def test_version_needs_no_import_of_torch(tool: str):
    printed(sys.executable, "-c", WITHOUT_TORCH.format(tool=tool))


def test_version_of_what_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "PACKAGES", ("no-such-package",))

    assert versions.versions_text().endswith("\nno-such-package (not installed)")


def test_python_m_padc_is_padc():
    result = subprocess.run(
        [sys.executable, "-m", "padc", "same", "--size", "5", "--kernel", "3"],
        capture_output=True,
        text=True,
    )

    assert result.returncode == 0
    assert result.stdout == printed(BIN / "padc", "same", "--size", 5, "--kernel", 3)


def test_ranges_are_those_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    for extra, supported in versions.SUPPORTED.items():
        asked = project["optional-dependencies"][extra]
        pairs = [re.fullmatch(r"([\w-]+)(.*)", each) for each in asked]
        assert supported == {match[1]: match[2] for match in pairs if match}


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        ("2.8.0", ">=2.8,<2.16", True),
        ("2.13.0+cpu", ">=2.8,<2.16", True),
        ("2.15.1", ">=2.8,<2.16", True),
        ("2.7.1", ">=2.8,<2.16", False),
        ("2.16.0.dev20261101", ">=2.8,<2.16", False),
        ("10", ">=9,<9.1", False),
        ("2.10.0", "<2.4", False),
    ],
)
def test_is_within(found: str, wanted: str, expected: bool):
    assert versions.is_within(found, wanted) == expected


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("2.7.1", r"this needs torch>=2\.8,<2\.\d+, and torch 2\.7\.1 is installed"),
        ("3.0.0", r"this needs torch>=2\.8,<2\.\d+, and torch 3\.0\.0 is installed"),
        (None, r"this needs the package torch>=2\.8,<2\.\d+"),
    ],
)
def test_refused_version(
    found: str | None, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(versions, "installed", lambda _: found)

    with pytest.raises(MissingEnvironmentError, match=message) as raised:
        versions.require.__wrapped__("native")

    assert raised.value.hint == "pip install 'padc[native]'"


def test_the_command_line_refuses_other_versions(tmp_path: Path):
    site = tmp_path / "torch-2.7.1.dist-info"
    site.mkdir()
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1")

    result = subprocess.run(
        [BIN / "padc", "run", "model.pt2", "--inputs", "random:0"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert result.returncode == 5, result.stderr
    assert "torch 2.7.1 is installed\n  hint: pip install 'padc[" in result.stderr
