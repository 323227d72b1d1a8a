"""
Zip archives that PyTorch writes, checked before any member is read.

PyTorch stores the members of an archive one after the other, uncompressed. An archive
of any other shape is refused, so that no member can be larger than the file, no two
readers can see different members, and nothing is written anywhere.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Sequence
from typing import IO, cast

import numpy as np
import numpy.typing as npt

END_OF_DIRECTORY = struct.Struct("<4s4H2LH")
END_OF_DIRECTORY_64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR_64 = 20
"""The size of the record between the two ends."""
LOCAL_HEADER = 30
"""The size of a member's header without its name."""
LENGTHS = struct.Struct("<2H")
"""The end of that: the bytes of the name and of further fields, which follow."""
MOST_DIRECTORY_BYTES = 4 * 2**20
"""Those of a list of some 28,000 members with names of 100 letters."""
CHUNK = 2**24


class UnsafeError(Exception):
    """A file is not safe to load; the message says what in it, and why."""


class Archive:
    """
    The members of an archive, by their path without the archive's own folder.

    Raises UnsafeError if the archive is not as PyTorch writes it, and
    `zipfile.BadZipFile` if it is not an archive.
    """

    def __init__(self, file: IO[bytes]):
        self._file, size = file, file.seek(0, 2)
        check_directory(file, size)
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        for member in members:
            check_member(member)
        check_apart(members, size)
        if "serialized_exported_program.json" in self._zip.namelist():
            raise UnsafeError("it has the format of PyTorch 2.7, which is pickled")
        roots = {member.filename.partition("/")[0] for member in members}
        if len(roots) != 1:
            raise zipfile.BadZipFile(f"it has {len(roots)} folders, not one")
        self._members = {
            member.filename.partition("/")[2]: member for member in members
        }
        if len(self._members) != len(members):
            raise UnsafeError("it has several members of one name")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> Sequence[str]:
        """The paths of all members."""
        return list(self._members)

    def size(self, name: str) -> int:
        """The bytes of a member."""
        if name not in self._members:
            raise zipfile.BadZipFile(f"it has no member {name}")
        return self._members[name].file_size

    def read(self, name: str, most: int) -> bytes:
        """A member of at most `most` bytes."""
        if self.size(name) > most:
            raise UnsafeError(
                f"its member {name} has {self.size(name)} bytes, more than {most}"
            )
        return self._zip.read(self._members[name])

    def archive(self, name: str) -> Archive:
        """A member that is an archive itself, of which nothing is read yet."""
        return Archive(cast("IO[bytes]", Part(self._file, *self.place(name))))

    def place(self, name: str) -> tuple[int, int]:
        """The first byte of a member in the file, and how many it has."""
        size, member = self.size(name), self._members[name]
        self._zip.open(member).close()  # The header is that of the member.
        self._file.seek(member.header_offset + LOCAL_HEADER - LENGTHS.size)
        before = LOCAL_HEADER + sum(LENGTHS.unpack(self._file.read(LENGTHS.size)))
        begins = [each.header_offset for each in self._members.values()]
        later = [x for x in begins if x > member.header_offset]
        if member.header_offset + before + size > min(
            later, default=self._zip.start_dir
        ):
            raise UnsafeError(f"its member {name} overlaps what is after it")
        return member.header_offset + before, size

    def read_into(self, name: str, buffer: npt.NDArray[np.uint8]) -> None:
        """Fill `buffer`, which has the size of the member."""
        at = 0
        with self._zip.open(self._members[name]) as member:
            while chunk := member.read(CHUNK):
                buffer[at : at + len(chunk)] = np.frombuffer(chunk, np.uint8)
                at += len(chunk)


class Part(io.RawIOBase):
    """Some bytes of a file, as a file that can be read."""

    def __init__(self, file: IO[bytes], begin: int, size: int):
        self._file, self._begin, self._size, self._at = file, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, start[whence] + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        self._file.seek(self._begin + self._at)
        data = self._file.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


def check_directory(file: IO[bytes], size: int) -> None:
    """Raise UnsafeError unless the list of members ends the file and is small."""
    ends = END_OF_DIRECTORY_64.size + LOCATOR_64 + END_OF_DIRECTORY.size
    file.seek(max(0, size - ends))
    tail = file.read(ends)
    if len(tail) < END_OF_DIRECTORY.size:
        raise zipfile.BadZipFile("it is too short")
    end = END_OF_DIRECTORY.unpack(tail[-END_OF_DIRECTORY.size :])
    if end[0] != b"PK\x05\x06" or end[-1]:
        raise zipfile.BadZipFile(
            "it is not an archive, or does not end as PyTorch's do"
        )
    directory_bytes = end[5]
    is_large = 0xFFFFFFFF in end[5:7] or 0xFFFF in end[1:5]
    # zipfile follows a locator that nothing asks for, too.
    locator = tail[: -END_OF_DIRECTORY.size][-LOCATOR_64:]
    if is_large or locator.startswith(b"PK\x06\x07"):
        if len(tail) < ends or not tail.startswith(b"PK\x06\x06"):
            raise zipfile.BadZipFile("its list of members is damaged")
        directory_bytes = END_OF_DIRECTORY_64.unpack_from(tail)[8]
    if directory_bytes > MOST_DIRECTORY_BYTES:
        raise UnsafeError(
            f"its list of members has {directory_bytes} bytes, more than "
            f"{MOST_DIRECTORY_BYTES}"
        )


def check_member(member: zipfile.ZipInfo) -> None:
    """Raise UnsafeError unless a member is stored as it is, under a plain path."""
    name = member.orig_filename
    parts = name.split("/")
    if re.search(r"[\\:\x00-\x1f]", name) or not {"", ".", ".."}.isdisjoint(parts):
        raise UnsafeError(f"its member {name!r} has a path that leaves the archive")
    stored = member.compress_type == zipfile.ZIP_STORED
    if not stored or member.file_size != member.compress_size:
        raise UnsafeError(
            f"its member {name} is compressed: {member.compress_size} bytes become "
            f"{member.file_size}; PyTorch writes members uncompressed"
        )
    if member.flag_bits & 0x1:
        raise UnsafeError(f"its member {name} is encrypted")


def check_apart(members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Raise UnsafeError if members share bytes of the file, or reach over its end."""
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise UnsafeError(f"its member {member.filename} overlaps another")
        end = member.header_offset + LOCAL_HEADER + member.file_size
    if end > size:
        raise UnsafeError("its members are larger than the file")
