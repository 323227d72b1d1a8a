"""Names: identifiers, and unique ones."""

import re
from collections.abc import Container, MutableMapping


def identifier(name: str, also: str = "") -> str:
    """`name` in ASCII letters, digits, `_` and `also`, and not with a digit first."""
    name = re.sub(rf"[^\w{re.escape(also)}]", "_", name, flags=re.ASCII)
    return name if re.match("[A-Za-z_]", name) else f"_{name}"


def unique_name(
    name: str, taken: Container[str], numbers: MutableMapping[str, int] | None = None
) -> str:
    """
    `name`, with the first number appended that makes it unique, if needed.

    `numbers` keeps the last number of each name for later calls with more names taken.
    Without it, many equal names take quadratic time.
    """
    unique, number = name, 0
    while unique in taken:
        if number == 0 and numbers is not None:
            number = numbers.get(name, 0)
        number += 1
        unique = f"{name}_{number}"
    if number and numbers is not None:
        numbers[name] = number
    return unique
