# pyright: basic, reportMissingTypeStubs=false
"""Weights that are compressed at conversion."""

from collections import Counter, OrderedDict
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import padc
from padc.backends.coreml.compress import palette_of
from padc.backends.coreml.compressions import Compression
from padc.ir.precisions import Precision


class Weighted(nn.Module):
    """A weight of each kind of op, and those whose channels fill no blocks."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 40, 3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm2d(40)
        self.up = nn.ConvTranspose2d(40, 16, 2, stride=2, output_padding=1)
        self.linear = nn.Linear(16, 160)
        self.embedding = nn.Embedding(64, 160)
        self.matrix = nn.Parameter(torch.randn(160, 20))

    def forward(self, image: Tensor, ids: Tensor) -> Tensor:
        x = self.up(self.norm(self.conv(image)).relu())
        tokens = self.linear(x.flatten(2).transpose(1, 2)) + self.embedding(ids)
        return tokens @ self.matrix


@pytest.fixture(scope="module")
def exported() -> ExportedProgram:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 8, 2, 2), torch.arange(25)[None])
    return torch.export.export(Weighted().eval(), inputs)


def size(path: Path) -> int:
    return (path / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size


def operations(program: padc.Program) -> Counter[str]:
    ops = program._pymil.functions["main"].operations
    return Counter(op.op_type for op in ops if op.op_type.startswith("constexpr"))


@pytest.mark.parametrize(
    "name, target, precision, expected, bits, error",
    [
        ("int8", "iOS16", "float32", "affine_dequantize", 8, 0.02),
        pytest.param(
            *("int8", "iOS18", "float16", "blockwise_shift_scale", 8, 0.02),
            marks=pytest.mark.slow,
        ),
        ("int4", "iOS18", "float32", "blockwise_shift_scale", 4, 0.2),
        ("palette4", "iOS16", "float16", "lut_to_dense", 4, 0.2),
        ("palette6", "newest", "float32", "lut_to_dense", 6, 0.05),
        pytest.param(
            *("sparse75", "iOS17", "float32", "sparse_to_dense", 9, 0.9),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_compressed_weights(
    name: str,
    target: str,
    precision: Precision,
    expected: str,
    bits: float,
    error: float,
    exported: ExportedProgram,
    tmp_path: Path,
):
    program = padc.convert(exported, target=target, precision=precision, compress=name)

    (comparison,) = program.verify()

    assert operations(program) == {f"constexpr_{expected}": 5}
    assert 0 < comparison.relative_error < error
    with pytest.raises(padc.WrongResultError, match="allowed is 1e-06 of the range"):
        program.verify(tolerance=1e-6)
    path = tmp_path / "compressed.mlpackage"
    program.save(path)
    ct.models.MLModel(str(path), skip_model_load=True)
    count = sum(weight.numel() for weight in exported.state_dict.values())
    assert size(path) < 1.4 * count * bits / 8 + 4000


def test_the_same_bytes_again(exported: ExportedProgram, tmp_path: Path):
    written = set[bytes]()
    for name in ("one.mlpackage", "two.mlpackage"):
        padc.convert(exported, compress="palette4").save(tmp_path / name)
        (file,) = (tmp_path / name).rglob("model.mlmodel")
        written.add(
            file.read_bytes()
            + file.with_name("weights").joinpath("weight.bin").read_bytes()
        )

    assert len(written) == 1


def test_weights_that_are_half_zeros(tmp_path: Path):
    model = nn.Linear(64, 64)
    with torch.no_grad():
        model.weight[:40] = 0  # Whole channels: int8 has no scale for them.
    inputs = (torch.randn(1, 64),)
    program = padc.convert(model, inputs, compress="sparse")

    (comparison,) = program.verify(tolerance=1e-6)

    assert operations(program) == {"constexpr_sparse_to_dense": 1}
    assert comparison.relative_error < 1e-6
    padc.convert(model, inputs, compress="int8").verify(tolerance=0.01)


class Spectrum(nn.Module):
    """Its only constants of more than a few elements are tables of padc's own."""

    def forward(self, x: Tensor) -> Tensor:
        window = torch.hann_window(64)
        frames = torch.stft(x, 64, 16, window=window, return_complex=True)
        return torch.fft.rfft(x, norm="ortho").abs().mean() + torch.istft(
            frames, 64, 16, window=window
        )


