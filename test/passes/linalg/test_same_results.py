# pyright: basic
"""
What passes on linalg make of some programs computes the same, proved by z3.

An element is a term of the operands' elements, so a proof is for all of their values
and for each place in the results, but of these programs only.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import symbolic_run
import torch
import torch.nn.functional as F
import z3
from proofs import holds
from symbolic_run import Array, SymbolicRun, of_integers, same
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from padc.ir import make_context
from padc.ir.main_function import functions_of
from padc.passes import pipelines
from padc.passes.linalg import layout_plan
from padc.passes.linalg.fuse_elementwise import FuseElementwisePass
from padc.passes.linalg.pack_layouts import PackLayoutsPass
from padc.passes.linalg.write_in_place import WriteInPlacePass

Parse = Callable[[str], ModuleOp]
BESIDE = Path(__file__).parent


def arguments(function: FuncOp) -> list[Any]:
    """Numbers and tensors of any elements."""
    found: list[Any] = []
    for number, arg in enumerate(function.args):
        attributes = function.arg_attrs.data[number].data if function.arg_attrs else {}
        match attributes.get("padc.weight"):
            case StringAttr(data=name):
                pass
            case _:
                name = f"arg{number}"
        if isinstance(arg.type, TensorType):
            found.append(tensor_argument(name, arg.type, attributes))
        else:
            found.append(z3.Int(name))
    return found


def tensor_argument(
    name: str, type: TensorType[Any], attributes: Mapping[str, Any]
) -> Array:
    """A tensor; a packed weight has the elements of the weight."""
    sizes = [
        z3.Int(f"{name}_{dim}") if size == DYNAMIC_INDEX else z3.IntVal(size)
        for dim, size in enumerate(type.get_shape())
    ]
    elements = z3.Function(name, z3.IntSort(), z3.IntSort())
    split: Sequence[Any] = sizes
    order: Sequence[int] = range(len(sizes))
    if "padc.split" in attributes:
        split = attributes["padc.split"].get_values()
        order = attributes["padc.order"].get_values()

    def at(indices: Sequence[Any]) -> Any:
        place: Any = z3.IntVal(0)
        for dim, size in enumerate(split):
            place = place * size + indices[order.index(dim)]
        return elements(place)

    return Array(sizes, at)


def is_same(before: FuncOp, after: FuncOp) -> bool:
    """Whether both return the same, and no op reads outside of its operands."""
    _, old = SymbolicRun.of(before, *arguments(before))
    run, new = SymbolicRun.of(after, *arguments(after))
    legal = z3.And(*run.obligations)
    for a, b in zip(old, new, strict=True):
        places = z3.Ints([f"at{dim}" for dim in range(len(a.sizes))])
        if not holds(z3.And(same(a, b, places), legal)):
            return False
    return True


LIT: dict[str, ModulePass] = {
    "fuse_elementwise.mlir": FuseElementwisePass(),
    "write_in_place.mlir": WriteInPlacePass(),
}
WITHOUT_RULE = {"winograd": "a tile of results is no sum of few terms"}


def lit_functions() -> list[tuple[str, str]]:
    return [
        (file, name)
        for file in LIT
        for name in re.findall(r"^func.func @(\w+)", (BESIDE / file).read_text(), re.M)
        if name not in WITHOUT_RULE
    ]


@pytest.mark.parametrize("file, name", lit_functions())
def test_functions_of_lit_tests(file: str, name: str, parse: Parse, ctx: Context):
    before, after = (parse((BESIDE / file).read_text()) for _ in range(2))
    LIT[file].apply(ctx, after)

    assert is_same(*(named(module, name) for module in (before, after)))


def named(module: ModuleOp, name: str) -> FuncOp:
    (function,) = (f for f in functions_of(module) if f.sym_name.data == name)
    return function


class Net(nn.Module):
    """A convolution before and after a function; both may be packed by 4 channels."""

    def __init__(self, between: Callable[[Tensor], Tensor], channels: int):
        super().__init__()
        self.first = nn.Conv2d(2, 4, (2, 1), padding=(1, 0))
        self.between = between
        self.last = nn.Conv2d(channels, 4, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))


BETWEEN: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "relu": (F.relu, 4),
    "sum": (lambda x: x.exp() + x * x[:, :, :1, :1], 4),
    "scaled": (lambda x: x * torch.tensor([0.5, -1, 2, 3]).view(1, 4, 1, 1), 4),
    "max pool": (lambda x: F.max_pool2d(x, (2, 1)), 4),
    "padded": (lambda x: F.pad(x, (1, 2), value=7.0), 4),
    "cropped": (lambda x: x[:, :, 1:, ::2], 4),
    "halves swapped": (lambda x: torch.cat([x[:, 2:], x[:, :2]], 1), 4),
    "concatenated": (lambda x: torch.cat([x, x.relu()], 1), 8),
    "rows concatenated": (lambda x: torch.cat([x, -x], 2), 4),
    "upsampled": (lambda x: F.interpolate(x, scale_factor=2), 4),
    "turned": (lambda x: x.transpose(2, 3).relu(), 4),
    "flattened": (lambda x: x.flatten(2).relu().view(x.shape), 4),
    "mean of channels": (lambda x: x - x.amax(1, True), 4),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_networks_whose_channels_are_packed(name: str, monkeypatch: pytest.MonkeyPatch):
    # Sums of products are put in another order.
    for op, function in (("arith.addf", operator.add), ("arith.mulf", product)):
        monkeypatch.setitem(symbolic_run.BY_NAME, op, of_integers(function))
    monkeypatch.setattr(layout_plan, "GAIN", 1e3)
    x = torch.randn(1, 2, 3, 2)
    exported = torch.export.export(Net(*BETWEEN[name]).eval(), (x,))
    before, after = (before_layouts(exported) for _ in range(2))

    PackLayoutsPass(16).apply(make_context(), after)

    assert str(after).count("padc.order") >= 3
    assert is_same(*(named(module, "main") for module in (before, after)))


def test_other_networks_are_not_the_same():
    x = torch.randn(1, 2, 3, 2)
    one, other = (
        before_layouts(torch.export.export(Net(function, 4).eval(), (x,)))
        for function in (F.relu, torch.exp)
    )

    assert is_same(named(one, "main"), named(one, "main"))
    assert not is_same(named(one, "main"), named(other, "main"))


def product(a: Any, b: Any) -> Any:
    """No more is known of products: sums of them are linear then."""
    return z3.Function("product", z3.IntSort(), z3.IntSort(), z3.IntSort())(a, b)


def before_layouts(exported: torch.export.ExportedProgram) -> ModuleOp:
    ctx, module = pipelines.import_program(exported, legal=pipelines.legal_for_native())
    pipelines.run_passes(ctx, module, pipelines.to_native_tcp())
    for each in pipelines.to_buffers(16):
        if isinstance(each, PackLayoutsPass):
            break
        each.apply(ctx, module)
    return module
