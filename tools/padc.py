# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""`padc`: convert PyTorch models to Core ML, and run, check and verify the result."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from padc.backends.coreml.locations import DEFAULT_LOCATIONS, resolve_locations
from padc.backends.coreml.numerics import Numerics
from padc.errors import PadcError
from padc.ir.precisions import DEFAULT_PRECISION, resolve_precision
from padc.ir.targets import DEFAULT_TARGET, resolve_target
from padc.passes.tcp_to_mil.policies import (
    DEFAULT_GRID_SAMPLE_POLICY,
    DEFAULT_PAD_POLICY,
    resolve_grid_sample_policy,
    resolve_pad_policy,
)
from padc.passes.torch_to_mil.states_policy import (
    DEFAULT_STATES_POLICY,
    resolve_states_policy,
)
from padc.tools import padc_check, padc_run, padc_same
from padc.tools.app_options import add_feature_options, feature_arguments
from padc.tools.function_options import add_function_options, named_models
from padc.tools.missing_package import missing_package
from padc.tools.models import add_input_option, add_trust_option, load_model
from padc.tools.version_action import VersionAction
from padc.versions import require

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from padc.coreml_program import Program
    from padc.verification import Comparison


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with the code that `--help` explains."""
    arguments = parser().parse_args(argv)
    # Modules for `pkg.module:factory` are found as `python -m` finds them.
    sys.path.insert(0, os.getcwd())
    try:
        arguments.command(arguments)
    except PadcError as error:
        sys.exit(report(str(error), error.exit_code))
    except ModuleNotFoundError as error:
        missing = missing_package(error, arguments.needed_extra(arguments))
        sys.exit(report(str(missing), missing.exit_code))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("PADC_DEBUG"):
            traceback.print_exc()
        message = f"internal error: {type(error).__name__}: {error}"
        hint = "\n  hint: set PADC_DEBUG=1 to see where, and report it"
        sys.exit(report(message + hint, PadcError.exit_code))
    sys.exit(0)


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
    add_convert(commands)
    verify = commands.add_parser(
        "verify", help="compare a .mlpackage with its model in PyTorch"
    )
    verify.set_defaults(command=run_verify, needed_extra=needs("torch"))
    add_model(verify)
    verify.add_argument(
        "package", metavar="OUT.mlpackage", help="the package to compare"
    )
    verify.add_argument(
        "--precision",
        default=DEFAULT_PRECISION,
        help="what the package computes floats in, float32 or float16, which decides "
        "the error that is allowed (default: %(default)s)",
    )
    verify.add_argument(
        "--tolerance",
        type=float,
        metavar="PART",
        help="the error that is allowed, in parts of the range of the expected output: "
        "for compressed weights, say 0.05",
    )
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


def add_convert(commands: Any) -> None:
    """Add `padc convert`, with an example for each group of options."""
    convert = commands.add_parser(
        "convert",
        help="convert a model to a .mlpackage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    convert.set_defaults(command=run_convert, needed_extra=needs("coreml"))
    add_model(convert, nargs="?")
    package = convert.add_argument_group(
        "package",
        "  padc convert model.pt2 -o model.mlpackage --target iOS17",
    )
    package.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT.mlpackage",
        help="the package to write; one that exists is replaced",
    )
    package.add_argument(
        "--target",
        default=DEFAULT_TARGET,
        help="the oldest system that runs the package: iOS15 to iOS18, iOS26 or newest "
        "(default: %(default)s)",
    )
    package.add_argument(
        "--locations",
        default=DEFAULT_LOCATIONS,
        metavar="POLICY",
        help=(
            "how the package names the Python file that each op comes from (default: "
            "%(default)s): relative, by its path in its project or library; absolute; "
            "off, not at all"
        ),
    )
    numbers = convert.add_argument_group(
        "numbers",
        "  padc convert model.pt2 -o model.mlpackage --precision float16 \\\n"
        "    --keep-float32 norms,softmax --compress int8 --verify",
    )
    numbers.add_argument(
        "--precision",
        default=DEFAULT_PRECISION,
        help="what floats are computed in: float32 or float16 (default: %(default)s)",
    )
    numbers.add_argument(
        "--keep-float32",
        action="append",
        default=[],
        metavar="NAME,...",
        help=(
            "with --precision float16, ops that compute in float32: kinds (norms, "
            "softmax, coordinates, reductions, convolutions, matmuls, exponentials, "
            "trigonometry, activations, arithmetic, recurrent), or modules of the "
            "model (layers.0, layers.*.norm)"
        ),
    )
    numbers.add_argument(
        "--report",
        action="store_true",
        help=(
            "print what float16 costs in accuracy, which kinds of ops that comes from, "
            "and what to give to --keep-float32; converts and runs the model for each"
        ),
    )
    numbers.add_argument(
        "--compress",
        metavar="HOW",
        help=(
            "how weights are stored: int8; int4, in blocks of 32; palette1 to "
            "palette8, bits that choose one of the most fitting values; sparse, those "
            "that are half zeros; sparse75, after 75%% became zeros. --verify prints "
            "what that costs"
        ),
    )
    ops = convert.add_argument_group(
        "ops and states",
        "  padc convert model.pt2 -o model.mlpackage --target iOS18 --states native",
    )
    ops.add_argument(
        "--pad-policy",
        default=DEFAULT_PAD_POLICY,
        help=(
            "which pads use Core ML's pad op (default: %(default)s): auto, all that it "
            "supports; native, all, transposed if that helps, else an error; "
            "decompose, constant pads only"
        ),
    )
    ops.add_argument(
        "--grid-sample-policy",
        default=DEFAULT_GRID_SAMPLE_POLICY,
        help=(
            "which grid samples use Core ML's resample op (default: %(default)s): "
            "auto, those that it computes as PyTorch does; native, all, else an error; "
            "decompose, none"
        ),
    )
    ops.add_argument(
        "--states",
        default=DEFAULT_STATES_POLICY,
        help=(
            "which buffers that the model changes are states of Core ML (default: "
            "%(default)s): auto, those that a state of iOS18 holds as they are, and "
            "float32 ones with --precision float16; native, all, else an error; "
            "inputs, none; the others are inputs, and outputs NAME_out"
        ),
    )
    add_feature_options(convert)
    add_function_options(convert)
    checks = convert.add_argument_group(
        "checks",
        "  padc convert model.pt2 -o model.mlpackage --verify",
    )
    checks.add_argument(
        "--verify",
        action="store_true",
        help="run the package and compare its outputs with PyTorch's",
    )
    checks.add_argument(
        "--print-ir-after-all",
        action="store_true",
        help="print the IR after each pass to standard error",
    )


def add_model(
    command: argparse.ArgumentParser, nargs: Literal["?"] | None = None
) -> None:
    command.add_argument(
        "model",
        nargs=nargs,
        metavar="MODEL",
        help=(
            "a .pt2 file; a .mlir file, as torch-mlir or padc-opt --print-weights "
            "print it; or pkg.module:factory, a function that returns a module, or "
            "(module, example inputs)"
        ),
    )
    add_input_option(command)
    add_trust_option(command)


def run_convert(arguments: argparse.Namespace) -> None:
    require("coreml")
    from padc.backends.coreml.save import check_writable
    from padc.coreml_functions import check_target, checked_default, save_functions

    check_writable(arguments.output)
    target = resolve_target(arguments.target)
    keep = kept_names(arguments)
    Numerics.named(arguments.precision, keep, arguments.compress, target)
    resolve_pad_policy(arguments.pad_policy)
    resolve_grid_sample_policy(arguments.grid_sample_policy)
    resolve_states_policy(arguments.states)
    resolve_locations(arguments.locations)
    described = feature_arguments(arguments)
    functions = named_models(arguments)
    progress = Progress(arguments.print_ir_after_all)
    if not functions:
        program = convert_model(arguments, arguments.model, described, progress)
        program.save(arguments.output, locations=arguments.locations)
    else:
        default = checked_default([*functions], arguments.default_function)
        check_target(target)
        programs = {
            name: convert_model(arguments, model, described, progress, name)
            for name, model in functions.items()
        }
        save_functions(
            programs,
            arguments.output,
            default=default,
            locations=arguments.locations,
        )
    progress.say(f"wrote {arguments.output}")


def convert_model(
    arguments: argparse.Namespace,
    name: str,
    described: dict[str, Any],
    progress: Progress,
    function: str | None = None,
) -> Program:
    """Convert a model as the options say, and print what they ask for."""
    from padc.coreml_program import convert

    model = load_model(name, arguments.input, trust=arguments.trust)
    program = convert(
        model.model,
        model.inputs,
        target=arguments.target,
        precision=arguments.precision,
        keep_float32=kept_names(arguments),
        compress=arguments.compress,
        pad_policy=arguments.pad_policy,
        grid_sample_policy=arguments.grid_sample_policy,
        states=arguments.states,
        dynamic_shapes=model.dynamic_shapes,
        observer=progress,
        **described,
    )
    if function is not None and (arguments.report or arguments.verify):
        print(f"function '{function}':")
    # Whoever asks for the report needs it most where verification fails.
    if arguments.report:
        print(program.float16_report())
    if arguments.verify:
        print_agreement(program.verify(), arguments.compress)
    return program


def kept_names(arguments: argparse.Namespace) -> list[str]:
    """What `--keep-float32` names."""
    return [name for each in arguments.keep_float32 for name in each.split(",")]


def run_verify(arguments: argparse.Namespace) -> None:
    require("torch")
    from padc.verification import verify_package

    resolve_precision(arguments.precision)
    loaded = load_model(arguments.model, arguments.input, trust=arguments.trust)
    exported = loaded.source("padc verify")
    print_agreement(
        verify_package(
            loaded.model,
            exported,
            arguments.package,
            precision=arguments.precision,
            tolerance=arguments.tolerance,
        )
    )


def print_agreement(
    comparisons: Sequence[Comparison], compression: str | None = None
) -> None:
    """Print the errors of outputs; those of compressed weights are not judged."""
    verdict = "agrees with PyTorch"
    if compression is not None:
        verdict = f"differs from PyTorch by {compression}"
    for comparison in comparisons:
        name = comparison.name
        what = name if name.startswith("buffer ") else f"output '{name}'"
        print(
            f"{what} {verdict}: max error "
            f"{comparison.max_error:.2e}, {comparison.relative_error:.2e} of its range"
        )


@dataclass
class Progress:
    """Shows the steps on a terminal, and prints the IR if asked to."""

    print_ir: bool

    def __call__(self, step: str, module: ModuleOp | None, seconds: float) -> None:
        self.say(f"{step:24}{seconds:7.2f} s")
        if self.print_ir and module is not None:
            print(f"// IR after {step}\n{module!s}", file=sys.stderr)

    def say(self, line: str) -> None:
        if sys.stderr.isatty() or self.print_ir:
            print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
