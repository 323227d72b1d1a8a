"""`padc.save_functions`: several programs as functions of one Core ML package."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from padc.backends.coreml.locations import DEFAULT_LOCATIONS, LocationsPolicy
from padc.coreml_program import Program
from padc.errors import UsageError
from padc.ir.targets import TARGETS

__all__ = ["save_functions"]

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""The names that functions of Core ML can have."""

OLDEST = "iOS18"
"""The oldest system that has packages with several functions."""


def save_functions(
    programs: Mapping[str, Program],
    path: str | Path,
    *,
    default: str | None = None,
    locations: LocationsPolicy = DEFAULT_LOCATIONS,
) -> None:
    """
    Write programs as functions of one package, which share their weights.

    A weight that several functions have is written once: functions may be a model for
    several fixed sizes, the first step and the others of a decoder, or a base model
    with one of several adapters.

    Args:
        programs: The programs by the names of their functions. A name has letters,
            digits and underscores. All are converted for the same target, iOS18 or
            newer.
        path: The folder to write, named `.mlpackage`; a package there is replaced.
        default: The function that runs if an app names none; by default the first.
        locations: How the package records the line of Python that each op comes from;
            see `Program.save`.

    Raises:
        UsageError: There are no programs, a name or the default does not fit, targets
            differ or are too old, a program has other metadata than the default, or the
            package cannot be written.
        UnsupportedError: The package breaks a rule of Core ML (see `Program.check`).

    Example:
        >>> import padc, torch
        >>> model = torch.nn.Conv2d(3, 64, 3)
        >>> small, large = torch.zeros(1, 3, 8, 8), torch.zeros(1, 3, 16, 16)
        >>> programs = {
        ...     "small": padc.convert(model, (small,), target="iOS18"),
        ...     "large": padc.convert(model, (large,), target="iOS18"),
        ... }
        >>> padc.save_functions(programs, "sizes.mlpackage", default="large")
        >>> padc.coreml.load("sizes.mlpackage", function_name="small").inputs[0].shape
        (1, 3, 8, 8)
    """
    from padc.backends.coreml import save

    check_programs(programs)
    default = checked_default([*programs], default)
    pymil = {name: program._pymil for name, program in programs.items()}  # pyright: ignore[reportPrivateUsage]
    of_package = package_metadata(pymil[default])
    for name, program in pymil.items():
        own = package_metadata(program)
        if own and own != of_package:
            raise UsageError(
                f"the function '{name}' has other metadata than the default function "
                f"'{default}', whose the package has",
                hint="give both the same, or only the default function",
            )
    save.save_functions(
        pymil,
        default,
        path,
        common_target(programs),
        locations,
    )


def package_metadata(program: Any) -> dict[str, Any]:
    """What the metadata of a program say of the whole package."""
    from padc.backends.coreml.app.metadata import DESCRIPTIONS

    features = getattr(program, "features", None)
    metadata: dict[str, Any] = {} if features is None else {**features.metadata}
    return {key: x for key, x in metadata.items() if key not in DESCRIPTIONS}


def check_programs(programs: Any) -> None:
    """Raise UsageError unless these are programs by name."""
    hint = "give a dictionary: the programs that padc.convert returns, by name"
    if not isinstance(programs, Mapping):
        raise UsageError(f"programs is a {type(programs).__name__}", hint=hint)
    for name, program in cast(Mapping[Any, Any], programs).items():
        if not isinstance(program, Program):
            kind = type(program).__name__
            raise UsageError(f"the function {name!r} is a {kind}", hint=hint)


def checked_default(names: Sequence[Any], default: str | None) -> str:
    """The default of functions with these names; UsageError if a name does not fit."""
    if not names:
        raise UsageError("there are no programs to save")
    default = cast(str, names[0] if default is None else default)
    if default not in names:
        raise UsageError(
            f"the default '{default}' is no function",
            hint=f"choose one of {', '.join(map(str, names))}",
        )
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise UsageError(
                f"a function cannot be named {name!r}",
                hint="use letters, digits and underscores, and no digit first",
            )
    return default


def common_target(programs: Mapping[str, Program]) -> str:
    """The target of all programs; UsageError if they differ."""
    targets = {program.target: name for name, program in programs.items()}
    if len(targets) > 1:
        listed = ", ".join(f"'{name}' for {target}" for target, name in targets.items())
        raise UsageError(
            f"functions of one package have one target, got {listed}",
            hint="convert all with the same target",
        )
    (target,) = targets
    check_target(target)
    return target


def check_target(target: str) -> None:
    """Raise UsageError unless packages for the target can have several functions."""
    if TARGETS.index(target) < TARGETS.index(OLDEST):
        raise UsageError(
            f"packages with several functions need {OLDEST}, got {target}",
            hint=f'convert with target="{OLDEST}"',
        )
