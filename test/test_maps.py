"""The docstring of a folder names its files, or says what every other file holds."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("backends", "frontends", "ir", "passes", "tools")
FEW = 8
"""Folders of fewer files need no map."""


def mapped_folders() -> list[str]:
    inits = (path for each in FOLDERS for path in (ROOT / each).rglob("__init__.py"))
    return sorted(
        str(path.parent.relative_to(ROOT))
        for path in inits
        if len(list(path.parent.glob("*.py"))) > FEW
    )


@pytest.mark.parametrize("folder", mapped_folders())
def test_the_docstring_of_a_folder_names_its_files(folder: str):
    path = ROOT / folder / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    files = {each.stem for each in path.parent.glob("*.py")} - {"__init__"}

    words = set(text.replace("`", " ").replace(",", " ").replace(":", " ").split())
    missing = sorted(files - words)

    assert not missing or "very other file" in " ".join(text.split()), missing
