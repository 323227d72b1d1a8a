# pyright: basic, reportPrivateImportUsage=false, reportArgumentType=false
"""Products, norms and attention in a Core ML package, against PyTorch's eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_cases import NORMS, PRODUCTS, SCALED, only, without
from functions import Functions, Several, check_each, flat
from torch import Tensor, nn
from torch.torch_version import TorchVersion

import padc
from padc.errors import UnsupportedError

attend = F.scaled_dot_product_attention
GENERATOR = torch.Generator().manual_seed(2)
W = torch.randn(3, 8, generator=GENERATOR).half().float()
C = torch.tensor([0.5, -1.0, 2.0])
MASK = torch.rand(2, 4, 6, 6, generator=GENERATOR) > 0.4
MASK[0, 1, 2] = MASK[1, 0, 0] = False  # Rows without any key.
SCORES = torch.zeros(6, 6).masked_fill(~MASK[0, 1], -math.inf)

MORE: Functions = {
    "linear by constants": lambda x: F.linear(x, W.to(x.dtype), C.to(x.dtype)),
    "linear of a vector": lambda x: F.linear(x[0, 0, 0], W.to(x.dtype)),
    "linear by a vector": lambda x: F.linear(x, x[0, 0, 0]),
    "vdot": lambda x: torch.vdot(x[0, 0, 0], x[0, 0, 1]),
    "addmm of constants": lambda x: torch.addmm(C.to(x.dtype), x[0, 0], W.to(x.dtype).T),
    "addmv": lambda x: torch.addmv(x[0, 0, :, 0], x[0, 1], x[0, 0, 0], alpha=2, beta=3),
    "addbmm": lambda x: torch.addbmm(x[0, 0, :, :6], x[0], x[1].mT, alpha=3),
    "addr": lambda x: torch.addr(x[0, 0], x[0, 0, :, 0], x[0, 0, 0], beta=2),
    "beta 0": lambda x: torch.addmm(x[0, 0, :, :6] / 0, x[0, 0], x[0, 1].T, beta=0),
    "inner": lambda x: [torch.inner(x, x[0, 0]), torch.inner(x[0, 0], x[0, 0, 0])],
    "vecdot": lambda x: torch.linalg.vecdot(x, x[0], dim=1),
    "multi_dot": lambda x: torch.linalg.multi_dot([x[0, 0], x[0, 1].T, x[1, 1]]),
    "bilinear": lambda x: F.bilinear(x, x[..., :3], x[0, :, :3].mT[:, :, :3], x[0, 0, 0, :4]),
    "kron": lambda x: torch.kron(x[0, 0], x[0, 1, :2]),
    "kron of batches": lambda x: torch.kron(x[0], x[0, :2, :1, :3]),
    "tensordot": lambda x: torch.tensordot(x, x[:, :, 0], ([0, 3], [0, 2])),
    "einsum by letter": lambda x: torch.einsum("bchw,hwk->bck", x, x[0].permute(1, 2, 0)),
    "einsum without sum": lambda x: torch.einsum("ij,kl->ikjl", x[0, 0], x[0, 1]),
    "einsum swapped": lambda x: torch.einsum("bhqd,bhkd->bhkq", x, x),
    "einsum broadcast": lambda x: torch.einsum("bchw,bchv->bcwv", x, x[:, :, :1]),
    "einsum of heads": lambda x: torch.einsum("bsd,dhk->bshk", x[0], x[0].permute(2, 0, 1)),
    "trace": lambda x: torch.trace(x[0, 0]),
}  # fmt: skip


def trained(norm: Any) -> Any:
    """A batch norm in training, and what becomes of statistics of the model's own."""

    def normalized(x: Tensor) -> list[Tensor]:
        mean, variance = x[0, :, 0, 0] * 1, x[1, :, 0, 0].abs()
        made = norm(x, mean, variance)
        return [*(made if isinstance(made, tuple) else [made])[:3], mean, variance]

    return normalized


