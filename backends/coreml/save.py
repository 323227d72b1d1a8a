# pyright: basic, reportMissingTypeStubs=false
"""
From an optimized program to a `.mlpackage` on disk.

`coremltools.convert` would copy the weights twice. This file writes them once, to their
final place.
"""

import json
import os
import uuid
from pathlib import Path

from padc.backends.coreml import BUFFERS, LOCATIONS, quiet
from padc.backends.coreml.blocks import operations_of
from padc.backends.coreml.buffers import to_json
from padc.backends.coreml.checker import check
from padc.backends.coreml.replacing import replacing
from padc.errors import Problem, UnsupportedError, UsageError

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.backend.mil.load import load as mil_to_proto
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


def save_package(program: Program, path: str | Path, target: str | None = None) -> None:
    """
    Write an optimized program as a `.mlpackage`, replacing an existing one.

    With a target, raises `UnsupportedError` if the package breaks a rule of Core ML
    there. If anything fails, `path` is unchanged, and nothing else is left.
    """
    check_writable(path)
    with replacing(Path(path)) as package, quiet():
        data = package / "Data" / "com.apple.CoreML"
        weights = data / "weights"
        weights.mkdir(parents=True)
        model = mil_to_proto(
            program,
            weights_dir=str(weights),
            specification_version=program.functions["main"].opset_version.value,
            convert_to="mlprogram",
            convert_from="milinternal",
        )
        metadata = model.description.metadata.userDefined
        metadata["com.github.apple.coremltools.version"] = ct.__version__
        metadata["com.github.apple.coremltools.source"] = "padc"
        metadata[LOCATIONS] = json.dumps(locations(program))
        if buffers := getattr(program, "changed_buffers", None):
            metadata[BUFFERS] = to_json(buffers)
        (data / "model.mlmodel").write_bytes(model.SerializeToString())
        root, items = str(uuid.uuid4()), str(uuid.uuid4())
        manifest = {
            "fileFormatVersion": "1.0.0",
            "itemInfoEntries": {
                root: _item("model.mlmodel", "CoreML Model Specification"),
                items: _item("weights", "CoreML Model Weights"),
            },
            "rootModelIdentifier": root,
        }
        (package / "Manifest.json").write_text(json.dumps(manifest, indent=4))
        if target is not None and (findings := check(package, target)):
            raise UnsupportedError(
                [Problem(str(finding), finding.location) for finding in findings]
            )


def locations(program: Program) -> dict[str, str]:
    """The "file:line" of each op, by the names of its outputs."""
    lines: dict[str, str] = {}
    for op in operations_of(program):
        known = [line for line in op.scopes[ScopeSource.EXIR_STACK_TRACE] if line]
        if known and op.op_type != "const":
            # The lines of the ops around it come first.
            lines.update((output.name, known[-1]) for output in op.outputs)
    return lines


def _item(name: str, description: str) -> dict[str, str]:
    author = "com.apple.CoreML"
    return {
        "author": author,
        "description": description,
        "name": name,
        "path": f"{author}/{name}",
    }
