"""The table of ops, and the types with which a kernel declares its inputs.

An op is a Python function whose parameters carry the names of the op's inputs, and
the documented defaults of the optional ones. The annotations say what an input
must be; the program is checked against them when it is loaded. Tensors are numpy arrays
of the dtypes of `Dtype.held_as`. The function returns a value, or a tuple of values.

Two parameters are not inputs: `result` is the type of the op's first output, and
`blocks` are the blocks inside of the op, ready to be called with their inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated, Any

from padc.backends.coreml.evaluator.values.types import Array

Float = Annotated[Array, "fp16 or fp32"]
Int = Annotated[Array, "an integer type"]
Number = Annotated[Array, "a float or integer type"]
Bool = Annotated[Array, "bool"]

Kernel = Callable[..., Any]

AnyValue = Annotated[Any, "a value of any type"]
Blocks = list[Callable[..., list[Any]]]


@dataclass(frozen=True)
class Op:
    """One version of an op."""

    kernel: Kernel
    since: int
    """The first opset that has it: 5 is iOS15's CoreML5, 8 is iOS18's CoreML8."""
    parameters: dict[str, Parameter]


class UnknownValueError(Exception):
    """An input has a value whose meaning is not documented."""


OPS: dict[str, list[Op]] = {}
"""The versions of each op type, oldest first."""


def op(*names: str, since: int = 5) -> Callable[[Kernel], Kernel]:
    """Register a function as the ops `names`, from opset `since` on."""

    def register(kernel: Kernel) -> Kernel:
        entry = Op(kernel, since, dict(signature(kernel).parameters))
        for name in names or (kernel.__name__,):
            versions = OPS.setdefault(name, [])
            assert all(known.since < since for known in versions), name
            versions.append(entry)
        return kernel

    return register


def find(name: str, opset: int) -> Op | None:
    """The op `name` as `opset` has it."""
    versions = [entry for entry in OPS.get(name, ()) if entry.since <= opset]
    return versions[-1] if versions else None
