# pyright: basic
"""`.pt2` files that do not say for which sizes their programs are right."""

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

RUNS = 12
"""The combinations of sizes that a program is run for."""
SIZES = (*(0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 8), 17)


class DynamicArchives(Archives):
    """
    What `padc.load` and `padc.compile` do with a file that hides its guards.

    A case is the file: a random program of the differential machine, without its guards
    and ranges of sizes, or with some. Machine code checks its loads and stores.
    """

    seconds = 20
    """Checks of 50 loads for each element, as of bicubic grids, take LLVM 5 s; making
    the program takes 2 s."""

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
    """The archive, without most of what limits sizes."""
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
    """Inputs of some sizes; a symbol has the same size in all of them."""
    values: dict[Any, int] = {}

    def size(of: int | torch.SymInt) -> int:
        if isinstance(of, int):
            return of
        expression = of.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            values.setdefault(symbol, rng.choice(SIZES))
        return max(0, int(expression.subs(values)))

    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    given = set(program.graph_signature.user_inputs)
    made: list[torch.Tensor] = []
    for node in program.graph.find_nodes(op="placeholder"):
        for x in pytree.tree_leaves(node.meta["val"] if node.name in given else ()):
            shape = list(map(size, x.shape))
            number = torch.randint(-3, 4, shape, generator=generator)
            made.append(number.to(x.dtype))
    return made
