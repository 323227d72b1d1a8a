# pyright: basic
"""Entries of the cache of machine code: damaged, exchanged, signed with other keys."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import torch
import torch.utils._pytree as pytree
from fuzz.changes import changed_bytes
from fuzz.seed_models import Model, buffers, layers
from fuzz.target import Refused, Target
from torch.export import export

from padc import compiled
from padc.backends.native import cache

EXAMPLE = torch.arange(16.0).reshape(1, 2, 8)
KEY, KEY_OF_OTHERS = bytes(range(32)), bytes(32)


class CacheEntries(Target):
    """
    What `padc.compile` does with an entry: one that was changed is never run.

    A case is JSON: which program is compiled, the permissions of the folder and of the
    key, and the entry. No entry is changed and signed with the right key: whoever has
    the key can make padc run any code.
    """

    suffix = ".json"

    def __init__(self):
        torch.manual_seed(0)
        self.programs = [Cached(layers), Cached(buffers)]

    def prepare(self) -> None:
        """The entries are there already."""

    def case(self, rng: Random) -> bytes:
        number = rng.randrange(len(self.programs))
        entry = self.programs[number].entry
        match rng.randrange(8):
            case 0:
                entry = rng.choice(self.programs).entry
            case 1:
                entry = signed_by_others(changed_bytes(entry[65:], rng), rng)
            case _:
                for _ in range(rng.randint(1, 3)):
                    entry = changed_bytes(entry, rng)
        case = {
            "program": number,
            "folder": rng.choice([0o700] * 8 + [0o755, 0o777, 0o500, 0o000]),
            "key": rng.choice([0o600] * 8 + [0o644, 0o000]),
            "entry": base64.b64encode(entry).decode(),
        }
        return json.dumps(case).encode()

    def run(self, case: bytes) -> None:
        given = json.loads(case)
        entry = base64.b64decode(given["entry"])
        self.programs[given["program"]].run(entry, given["folder"], given["key"])


class Cached:
    """A program, its entry, and what it computes."""

    def __init__(self, function: Callable[..., Any]):
        self.exported = export(Model(function).eval(), (EXAMPLE,))
        self.compiled = compiled.compile_model(self.exported)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "cache")
            write_key(folder, 0o600)
            self.expected = self.compute(folder)
            (path,) = [each for each in folder.iterdir() if each.name != cache.KEY]
            self.name, self.entry = path.name, path.read_bytes()

    def compute(self, folder: Path) -> list[torch.Tensor]:
        """The results of the program, compiled with this cache."""
        with patch.dict(os.environ, {"PADC_CACHE_DIR": str(folder)}):
            results = compiled.compile_exported(self.exported)(EXAMPLE)
        leaves = pytree.tree_leaves(results)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def run(self, entry: bytes, folder_mode: int, key_mode: int) -> None:
        """
        Compile with a cache that holds `entry`, in no time.

        Raises Refused if the entry is not used; AssertionError for wrong results, and
        if an entry that was changed is used.
        """
        with (
            tempfile.TemporaryDirectory() as name,
            patch.object(compiled, "compile_model", return_value=self.compiled) as made,
        ):
            folder = Path(name, "cache")
            write_key(folder, key_mode)
            (folder / self.name).write_bytes(entry)
            folder.chmod(folder_mode)
            try:
                results = self.compute(folder)
            finally:
                folder.chmod(0o700)
        for result, expected in zip(results, self.expected, strict=True):
            assert torch.equal(result, expected), "another result"
        if made.called:
            raise Refused("compiled again")
        assert entry == self.entry, "an entry that was changed is used"


def write_key(folder: Path, mode: int) -> None:
    """Make a cache with a key."""
    folder.mkdir(mode=0o700)
    (folder / cache.KEY).write_bytes(KEY)
    (folder / cache.KEY).chmod(mode)


def signed_by_others(contents: bytes, rng: Random) -> bytes:
    """An entry whose digest is right for another key, or without a key."""
    name = "0" * 64
    plain = hashlib.sha256(name.encode() + contents).hexdigest().encode()
    digest = rng.choice([plain, cache.digest_of(KEY_OF_OTHERS, name, contents)])
    return digest + b"\n" + contents
