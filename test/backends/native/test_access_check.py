# pyright: basic
"""Machine code that checks its loads and stores: `PADC_CHECK=1`."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
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
from padc.passes.buffers_to_llvm import (
    buffer_descriptor,
    channel_rows,
    gathers,
    loop_fusion,
    row_moves,
    window_rows,
)
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, bounds_of
from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import ConvertBuffersToLlvmPass
from padc.passes.buffers_to_llvm.llvm_builder import GRAIN
from padc.passes.buffers_to_llvm.products import product_blocks
from padc.passes.buffers_to_llvm.row_places import Phases
from padc.passes.buffers_to_llvm.sums import float_sums
from padc.passes.buffers_to_llvm.winograd import kernel as winograd_kernel
from padc.passes.linalg import layout_plan
from padc.passes.linalg.winograd_cost import Shape
from padc.passes.to_linalg.aten import indexing
from padc.versions import numbers

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


class Function(nn.Module):
    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Tensor:
        return self.function(*args)


def checked(model: nn.Module, inputs: Sequence[Tensor]) -> padc.CompiledModel:
    """The model with checks, not from the cache; all of it is machine code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PADC_CACHE_DIR", "")
        patch.setenv("PADC_CHECK", "1")
        compiled = padc.compile(model, tuple(inputs))
    assert compiled.is_native
    return compiled


def assert_fault(model: padc.CompiledModel, inputs: Sequence[Tensor], match: str):
    """Assert that a call raises, and names a line of this file."""
    with pytest.raises(padc.WrongResultError, match=match) as caught:
        model(*inputs)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def sample(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x, grid, align_corners=False)


SCRATCH: dict[str, tuple[ModuleType, Callable[..., Tensor], list[Tensor]]] = {
    "rows of windows": (
        window_rows,
        lambda x: F.max_pool2d(x, 3, 2),
        [torch.randn(1, 4, 65, 65)],
    ),
    "rows of averages": (
        window_rows,
        lambda x: F.avg_pool2d(x, 3, 2),
        [torch.randn(1, 4, 65, 65)],
    ),
    "long sums": (float_sums, lambda x: x.sum(0), [torch.randn(1000, 300)]),
    "gathers": (
        gathers,
        sample,
        [torch.randn(1, 3, 20, 20), torch.rand(1, 40, 50, 2)],
    ),
    "rows of channels": (
        channel_rows,
        sample,
        [torch.randn(2, 64, 20, 20), torch.rand(2, 40, 50, 2)],
    ),
    "private buffers": (loop_fusion, lambda x: x.softmax(-1), [torch.randn(64, 300)]),
    "panels, copied": (
        product_blocks,
        lambda x, w: x @ w[:, :40],
        [torch.randn(64, 24), torch.randn(24, 48)],
    ),
    "panels, transposed": (
        product_blocks,
        F.linear,
        [torch.randn(64, 24), torch.randn(42, 24)],
    ),
    "panels, element by element": (
        product_blocks,
        lambda x, w: x @ w[:, ::2],
        [torch.randn(64, 24), torch.randn(24, 80)],
    ),
}
"""What has scratch memory: its module, a function, and inputs."""


