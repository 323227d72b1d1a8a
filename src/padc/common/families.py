"""Tables that the files of a folder fill: every file is imported, none is listed."""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_families(folder: str, path: Iterable[str]) -> None:
    """
    Import each file of a package, which then registers its rows.

    Args:
        folder: the package's `__name__`.
        path: its `__path__`.
    """
    for module in iter_modules(path):
        import_module(f"{folder}.{module.name}")
