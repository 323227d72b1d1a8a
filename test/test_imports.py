"""No file of padc imports itself by way of others."""

from graphlib import TopologicalSorter

import grimp

OP_AND_PATTERNS = ("padc.ir.tcp.pads", "padc.ir.tcp.pad_patterns")
"""xDSL's idiom: an op names its canonicalization patterns, which match the op."""


def test_imports_have_no_cycle():
    graph = grimp.build_graph("padc", cache_dir=None)
    imports = {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
    }
    op, patterns = OP_AND_PATTERNS
    assert patterns in imports[op] and op in imports[patterns]
    imports[op] = imports[op] - {patterns}

    # Raises CycleError, with the files of the cycle, if there is one.
    TopologicalSorter(imports).prepare()
