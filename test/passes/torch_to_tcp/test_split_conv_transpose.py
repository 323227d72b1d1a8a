# pyright: basic
"""Transposed convolutions as convolutions, one for each phase of the result."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp

import padc
from padc.backends.reference import run
from padc.compiled_models.native_model import NativeModel
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context, tcp
from padc.ir.weights import Weights, weights_of
from padc.passes.aten.phase_kernel import PhaseKernel
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.passes.torch_to_tcp.split_conv_transpose import SplitConvTransposePass

LAYERS = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def split(model: nn.Module, x: Tensor) -> tuple[ModuleOp, Tensor]:
    """The program after the pass, and what it computes."""
    ctx = make_context()
    weights = weights_of(ctx)
    module = import_exported_program(torch.export.export(model, (x,)), weights)
    ConvertTorchToTcpPass().apply(ctx, module)
    SplitConvTransposePass().apply(ctx, module)
    module.verify()
    return module, run(module, x, weights=weights)[0]


def count(module: ModuleOp, kind: type[tcp.ConvOp | tcp.ConvTransposeOp]) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


def layer(rank: int, *args: object, **options: object) -> nn.Module:
    torch.manual_seed(0)
    return LAYERS[rank - 1](*args, **options).double().eval()  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_result_stays_the_same(data: st.DataObject):
    rank, groups = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 2]))
    each = [
        {
            "size": data.draw(st.integers(1, 4)),
            "kernel_size": data.draw(st.integers(1, 5)),
            "stride": data.draw(st.integers(1, 3)),
            "dilation": data.draw(st.integers(1, 3)),
            "padding": data.draw(st.integers(0, 4)),
            "output_padding": data.draw(st.integers(0, 2)),
        }
        for _ in range(rank)
    ]
    options = {name: tuple(one[name] for one in each) for name in each[0]}
    sizes = options.pop("size")
    for one in each:
        assume(one["output_padding"] < max(one["stride"], one["dilation"]))
    model = layer(rank, 4, 6, groups=groups, bias=data.draw(st.booleans()), **options)
    x = torch.randn(2, 4, *sizes, dtype=torch.float64)
    try:
        expected = model(x)
    except RuntimeError:
        assume(False)
        raise

    _, y = split(model, x)

    torch.testing.assert_close(y, expected)


def test_the_kernel_of_a_phase_has_its_taps():
    """Tap j is tap `first + step * (number - 1 - j)` of its group's features."""
    for taps in range(1, 7):
        kernel = np.arange(4 * 3 * taps).reshape(4, 3, taps)
        weights = Weights({"kernel": kernel.transpose(2, 0, 1)})
        for step, groups in itertools.product(range(1, 5), (1, 2)):
            for first in range(min(step, taps)):
                order, each = (1, 2, 0), 4 // groups
                derived = PhaseKernel("of", "kernel", order, groups, [(first, step)])
                derived.apply(weights)
                reached = [*range(first, taps, step)][::-1]
                expected = [
                    [kernel[group * each + i, o, reached] for i in range(each)]
                    for group in range(groups)
                    for o in range(3)
                ]

                assert np.array_equal(weights["of"], expected)


def test_each_phase_is_a_convolution():
    model = layer(2, 2, 3, (4, 3), stride=(2, 3), padding=1)
    module, _ = split(model, torch.randn(1, 2, 4, 5, dtype=torch.float64))

    assert count(module, tcp.ConvOp) == 6
    assert count(module, tcp.ConvTransposeOp) == 0


def test_without_a_stride_it_is_one_convolution_of_the_padded_input():
    model = layer(1, 2, 3, kernel_size=3)
    module, _ = split(model, torch.randn(1, 2, 5, dtype=torch.float64))

    ops = [
        op.name for op in module.walk() if op.name.startswith(("tcp.", "torch.aten"))
    ]
    assert ops == ["tcp.pad", "tcp.conv"]


def test_a_computed_kernel_stays():
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.conv_transpose1d(x[:1], x[1:].transpose(0, 1), stride=2)

    x = torch.randn(3, 2, 5, dtype=torch.float64)
    module, y = split(Model(), x)

    assert count(module, tcp.ConvTransposeOp) == 1
    torch.testing.assert_close(y, Model()(x))


@pytest.mark.parametrize(
    "options",
    [
        # No tap reaches the second of three phases.
        {"kernel_size": 2, "stride": 3},
        # Even positions only.
        {"kernel_size": 3, "stride": 2, "dilation": 2},
        # Too many phases.
        {"kernel_size": 17, "stride": 17},
    ],
)
def test_others_stay(options: dict[str, int]):
    model = layer(1, 2, 3, **options)
    x = torch.randn(1, 2, 5, dtype=torch.float64)

    module, y = split(model, x)

    assert count(module, tcp.ConvTransposeOp) == 1
    torch.testing.assert_close(y, model(x))


class Decoder(nn.Module):
    """Kernels of each layout: packed, not packed, of groups; one with a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose2d(8, 32, 4, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.second = nn.ConvTranspose2d(32, 16, 3, 2, 1, output_padding=1, groups=2)
        self.last = nn.ConvTranspose2d(16, 3, (2, 5), stride=(2, 1), dilation=(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.second(self.norm(self.first(x)))))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_machine_code(
    is_dynamic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path))
    torch.manual_seed(0)
    x, other = torch.randn(2, 8, 6, 7), torch.randn(3, 8, 9, 5)
    sizes = ({0: Dim("batch"), 2: Dim.AUTO, 3: Dim.AUTO},) if is_dynamic else None
    # The second time from the cache, with other weights.
    for seed in range(2):
        torch.manual_seed(seed)
        model = Decoder().eval()

        compiled = padc.compile(model, (x,), dynamic_shapes=sizes, threads=1)

        assert isinstance(compiled, NativeModel)
        assert compiled.is_native, compiled.report()
        for each in (x, other) if is_dynamic else (x,):
            torch.testing.assert_close(
                compiled(each), model(each), rtol=1e-4, atol=1e-5
            )
