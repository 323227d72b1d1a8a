"""
From buffers to LLVM's dialect.

Pass: `convert_buffers_to_llvm`. Every other file serves it.
"""
