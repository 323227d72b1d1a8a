# pyright: basic
"""Machine code that checks its loads and stores: `PADC_CHECK=1`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from native_programs import POISON, guarded
from torch import Tensor, nn
from xdsl.backend.llvm.convert import convert_module
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

import padc
from padc.backends.calls.parameters import Parameter
from padc.backends.native.function_signature import Signature, accesses_of
from padc.backends.native.machine import Code, compile_object, host
from padc.backends.native.native_function import NativeFunction
from padc.compiled_models.native_model import NativeModel
from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import ConvertBuffersToLlvmPass
from padc.passes.buffers_to_llvm.llvm_builder import GRAIN
from padc.passes.buffers_to_llvm.products import product_blocks
from padc.passes.to_linalg.aten import indexing

Parse = Callable[[str], ModuleOp]

# Functions of buffers as `plan-buffers` leaves them. Each has a part that is not in its
# buffer: the types of subviews say so, and nothing verifies that.
PARTS = {
    "linalg.copy reads": """
        %part = memref.subview %x[1, 1] [4, 6] [1, 1] : memref<4x6xf32> to memref<4x6xf32, strided<[6, 1], offset: 7>>
        linalg.copy ins(%part : memref<4x6xf32, strided<[6, 1], offset: 7>>) outs(%y : memref<4x6xf32>)
    """,
    "linalg.copy writes": """
        %part = memref.subview %y[1, 1] [4, 6] [1, 1] : memref<4x6xf32> to memref<4x6xf32, strided<[6, 1], offset: 7>>
        linalg.copy ins(%x : memref<4x6xf32>) outs(%part : memref<4x6xf32, strided<[6, 1], offset: 7>>)
    """,
    "linalg.fill writes": """
        %part = memref.subview %y[3, 5] [1, 2] [1, 1] : memref<4x6xf32> to memref<1x2xf32, strided<[6, 1], offset: 23>>
        linalg.fill ins(%zero : f32) outs(%part : memref<1x2xf32, strided<[6, 1], offset: 23>>)
    """,
    "linalg.generic reads": """
        linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<4x6xf32>) {
        ^bb0(%old: f32):
          %i = linalg.index 0 : index
          %j = linalg.index 1 : index
          %k = arith.addi %j, %i : index
          %e = memref.load %x[%i, %k] : memref<4x6xf32>
          linalg.yield %e : f32
        }
    """,
    **{
        f"linalg.matmul {verb} {operand}": f"""
        %a = memref.subview %x[{a}, 0] [4, 4] [1, 1] : memref<4x6xf32> to memref<4x4xf32, strided<[6, 1], offset: {6 * a}>>
        %b = memref.subview %x[{b}, 0] [4, 6] [1, 1] : memref<4x6xf32> to memref<4x6xf32, strided<[6, 1], offset: {6 * b}>>
        %c = memref.subview %y[{c}, 0] [4, 6] [1, 1] : memref<4x6xf32> to memref<4x6xf32, strided<[6, 1], offset: {6 * c}>>
        linalg.matmul ins(%a, %b : memref<4x4xf32, strided<[6, 1], offset: {6 * a}>>, memref<4x6xf32, strided<[6, 1], offset: {6 * b}>>) outs(%c : memref<4x6xf32, strided<[6, 1], offset: {6 * c}>>)
        """
        for operand, verb, a, b, c in (
            ("left", "reads", 1, 0, 0),
            ("right", "reads", 0, 1, 0),
            ("output", "reads", 0, 0, 1),
        )
    },
    "memref.load reads": """
        %e = memref.load %x[%three, %six] : memref<4x6xf32>
        memref.store %e, %y[%zero_i, %zero_i] : memref<4x6xf32>
    """,
    "memref.store writes": """
        memref.store %zero, %y[%three, %six] : memref<4x6xf32>
    """,
    # The view begins in the arena, and ends after it.
    "linalg.copy writes a view": """
        %view = memref.view %arena[%six][] : memref<?xi8> to memref<4x6xf32>
        linalg.copy ins(%x : memref<4x6xf32>) outs(%view : memref<4x6xf32>)
    """,
}
FUNCTIONS = """
  func.func @main(%x: memref<4x6xf32>, %y: memref<4x6xf32>, %arena: memref<?xi8>) {{
    %zero_i = arith.constant 0 : index
    %three = arith.constant 3 : index
    %six = arith.constant 6 : index
    %zero = arith.constant 0.0 : f32
    {body}
    func.return
  }}
  func.func @main_sizes(%x: memref<4x6xf32>, %sizes: memref<?xi64>) {{
    func.return
  }}
