"""The table of passes is complete, and nothing that serves a pass imports one."""

import importlib
import inspect
import pkgutil

import grimp
from xdsl.passes import ModulePass

import padc.passes
from padc.passes import PASSES, load_pass

FILES = {
    f"padc.passes.{folder}.{name.replace('-', '_')}": name
    for folder, names in PASSES.items()
    for name in names
}
"""The modules of all passes, in the order in which they run."""


def test_file_class_and_name_are_one():
    for folder, names in PASSES.items():
        for name in names:
            assert load_pass(folder, name).name == name


def test_every_pass_is_in_the_table():
    defined: set[tuple[str, str]] = set()
    for found in pkgutil.walk_packages(padc.passes.__path__, "padc.passes."):
        for _, kind in inspect.getmembers(importlib.import_module(found.name)):
            if inspect.isclass(kind) and issubclass(kind, ModulePass):
                if kind.__module__ == found.name:
                    defined.add((found.name, kind.name))

    assert defined == set(FILES.items())


def test_nothing_imports_a_pass_that_runs_after_it():
    graph = grimp.build_graph("padc", cache_dir=None)
    order = list(FILES)
    wrong = {
        (importer.removeprefix("padc.passes."), imported.removeprefix("padc.passes."))
        for imported in order
        for importer in graph.find_modules_that_directly_import(imported)
        if importer.startswith("padc.passes.")
        and importer != "padc.passes.pipelines"
        # What serves passes imports none.
        and (importer not in FILES or order.index(importer) < order.index(imported))
    }

    assert wrong == set()
