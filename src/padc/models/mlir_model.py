"""Programs that were read from MLIR text, as models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from padc.errors import (
    InvalidProgramError,
    Obstacle,
    Problem,
    SourceLocation,
    UnsupportedError,
    UsageError,
    first_line,
)
from padc.ir import make_context
from padc.ir.dominance import verify
from padc.ir.main_function import main, value_names
from padc.ir.mil import MilOp
from padc.ir.mil_types import StateType
from padc.ir.torch import is_any_tensor
from padc.ir.torch.size_ranges import size_ranges
from padc.ir.torch.tensors import torch_dtype
from padc.ir.weights import weights_of
from padc.models.checked_ops import check_aten_ops
from padc.models.interpreter import Interpreter
from padc.models.parsing import parse_module

__all__ = ["MlirModel"]


class MlirModel(torch.nn.Module):
    """
    A program in MLIR text, at the torch, tcp or mil level; `forward` interprets it.

    torch-mlir's text is at the torch level. Programs with ops of Core ML, at the mil
    level, can be converted and verified, and run as packages on this machine. They
    cannot be called: the reference does not have these ops.

    Args:
        path: A `.mlir` file with a function `@main`, and the data of its weights.

    Raises:
        UsageError: There is no such file.
        InvalidProgramError: It is not MLIR, does not verify, or declares results of
            other types than PyTorch gives them.

    Example:
        >>> import torch
        >>> from pathlib import Path
        >>> from padc.models.mlir_model import MlirModel
        >>> text = '''
        ... func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
        ...   %y = torch.aten.relu %x
        ...      : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
        ...   func.return %y : !torch.vtensor<[2],f32>
        ... }
        ... '''
        >>> _ = Path("relu.mlir").write_text(text)
        >>> model = MlirModel("relu.mlir")
        >>> model.input_names, model.output_names
        (['input_0'], ['output_0'])
        >>> model.core_ml_op is None
        True
        >>> model.outputs
        [tensor(..., device='meta', size=(2,))]
        >>> arguments, keywords = model.example_inputs
        >>> [x.shape for x in arguments], keywords
        ([torch.Size([2])], {})
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = str(path)
        self.context, self.module = parse(path)
        self.function = function = main(self.module)
        if len(function.body.blocks) > 1:
            raise InvalidProgramError(f"@main of {path} has branches")
        inputs, outputs = function.function_type.inputs, function.function_type.outputs
        for type in (*inputs, *outputs):
            if not isinstance(type, StateType):
                described(type)
        function.arg_attrs = named("input", inputs, function.arg_attrs)
        function.res_attrs = named("output", outputs, function.res_attrs)
        weights = weights_of(self.context)
        self.interpreter = Interpreter(self.module, weights, is_trusted=False)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """
        Interpret the program with the reference.

        Buffers that the program changes keep their new values for the next call.

        Args:
            *inputs: A tensor for each input, of its shape and dtype, in order.

        Returns:
            The outputs, in order.

        Raises:
            UsageError: The inputs do not fit.
            UnsupportedError: The reference does not have an op of the program.

        Example:
            >>> model(torch.tensor([-1.0, 1.0]))
            (tensor([0., 1.]),)
        """
        self.check_reference()
        return self.interpreter(*inputs)

    @property
    def core_ml_op(self) -> Operation | None:
        """The first op of Core ML; None if the program is above the mil level."""
        ops = (op for op in self.module.walk() if isinstance(op, MilOp))
        return next(ops, None)

    def check_reference(self) -> None:
        """
        Refuse a program that the reference does not run.

        Raises:
            UnsupportedError: The program has ops of Core ML.

        Example:
            >>> model.check_reference()
        """
        if (op := self.core_ml_op) is not None:
            message = (
                f"{self.path} has ops of Core ML, as '{op.name}': the reference does "
                "not have them"
            )
            hint = "padc run runs this one as a package"
            raise UnsupportedError(
                [Problem(message, SourceLocation.of(op.location), hint)]
            )

    def program(self) -> tuple[Context, ModuleOp]:
        """
        Copy the program, to lower it.

        Returns:
            A context, which has the weights, and the module. The weights share the
            memory of the original.

        Example:
            >>> context, module = model.program()
            >>> [op.name for op in module.ops]
            ['func.func']
        """
        ctx = make_context()
        weights_of(ctx).update(weights_of(self.context))
        return ctx, self.module.clone()

    @property
    def example_inputs(self) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
        """Random inputs, normal or 0 and 1, and no keyword arguments."""
        generator = torch.Generator().manual_seed(0)
        arguments = [self.function.args[i] for i in self.interpreter.arguments]
        return tuple(example(each, generator) for each in arguments), {}

    @property
    def input_names(self) -> list[str]:
        """The name of each input in a package."""
        names = value_names(self.function.arg_attrs)
        return [names[i] for i in self.interpreter.arguments]

    @property
    def output_names(self) -> list[str]:
        """The name of each output in a package."""
        names = value_names(self.function.res_attrs)
        return [names[i] for i in self.interpreter.results]

    @property
    def outputs(self) -> list[torch.Tensor]:
        """A tensor without data for each output, of its dtype and rank."""
        types = self.function.function_type.outputs.data
        returned = [types[i] for i in self.interpreter.results]
        return [
            torch.empty([max(n, 0) for n in shape], dtype=dtype, device="meta")
            for dtype, shape in map(described, returned)
        ]


