"""A module of LLVM functions, each kernel once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.access_check import CheckedOps
from padc.passes.buffers_to_llvm.kernels import Kernel
from padc.passes.buffers_to_llvm.shared_calls import worker


class LlvmModule:
    """The LLVM functions made so far; kernels of the same key share one."""

    def __init__(self, target: ModuleOp, vector_bytes: int, checked: bool, grain: int):
        self.target = target
        self.vector_bytes = vector_bytes
        self.grain = grain
        """The least work of a thread, in products."""
        self.checked = CheckedOps() if checked else None
        """The ops whose loads and stores are checked; None to check nothing."""
        self.kernels: dict[Hashable, tuple[str, Sequence[int]]] = {}
        """By key: the name, and the numbers of the values that it takes."""

    def add(self, function: llvm.FuncOp) -> None:
        self.target.body.block.add_op(function)

    def function(self, kernel: Kernel) -> tuple[str, list[SSAValue]]:
        """The name of the function of `kernel`, and the arguments that it takes."""
        if kernel.key not in self.kernels:
            outline = kernel.make()
            name = f"kernel_{len(self.kernels)}"
            self.add(outline.finished(name))
            numbers = {value: i for i, value in enumerate(kernel.values)}
            taken = [numbers[value] for value in outline.arguments]
            if outline.build.part is not None:
                self.add(worker(name, [value.type for value in outline.arguments]))
            self.kernels[kernel.key] = name, taken
        name, taken = self.kernels[kernel.key]
        return name, [kernel.values[i] for i in taken]


def declare_library(module: ModuleOp) -> None:
    """Declare the functions that `module` calls and does not define."""
    defined = {op.sym_name.data for op in module.ops if isinstance(op, llvm.FuncOp)}
    for call in [op for op in module.walk() if isinstance(op, llvm.CallOp)]:
        assert call.callee is not None
        name = call.callee.string_value()
        if name not in defined:
            defined.add(name)
            result = None if call.returned is None else call.returned.type
            type = llvm.LLVMFunctionType(list(call.args.types), result)
            external = llvm.LinkageAttr("external")
            module.body.block.add_op(llvm.FuncOp(name, type, linkage=external))
