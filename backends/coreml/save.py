# pyright: basic, reportMissingTypeStubs=false
"""
From an optimized program to a `.mlpackage` on disk.

`coremltools.convert` would copy the weights twice. This file writes them once, to their
final place.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from padc.backends.coreml import BUFFERS, LOCATIONS, quiet
from padc.backends.coreml.blocks import operations_of
from padc.backends.coreml.buffers import to_json
from padc.backends.coreml.checker import Finding, check
from padc.backends.coreml.description import to_proto
from padc.backends.coreml.locations import (
    DEFAULT_LOCATIONS,
    LocationsPolicy,
    relative_name,
    resolve_locations,
)
from padc.backends.coreml.replacing import replacing
from padc.errors import Problem, SourceLocation, UnsupportedError, UsageError

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.mil import Program
    from coremltools.converters.mil.mil.scope import ScopeSource


def check_writable(path: str | Path) -> None:
    """Raise `UsageError` if no package can be written, or replaced, at `path`."""
    path = Path(path)
    if path.suffix != ".mlpackage":
        raise UsageError(
            f"cannot write to {path}: the name of a package ends in .mlpackage",
            hint=f"write to {path.with_suffix('.mlpackage')}" if path.name else None,
        )
    if not path.parent.is_dir():
        raise UsageError(f"cannot write to {path}: there is no folder {path.parent}")
    if path.exists() and not (path / "Manifest.json").is_file():
        raise UsageError(
            f"cannot write to {path}: it exists and is not a package of Core ML",
            hint="choose another name, or remove it",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {path}: no permission in {path.parent}")


def save_package(
    program: Program,
    path: str | Path,
    target: str | None = None,
    locations: LocationsPolicy = DEFAULT_LOCATIONS,
) -> None:
    """
    Write an optimized program as a `.mlpackage`, replacing an existing one.

    Equal programs give equal bytes. With a target, raises `UnsupportedError` if the
    package breaks a rule of Core ML there. If anything fails, `path` is unchanged, and
    nothing else is left.
    """
    check_writable(path)
    resolve_locations(locations)
    with replacing(Path(path)) as package, quiet():
        data = package / "Data" / "com.apple.CoreML"
        weights = data / "weights"
        weights.mkdir(parents=True)
        model = to_proto(program, str(weights))
        metadata = model.description.metadata.userDefined
        metadata["com.github.apple.coremltools.version"] = ct.__version__
        metadata["com.github.apple.coremltools.source"] = "padc"
        lines = source_lines(program)
        if locations != "off":
            metadata[LOCATIONS] = json.dumps(recorded(lines, locations))
        if buffers := getattr(program, "changed_buffers", None):
            metadata[BUFFERS] = to_json(buffers)
        (data / "model.mlmodel").write_bytes(
            model.SerializeToString(deterministic=True)
        )
        (package / "Manifest.json").write_text(manifest_of(data))
        if target is not None and (findings := check(package, target)):
            raise UnsupportedError([problem_of(each, lines) for each in findings])


def manifest_of(data: Path) -> str:
    """The manifest of a package whose data are in this folder."""
    root = _identifier(data / "model.mlmodel")
    # The weights of two models can be equal, the two ids of one package cannot.
    items = _identifier(data / "weights" / "weight.bin", root)
    manifest = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": {
            root: _item("model.mlmodel", "CoreML Model Specification"),
            items: _item("weights", "CoreML Model Weights"),
        },
        "rootModelIdentifier": root,
    }
    return json.dumps(manifest, indent=4)


def _identifier(file: Path, *more: str) -> str:
    """An id that depends on the content of a file, if it exists, and on `more`."""
    digest = ""
    if file.exists():
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join([file.name, digest, *more])))


def source_lines(program: Program) -> dict[str, SourceLocation]:
    """The line of Python that each op comes from, by the names of its outputs."""
    lines: dict[str, SourceLocation] = {}
    for op in operations_of(program):
        known = [line for line in op.scopes[ScopeSource.EXIR_STACK_TRACE] if line]
        if known and op.op_type != "const":
            # The lines of the ops around it come first.
            file, _, line = known[-1].rpartition(":")
            where = SourceLocation(file, int(line))
            lines.update((output.name, where) for output in op.outputs)
    return lines


def recorded(
    lines: Mapping[str, SourceLocation], policy: LocationsPolicy
) -> dict[str, str]:
    """The "file:line" of each op, as the package has it."""
    files = {at.file for at in lines.values()}
    names = {
        file: relative_name(file) if policy == "relative" else file for file in files
    }
    return {name: f"{names[at.file]}:{at.line}" for name, at in lines.items()}


def problem_of(finding: Finding, lines: Mapping[str, SourceLocation]) -> Problem:
    """A finding as a part that cannot be converted, with the full path of its file."""
    where = lines.get(finding.output)
    return Problem(str(replace(finding, location=None)), where)


def _item(name: str, description: str) -> dict[str, str]:
    author = "com.apple.CoreML"
    return {
        "author": author,
        "description": description,
        "name": name,
        "path": f"{author}/{name}",
    }
