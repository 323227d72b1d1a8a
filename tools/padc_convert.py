"""`padc convert`: models to packages, with an example for each group of options."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padc.backends.coreml.locations import DEFAULT_LOCATIONS, resolve_locations
from padc.backends.coreml.numerics import Numerics
from padc.ir.precisions import DEFAULT_PRECISION
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
from padc.tools.agreement import print_agreement
from padc.tools.app_options import add_feature_options, feature_arguments
from padc.tools.function_options import add_function_options, named_models
from padc.tools.models import add_model_options, check_model, load_model
from padc.versions import require

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from padc.coreml_program import Program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser, nargs="?")
    add_package_options(parser)
    add_number_options(parser)
    add_op_options(parser)
    add_feature_options(parser)
    add_function_options(parser)
    add_check_options(parser)


def add_package_options(parser: argparse.ArgumentParser) -> None:
    package = parser.add_argument_group(
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


def add_number_options(parser: argparse.ArgumentParser) -> None:
    numbers = parser.add_argument_group(
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


def add_op_options(parser: argparse.ArgumentParser) -> None:
    ops = parser.add_argument_group(
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


def add_check_options(parser: argparse.ArgumentParser) -> None:
    checks = parser.add_argument_group(
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


def run(arguments: argparse.Namespace) -> None:
    """Convert, report and verify as the options say, and write the package."""
    require("coreml")
    target = resolve_target(arguments.target)
    keep = kept_names(arguments)
    Numerics.named(arguments.precision, keep, arguments.compress, target)
    resolve_pad_policy(arguments.pad_policy)
    resolve_grid_sample_policy(arguments.grid_sample_policy)
    resolve_states_policy(arguments.states)
    resolve_locations(arguments.locations)
    functions = named_models(arguments)
    for model in functions.values() or [arguments.model]:
        check_model(model, arguments.input, trust=arguments.trust)
    from padc.backends.coreml.save import check_writable
    from padc.coreml_functions import check_target, checked_default, save_functions

    check_writable(arguments.output)
    described = feature_arguments(arguments)
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
        print_agreement(program.model, program.verify(), arguments.compress)
    return program


def kept_names(arguments: argparse.Namespace) -> list[str]:
    """The ops that `--keep-float32` names."""
    return [name for each in arguments.keep_float32 for name in each.split(",")]


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