aten = torch.ops.aten

MORE_NORMS: Functions = {
    "batch_norm in training": trained(
        lambda x, m, v: F.batch_norm(x, m, v, training=True, momentum=0.3)
    ),
    "native_batch_norm in training": trained(
        lambda x, m, v: aten.native_batch_norm(x, v * 2, None, m, v, True, 0.3, 1e-3)
    ),
    "batch norm that is not in training": trained(
        lambda x, m, v: aten._native_batch_norm_legit(
            x, None, None, m, v, False, 0.3, 1e-3
        )[0]
    ),
    "batch norm with update": trained(
        lambda x, m, v: aten._batch_norm_with_update(
            x, x[0, :, 1, 1], x[0, :, 2, 2], m, v, 0.3, 1e-3
        )
    ),
    "batch of one": lambda x: F.batch_norm(x[:1], None, None, training=True),
    "group_norm of groups": lambda x: F.group_norm(x, 4, x[0, :, 0, 0], x[1, :, 0, 0]),
    "group_norm of rank 2": lambda x: F.group_norm(x[:, :, 0, 0], 2, x[0, :, 0, 0]),
    "instance_norm of rank 3": lambda x: F.instance_norm(x[0]),
    "instance_norm of rank 5": lambda x: F.instance_norm(
        x.unsqueeze(2), None, None, x[0, :, 0, 0], x[1, :, 0, 0]
    ),
    "layer_norm by computed weights": lambda x: F.layer_norm(x, (6, 8), x[0, 0]),
    "layer_norm and statistics": lambda x: torch.native_layer_norm(
        x, (8,), None, None, 1e-3
    ),
    "group_norm and statistics": lambda x: torch.native_group_norm(
        x, None, None, 2, 4, 48, 2, 1e-3
    ),
    "rms_norm by weights": lambda x: F.rms_norm(x, (6, 8), x[0, 0], 1e-3),
    "rms_norm of zeros": lambda x: F.rms_norm(x * 0, (8,), eps=1e-5),
    "rms_norm of infinity": lambda x: F.rms_norm(
        torch.where(x == x.amax(), math.inf, x), (8,)
    ),
    "rms_norm of negative eps": lambda x: F.rms_norm(x, (8,), eps=-0.1),
    "weight_norm": lambda x: torch._weight_norm(x, x[:, :1, :1, :1], 0),
    "weight_norm of all": lambda x: torch._weight_norm(x, x[0, 0, 0, 0], -1),
    "renorm": lambda x: torch.renorm(x, 3, 1, 4.0),
}

ATTENTION: Functions = {
    "causal, fewer queries": lambda x: attend(x[..., :3, :], x, x, is_causal=True),
    "causal, fewer keys": lambda x: attend(x, x[..., :3, :], x[:, :, 3:], is_causal=True),
    "booleans": lambda x: attend(x, x, x, attn_mask=MASK),
    "scores": lambda x: attend(x, x, x, attn_mask=SCORES.to(x.dtype)),
    "computed booleans": lambda x: attend(x, x, x, attn_mask=x[..., :6] > 0.9),
    "computed scores": lambda x: attend(
        x, x, x, attn_mask=(x[0, 0, 0, 0] * 0).expand(6, 6).masked_fill(MASK[0, 1], -math.inf)
    ),
    "scale": lambda x: [attend(x, x, x, scale=0.3), attend(x, x, x, scale=1.0)],
    "groups": lambda x: attend(x, x[:, :2], x[:, 2:], enable_gqa=True),
    "masked groups": lambda x: [
        attend(x, x[:, :2], x[:, 2:], attn_mask=mask, enable_gqa=True)
        for mask in (MASK, MASK[:, 1:2], MASK[0, 1])
    ],
    "causal groups": lambda x: attend(x, x[:, :2], x[:, 2:], is_causal=True, enable_gqa=True),
    "rank 2": lambda x: attend(x[0, 0], x[0, 1], x[1, 0]),
    "rank 3": lambda x: attend(x[0], x[0], x[1], attn_mask=SCORES.to(x.dtype)),
    "batches that broadcast": lambda x: attend(x, x[:1], x[:, :1]),
    "mask of one column": lambda x: attend(x, x, x, attn_mask=MASK[..., :1]),
    "fewer features of values": lambda x: attend(x, x, x[..., :3]),
    "large scores": lambda x: attend(x * 50, x * 50, x),
    "flash": lambda x: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        x, x, x, 0.0, True
    )[0],
    "with weights": lambda x: torch.ops.aten._scaled_dot_product_attention_math(x, x, x),
}  # fmt: skip


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def check(functions: Functions, *inputs: Tensor, **options: Any) -> None:
    """All functions are converted, in one package that computes what eager mode does."""
    program = padc.convert(Several(functions), inputs, **options)
    check_each(functions, program.run(*inputs), *inputs, equal_nan=True)
    assert program.check() == []


