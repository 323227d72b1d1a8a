# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""The dtypes that inputs and outputs of a package can have."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute

from padc.backends.coreml import quiet
from padc.errors import Obstacle
from padc.ir import mil_types
from padc.ir.targets import TARGETS
from padc.ir.torch.describe import element_type

with quiet():
    from coremltools.converters.mil.mil import types

OUTSIDE = {"fp32": "iOS15", "int32": "iOS15", "fp16": "iOS16", "int8": "iOS26"}
"""The first target that has inputs and outputs of each of these types."""


def pymil_dtype(type_: Attribute) -> str:
    """The element type of a tensor in pymil; Obstacle if Core ML lacks it."""
    return mil_types.element_type_name(element_type(type_))


def dtype_outside(dtype: str, target: str) -> str:
    """
    The dtype of an input that the program computes with in `dtype`.

    coremltools would replace an input of another dtype itself, except in the blocks of
    branches and loops.
    """
    since = OUTSIDE.get(dtype)
    if since is not None and TARGETS.index(since) <= TARGETS.index(target):
        return dtype
    return "int32" if "int" in dtype else "fp32"


def described_dtype(
    described: Any, dtype: str, outside: str, target: str, is_output: bool = False
) -> str:
    """
    The dtype that a description asks for, of a tensor of `dtype` in the model.

    `outside` is the dtype without a description. Raises Obstacle for a dtype that the
    tensor cannot have there.
    """
    wanted = types.builtin_to_string(described)
    is_integer = "int" in dtype
    if wanted == "int64" and is_integer:
        wanted = "int32"
    if wanted == dtype and dtype not in OUTSIDE:
        return outside
    if not (
        wanted == dtype
        or {wanted, dtype} <= {"fp16", "fp32"}
        or (is_integer and wanted == "int32")
        or (is_integer and is_output and wanted == "fp32")
        or (dtype == "bool" and wanted in ("fp16", "fp32", "int32"))
    ):
        raise Obstacle(
            f"is described with dtype {numpy_name(wanted)}",
            "describe floats as float16 or float32, integers as int32",
        )
    since = OUTSIDE[wanted]
    if TARGETS.index(since) > TARGETS.index(target):
        raise Obstacle(
            f"is described with dtype {numpy_name(wanted)}, which inputs and outputs "
            f"can have from {since} on",
            f"choose the target {since} or newer",
        )
    return wanted


def numpy_name(dtype: str) -> str:
    """The name of an element type as numpy has it."""
    return dtype.replace("fp", "float")
