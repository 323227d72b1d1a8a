"""
Machine code for the CPU that padc runs on.

    exported program -- compile_model --> StoredModel
      torch and tcp  -- compile_program --> StoredProgram (partition, then each part:)
      torch and tcp  -- compile_part --> object file and Signature

`loaded_program` runs a stored program: `native_function` calls its machine code,
`torch_function` runs what could not be compiled. `cache` keeps stored models on disk.
"""

from padc.versions import require

require("native")
