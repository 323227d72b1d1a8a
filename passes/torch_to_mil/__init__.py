"""
From what is left of ATen to Core ML's ops.

Passes, in the order in which they run, and the files that serve them:

    convert_torch_to_mil       replaces each ATen op by Core ML's ops
      lowerings                the table of all rows
      mil_call                 the call that a row takes
      tensor                   values whose operators insert Core ML's ops
      functions                functions of floats that Core ML lacks
      movement, parts, indices, matrices, contraction
                               what rows of several families share
      builtin_types            arguments, constants and results
      control_flow             branches and loops
      widened_integers         int8 and int16 as int32, for targets without them
    convert_model_buffers_to_states
                               makes changed buffers states
      states_policy            which ones

Every other file holds the rows of a family of ATen ops. A row says how an op is
computed with Core ML's ops, and for which dtypes.
"""