def check_halves(functions: Functions, x: Tensor, **options: Any) -> None:
    """
    In float16, all functions compute what eager mode does in float32, rounded.

    Eager mode in float16 rounds more: statistics, and exponentials in attention.
    """
    program = padc.convert(Several(functions), (x,), **options)
    results = iter(program.run(x))
    for name, function in functions.items():
        for expected in flat(function(x.float())):
            torch.testing.assert_close(
                next(results),
                expected.half(),
                equal_nan=True,
                msg=lambda message: f"{name}: {message}",
            )


def test_products() -> None:
    check({**PRODUCTS, **MORE}, torch.randn(2, 4, 6, 8))


@pytest.mark.parametrize(
    "target", ["iOS15", pytest.param("iOS17", marks=pytest.mark.slow)]
)
def test_norms(target: str) -> None:
    functions = {**NORMS, "rms_norm": SCALED["rms_norm"], **MORE_NORMS}

    check(functions, torch.randn(2, 4, 6, 8), target=target)
    check_halves(functions, torch.randn(2, 4, 6, 8).half(), target=target)


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
def test_attention(target: str) -> None:
    functions = {**without(SCALED, "rms_norm"), **ATTENTION}

    check(functions, torch.randn(2, 4, 6, 8), target=target)
    check_halves(functions, torch.randn(2, 4, 6, 8).half(), target=target)


def test_products_of_halves() -> None:
    x = (torch.randn(2, 4, 6, 8) / 4).half()

    if torch.__version__ < TorchVersion("2.13"):
        pytest.skip(f"PyTorch {torch.__version__} accumulates halves as halves")

    check({**PRODUCTS, **without(MORE, "addbmm vecdot")}, x)
    check_halves(only(MORE, "addbmm vecdot"), x)


def test_products_of_integers() -> None:
    names = (
        "linear by constants|linear of a vector|vdot|addmm of constants|addmv|addbmm|addr|"
        "inner|multi_dot|kron|tensordot|einsum by letter|einsum of heads|trace"
    )
    functions = {**PRODUCTS, **{name: MORE[name] for name in names.split("|")}}

    check(functions, torch.randint(-5, 5, (2, 4, 6, 8)))


def test_products_of_bytes() -> None:
    functions = only(PRODUCTS, "matmul mm bmm mv dot outer einsum")

    check(functions, torch.randint(0, 256, (2, 4, 6, 8), dtype=torch.uint8))


def size(most: int) -> object:
    """A size that varies, with the bound that Core ML needs."""
    return torch.export.Dim.AUTO(max=most)


