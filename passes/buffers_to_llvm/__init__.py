"""How functions of buffers become LLVM's."""

from padc.passes.buffers_to_llvm.function import (
    Module,
    declare_library,
    lower_function,
)

__all__ = ["Module", "declare_library", "lower_function"]
