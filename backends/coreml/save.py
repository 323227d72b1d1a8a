# pyright: basic, reportMissingTypeStubs=false
"""
From an optimized program to a `.mlpackage` on disk.

`coremltools.convert` would copy the weights twice. This file writes them once, to their
final place.
"""

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from padc.backends.coreml import quiet
from padc.backends.coreml.app.description import Sources, to_proto
from padc.backends.coreml.blocks import line_of, operations_of
from padc.backends.coreml.checker import Finding, check
from padc.backends.coreml.evaluator.metadata_keys import (
    BUFFERS,
    LOCATIONS,
    metadata_key,
)
from padc.backends.coreml.locations import (
    DEFAULT_LOCATIONS,
    LocationsPolicy,
    relative_name,
    resolve_locations,
)
from padc.backends.coreml.model_buffers import to_json
from padc.backends.coreml.replacing import replacing
from padc.common.paths import path_of
from padc.errors import Problem, SourceLocation, UnsupportedError, UsageError

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.mil import Program
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY


def check_writable(path: str | Path) -> None:
    """Raise `UsageError` if no package can be written, or replaced, at `path`."""
    path = path_of(path)
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"cannot write to {path!r}: it is not UTF-8") from error
    if path.suffix != ".mlpackage":
        raise UsageError(
            f"cannot write to {path}: the name of a package ends in .mlpackage",
            hint=f"write to {path.with_suffix('.mlpackage')}" if path.name else None,
        )
    if not path.parent.is_dir():
        folder = path.parent
        is_missing = not folder.exists()
        why = f"there is no folder {folder}" if is_missing else f"{folder} is no folder"
        raise UsageError(f"cannot write to {path}: {why}")
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
    _write(program, {None: program}, path, target, locations)


def save_functions(
    programs: Mapping[str, Program],
    default: str,
    path: str | Path,
    target: str | None = None,
    locations: LocationsPolicy = DEFAULT_LOCATIONS,
) -> None:
    """Write programs as functions of one package, as `save_package` writes one."""
    joined: Any = Program()
    for name, program in programs.items():
        joined.add_function(name, program.functions["main"])
    joined.default_function_name = default
    joined.export_as_multifunction = True
    with quiet(), sharing_weights(joined):
        _write(joined, programs, path, target, locations)


@contextlib.contextmanager
def sharing_weights(program: Program) -> Generator[None]:
    """Let equal weights of several functions be written once."""
    deduplication: Any = PASS_REGISTRY["common::const_deduplication"]
    try:
        deduplication._deduplicate_const_across_functions(program)
        yield
    finally:
        # The ids hold for this package only; a function may also be saved in another
        # one.
        for op in operations_of(program):
            if op.op_type == "const":
                op._weight_id = None


def _write(
    program: Program,
    sources: Sources,
    path: str | Path,
    target: str | None,
    locations: LocationsPolicy,
) -> None:
    """Write a program whose functions come from these, by name; None if it has one."""
    check_writable(path)
    resolve_locations(locations)
    lines = {name: source_lines(source) for name, source in sources.items()}
    with replacing(Path(path)) as package, quiet():
        data = package / "Data" / "com.apple.CoreML"
        weights = data / "weights"
        weights.mkdir(parents=True)
        model = to_proto(program, str(weights), sources)
        metadata = model.description.metadata.userDefined
        metadata["com.github.apple.coremltools.version"] = ct.__version__
        metadata["com.github.apple.coremltools.source"] = "padc"
        for name, source in sources.items():
            if locations != "off":
                text = json.dumps(recorded(lines[name], locations))
                metadata[metadata_key(LOCATIONS, name)] = text
            if buffers := getattr(source, "changed_buffers", None):
                metadata[metadata_key(BUFFERS, name)] = to_json(buffers)
        (data / "model.mlmodel").write_bytes(
            model.SerializeToString(deterministic=True)
        )
        (package / "Manifest.json").write_text(manifest_of(data))
        if target is not None and (findings := check(package, target)):
            known = {key: at for each in lines.values() for key, at in each.items()}
            raise UnsupportedError([problem_of(each, known) for each in findings])


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
        where = line_of(op)
        if where is not None and op.op_type != "const":
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


HINTS = {
    "empty": (
        "raise the minimum of a dynamic dimension, if the op returns nothing for its "
        "smallest size; otherwise leave the op out"
    ),
    "computed": (
        "if the sizes of the inputs depend on each other, list the shapes that belong "
        "together (several inputs that have such lists need iOS 18): docs/app.md"
    ),
}
"""What a user can do about a finding, by the name of its rule."""


def problem_of(finding: Finding, lines: Mapping[str, SourceLocation]) -> Problem:
    """A finding as a part that cannot be converted, with the full path of its file."""
    where = lines.get(finding.output)
    text = str(replace(finding, location=None))
    return Problem(text, where, HINTS.get(finding.rule))


def _item(name: str, description: str) -> dict[str, str]:
    author = "com.apple.CoreML"
    return {
        "author": author,
        "description": description,
        "name": name,
        "path": f"{author}/{name}",
    }
