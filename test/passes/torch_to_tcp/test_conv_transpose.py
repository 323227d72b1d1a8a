# pyright: basic, reportMissingTypeStubs=false
"""Transposed convolutions, as they are and decomposed, against PyTorch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function, needs_export
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, TensorType, f32, f64, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from padc import convert
from padc.backends.reference import run
from padc.errors import UnsupportedError, UsageError
from padc.frontends.torch_export import export_module, import_exported_program
from padc.ir import make_context, tcp
from padc.ir.padding import Amounts, conv_transpose_output_size
from padc.ir.tcp import ConvDimsAttr
from padc.ir.weights import weights_of
from padc.passes.to_linalg.decompose_conv_transpose import (
    DecomposeConvTransposePass,
    Form,
)
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass

FUNCTIONS: tuple[Callable[..., Tensor], ...] = (
    F.conv_transpose1d,
    F.conv_transpose2d,
    F.conv_transpose3d,
)
FORMS = (None, "zero-insert", "crop")
ELEMENT_TYPES = {torch.float32: f32, torch.float64: f64, torch.int64: i64}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads only cost time on tensors as small as these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of few bits, so that sums of products are exact in any order."""
    generator = torch.Generator().manual_seed(sum(shape))
    values = torch.randint(-8, 9, shape, generator=generator)
    return values.div(4).to(dtype) if dtype.is_floating_point else values.to(dtype)


