# pyright: basic, reportMissingTypeStubs=false
"""`decompose-pads`: the same values, by ops that Core ML has."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.arith import IndexCastOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    ModuleOp,
    TensorType,
    bf16,
    f16,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

import padc
from padc.backends.reference import run
from padc.errors import UnsupportedError, UsageError
from padc.ir import make_context, tcp
from padc.ir.torch import IntType, ToI64Op
from padc.passes.tcp_to_mil.decompose_pads import DecomposePadsPass
from padc.passes.tcp_to_mil.legality import can_pad_natively
from padc.passes.tcp_to_mil.policies import PadPolicy

ELEMENT_TYPES = {
    torch.float32: f32,
    torch.float16: f16,
    torch.bfloat16: bf16,
    torch.int32: i32,
    torch.int64: i64,
    torch.bool: i1,
}
MODES: dict[str, type[tcp.BorderPadOp] | None] = {
    "constant": None,
    "replicate": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "circular": tcp.CircularPadOp,
    "symmetric": tcp.SymmetricPadOp,
}


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def as_index(integer: SSAValue) -> SSAValue:
    return IndexCastOp(ToI64Op(integer).result, IndexType()).results[0]


Dynamic = tuple[bool, bool, bool]
"""Whether a dimension's size, its lower and its upper amount are dynamic."""
ALL_STATIC: Dynamic = (False, False, False)
ALL_DYNAMIC: Dynamic = (True, True, True)


def program(
    mode: str, x: Tensor, amounts: list[tuple[int, ...]], dynamic: Sequence[Dynamic]
) -> tuple[ModuleOp, list[int]]:
    """A function that pads `x`, and its other arguments: the dynamic amounts."""
    shape = [
        DYNAMIC_INDEX if of_size else size
        for size, (of_size, _, _) in zip(x.shape, dynamic, strict=True)
    ]
    type = TensorType(ELEMENT_TYPES[x.dtype], shape)
    known = [n for lower, upper, _ in amounts for n in (lower, upper)]
    computed = [each for _, lower, upper in dynamic for each in (lower, upper)]
    given = [n for n, is_given in zip(known, computed, strict=True) if is_given]
    block = Block(arg_types=[type, *[IntType()] * len(given)])
    with ImplicitBuilder(block):
        y, *integers = block.args
        indices = map(as_index, integers)
        sides: list[int | SSAValue] = [
            next(indices) if is_given else n
            for n, is_given in zip(known, computed, strict=True)
        ]
        lower, upper = sides[::2], sides[1::2]
        if (border := MODES[mode]) is not None:
            pad = border(y, lower, upper)
        else:
            fill = 1 if type.element_type == i1 else -3
            scalar = tcp.fill_constant(fill, type.element_type).result
            pad = tcp.PadOp(y, scalar, lower, upper, [n for *_, n in amounts])
        ReturnOp(pad.result)
    types = [argument.type for argument in block.args], [pad.result.type]
    module = ModuleOp([FuncOp("main", types, Region(block))])
    module.verify()
    return module, given


@st.composite
def pads(
    draw: st.DrawFn, mode: str, widest: int = 2
) -> tuple[list[int], list[tuple[int, ...]]]:
    """
    A shape, and lower, upper and interior amounts that are legal for it.

    Where the mode has no limit, they are at most `widest` times the size.
    """
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    amounts: list[tuple[int, ...]] = []
    for size in shape:
        between = draw(st.sampled_from([0, 0, 2])) if mode == "constant" else 0
        spread = size + (size - 1) * between
        # All but a constant pad leave something of the input.
        kept = 0 if mode == "constant" else 1
        most = {"reflect": size - 1, "circular": size, "symmetric": size}.get(
            mode, widest * size
        )
        lower = draw(st.integers(kept - spread, most))
        left = spread + min(lower, 0)
        # Something must result, and a circular pad reads no more than is left.
        least = max(kept - left, 1 - spread - lower)
        if mode == "circular":
            least, most = max(least, lower - size), left
        upper = draw(st.integers(least, most))
        amounts.append((lower, upper, between))
    return shape, amounts


