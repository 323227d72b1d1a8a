"""
What `.pt2` files are refused for, as far as that shows without PyTorch.

PyTorch takes seconds to load, and more memory than most models. A file that is no
archive, or a harmful one, is refused before.
"""

from __future__ import annotations

import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from padc.common.archive import Archive, UnsafeError
from padc.common.pt2_tensors import CONFIGS, described_tensors
from padc.errors import InvalidProgramError, UsageError, shortened

MOST_CONFIG = 2**22
"""
Bytes that describe tensors, some 14,000; more are checked with PyTorch.

To read all that is allowed takes more memory than PyTorch does.
"""


def check_file(path: Path) -> None:
    """
    Raise UsageError or InvalidProgramError for an archive that no `.pt2` file has.

    Only the list of its members is read, and what describes its tensors.
    """
    with refusals(path), path.open("rb") as file:
        archive = Archive(file)
        check_format(archive)
        for folder, config in CONFIGS.items():
            name = folder + config
            if name in archive and archive.size(name) <= MOST_CONFIG:
                described_tensors(archive, folder)


@contextmanager
def refusals(path: Path) -> Generator[None]:
    """Errors of reading a file as those that users see."""
    if not path.exists():
        raise UsageError(f"there is no file {path}")
    if not path.is_file():
        raise UsageError(f"{path} is a folder, or another thing that is not a file")
    try:
        yield
    except UnsafeError as error:
        raise UsageError(
            f"{path} is not safe to load: {error}",
            hint="if you trust its author and where you got it from, set trust=True "
            "(--trust): loading it can then run any code",
        ) from error
    except Exception as error:
        raise InvalidProgramError(
            f"{path} is not a program that torch.export.save wrote: {reason(error)}",
            hint="write it with torch.export.save and the same version of PyTorch",
        ) from error


def reason(error: Exception) -> str:
    """What an error says, in a line: PyTorch shows a node, and tracebacks."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    lines = [line for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1:
        return f"{shortened(lines[0])}: {shortened(lines[-1])}"
    return str(error)


def check_format(archive: Archive) -> None:
    """Raise an error unless the archive is of the one format that is data only."""
    compiled = [name for name in archive.names if name.startswith("data/aotinductor/")]
    if compiled:
        raise UnsafeError(f"it holds machine code, {compiled[0]}")
    if archive.read("archive_format", 16) != b"pt2":
        raise zipfile.BadZipFile("its archive_format is not pt2")
    if archive.read("archive_version", 16) != b"0":
        raise zipfile.BadZipFile("its archive_version is not 0")
    if "byteorder" in archive and archive.read("byteorder", 16) != b"little":
        raise zipfile.BadZipFile("its numbers are not little-endian")
