"""
What `padc-opt` does around each pass: print the IR, keep a reproducer.

The options have the names and the behaviour of mlir-opt's.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Collection
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from padc.errors import InvalidProgramError, UsageError, first_line
from padc.ir.weights import Weights, weights_of
from padc.tools.whole_file import whole_file


class Instrumentation:
    """Something that is told when a pass starts, ends and fails."""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """`module_pass` is about to run on `module`."""

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """`module_pass` has run on `module`, and the result verifies."""

    def failed(
        self, module_pass: ModulePass, module: ModuleOp, error: Exception
    ) -> None:
        """`module_pass` raised `error`, or left a `module` that does not verify."""


# --- printing --------------------------------------------------------------------


@dataclass
class IrPrinter(Instrumentation):
    """Print the IR to standard error, under mlir-opt's headers."""

    printed_before: Collection[str]
    """The names of the passes before which the IR is printed."""
    printed_after: Collection[str]
    """The names of the passes after which the IR is printed."""
    only_changed: bool
    """Print after a pass only if the pass changed the IR."""
    debuginfo: bool
    """Print locations too."""
    _text_before: str = ""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if module_pass.name in self.printed_before:
            self._dump("Before", module_pass, self._text(module))
        if self.only_changed and module_pass.name in self.printed_after:
            self._text_before = self._text(module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if module_pass.name not in self.printed_after:
            return
        text = self._text(module)
        if not self.only_changed or text != self._text_before:
            self._dump("After", module_pass, text)

    def failed(
        self, module_pass: ModulePass, module: ModuleOp, error: Exception
    ) -> None:
        # The IR may be invalid, and only the generic format prints such IR reliably.
        if module_pass.name in self.printed_after:
            self._dump("After", module_pass, self._text(module, True), " Failed")

    def _text(self, module: ModuleOp, generic: bool = False) -> str:
        return text_of(module, print_generic_format=generic, debuginfo=self.debuginfo)

    def _dump(self, when: str, of: ModulePass, text: str, state: str = "") -> None:
        header = f"IR Dump {when} {type(of).__name__}{state} ({of.name})"
        print(f"// -----// {header} //----- //\n{text}\n", file=sys.stderr)


def text_of(
    module: ModuleOp, *, print_generic_format: bool = False, debuginfo: bool = False
) -> str:
    """The text of `module`, without the data of its weights."""
    text = io.StringIO()
    Printer(
        text, print_generic_format=print_generic_format, print_debuginfo=debuginfo
    ).print_op(module)
    return text.getvalue()


# --- reproducers -----------------------------------------------------------------

PASSES_KEY = "// passes: "
"""The start of the line of a reproducer that holds its passes."""


@dataclass
class Reproducer(Instrumentation):
    """Keep the IR before each pass, and write it to a file if the pass fails."""

    path: str
    ctx: Context
    verified: bool
    """Whether the IR is verified before each pass."""
    _module: ModuleOp | None = None
    _weights: Weights | None = None

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self._module = module.clone()
        self._weights = Weights(weights_of(self.ctx))

    def failed(
        self, module_pass: ModulePass, module: ModuleOp, error: Exception
    ) -> None:
        assert self._module is not None and self._weights is not None
        flags = self._flags()
        header = [
            f"// padc-opt reproducer: {module_pass.name} failed: {first_line(error)}",
            f"// run: padc-opt --run-reproducer{flags} {self.path}",
            f"{PASSES_KEY}{module_pass.pipeline_pass_spec()}",
        ]
        if missing := missing_weights(self._module, self._weights):
            header.append(f"// weights without data: {', '.join(missing)}")
        with whole_file(self.path) as new, open(new, "w") as file:
            file.write("\n".join([*header, self._text(self._module, self._weights)]))
        print(
            f"note: the pass {module_pass.name} failed; reproducer written to "
            f"{self.path}; run padc-opt --run-reproducer{flags} {self.path}",
            file=sys.stderr,
        )

    def _flags(self) -> str:
        verify = "" if self.verified else " --disable-verify"
        unregistered = self.ctx.allow_unregistered
        return verify + (" --allow-unregistered-dialect" if unregistered else "")

    def _text(self, module: ModuleOp, data: Weights) -> str:
        """The text of `module` with its locations and with `data`."""
        text = io.StringIO()
        printer = Printer(
            text, print_generic_format=not self.verified, print_debuginfo=True
        )
        weights = weights_of(self.ctx)
        now, blobs = dict(weights), weights.print_blobs
        try:
            weights.clear()
            weights.update(data)
            weights.print_blobs = True
            printer.print_op(module)
            printer.print_metadata(self.ctx.loaded_dialects)
        finally:
            weights.clear()
            weights.update(now)
            weights.print_blobs = blobs
        return text.getvalue() + "\n"


def missing_weights(module: ModuleOp, weights: Weights) -> list[str]:
    """The names of the weights that `module` refers to and that have no data."""
    names = {
        attribute.resource_handle.data
        for op in module.walk()
        for attribute in (*op.attributes.values(), *op.properties.values())
        if isinstance(attribute, DenseResourceAttr)
    }
    return sorted(names - weights.keys())


def passes_of_reproducer(path: str | None) -> str:
    """
    The passes that the reproducer at `path` runs.

    Raises UsageError without a path, InvalidProgramError for a file without passes.
    """
    if path is None:
        raise UsageError(
            "--run-reproducer needs the reproducer as a file",
            hint="padc-opt --run-reproducer reproducer.mlir",
        )
    with open(path) as file:
        for line in file:
            if line.startswith(PASSES_KEY):
                return line.removeprefix(PASSES_KEY).strip()
            if not line.startswith("//"):
                break
    raise InvalidProgramError(
        f"{path} is not a reproducer: no line at its top starts with '{PASSES_KEY}'",
        hint="padc-opt --mlir-pass-pipeline-crash-reproducer=FILE writes reproducers",
    )


# --- options ---------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add mlir-opt's options for printing IR and for reproducers."""
    group = parser.add_argument_group("debugging passes (standard error, as mlir-opt)")
    for when in "before", "after":
        group.add_argument(
            f"--mlir-print-ir-{when}-all",
            action="store_true",
            help=f"Print the IR {when} each pass.",
        )
        group.add_argument(
            f"--mlir-print-ir-{when}",
            metavar="PASS,...",
            default="",
            help=f"Print the IR {when} these passes.",
        )
    group.add_argument(
        "--mlir-print-ir-after-change",
        action="store_true",
        help="Print the IR after each pass, or each pass of --mlir-print-ir-after, "
        "that changed it.",
    )
    group.add_argument(
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="If a pass fails, write the pass and the IR before it, weights included, "
        "to FILE.",
    )
    group.add_argument(
        "--run-reproducer",
        action="store_true",
        help="Run the pass that the input file, a reproducer, names.",
    )


def instrumentations(
    args: argparse.Namespace, ctx: Context, every: Collection[str]
) -> list[Instrumentation]:
    """The instrumentations of the options; UsageError for a pass not in `every`."""
    before = _named(args.mlir_print_ir_before, every)
    after = _named(args.mlir_print_ir_after, every)
    if args.mlir_print_ir_before_all:
        before = every
    if args.mlir_print_ir_after_all or (args.mlir_print_ir_after_change and not after):
        after = every
    found: list[Instrumentation] = []
    if before or after:
        only_changed, debuginfo = args.mlir_print_ir_after_change, args.print_debuginfo
        found.append(IrPrinter(before, after, only_changed, debuginfo))
    if path := args.mlir_pass_pipeline_crash_reproducer:
        found.append(Reproducer(path, ctx, not args.disable_verify))
    return found


def _named(names: str, known: Collection[str]) -> Collection[str]:
    named = {name.strip() for name in names.split(",") if name.strip()}
    if unknown := sorted(named - set(known)):
        raise UsageError(
            f"there is no pass '{unknown[0]}' to print the IR before or after",
            hint="see --help; passes are named without their options",
        )
    return named
