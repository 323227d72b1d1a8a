"""What `padc-opt --help` says about passes, read from their docstrings."""

import argparse
import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes as get_xdsl_passes

from padc.ir.targets import DEFAULT_TARGET
from padc.passes import PASSES, load_pass
from padc.passes.tcp_to_mil.policies import (
    DEFAULT_GRID_SAMPLE_POLICY,
    DEFAULT_PAD_POLICY,
)

WIDTH = 88


class PassHelpAction(argparse.Action):
    """Print the help of the options, then that of the passes."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any):
        super().__init__(option_strings, dest, nargs=0, **kwargs)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        print(f"{parser.format_help()}\n{passes_help()}")
        parser.exit()


def passes_help() -> str:
    """All passes: those of padc with their options, then the names of xDSL's."""
    lines = ["passes of padc; those of a folder are in the order in which they run:"]
    for folder, names in PASSES.items():
        lines += ["", f"  {folder}/"]
        for name in names:
            lines += pass_help(load_pass(folder, name))
    for end, names in orders().items():
        lines += ["", f"the passes from the torch level to {end}:", ""]
        lines += _wrapped(names.replace(",", ", "), 4)
    xdsl = get_xdsl_passes()
    lines += ["", f"passes of xDSL ({len(xdsl)}):", *_wrapped(", ".join(xdsl), 4)]
    return "\n".join(lines)


def orders() -> dict[str, str]:
    """The passes from the torch level to each end, as text for `padc-opt -p`."""
    # Loads most passes, which only the help needs.
    from padc.passes import pipelines

    passes = {
        "the whole Core ML program": pipelines.to_mil(
            DEFAULT_TARGET, DEFAULT_PAD_POLICY, DEFAULT_GRID_SAMPLE_POLICY
        ),
        "machine code": [
            *pipelines.to_native_tcp(),
            *pipelines.to_buffers(32),
            *pipelines.to_llvm(32),
        ],
    }
    return {
        end: ",".join(str(each.pipeline_pass_spec()).replace("_", "-") for each in some)
        for end, some in passes.items()
    }


def pass_help(pass_class: type[ModulePass]) -> list[str]:
    """The lines for one pass: its name and summary, then a line for each option."""
    lines = _entry(f"    {pass_class.name}", first_sentence(pass_class.__doc__ or ""))
    types = get_type_hints(pass_class)
    documented = attribute_docstrings(pass_class)
    for field in dataclasses.fields(pass_class):
        name = field.name.replace("_", "-")
        option = f"        {name}={_type_name(types[field.name])}"
        says = first_paragraph(documented.get(field.name, ""))
        lines += _entry(option, f"{says} {_default(field)}".strip())
    return lines


def attribute_docstrings(cls: type) -> dict[str, str]:
    """The string literals that follow the annotated attributes of `cls`, by name."""
    found: dict[str, str] = {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                found[name] = text
            case _:
                pass
    return found


def first_paragraph(docstring: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(inspect.cleandoc(docstring).split("\n\n")[0].split())


def first_sentence(docstring: str) -> str:
    """The first sentence of the first paragraph, on one line."""
    sentence, stop, _ = first_paragraph(docstring).partition(". ")
    return sentence + stop.rstrip()


PLACEHOLDERS = {int: "N", str: "NAME", bool: "true|false"}


def _type_name(annotation: Any) -> str:
    """The placeholder of a value of this type; None is an absent option."""
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    if get_origin(annotation) is UnionType:
        kinds = [each for each in get_args(annotation) if each is not NoneType]
        return "|".join(map(_type_name, kinds))
    return PLACEHOLDERS[annotation]


def _default(field: dataclasses.Field[Any]) -> str:
    """The default; the docstring of an option says what None as its default means."""
    if field.default is dataclasses.MISSING:
        return "(required)"
    value: object = field.default
    if value is None:
        return ""
    return f"(default: {str(value).lower() if isinstance(value, bool) else value})"


def _entry(head: str, text: str) -> list[str]:
    """`head`, with `text` in a column of its own."""
    column = 32
    lines = _wrapped(text, column)
    if len(head) + 2 > column:
        return [head, *lines]
    return [head.ljust(column) + lines[0].lstrip(), *lines[1:]]


def _wrapped(text: str, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
    ) or [""]
