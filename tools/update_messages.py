# pyright: basic, reportMissingTypeStubs=false
"""
Write the protobuf descriptors with which the evaluator reads packages.

    python -m padc.tools.update_messages

`messages.binpb` has the messages of the files in `FILES`, as the installed coremltools
defines them. Messages of other files, such as neural networks, become one empty
message: the evaluator names the kind of model that it cannot run, and does not read it.
The license of coremltools, which covers the format, is copied to
`messages.LICENSE.txt`.
"""

import importlib
from importlib.metadata import distribution
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from padc.backends.coreml import quiet

FOLDER = Path(__file__).resolve().parents[1] / "backends/coreml/evaluator"
MESSAGES = FOLDER / "messages.binpb"
LICENSE = FOLDER / "messages.LICENSE.txt"

FILES = ("FeatureTypes", "MIL", "Model")
"""The files of mlmodel/format, dependencies first."""
OTHER = "OtherModel"


def messages() -> bytes:
    """The bytes of `messages.binpb` for the coremltools that is installed."""
    with quiet():
        modules = [importlib.import_module(f"coremltools.proto.{f}_pb2") for f in FILES]
    descriptors = FileDescriptorSet(
        file=[
            FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
            for module in modules
        ]
    )
    known = {
        f".{file.package}.{message.name}"
        for file in descriptors.file
        for message in file.message_type
    }
    for file in descriptors.file:
        prune(file, known)
    return descriptors.SerializeToString(deterministic=True)


def prune(file: FileDescriptorProto, known: set[str]) -> None:
    """Let the file depend on `FILES` only, and give other types the empty message."""
    depends = [name for name in file.dependency if name.removesuffix(".proto") in FILES]
    file.dependency[:] = depends
    file.ClearField("public_dependency")
    file.ClearField("options")
    others = [
        field
        for message in file.message_type
        for field in fields(message)
        if field.type == FieldDescriptorProto.TYPE_MESSAGE
        and not any(f"{field.type_name}.".startswith(f"{name}.") for name in known)
    ]
    for field in others:
        field.type_name = f".{file.package}.{OTHER}"
    if others:
        file.message_type.add(name=OTHER)


def fields(message: DescriptorProto) -> list[FieldDescriptorProto]:
    """The fields of a message and of the messages inside it."""
    inner = [field for each in message.nested_type for field in fields(each)]
    return [*message.field, *inner]


def license_text() -> str:
    """The license of the installed coremltools."""
    dist = distribution("coremltools")
    (file,) = [f for f in dist.files or () if f.name.startswith("LICENSE")]
    return Path(str(dist.locate_file(file))).read_text()


if __name__ == "__main__":
    MESSAGES.write_bytes(messages())
    LICENSE.write_text(license_text())
