# pyright: basic
"""Public docstrings: they have the sections that callers need, and examples that run."""

import dataclasses
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from padc.tools.pass_help import attribute_docstrings

MODULES = (
    "padc",
    "padc.coreml",
    "padc.coremltools",
    "padc.dynamo",
    "padc.errors",
    "padc.models.mlir_model",
    "padc.nn",
    "padc.testing",
    "padc.verification",
)
NEVER_RAISE = {
    "backend",  # It leaves graphs that it cannot compile to PyTorch, with a warning.
    "compare",
    "tensor_outputs",
    "SourceLocation.of",
    "Feature.accepts",
}
"""Functions with arguments whose docstrings have no `Raises`."""


def public() -> Iterator[tuple[str, Any]]:
    """Each public module, function and class once, by the name that users import."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        yield module_name, module
        for name in module.__all__:
            value = getattr(module, name)
            if id(value) not in seen and (
                inspect.isclass(value) or inspect.isfunction(value)
            ):
                seen.add(id(value))
                yield f"{module_name}.{name}", value


PUBLIC = dict(public())


def sections(docstring: str) -> dict[str, str]:
    """The text under each of `Args:`, `Returns:` and so on."""
    parts = re.split(r"^(\w+):$", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(function: Any) -> list[str]:
    """The names of a function's parameters, as `Args` lists them."""
    stars = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    found = inspect.signature(function).parameters.values()
    return [stars.get(p.kind, "") + p.name for p in found if p.name != "self"]


def missing_names(names: list[str], text: str) -> list[str]:
    return [name for name in names if f"\n    {name}: " not in f"\n{text}"]


def faults_of_function(name: str, function: Any) -> Iterator[str]:
    found = sections(function.__doc__ or "")
    if not function.__doc__:
        yield f"{name} has no docstring"
    if names := parameters(function):
        if absent := missing_names(names, found.get("Args", "")):
            yield f"{name} does not describe {', '.join(absent)}"
        if "Raises" not in found and name not in NEVER_RAISE:
            yield f"{name} has no Raises"
    returns = inspect.signature(function).return_annotation
    if returns not in (None, "None") and "Returns" not in found:
        yield f"{name} has no Returns"


def faults_of_class(name: str, cls: type) -> Iterator[str]:
    found = sections(cls.__doc__ or "")
    if not cls.__doc__:
        yield f"{name} has no docstring"
    if "Example" not in found:
        yield f"{name} has no Example"
    own = [base for base in cls.__mro__ if base.__module__.startswith("padc")]
    if dataclasses.is_dataclass(cls):
        names = {field.name for field in dataclasses.fields(cls)}
        for field in names - attribute_docstrings(cls).keys():
            if not field.startswith("_"):
                yield f"{name}.{field} has no docstring"
    else:
        makers = [base for base in own if "__init__" in vars(base)][:1]
        for base in makers:
            texts = [base.__doc__ or "", base.__init__.__doc__ or ""]
            described = "".join(
                text
                for each in [*texts, cls.__doc__ or ""]
                for section, text in sections(each).items()
                if section in ("Args", "Attributes")
            )
            if not described or (
                "Attributes" not in found
                and missing_names(parameters(base.__init__), described)
            ):
                yield f"{name} does not describe its arguments"
    for member, value in public_members(cls):
        if inspect.isfunction(value):
            yield from faults_of_function(f"{cls.__name__}.{member}", value)
            if "Example" not in sections(value.__doc__ or ""):
                yield f"{cls.__name__}.{member} has no Example"
        else:
            if not value.__doc__:
                yield f"{name}.{member} has no docstring"
            examples = found.get("Example", "") + (value.__doc__ or "")
            if not re.search(rf"\.{member}\b", examples):
                yield f"{name}.{member} is in no Example"


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """The functions and properties of a class that padc defines, by name."""
    own = [base for base in cls.__mro__ if base.__module__.startswith("padc")]
    members = {k: v for base in reversed(own) for k, v in vars(base).items()}
    for name, value in members.items():
        if name.startswith("_") and name != "__call__":
            continue
        value = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(value, property) or (
            inspect.isfunction(value) and value.__module__.startswith("padc")
        ):
            yield name, value


def faults(name: str, value: Any) -> list[str]:
    if inspect.ismodule(value):
        return [] if value.__doc__ else [f"{name} has no docstring"]
    if inspect.isclass(value):
        return list(faults_of_class(name, value))
    found = list(faults_of_function(name.rpartition(".")[2], value))
    if "Example" not in sections(value.__doc__ or ""):
        found.append(f"{name} has no Example")
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_sections(name: str):
    assert faults(name, PUBLIC[name]) == []


def test_faults_are_found():
    def undocumented(x: int) -> int:
        return x

    def documented(x: int, y: int) -> int:
        """
        Add.

        Args:
            x: A number.
        """
        return x + y

    class Made:
        """A class."""

        def __init__(self, size: int):
            self.size = size

        def grow(self):
            """Grow."""

        @property
        def area(self):
            """The area."""
            return self.size**2

    Made.__module__ = Made.grow.__module__ = "padc.made"

    assert faults("m.undocumented", undocumented) == [
        "undocumented has no docstring",
        "undocumented does not describe x",
        "undocumented has no Raises",
        "undocumented has no Returns",
        "m.undocumented has no Example",
    ]
    assert "documented does not describe y" in faults("m.documented", documented)
    assert faults("m.Made", Made) == [
        "m.Made has no Example",
        "m.Made does not describe its arguments",
        "Made.grow has no Returns",
        "Made.grow has no Example",
        "m.Made.area is in no Example",
    ]


def examples(name: str, value: Any) -> list[doctest.DocTest]:
    """
    The examples in the docstring of `value`, and then those of its members.

    They share their variables: an example of a member continues that of its class.
    """
    values = {name: value}
    if inspect.isclass(value):
        values |= {f"{name}.{key}": each for key, each in public_members(value)}
    finder = doctest.DocTestFinder(recurse=False)
    found = [test for key in values for test in finder.find(values[key], key, globs={})]
    for test in found:
        test.globs = found[0].globs
    return [test for test in found if test.examples]


EXAMPLES = {name: found for name in PUBLIC if (found := examples(name, PUBLIC[name]))}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    output: list[str] = []
    runner = doctest.DocTestRunner()

    for example in EXAMPLES[name]:
        runner.run(example, out=output.append, clear_globs=False)

    assert not runner.failures, "".join(output)


def test_every_function_and_class_has_an_example_that_runs():
    assert {
        name for name, value in PUBLIC.items() if not inspect.ismodule(value)
    } <= EXAMPLES.keys()
