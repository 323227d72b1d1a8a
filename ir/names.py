"""Unique names."""

from collections.abc import Container


def unique_name(name: str, taken: Container[str]) -> str:
    """`name`, with the first number appended that makes it unique, if needed."""
    unique, count = name, 0
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique
