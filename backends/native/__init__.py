"""
Machine code for the CPU that padc runs on.

    exported program -- compile_model --> StoredModel
      torch and tcp  -- compile_program --> StoredProgram (partition, then each part:)
      torch and tcp  -- compile_part --> object file and Signature

Compiling:

    lowered_program     what has a lowering, each ATen op once
    partition           the parts that are compiled, and those that PyTorch runs
    function_signature  the parameters of a compiled function
    machine             LLVM for this CPU
    vector_instructions
                        instructions that LLVM's IR has no ops for
    stored_program, stored_model
                        programs and models as bytes
    cache               keeps stored models on disk

Running:

    loaded_program      a stored program, part by part
    native_function     calls of machine code
    torch_function      calls of parts that could not be compiled
    shared_work, thread_team
                        the threads that machine code shares its work with
"""

from padc.versions import require

require("native")
