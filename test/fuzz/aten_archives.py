# pyright: basic
"""`.pt2` files with a call of any ATen op, which only its fake kernel has checked."""

from __future__ import annotations

import re
import warnings
from random import Random
from typing import Any

import torch
from fuzz.archives import Archives
from fuzz.aten import SHAPES, SIZES, WORDS
from fuzz.changes import FLOATS, NUMBERS
from fuzz.seed_models import saved
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import export
from torch.utils import _pytree as pytree

from padc.ir.torch.calls import called_with, danger_of, function_named
from padc.ir.torch.schemas import Schema, declarations, schema_of

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int8, torch.uint8),
)
TRIES = 30
"""How many calls are tried until PyTorch takes one, without data."""


class AtenArchives(Archives):
    """
    What `padc convert` and `padc run` do with a `.pt2` file of one op.

    A case is the file. PyTorch takes the operands, as far as it looks at them without
    data.
    """

    def prepare(self) -> None:
        super().prepare()
        self.names = [
            name
            for name in declarations()
            if name.startswith("aten.")
            and danger_of(name) is None
            # Of numbers alone, PyTorch computes without any look at them.
            and any("Tensor" in each.type for each in the_schema(name).returns)
        ]

    def case(self, rng: Random) -> bytes:
        for _ in range(TRIES):
            call = Call(rng, rng.choice(self.names))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call.check()
                    return saved(export(call, tuple(call.tensors)))
                except Exception:
                    continue
        return rng.choice(self.seeds)


def the_schema(name: str) -> Schema:
    schema = schema_of(name)
    assert schema is not None
    return schema


MOST_RESULTS = 1000


class Call(torch.nn.Module):
    """A call of an op; its tensors are the inputs."""

    def __init__(self, rng: Random, name: str):
        super().__init__()
        self.rng = rng
        self.function = function_named(name)
        self.element = rng.choice((torch.float32, *DTYPES))
        self.tensors: list[torch.Tensor] = []
        self.operands: Any = [
            each.default
            if each.has_default and rng.random() < 0.5
            else self.value(each.type)
            for each in the_schema(name).arguments
        ]

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        operands = pytree.tree_map_only(
            torch.Tensor, lambda _: next(given), self.operands
        )
        names = [argument.name for argument in self.function._schema.arguments]
        return called_with(self.function, names, operands)

    def check(self) -> None:
        """Raise unless PyTorch takes the operands without data, and running nothing."""
        mode = FakeTensorMode(allow_fallback_kernels=False)
        with mode:
            results = self(*map(mode.from_tensor, self.tensors))
        tensors = [
            x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor)
        ]
        if not tensors or sum(x.numel() for x in tensors) > 2**16:
            raise ValueError("no tensors, or large ones")
        if len(tensors) > MOST_RESULTS:
            raise ValueError("PyTorch takes long to export them")

    def value(self, type: str) -> Any:
        """A value of an ATen type."""
        rng = self.rng
        if type.endswith("?"):
            return None if rng.random() < 0.4 else self.value(type[:-1])
        if match := re.fullmatch(r"(.+)\[(\d*)\]", type):
            size = int(match[2] or 0)
            count = size if size and rng.random() < 0.7 else rng.randrange(5)
            return [self.value(match[1]) for _ in range(count)]
        match type:
            case "Tensor":
                return self.tensor()
            case "int" | "SymInt":
                near = rng.random() < 0.85
                return max(
                    -(2**63), min(rng.choice(SIZES if near else NUMBERS), 2**63 - 1)
                )
            case "Scalar":
                return self.value(rng.choice(("int", "float", "bool")))
            case "float":
                return rng.choice(FLOATS)
            case "bool":
                return rng.random() < 0.5
            case "str":
                return rng.choice(WORDS)
            case "ScalarType":
                return rng.choice(DTYPES)
            case _:
                return None

    def tensor(self) -> torch.Tensor:
        rng = self.rng
        dtype = self.element if rng.random() < 0.8 else rng.choice(DTYPES)
        number = rng.choice((0, 1, -1, 3, 100))
        made = torch.full(rng.choice(SHAPES), number, dtype=torch.float32).to(dtype)
        self.tensors.append(made)
        return made
