"""The option `--version` of padc's command lines."""

import argparse
from collections.abc import Sequence
from typing import Any

from padc.versions import versions_text


class VersionAction(argparse.Action):
    """Print the versions of padc and of the packages that it uses, and exit."""

    def __init__(self, option_strings: Sequence[str], dest: str):
        says = "print the versions of padc and of the packages it uses"
        super().__init__(option_strings, dest, nargs=0, help=says)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        print(versions_text())
        parser.exit()
