"""Random changes of bytes, numbers, texts and trees of JSON."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

NUMBERS = (
    *(0, 1, 2, 3, 5, 7, 64, 255, 2**15, 2**31 - 1, 2**31, 2**40),
    *(2**63 - 1, 2**63, 2**64, -1, -2, -(2**31), -(2**63)),
)
"""Integers near the limits of types, and small ones."""
FLOATS = (0.0, -0.0, -1.0, 0.3, 1e23, 1e30, 1e300, float("inf"), float("nan"))
TEXTS = ("", "x", "main", "\0", "../x", "valid", "é\n", "9" * 40, "a" * 300)


def changed_bytes(content: bytes, rng: Random) -> bytes:
    """Another byte, run of bytes, end, or order of blocks."""
    if not content:
        return rng.randbytes(rng.randint(1, 16))
    data = bytearray(content)
    at, size = rng.randrange(len(data)), rng.randint(1, 16)
    match rng.randrange(7):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.randrange(256)
        case 2:
            data[at : at + size] = bytes([rng.choice((0, 0x7F, 0xFF))]) * size
        case 3:
            del data[at:]
        case 4:
            data[at:at] = rng.randbytes(size)
        case 5:
            del data[at : at + size]
        case _:
            low, middle, high = sorted(rng.choices(range(len(data)), k=3))
            data[low:high] = data[middle:high] + data[low:middle]
    return bytes(data)


def changed_integer(value: int, rng: Random) -> int:
    """A near integer, a small one, or one at the limit of a type."""
    near = (value + 1, value - 1, -value, value * 2, rng.randrange(70))
    return rng.choice([*NUMBERS, *near])


def changed_scalar(value: Any, rng: Random, texts: Sequence[str] = TEXTS) -> Any:
    """Another value of the same Python type; values of other types stay."""
    match value:
        case bool():
            return not value
        case int():
            return changed_integer(value, rng)
        case float():
            return rng.choice(FLOATS)
        case str():
            return rng.choice([*texts, value + "x", value[:-1]])
        case bytes():
            return changed_bytes(value, rng)
        case _:
            return value


def changed_tree(tree: Any, rng: Random) -> Any:
    """A copy of a tree of JSON with one to three changes."""
    # The root is an item like all others.
    root = [copy.deepcopy(tree)]
    for _ in range(rng.randint(1, 3)):
        places = list(places_in(root))
        # By type first: there are more texts than numbers.
        kind = rng.choice(sorted({type(node[key]).__name__ for node, key in places}))
        same = [(node, key) for node, key in places if type(node[key]).__name__ == kind]
        node, key = rng.choice(same)
        change_place(node, key, rng, places, same)
    return root[0]


def places_in(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in nested dicts and lists, as (its container, its key)."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            if isinstance(node[key], dict | list):
                waiting.append(node[key])


def change_place(
    node: Any,
    key: Any,
    rng: Random,
    places: Sequence[tuple[Any, Any]],
    same: Sequence[tuple[Any, Any]],
) -> None:
    """Change the value at one place: remove, repeat, move, replace."""
    value = node[key]
    match rng.randrange(8):
        case 0 if node is not places[0][0]:
            del node[key]
        case 1 if isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), copy.deepcopy(value))
        case 2 if isinstance(node, list):
            other = rng.randrange(len(node))
            node[key], node[other] = node[other], node[key]
        case 2 if node is not places[0][0]:
            node[rng.choice([*map(str, node), *TEXTS])] = node.pop(key)
        case 3:
            # The value of an equal key, which has the right form more often.
            donors = [each for each in places if each[1] == key] or places
            donor, at = rng.choice(donors)
            node[key] = copy.deepcopy(donor[at])
        case 4:
            node[key] = rng.choice([None, True, 0, -1, 1.5, "x", [], {}, [[]]])
        case 5:
            donor, at = rng.choice(same)
            node[key] = copy.deepcopy(donor[at])
        case _ if isinstance(value, str) and value.lstrip("-").isdecimal():
            node[key] = str(changed_integer(int(value), rng))
        case _ if isinstance(value, dict | list):
            donor, at = rng.choice(same)
            node[key] = copy.deepcopy(donor[at])
        case _:
            texts = [n[k] for n, k in same if isinstance(n[k], str)]
            node[key] = changed_scalar(value, rng, texts or TEXTS)
