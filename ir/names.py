"""Names: identifiers, and unique ones."""

import re
from collections.abc import Container


def identifier(name: str, also: str = "") -> str:
    """`name` in ASCII letters, digits, `_` and `also`, and not with a digit first."""
    name = re.sub(rf"[^\w{re.escape(also)}]", "_", name, flags=re.ASCII)
    return name if re.match("[A-Za-z_]", name) else f"_{name}"


def unique_name(name: str, taken: Container[str]) -> str:
    """`name`, with the first number appended that makes it unique, if needed."""
    unique, count = name, 0
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique
