"""`padc`: convert PyTorch models to Core ML, and run, check and verify the result."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from padc.errors import PadcError, UsageError, first_line, is_out_of_memory
from padc.tools import padc_check, padc_convert, padc_run, padc_same, padc_verify
from padc.tools.closed_output import until_output_is_closed
from padc.tools.missing_package import missing_package
from padc.tools.plain_warnings import plain_warnings
from padc.tools.version_action import VersionAction


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with the code that `--help` explains."""
    try:
        with until_output_is_closed(), plain_warnings():
            arguments = parser().parse_args(argv)
            # Modules for `pkg.module:factory` are found as `python -m` finds them.
            sys.path.insert(0, os.getcwd())
            sys.exit(run(arguments))
    except UsageError as error:
        sys.exit(report(str(error), error.exit_code))
    sys.exit(0)


def run(arguments: argparse.Namespace) -> int:
    """Run a command; returns the exit code."""
    try:
        arguments.command(arguments)
    except PadcError as error:
        return report(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        missing = missing_package(error, arguments.needed_extra(arguments))
        return report(str(missing), missing.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("PADC_DEBUG"):
            traceback.print_exc()
        if is_out_of_memory(error):
            message = f"not enough memory: {first_line(error)}"
            hint = "\n  hint: use smaller inputs, or another machine"
            return report(message + hint, UsageError.exit_code)
        message = f"internal error: {type(error).__name__}: {error}"
        hint = "\n  hint: set PADC_DEBUG=1 to see where, and report it"
        return report(message + hint, PadcError.exit_code)
    return 0


def report(message: str, exit_code: int) -> int:
    print(f"padc: error: {message}", file=sys.stderr)
    return exit_code


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="padc",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "exit codes: 0 success, 1 wrong result or findings, 2 usage,\n"
            "3 unsupported (all problems are listed), 4 invalid program,\n"
            "5 missing package, 70 internal error\n\n"
            "trust: .pt2 files and packages are read as data, and run no code unless\n"
            "--trust is given; a factory pkg.module:factory is code, and is run"
        ),
    )
    top.add_argument("--version", action=VersionAction)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    convert = commands.add_parser(
        "convert",
        help="convert a model to a .mlpackage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    convert.set_defaults(command=padc_convert.run, needed_extra=needs("coreml"))
    padc_convert.add_arguments(convert)
    verify = commands.add_parser(
        "verify", help="compare a .mlpackage with its model in PyTorch"
    )
    verify.set_defaults(command=padc_verify.run, needed_extra=needs("torch"))
    padc_verify.add_arguments(verify)
    run = commands.add_parser("run", help="run a model or a .mlpackage on this machine")
    run.set_defaults(command=padc_run.run, needed_extra=padc_run.needed_extra)
    padc_run.add_arguments(run)
    check = commands.add_parser(
        "check", help="list what breaks a rule of Core ML in a .mlpackage"
    )
    check.set_defaults(command=padc_check.run, needed_extra=needs(None))
    padc_check.add_arguments(check)
    same = commands.add_parser("same", help="print the amounts of SAME padding")
    same.set_defaults(command=padc_same.run, needed_extra=needs(None))
    padc_same.add_arguments(same)
    return top


def needs(extra: str | None) -> Callable[[argparse.Namespace], str | None]:
    """A command that needs an extra of padc for all arguments; None for no extra."""
    return lambda _: extra


if __name__ == "__main__":
    main()
