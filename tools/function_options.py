"""The options of `padc convert` for packages with several functions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from padc.errors import UsageError


def add_function_options(parser: argparse.ArgumentParser) -> None:
    functions = parser.add_argument_group(
        "functions",
        "Several models in one package of iOS18 or newer, which share their weights.\n"
        "  padc convert --function small=nets:small --function large=nets:large \\\n"
        "    -o sizes.mlpackage --target iOS18 --default-function large",
    )
    functions.add_argument(
        "--function",
        action="append",
        default=[],
        metavar="NAME=MODEL",
        help="a function of the package, instead of MODEL; the other options hold for "
        "each",
    )
    functions.add_argument(
        "--default-function",
        metavar="NAME",
        help="the function that runs if an app names none (default: the first)",
    )


def named_models(arguments: argparse.Namespace) -> dict[str, str]:
    """
    The models of the functions, by name; empty for a package of one model.

    Raises UsageError for options that do not fit.
    """
    texts: Sequence[str] = arguments.function
    if arguments.model is None and not texts:
        raise UsageError(
            "there is no model to convert",
            hint="give MODEL, or --function NAME=MODEL for each function",
        )
    if arguments.model is not None and texts:
        raise UsageError(
            f"{arguments.model} is given, and --function {texts[0]}",
            hint="give a name to each: --function NAME=MODEL",
        )
    if arguments.default_function is not None and not texts:
        raise UsageError(
            "--default-function is given without --function",
            hint="give each model as --function NAME=MODEL",
        )
    models: dict[str, str] = {}
    for text in texts:
        name, _, model = text.partition("=")
        if not name or not model:
            raise UsageError(f"--function {text} is not NAME=MODEL")
        if name in models:
            raise UsageError(f"--function is given twice for '{name}'")
        models[name] = model
    return models