"""
LINE = FileLineColLoc(StringAttr("model.py"), IntAttr(7), IntAttr(1))


def function_of(
    module: ModuleOp,
    ctx: Context,
    *,
    dynamic_arena: bool = False,
    threads: int = 1,
) -> NativeFunction:
    """The function of two buffers of 4x6 and an arena of 96 bytes in `module`."""
    grain = 1 if threads > 1 else GRAIN
    to_llvm = ConvertBuffersToLlvmPass(host().vector_bytes, check=True, grain=grain)
    to_llvm.apply(ctx, module)
    parameters = [
        Parameter("input", "float32", (4, 6)),
        Parameter("result", "float32", (4, 6)),
        Parameter("arena", None, (-1,)),
    ]
    code = compile_object(convert_module(module, fallback_target_triple=None))
    arena = None if dynamic_arena else 96
    signature = Signature(parameters, arena, 96, accesses_of(module))
    return NativeFunction(signature, Code(code, ["main", "main_sizes"]), {}, threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("part", PARTS)
def test_the_first_access_outside_of_a_buffer_is_an_error(
    part: str, threads: int, parse: Parse, ctx: Context
):
    module = parse(FUNCTIONS.format(body=PARTS[part]))
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation | memref.LoadOp | memref.StoreOp):
            op.location = LINE
    x, outside_x = guarded(torch.ones(4, 6), at_end=False)
    y, outside_y = guarded(torch.ones(4, 6), at_end=False)
    name, verb, *_ = part.split()
    function = function_of(module, ctx, threads=threads)

    with pytest.raises(padc.WrongResultError) as caught:
        function([x], [y])

    assert str(caught.value).startswith(
        f"the machine code of {name} {verb} outside of its buffer\n  at model.py:7\n"
    )
    assert (outside_x == POISON).all() and (outside_y == POISON).all()


def test_functions_that_compute_sizes_are_checked(parse: Parse, ctx: Context):
    main, sizes = FUNCTIONS.format(body="").split("func.return", 1)
    store = """
    %i = arith.constant 9 : index
    %n = arith.constant 96 : i64
    memref.store %n, %sizes[%i] : memref<?xi64>
    func.return"""
    module = parse(f"{main}func.return{sizes.replace('func.return', store)}")
    function = function_of(module, ctx, dynamic_arena=True)

    with pytest.raises(padc.WrongResultError, match=r"memref\.store writes outside"):
        function([torch.ones(4, 6)])


def test_a_program_without_faults_is_as_before(parse: Parse, ctx: Context):
    body = "linalg.copy ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>)"
    function = function_of(parse(FUNCTIONS.format(body=body)), ctx)
    x = torch.randn(4, 6)

    (y,) = function([x])

    torch.testing.assert_close(y, x, rtol=0, atol=0)


# --- PADC_CHECK -----------------------------------------------------------------------


class Lookup(nn.Module):
    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(0, index)


def test_the_message_names_the_op_and_its_line(monkeypatch: pytest.MonkeyPatch):
    """Without the clamp of its lowering, an index out of range reads other memory."""
    monkeypatch.setenv("PADC_CACHE_DIR", "")
    monkeypatch.setenv("PADC_CHECK", "1")
    monkeypatch.setattr(indexing, "safe_index", lambda index, size: index.to_index())
    x, index = torch.arange(12.0).reshape(4, 3), torch.tensor([3, 1])
    model = padc.compile(Lookup(), (x, index))
    line = Lookup.forward.__code__.co_firstlineno + 1

    torch.testing.assert_close(model(x, index), x[index])
    with pytest.raises(padc.WrongResultError) as caught:
        model(x, index + 10**9)

    assert caught.value.message == (
        "the machine code of aten.index_select reads outside of its buffer"
    )
    assert caught.value.location == padc.SourceLocation(__file__, line)


def test_vectors_of_which_nothing_is_loaded_are_not_checked(
    monkeypatch: pytest.MonkeyPatch,
):
    """The second vector of each row of a convolution with stride 2."""
    monkeypatch.setenv("PADC_CACHE_DIR", "")
    monkeypatch.setenv("PADC_CHECK", "1")
    model, x = nn.Conv3d(2, 4, (3, 1, 1), stride=(1, 1, 2)), torch.randn(1, 2, 3, 4, 7)

    torch.testing.assert_close(padc.compile(model, (x,))(x), model(x))


class Product(nn.Module):
    def __init__(self, product: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.product = product

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        return self.product(x, w)


@pytest.mark.parametrize(
    ("product", "shape"),
    [
        (lambda x, w: x @ w[:, :40], (24, 48)),  # copied
        (nn.functional.linear, (42, 24)),  # transposed
        (lambda x, w: x @ w[:, ::2], (24, 80)),  # element by element
    ],
)
def test_packed_panels_are_checked(
    product: Callable[[Tensor, Tensor], Tensor],
    shape: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("PADC_CACHE_DIR", "")
    monkeypatch.setenv("PADC_CHECK", "1")
    inputs = torch.randn(64, 24), torch.randn(shape)
    right = padc.compile(Product(product), inputs)
    bounds_of = product_blocks.bounds_of

    def too_few(build: Any, pointer: Any, type: Any, sizes: Sequence[int]) -> Any:
        return bounds_of(build, pointer, type, [sizes[0] // 4])

    monkeypatch.setattr(product_blocks, "bounds_of", too_few)
    wrong = padc.compile(Product(product), inputs)

    expected = product(*inputs)
    torch.testing.assert_close(right(*inputs), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(padc.WrongResultError, match="writes outside of its buffer"):
        wrong(*inputs)


def test_checked_code_has_its_own_entry_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path))
    x = torch.randn(3, 5)
    made: list[bool] = []
    for value in ("", "0", "1", "1"):
        monkeypatch.setenv("PADC_CHECK", value)
        model = padc.compile(nn.ReLU(), (x,))
        torch.testing.assert_close(model(x), x.relu())
        assert isinstance(model, NativeModel)
        (part,) = model._program.stored.parts
        assert part.signature is not None
        made.append(part.signature.accesses is not None)

    assert made == [False, False, True, True]
    assert len([each for each in tmp_path.iterdir() if len(each.name) == 64]) == 2
