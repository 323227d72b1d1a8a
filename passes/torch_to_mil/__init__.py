"""
From what is left of ATen to Core ML's ops.

Passes, in the order in which they run, and the files that serve them:

    convert_torch_to_mil       replaces each ATen op by Core ML's ops
      aten                     a row for each ATen op
      builtin_types            arguments, constants and results
      control_flow             branches and loops
      widened_integers         int8 and int16 as int32, for targets without them
    convert_model_buffers_to_states
                               makes changed buffers states
      states_policy            which ones
"""
