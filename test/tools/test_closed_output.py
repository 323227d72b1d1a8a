"""Standard output that cannot be written to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
COMMANDS = {
    "padc same": ["padc", "same", "--size", "5", "--kernel", "3"],
    "padc --help": ["padc", "--help"],
    "padc-opt": ["padc_opt"],
    "padc-opt --help": ["padc_opt", "--help"],
}


@pytest.mark.skipif(os.name == "nt", reason="it takes a shell of POSIX")
@pytest.mark.parametrize("command", COMMANDS)
def test_no_standard_output(command: str):
    module, *arguments = COMMANDS[command]
    run = [sys.executable, "-m", f"padc.tools.{module}", *arguments]

    result = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *run],
        input="builtin.module {}",
        stderr=subprocess.PIPE,
        text=True,
    )

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("buffering", [[], ["-u"]], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(command: str, buffering: list[str]):
    module, *arguments = COMMANDS[command]
    with FULL.open("w") as output:
        result = subprocess.run(
            [sys.executable, *buffering, "-m", f"padc.tools.{module}", *arguments],
            input="builtin.module {}",
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )

    message = "error: cannot write to standard output: No space left on device\n"
    assert result.stderr.removeprefix("padc: ") == message
    assert result.returncode == 2
