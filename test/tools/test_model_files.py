"""Model files that commands refuse before they load PyTorch."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

COMMANDS = (
    "padc convert FILE -o out.mlpackage",
    "padc convert --function a=FILE --target iOS18 -o out.mlpackage",
    "padc run FILE",
    "padc verify FILE out.mlpackage",
    "padc_opt FILE",
)
CONFIG = "m/data/weights/model_weights_config.json"


def described(
    shape: Sequence[int] = (3,), stride: int = 1, use_pickle: bool = False
) -> bytes:
    """What a file says of a float32 tensor, in the member w."""
    tensor = {
        "dtype": 7, "sizes": [{"as_int": size} for size in shape],
        "strides": [{"as_int": stride} for _ in shape],
        "storage_offset": {"as_int": 0}, "requires_grad": False, "device": {"type": "cpu"},
    }  # fmt: skip
    meta = {"path_name": "w", "is_param": False, "use_pickle": use_pickle}
    return json.dumps({"config": {"w": {**meta, "tensor_meta": tensor}}}).encode()


FORMAT = {"m/archive_format": b"pt2", "m/archive_version": b"0"}
FILES: dict[str, tuple[dict[str, bytes], int, str, int]] = {
    # Its members, how they are compressed, and the message and exit code.
    "a bomb": (
        {"m/archive_format": b"pt2", "m/data/weights/w": bytes(10**8)},
        zipfile.ZIP_DEFLATED, "is compressed", 2,
    ),
    "a path that leaves": (
        {"m/archive_format": b"pt2", "m/../../x": b"0"},
        zipfile.ZIP_STORED, "leaves the archive", 2,
    ),
    "machine code": (
        {"m/data/aotinductor/model.so": b"0"},
        zipfile.ZIP_STORED, "machine code", 2,
    ),
    "a blob that is larger than its tensor": (
        {**FORMAT, CONFIG: described(), "m/data/weights/w": bytes(10**8)},
        zipfile.ZIP_STORED, "has 100000000 bytes, more than the 12", 2,
    ),
    "a huge size": (
        {**FORMAT, CONFIG: described([10**100], 0), "m/data/weights/w": bytes(4)},
        zipfile.ZIP_STORED, "a size of more than 63 bits", 2,
    ),
    "many dimensions": (
        {**FORMAT, CONFIG: described([1] * 65, 0), "m/data/weights/w": bytes(4)},
        zipfile.ZIP_STORED, "has 65 dimensions", 2,
    ),
    "a pickled weight": (
        {**FORMAT, CONFIG: described(use_pickle=True), "m/data/weights/w": bytes(12)},
        zipfile.ZIP_STORED, "is pickled", 2,
    ),
    "another archive": (
        {"m/archive_format": b"zip"}, zipfile.ZIP_STORED, "is not pt2", 4,
    ),
}  # fmt: skip
PROGRAM = """
import importlib
import sys
try:
    importlib.import_module(f"padc.tools.{sys.argv.pop(1)}").main()
finally:
    print("torch" in sys.modules, "coremltools" in sys.modules)
"""


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_harmful_archives(command: str, name: str, tmp_path: Path):
    members, compression, message, exit_code = FILES[name]
    with zipfile.ZipFile(tmp_path / "m.pt2", "w", compression) as archive:
        for member, data in members.items():
            archive.writestr(member, data)

    arguments = command.replace("FILE", "m.pt2").split()
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert result.returncode == exit_code, result.stderr
    assert message in result.stderr
    assert result.stdout == "False False\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt2"]


def test_no_file():
    arguments = [sys.executable, "-c", PROGRAM, "padc", "run", "there_is_none.pt2"]
    result = subprocess.run(arguments, capture_output=True, text=True)

    assert "there is no file there_is_none.pt2" in result.stderr
    assert (result.returncode, result.stdout) == (2, "False False\n")