DYNAMIC: Functions = {
    **only(PRODUCTS, "matmul mv einsum"),
    "einsum of heads": MORE["einsum of heads"],
    "group_norm": lambda x: F.group_norm(x, 2, W[0, :4], W[1, :4]),
    "layer_norm": lambda x: F.layer_norm(x, (8,), W[0], W[1]),
    "instance_norm": lambda x: F.instance_norm(x),
    "instance_norm of rank 5": lambda x: F.instance_norm(x.unsqueeze(2)),
    "rms_norm": lambda x: F.rms_norm(x, (8,)),
    "attention": lambda x: attend(x, x, x),
    "causal attention": lambda x: attend(x, x, x, is_causal=True),
    "masked attention": lambda x: attend(x, x, x, attn_mask=x[:, :, :, :1] > 0),
}


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
def test_dynamic_sizes(target: str) -> None:
    x, other = torch.randn(2, 4, 6, 8), torch.randn(3, 4, 5, 8)
    shapes = (({0: size(9), 2: size(9)},),)

    program = padc.convert(Several(DYNAMIC), (x,), dynamic_shapes=shapes, target=target)

    for given in (x, other):
        check_each(DYNAMIC, program.run(given), given, equal_nan=True)


def test_groups_of_a_dynamic_number_of_channels() -> None:
    functions: Functions = {
        "group_norm": lambda x: F.group_norm(x, 2),
        "rank 3": lambda x: F.group_norm(x[..., 0], 2),
        "rank 2": lambda x: F.group_norm(x[..., 0, 0], 2),
        "statistics": lambda x: torch.native_group_norm(
            x, None, None, x.shape[0], x.shape[1], 18, 2, 1e-5
        ),
    }
    x, channels = torch.randn(2, 4, 3, 6), torch.export.Dim("channels", min=2, max=4)
    shapes = (({0: torch.export.Dim("n", min=1, max=5), 1: 2 * channels},),)

    program = padc.convert(Several(functions), (x,), dynamic_shapes=shapes)

    for given in (x, torch.randn(5, 8, 3, 6), torch.randn(1, 6, 3, 6)):
        check_each(functions, program.run(given), given)


COUNTS: dict[str, tuple[int, Callable[[Tensor], Tensor] | nn.Module]] = {
    "linear": (1, nn.Linear(8, 3)),
    "matmul": (1, lambda x: x @ x.mT),
    "layer_norm": (1, nn.LayerNorm(8)),
    "batch_norm": (1, nn.BatchNorm2d(4)),
    "batch_norm without weight": (1, nn.BatchNorm2d(4, affine=False)),
    "folded batch_norm": (1, nn.Sequential(nn.Conv2d(4, 2, 1), nn.BatchNorm2d(2))),
    "instance_norm": (1, nn.InstanceNorm2d(4, affine=True)),
    "group_norm": (4, nn.GroupNorm(2, 4)),
    "attention": (1, lambda x: attend(x, x, x, is_causal=True)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_number_of_ops(name: str) -> None:
    count, function = COUNTS[name]
    model = (
        function.eval()
        if isinstance(function, nn.Module)
        else Several({name: function})
    )
    x = torch.randn(2, 4, 6, 8)

    program = padc.convert(model, (x,), target="iOS18")

    assert program.operation_count == count
    y = model(x)
    torch.testing.assert_close(program.run(x)[0], y[0] if isinstance(y, tuple) else y)


def test_squares_of_an_rms_norm_fit_float16() -> None:
    x = 1e4 * torch.randn(2, 64)
    model = Several({"rms_norm": lambda x: F.rms_norm(x, (64,))})

    (y,) = padc.convert(model, (x,), precision="float16").run(x)

    torch.testing.assert_close(y, F.rms_norm(x, (64,)), rtol=5e-3, atol=5e-3)


REFUSED: dict[str, tuple[str, nn.Module]] = {
    "batch_norm in training": ("changes its buffer", nn.BatchNorm2d(4)),
    "instance_norm in training": (
        "updates the running statistics",
        nn.InstanceNorm2d(4, track_running_stats=True),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    message, model = REFUSED[name]

    with pytest.raises(UnsupportedError, match=message):
        padc.convert(model.train(), (torch.randn(2, 4, 6, 8),))
