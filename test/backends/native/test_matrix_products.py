# pyright: basic
"""Matrix products of all layouts, in tiles for each length of vectors."""

import copy
import itertools
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from proofs import holds, ints, proves, quotient, symbolic
from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects import llvm
from z3 import And

import padc
from padc.backends.native.function_signature import signature_of
from padc.backends.native.machine import Code, compile_object
from padc.backends.native.native_function import NativeFunction
from padc.ir import make_context
from padc.ir.main_function import main
from padc.ir.text import Parser
from padc.passes import pipelines
from padc.passes.buffers_to_llvm.products import product_blocks
from padc.passes.buffers_to_llvm.products.matrix_product_tiles import (
    panels_in_place,
    panels_of,
    tiles_of,
)
from padc.passes.buffers_to_llvm.sums.partial_sums import STEP_PRODUCTS, terms_of_step

GUARD = 64
"""
Elements before and after each tensor: NaN, or infinite, which results would show.
"""

PROGRAM = """
builtin.module {{
  func.func @main(%a: tensor<{a}x{t}>, %b: tensor<{b}x{t}>, %c: tensor<{c}x{t}>)
      -> tensor<{c}x{t}> {{
    %r = linalg.generic {{
      indexing_maps = [
        affine_map<(d, m, n, k) -> ({a_map})>, affine_map<(d, m, n, k) -> ({b_map})>,
        affine_map<(d, m, n, k) -> (d, m, n)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    }} ins(%a, %b : tensor<{a}x{t}>, tensor<{b}x{t}>) outs(%c : tensor<{c}x{t}>) {{
    ^bb0(%x: {t}, %y: {t}, %z: {t}):
      %p = arith.mulf %x, %y : {t}
      %s = arith.addf %p, %z : {t}
      linalg.yield %s : {t}
    }} -> tensor<{c}x{t}>
    func.return %r : tensor<{c}x{t}>
  }}
}}
"""


@dataclass(frozen=True)
class Layout:
    """
    The order of dimensions of the inputs.

    A dimension "d" is a batch; the product is repeated along one of the result alone.
    """

    a: str
    b: str

    def compile(
        self, sizes: dict[str, int], dtype: str, dynamic: str, vector_bytes: int
    ) -> NativeFunction:
        """A product whose sizes named in `dynamic` are dynamic."""

        def shape(names: str) -> str:
            return "x".join("?" if x in dynamic else str(sizes[x]) for x in names)

        text = PROGRAM.format(
            a=shape(self.a),
            b=shape(self.b),
            c=shape("dmn"),
            t=dtype,
            a_map=", ".join(self.a),
            b_map=", ".join(self.b),
        )
        ctx = make_context()
        module = Parser(ctx, text).parse_module()
        types = main(module).function_type
        pipelines.run_passes(ctx, module, pipelines.to_buffers())
        signature = signature_of(main(module), [*types.inputs], [*types.outputs])
        pipelines.run_passes(ctx, module, pipelines.to_llvm(vector_bytes))
        is_tiled = any(isinstance(op, llvm.FMAOp) for op in module.walk())
        assert is_tiled or "m" not in dynamic
        code = compile_object(convert_module(module, fallback_target_triple=None))
        return NativeFunction(signature, Code(code, ["main", "main_sizes"]), {})


LAYOUTS = [Layout(a, b) for a in ("dmk", "dkm") for b in ("dkn", "dnk", "nkd")]


def guarded(x: torch.Tensor, guard: float = torch.nan) -> torch.Tensor:
    """A copy of `x` inside of memory that is `guard`."""
    memory = torch.full((x.numel() + 2 * GUARD,), guard, dtype=x.dtype)
    inside = memory[GUARD : GUARD + x.numel()].view(x.shape)
    return inside.copy_(x)


def is_untouched(x: torch.Tensor) -> bool:
    """Whether the memory around a guarded tensor is still NaN."""
    memory = torch.tensor([], dtype=x.dtype).set_(x.untyped_storage())
    return bool(memory[:GUARD].isnan().all() and memory[-GUARD:].isnan().all())


def check(
    function: NativeFunction, layout: Layout, sizes: dict[str, int], dtype: torch.dtype
) -> None:
    guards = (torch.nan, torch.nan, torch.inf)
    a, b, c = (
        guarded(torch.randn([sizes[x] for x in names], dtype=dtype), guard)
        for names, guard in zip((layout.a, layout.b, "dmn"), guards)
    )
    kept = "dmn" if "d" in layout.a + layout.b else "mn"
    equation = f"{layout.a},{layout.b}->{kept}"
    expected = torch.einsum(equation, a.double(), b.double()) + c
    magnitudes = torch.einsum(equation, a.double().abs(), b.double().abs())
    result = guarded(torch.zeros_like(c))

    function([a, b, c], [result])

    bound = torch.finfo(dtype).eps * (2 + sizes["k"] / 2) * (magnitudes + c.abs())
    assert ((result - expected).abs() <= bound).all(), (layout, sizes)
    assert is_untouched(result)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that few rows, columns and products make many."""
    monkeypatch.setattr(product_blocks, "PANEL_BYTES", 2048)
    monkeypatch.setattr(product_blocks, "BLOCK_BYTES", 4096)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "vector_bytes", [pytest.param(16, marks=pytest.mark.slow), 32, 64]
)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"{x.a}-{x.b}")
def test_products_of_static_sizes(layout: Layout, vector_bytes: int):
    torch.manual_seed(0)
    draw = random.Random(f"{layout}{vector_bytes}")
    for largest in ((2, 70, 70, 70), (1, 5, 99, 40)):
        sizes = {x: draw.randint(1, n) for x, n in zip("dmnk", largest)}
        dtype = draw.choice(["f32", "f32", "f64"])
        function = layout.compile(sizes, dtype, "", vector_bytes)
        check(function, layout, sizes, getattr(torch, f"float{dtype[1:]}"))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "dynamic", ["m", pytest.param("nk", marks=pytest.mark.slow), "dmnk"]
)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"{x.a}-{x.b}")
def test_products_of_dynamic_sizes(layout: Layout, dynamic: str):
    torch.manual_seed(0)
    draw = random.Random(f"{layout}{dynamic}")
    sizes = {x: draw.randint(2, 60) for x in "mnk"} | {"d": 2}
    function = layout.compile(sizes, "f32", dynamic, draw.choice([32, 64]))
    for largest in (1, 2, 7, 30, 100):
        others = {x: draw.randint(1, largest) for x in dynamic}
        check(function, layout, sizes | others, torch.float32)
    check(function, layout, sizes | dict.fromkeys(dynamic, 0), torch.float32)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: f"{x.a}-{x.b}")
def test_products_without_elements(layout: Layout):
    for sizes in itertools.product((0, 1), (0, 5), (0, 16, 40), (0, 9)):
        named: dict[str, int] = dict(zip("dmnk", sizes))
        if 0 in sizes:
            function = layout.compile(named, "f32", "", 64)
            check(function, layout, named, torch.float32)


@pytest.mark.parametrize("rows", [1, 5])
def test_products_repeated_along_a_dimension(rows: int):
    layout, sizes = Layout("mk", "kn"), {"d": 3, "m": rows, "n": 16, "k": 9}

    function = layout.compile(sizes, "f32", "", 64)

    check(function, layout, sizes, torch.float32)


def test_products_of_many_blocks():
    """With the default block sizes, and sums of more products than one block has."""
    torch.manual_seed(0)
    sizes = {"d": 1, "m": 301, "n": 419, "k": 1100}
    for layout in LAYOUTS[:2]:
        function = layout.compile(sizes, "f32", "", 64)
        check(function, layout, sizes, torch.float32)


def test_static_tiles_cover_a_loop_once():
    for count, most in itertools.product(range(200), range(1, 15)):
        tiles: list[Any] = tiles_of(count, most)
        places = [
            place
            for each in tiles
            for number in range(each.end - each.begin)
            for place in range(each.size * number, each.size * (number + 1))
            for place in [each.first + place]
        ]
        assert places == list(range(count))
        assert all(0 < each.size <= most for each in tiles)
        assert [each.begin for each in tiles][1:] == [each.end for each in tiles][:-1]


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("tiles", [panels_of, panels_in_place])
def test_static_panels_cover_all_columns_once(tiles: Any, lanes: int):
    for count, most in itertools.product(range(1, 200), range(1, 5)):
        panels: list[Any] = tiles(count, lanes, most)
        place, number = 0, 0
        for each in panels:
            assert (each.first, each.begin) == (place, number)
            place += (each.end - each.begin) * each.size
            number = each.end
            assert each.size % lanes == 0 and each.size <= most * lanes
            assert each.is_cut or place <= count
        assert place - panels[-1].size < count <= place
        if tiles is panels_in_place and any(each.is_cut for each in panels):
            assert panels[-1].size == lanes and count % lanes != 0


@proves("convert-buffers-to-llvm: tiles of products")
@pytest.mark.parametrize("most", range(1, 15))
def test_dynamic_tiles_cover_a_loop_once(most: int):
    count = ints("count")[0]
    with symbolic():
        tiles: list[Any] = tiles_of(count, most)
    place, number = 0, 0
    for each in tiles:
        assert holds(And(each.first == place, each.begin == number), count >= 0)
        assert holds(each.end >= each.begin, count >= 0)
        place = place + (each.end - each.begin) * each.size
        number = each.end
    assert holds(place == count, count >= 0)


@proves("convert-buffers-to-llvm: steps of product blocks")
@pytest.mark.parametrize("sums", [1, 12, 24, 28, 200])
def test_steps_have_all_terms_once(sums: int):
    for count in range(100):
        terms = terms_of_step(count, sums)
        assert count % terms == 0 and (terms == 1 or terms * sums <= STEP_PRODUCTS)
    number, each, term = ints("number each term")
    for terms in (1, 2, 4, 8):
        place = each * terms + term
        inside = And(0 <= term, term < terms, 0 <= each, each < number)
        assert holds(And(0 <= place, place < number * terms), inside)
        assert holds(quotient(place, terms) == each, inside)
    assert terms_of_step(number, sums) == 1


@proves("convert-buffers-to-llvm: panels of products")
@pytest.mark.parametrize("width", [2, 8, 48])
def test_dynamic_panels_cover_all_columns_once(width: int):
    count = ints("count")[0]
    with symbolic():
        panels: list[Any] = panels_of(count, width, 1)
    (each,) = panels
    end = each.end * each.size
    assert (each.begin, each.first) == (0, 0)
    assert each.size == width and each.is_cut
    assert holds(And(end - width < count, count <= end), count >= 0)


@proves("convert-buffers-to-llvm: panels of products")
@pytest.mark.parametrize("width", [2, 8, 48])
def test_dynamic_panels_in_place_cover_all_columns_once(width: int):
    count = ints("count")[0]
    with symbolic():
        panels: list[Any] = panels_in_place(count, width, 1)
    wholes, rest = panels
    end = rest.first + (rest.end - rest.begin) * width
    assert (wholes.begin, wholes.first) == (0, 0)
    assert [wholes.is_cut, rest.is_cut] == [False, True]
    assert holds(And(wholes.end == rest.begin, rest.end - rest.begin <= 1), count >= 0)
    assert holds(And(rest.first == rest.begin * width, rest.first <= count), count >= 0)
    assert holds(And(end - width < count, count <= end), count >= 0)


@pytest.mark.parametrize("kept", [4096, 1 << 17])
def test_weights_in_panels_inside_of_blocks_of_large_rows(
    kept: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    """Rows of 600 KB and results of 77 KB: panels are inside only if these are kept."""
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(product_blocks, "KEPT_BYTES", kept)
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(1500, 192), torch.randn(100, 1500)
    model = torch.nn.Sequential(layer, torch.nn.GELU()).eval()
    alone, shared = (padc.compile(model, (x,), threads=n) for n in (1, 2))

    exact = copy.deepcopy(model).double()(x.double())
    # The order of a sum depends on the machine: by one rounding of all its terms.
    terms = x.abs() @ layer.weight.abs().T
    rounding = torch.finfo(torch.float32).eps * terms
    assert (alone(x).double() - exact).abs().le(rounding).all()
    assert torch.equal(alone(x), shared(x))
