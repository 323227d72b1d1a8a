# pyright: basic
"""Which ops PyTorch decomposes, that the results stay, and what stays whole."""

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function, Several, flat
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import padc
from padc.backends import reference
from padc.frontends.torch_export import decompositions, export_module
from padc.frontends.torch_export.decompositions import decompositions_of
from padc.ir.torch import AtenOp
from padc.ir.weights import weights_of
from padc.passes import pipelines

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
BATCH = Dim("batch", min=2, max=9)

# The ops that each decomposition may lead to.
DECOMPOSED: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "a composite": (
        lambda x: torch.diff(x, n=2),
        {"aten.slice.Tensor", "aten.sub.Tensor"},
    ),
    "from the core table": (
        lambda x: torch.rot90(x),
        {"aten.transpose.int", "aten.flip", "aten.permute"},
    ),
    "prims": (
        lambda x: torch.std_mean(x, dim=1),
        {"aten.var.correction", "aten.sqrt", "aten.sum.dim_IntList", "aten.div.Scalar"},
    ),
    "converted": (
        lambda x: torch.special.entr(x.round().int().abs()),
        {
            *("aten.abs", "aten.round", "aten._to_copy", "aten.where.self"),
            *("aten.where.Scalar", "aten.log", "aten.mul.Tensor", "aten.neg"),
            *("aten.eq.Scalar", "aten.gt.Scalar", "aten.isnan"),
        },
    ),
    "in place": (
        lambda x: (x * 2).addr_(x[:, 0], x[0]),
        {
            *("aten.mul.Scalar", "aten.add.Tensor", "aten.outer", "aten.select.int"),
            *("aten.mul.Tensor", "aten.unsqueeze", "aten.expand"),
            "aten.slice.Tensor",
        },
    ),
}


def exported(function: Callable[..., Any], is_dynamic: bool = False) -> ExportedProgram:
    shapes = ({0: BATCH},) if is_dynamic else None
    module = Function(lambda x: function(x)).eval()
    return export_module(module, (X,), dynamic_shapes=(shapes,) if shapes else None)


def ops_of(program: ExportedProgram, legal: Collection[str] | None) -> list[str]:
    _, module = pipelines.import_program(program, legal=legal)
    return [op.schema.name for op in module.walk() if isinstance(op, AtenOp)]


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", DECOMPOSED)
def test_ops_become_legal_ones(name: str, is_dynamic: bool):
    function, legal = DECOMPOSED[name]
    program = exported(function, is_dynamic)
    legal = legal | {"aten.size.int", "aten.mul.int", "aten.sub.int"}
    assert not {*ops_of(program, None)} <= legal

    ctx, module = pipelines.import_program(program, legal=legal)

    assert {op.schema.name for op in module.walk() if isinstance(op, AtenOp)} <= legal
    x = torch.randn(7, 6) if is_dynamic else torch.randn(5, 6)
    results = reference.run(module, x, weights=weights_of(ctx))
    torch.testing.assert_close(list(results), flat(function(x)))


def test_an_op_stays_whole_if_it_leads_nowhere():
    program = exported(lambda x: torch.diff(x))

    assert ops_of(program, {"aten.slice.Tensor"}) == ["aten.diff"]


def test_an_op_of_another_decomposition_stays_whole():
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.diff(x), torch.cumprod(x.repeat(50, 50), 0)

    legal = {"aten.slice.Tensor", "aten.sub.Tensor", "aten.repeat"}

    assert "aten.cumprod" in ops_of(exported(function), legal)
    assert "aten.diff" not in ops_of(exported(function), legal)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.bernoulli(x.abs() / 9),
        lambda x: torch.argwhere(x > 0),
        lambda x: torch.cumprod(x.repeat(50, 50), 0),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: x[0] + x.view(-1).sum(),
    ],
    ids=["random", "sizes from values", "large", "complex", "views"],
)
def test_what_no_path_decomposes(function: Callable[..., Any]):
    program = exported(function)

    table = decompositions_of(program, pipelines.legal_for_native())

    assert not table


def test_a_wrong_decomposition_is_not_used():
    target = torch.tensor([[1, 3, -1, 2, 0, 4]] * 5)
    program = exported(lambda x: F.multilabel_margin_loss(x, target))

    compiled = padc.compile(program)

    expected = F.multilabel_margin_loss(X, target)
    torch.testing.assert_close(compiled(X), expected)


