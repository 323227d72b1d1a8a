"""
Rewrite complex tensors as pairs of real ones, and Fourier transforms as products.

Complex inputs and outputs stay: targets that need this pass do not have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import region_dce

from padc.errors import Obstacle, Problem, SourceLocation, UnsupportedError
from padc.ir.torch import (
    AtenOp,
    ListConstructOp,
    ListType,
    ListUnpackOp,
    LiteralOp,
    ToBuiltinTensorOp,
    VTensorType,
)
from padc.ir.weights import Array, numpy_dtype, weights_of
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.refusals import refusal
from padc.passes.common.lowering import attempt
from padc.passes.complex import (
    arithmetic,
    creation,
    fourier,
    functions,
    matrices,
    parts,
    reductions,
    spectrograms,
    windows,
)
from padc.passes.complex.complex_call import (
    ROWS,
    ComplexCall,
    Split,
    is_complex,
    real_tensor,
)
from padc.passes.complex.numbers import Complex, RealTensor

__all__ = [
    "arithmetic",
    "creation",
    "fourier",
    "functions",
    "matrices",
    "parts",
    "reductions",
    "spectrograms",
    "windows",
]

ALSO_REAL = frozenset(
    name
    for name in ROWS
    if name.startswith(("aten.fft_", "aten._fft_", "aten.stft", "aten.istft"))
    or "_window" in name
    or "conj" in name
    or name in ("aten.angle", "aten.real", "aten.resolve_neg", "aten._neg_view")
)
"""Ops that are rewritten for real operands and results too."""


LEGAL = ALSO_REAL | {
    *("aten.complex", "aten.polar", "aten.imag", "aten.view_as_complex"),
    *("aten.view_as_complex_copy", "aten.view_as_real", "aten.view_as_real_copy"),
}
"""Ops that are rewritten wherever they occur."""

NO_FORM = (
    "padc has no complex form of it",
    "compute with the real and imaginary parts: torch.view_as_real(x)",
)
"""Why other ops on complex tensors are refused, and what to do instead."""

LEGAL_IF_COMPLEX = ROWS.keys()
"""Ops that are rewritten on complex tensors."""


@dataclass(frozen=True)
class SplitComplexPass(ModulePass):
    """
    Rewrite complex tensors as pairs of real ones, and transforms as products.

    It walks by itself, since `lower_ops` replaces a value by one value, and an op whose
    operand could not be split is not a problem of its own.
    """

    name = "split-complex"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        split = Split(weights_of(ctx))
        problems: list[Problem] = []
        dead: list[Operation] = []
        for each in list(op.walk()):
            if not is_rewritten(each):
                continue
            dead.append(each)
            if any(is_complex_argument(x) for x in each.operands):
                if not isinstance(each, ReturnOp):
                    problems.append(argument_problem(each))
                continue
            if not all(is_split(x, split) for x in each.operands):
                continue  # What makes the operand has been reported.
            outcome = attempt(each, partial(rewrite, split=split))
            if isinstance(outcome, Problem):
                problems.append(outcome)
        if problems:
            raise UnsupportedError(problems)
        for each in reversed(dead):
            if not isinstance(each, ReturnOp):
                Rewriter.erase_op(each)
        region_dce(op.body)


def is_complex_argument(x: SSAValue) -> bool:
    return isinstance(x, BlockArgument) and is_complex(x.type)


def argument_problem(op: Operation) -> Problem:
    return Problem(
        f"'{op.name}' takes complex numbers that are an argument",
        SourceLocation.of(op.location),
        "pass torch.view_as_real(x), and call view_as_complex in the model",
    )


def is_rewritten(op: Operation) -> bool:
    """Whether an op has complex operands or results, or is a Fourier transform."""
    if isinstance(op, AtenOp) and op.schema.name in ALSO_REAL:
        return True
    return any(is_complex(x.type) for x in (*op.operands, *op.results)) or (
        isinstance(op, AtenOp | ListUnpackOp)
        and any(is_complex_list(x) for x in (*op.operands, *op.results))
    )


def is_complex_list(x: SSAValue) -> bool:
    """Whether a value is a list of complex tensors."""
    if not isinstance(x.type, ListType):
        return False  # A constant has as many uses as the program has ops.
    if isinstance(list_ := x.owner, ListConstructOp):
        return any(is_complex(each.type) for each in list_.elements)
    return any(
        isinstance(use.operation, ListUnpackOp)
        and any(is_complex(each.type) for each in use.operation.results)
        for use in x.uses
    )


def is_split(x: SSAValue, split: Split) -> bool:
    """Whether a value is real, or its parts are known."""
    if isinstance(list_ := x.owner, ListConstructOp):
        return all(is_split(each, split) for each in list_.elements)
    if isinstance(x.owner, ListUnpackOp | AtenOp) and is_complex_list(x):
        return x in split.lists
    return not is_complex(x.type) or x in split.parts


def rewrite(op: Operation, split: Split) -> None:
    """Insert the same on real tensors; `op` is left without uses."""
    match op:
        case LiteralOp():
            split_literal(op, split)
        case ListConstructOp():
            pass
        case ListUnpackOp():
            split_unpacked(op, split)
        case AtenOp():
            split_aten(op, split)
        case _:
            raise Obstacle(
                "the model returns complex numbers", "return torch.view_as_real(x)"
            )


def split_literal(op: LiteralOp, split: Split) -> None:
    """A complex constant becomes two."""
    numbers = split.weights.array(op.value).astype(np.complex128)
    build = AtenBuilder(op)
    name = (
        op.value.resource_handle.data
        if isinstance(op.value, DenseResourceAttr)
        else "complex"
    )
    real = real_tensor(op.result.type)
    assert isinstance(real, VTensorType)
    dtype = numpy_dtype(real.element_type)

    def literal(suffix: str, part: Array) -> RealTensor:
        stored = split.weights.add(f"{name}.{suffix}", part.astype(dtype))
        type = TensorType(real.element_type, real.get_shape())
        value = LiteralOp(DenseResourceAttr.from_params(stored, type))
        return RealTensor(build.insert(ToBuiltinTensorOp(build.insert(value))), build)

    imag = literal("imag", numbers.imag) if numbers.imag.any() else None
    split.parts[op.result] = Complex(literal("real", numbers.real), imag)


def split_unpacked(op: ListUnpackOp, split: Split) -> None:
    """The elements of a list of complex tensors."""
    build = AtenBuilder(op)
    types = [real_tensor(x.type) for x in op.results]

    def unpacked(list_: SSAValue) -> list[RealTensor]:
        unpack = ListUnpackOp(list_, types)
        build.insert(unpack)
        return [
            RealTensor(build.insert(ToBuiltinTensorOp(x)), build)
            for x in unpack.results
        ]

    real, imag = split.lists[op.operand]
    imags = [None] * len(types) if imag is None else unpacked(imag)
    for old, a, b in zip(op.results, unpacked(real), imags):
        split.parts[old] = Complex(a, b)


def split_aten(op: AtenOp, split: Split) -> None:
    row = ROWS.get(op.schema.name)
    if row is None:
        raise refusal(op, NO_FORM)
    # The new ops carry its name: the products of a Fourier transform have no weights.
    call = ComplexCall(op, AtenBuilder(op, op.schema.name), split)
    made = row(call)
    if made is None:
        return
    for old, new in zip(op.results, made if isinstance(made, Sequence) else [made]):
        if isinstance(new, RealTensor):
            call.replace(old, new)
        else:
            assert is_complex(old.type), op.schema.name
            split.parts[old] = whole(new, old)


def whole(z: Complex, value: SSAValue) -> Complex:
    """`z` with parts of the shape of `value`, which one of them may broadcast to."""
    assert isinstance(value.type, VTensorType)
    shape = value.type.get_shape()
    if z.imag is None or z.imag.shape == z.real.shape:
        return z
    real = z.real if z.real.shape == shape else z.real + z.imag.zeros()
    imag = z.imag if z.imag.shape == shape else z.imag + z.real.zeros()
    return Complex(real, imag)
