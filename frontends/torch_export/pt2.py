# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
"""
`.pt2` files to exported programs, without running code that they bring.

`torch.export.load` unpickles what a file says, evaluates its texts, and loads machine
code. Here the archive, its graph and its pickles are checked first, and PyTorch only
gets the parsed graph and tensors. What the check does not know is refused.

PyTorch has no public function that takes the parts of a file: `torch._export.serde` is
private, and the same in PyTorch 2.8 to 2.15.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch._export.serde import schema, serialize
from torch.export import ExportedProgram

from padc.common.paths import path_of
from padc.errors import InvalidProgramError, UsageError
from padc.frontends.torch_export.archive import Archive, UnsafeError
from padc.frontends.torch_export.consistency import check_consistency
from padc.frontends.torch_export.export import quiet
from padc.frontends.torch_export.program_text import check_name, check_program

WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
GRAPH, EXAMPLES = "models/model.json", "data/sample_inputs/model.pt"
MOST_TEXT = 2**27
"""Bytes of JSON, and of a pickle, that are read."""
MOST_VALUES = 100_000
"""Values in the example inputs."""
MOST_EXPANDED = 2**30
"""Bytes of a tensor that is larger than its storage, since strides are 0."""


def load(path: str | Path, *, trust: bool = False) -> ExportedProgram:
    """
    The program in a `.pt2` file that `torch.export.save` wrote.

    Args:
        path: The file.
        trust: Load it with `torch.export.load`, which runs code that the file brings.
            Otherwise a file that needs this, or is not as PyTorch writes it, is
            refused.

    Returns:
        The program, with its example inputs.

    Raises:
        UsageError: There is no such file, or it may run code.
        InvalidProgramError: The file does not hold an exported program.

    Example:
        >>> import padc, torch
        >>> ep = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
        >>> torch.export.save(ep, "relu.pt2")
        >>> padc.load("relu.pt2").graph_signature.user_inputs
        ('input',)
    """
    path = path_of(path)
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with quiet():
            define_quantized_ops()
            if trust:
                return torch.export.load(path)
            with path.open("rb") as file:
                return read_program(Archive(file))
    except UnsafeError as error:
        raise UsageError(
            f"{path} is not safe to load: {error}",
            hint="if you trust its author and where you got it from, set trust=True "
            "(--trust): loading it can then run any code",
        ) from error
    except Exception as error:
        raise InvalidProgramError(
            f"{path} is not a program that torch.export.save wrote: {error}",
            hint="write it with torch.export.save and the same version of PyTorch",
        ) from error


def define_quantized_ops() -> None:
    """Define the ops `quantized_decomposed`, which PyTorch has in a library apart."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.ao.quantization.fx._decomposed")


def read_program(archive: Archive) -> ExportedProgram:
    """The program in an archive; raises UnsafeError unless all of it is plain data."""
    check_format(archive)
    graph: Any = json.loads(archive.read(GRAPH, MOST_TEXT))
    check_program(graph)
    state = read_tensors(archive, WEIGHTS, "model_weights_config.json")
    constants = read_tensors(archive, CONSTANTS, "model_constants_config.json")
    examples: Any = None
    if EXAMPLES in archive and archive.size(EXAMPLES):
        examples = read_pickle(archive, EXAMPLES)
    program: Any = serialize._dict_to_dataclass(schema.ExportedProgram, graph)
    loaded = serialize.ExportedProgramDeserializer().deserialize(
        program, state, constants, examples
    )
    check_consistency(loaded)
    return loaded


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


def read_tensors(
    archive: Archive, folder: str, config_name: str
) -> dict[str, torch.Tensor]:
    """The weights or the constants of the program, by name."""
    tensors: dict[str, torch.Tensor]
    if f"{folder}model.pt" in archive:  # up to 2.8
        tensors = dict(read_pickle(archive, f"{folder}model.pt"))
    else:
        config: Any = json.loads(archive.read(f"{folder}{config_name}", MOST_TEXT))
        tensors = read_blobs(archive, folder, config["config"])
    for name in tensors:
        check_name(name)
    return tensors


