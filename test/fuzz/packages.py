# pyright: basic, reportMissingTypeStubs=false
"""Packages: changes of their protobuf, and of the bytes of each of their files."""

from __future__ import annotations

import contextlib
import io
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from fuzz.changes import changed_bytes, changed_scalar
from fuzz.seed_packages import packages
from fuzz.target import Target

from padc.backends.coreml.evaluator.package import Package
from padc.coreml import Limits, check, load
from padc.errors import PadcError
from padc.packages.session import Session
from padc.tools.padc_run import random_inputs

MODEL = "Data/com.apple.CoreML/model.mlmodel"
WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"
MANIFEST = "Manifest.json"
HEADERS = 64
"""Bytes of a weight file's header, and of the one of each blob in it."""
LIMITS = Limits(elements=2**22, total=2**25, iterations=200)
TEXTS = ("", "x", "main", "CoreML5", "valid", "\0", "../x", "fp16")


class Packages(Target):
    """
    What `padc check` and `padc run` do with a package.

    A case is a zip archive of the package's files.
    """

    suffix = ".mlpackage.zip"

    def prepare(self) -> None:
        self.seeds: list[tuple[dict[str, bytes], type[Any]]] = []
        with tempfile.TemporaryDirectory() as folder:
            for name, make in packages().items():
                path = make(Path(folder, f"{name}.mlpackage"))
                files = {
                    str(file.relative_to(path)): file.read_bytes()
                    for file in sorted(path.rglob("*"))
                    if file.is_file()
                }
                self.seeds.append((files, type(Package(path).spec)))

    def case(self, rng: Random) -> bytes:
        files, message = rng.choice(self.seeds)
        names = [MODEL] * 7 + [WEIGHTS] * 2 + [MANIFEST]
        name = rng.choice([name for name in names if name in files])
        content = files[name]
        if name == MODEL and rng.random() < 0.8:
            content = changed_message(message.FromString(content), rng)
        elif name == WEIGHTS:
            content = changed_headers(content, rng)
        else:
            content = changed_bytes(content, rng)
        return zipped({**files, name: content})

    def run(self, case: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder, "m.mlpackage")
            with zipfile.ZipFile(io.BytesIO(case)) as archive:
                archive.extractall(package)
            read(package)


def zipped(files: dict[str, bytes]) -> bytes:
    """An archive of files; the same bytes for the same files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return data.getvalue()


def read(package: Path) -> None:
    """Check, load and run a package; raises the first error, after the rest was done."""
    errors: list[PadcError] = []
    try:
        check(package)
    except PadcError as error:
        errors.append(error)
    session = Session(load(package, limits=LIMITS))
    session.predict(random_inputs(0, session.inputs))
    for error in errors:
        raise error


def changed_headers(content: bytes, rng: Random) -> bytes:
    """`changed_bytes` of one header of a weight file."""
    mark = b"\xef\xbe\xad\xde"
    starts = [at for at in range(0, len(content), 64) if content[at : at + 4] == mark]
    start = rng.choice([0, *starts])
    end = start + HEADERS
    return content[:start] + changed_bytes(content[start:end], rng) + content[end:]


def changed_message(spec: Any, rng: Random) -> bytes:
    """Other values in one to three fields of the protobuf, which can still be read."""
    for _ in range(rng.randint(1, 3)):
        fields = list(walk(spec))
        # By type first: most fields are messages, few hold a number or a name.
        kind = rng.choice(sorted({type(value).__name__ for *_, value in fields}))
        same = [entry for entry in fields if type(entry[2]).__name__ == kind]
        message, field, value = rng.choice(same)
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            change_field(message, field, value, rng, same)
    return spec.SerializeToString(deterministic=True)


def walk(message: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every field that is set, as (its message, its descriptor, its value)."""
    for field, value in message.ListFields():
        yield message, field, value
        if field.type != field.TYPE_MESSAGE:
            continue
        if field.is_repeated:
            is_map = hasattr(value, "keys")
            items = [value[key] for key in sorted(value)] if is_map else value
            for item in items:
                if hasattr(item, "ListFields"):
                    yield from walk(item)
        else:
            yield from walk(value)


def change_field(message: Any, field: Any, value: Any, rng: Random, same: Any) -> None:
    """Set, clear, duplicate or reorder; raises where the field takes no such value."""
    if rng.random() < 0.1:
        message.ClearField(field.name)
    elif hasattr(value, "keys"):
        del value[rng.choice(sorted(value))]
    elif field.is_repeated:
        items = list(value)
        at, other = rng.randrange(len(items)), rng.randrange(len(items))
        match rng.randrange(4):
            case 0:
                del items[at]
            case 1:
                items.append(items[at])
            case 2:
                items[at], items[other] = items[other], items[at]
            case _:
                items[at] = changed_scalar(items[at], rng, TEXTS)
        # Their messages would go with the list.
        copies = (
            [type(it).FromString(it.SerializeToString()) for it in items]
            if (field.type == field.TYPE_MESSAGE)
            else items
        )
        del value[:]
        value.extend(copies)
    elif field.type == field.TYPE_MESSAGE:
        source = rng.choice(same)[2]
        # The source may have `value` in it, which would be copied without an end.
        value.CopyFrom(type(source).FromString(source.SerializeToString()))
    elif field.type == field.TYPE_STRING:
        strings = [entry[2] for entry in same]
        setattr(
            message,
            field.name,
            rng.choice([*strings, changed_scalar(value, rng, TEXTS)]),
        )
    else:
        setattr(message, field.name, changed_scalar(value, rng, TEXTS))
