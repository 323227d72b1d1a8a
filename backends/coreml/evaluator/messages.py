# pyright: basic
"""
The protobuf messages of a saved package, without coremltools.

`messages.binpb` is a `FileDescriptorSet` of coremltools' mlmodel/format/Model.proto,
FeatureTypes.proto and MIL.proto, written by `tools/update_messages.py`. Their license
is in `messages.LICENSE.txt`. The messages have a descriptor pool of their own, so that
they do not clash with coremltools' generated classes.
"""

import functools
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

__all__ = ["DecodeError", "Message", "model_class"]

Message = Any
"""A protobuf message; its class is made at run time and carries no types."""


@functools.cache
def model_class() -> Any:
    """The class of the message `Model`, the root of a package's protobuf."""
    content = Path(__file__).with_name("messages.binpb").read_bytes()
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(content).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("CoreML.Specification.Model"))