@pytest.mark.parametrize("number", [-1, 257, 2**33 + 1, 2.5])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_a_number_has_the_type_of_the_elements_it_is_in(
    number: float, dtype: torch.dtype
):
    def function(x: Tensor) -> Tensor:
        return torch.isin(number, x)

    for element in (number, 0):
        x = torch.tensor([element, 3], dtype=torch.float64).long().to(dtype)
        compiled = padc.compile(Function(function), (x,))

        assert compiled.is_native
        assert compiled(x).equal(function(x))


def test_bounds_of_linspace_have_the_type_of_the_result():
    def function(x: Tensor) -> list[Tensor]:
        return [
            torch.linspace(x[0, 0], x[0, 1], 7, dtype=torch.float16),
            torch.linspace(x[0, 0], 2.7, 5, dtype=torch.int64),
        ]

    x = torch.tensor([[4.3, -3.0]])
    compiled = padc.compile(torch.export.export(Function(function), (x,)))

    spaced, integers = function(x)
    torch.testing.assert_close(compiled(x), [spaced, integers], rtol=0, atol=0)
    with pytest.raises(padc.UnsupportedError, match=r"linspace\.Tensor_Scalar"):
        padc.convert(Function(function), (x,))


def test_gradients_at_coordinates_of_two_dimensions():
    places = torch.tensor([0.0, 1, 3, 4, 7]), torch.tensor([0.0, 2, 3, 5, 6, 9])

    def function(x: Tensor) -> list[Tensor]:
        return [
            *torch.gradient(x, spacing=places, dim=(0, 1), edge_order=2),
            *torch.gradient(x, spacing=places[::-1], dim=(1, 0)),
        ]

    program = padc.convert(exported(function))

    torch.testing.assert_close(list(program.run(X)), function(X))


def test_losses_in_chunks():
    if not hasattr(nn, "LinearCrossEntropyOptions"):
        pytest.skip(f"PyTorch {torch.__version__} has no linear_cross_entropy")
    options: Any = {"options": nn.LinearCrossEntropyOptions(batch_chunk_size=2)}
    weight, bias, classes = torch.randn(4, 6), torch.randn(4), torch.rand(4)
    target = torch.tensor([1, 0, 3, 2, 2])

    def function(x: Tensor) -> list[Tensor]:
        given = x, weight, target
        return [
            F.linear_cross_entropy(*given, **options),
            F.linear_cross_entropy(
                *given, linear_bias=bias, weight=classes, ignore_index=2, **options
            ),
            F.linear_cross_entropy(
                *given, linear_bias=bias, reduction="none", **options
            ),
        ]

    program = exported(function)
    assert any("torch_nn" in str(node.target) for node in program.graph.nodes)

    torch.testing.assert_close(list(padc.convert(program).run(X)), function(X))


def test_no_loop_is_written_out():
    net = nn.Sequential(nn.LSTM(3, 4, num_layers=2)).eval()
    program = export_module(net, (torch.randn(20, 2, 3),))

    assert not decompositions_of(program, pipelines.legal_for_native())


PADDED: dict[str, Callable[[Tensor], Any]] = {
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
    "replicate": lambda x: F.pad(x, (1, 1, 1, 1), "replicate"),
    "circular": lambda x: F.pad(x, (1, 1, 1, 1), "circular"),
    "constant": lambda x: F.pad(x, (1, 1)),
    "conv": lambda x: F.conv2d(x, x[:, :, :3, :3], padding="same"),
    "conv_transpose": lambda x: F.conv_transpose2d(x, x[:, :, :3, :3].mT),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "max_pool": lambda x: F.max_pool2d(x, 3, 1, 1),
    "adaptive_pool": lambda x: F.adaptive_avg_pool2d(x, 3),
    "grid_sample": lambda x: F.grid_sample(x, x[:, :, :, :2], align_corners=False),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, (5, 7), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, (5, 7), mode="bicubic"),
    "unfold": lambda x: F.unfold(x, 3, padding=1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.expand(1, 4, 8, 8), 2),
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "group_norm": lambda x: F.group_norm(x, 1),
    "gelu": F.gelu,
    "softmax": lambda x: x.softmax(1),
    "linear": lambda x: F.linear(x, x[0, 0]),
    "matmul": lambda x: x @ x,
}


