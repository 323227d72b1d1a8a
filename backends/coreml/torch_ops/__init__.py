"""
padc's lowerings as operators of coremltools' converter of PyTorch models.

A node of coremltools' graph is lowered as it is in a program of padc's:

- `arguments` reads the node's arguments, `overloads` finds the ATen op that takes them;
- `sizes` knows the bounds of the sizes that vary, `scalars` computes with sizes;
- `lowering` builds a program of that one op, lowers it, and emits its ops into the
  function that coremltools is building;
- `expansions` and `in_place` prepare a TorchScript graph before coremltools reads it:
  ops that stand for several others are written out, and writes in place become ops that
  write nothing; `views` knows how a view is written back into its base;
- `constants` keeps the integers of tensors that the model holds;
- `reshapes` leaves to Core ML what PyTorch cannot tell of sizes;
- `complex_numbers` makes tensors of them, which coremltools has;
- `exported_ranges` finds sizes that a model was not exported for, `initial_states`
  states that do not start at 0;
- `operators` registers this for the ATen ops, and warns of such sizes and states;
- `repairs` replaces coremltools' passes that would compute something else afterwards.
"""