def decomposed(module: ModuleOp, policy: PadPolicy) -> ModuleOp:
    after = module.clone()
    DecomposePadsPass(policy).apply(make_context(), after)
    after.verify()
    return after


def pads_of(module: ModuleOp) -> list[tcp.ExpandOp]:
    return [op for op in module.walk() if isinstance(op, tcp.ExpandOp)]


@pytest.mark.parametrize("mode", MODES)
@given(
    st.data(),
    st.sampled_from(["auto", "decompose"]),
    st.sampled_from([*ELEMENT_TYPES]),
)
@settings(max_examples=50, deadline=None)
def test_values_stay(
    mode: str,
    data: st.DataObject,
    policy: PadPolicy,
    dtype: torch.dtype,
):
    shape, amounts = data.draw(pads(mode))
    each = data.draw(
        st.sampled_from(
            [
                st.just(ALL_STATIC),
                st.just(ALL_DYNAMIC),
                st.tuples(st.booleans(), st.booleans(), st.booleans()),
            ]
        )
    )
    rank = len(shape)
    dynamic = data.draw(st.lists(each, min_size=rank, max_size=rank))
    x = numbers(*shape, dtype=dtype)
    module, integers = program(mode, x, amounts, dynamic)
    (expected,) = run(module, x, *integers)

    after = decomposed(module, policy)

    (actual,) = run(after, x, *integers)
    assert torch.equal(actual, expected) and actual.dtype == dtype
    for pad in pads_of(after):
        assert pad.static_amounts is not None
        assert pad.input_type.element_type in (f32, f16, bf16)
        if isinstance(pad, tcp.BorderPadOp):
            assert policy == "auto"
            assert all(
                can_pad_natively(pad, dim, amount)
                for dim, amount in enumerate(pad.static_amounts)
            )


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
@given(st.data(), st.sampled_from([torch.float32, torch.bool]))
@settings(max_examples=50, deadline=None)
def test_native_policy(mode: str, data: st.DataObject, dtype: torch.dtype):
    shape, amounts = data.draw(pads(mode, widest=1))
    x = numbers(*shape, dtype=dtype)
    module, _ = program(mode, x, amounts, [ALL_STATIC] * len(shape))
    (expected,) = run(module, x)

    after = decomposed(module, "native")

    (actual,) = run(after, x)
    assert torch.equal(actual, expected)
    assert "aten.cat" not in str(after)
    for pad in pads_of(after):
        assert pad.static_amounts is not None and isinstance(pad, tcp.BorderPadOp)
        for dim, amount in enumerate(pad.static_amounts):
            assert can_pad_natively(pad, dim, amount)


@pytest.mark.parametrize(
    "mode, dtype, amounts, dynamic, message",
    [
        ("circular", torch.float32, (1, 0, 0), ALL_STATIC, "no circular pad"),
        ("replicate", torch.int32, (1, 0, 0), ALL_STATIC, "floats only"),
        ("constant", torch.int32, (0, 1, 0), ALL_STATIC, "floats only"),
        ("replicate", torch.float32, (0, 5, 0), ALL_STATIC, "dimension 1 by 0 and 5"),
        ("reflect", torch.float32, (0, 1, 0), ALL_DYNAMIC, "constant amounts only"),
    ],
)
def test_what_is_not_native(
    mode: str, dtype: torch.dtype, amounts: Any, dynamic: Dynamic, message: str
):
    x = numbers(2, 4, dtype=dtype)
    module, _ = program(mode, x, [(0, 0, 0), amounts], [ALL_STATIC, dynamic])

    with pytest.raises(UnsupportedError, match=message) as error:
        decomposed(module, "native")

    assert error.value.hint is not None and "policy auto" in error.value.hint


def test_unknown_policy():
    with pytest.raises(UsageError, match="no pad policy 'slices'") as error:
        padc.convert(nn.ReLU(), (torch.ones(2),), pad_policy="slices")  # pyright: ignore

    assert error.value.hint == "choose one of auto, native, decompose"


# As packages.