@pytest.mark.parametrize(
    "legal",
    [pipelines.legal_for_mil, pipelines.legal_for_native],
    ids=["mil", "native"],
)
def test_padding_and_norms_stay_whole(legal: Callable[[], frozenset[str]]):
    program = export_module(Several(PADDED).eval(), (torch.randn(1, 1, 8, 8),))

    assert ops_of(program, legal()) == ops_of(program, None)
    assert not decompositions_of(program, legal())


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tables that `run_decompositions` gets from now on."""
    tables: list[Any] = []
    run = ExportedProgram.run_decompositions

    def counted(self: ExportedProgram, table: Any) -> ExportedProgram:
        tables.append(table)
        return run(self, table)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", counted)
    return tables


def test_calls_are_traced_alone(monkeypatch: pytest.MonkeyPatch):
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x * 2
        return (
            torch.lerp(x, x, z),
            torch.lerp(x, y, z),
            torch.lerp(y, x, z),
            x.transpose(0, 1).reshape(-1),
            x.chunk(2, 1)[1].contiguous(),
            torch.addcmul(z, x, y, value=2),
            x.to(torch.float16),
            z.add_(1),
        )

    tables = count_runs(monkeypatch)
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    program = export_module(Function(function).eval(), (x, y))
    legal = {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.mul.Scalar"}

    ctx, module = pipelines.import_program(program, legal=legal)

    assert not tables
    results = reference.run(module, x, y, weights=weights_of(ctx))
    torch.testing.assert_close(list(results), flat(function(x, y)))


def test_programs_are_traced_at_most_once(monkeypatch: pytest.MonkeyPatch):
    tables = count_runs(monkeypatch)
    legal = pipelines.legal_for_native()

    ops_of(exported(lambda x: F.relu(x + 1)), legal)
    assert not tables
    ops_of(exported(lambda x: torch.diff(x.clone().abs_())), {"aten.abs", *legal})
    assert len(tables) == 1


def test_what_pytorch_cannot_decompose_stays_whole(monkeypatch: pytest.MonkeyPatch):
    run = ExportedProgram.run_decompositions

    def failing(self: ExportedProgram, table: Any) -> ExportedProgram:
        if table:
            raise RuntimeError("no")
        return run(self, table)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", failing)
    program = exported(lambda x: torch.diff(x.clone().abs_()))
    legal = {"aten.slice.Tensor", "aten.sub.Tensor"}

    assert ops_of(program, legal) == ["aten.clone", "aten.abs", "aten.diff"]


def fixed(x: Tensor, *args: Any) -> Tensor:
    """A decomposition that depends on the size of the example."""
    return x.sub(x) if x.shape[0] == 5 else x.sub(1)


def compared(x: Tensor, *args: Any) -> Tensor:
    return x.sub(x) if x.shape[0] > 4 else x.sub(1)


@pytest.mark.parametrize("rule", [fixed, compared])
def test_dynamic_sizes_stay_dynamic(
    rule: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
):
    original = decompositions.decomposition
    monkeypatch.setattr(
        decompositions,
        "decomposition",
        lambda op: rule if op == torch.ops.aten.triu.default else original(op),
    )

    def function(x: Tensor) -> Tensor:
        return torch.triu(x)

    dynamic = exported(function, is_dynamic=True)
    before = str(dynamic.range_constraints)

    assert ops_of(dynamic, {"aten.sub.Tensor"}) == ["aten.triu"]
    assert str(dynamic.range_constraints) == before
    assert ops_of(exported(function), {"aten.sub.Tensor"}) == ["aten.sub.Tensor"]


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_losses_and_rearrangements_natively(is_dynamic: bool):
    def function(x: Tensor) -> list[Tensor]:
        y = x.sigmoid()
        return [
            F.binary_cross_entropy(y, y),
            F.smooth_l1_loss(x, y),
            torch.block_diag(x, x),
            torch.diag_embed(x),
            torch.cartesian_prod(x[0], x[1]),
            torch.linalg.cross(x[:, :3], y[:, 1:4]),
            torch.column_stack((x, y)),
        ]

    compiled = padc.compile(exported(function, is_dynamic))
    x = torch.randn(7, 6) if is_dynamic else X

    assert compiled.is_native
    torch.testing.assert_close(compiled(x), function(x))


def test_losses_and_rearrangements_in_core_ml():
    def function(x: Tensor) -> list[Tensor]:
        y = x.sigmoid()
        return [
            F.smooth_l1_loss(x, y),
            torch.diag_embed(x),
            torch.rot90(x),
            *torch.var_mean(x, dim=1),
            torch.cartesian_prod(x[0], x[1]),
        ]

    program = padc.convert(exported(function))

    assert not program.check()
    torch.testing.assert_close(list(program.run(X)), function(X))