def test_weights_that_are_named_like_tables():
    torch.manual_seed(0)
    model = nn.Sequential(OrderedDict(dft=nn.Linear(64, 64)))
    program = padc.convert(model.eval(), (torch.randn(2, 64),), compress="int8")

    assert sum(operations(program).values()) == 1


@pytest.mark.parametrize(
    "model, name, hint",
    [
        (Spectrum(), "int8", "leave compress out"),  # Its matrix is a table.
        (nn.Linear(64, 16), "palette4", "leave compress out"),
        (nn.Linear(64, 64), "sparse", "or give a percentage: sparse75"),
    ],
)
def test_nothing_to_compress(model: nn.Module, name: str, hint: str):
    with pytest.raises(
        padc.UsageError, match="there is no weight to compress"
    ) as caught:
        padc.convert(model.eval(), (torch.randn(2, 64),), compress=name)

    assert caught.value.hint is not None and hint in caught.value.hint


@pytest.mark.parametrize(
    "name",
    ["int3", "palette5", "palette", "sparse0", "sparse100", "INT8", "", "int", 8],
)
def test_no_such_compression(name: str, exported: ExportedProgram):
    with pytest.raises(padc.UsageError, match=f"there is no compression '{name}'"):
        padc.convert(exported, compress=name)


def test_targets_without_a_compression(exported: ExportedProgram):
    for name, target, needed in (
        ("int8", "iOS15", "iOS16"),
        ("int4", "iOS17", "iOS18"),
        ("palette3", "iOS17", "iOS18"),
    ):
        with pytest.raises(padc.UsageError, match=f"that needs {needed}"):
            padc.convert(exported, compress=name, target=target)


def test_a_package_that_decompresses_wrongly(
    exported: ExportedProgram, monkeypatch: pytest.MonkeyPatch
):
    program = padc.convert(exported, compress="int8")
    monkeypatch.setattr(
        program, "_pymil", padc.convert(exported, compress="palette8")._pymil
    )

    with pytest.raises(padc.WrongResultError, match="does not compute what the model"):
        program.verify()


def test_buffers_of_a_compressed_program():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 64)
            self.total: Tensor
            self.register_buffer("total", torch.zeros(64))

        def forward(self, x: Tensor) -> Tensor:
            self.total.add_(self.linear(x))
            return self.total * 2

    torch.manual_seed(0)
    program = padc.convert(Counting().eval(), (torch.randn(64),), compress="palette8")

    output, total = program.verify()

    assert 0 < output.relative_error == total.relative_error < 0.02


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def test_recurrent_weights():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 32)
    program = padc.convert(Recurrent().eval(), (x,), compress="palette8")

    (comparison,) = program.verify()

    assert operations(program) == {"constexpr_lut_to_dense": 2}
    assert 0 < comparison.relative_error < 0.02


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_palettes(dtype: type):
    rng = np.random.default_rng(0)
    weight = np.concatenate([rng.normal(at, 0.01, 50) for at in (-3e4, 0.5, 7)])
    weight = weight.astype(dtype).reshape(3, 50)

    palette, indices = palette_of(2)(weight)

    assert palette.dtype == dtype and palette.shape == (4,)
    np.testing.assert_allclose(
        palette[indices].reshape(3, 50), weight, rtol=0.1, atol=5
    )
    for few in ([0], [-5e4, 1, 1.001, 3, 4]):
        values = np.array(few, dtype).repeat(3)
        palette, indices = palette_of(3)(values)
        np.testing.assert_array_equal(palette[indices], values)


def test_palettes_are_the_best():
    weight = np.random.default_rng(0).normal(size=3000).astype(np.float32)

    palette, indices = palette_of(4)(weight)

    # Lloyd's conditions: each element has the nearest value, each value is a mean.
    nearest = abs(weight[:, None] - palette).argmin(1)
    assert (nearest == indices).mean() > 0.99
    # The optimum for a normal distribution: J. Max, "Quantizing for minimum
    # distortion", 1960.
    assert np.square(palette[indices] - weight).mean() < 1.02 * 0.009497


def test_the_oldest_targets():
    assert Compression.named("int4").target == "iOS18"
    assert Compression.named("palette1").target == "iOS16"
    assert Compression.named("sparse").is_exact
