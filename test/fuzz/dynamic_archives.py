# pyright: basic
"""`.pt2` files that omit the guards on the sizes for which their programs are valid."""

from __future__ import annotations

import json
import os
import zlib
from random import Random
from typing import Any
from unittest.mock import patch

import torch
from differential.exported import Model, dynamic_shapes
from differential.programs import drawn
from fuzz.archives import GRAPH, Archives, loaded, members_of, zipped
from fuzz.seed_models import saved
from torch.export import ExportedProgram, export
from torch.utils import _pytree as pytree

import padc
from padc.frontends.torch_export.small_sizes import value_of
from padc.frontends.torch_export.types import expression_of

RUNS = 12
"""The combinations of sizes that a program is run for."""
SIZES = (0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 8, 17)


class DynamicArchives(Archives):
    """
    What `padc.load` and `padc.compile` do with a file that omits its guards.

    A case is the file: a random program of the differential machine with most or all of
    its guards and size ranges removed. Machine code checks its loads and stores.
    """

    seconds = 20
    """A bicubic grid sample with checked loads takes LLVM 5 s, and the export 2 s."""

    def case(self, rng: Random) -> bytes:
        while True:
            program = drawn(rng.randrange(2**40), "exported")
            if program.calls and len(program.runs) > 1 and not program.states:
                shapes = dynamic_shapes(program)
                given = tuple(program.given(0))
                try:
                    archive = saved(
                        export(Model(program), given, dynamic_shapes=shapes)
                    )
                except Exception:
                    continue
                return without_guards(archive, rng)

    def run(self, case: bytes) -> None:
        with patch.dict(os.environ, {"PADC_CHECK": "1"}):
            program = loaded(case)
            model = padc.compile(program)
        if not model.is_native:
            return
        refusals: list[BaseException] = []
        rng = Random(zlib.crc32(case))
        for _ in range(RUNS):
            try:
                model(*random_inputs(program, rng))
            except self.errors as error:
                refusals.append(error)
        if len(refusals) == RUNS:
            raise refusals[0]


def without_guards(archive: bytes, rng: Random) -> bytes:
    """The archive with most or all of its guards and size ranges removed."""
    members = members_of(archive)
    (name,) = [name for name in members if name.endswith(GRAPH)]
    tree: Any = json.loads(members[name])
    share = rng.choice((0, 0, 0.5))
    tree["guards_code"] = [x for x in tree["guards_code"] if rng.random() < share]
    for each in tree["range_constraints"].values():
        if rng.random() >= share:
            each["min_val"] = 0
        if rng.random() >= share:
            each["max_val"] = None
    members[name] = json.dumps(tree).encode()
    return zipped(list(members.items()), rng)


def random_inputs(program: ExportedProgram, rng: Random) -> list[torch.Tensor]:
    """Random inputs; each symbolic size has one value in all of them."""
    values: dict[str, int] = {}

    def size(of: int | torch.SymInt) -> int:
        for name in sorted(map(str, expression_of(of).free_symbols)):
            values.setdefault(name, rng.choice(SIZES))
        return max(0, value_of(of, values))

    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    given = set(program.graph_signature.user_inputs)
    made: list[torch.Tensor] = []
    for node in program.graph.find_nodes(op="placeholder"):
        for x in pytree.tree_leaves(node.meta["val"] if node.name in given else ()):
            shape = list(map(size, x.shape))
            integers = torch.randint(-3, 4, shape, generator=generator)
            made.append(integers.to(x.dtype))
    return made
