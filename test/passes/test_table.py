"""The table of passes is complete and in order; only pipelines import passes."""

import importlib
import inspect
import itertools
import pkgutil

import grimp
from xdsl.passes import ModulePass

import padc.passes
from padc.passes import PASSES, load_pass, pipelines

FILES = {
    f"padc.passes.{folder}.{name.replace('-', '_')}": name
    for folder, names in PASSES.items()
    for name in names
}
"""The modules of all passes, in the order of the table."""


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


def test_each_folder_says_which_files_are_passes():
    for folder, names in PASSES.items():
        described = importlib.import_module(f"padc.passes.{folder}").__doc__
        assert described is not None
        for name in names:
            assert name.replace("-", "_") in described


def test_each_folder_is_in_the_order_of_the_pipelines():
    lists = (
        pipelines.to_native_tcp(),
        pipelines.to_mil("iOS18", "decompose", "decompose"),
        [*pipelines.to_buffers(), *pipelines.to_llvm(16)],
    )

    for passes, names in itertools.product(lists, PASSES.values()):
        ran = [each.name for each in passes if each.name in names]
        assert ran == sorted(ran, key=names.index)


def test_only_pipelines_import_passes():
    """Whatever two modules share is in a module that is not a pass."""
    graph = grimp.build_graph("padc", cache_dir=None)
    wrong = {
        (importer, imported)
        for imported in FILES
        for importer in graph.find_modules_that_directly_import(imported)
        if importer != "padc.passes.pipelines"
    }

    assert wrong == set()
