# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Run padc's modules with upstream MLIR, from the torch-mlir wheel.

A module is printed by xDSL, then parsed and verified by upstream, lowered by its
passes, and run by its ExecutionEngine. No code of padc takes part after printing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence

import torch
import torch_mlir._mlir_libs._torchMlir  # noqa: F401 (registers passes)
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.ir import Context, Module
from torch_mlir.passmanager import PassManager
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    MemRefType,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from padc.ir.tcp import fill_type
from padc.ir.torch.tensors import torch_dtype

TO_BUFFERS = (
    "one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map}",
)
"""From tensors to memrefs; a module of memrefs has nothing for it to do."""
TO_LLVM = (
    # The library that copies strided memrefs is not in the wheel.
    "func.func(refback-munge-memref-copy)",
    "convert-linalg-to-loops",
    "convert-scf-to-cf",
    "memref-expand",
    "expand-strided-metadata",
    "lower-affine",
    # LLVM would call a runtime library for bf16, which is not there.
    "arith-expand{include-bf16}",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "func.func(llvm-request-c-wrappers)",
    "convert-to-llvm",
    "reconcile-unrealized-casts",
)
MLIR_OPT = shutil.which(os.environ.get("MLIR_OPT", "mlir-opt-22"))
"""Debian's, where it is installed."""
Argument = torch.Tensor | int | float


def parsed(text: str) -> Module:
    """A module of upstream, in a context of its own; MLIRError where it is refused."""
    module = Module.parse(text, Context())
    module.operation.verify()
    return module


def lowered(text: str, passes: Sequence[str]) -> Module:
    """A module after upstream's passes."""
    module = parsed(text)
    with module.context:
        pipeline = f"builtin.module({','.join(passes)})"
        PassManager.parse(pipeline).run(module.operation)
    return module


def canonicalized(text: str) -> str:
    """A module as upstream's canonicalizer leaves it."""
    return str(lowered(text, ["canonicalize"]))


def canonicalized_by_mlir_opt(text: str) -> str:
    """The same by `MLIR_OPT`, with a verifier and a canonicalizer of its own."""
    assert MLIR_OPT is not None
    command = [MLIR_OPT, "--canonicalize", "--mlir-print-op-generic", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return done.stdout


def run_upstream(
    module: ModuleOp,
    *inputs: Argument,
    rewrite: Callable[[str], str] = str,
    entry: str = "main",
) -> tuple[torch.Tensor, ...]:
    """What upstream computes; see `compiled`."""
    return compiled(module, rewrite, entry)(*inputs)


def compiled(
    module: ModuleOp, rewrite: Callable[[str], str] = str, entry: str = "main"
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """One function of a module; see `compiled_entries`."""
    (call,) = compiled_entries(module, entry, rewrite=rewrite)
    return call


def compiled_entries(
    module: ModuleOp, *entries: str, rewrite: Callable[[str], str] = str
) -> list[Callable[..., tuple[torch.Tensor, ...]]]:
    """
    Functions of a module of tensors or memrefs, compiled together by upstream.

    Each takes PyTorch tensors of the dtypes of the types, and numbers for scalars, and
    has the results as new tensors; memrefs that it takes it may write to. The module's
    text goes through `rewrite` first.
    """
    types: list[FunctionType] = []
    for entry in entries:
        function = SymbolTable.lookup_symbol(module, entry)
        assert isinstance(function, FuncOp)
        types.append(function.function_type)
    module = module.clone()
    remove_signs(module)
    # Programs of tests run once: not worth optimizing.
    engine = ExecutionEngine(
        lowered(rewrite(str(module)), [*TO_BUFFERS, *TO_LLVM]), opt_level=0
    )
    return [
        caller(engine, entry, type) for entry, type in zip(entries, types, strict=True)
    ]


def caller(
    engine: ExecutionEngine, entry: str, types: FunctionType
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function of an engine as one of PyTorch tensors."""

    class Results(ctypes.Structure):
        _fields_ = [(f"_{i}", descriptor(type)) for i, type in enumerate(types.outputs)]

    def call(*inputs: Argument) -> tuple[torch.Tensor, ...]:
        results = Results()
        arguments = [
            argument(x, type) for x, type in zip(inputs, types.inputs, strict=True)
        ]
        if types.outputs.data:
            arguments.insert(0, ctypes.pointer(results))
        engine.invoke(entry, *map(ctypes.pointer, arguments))
        return tuple(
            tensor(getattr(results, f"_{i}"), type)
            for i, type in enumerate(types.outputs)
        )

    return call


def remove_signs(module: ModuleOp) -> None:
    """Write unsigned tensors as signless ones: upstream computes with no others."""
    for op in module.walk():
        for value in (
            *op.results,
            *(arg for r in op.regions for b in r.blocks for arg in b.args),
        ):
            if isinstance(value.type, TensorType | MemRefType):
                Rewriter.replace_value_with_new_type(value, signless(value.type))
        if isinstance(op, FuncOp):
            types = op.function_type
            op.function_type = FunctionType.from_lists(
                [*map(signless, types.inputs)], [*map(signless, types.outputs)]
            )
    for op in list(module.walk()):
        if isinstance(op, UnrealizedConversionCastOp):
            (source,), (result,) = op.operands, op.results
            assert source.type == result.type
            result.replace_all_uses_with(source)
            Rewriter.erase_op(op)


def signless(type: Attribute) -> Attribute:
    match type:
        case TensorType():
            return TensorType(
                fill_type(type.element_type), type.get_shape(), type.encoding
            )
        case MemRefType():
            return MemRefType(
                fill_type(type.element_type),
                type.get_shape(),
                type.layout,
                type.memory_space,
            )
        case _:
            return type


# Arguments and results as upstream's C interface has them.


def descriptor(type: Attribute) -> type[ctypes.Structure]:
    """A memref descriptor for a type of known rank."""
    assert isinstance(type, TensorType | MemRefType)
    sizes = ctypes.c_int64 * type.get_num_dims()

    class Descriptor(ctypes.Structure):
        _fields_ = [
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            # C has no arrays without elements.
            *([("shape", sizes), ("strides", sizes)] if type.get_num_dims() else []),
        ]

    return Descriptor


def argument(x: Argument, type: Attribute):
    if isinstance(x, torch.Tensor):
        sizes = [x.shape, x.stride()] if x.dim() else []
        arrays = [(ctypes.c_int64 * x.dim())(*size) for size in sizes]
        made = descriptor(type)(x.data_ptr(), x.data_ptr(), 0, *arrays)
        return ctypes.pointer(made)
    if isinstance(type, IndexType):
        return ctypes.c_int64(int(x))
    dtype = torch_dtype(type)
    bits = torch.tensor(x, dtype=dtype)
    return (ctypes.c_byte * bits.element_size()).from_buffer_copy(
        bytes(bits.reshape(1).view(torch.uint8).tolist())
    )


def tensor(memref, type: Attribute) -> torch.Tensor:
    """A copy of the memory that a descriptor describes."""
    assert isinstance(type, TensorType | MemRefType)
    dtype = torch_dtype(type.element_type)
    rank = type.get_num_dims()
    shape, strides = (list(memref.shape), list(memref.strides)) if rank else ([], [])
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    reach = 1 + sum(
        (size - 1) * step for size, step in zip(shape, strides, strict=True)
    )
    begin = memref.aligned + memref.offset * dtype.itemsize
    data = bytearray(ctypes.string_at(begin, reach * dtype.itemsize))
    return torch.frombuffer(data, dtype=dtype).as_strided(shape, strides).clone()
