# pyright: basic
"""Files that are written as a whole or not at all."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from padc.tools.whole_file import whole_file

WRITE_AND_WAIT = """
import sys
from pathlib import Path
from padc.tools.whole_file import whole_file
with whole_file(sys.argv[1]) as new:
    Path(new).write_text("half")
    print("written", flush=True)
    sys.stdin.read()
"""


def writer(path: Path) -> "subprocess.Popen[bytes]":
    """A process that has written a half of `path`, and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_WAIT, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"written\n"
    return process


def test_what_a_killed_writer_left(tmp_path: Path):
    path = tmp_path / "o.mlir"
    killed, running = writer(path), writer(path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (own := tmp_path / ".o.mlir.mine.tmp").touch()
    assert len(list(tmp_path.iterdir())) == 3

    with whole_file(path) as new:
        Path(new).write_text("new")

    assert path.read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 3  # The one that runs has its file.
    running.communicate()
    assert running.returncode == 0
    assert path.read_text() == "half"
    assert sorted(tmp_path.iterdir()) == [own, path]


def test_permissions_are_those_of_new_files(tmp_path: Path):
    with whole_file(path := tmp_path / "o") as new:
        Path(new).write_text("new")
    (other := tmp_path / "other").write_text("new")

    assert path.stat().st_mode == other.stat().st_mode


def test_a_link_stays(tmp_path: Path):
    (target := tmp_path / "target").write_text("old")
    (link := tmp_path / "link").symlink_to(target)

    with whole_file(link) as new:
        Path(new).write_text("new")

    assert link.is_symlink() and target.read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path):
    os.mkfifo(path := tmp_path / "pipe")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    with whole_file(path) as new:
        Path(new).write_text("new")

    assert os.read(reader, 9) == b"new"
    assert list(tmp_path.iterdir()) == [path] and path.is_fifo()
    os.close(reader)


def test_a_full_disk_names_the_file(tmp_path: Path):
    (path := tmp_path / "o.mlir").write_text("before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with (
            pytest.raises(OSError, match="too large") as raised,
            whole_file(path) as new,
        ):
            Path(new).write_text("x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    assert raised.value.filename == str(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
