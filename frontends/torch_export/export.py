# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""
Modules to exported programs, and these to modules again.

What PyTorch raises becomes an error about the user's model: `UsageError` where the
model or its arguments are wrong, `UnsupportedError` where `torch.export` cannot trace
the model.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

from padc.common.log_levels import log_level
from padc.errors import (
    InvalidProgramError,
    Problem,
    SourceLocation,
    UnsupportedError,
    UsageError,
    first_line,
)
from padc.frontends.torch_export.asked_sizes import bounds_asked_for, keep_asked_sizes
from padc.frontends.torch_export.data_accesses import UNTRACED, DataAccesses
from padc.frontends.torch_export.dynamic_pools import DynamicPools
from padc.frontends.torch_export.equal_sizes import with_equal_sizes
from padc.frontends.torch_export.locations import error_location, inner_lines
from padc.frontends.torch_export.unguarded_ops import UnguardedOps


@contextlib.contextmanager
def tracing() -> Generator[None]:
    """
    Trace one program at a time: PyTorch's tracing modes belong to the process.

    The lock is Dynamo's own, since `torch.compile` traces too.
    """
    # Importing it takes a second, and torch.export loads it anyway.
    from torch._dynamo.convert_frame import compile_lock

    with compile_lock:
        yield


def export_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """
    `torch.export.export`, where a failure is an error about the user's model.

    Args:
        module: The model.
        args: Example arguments by position. A tensor that occurs twice is two inputs;
            torch.export alone would take it for one.
        kwargs: Example arguments by keyword.
        dynamic_shapes: As in `torch.export.export`. Dimensions with the same bounds
            become one if the model needs them to be equal.

    Returns:
        The exported program.

    Raises:
        UsageError: The model itself fails on these inputs, or `dynamic_shapes` does
            not fit it.
        UnsupportedError: torch.export cannot trace the model.
    """
    args, named = distinct_tensors((args, dict(kwargs or {})))
    asked = bounds_asked_for(module, args, named, dynamic_shapes)
    try:
        with assigned_buffers(module) as assigned:
            exported = trace(module, args, named, dynamic_shapes)
    except Exception as error:
        reason, location = explain(error), error_location(error)
        if (equal := with_equal_sizes(dynamic_shapes, reason)) is not None:
            return export_module(module, args, named, dynamic_shapes=equal)
        accesses = DataAccesses() if UNTRACED in reason else None
        with accesses or contextlib.nullcontext():
            check_runs(module, args, named)
        if accesses is not None and (problems := accesses.problems(module)):
            raise UnsupportedError(problems) from error
        if "dynamic_shapes" in reason or "Constraints violated" in reason:
            raise UsageError(
                f"the dynamic shapes do not fit the model: {reason}",
                location=location,
                hint="change the bounds; where the model fixes a size, as recurrent "
                "layers do with a length, leave it static",
            ) from error
        problem = Problem(
            f"torch.export cannot trace the model: {reason}",
            location,
            way_around(error),
        )
        raise UnsupportedError([problem]) from error
    keep_asked_sizes(exported, asked)
    # Where the program does not read the old value, nothing depends on the new one.
    if problems := [assigned[name] for name in assigned if is_read(exported, name)]:
        raise UnsupportedError(problems)
    return exported


def is_read(exported: ExportedProgram, buffer: str) -> bool:
    """Whether a program uses the value that a buffer has before the call."""
    used = {node.name for node in exported.graph.nodes if node.users}
    specs = exported.graph_signature.input_specs
    return any(spec.target == buffer and spec.arg.name in used for spec in specs)


@contextlib.contextmanager
def assigned_buffers(module: torch.nn.Module) -> Generator[dict[str, Problem]]:
    """
    The buffers of submodules that `forward` assigns while it is traced.

    torch.export records an assignment to a buffer of the model itself only.
    """
    modules: dict[str, torch.nn.Module] = dict(module.named_modules())
    names = {
        id(each): name
        for name, each in modules.items()
        if name and next(each.buffers(recurse=False), None) is not None
    }
    found: dict[str, Problem] = {}
    if not names:
        yield found
        return

    def record(self: torch.nn.Module, name: str, value: Any) -> None:
        # Other threads may make modules, of TorchScript too.
        known = id(self) in names
        old = self.__dict__.get("_buffers", {}).get(name) if known else None
        if old is not None and old is not value:
            buffer = f"{names[id(self)]}.{name}"
            caller = traceback.extract_stack(limit=2)[0]
            found[buffer] = Problem(
                f"the model assigns its buffer '{buffer}', which torch.export does "
                "not record in a submodule",
                SourceLocation(caller.filename, caller.lineno or 0),
                f"change it in place: self.{name}.copy_(value)",
            )
        assign(self, name, value)

    with tracing():
        assign: Any = torch.nn.Module.__setattr__
        torch.nn.Module.__setattr__ = record
        try:
            yield found
        finally:
            torch.nn.Module.__setattr__ = assign