def check_package(
    function: Callable[..., Tensor], *samples: tuple[Tensor, ...], **options: Any
) -> padc.Program:
    """Convert; no rule is broken, and all samples are padded as PyTorch pads them."""
    converted = padc.convert(Function(function), samples[0], **options)
    assert converted.check() == []
    for sample in samples:
        (actual,) = converted.run(*sample)
        expected = function(*sample)
        assert torch.equal(actual, expected.to(actual.dtype))
    return converted


IMAGE = numbers(1, 2, 5, 6)
VOLUME = numbers(1, 2, 3, 5, 6)

STRATEGIES: list[tuple[Tensor, tuple[Any, ...], PadPolicy, int]] = [
    (IMAGE, ((1, 2, 3, 4), "replicate"), "auto", 1),
    (IMAGE, ((1, 2, 3, 4), "replicate"), "decompose", 9),
    (IMAGE, ((0, 1, 0, 0), "replicate"), "decompose", 2),
    (IMAGE, ((1, 2, 3, 4), "reflect"), "auto", 1),
    (IMAGE, ((1, 2, 3, 4), "reflect"), "decompose", 9),
    (IMAGE, ((9, 0, 3, 4), "replicate"), "auto", 4),
    (IMAGE, ((-1, 2, 3, -2), "reflect"), "auto", 3),
    (VOLUME, ((1, 2, 3, 4, 1, 2), "replicate"), "auto", 5),
    (VOLUME, ((1, 2, 3, 4, 1, 2), "replicate"), "native", 4),
    (VOLUME, ((1, 2, 3, 4, 1, 2), "reflect"), "native", 4),
    (IMAGE, ((1, 2, 3, 4), "circular"), "auto", 6),
    (IMAGE, ((1, 0, -3, 0), "circular"), "auto", 3),
    (VOLUME, ((1, 2, -3, 4, 1, 2, 0, 1), "constant", 7), "auto", 2),
    (VOLUME, ((1, 2, -3, 4, 1, 2, 0, 1), "constant", 7), "decompose", 2),
    (IMAGE.int(), ((1, 2, 3, 4), "constant", -7), "auto", 2),
    (IMAGE.int(), ((1, 0), "constant", -7), "auto", 1),
    (IMAGE.int(), ((1, 0, 0, 0), "reflect"), "auto", 2),
    (IMAGE > 0, ((1, 2, -3, 4), "constant", 1), "auto", 5),
    (IMAGE > 0, ((1, 2, 0, 4, 1, 1), "constant", 1), "auto", 5),
    (IMAGE > 0, ((1, 2, 1, 1, 1, 1, 1, 0), "constant", 1), "auto", 5),
    (IMAGE > 0, ((1, 2, 0, 4), "constant", 1), "native", 5),
    (IMAGE > 0, ((-1, 0), "constant", 1), "auto", 3),
    (IMAGE > 0, ((1, 0, 0, 0), "circular"), "auto", 4),
    (VOLUME > 0, ((1, 0, 1, 0, 1, 0), "circular"), "auto", 8),
    # Nothing is left of the image.
    (IMAGE, ((-6, 3), "constant", 7), "auto", 1),
]


@pytest.mark.parametrize("x, arguments, policy, ops", STRATEGIES)
def test_strategies(x: Tensor, arguments: tuple[Any, ...], policy: PadPolicy, ops: int):
    converted = check_package(lambda x: F.pad(x, *arguments), (x,), pad_policy=policy)

    assert converted.operation_count == ops


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "symmetric"])
def test_small_integers(mode: str):
    dtypes = torch.int8, torch.uint8, torch.int16
    integers = [IMAGE.abs().to(dtype) for dtype in dtypes]

    def pads(floats: Tensor, *integers: Tensor) -> Tensor:
        results = [F.pad(x, (1, 2, -1, 3), mode).int().flatten() for x in integers]
        results += [
            F.pad(floats.to(dtype), (1, 0, 3, 2), mode).int().flatten()
            for dtype in dtypes
        ]
        return torch.cat(results)

    check_package(pads, (IMAGE.abs(), *integers))


