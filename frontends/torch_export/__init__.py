"""
`torch.export` programs to the `torch` dialect.

- `export`: modules to exported programs, with errors for users.
- `pt2`: loads `.pt2` files as exported programs. `program_text`, `expressions` and
  `plain_pickle` make sure that loading runs no code, `schema_types` checks the types of
  fields, and `consistency` checks that sizes fit the ops.
  `stored_tensors` reads the weights, which `padc.common.pt2_tensors` checks.
- `importer`: exported programs to modules with a function `main`.
- `calls`, `scalars`, `control_flow`: a node of the graph becomes an op, or a branch or
  a loop.
- `function_builder`: the function that an import builds, and the operands of its ops.
- `nodes`: questions about the nodes of a graph.
- `symbolic_sizes`, `types`, `weights`, `output_names`, `locations`: what else the
  importer reads from a program.
- `functional`, `dropouts`: programs with ops in place, and with idle dropouts.
- `training`: what a model does in training only.
- `decompositions`: which ops PyTorch decomposes, since the path does not have them;
  `strided`, `quantized`, `fake_quantized`, `fractional_pools`, `chunked_losses`:
  decompositions of padc's own.
- `input_strides`: which strides of its inputs a program depends on.
- `expansions`: replaces calls by the graphs of their decompositions, one at a time.
- `data_accesses`: where a model reads `x.data`, which torch.export does not trace.
- `equal_sizes`: sizes that are declared separately and that must be equal;
  `dynamic_pools`: pools of dynamic sizes; `unguarded_ops`: ops that treat a size of 1
  as any other.
- `guards`: the conditions on input sizes that a program holds under;
  `size_limits`: those that PyTorch leaves to its kernels; `guarded_ranges`: the ranges
  of sizes in which all of them hold; `deciding_ops`: the ops that they are for;
  `remade_guards`: those that PyTorch makes when it computes values again;
  `size_assertions`: guards as PyTorch 2.8 writes them;
  `small_sizes`: sizes of 0 and 1, for which an export may not hold;
  `asked_sizes`: the bounds that were asked for, which torch.export does not keep.
- `fingerprint`: a key of all that an import depends on.
- `single_call`: a call of one op as an exported program; `computed_integers`: ops that
  PyTorch has for known integers only, written with others.
"""

from padc.frontends.torch_export.export import export_module, module_of, trace
from padc.frontends.torch_export.importer import import_exported_program
from padc.frontends.torch_export.pt2 import is_trusted, kernels_for, load
from padc.frontends.torch_export.weights import held_tensors

__all__ = [
    "export_module",
    "held_tensors",
    "import_exported_program",
    "is_trusted",
    "kernels_for",
    "load",
    "module_of",
    "trace",
]