def read_blobs(
    archive: Archive, folder: str, config: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The tensors that a file with their sizes describes, each a view of a blob."""
    views = {name: View(name, meta) for name, meta in config.items()}
    used: dict[str, list[View]] = {}
    for view in views.values():
        used.setdefault(folder + view.blob, []).append(view)
    for blob, users in used.items():
        check_blob(archive, blob, users)
    storages = {blob: read_blob(archive, blob) for blob in used}
    return {name: view.of(storages[folder + view.blob]) for name, view in views.items()}


class View:
    """A tensor whose bytes are in a blob."""

    def __init__(self, name: str, meta: Mapping[str, Any]):
        self.name = name
        self.blob: str = meta["path_name"]
        if meta["use_pickle"]:
            raise UnsafeError(f"the tensor {name} is pickled, in {self.blob}")
        tensor = meta["tensor_meta"]
        self.dtype = serialize._SERIALIZE_TO_TORCH_DTYPE[tensor["dtype"]]
        self.shape = [int(size["as_int"]) for size in tensor["sizes"]]
        self.strides = [int(stride["as_int"]) for stride in tensor["strides"]]
        self.offset = int(tensor["storage_offset"]["as_int"])
        self.is_parameter: bool = meta["is_param"]
        self.requires_grad: bool = tensor["requires_grad"]
        self.device: str = tensor["device"]["type"]
        if min([0, self.offset, *self.shape, *self.strides]) < 0:
            raise UnsafeError(f"the tensor {name} has a negative size")

    @property
    def end(self) -> int:
        """The bytes of the storage up to the tensor's last element."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        last = self.offset + sum((size - 1) * stride for size, stride in steps)
        return (last + 1) * self.dtype.itemsize

    def of(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """The tensor, as a view of its storage."""
        tensor = torch.empty(0, dtype=self.dtype)
        tensor.set_(storage, self.offset, self.shape, self.strides)
        tensor = tensor.to(self.device)
        if self.is_parameter:
            return torch.nn.Parameter(tensor, requires_grad=self.requires_grad)
        return tensor.requires_grad_(self.requires_grad)


def check_blob(archive: Archive, blob: str, views: list[View]) -> None:
    """Raise UnsafeError unless a blob has the size of the tensors in it."""
    size = archive.size(blob)
    name, end = max(((view.name, view.end) for view in views), key=lambda each: each[1])
    if size < end:
        raise ValueError(f"the tensor {name} needs {end} bytes, {blob} has {size}")
    if size > end:
        raise UnsafeError(
            f"{blob} has {size} bytes, more than the {end} of the tensor {name} (a "
            "view of a larger tensor is saved with all of it: clone() it before the "
            "export)"
        )
    for view in views:
        check_expanded(view.name, math.prod(view.shape) * view.dtype.itemsize, size)


def check_expanded(name: str, expanded: int, stored: int) -> None:
    """Raise UnsafeError if a tensor is huge, and its storage is small."""
    if expanded > max(stored, MOST_EXPANDED):
        raise UnsafeError(f"{name} has {stored} bytes that become {expanded}")


def read_blob(archive: Archive, blob: str) -> torch.UntypedStorage:
    """A member, as the storage of tensors."""
    content = torch.empty(archive.size(blob), dtype=torch.uint8)
    archive.read_into(blob, content.numpy())
    return content.untyped_storage()


def read_pickle(archive: Archive, name: str) -> Any:
    """
    Tensors, numbers and texts in containers, which `torch.save` wrote.

    Raises UnsafeError if the pickle names any other class or function.
    """
    data = io.BytesIO(archive.read(name, archive.size(name)))
    inner = Archive(cast(IO[bytes], data))
    inner.read("data.pkl", MOST_TEXT)
    data.seek(0)
    try:
        loaded = torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"names {named[1]}" if named else "holds more than tensors"
        raise UnsafeError(f"its member {name} is pickled and {what}") from error
    for number, value in enumerate(values_in(loaded)):
        if number > MOST_VALUES:
            raise UnsafeError(f"its member {name} has more than {MOST_VALUES} values")
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            stored = value.untyped_storage().nbytes()
            check_expanded(f"a tensor in {name}", value.nbytes, stored)
    return loaded


def values_in(tree: Any) -> Iterator[Any]:
    """The values of nested containers, each as often as it occurs."""
    waiting = [iter([tree])]
    while waiting:
        for value in waiting[-1]:
            yield value
            if len(waiting) > MOST_VALUES:
                raise UnsafeError("its example inputs contain themselves")
            if isinstance(value, dict):
                waiting.append(iter(cast(dict[Any, Any], value).values()))
                break
            if isinstance(value, list | tuple | set):
                waiting.append(iter(cast(list[Any], value)))
                break
        else:
            waiting.pop()