def assert_scratch_is_checked(
    module: ModuleType,
    model: nn.Module,
    inputs: Sequence[Tensor],
    monkeypatch: pytest.MonkeyPatch,
):
    """Assert that it is an error to leave the scratch memory that `module` asks for."""
    right = checked(model, inputs)
    scratch = buffer_descriptor.scratch

    def too_little(build: Any, count: int, type: Any) -> Any:
        memory = scratch(build, count, type)
        bounds = bounds_of(build, memory.pointer, type, [count // 4])
        return replace(memory, bounds=bounds)

    monkeypatch.setattr(module, "scratch", too_little)
    wrong = checked(model, inputs)

    torch.testing.assert_close(right(*inputs), model(*inputs), atol=1e-4, rtol=1e-4)
    assert_fault(wrong, inputs, "writes outside of its buffer")


@pytest.mark.parametrize("name", SCRATCH)
def test_scratch_memory_is_checked(name: str, monkeypatch: pytest.MonkeyPatch):
    module, function, inputs = SCRATCH[name]

    assert_scratch_is_checked(module, Function(function), inputs, monkeypatch)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


def test_scratch_memory_of_winograd_is_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Shape, "best_tile", lambda shape: 4)
    monkeypatch.setattr(layout_plan, "COST", 0.0)
    model, x = Convolution(), torch.randn(1, 16, 12, 12)

    assert_scratch_is_checked(winograd_kernel, model, [x], monkeypatch)


@pytest.mark.parametrize("distance", [1, 40, 100_000])
def test_columns_stored_elsewhere(distance: int, monkeypatch: pytest.MonkeyPatch):
    """Columns of windows of 4 that move by 2 fill their memory."""
    place = Phases.place

    def moved(self: Phases, group: Any, phase: Any) -> Any:
        return place(self, group, phase) + distance

    monkeypatch.setattr(Phases, "place", moved)
    inputs = [torch.randn(1, 4, 65, 65)]
    model = checked(Function(lambda x: F.max_pool2d(x, 4, 2)), inputs)

    assert_fault(model, inputs, r"aten\.max_pool2d writes outside of its buffer")


def test_elements_gathered_from_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gathers.Gather, "base", lambda *_: 10**9)
    _, function, inputs = SCRATCH["gathers"]
    model = checked(Function(function), inputs)

    assert_fault(model, inputs, "reads outside of its buffer")


def test_rows_put_together_elsewhere(monkeypatch: pytest.MonkeyPatch):
    emit_row = row_moves.emit_row

    def elsewhere(build: Any, row: Any, sources: Any, target: Any, offset: Any) -> None:
        emit_row(build, row, sources, target, build.add(offset, 10**9))

    inputs = [torch.randn(1, 3, 20, 20)]
    model = Function(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"))
    right = checked(model, inputs)
    monkeypatch.setattr(loop_fusion, "emit_row", elsewhere)
    wrong = checked(model, inputs)

    torch.testing.assert_close(right(*inputs), model(*inputs), atol=0, rtol=0)
    assert_fault(wrong, inputs, r"aten\.pad writes outside of its buffer")


@pytest.mark.parametrize("access", ["load", "store"])
def test_no_kernel_forgets_the_check(access: str, monkeypatch: pytest.MonkeyPatch):
    def load(self: BufferDescriptor, build: Any, address: Any) -> Any:
        return build.load(address, self.element_type)

    def store(self: BufferDescriptor, build: Any, value: Any, address: Any) -> None:
        build.store(value, address)

    forgetful = {"load": load, "store": store}[access]
    monkeypatch.setattr(BufferDescriptor, access, forgetful)

    with pytest.raises(AssertionError, match=f"{access.capitalize()}Op"):
        checked(nn.ReLU(), [torch.randn(3)])


@pytest.mark.parametrize(
    ("model", "inputs", "what"),
    [
        pytest.param(
            *(nn.LSTM(3, 4), (torch.randn(5, 2, 3),), "aten.lstm.input"),
            marks=pytest.mark.skipif(
                numbers(torch.__version__) < numbers("2.9"),
                reason="PyTorch 2.8 does not export a module that is an LSTM",
            ),
        ),
        (
            Function(lambda x: x.relu().sort().values + torch.fft.fft(x).real),
            (torch.randn(8),),
            "aten.fft_fft, aten.sort, aten.view_as_real",
        ),
        (Function(lambda x: x.add_(1)), (torch.randn(8),), "the whole model"),
    ],
)
def test_a_warning_names_what_is_not_checked(
    model: nn.Module,
    inputs: tuple[Tensor],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    """Also if the machine code is from the cache; nothing is said without checks."""
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path))
    exported = torch.export.export(model, inputs)
    said: list[list[str]] = []
    for value in ("0", "1", "1"):
        monkeypatch.setenv("PADC_CHECK", value)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            padc.compile(exported)
        ours = [each for each in found if each.category is padc.PadcWarning]
        said.append([str(each.message) for each in ours])

    message = f"PADC_CHECK does not check the memory of what PyTorch runs: {what}"
    assert said == [[], [message], [message]]


def test_nothing_is_said_if_all_is_checked():
    with warnings.catch_warnings():
        warnings.simplefilter("error", padc.PadcWarning)
        checked(nn.ReLU(), [torch.randn(3)])


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
