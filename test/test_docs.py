"""
The examples in the documents run, and their links lead to files.

The blocks of a document run in order, in one folder and with one set of variables:

- `python`: runs; one that begins with `# name.py` is written to that file.
- `pycon`: a doctest.
- `console`: each `$ padc` or `$ padc-opt` runs. Output that follows is compared, where
  `...` stands for any text, and on a line of its own for any lines. A command fails if
  and only if the output shows an error. Other commands are not run.
"""

import doctest
import importlib
import io
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from padc.tools import padc as padc_tool
from padc.tools import padc_opt

ROOT = Path(__file__).parents[1]
ALL_DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
DOCUMENTS = [
    path
    for path in ALL_DOCUMENTS
    if re.search(r"^ *```(python|pycon|console)$", path.read_text(), re.MULTILINE)
]
TOOLS: dict[str, Callable[[Sequence[str]], None]] = {
    "padc": padc_tool.main,
    "padc-opt": padc_opt.main,
}
ERROR = re.compile(r"^(padc: )?error: ", re.MULTILINE)


@pytest.mark.parametrize("document", ALL_DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_to_files(document: Path) -> None:
    assert missing_targets(document.read_text(), document.parent) == []


def test_missing_targets_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").touch()
    text = "[a](there.md#part), [b c](absent.md), [d](https://example.org), [e](#part)"

    assert missing_targets(text, tmp_path) == ["absent.md"]


def missing_targets(text: str, folder: Path) -> list[str]:
    """The files and folders that relative links lead to, and that do not exist."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text)
    return [
        each for each in targets if "://" not in each and not (folder / each).exists()
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_examples_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    variables: dict[str, Any] = {"__name__": document.stem}
    text = document.read_text()
    for block in re.finditer(
        r"^ *```(\w+)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL
    ):
        line = text[: block.start()].count("\n") + 1
        code = textwrap.dedent(block[2])
        match block[1]:
            case "python":
                run_python(code, f"{document}:{line}", variables, tmp_path)
            case "pycon":
                run_doctest(code, document, line, variables)
            case "console":
                run_console(code, f"{document}:{line}")
            case _:
                pass


def run_python(code: str, where: str, variables: dict[str, Any], folder: Path) -> None:
    if file := re.match(r"# (\w+)\.py\n", code):
        (folder / f"{file[1]}.py").write_text(code)
        # Another document may have a module of that name.
        sys.modules.pop(file[1], None)
        importlib.invalidate_caches()
        return
    with redirect_stdout(io.StringIO()):
        exec(compile(code, where, "exec"), variables)


def run_doctest(
    code: str, document: Path, line: int, variables: dict[str, Any]
) -> None:
    test = doctest.DocTestParser().get_doctest(
        code, variables, document.name, str(document), line
    )
    report = io.StringIO()
    runner = doctest.DocTestRunner()
    runner.run(test, out=report.write, clear_globs=False)
    variables.update(test.globs)
    assert not runner.failures, report.getvalue()


def run_console(block: str, where: str) -> None:
    joined = block.replace("\\\n", " ")
    for command in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        line, _, expected = command.partition("\n")
        name, *arguments = shlex.split(line, comments=True)
        if name not in TOOLS:
            continue
        code, output = called(TOOLS[name], arguments)
        assert bool(code) == bool(ERROR.search(expected)), f"{where}: {line}\n{output}"
        if expected.strip():
            assert re.fullmatch(pattern(expected), output), (
                f"{where}: {line}\nexpected:\n{expected}\ngot:\n{output}"
            )


def called(tool: Callable[[Sequence[str]], None], arguments: Sequence[str]):
    """The exit code, and what a terminal would show."""
    terminal = io.StringIO()
    with redirect_stdout(terminal), redirect_stderr(terminal):
        try:
            tool(arguments)
            code = 0
        except SystemExit as exit:
            code = exit.code
    return code, terminal.getvalue()


def pattern(expected: str) -> str:
    """A regular expression for output that is written with `...`."""
    parts = [
        r"(?:.*\n)*?"
        if line == "..."
        else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in expected.strip("\n").split("\n")
    ]
    return "".join(parts) + r"\n*"