def parse(path: str | Path) -> tuple[Context, ModuleOp]:
    """The verified module in a file, and the context that holds its weights."""
    ctx = make_context()
    try:
        text = Path(path).read_text()
        module = parse_module(ctx, text, str(path))
        verify(module)
        check_aten_ops(module)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidProgramError(f"{path} is not text: {error}") from error
    except (ParseError, DiagnosticException) as error:
        raise InvalidProgramError(f"{path} is not valid MLIR: {error}") from error
    return ctx, module


def named(
    kind: str, values: Iterable[object], attributes: ArrayAttr[DictionaryAttr] | None
) -> ArrayAttr[DictionaryAttr]:
    """The attributes of arguments or results, with a `padc.name` for each."""
    given = attributes or [DictionaryAttr({}) for _ in values]
    made = ArrayAttr(
        DictionaryAttr({"padc.name": StringAttr(f"{kind}_{i}"), **each.data})
        for i, each in enumerate(given)
    )
    for name, count in Counter(value_names(made)).items():
        if count > 1:
            raise InvalidProgramError(
                f"@main has {count} {kind}s with the name '{name}'"
            )
    return made


def example(argument: BlockArgument, generator: torch.Generator) -> torch.Tensor:
    """Random values for an argument; dynamic sizes have their lower bound, or 2."""
    dtype, shape = described(argument.type)
    try:
        lowest = iter(
            max(each.lower, min(each.upper, 2)) for each in size_ranges(argument)
        )
    except Obstacle as error:
        raise InvalidProgramError(f"an argument {error.message}") from error
    sizes = [next(lowest, 2) if size == DYNAMIC_INDEX else size for size in shape]
    return random_values(sizes, dtype, generator)


def random_values(
    sizes: Sequence[int], dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Normal for floats, 0 or 1 for other dtypes."""
    try:
        if dtype.is_floating_point:
            return torch.randn(sizes, generator=generator).to(dtype)
        return torch.randint(0, 2, sizes, generator=generator).to(dtype)
    except RuntimeError as error:
        raise UsageError(
            f"random values of shape {sizes}: {first_line(error)}"
        ) from error


def described(type: Attribute) -> tuple[torch.dtype, Sequence[int]]:
    """The dtype and the sizes of a tensor type."""
    if is_any_tensor(type):
        with suppress(ValueError, VerifyException):
            return torch_dtype(type.element_type), type.get_shape()
    raise InvalidProgramError(
        f"@main has an argument or a result of type {type}",
        hint="use tensors of known dtype and rank",
    )
