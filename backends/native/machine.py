# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""Machine code for this CPU from LLVM's IR, and memory to run it from."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as binding
from llvmlite import ir

_names = itertools.count()
_lock = threading.Lock()
"""LLVM's contexts, which all modules here share, are for one thread at a time."""


@functools.cache
def target_machine() -> Any:
    """The CPU that this runs on, with all that it can do."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        jit=True,
    )


def machine_name() -> str:
    """What an object file made here depends on: the CPU, what LLVM is told, LLVM."""
    features = binding.get_host_cpu_features().flatten()
    return (
        f"{binding.get_host_cpu_name()} {features} {' '.join(attributes())} "
        f"LLVM {binding.llvm_version_info}"
    )


def vector_bytes() -> int:
    """How long the vectors are that this CPU computes with."""
    features: Mapping[str, bool] = binding.get_host_cpu_features()
    for name, length in (("avx512f", 64), ("avx", 32)):
        if features.get(name):
            return length
    return 16


def attributes() -> Sequence[str]:
    """What LLVM is told of each function."""
    # Of the short rows of pads, each would be a call of memcpy, which takes longer than
    # a loop (bench/pads.py).
    found = ['"no-builtins"']
    if binding.get_host_cpu_name().startswith("znver"):
        # LLVM's models of these unroll loops to thousands of instructions, which takes
        # longer to compile, and to run: 10 to 15 % of ResNet-50 and MobileNetV2.
        found.append('"tune-cpu"="haswell"')
    return found


def compile_object(module: ir.Module) -> bytes:
    """An object file of an LLVM module, optimised."""
    told = attributes()
    for function in module.functions:
        if not function.is_declaration:
            # llvmlite's own `add` refuses attributes that are strings.
            set.update(function.attributes, told)
    with _lock:
        machine = target_machine()
        parsed = binding.parse_assembly(str(module))
        parsed.verify()
        options = binding.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.slp_vectorization = True
        # Kernels know what their pointers do not share; inlined, they would not.
        options.inlining_threshold = 0
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
        return machine.emit_object(parsed)


class Code:
    """Machine code that can be called for as long as this object lives."""

    def __init__(self, object_file: bytes, symbols: Sequence[str]):
        with _lock:
            self._jit = binding.create_lljit_compiler(target_machine())
            library = binding.JITLibraryBuilder().add_object_img(object_file)
            library.add_current_process()
            for symbol in symbols:
                library.export_symbol(symbol)
            self._tracker: Any = library.link(self._jit, f"padc_{next(_names)}")

    def address(self, symbol: str) -> int:
        return self._tracker[symbol]
