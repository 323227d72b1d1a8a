"""`padc check`: what breaks a rule of Core ML in a saved package."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "package", metavar="MODEL.mlpackage", help="any ML program package"
    )
    parser.add_argument(
        "--target",
        help="iOS15 to iOS18, iOS26 or newest; the package's own if not given",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the findings; exits with 1 if there are any."""
    from padc.coreml import check

    findings = check(arguments.package, arguments.target)
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
