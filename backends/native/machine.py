# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""LLVM for this CPU: from its IR to object files, and from these to addresses."""

from __future__ import annotations

import functools
import itertools
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as binding
from llvmlite import ir

from padc.backends.native import shared_work, vector_instructions
from padc.passes.buffers_to_llvm.shared_calls import ENTER, WORKER

_names = itertools.count()
_lock = threading.Lock()
"""All modules share one LLVM context, which one thread may use at a time."""


@dataclass(frozen=True)
class Cpu:
    """A CPU that machine code is for, by LLVM's names."""

    triple: str
    name: str
    features: str
    """`+` or `-` before each, as in `+avx2,-avx512f`."""

    @functools.cached_property
    def machine(self) -> Any:
        """LLVM's code generator."""
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        return binding.Target.from_triple(self.triple).create_target_machine(
            cpu=self.name, features=self.features, opt=3, reloc="pic", jit=True
        )

    @property
    def vector_bytes(self) -> int:
        """The length of the vector registers in bytes."""
        features = self.features.split(",")
        for name, length in (("+avx512f", 64), ("+avx", 32)):
            if name in features:
                return length
        return 16

    @property
    def attributes(self) -> Sequence[str]:
        """The attributes that each function gets."""
        # LLVM would copy each short row of a pad by a call of memcpy, which takes
        # longer than a loop (bench/pads.py).
        found = ['"no-builtins"']
        if self.vector_bytes == 64:
            # LLVM prefers half as long vectors on many CPUs that have these.
            found.append('"prefer-vector-width"="512"')
        if self.name.startswith("znver"):
            # LLVM's cost models of these CPUs unroll loops to thousands of
            # instructions, which takes longer to compile and makes ResNet-50 and
            # MobileNetV2 10 to 15 % slower.
            found.append('"tune-cpu"="haswell"')
        return found


@functools.cache
def host() -> Cpu:
    """
    The CPU that this runs on; without AVX-512 if `PADC_AVX512` is 0.

    All of a process is for the same CPU: this is decided at the first call.
    """
    whole = Cpu(
        binding.get_default_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
    )
    if os.environ.get("PADC_AVX512") != "0" or whole.vector_bytes < 64:
        return whole
    return without_avx512(whole)


def without_avx512(cpu: Cpu) -> Cpu:
    """A CPU as if it were one of those with AVX2."""
    features = re.sub(r"\+(?=avx512|avx10)", "-", cpu.features)
    return Cpu(cpu.triple, "haswell", features)


def machine_name() -> str:
    """All that object files depend on: the CPU, attributes of functions, and LLVM."""
    cpu = host()
    return (
        f"{cpu.name} {cpu.features} {' '.join(cpu.attributes)} "
        f"LLVM {binding.llvm_version_info}"
    )


def compile_object(module: ir.Module) -> bytes:
    """An optimized object file of an LLVM module."""
    cpu = host()
    with _lock:
        return cpu.machine.emit_object(optimized(module, cpu))


def assembly(module: ir.Module, cpu: Cpu) -> str:
    """The optimized assembly of an LLVM module, to be read."""
    with _lock:
        return cpu.machine.emit_assembly(optimized(module, cpu))


def optimized(module: ir.Module, cpu: Cpu) -> Any:
    """An LLVM module after LLVM's passes; the caller holds `_lock`."""
    attached, has_instructions = cpu.attributes, False
    for function in module.functions:
        if not function.is_declaration:
            # The `add` of llvmlite's attribute set refuses attributes that are strings.
            set.update(function.attributes, attached)
        if function.name.endswith(WORKER):
            # It only loads arguments: LLVM's passes would find nothing to do.
            set.update(function.attributes, ["noinline", "optnone"])
        if found := vector_instructions.attributes(function.name):
            set.update(function.attributes, found)
            has_instructions = True
    parsed = binding.parse_assembly(str(module))
    if ENTER in module.globals:
        parsed.link_in(binding.parse_assembly(shared_work.text(cpu.triple)))
    if has_instructions:
        parsed.link_in(binding.parse_assembly(vector_instructions.declarations()))
    parsed.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    # Kernels hold as many accumulators as there are registers already. More copies
    # of their loops take a third of the compile time, and up to 9 % of the speed.
    options.loop_unrolling = False
    # Inlining would lose that the pointer arguments of kernels do not alias.
    options.inlining_threshold = 0
    builder = binding.create_pass_builder(cpu.machine, options)
    builder.getModulePassManager().run(parsed, builder)
    if has_instructions:
        parsed.link_in(binding.parse_assembly(vector_instructions.definitions()))
        inline = binding.create_new_module_pass_manager()
        inline.add_always_inliner_pass()
        inline.run(parsed, builder)
    return parsed


class Code:
    """Machine code in memory; its addresses are valid while this object lives."""

    def __init__(self, object_file: bytes, symbols: Sequence[str]):
        with _lock:
            self._jit = binding.create_lljit_compiler(host().machine)
            library = binding.JITLibraryBuilder().add_object_img(object_file)
            library.add_current_process()
            for symbol in symbols:
                library.export_symbol(symbol)
            self._tracker: Any = library.link(self._jit, f"padc_{next(_names)}")

    def address(self, symbol: str) -> int:
        """The address of a function of the object file."""
        return self._tracker[symbol]
