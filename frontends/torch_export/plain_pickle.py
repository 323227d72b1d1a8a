# pyright: basic, reportPrivateUsage=false
"""
Pickles of plain data in an archive that `torch.save` wrote.

`torch.load(weights_only=True)` runs no code either, but builds bytes and counters of
any size from a few bytes, and hands out bytes, which PyTorch unpickles again. Here an
instruction, a class or a function that plain data does not need is refused.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch

from padc.common.archive import Archive, UnsafeError
from padc.common.pt2_tensors import check_expanded, check_sizes, end_of
from padc.frontends.torch_export.stored_tensors import read_blob, view_of

VALUES = (
    torch.Tensor, int, float, complex, str, type(None), tuple, list, dict, torch.dtype,
    torch.device,
)  # fmt: skip
MOST_CHARACTERS = 200
MOST_BYTES = 2**22
"""Bytes of a pickle, without those of its tensors."""
KEYS = str | int | float | None
"""What a key of a dictionary may be: its hash takes no time."""
INSTRUCTIONS = (
    pickle.PROTO, pickle.STOP, pickle.MARK, pickle.NONE, pickle.NEWTRUE,
    pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1,
    pickle.BINFLOAT, pickle.BINUNICODE, pickle.EMPTY_TUPLE, pickle.TUPLE,
    pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_LIST, pickle.APPEND,
    pickle.APPENDS, pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS, pickle.BINPUT,
    pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET, pickle.GLOBAL,
    pickle.REDUCE, pickle.NEWOBJ, pickle.BUILD, pickle.BINPERSID,
)  # fmt: skip


def load_plain(archive: Archive) -> Any:
    """
    Tensors, numbers and texts in tuples, lists and dictionaries.

    Raises UnsafeError, to be read after "it is pickled and", if the archive holds
    anything else, and ValueError if it is damaged.
    """
    content = archive.read("data.pkl", MOST_BYTES)
    try:
        return Plain(io.BytesIO(content), archive).load()
    except UnsafeError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:MOST_CHARACTERS]}"
        raise ValueError(f"a pickle in it is damaged: {reason}") from error


def are_arguments(value: Any) -> bool:
    """Whether these are arguments by position and by keyword."""
    return type(value) is tuple and list(map(type, value)) == [tuple, dict]


def are_tensors(value: Any) -> bool:
    """Whether this is a dictionary of tensors."""
    return isinstance(value, dict) and all(
        isinstance(each, torch.Tensor) for each in value.values()
    )


class Plain(pickle._Unpickler):
    """Python's unpickler, of which only some instructions are left."""

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, file: io.BytesIO, archive: Archive):
        super().__init__(file)
        self.archive = archive
        self.storages: dict[str, torch.UntypedStorage] = {}

    def find_class(self, module: str, name: str) -> Any:
        known = CLASSES.get(f"{module}.{name}")
        if known is None:
            raise UnsafeError(f"names {module[:80]}.{name[:80]}")
        return known

    def persistent_load(self, pid: Any) -> Storage:
        """The storage of tensors that a member holds."""
        match pid:
            case ("storage", torch.dtype() as dtype, str() as key, _, int() as count):
                pass
            case _:
                raise UnsafeError("a storage is not as PyTorch describes them")
        member, size = f"data/{key}", count * dtype.itemsize
        if self.archive.size(member) != size:
            raise UnsafeError(f"the member {member} does not have {size} bytes")
        if key not in self.storages:
            self.storages[key] = read_blob(self.archive, member)
        return Storage(self.storages[key], dtype)

    def set_items(self, dictionary: Any, items: Sequence[Any]) -> None:
        keys = items[::2]
        if not isinstance(dictionary, dict) or not all(
            isinstance(k, KEYS) for k in keys
        ):
            raise UnsafeError("a key is no name or number")
        dictionary.update(zip(keys, items[1::2], strict=True))

    def load_setitem(self) -> None:
        *_, key, value = self.stack
        del self.stack[-2:]
        self.set_items(self.stack[-1], [key, value])

    def load_setitems(self) -> None:
        items = self.pop_mark()
        self.set_items(self.stack[-1], items)

    def load_appends(self) -> None:
        items = self.pop_mark()
        self.extend(items)

    def load_append(self) -> None:
        self.extend([self.stack.pop()])

    def extend(self, items: Sequence[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise UnsafeError("appends to what is no list")
        self.stack[-1].extend(items)

    def load_newobj(self) -> None:
        self.stack.pop()
        if self.stack[-1] is not Dropped:
            raise UnsafeError("makes an object")
        self.stack[-1] = Dropped()

    def load_build(self) -> None:
        """Drop the version of a state dict, its `_metadata`."""
        self.stack.pop()
        if type(self.stack[-1]) not in (OrderedDict, Dropped):
            raise UnsafeError("sets attributes")

    def refuse(self) -> None:
        raise UnsafeError("holds more than tensors, numbers and texts")

    dispatch: ClassVar[dict[int, Any]] = {
        **dict.fromkeys(pickle._Unpickler.dispatch, refuse),
        **{code[0]: pickle._Unpickler.dispatch[code[0]] for code in INSTRUCTIONS},
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.APPEND[0]: load_append,
        pickle.APPENDS[0]: load_appends,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.BUILD[0]: load_build,
    }


class Dropped:
    """What PyTorch attaches to example inputs, which say which sizes vary."""

    def __init__(self, *_: Any) -> None:
        pass


class Storage:
    """A storage, and the dtype of its elements."""

    def __init__(self, bytes: torch.UntypedStorage, dtype: torch.dtype):
        self.bytes, self.dtype = bytes, dtype


def rebuild_tensor(
    storage: Storage,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    requires_grad: bool,
    hooks: Any,
    metadata: Any = None,
) -> torch.Tensor:
    """What `torch._utils._rebuild_tensor_v2` does."""
    if hooks or metadata:
        raise UnsafeError(
            "a tensor has hooks, or is conjugated or negated (resolve_conj() or "
            "resolve_neg() it before the export)"
        )
    # Sums of numbers of other types may wrap around.
    if not all(type(each) is int for each in (offset, *shape, *strides)):
        raise UnsafeError("a size is no integer")
    check_sizes("in it", offset, shape, strides)
    end = end_of(storage.dtype.itemsize, offset, shape, strides)
    size = storage.bytes.nbytes()
    if end > size:
        raise UnsafeError(f"a tensor needs {end} bytes of {size}")
    tensor = view_of(storage.bytes, storage.dtype, offset, shape, strides)
    check_expanded("a tensor in it", tensor.nbytes, size)
    return tensor.requires_grad_(requires_grad)


def rebuild_tensor_of_new_dtype(
    storage: Storage,
    offset: int,
    shape: Sequence[int],
    strides: Sequence[int],
    requires_grad: bool,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> torch.Tensor:
    """What `torch._utils._rebuild_tensor_v3` does."""
    typed = Storage(storage.bytes, dtype)
    return rebuild_tensor(typed, offset, shape, strides, requires_grad, hooks, metadata)


def rebuild_parameter(
    data: torch.Tensor, requires_grad: bool, hooks: Any, attributes: Any = None
) -> torch.nn.Parameter:
    """What `torch._utils._rebuild_parameter` does, without attributes."""
    return torch.nn.Parameter(data, requires_grad=requires_grad)


def rebuild_from_type(
    make: Any, kind: Any, values: Sequence[Any], attributes: Any
) -> torch.Tensor:
    """What `torch._tensor._rebuild_from_type_v2` does, without attributes."""
    if make not in MAKERS or kind not in TENSORS:
        raise UnsafeError("holds a tensor of another class")
    return make(*values)


MAKERS = rebuild_tensor, rebuild_tensor_of_new_dtype, rebuild_parameter
TENSORS = "Tensor", "Parameter"


def function(make: Callable[..., Any]) -> Callable[..., Any]:
    """A class as a function, so that no other attribute of it is at hand."""
    return lambda *values: make(*values)


CLASSES: Mapping[str, Any] = {
    "__builtin__.complex": function(complex),  # as Python 2 called it
    "collections.OrderedDict": lambda: OrderedDict(),
    "torch.Size": function(torch.Size),
    "torch.device": function(torch.device),
    "torch._utils._rebuild_tensor_v2": rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_of_new_dtype,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
    "torch.Tensor": "Tensor",
    "torch.nn.parameter.Parameter": "Parameter",
    "__builtin__.set": Dropped,
    "torch._dynamo.decorators._DimRange": Dropped,
    "torch.storage.UntypedStorage": torch.uint8,
    **{
        f"torch.{name}": value
        for name, value in vars(torch).items()
        if isinstance(value, torch.dtype) and not name.startswith(("q", "bits"))
    },
    **{
        f"torch.{name}": dtype
        for dtype, name in torch.storage._dtype_to_storage_type_map().items()
        if not name.startswith("Q")
    },
}
"""What pickles may name."""
