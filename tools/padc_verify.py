"""`padc verify`: compare a saved package with its model in PyTorch."""

from __future__ import annotations

import argparse

from padc.ir.precisions import DEFAULT_PRECISION, resolve_precision
from padc.tools.agreement import print_agreement
from padc.tools.models import add_model_options, check_model, load_model
from padc.versions import require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "package", metavar="OUT.mlpackage", help="the package to compare"
    )
    parser.add_argument(
        "--precision",
        default=DEFAULT_PRECISION,
        help="what the package computes floats in, float32 or float16, as it was given "
        "to padc convert: it decides the error that is allowed (default: %(default)s)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="PART",
        help="the error that is allowed, in parts of the range of the expected output: "
        "for compressed weights, say 0.05",
    )
    parser.add_argument(
        "--function",
        metavar="NAME",
        help="the function of the package that the model is; its default function if "
        "not given",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print how far each output is off; raises WrongResultError if it is too far."""
    require("torch")
    check_model(arguments.model, arguments.input, trust=arguments.trust)
    from padc.verification import verify_package

    resolve_precision(arguments.precision)
    loaded = load_model(arguments.model, arguments.input, trust=arguments.trust)
    exported = loaded.source("padc verify")
    print_agreement(
        loaded.model,
        verify_package(
            loaded.model,
            exported,
            arguments.package,
            precision=arguments.precision,
            tolerance=arguments.tolerance,
            function_name=arguments.function,
        ),
    )
