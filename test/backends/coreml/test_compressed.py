# pyright: basic, reportMissingTypeStubs=false
"""ResNet-50 compressed by coremltools.optimize, run by the evaluator, against PyTorch
with the weights that coremltools itself decompresses."""

import copy
import importlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import coremltools
import coremltools.optimize.coreml as optimize
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import padc

ct: Any = coremltools
cto: Any = optimize
Compress = Callable[[Any], Any]


def quantize(**options: Any) -> Compress:
    config = cto.OptimizationConfig(cto.OpLinearQuantizerConfig(**options))
    return lambda model: cto.linear_quantize_weights(model, config)


def palettize(**options: Any) -> Compress:
    options = {"mode": "uniform", "nbits": 4} | options
    config = cto.OptimizationConfig(cto.OpPalettizerConfig(**options))
    return lambda model: cto.palettize_weights(model, config)


def prune(model: Any) -> Any:
    half = cto.OpMagnitudePrunerConfig(target_sparsity=0.5)
    return cto.prune_weights(model, cto.OptimizationConfig(half))


def prune_and_quantize(model: Any) -> Any:
    config = cto.OptimizationConfig(cto.OpLinearQuantizerConfig())
    return cto.linear_quantize_weights(prune(model), config, joint_compression=True)


def prune_and_palettize(model: Any) -> Any:
    config = cto.OptimizationConfig(cto.OpPalettizerConfig(mode="uniform", nbits=4))
    return cto.palettize_weights(prune(model), config, joint_compression=True)


CASES: dict[str, tuple[str, Compress, set[str]]] = {
    "int8": ("iOS16", quantize(), {"affine_dequantize"}),
    "palettized": ("iOS16", palettize(), {"lut_to_dense"}),
    "pruned": ("iOS16", prune, {"sparse_to_dense"}),
    "int4 blocks": (
        "iOS18",
        quantize(mode="linear", dtype="int4", granularity="per_block", block_size=32),
        {"blockwise_shift_scale"},
    ),
    "palettes of channels": (
        "iOS18",
        palettize(granularity="per_grouped_channel", group_size=16),
        {"lut_to_dense"},
    ),
    "palettes and scales": (
        "iOS18",
        palettize(enable_per_channel_scale=True),
        {"lut_to_dense", "blockwise_shift_scale"},
    ),
    "pruned int8": (
        "iOS18",
        prune_and_quantize,
        {"sparse_blockwise_shift_scale", "sparse_to_dense"},
    ),
    "pruned palettized": (
        "iOS18",
        prune_and_palettize,
        {"lut_to_sparse", "sparse_to_dense"},
    ),
}
"""By name: the target, what compresses, and the `constexpr_` ops that it leaves."""


@pytest.fixture(scope="module")
def resnet() -> tuple[nn.Module, Tensor]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(Path(__file__).parents[3])
        model, (image,) = importlib.import_module("examples.resnet50").resnet50()
    return model, image


@pytest.fixture(scope="module")
def convert(resnet: tuple[nn.Module, Tensor]) -> Callable[[str], Any]:
    """For a target, what coremltools converts it to in fp32."""
    model, image = resnet
    traced = torch.jit.trace(model, image, check_trace=False)

    @cache
    def convert(target: str) -> Any:
        return ct.convert(
            traced,
            inputs=[ct.TensorType("image", image.shape)],
            minimum_deployment_target=getattr(ct.target, target),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )

    return convert


def operations(model: Any) -> Counter[str]:
    (block,) = (
        model.get_spec().mlProgram.functions["main"].block_specializations.values()
    )
    return Counter(op.type for op in block.operations)


def with_weights_of(package: Any, model: Any, image: Tensor) -> nn.Module:
    """`model` with the weights in `package`, which has its batch norms in them."""
    model = copy.deepcopy(model)
    convs: list[Any] = []
    for module in list(model.modules()):
        if isinstance(module, nn.Conv2d):
            module.register_forward_pre_hook(lambda conv, _: convs.append(conv))
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())
    with torch.no_grad():
        model(image)
    found = {
        name: torch.from_numpy(np.array(weight.val))
        for name, weight in cto.get_weights_metadata(package, 0).items()
        if weight.val.dtype == np.float32
    }
    model.fc.bias.data = found.pop("fc_bias")
    (model.fc.weight.data,) = (value for value in found.values() if value.ndim == 2)
    weights = [value for value in found.values() if value.ndim == 4]
    biases = [value for value in found.values() if value.ndim == 1]
    for conv, weight, bias in zip(convs, weights, biases, strict=True):
        assert conv.weight.shape == weight.shape
        conv.weight.data, conv.bias = weight, nn.Parameter(bias)
    return model


# The ops by themselves are tested in test_constexpr.py.
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compressed_resnet50_agrees_with_its_decompressed_weights(
    name: str,
    resnet: tuple[nn.Module, Tensor],
    convert: Callable[[str], Any],
    tmp_path: Path,
):
    model, image = resnet
    target, compress, kinds = CASES[name]
    compressed = compress(convert(target))
    compressed.save(str(tmp_path / "m.mlpackage"))
    reference = with_weights_of(cto.decompress_weights(compressed), model, image)

    outputs = padc.coreml.load(tmp_path / "m.mlpackage").predict(
        {"image": image.numpy()}
    )

    found = operations(compressed)
    assert {op.removeprefix("constexpr_") for op in found if "constexpr" in op} == kinds
    assert sum(found[f"constexpr_{kind}"] for kind in kinds) >= 50
    (actual,) = outputs.values()
    with torch.no_grad():
        expected, plain = reference(image).numpy(), model(image).numpy()
    extent = np.ptp(expected)
    assert np.abs(actual - expected).max() <= 1e-4 * extent
    assert np.abs(actual - plain).max() > 1e-3 * extent
