"""Names that are unlike each other."""

from collections.abc import Container


def unique_name(name: str, taken: Container[str]) -> str:
    """`name`, or with the first number behind it that makes it one not yet taken."""
    unique, count = name, 0
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique
