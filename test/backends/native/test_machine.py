# pyright: basic
"""Machine code for CPUs that the tests do not run on, by its assembly."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from xdsl.backend.llvm.convert import convert_module

import padc
from padc.backends.native import compile_part, machine
from padc.backends.native.machine import Cpu, assembly
from padc.passes import pipelines

NEON = Cpu("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
AVX512 = Cpu("x86_64-unknown-linux-gnu", "skylake-avx512", "+avx512f,+avx512vl")
LABEL = re.compile(r"(\.L\w+):")
BRANCH = re.compile(r"\s+(?:b|b\.\w+|cbn?z|tbn?z)\s.*?(\.L\w+)$")
SPILL = re.compile(r"\s+(?:str|stp|stur|ldr|ldp|ldur)\s+q.*\[sp")


def convolution(**options: Any) -> Callable[..., Tensor]:
    return lambda x, w, b: F.conv2d(x, w, b, **options).relu()


def twice(x: Tensor, w: Tensor) -> Tensor:
    """Two convolutions, whose channels are packed, and which are computed by tiles."""
    return F.conv2d(F.conv2d(x, w, padding=1).relu(), w, padding=1)


KERNELS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "linear": (F.linear, [(64, 96), (128, 96)]),
    "product": (torch.matmul, [(4, 64, 70), (4, 70, 50)]),
    "dot products": (lambda x, w: x @ w.mT, [(3, 70), (33, 70)]),
    "1x1": (convolution(), [(1, 64, 20, 20), (48, 64, 1, 1), (48,)]),
    "3x3": (twice, [(1, 32, 20, 20), (32, 32, 3, 3)]),
    "stride": (
        convolution(stride=2, padding=1),
        [(1, 16, 20, 20), (32, 16, 3, 3), (32,)],
    ),
    "images": (convolution(padding=3), [(1, 3, 40, 40), (32, 3, 7, 7), (32,)]),
    "depthwise": (
        convolution(padding=1, groups=32),
        [(1, 32, 20, 20), (32, 1, 3, 3), (32,)],
    ),
    "attention": (F.scaled_dot_product_attention, [(1, 4, 50, 32)] * 3),
    "gelu": (F.gelu, [(1000,)]),
}


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Tensor:
        return self.function(*args)


def compiled(function: Callable[..., Tensor], *args: Tensor, cpu: Cpu = NEON) -> str:
    """The assembly of a function."""
    exported = torch.export.export(Model(function), args)
    ctx, module = pipelines.import_program(
        exported, legal=pipelines.legal_for_native(), leave_out_constants=True
    )
    for passes in (
        pipelines.to_native_tcp(),
        pipelines.to_buffers(cpu.vector_bytes),
        pipelines.to_llvm(cpu.vector_bytes),
    ):
        pipelines.run_passes(ctx, module, passes)
    return assembly(convert_module(module, fallback_target_triple=None), cpu)


def innermost_loops(text: str) -> list[list[str]]:
    """The lines of each loop that has no other inside."""
    lines, places = text.splitlines(), dict[str, int]()
    spans: list[tuple[int, int]] = []
    for place, line in enumerate(lines):
        if found := LABEL.match(line):
            places[found[1]] = place
        elif (found := BRANCH.match(line)) and found[1] in places:
            spans.append((places[found[1]], place))
    return [
        lines[begin:end]
        for begin, end in spans
        if not any(
            begin <= first and last <= end and (begin, end) != (first, last)
            for first, last in spans
        )
    ]


@pytest.mark.parametrize("name", KERNELS)
def test_sums_stay_in_the_registers_of_neon(name: str):
    function, shapes = KERNELS[name]
    text = compiled(function, *map(torch.empty, shapes))

    products = [
        loop
        for loop in innermost_loops(text)
        if sum("fmla\tv" in line for line in loop) > 1
    ]

    assert products
    assert not [line for loop in products for line in loop if SPILL.match(line)]


def test_sums_of_tiles_stay_in_the_registers_of_neon():
    """Not their transforms, of 36 vectors, which are more than there are registers."""
    # The weight is bound, so that it can be transformed.
    text = compiled(nn.Conv2d(32, 32, 3, padding=1), torch.empty(1, 32, 28, 28))

    loops = innermost_loops(text)
    products = [loop for loop in loops if sum(map(is_by_element, loop)) > 1]

    assert len(products) == 1 and len(loops) > len(products)
    assert not [line for line in products[0] if SPILL.match(line)]


def is_by_element(line: str) -> bool:
    """Whether a line multiplies a vector by one element of another, and adds."""
    return "fmla\tv" in line and line.endswith("]")


def test_a_spill_is_seen():
    loop = [".LBB0_1:", "\tfmla\tv0.4s, v1.4s, v2.4s", "\tstr\tq0, [sp, #16]"]
    (found,) = innermost_loops("\n".join([*loop, "\tb.ne\t.LBB0_1"]))

    assert [line for line in found if SPILL.match(line)] == loop[-1:]


@pytest.mark.parametrize(
    "function, instructions",
    [
        (torch.exp, ["vscalefps", "vpermps"]),
        (torch.exp2, ["vscalefps", "vpermps"]),
        (torch.log, ["vgetexpps", "vgetmantps"]),
        (lambda x: x.softmax(-1), ["vscalefps", "vpermps"]),
    ],
)
def test_instructions_of_avx512_replace_calls(
    function: Callable[..., Tensor], instructions: list[str]
):
    text = compiled(function, torch.ones(20, 205), cpu=AVX512)

    for name in instructions:
        assert re.search(rf"{name}\s.*%zmm", text)
    assert not re.search(r"padc_(exponent|mantissa|scaled|root)\w*@GOT", text)


def test_rows_that_are_written_last_are_prefetched():
    text = compiled(lambda x: x.softmax(-1), torch.ones(20, 205), cpu=AVX512)

    assert "prefetch" in text


class Network(nn.Module):
    """Ops of several kinds of kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 33, 3, padding=1)
        self.tiles = nn.Conv2d(33, 40, 3, padding=1)
        self.up = nn.ConvTranspose2d(40, 7, 3, 3, 1, 2, dilation=2)

    def forward(self, x: Tensor) -> list[Tensor]:
        y = F.gelu(self.tiles(F.silu(self.first(x))))
        rows = y.flatten(2).mT
        grid = torch.tanh(y[:, :2].permute(0, 2, 3, 1))
        return [
            y,
            self.up(y),
            F.scaled_dot_product_attention(rows, rows, rows),
            F.max_pool2d(y, 3, 2, 1),
            y.var(1),
            torch.log_softmax(rows, -1),
            F.grid_sample(x, grid, "bicubic", align_corners=True),
            F.pad(x, (3, 2, 1, 4), "reflect"),
            y.half() * 2,
        ]


@pytest.mark.skipif(
    machine.host().vector_bytes < 64, reason="other tests run without AVX-512"
)
def test_code_without_avx512_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PADC_AVX512", "0")
    cpu = machine.host.__wrapped__()
    for module in (machine, compile_part):
        monkeypatch.setattr(module, "host", lambda: cpu)
    torch.manual_seed(0)
    model, x = Network().eval().requires_grad_(False), torch.randn(1, 3, 33, 29)

    compiled = padc.compile(model, (x,))

    assert cpu.vector_bytes == 32 and compiled.is_native
    for actual, expected in zip(compiled(x), model(x), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=2e-5)
