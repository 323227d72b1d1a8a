"""`padc check`: what in a saved package breaks the rules of Core ML."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", metavar="MODEL.mlpackage")
    parser.add_argument(
        "--target", help="iOS15 ... or newest; that of the package if not given"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the findings; exits with 1 if there are any."""
    from padc.coreml import check

    findings = check(arguments.package, arguments.target)
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
