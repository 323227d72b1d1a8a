# pyright: basic, reportMissingTypeStubs=false
"""Ops of TorchScript graphs that stand for several others."""

from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padc
from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.expansions import expand
from padc.verification import compare

ct: Any = coremltools

pytestmark = [
    pytest.mark.usefixtures("plugin"),
    pytest.mark.filterwarnings(
        "ignore::torch.jit.TracerWarning", "ignore:.*jit", "ignore:Output"
    ),
]


class Attentions(nn.Module):
    """The fast paths of PyTorch, with masks and without."""

    def __init__(self) -> None:
        super().__init__()
        options: Any = {"dim_feedforward": 12, "batch_first": True}
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layers = nn.ModuleList(
            (
                nn.TransformerEncoderLayer(8, 2, **options),
                nn.TransformerEncoderLayer(
                    8, 4, activation=F.gelu, norm_first=True, **options
                ),
            )
        )
        self.later = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
        self.padded = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def forward(self, x: Tensor) -> list[Tensor]:
        masked, each = self.attention(
            x, x, x, attn_mask=self.later, average_attn_weights=False
        )
        both, weights = self.attention(
            x, x, x, attn_mask=self.later, key_padding_mask=self.padded
        )
        alone, _ = self.attention(x, x, x, need_weights=False)
        first, second = self.layers
        return [
            *(masked, each, both, weights, alone),
            first(x, src_key_padding_mask=self.padded),
            second(x),
        ]


def test_attention_that_is_traced_without_gradients(tmp_path: Path):
    torch.manual_seed(0)
    model, x = Attentions().eval(), torch.rand(2, 5, 8)
    with torch.no_grad(), quiet():
        traced: Any = torch.jit.trace(model, x, check_trace=False)
        kinds = {node.kind() for node in traced.inlined_graph.nodes()}
        expected = model(x)
        converted = ct.convert(
            traced,
            inputs=[ct.TensorType("x", x.shape)],
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
    assert "aten::_native_multi_head_attention" in kinds
    assert "aten::_transformer_encoder_layer_fwd" in kinds

    converted.save(str(tmp_path / "model.mlpackage"))
    package = padc.coreml.load(tmp_path / "model.mlpackage")
    actual = package.predict({"x": x.numpy()}).values()

    for is_, should in zip(actual, expected, strict=True):
        found = torch.from_numpy(np.array(is_)).double()
        assert compare("", found, should.double()).relative_error < 1e-5


def test_nested_tensors_are_refused():
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval().requires_grad_(False)
    padded = torch.tensor([[False] * 3, [False] * 2 + [True]])

    class Padded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model(x, src_key_padding_mask=padded)

    with torch.no_grad(), quiet():
        traced: Any = torch.jit.trace(Padded(), torch.rand(2, 3, 8), check_trace=False)

    with pytest.raises(padc.UnsupportedError, match="nested tensor") as raised:
        expand(traced.inlined_graph)
    (problem,) = raised.value.problems
    assert problem.hint is not None and "set_fastpath_enabled(False)" in problem.hint


class Chunks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        (whole,) = x.chunk(1, 1)
        return torch.cat(whole.chunk(2, 2)[::-1], 2)


def test_chunks_of_a_size_that_varies(tmp_path: Path):
    traced = torch.jit.trace(Chunks(), torch.rand(1, 2, 9), check_trace=False)
    shape = 1, 2, ct.RangeDim(4, 30, default=9)
    with quiet():
        converted = ct.convert(
            traced, inputs=[ct.TensorType("x", shape)], skip_model_load=True
        )

    converted.save(str(tmp_path / "model.mlpackage"))
    package = padc.coreml.load(tmp_path / "model.mlpackage")

    for size in 8, 13:
        x = torch.rand(1, 2, size).half().float()
        (actual,) = package.predict({"x": x.numpy()}).values()
        np.testing.assert_array_equal(actual, Chunks()(x).numpy())