@dataclass
class Case:
    """The arguments of one of PyTorch's transposed convolutions."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    stride: list[int]
    padding: list[int]
    output_padding: list[int]
    groups: int
    dilation: list[int]

    @property
    def rank(self) -> int:
        return self.weight.dim() - 2

    @property
    def tensors(self) -> list[Tensor]:
        given = (self.x, self.weight, self.bias)
        return [x for x in given if x is not None]

    def options(self) -> dict[str, Any]:
        names = ("stride", "padding", "output_padding", "groups", "dilation")
        return {name: getattr(self, name) for name in names}

    def expected(self) -> Tensor:
        return FUNCTIONS[self.rank - 1](
            self.x, self.weight, self.bias, **self.options()
        )


BATCHES = ([], [0], [1], [2])


@st.composite
def cases(
    draw: st.DrawFn,
    dtypes: Iterable[torch.dtype] = ELEMENT_TYPES,
    batches: Iterable[list[int]] = BATCHES,
) -> Case:
    rank, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    dtype = draw(st.sampled_from(list(dtypes)))

    def each(*least_and_most: int) -> list[int]:
        return [draw(st.integers(*least_and_most)) for _ in range(rank)]

    sizes, kernel = each(1, 5), each(1, 3)
    stride, dilation, padding = each(1, 4), each(1, 3), each(0, 4)
    added = [
        draw(st.integers(0, max(s, d) - 1))
        for s, d in zip(stride, dilation, strict=True)
    ]
    for dim, window in enumerate(
        zip(sizes, kernel, stride, dilation, padding, added, strict=True)
    ):
        # Each side of padding removes one row: at least one must be left.
        surplus = 1 - conv_transpose_output_size(*window)
        padding[dim] -= max(0, (surplus + 1) // 2)
    inputs, outputs = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    batch = draw(st.sampled_from(list(batches)))
    return Case(
        numbers(*batch, groups * inputs, *sizes, dtype=dtype),
        numbers(groups * inputs, outputs, *kernel, dtype=dtype),
        draw(st.sampled_from([None, numbers(groups * outputs, dtype=dtype)])),
        stride,
        padding,
        added,
        groups,
        dilation,
    )


def program(case: Case, dims: ConvDimsAttr) -> tuple[ModuleOp, list[Tensor], Tensor]:
    """The op on tensors in the order of `dims`; these tensors, and its result."""
    order = ConvDimsAttr.transposed(case.rank, "b" in dims.input)

    def ordered(x: Tensor, old: Any, new: Any) -> Tensor:
        return x.permute([old.index(role) for role in new])

    result = ordered(case.expected(), order.result, dims.result)
    tensors = [
        ordered(case.x, order.input, dims.input),
        ordered(case.weight, order.kernel, dims.kernel),
        *case.tensors[2:],
    ]
    element_type = ELEMENT_TYPES[case.x.dtype]
    types = [TensorType(element_type, x.shape) for x in tensors]
    result_type = TensorType(element_type, result.shape)
    expansions = [
        Amounts(-p, a - p)
        for p, a in zip(case.padding, case.output_padding, strict=True)
    ]
    block = Block(arg_types=types)
    with ImplicitBuilder(block):
        x, kernel, *bias = block.args
        op = tcp.ConvTransposeOp(
            x, kernel, bias[0] if bias else None, case.stride, case.dilation,
            case.groups, dims, result_type, expansions,
        )  # fmt: skip
        ReturnOp(op.result)
    module = ModuleOp([FuncOp("main", (types, [result_type]), Region(block))])
    module.verify()
    return module, tensors, result


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@given(cases(), st.data())
@settings(max_examples=60, deadline=None)
def test_every_form_computes_what_pytorch_does(
    form: Form | None, case: Case, data: st.DataObject
):
    order = ConvDimsAttr.transposed(case.rank, case.x.dim() == case.rank + 2)
    dims = ConvDimsAttr(
        tuple(tuple(data.draw(st.permutations(roles))) for roles in order.data)
    )
    module, tensors, expected = program(case, dims)

    if form is not None:
        DecomposeConvTransposePass(form).apply(make_context(), module)
        module.verify()
    (actual,) = run(module, *tensors)

    assert_close(actual, expected)
    for op in module.walk():
        if isinstance(op, tcp.ConvTransposeOp):
            assert form != "zero-insert"
            assert form is None or set(op.expansions) == {Amounts(0, 0)}


def lower(
    model: nn.Module, *args: Tensor, form: Form | None, **options: Any
) -> tuple[ModuleOp, Callable[..., Any]]:
    """The lowered program of a model, and a function that runs it."""
    ctx = make_context()
    exported = export_module(model, args, **options)
    module = import_exported_program(exported, weights_of(ctx))
    ConvertTorchToTcpPass().apply(ctx, module)
    assert "aten.conv" not in str(module)
    if form is not None:
        DecomposeConvTransposePass(form).apply(ctx, module)
    module.verify()
    return module, lambda *inputs: run(module, *inputs, weights=weights_of(ctx))


LAYERS: tuple[Callable[..., nn.Module], ...] = (
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64)


@pytest.mark.parametrize(
    "form, dtype",
    [(form, torch.float32) for form in FORMS] + [(None, dtype) for dtype in DTYPES],
    ids=str,
)
def test_layers_whose_weights_are_constants(form: Form | None, dtype: torch.dtype):
    # Exporting is what takes the time.
    for rank in (1, 2, 3) if dtype == torch.float32 else (2,):
        make = LAYERS[rank - 1]
        options = dict(stride=3, padding=2, output_padding=1, dilation=2)
        layer: Any = make(4, 6, (2, 3, 2)[:rank], groups=2, **options)
        shape = tuple(layer.weight.shape)
        weight, bias = numbers(*shape, dtype=dtype), numbers(6, dtype=dtype)
        layer.weight = nn.Parameter(weight, requires_grad=False)
        layer.bias = nn.Parameter(bias, requires_grad=False)
        x = numbers(2, 4, *(4, 3, 5)[:rank], dtype=dtype)

        module, compiled = lower(layer, x, form=form)
        (actual,) = compiled(x)

        assert_close(actual, layer(x))
        assert "aten.flip" not in str(module)  # It is done now, not when it runs.


@pytest.mark.parametrize("form", FORMS)
def test_weights_that_are_inputs_and_sizes_that_are_dynamic(form: Form | None):
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv_transpose2d(
            x, weight, bias, (2, 3), (3, 1), (1, 2), groups=2, dilation=(1, 2)
        )

    model = Function(forward)
    weight, bias = numbers(4, 3, 2, 3), numbers(6)
    sizes = {0: Dim("n", max=9), 2: Dim("h", min=4, max=9), 3: Dim("w", max=9)}

    args = numbers(2, 4, 6, 5), weight, bias
    _, compiled = lower(model, *args, form=form, dynamic_shapes=((sizes, None, None),))

    for shape in ((2, 4, 6, 5), (1, 4, 4, 2), (3, 4, 9, 9)):
        x = numbers(*shape)
        (actual,) = compiled(x, weight, bias)
        assert_close(actual, model(x, weight, bias))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("groups", [1, 2])
def test_kernels_of_dynamic_size_stay(form: Form | None, groups: int):
    model = Function(lambda x, w: F.conv_transpose1d(x, w, stride=2, groups=groups))
    size = {2: Dim("k", max=9)}
    x, weight = numbers(1, 2, 5), numbers(2, 3, 4)

    module, compiled = lower(
        model, x, weight, form=form, dynamic_shapes=((None, size),)
    )

    assert "tcp.conv_transpose" in str(module)
    for count in (4, 2, 7):
        weight = numbers(2, 3, count)
        (actual,) = compiled(x, weight)
        assert_close(actual, model(x, weight))


@pytest.mark.parametrize("form", FORMS)
def test_nothing_may_be_left(form: Form | None):
    model = Function(
        lambda x, w: F.conv_transpose3d(x, w, padding=(0, 0, 1), dilation=(1, 1, 2))
    )
    args = numbers(2, 1, 1, 1, 2), numbers(1, 1, 1, 1, 1)

    _, compiled = lower(model, *args, form=form)

    (actual,) = compiled(*args)
    assert actual.shape == model(*args).shape == (2, 1, 1, 1, 0)


@pytest.mark.parametrize("form", FORMS)
def test_more_may_be_cropped_than_there_is(form: Form | None):
    model = Function(
        lambda x, w, b: F.conv_transpose1d(
            x, w, b, stride=10, padding=2, output_padding=4
        )
    )
    args = numbers(1, 2, 1), numbers(2, 3, 1), numbers(3)

    _, compiled = lower(model, *args, form=form)

    (actual,) = compiled(*args)
    assert_close(actual, model(*args))


def test_the_general_op_of_aten():
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return torch.convolution(
            x, weight, None, [2, 2], [1, 1], [1, 1], True, [0, 1], 1
        )

    model = Function(forward)
    args = numbers(1, 2, 4, 5), numbers(2, 3, 3, 2)

    _, compiled = lower(model, *args, form=None)

    (actual,) = compiled(*args)
    assert_close(actual, model(*args))


@given(
    cases([torch.float32], BATCHES[:1] + BATCHES[2:]),
    st.sampled_from(["iOS15", "iOS17"]),
    st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_core_ml(case: Case, target: str, constant: bool):
    function, options = FUNCTIONS[case.rank - 1], case.options()
    x, weight, *bias = case.tensors
    model = Function(
        (lambda x: function(x, weight, *bias, **options))
        if constant
        else lambda *tensors: function(*tensors, **options)
    )
    inputs = [x] if constant else case.tensors

    program = convert(model, inputs, target=target)

    (actual,) = program.run(*inputs)
    assert_close(actual, case.expected())
    assert program.check() == []


@pytest.mark.parametrize("target", ["iOS15", "iOS17"])
def test_core_ml_dilates_computed_kernels(target: str):
    model = Function(
        lambda x, w, b: F.conv2d(x, w, b, 2, (1, 3), dilation=(2, 3), groups=2)
    )
    inputs = numbers(2, 4, 9, 8), numbers(6, 2, 3, 2), numbers(6)

    program = convert(model, inputs, target=target)

    (actual,) = program.run(*inputs)
    assert_close(actual, model(*inputs))
    assert program.check() == []


INTEGERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "conv1d": lambda x, w: F.conv1d(x[:, :2, 0], w[:, :, 0], padding=1),
    "conv2d": lambda x, w: F.conv2d(x, w, w[:, 0, 0, 0], 2, (1, 3), (2, 1), 2),
    "conv3d": lambda x, w: F.conv3d(x[None], w[:, :, None], padding=1),
    "unbatched": lambda x, w: F.conv2d(x[0], w, padding="same", groups=2),
    "transposed": lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 2, (1, 2)),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("is_computed", [False, True])
def test_integers_are_convolved_in_core_ml(name: str, is_computed: bool):
    x, w = (
        numbers(2, 4, 6, 7, dtype=torch.int64),
        numbers(4, 2, 3, 2, dtype=torch.int64),
    )
    function = INTEGERS[name]
    model = Function(function if is_computed else lambda x: function(x, w))
    inputs = (x, w) if is_computed else (x,)

    program = convert(model, inputs)

    assert torch.equal(program.run(*inputs)[0], model(*inputs))
    assert program.check() == []


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_small_integers_wrap_around_in_core_ml(dtype: torch.dtype):
    x, w = (numbers(1, 9, n, dtype=torch.int64).abs().mul(31).to(dtype) for n in (9, 3))
    model = Function(lambda x, w: F.conv1d(x, w, padding=1).int())
    assert (F.conv1d(x.long(), w.long(), padding=1) != model(x, w)).any()

    (actual,) = convert(model, (x, w)).run(x, w)

    assert torch.equal(actual, model(x, w))


W_OF_INTEGERS = numbers(4, 2, 3, 3, dtype=torch.int64)
DYNAMIC: dict[str, Callable[[Tensor], Tensor]] = {
    "conv": lambda x: F.conv2d(x, W_OF_INTEGERS, stride=(1, 2), padding=1, groups=2),
    "unbatched conv": lambda x: F.conv2d(x[0, :2], W_OF_INTEGERS, dilation=(1, 2)),
    "conv_transpose": lambda x: F.conv_transpose2d(x, W_OF_INTEGERS, stride=(2, 1)),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool without pad": lambda x: F.avg_pool2d(x, (2, 3)),
    "avg_pool by a divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=-4),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_integers_of_dynamic_sizes(name: str):
    model = Function(DYNAMIC[name])
    sizes = (2, 9, 8), (1, 6, 7), (3, 7, 12)
    xs = [numbers(n, 4, h, w, dtype=torch.int64) for n, h, w in sizes]
    dims = {
        0: Dim("n", min=1, max=4),
        2: Dim("h", min=6, max=20),
        3: Dim("w", min=6, max=20),
    }
    needs_export(model, (xs[0],), ((dims,),))

    program = convert(model, (xs[0],), dynamic_shapes=((dims,),))

    for x in xs:
        assert torch.equal(program.run(x)[0], model(x))
    assert program.check() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("convolve", [F.conv2d, F.conv_transpose2d])
def test_kernels_of_dynamic_size_are_refused_for_core_ml(
    convolve: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype
):
    x, w = numbers(2, 3, 6, 6, dtype=dtype), numbers(3, 3, 3, 3, dtype=dtype)
    sizes = {2: Dim("k", min=2, max=5)}

    with pytest.raises(UnsupportedError, match="a kernel of dynamic size"):
        convert(Function(convolve), (x, w), dynamic_shapes=((None, sizes),))


X, W = numbers(1, 2, 3), numbers(2, 2, 2)
REFUSED: dict[str, tuple[Callable[..., Tensor], Tensor, Tensor]] = {
    "must be smaller than either": (
        lambda x, w: F.conv_transpose1d(x, w, output_padding=1), X, W
    ),
    "no transposed convolution by": (F.conv_transpose1d, X, W[:, :0]),
    "no convolution of bool": (F.conv_transpose1d, X.bool(), W.bool()),
    "convolution of bool": (F.conv1d, X.bool(), W.bool()),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_pytorch_refuses_only_when_it_runs(message: str):
    function, *args = REFUSED[message]
    with pytest.raises((RuntimeError, NotImplementedError)):
        function(*args)

    # PyTorch 2.15 refuses the first when it exports, too.
    with pytest.raises((UnsupportedError, UsageError), match=message):
        lower(Function(function), *args, form=None)


def test_no_input_features_make_no_output_features():
    model = Function(lambda x, w: F.conv1d(x, w, padding=2))
    args = numbers(1, 0, 3), numbers(2, 0, 2)

    _, compiled = lower(model, *args, form=None)

    (actual,) = compiled(*args)
    assert actual.shape == model(*args).shape


def test_an_unknown_form():
    form: Any = "full"

    with pytest.raises(UsageError, match="no form 'full'"):
        DecomposeConvTransposePass(form).apply(make_context(), ModuleOp([]))


def test_the_result_may_be_of_a_size_that_only_running_tells():
    types = [TensorType(f32, [1, DYNAMIC_INDEX]), TensorType(f32, [1, 1, 2])]
    result = TensorType(f32, [1, DYNAMIC_INDEX])
    block = Block(arg_types=types)
    with ImplicitBuilder(block):
        dims = ConvDimsAttr.transposed(1, batched=False)
        x, kernel = block.args
        op = tcp.ConvTransposeOp(
            x, kernel, None, [1], [1], 1, dims, result, [Amounts(-2, -2)]
        )
        ReturnOp(op.result)
    module = ModuleOp([FuncOp("main", (types, [result]), Region(block))])
    module.verify()

    (y,) = run(module, numbers(1, 4), numbers(1, 1, 2))

    assert y.shape == (1, 1)
    assert run(module, numbers(1, 3), numbers(1, 1, 2))[0].shape == (1, 0)
    with pytest.raises(Exception, match="crops more than there is"):
        run(module, numbers(1, 2), numbers(1, 1, 2))
