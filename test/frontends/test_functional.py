# pyright: basic
"""Which exported programs are imported unchanged, and that they compute the same."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from padc.backends import reference
from padc.frontends.torch_export import (
    export_module,
    import_exported_program,
    importer,
)
from padc.frontends.torch_export.functional import (
    MADE_FUNCTIONAL,
    in_place_changes,
)
from padc.frontends.torch_export.nodes import schema_name
from padc.ir import make_context
from padc.ir.weights import weights_of

X = torch.rand(2, 4, 8, 8)
LINE, VOLUME = torch.rand(2, 4, 8), torch.rand(2, 4, 6, 6, 6)
W1, W2, W3 = (torch.rand(4, 4, *[3] * rank) for rank in (1, 2, 3))


def exported(
    function: Callable[..., Any], *args: Tensor
) -> torch.export.ExportedProgram:
    return export_module(Function(function).eval(), args)


def imported(program: torch.export.ExportedProgram) -> tuple[ModuleOp, Any]:
    ctx = make_context()
    module = import_exported_program(program, weights_of(ctx))
    module.verify()
    return module, weights_of(ctx)


def norm(op: Callable[..., Tensor], *args: Any) -> Callable[[Tensor], Tensor]:
    mean, variance = torch.rand(4), torch.rand(4) + 0.5
    return lambda x: op(x, mean, variance, *args)


aten = torch.ops.aten
OPS: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "add.Tensor": (lambda x: x + x, X),
    "sub.Tensor": (lambda x: x - 1.5, X),
    "mul.Tensor": (lambda x: 2 * x, X),
    "div.Tensor": (lambda x: x / (x + 1), X),
    "cat": (lambda x: torch.cat([x, x], 1), X),
    "stack": (lambda x: torch.stack([x, x], 1), X),
    "flip": (lambda x: x.flip(1, 2), X),
    "matmul": (lambda x: x @ x, X),
    "relu": (F.relu, X),
    "prelu": (lambda x: F.prelu(x, x[0, :, 0, 0]), X),
    "hardtanh": (lambda x: F.hardtanh(x, 0.1, 0.6), X),
    "leaky_relu": (F.leaky_relu, X),
    "elu": (F.elu, X),
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), X),
    "silu": (F.silu, X),
    "mish": (F.mish, X),
    "sigmoid": (torch.sigmoid, X),
    "hardswish": (F.hardswish, X),
    "hardsigmoid": (F.hardsigmoid, X),
    "tanh": (torch.tanh, X),
    "softplus": (F.softplus, X),
    "softmax.int": (lambda x: x.softmax(1), X),
    "clamp": (lambda x: x.clamp(0.2, 0.8), X),
    "conv1d": (lambda x: F.conv1d(x, W1), LINE),
    "conv2d": (lambda x: F.conv2d(x, W2, stride=2, padding=1), X),
    "conv3d": (lambda x: F.conv3d(x, W3), VOLUME),
    "conv1d.padding": (lambda x: F.conv1d(x, W1, padding="same"), LINE),
    "conv2d.padding": (lambda x: F.conv2d(x, W2, padding="same"), X),
    "conv3d.padding": (lambda x: F.conv3d(x, W3, padding="valid"), VOLUME),
    "conv_transpose1d": (lambda x: F.conv_transpose1d(x, W1), LINE),
    "conv_transpose2d.input": (lambda x: F.conv_transpose2d(x, W2, stride=2), X),
    "conv_transpose3d.input": (lambda x: F.conv_transpose3d(x, W3), VOLUME),
    "linear": (lambda x: F.linear(x, x[0, 0]), X),
    "pad": (lambda x: F.pad(x, (1, 2), "circular"), LINE),
    "grid_sampler": (lambda x: F.grid_sample(x, x[..., :2], align_corners=True), X),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), LINE),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), X),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), VOLUME),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), LINE),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), X),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), VOLUME),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), LINE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), X),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), VOLUME),
    "mean.dim": (lambda x: x.mean((2, 3)), X),
    "layer_norm": (lambda x: F.layer_norm(x, (8,)), X),
    "group_norm": (lambda x: F.group_norm(x, 2), X),
    "batch_norm": (norm(F.batch_norm), X),
    "instance_norm": (F.instance_norm, X),
    **{
        f"upsample_{name}.vec": (
            lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode),
            x,
        )
        for name, mode, x in (
            ("nearest1d", "nearest", LINE),
            ("nearest2d", "nearest", X),
            ("nearest3d", "nearest", VOLUME),
            ("linear1d", "linear", LINE),
            ("bilinear2d", "bilinear", X),
            ("bicubic2d", "bicubic", X),
            ("trilinear3d", "trilinear", VOLUME),
        )
    },
    "view": (lambda x: x.view(2, -1), X),
    "permute": (lambda x: x.permute(0, 2, 3, 1), X),
    "transpose.int": (lambda x: x.transpose(1, 2), X),
    "unsqueeze": (lambda x: x.unsqueeze(1), X),
    "slice.Tensor": (lambda x: x[:, 1:3], X),
    "select.int": (lambda x: x[:, 1], X),
    "flatten.using_ints": (lambda x: x.flatten(1), X),
    "reshape": (lambda x: x.reshape(4, -1), X),
    "dropout": (lambda x: F.dropout(x, training=False), X),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), X),
    "relu_": (lambda x: F.relu_(x * 1), X),
    "hardtanh_": (lambda x: F.hardtanh_(x * 1, 0.1, 0.6), X),
    "leaky_relu_": (lambda x: F.leaky_relu_(x * 1), X),
    "elu_": (lambda x: F.elu_(x * 1), X),
    "silu_": (lambda x: F.silu(x * 1, inplace=True), X),
    "mish_": (lambda x: F.mish(x * 1, inplace=True), X),
    "sigmoid_": (lambda x: (x * 1).sigmoid_(), X),
    "hardswish_": (lambda x: F.hardswish(x * 1, inplace=True), X),
    "hardsigmoid_": (lambda x: F.hardsigmoid(x * 1, inplace=True), X),
    "tanh_": (lambda x: (x * 1).tanh_(), X),
    "clamp_": (lambda x: (x * 1).clamp_(0.2), X),
    "dropout_": (lambda x: F.dropout(x * 1, 0.5, False, inplace=True), X),
    "add_.Tensor": (lambda x: (x * 1).add_(x, alpha=2), X),
    "sub_.Tensor": (lambda x: (x * 1).sub_(x[0]), X),
    "mul_.Tensor": (lambda x: (x * 1).mul_(3), X),
    "div_.Tensor": (lambda x: (x * 1).div_(x + 1), X),
}


def test_every_op_in_place_is_tried():
    assert {f"aten.{name}" for name in OPS} >= MADE_FUNCTIONAL


@pytest.mark.parametrize("x", [LINE, X, VOLUME], ids=["line", "image", "volume"])
def test_the_same_module_without_decompositions(
    x: Tensor, monkeypatch: pytest.MonkeyPatch
):
    ops = {name: op for name, (op, input) in OPS.items() if input is x}

    def function(x: Tensor) -> list[Any]:
        return [op(x) for op in ops.values()]

    program = exported(function, x)
    names = {schema_name(node.target) for node in program.graph.nodes}
    assert {f"aten.{name}" for name in ops} <= names
    assert in_place_changes(program.graph_module) is not None

    actual, weights = imported(program)
    monkeypatch.setattr(importer, "in_place_changes", lambda graph: None)
    expected, _ = imported(program)

    assert actual.is_structurally_equivalent(expected)
    results = reference.run(actual, x, weights=weights)
    torch.testing.assert_close(list(results), function(x))


def test_order_of_changes():
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        before = y + 0
        same = y.relu_()
        y += x
        F.dropout(y, training=False).sub_(0.5)
        same *= y
        return y, before, same.clamp_(-1, 1), y.transpose(0, 1)

    x = torch.randn(3, 4)
    program = exported(function, x)
    assert len(in_place_changes(program.graph_module) or ()) == 5

    module, weights = imported(program)

    results = reference.run(module, x, weights=weights)
    torch.testing.assert_close(tuple(results), function(x))


@pytest.mark.parametrize(
    "region",
    [torch.no_grad, lambda: torch.autocast("cpu", enabled=False)],
    ids=["no_grad", "autocast"],
)
def test_idle_dropouts_in_regions(region: Any):
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        with region():
            z = F.dropout(y, training=False)
            z.relu_()
        return y, z

    x = torch.randn(3, 4)

    module, weights = imported(exported(function, x))

    results = reference.run(module, x, weights=weights)
    torch.testing.assert_close(tuple(results), function(x))


def viewed_before(x: Tensor) -> Any:
    y = x * 2
    view = y[0]
    y.relu_()
    return view


def through_a_view(x: Tensor) -> Any:
    y = x * 2
    y[0].relu_()
    return y


def changes_its_input(x: Tensor) -> Any:
    return F.dropout(x, training=False).relu_()


def viewed_by_a_composite(x: Tensor) -> Any:
    y = x[0, 0, 0] * 2
    view, _ = torch.meshgrid(y, y, indexing="ij")
    y.relu_()
    return view


def promoted(x: Tensor) -> Any:
    return (x * 2).half().add_(x)


def of_integers(x: Tensor) -> Any:
    return torch.cat([x.int(), x.int()]).clamp_(0)


@pytest.mark.parametrize(
    "function",
    [
        viewed_before,
        viewed_by_a_composite,
        through_a_view,
        changes_its_input,
        promoted,
        of_integers,
        norm(F.batch_norm, None, None, True),
        norm(F.instance_norm),
    ],
)
def test_programs_that_have_to_be_decomposed(function: Callable[..., Any]):
    program = exported(lambda x: function(x), X)

    assert in_place_changes(program.graph_module) is None


@pytest.mark.parametrize(
    "view",
    [
        lambda x: torch.einsum("ij->ji", x),
        lambda x: torch.einsum("ii->i", x),
        lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[1],
        lambda x: torch.broadcast_tensors(x, x[0])[0],
        lambda x: torch.atleast_3d(x),
    ],
)
@pytest.mark.parametrize("changes_view", [True, False])
def test_a_composite_that_returns_a_view(
    view: Callable[[Tensor], Tensor], changes_view: bool
):
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        result = view(y)
        (result[0] if changes_view else y).mul_(3)
        return y + 0, result + 0

    x = torch.randn(4, 4)

    module, weights = imported(exported(function, x))

    results = reference.run(module, x, weights=weights)
    torch.testing.assert_close(tuple(results), function(x))


def test_programs_that_share_memory():
    read_as_they_are = 0
    for seed in range(20):
        draw = random.Random(seed)
        steps = [
            (draw.choice(STEPS), draw.random(), draw.random())
            for _ in range(draw.randint(3, 7))
        ]

        def function(x: Tensor, steps: Any = steps) -> tuple[Tensor, ...]:
            tensors = [x * 1]
            for step, first, second in steps:
                x, y = (tensors[int(f * len(tensors))] for f in (first, second))
                tensors.append(step(x, y))
            return tuple(tensor + 0 for tensor in tensors)

        x = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
        program = exported(function, x)
        read_as_they_are += bool(in_place_changes(program.graph_module))

        module, weights = imported(program)

        results = reference.run(module, x, weights=weights)
        torch.testing.assert_close(tuple(results), function(x), msg=str(module))
    assert read_as_they_are >= 3


STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: F.dropout(x, training=False),
    lambda x, y: F.dropout(x, 0),
    lambda x, y: torch.exp(x).log(),
    lambda x, y: x.relu_(),
    lambda x, y: x.mul_(0.5),
    lambda x, y: x.add_(y + 1),
    lambda x, y: x.transpose(0, 1),
    lambda x, y: x.view(4, 4),
    lambda x, y: x + y,
    lambda x, y: torch.cat([x[:2], y[2:]]),
    lambda x, y: x.sub_(1),
    lambda x, y: x.tanh(),
    lambda x, y: torch.einsum("ij->ji", x),
    lambda x, y: torch.broadcast_tensors(x, y)[0],
    lambda x, y: x.type_as(y),
]
