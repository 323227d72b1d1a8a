# pyright: basic
"""Functions as modules, for `torch.export`; skips for what it cannot export."""

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.exc import UserError
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
)
from torch.torch_version import TorchVersion
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

Functions = Mapping[str, Callable[..., Any]]


class Function(nn.Module):
    """Calls `function`."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


class Several(nn.Module):
    """The results of several functions of the same inputs: one export for all."""

    def __init__(self, functions: Functions):
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(y for f in self.functions.values() for y in flat(f(*inputs)))


def printed(module: ModuleOp, ctx: Context) -> str:
    """The module as padc-opt prints it."""
    text = io.StringIO()
    printer = Printer(text)
    printer.print_op(module)
    printer.print_metadata(ctx.loaded_dialects)
    return text.getvalue()


def flat(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def check_each(
    functions: Functions,
    results: Iterable[Tensor],
    *inputs: Tensor,
    note: str = "",
    **tolerances: Any,
) -> None:
    """The results of `Several` are PyTorch's; the name of the first that is not."""
    remaining = iter(results)
    for name, function in functions.items():
        for expected in flat(function(*inputs)):
            torch.testing.assert_close(
                next(remaining),
                expected,
                **tolerances,
                msg=lambda message: f"{name} {note}: {message}",
            )
    assert not list(remaining)


def needs_export(model: nn.Module, args: tuple[Any, ...], dynamic_shapes: Any) -> None:
    """
    Skip the test if PyTorch is old and cannot export the model.

    2.8 guards on remainders of the sizes that a pool with a stride has, for one.
    """
    if torch.__version__ >= TorchVersion("2.13"):
        return
    try:
        torch.export.export(model, args, dynamic_shapes=dynamic_shapes)
    except (
        UserError,
        ConstraintViolationError,
        GuardOnDataDependentSymNode,
    ) as error:
        reason = str(error).partition("!")[0]
        pytest.skip(f"PyTorch {torch.__version__} cannot export it: {reason}")


def exportable(
    functions: Functions,
    args: tuple[Any, ...],
    dynamic_shapes: Any = None,
    since: str = "2.13",
) -> Functions:
    """
    The functions that this PyTorch can export: all of them from the version `since` on.

    Those that an old one cannot are named in a warning; the test is skipped if none is
    left.
    """
    if torch.__version__ >= TorchVersion(since):
        return functions
    left: dict[str, Callable[..., Any]] = {}
    for name, function in functions.items():
        try:
            torch.export.export(
                Several({name: function}), args, dynamic_shapes=dynamic_shapes
            )
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            text = f"PyTorch {torch.__version__} cannot export '{name}': {reason}"
            warnings.warn(text, stacklevel=3)
        else:
            left[name] = function
    if not left:
        pytest.skip(f"PyTorch {torch.__version__} cannot export {', '.join(functions)}")
    return left


def padded(
    x: Tensor, amounts: Sequence[int], mode: str, value: float | None = None
) -> Tensor:
    """
    `F.pad(x, amounts, mode, value)` as in PyTorch 2.13.

    2.15 checks the amounts, and then refuses a border pad whose result is empty; 2.8
    refuses a constant pad whose result is empty. 2.13 refuses a border pad only if all
    dimensions that it pads become empty.
    """
    try:
        return F.pad(x, amounts, mode, value)
    except RuntimeError as error:
        if not any(message in str(error) for message in REFUSES_EMPTY):
            raise
    sizes = list(x.shape)
    for i, amount in enumerate(amounts):
        sizes[-1 - i // 2] += amount
    return x.new_empty(sizes)  # refuses negative sizes


REFUSES_EMPTY = (
    "must be >= 1 in every dimension",
    "resulted in a negative output size",
)


def pad_last(
    x: Tensor, lower: int, upper: int, mode: str, value: float | None = None
) -> Tensor | None:
    """`x` padded by PyTorch in its last dimension; None if PyTorch refuses it."""
    try:
        # The dimension before is padded by nothing, so that the last may be empty.
        return padded(x, (lower, upper, 0, 0), mode, value)
    except RuntimeError:
        return None