def module_of(ep: ExportedProgram) -> torch.nn.Module:
    """
    `ep.module()`, with code that is right whatever the arguments are called.

    PyTorch's own code assigns `input_1 = input; input_2 = input_1` where arguments are
    called `input` and `input_1`, and computes with `input` twice. Raises
    InvalidProgramError if PyTorch cannot make one, as of a file whose inputs have names
    that come of each other.
    """
    try:
        module = ep.module()
    except Exception as error:
        raise InvalidProgramError(
            f"PyTorch cannot make a module of the program: {first_line(error)}"
        ) from error
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        node.name = f"padc_argument_{number}"
    module.recompile()
    return module


def distinct_tensors(values: Any) -> Any:
    """The same tree, where a tensor that occurs again is replaced by a clone."""
    seen: set[int] = set()

    def distinct(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.clone()
        seen.add(id(tensor))
        return without_base(tensor)

    return pytree.tree_map_only(torch.Tensor, distinct, values)


def without_base(tensor: torch.Tensor) -> torch.Tensor:
    """
    The same tensor, but not as a view of another.

    torch.export would guard the sizes of the other one, which later inputs do not have.
    """
    is_plain = type(tensor) is torch.Tensor and tensor.layout == torch.strided
    if tensor._base is None or not is_plain or tensor.is_quantized:
        return tensor
    if tensor.is_conj() or tensor.is_neg():  # Its elements are not as in memory.
        return tensor
    own = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    place = tensor.storage_offset(), tensor.shape, tensor.stride()
    own.set_(tensor.untyped_storage(), *place)
    return own.requires_grad_(tensor.requires_grad)


def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
) -> ExportedProgram:
    """`torch.export.export`, without its prints if it fails."""
    if not dynamic_shapes:
        return traced(module, args, kwargs, dynamic_shapes, [])
    try:
        # The ops of the pools, too, are traced without guards.
        modes = UnguardedOps(), DynamicPools()
        return traced(module, args, kwargs, dynamic_shapes, modes)
    except Exception as error:
        # Without guards, a size of 1 in the example is no reason to broadcast.
        with contextlib.suppress(Exception):
            return traced(module, args, kwargs, dynamic_shapes, [DynamicPools()])
        raise error


def traced(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    modes: Sequence[TorchFunctionMode],
) -> ExportedProgram:
    """The same with these modes, the outermost one first."""
    # PyTorch prints the graph where it cannot trace on.
    printing = contextlib.redirect_stderr(io.StringIO())
    with contextlib.ExitStack() as stack:
        for each in tracing(), inner_lines(), quiet(), *modes:
            stack.enter_context(each)
        printed = stack.enter_context(printing)
        exported = torch.export.export(
            module, args, kwargs, dynamic_shapes=dynamic_shapes
        )
    print(printed.getvalue(), end="", file=sys.stderr)
    return exported


def check_runs(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise UsageError if the model fails without torch.export, too."""
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    except Exception as error:
        raise UsageError(
            f"the model fails on the inputs it is given: {explain(error)}",
            location=error_location(error),
            hint="give it inputs of the shapes and dtypes that it takes",
        ) from error


ADVICE = re.compile(
    r"For more information, run with TORCH_LOGS=\S*"
    r"|If you're using mark_dynamic.*"
    r"|consider using data-dependent friendly APIs.*"
    r"|Caused by: .*"
    r"|Framework stack:(?:\n(?!  - ).*)*"
    r"|(?:For extended logs|The error above occurred when)[\s\S]*"
)
"""Advice on PyTorch in its errors, without the bounds of sizes that it suggests."""


def explain(error: Exception) -> str:
    """The text of an error of PyTorch about the model, without advice on PyTorch."""
    lines = ADVICE.sub("", str(error)).splitlines()
    text = "\n".join(line.rstrip() for line in lines if line.strip())
    return f"{type(error).__name__}: {text}"


HINTS = {
    "GuardOnDataDependentSymNode": "sizes and branches cannot depend on values: use "
    "torch.where, or torch.cond, instead of an `if`",
    "DataDependentOutputException": "Python cannot depend on values: use torch.where, "
    "or torch.cond, instead of an `if`",
    "DynamicOutputShapeException": "its sizes depend on values: compute it before, as "
    "a constant, or write it with torch.where",
}
"""What to do instead, by the class of PyTorch's error."""


def way_around(error: Exception) -> str:
    """How to avoid what torch.export cannot trace."""
    name = type(error).__name__
    if "one_hot" in str(error) and name in HINTS:
        return "give one_hot its num_classes"
    return HINTS.get(
        name, "torch.export.draft_export lists everything that it cannot trace"
    )


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Keep PyTorch from logging what padc raises as an error."""
    with log_level("torch", logging.CRITICAL), warnings.catch_warnings():
        # PyTorch warns about its own way to pickle exported programs.
        warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")
        yield