def test_small_integers_of_targets_that_do_not_have_them():
    model = Function(lambda x: F.pad(x.to(torch.int8), (1, 2)).int())
    program = padc.convert(model, (IMAGE,), target="iOS16")

    torch.testing.assert_close(program.run(IMAGE)[0], model(IMAGE))


def test_large_unsigned_integers():
    x = torch.tensor([[1, 40000, 65535]], dtype=torch.uint16)

    check_package(lambda x: F.pad(x, (2, -1), value=60000), (x,))
    check_package(lambda x: F.pad(x, (2, 1), "circular").long(), (x,))
    check_package(lambda x: F.pad(x.float(), (2, 1), "reflect").to(torch.uint16), (x,))


@pytest.mark.parametrize("dtype", [torch.uint32, torch.uint64], ids=str)
def test_integers_that_no_target_has(dtype: torch.dtype):
    model = Function(lambda x: F.pad(x, (1, 2)))

    with pytest.raises(UnsupportedError, match=f"no {str(dtype)[6:]}") as raised:
        padc.convert(model, (torch.ones(3, dtype=dtype),))

    hint = raised.value.hint or ""
    assert hint.startswith("use ") and "target" not in hint


@pytest.mark.parametrize("arguments", [((1, 2, -3, 3), "replicate"), ((-6, 3),)])
def test_half_precision(arguments: tuple[Any, ...]):
    def pad(x: Tensor) -> Tensor:
        return F.pad(x, *arguments)

    check_package(pad, (IMAGE,), precision="float16", pad_policy="decompose")
    check_package(lambda x: pad(x.half()).float(), (IMAGE,), pad_policy="decompose")


DYNAMIC: dict[str, Callable[[Tensor, int], Tensor]] = {
    "constant": lambda x, n: F.pad(x, (1, 0, n - 2, 2 - n), value=7.0),
    "replicate": lambda x, n: F.pad(x, (1, 0, n - 2, 2 - n), "replicate"),
    "reflect": lambda x, n: F.pad(x, (1, 0, n - 2, 2 - n), "reflect"),
    "circular": lambda x, n: F.pad(x, (1, 0, n, 2 * n), "circular"),
    "circular, cropped below": lambda x, n: F.pad(x, (1, 0, -n, n), "circular"),
    "circular, cropped above": lambda x, n: F.pad(x, (1, 0, n, -n), "circular"),
    "integers": lambda x, n: F.pad(x.int(), (1, 0, n - 2, 2 - n), value=-7),
    "booleans": lambda x, n: F.pad(x > 0, (1, 0, n, -n), "circular"),
    "known, of integers": lambda x, n: F.pad(x.int(), (1, 0, -1, 2), value=-7) + n,
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_computed_amounts(name: str):
    sizes = {2: Dim("h", min=8, max=20), 3: Dim("w", min=3, max=9)}
    shapes = sizes, {0: Dim("n", min=1, max=3)}

    check_package(
        lambda x, y: DYNAMIC[name](x, y.shape[0]),
        *(
            (numbers(1, 2, height, width), numbers(n))
            for height, width, n in ((11, 6, 2), (8, 3, 3), (20, 9, 1))
        ),
        dynamic_shapes=(shapes,),
    )


def test_no_element_of_a_dynamic_size_is_left():
    check_package(
        lambda x: F.pad(x, (-5, 6)),
        *((numbers(2, width),) for width in (9, 5, 6)),
        dynamic_shapes=(({1: Dim("w", min=5, max=20)},),),
    )


@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_tensorflow_same(target: str, precision: str):
    def pad(x: Tensor) -> Tensor:
        windows = (x.shape[2] + 1) // 2
        total = max((windows - 1) * 2 + 4 - x.shape[2], 0)
        return F.pad(x, (0, 0, total // 2, total - total // 2))

    sizes = {2: Dim("h", min=4, max=20)}

    check_package(
        pad,
        *((numbers(1, 2, height, 3),) for height in (9, 4, 5, 20)),
        dynamic_shapes=((sizes,),),
        target=target,
        precision=precision,
    )
