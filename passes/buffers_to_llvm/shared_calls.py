"""
Calls of kernels whose work is shared, and the functions around them.

A function `f` with such calls becomes two: `f` prepares a frame and enters `f_body`,
which one thread runs, while others help with the parts of kernels. The calls are

    padc_enter(body, frame, table, threads, runtime)    runs body(table, frame)
    padc_share(worker, frame, most)    runs worker(frame, part, parts) for each part

of functions that the backend defines. `table` holds the arguments of `f`, which start
with `threads` and `runtime`; `most` is the most threads that are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import scratch
from padc.passes.buffers_to_llvm.llvm_builder import POINTER, LlvmBuilder, Size

ENTER, SHARE = "padc_enter", "padc_share"
LEAST = 128
"""
The least work, in grains, for which starting threads saves time.

That is 0.1 to 0.2 ms; waking a thread that sleeps took a millisecond (bench.networks).
"""
WORKER = "_part"
"""The suffix of the names of workers."""
HEAD = 24
"""The 64-bit words of a frame in front of a kernel's arguments, for the backend."""
TABLE_HEAD = 2
"""The words of a table in front of the function's own arguments."""


def worker(kernel: str, types: Sequence[Attribute]) -> llvm.FuncOp:
    """A function that calls a kernel for a part, with arguments from a frame."""
    region = Region(Block(arg_types=[POINTER, i64, i64]))
    frame, part, parts = region.block.args
    build = LlvmBuilder(region, region.block)
    arguments = [
        build.load(build.address(frame, HEAD + i, i64), type)
        for i, type in enumerate(types)
    ]
    build.do(llvm.CallOp(kernel, part, parts, *arguments))
    build.do(llvm.ReturnOp())
    type = llvm.LLVMFunctionType([POINTER, i64, i64])
    return llvm.FuncOp(worker_name(kernel), type, body=region)


def worker_name(kernel: str) -> str:
    return kernel + WORKER


def function_address(build: LlvmBuilder, name: str) -> SSAValue:
    def make() -> SSAValue:
        address = build.insert(llvm.AddressOfOp(name, POINTER))
        # llvmlite types it by the type of the function.
        return build.insert(llvm.BitcastOp(address, POINTER))

    return build.known(("function", name), make)


class SharedCalls:
    """A function that may call kernels whose work is shared."""

    def __init__(self, build: LlvmBuilder, entry: Block):
        self.build = build
        self.entry = entry
        self.frame: SSAValue | None = None
        """The second parameter of the function; None until there is such a call."""
        self.words = HEAD
        """The size of the frame."""
        self.grains: int | None = 0
        """The work of all calls, in grains; None if it is dynamic."""
        self.times: int | None = 1
        """How often calls run, in the loops around them; None if that is dynamic."""

    def call(self, kernel: str, arguments: Sequence[SSAValue], most: Size) -> None:
        """Call the worker of `kernel` on up to `most` threads."""
        build = self.build
        if not isinstance(most, int) or self.times is None:
            self.grains = None
        elif self.grains is not None:
            self.grains += most * self.times
        if self.frame is None:
            self.frame = self.entry.insert_arg(POINTER, 1)
        for i, argument in enumerate(arguments):
            build.store(argument, self.word(HEAD + i))
        self.words = max(self.words, HEAD + len(arguments))
        function = function_address(build, worker_name(kernel))
        build.do(llvm.CallOp(SHARE, function, self.frame, build.value(most)))

    def word(self, number: int) -> SSAValue:
        """The address of a word of the frame."""
        build, frame = self.build, self.frame
        assert frame is not None
        return build.known(("word", number), lambda: build.address(frame, number, i64))

    def functions(self, name: str, region: Region) -> list[llvm.FuncOp]:
        """The function `name`, whose body is `region`, or the two that it becomes."""
        if self.frame is None:
            return [external(name, region)]
        type = llvm.LLVMFunctionType([POINTER, POINTER])
        body = llvm.FuncOp(f"{name}_body", type, body=region)
        outer = Region(Block(arg_types=[POINTER]))
        (table,) = outer.block.args
        build = LlvmBuilder(outer, outer.block)
        is_little = self.grains is not None and self.grains < LEAST
        threads = build.value(1) if is_little else build.load(table, i64)
        runtime = build.load(build.address(table, 1, i64), POINTER)
        frame = scratch(build, self.words, i64).pointer
        address = function_address(build, f"{name}_body")
        build.do(llvm.CallOp(ENTER, address, frame, table, threads, runtime))
        build.do(llvm.ReturnOp())
        return [body, external(name, outer)]


def external(name: str, region: Region) -> llvm.FuncOp:
    linkage = llvm.LinkageAttr("external")
    return llvm.FuncOp(name, llvm.LLVMFunctionType([POINTER]), linkage, body=region)
