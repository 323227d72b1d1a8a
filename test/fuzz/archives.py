# pyright: basic
"""`.pt2` files: changes of their JSON, their members, and the structure of the zip."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from fuzz.changes import TEXTS, changed_bytes, changed_tree
from fuzz.seed_models import programs, saved
from fuzz.target import Target

import padc
from padc.frontends.torch_export import load

SAVED = Path(__file__).parents[1] / "frontends" / "saved"
GRAPH = "models/model.json"
DIRECTORY, MEMBER = b"PK\x01\x02", b"PK\x03\x04"
RECORDS = {DIRECTORY: 46, MEMBER: 30, b"PK\x05\x06": 22, b"PK\x06\x06": 56}
"""The records of a zip archive, by their mark, with their size."""


class Archives(Target):
    """
    What `padc convert` and `padc run` do with a `.pt2` file.

    A case is the file.
    """

    suffix = ".pt2.zip"

    def prepare(self) -> None:
        self.seeds = [saved(program) for program in programs().values()]
        self.seeds.append((SAVED / "torch_2.8.pt2").read_bytes())
        # Imports coremltools and lowerings, which each child would do again.
        self.run(self.seeds[0])

    def case(self, rng: Random) -> bytes:
        seed = rng.choice(self.seeds)
        match rng.randrange(10):
            case 0:
                return changed_bytes(seed, rng)
            case 1:
                return with_changed_record(seed, rng)
            case 2 | 3:
                return with_changed_members(seed, rng)
            case _:
                return with_changed_json(seed, rng)

    def run(self, case: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.pt2")
            path.write_bytes(case)
            program = load(path)
        padc.compile(program)
        padc.convert(program)


def members_of(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members: list[tuple[str, bytes]], rng: Random) -> bytes:
    """An archive, of which PyTorch's way of writing is one."""
    data = io.BytesIO()
    compression = zipfile.ZIP_DEFLATED if rng.random() < 0.02 else zipfile.ZIP_STORED
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return data.getvalue()


def with_changed_json(archive: bytes, rng: Random) -> bytes:
    """Changes to the graph, or to the descriptions of tensors."""
    members = members_of(archive)
    texts = [name for name in members if name.endswith(".json")]
    graphs = [name for name in texts if name.endswith(GRAPH)]
    name = rng.choice([*texts, *graphs * 8])
    tree: Any = json.loads(members[name])
    inner = tree
    if name in graphs and rng.random() < 0.8:
        # Most of the rest are versions, and lists that are empty.
        inner = tree["graph_module"]
    changed = changed_tree(inner, rng)
    if inner is not tree:
        tree["graph_module"] = changed
    else:
        tree = changed
    members[name] = json.dumps(tree).encode("utf-8", "surrogatepass")
    return zipped(list(members.items()), rng)


def with_changed_members(archive: bytes, rng: Random) -> bytes:
    """Members of other contents, other names, of another archive, twice or not at all."""
    members = list(members_of(archive).items())
    for _ in range(rng.randint(1, 2)):
        at, other = rng.randrange(len(members)), rng.randrange(len(members))
        name, content = members[at]
        match rng.randrange(7):
            case 0:
                del members[at]
            case 1:
                members.append((name, content))
            case 2:
                members[at] = name, members[other][1]
            case 3:
                root, _, rest = name.partition("/")
                places = (f"{root}/{rng.choice(TEXTS)}", f"x/{rest}", members[other][0])
                members[at] = rng.choice(places), content
            case _:
                members[at] = name, changed_bytes(content, rng)
        if not members:
            break
    return zipped(members, rng)


def with_changed_record(archive: bytes, rng: Random) -> bytes:
    """A change in a header of a member, its entry in the directory, or the end."""
    mark = rng.choice(list(RECORDS))
    starts = [at for at in range(len(archive)) if archive.startswith(mark, at)]
    if not starts:
        return changed_bytes(archive, rng)
    start = rng.choice(starts)
    end = start + RECORDS[mark]
    return archive[:start] + changed_bytes(archive[start:end], rng) + archive[end:]
