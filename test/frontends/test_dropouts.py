# pyright: basic
"""Idle dropouts in models whose arguments are called like Python builtins."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor, nn
from torch.export import ExportedProgram

import padc
from padc.frontends.torch_export import export_module, import_exported_program
from padc.frontends.torch_export.dropouts import copy_graph, without_idle_dropouts
from padc.frontends.torch_export.nodes import nodes_of, schema_name
from padc.ir.weights import Weights

X, Y = torch.randn(2, 3), torch.randn(2, 3)

DROPOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "eval": lambda x: F.dropout(x, 0.5, training=False),
    "p=0": lambda x: F.dropout(x, 0.0, training=True),
    "in place": lambda x: F.dropout(x * 1, 0.5, training=False, inplace=True),
    "alpha": lambda x: F.alpha_dropout(x, 0.5, training=False),
    "feature": lambda x: F.dropout1d(x, 0.5, training=False),
    "feature alpha": lambda x: F.feature_alpha_dropout(x, 0.5, training=False),
}


class Dropped(nn.Module):
    def __init__(self, dropout: Callable[[Tensor], Tensor]):
        super().__init__()
        self.dropout = dropout


class One(Dropped):
    def forward(self, input: Tensor) -> Any:
        return self.dropout(input).log_softmax(-1)


class ReturnsIt(Dropped):
    def forward(self, len: Tensor) -> Any:
        y = len * 2
        return self.dropout(y), y


class Several(Dropped):
    def forward(self, input: Tensor, len: Tensor, id: Tensor, type: Tensor) -> Any:
        return self.dropout(input - len).exp() + self.dropout(id) * type


class ByKeyword(Dropped):
    def forward(self, input: Tensor, *, len: Tensor, **more: Tensor) -> Any:
        return self.dropout(input - len).exp() + more["id"]


class Colliding(Dropped):
    def forward(self, input_1: Tensor, input: Tensor, *, exp: Tensor) -> Any:
        return self.dropout(input).exp() - 2 * input_1, self.dropout(exp)


class OtherWay(Dropped):
    def forward(self, input: Tensor, input_1: Tensor, input_2: Tensor) -> Any:
        return self.dropout(input).exp() - 2 * input_1 + 3 * input_2


class Structures(Dropped):
    def forward(self, input: dict[str, Tensor]) -> Any:
        y = input["len"] * 2
        z = self.dropout(y)
        y.relu_()
        return {"id": z.exp(), "input": y * input["id"]}


MODELS: dict[type[Dropped], tuple[tuple[Any, ...], dict[str, Tensor]]] = {
    One: ((X,), {}),
    ReturnsIt: ((X,), {}),
    Several: ((X, Y, X + Y, X * Y), {}),
    ByKeyword: ((X,), {"len": Y, "id": X + Y}),
    Colliding: ((X, Y), {"exp": X + Y}),
    OtherWay: ((X, Y, X + Y), {}),
    Structures: (({"len": X, "id": Y},), {}),
}


def exported(model: type[Dropped], dropout: str) -> ExportedProgram:
    args, kwargs = MODELS[model]
    return export_module(model(DROPOUTS[dropout]), args, kwargs)


CASES = [
    *itertools.product(MODELS, ["eval"]),
    *itertools.product([Several, Structures], list(DROPOUTS)[1:]),
]


@pytest.mark.parametrize(("model", "dropout"), CASES)
def test_compiles(model: type[Dropped], dropout: str):
    args, kwargs = MODELS[model]

    compiled = padc.compile(exported(model, dropout))

    expected = model(DROPOUTS[dropout])(*args, **kwargs)
    assert compiled.is_native, compiled.report()
    torch.testing.assert_close(compiled(*args, **kwargs), expected)


@pytest.mark.parametrize("model", MODELS)
def test_compiles_what_is_decomposed(model: type[Dropped]):
    args, kwargs = MODELS[model]
    program = exported(model, "feature").run_decompositions({})

    compiled = padc.compile(program)

    expected = model(DROPOUTS["feature"])(*args, **kwargs)
    assert compiled.is_native, compiled.report()
    torch.testing.assert_close(compiled(*args, **kwargs), expected)


@pytest.mark.parametrize(("model", "dropout"), CASES)
def test_converts(model: type[Dropped], dropout: str):
    program = padc.convert(exported(model, dropout), target="iOS17")

    program.verify()


@pytest.mark.parametrize("mode", [nn.Module.eval, lambda model: model.train(False)])
def test_sequential(mode: Callable[[nn.Module], nn.Module]):
    model = mode(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.LogSoftmax(-1)))

    compiled = padc.compile(model, (X,))
    program = padc.convert(model, (X,))

    assert compiled.is_native and compiled.input_names == ("input",)
    torch.testing.assert_close(compiled(X), model(X).detach())
    program.verify()


@pytest.mark.parametrize("model", MODELS)
def test_names_stay(model: type[Dropped]):
    program = exported(model, "eval")
    copied, signature = copy_graph(program)

    assert [n.name for n in nodes_of(copied)] == [
        n.name for n in nodes_of(program.graph_module)
    ]
    assert signature == program.graph_signature
    assert not set(nodes_of(copied)) & set(nodes_of(program.graph_module))


def test_the_program_itself_stays():
    program = exported(Colliding, "eval")
    before = str(program)

    without = without_idle_dropouts(program)
    import_exported_program(program, Weights())

    assert str(program) == before
    names = {schema_name(node.target) for node in nodes_of(without.graph_module)}
    assert "aten.exp" in names and "aten.dropout" not in names
    assert "torch.ops.aten.dropout" not in without.graph_module.code


def test_runs_in_pytorch():
    class Branching(OtherWay):
        def forward(self, input: Tensor, input_1: Tensor, input_2: Tensor) -> Any:
            wave = torch.cond(
                input.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (input,)
            )
            return wave + super().forward(input, input_1, input_2)

    model = Branching(DROPOUTS["eval"])
    args = (X, Y, X + Y)

    compiled = padc.compile(export_module(model, args))

    assert "compiles no branches and loops; PyTorch runs it" in compiled.report()
    torch.testing.assert_close(compiled(*args), model(*args))


def test_code_of_regions_has_no_dropout():
    def function(input: Tensor) -> Tensor:
        with torch.no_grad():
            return F.dropout(input * 2, training=False).exp()

    without = without_idle_dropouts(export_module(Function(function), (X,)))

    (region,) = without.graph_module.children()
    assert "exp" in str(region.code) and "dropout" not in str(region.code)
