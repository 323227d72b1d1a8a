# pyright: basic
"""Small modules of all levels as text, each with passes that take such a module."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fuzz.seed_models import programs
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from padc.ir import make_context
from padc.ir.text import Parser
from padc.ir.weights import weights_of
from padc.passes import pipelines

LIT = Path(__file__).parents[1]
MOST_CHARACTERS = 6000
SOME = 6
"""Every `SOME`-th lit function is taken through all passes, which takes time."""
Text = tuple[str, str]
"""A module, and the passes that follow its level, as padc-opt takes them."""


def texts() -> list[Text]:
    """The modules: those of the lit tests, and those between passes of models."""
    found: dict[str, str] = {}
    functions = list(lit_functions())
    everything = [spec(passes) for passes in ways()]
    for number, function in enumerate(functions):
        found[function] = everything[number % len(everything)]
    for function in functions[::SOME]:
        found |= dict(stages(lambda: parsed(function)))
    for exported in programs().values():
        for legal in (pipelines.legal_for_mil(), pipelines.legal_for_native()):
            found |= dict(
                stages(lambda: pipelines.import_program(exported, legal=legal))
            )
    return [(text, passes) for text, passes in found.items() if text]


def lit_functions() -> Iterator[str]:
    """The functions of the lit tests, one at a time, also those that are invalid."""
    for path in sorted(LIT.glob("*/**/*.mlir")):
        lines = path.read_text().splitlines()
        lines = [line for line in lines if not line.lstrip().startswith("//")]
        for part in re.split(r"(?m)^(?=\s*func\.func)", "\n".join(lines)):
            # The pipelines end with passes that take a function of this name.
            yield re.sub(r"(func\.func (?:private )?)@\w+", r"\1@main", part.strip())


def parsed(text: str) -> tuple[Context, ModuleOp]:
    ctx = make_context()
    return ctx, Parser(ctx, text).parse_module()


def ways() -> tuple[list[ModulePass], ...]:
    """The pipelines to Core ML's ops and to LLVM's dialect."""
    native = [*pipelines.to_native_tcp(), *pipelines.to_buffers()]
    return (
        pipelines.to_mil("iOS17", "auto", "auto"),
        pipelines.to_mil("iOS15", "decompose", "decompose"),
        [*native, *pipelines.to_llvm(32)],
    )


def spec(passes: Sequence[ModulePass]) -> str:
    return ",".join(str(each.pipeline_pass_spec()) for each in passes)


def stages(make: Callable[[], tuple[Context, ModuleOp]]) -> Iterator[Text]:
    """A module before each pass of the pipelines that changes it, and the rest of them."""
    for passes in ways():
        last = ""
        with contextlib.suppress(Exception):
            ctx, module = make()
            for at in range(len(passes) + 1):
                text = printed(ctx, module)
                if text != last and len(text) < MOST_CHARACTERS:
                    yield text, spec(passes[at:] or passes[-1:])
                last = text
                if at < len(passes):
                    passes[at].apply(ctx, module)


def printed(ctx: Context, module: ModuleOp) -> str:
    """The text of a module with the data of its weights."""
    weights_of(ctx).print_blobs = True
    text = io.StringIO()
    printer = Printer(text)
    printer.print_op(module)
    printer.print_metadata(ctx.loaded_dialects)
    return text.getvalue()
