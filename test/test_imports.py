"""No file of padc imports itself by way of others."""

from graphlib import TopologicalSorter

import grimp

OPS_AND_PATTERNS = {
    "padc.ir.tcp.pads": "padc.ir.tcp.pad_patterns",
    "padc.ir.tcp.pools": "padc.ir.tcp.pool_patterns",
}
"""xDSL's idiom: an op names its canonicalization patterns, which match the op."""


def test_imports_have_no_cycle():
    graph = grimp.build_graph("padc", cache_dir=None)
    imports = {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
    }
    for op, patterns in OPS_AND_PATTERNS.items():
        assert patterns in imports[op] and op in imports[patterns]
        imports[op] = imports[op] - {patterns}

    # Raises CycleError, with the files of the cycle, if there is one.
    TopologicalSorter(imports).prepare()
