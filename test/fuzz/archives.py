# pyright: basic
"""
`.pt2` files: changes of their JSON, their members, and the structure of the zip.

A file that runs code while it is loaded is a find, too.
"""

from __future__ import annotations

import functools
import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import torch
from fuzz.changes import TEXTS, changed_bytes, changed_tree, places_in
from fuzz.seed_models import programs, saved
from fuzz.target import Target
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import padc
from padc.frontends.torch_export import kernels_for, load, module_of

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
            case 2:
                return with_changed_members(seed, rng)
            case 3:
                return with_pickle(seed, rng)
            case _:
                return with_changed_json(seed, rng)

    def run(self, case: bytes) -> None:
        program = loaded(case)
        refusals: list[BaseException] = []
        for use in (computed, padc.convert):
            try:
                use(program)
            except self.errors as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]


def loaded(archive: bytes) -> ExportedProgram:
    """The program in a file; a find if code of the file runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        path.write_bytes(archive)
        with no_code():
            return load(path)


def computed(program: ExportedProgram) -> None:
    """
    Run the machine code of a small program on its examples.

    A program that PyTorch refuses to run may return anything, but must not access
    memory outside of its buffers.
    """
    model = padc.compile(program)
    if program.example_inputs is None or not is_small(program):
        return
    args, kwargs = program.example_inputs
    module = module_of(program)
    try:
        with kernels_for(module):
            module(*args, **kwargs)
    except Exception:
        with patch.dict(os.environ, {"PADC_CHECK": "1"}):
            model = padc.compile(program)
        if not model.is_native:
            return
    model(*args, **kwargs)


MOST_ELEMENTS = 2**20


def is_small(program: ExportedProgram) -> bool:
    """Whether few elements are computed, and nothing is repeated."""
    values = [
        value
        for node in program.graph.nodes
        for value in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(value, torch.Tensor)
    ]
    has_loops = any(node.op == "get_attr" for node in program.graph.nodes)
    sizes = [size for value in values for size in value.shape]
    if has_loops or not all(isinstance(size, int) for size in sizes):
        return False
    return sum(value.numel() for value in values) < MOST_ELEMENTS


ARE_CODE = frozenset(["pickle.find_class", "os.system", "subprocess.Popen", "os.mkdir"])
"""Events of Python of which none happens while data is read."""
loading = False


@contextmanager
def no_code() -> Iterator[None]:
    """Make a find of a file that runs code while it is loaded."""
    global loading
    add_hook()
    loading = True
    try:
        yield
    finally:
        loading = False


@functools.cache
def add_hook() -> None:
    """Hooks stay until the process ends."""
    sys.addaudithook(refuse_code)


def refuse_code(event: str, arguments: Any) -> None:
    if loading and event in ARE_CODE:
        raise RanCodeError(f"{event}: {arguments}")


class RanCodeError(BaseException):
    """No error of padc, and no code catches it."""


EXPRESSIONS = (
    "'a' * (2**31) == 1", "L['x'].size() * 300000000 == 1", "L['x'].size()[9] == 1",
    "round(2, -100000000) == 0", "*".join(["2**64"] * 300) + " == 1", "False",
    "L['x'].size()[0] % 0 == 1", "__import__('os').mkdir('x')", "float('nan') == 1",
    "Pow(Add(Symbol('s0'), Symbol('s1')), Integer(40))", "Mod(Symbol('s0'), Integer(0))",
    "Max(" + ", ".join(f"Symbol('s{n}')" for n in range(99)) + ")", "10**64**64",
    "FloorDiv(Symbol('s0'), Integer(0))", "Mul(Add(s0, 1), Add(s0, 2))", "u0", "true",
    "_operator.pow", "_operator.lshift", "_operator.getitem", "_operator.attrgetter",
    "torch.ops.aten.ones.default", "torch.ops.aten.manual_seed.default",
    "torch.ops.aten.from_file.default", "torch.ops.aten.item.default", "math.gamma",
)  # fmt: skip
"""Guards, sizes and targets that take memory or time, have no value, or are code."""
INSTRUCTIONS = (
    b"cbuiltins\nbytearray\n", b"cbuiltins\neval\n", b"cos\nmkdir\n",
    b"c_codecs\nencode\n", b"ccollections\nCounter\n", b"ccollections\nOrderedDict\n",
    b"ctorch\nFloatStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nSize\n",
    b"X\x01\x00\x00\x00a", b"X\x03\x00\x00\x00hex", b"X\x07\x00\x00\x00storage", b"Q",
    b"K\x01", b"J\xff\xff\xff\x7f", b"\x8a\x05\x00\x00\x00\xc0\x00", b"N", b")", b"]",
    b"}", b"(", b"t", b"\x85", b"\x86", b"\x87", b"R", b"\x81", b"b", b"a", b"e", b"s", b"u",
    b"q\x01", b"h\x01", b"r\xff\xff\xff\x7f", b"0", b"2", b"\x89",
)  # fmt: skip


def with_pickle(archive: bytes, rng: Random) -> bytes:
    """Instructions of pickle, for the inputs: a call, the same one again, or any."""
    members = members_of(archive)
    some = rng.choices(INSTRUCTIONS, k=rng.randint(1, 12))
    call = [
        rng.choice(INSTRUCTIONS[:9]),
        *some[:2],
        rng.choice((b"\x85", b"\x86")),
        b"R",
    ]
    lines = rng.choice([some, call, [*call, b"q\x02", b"h\x02", b"\x86"] * 20])
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as inner:
        inner.writestr("archive/data.pkl", b"\x80\x02" + b"".join(lines) + b".")
    for name in [name for name in members if "sample_inputs" in name]:
        members[name] = data.getvalue()
    return zipped(list(members.items()), rng)


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
    if name in graphs and rng.random() < 0.2:
        members[name] = with_expression(tree, rng)
        return zipped(list(members.items()), rng)
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


def with_expression(tree: Any, rng: Random) -> bytes:
    """A graph with another guard, size or target."""
    text = rng.choice(EXPRESSIONS)
    places = [
        (node, key)
        for node, key in places_in(tree)
        if key in ("expr_str", "target") and isinstance(node[key], str)
    ]
    if not places or rng.random() < 0.4:
        tree["guards_code"] = [text]
    else:
        node, key = rng.choice(places)
        node[key] = text
    return json.dumps(tree).encode()


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
