# pyright: basic, reportMissingTypeStubs=false
"""Packages with programs that ask for too much; test/fuzz damages packages at random."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
from coremltools.converters.mil import Builder
from fuzz.seed_packages import save, spec, structures

from padc.backends.coreml.evaluator.ops import elementwise, layout, tensor_operation
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import Dataless
from padc.backends.coreml.evaluator.values.limits import limited_by
from padc.coreml import Limits, check, load
from padc.errors import InvalidProgramError, Obstacle, PadcError, UnsupportedError

ct: Any = coremltools
mb: Any = Builder


def size(x: Any, *sizes: int | None) -> Any:
    """A shape that is computed, so nothing is declared: None is 2^20."""
    nothing = mb.mul(x=mb.reduce_sum(x=x, keep_dims=False), y=0.0)
    big = mb.cast(x=mb.add(x=nothing, y=2.0**20), dtype="int32")
    return mb.concat(values=[big if n is None else n for n in sizes], axis=0)


def big(x: Any, *sizes: int | None) -> Any:
    return mb.fill(shape=size(x, *sizes), value=1.0)


def endless(x: Any, body: Callable[[Any], Any]) -> Any:
    def always(x: Any) -> Any:
        return mb.less(x=mb.mul(x=mb.reduce_sum(x=x), y=0.0), y=1.0)

    return mb.while_loop(_cond=always, _body=body, loop_vars=(x,))


def layer(x: Any) -> Any:
    zeros = np.zeros((1, 2), np.float32)
    weights = np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)
    return mb.lstm(
        x=big(x, None, 1, 4),
        initial_h=zeros,
        initial_c=zeros,
        weight_ih=weights[0],
        weight_hh=weights[1],
    )[0]


WEIGHT = np.ones((1, 2, 3, 3), np.float32)

TOO_LARGE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fill": (lambda x: big(x, None, None), "'fill' .*: a value of shape"),
    "tile": (lambda x: mb.tile(x=x, reps=size(x, 1, 1, None, None)), "'tile'"),
    "pad": (
        lambda x: mb.pad(x=x, pad=size(x, *[0] * 4, *[None] * 4), mode="constant", constant_val=0.0),
        "'pad' .*: a value of shape",
    ),
    "expand_dims": (
        lambda x: mb.reshape(x=mb.expand_dims(x=big(x, 2, None, 512), axes=[0]), shape=[-1]),
        "'fill'",
    ),
    "range_1d": (
        lambda x: mb.range_1d(start=0.0, end=mb.mul(x=mb.cast(x=size(x, None), dtype="fp32"), y=2.0**20), step=1.0),
        "'range_1d' .*: a value of shape",
    ),
    "one_hot": (
        lambda x: mb.one_hot(indices=mb.fill(shape=size(x, None), value=1), one_hot_vector_size=mb.squeeze(x=size(x, None))),
        "'one_hot' .*: a value of shape",
    ),
    "broadcast": (
        lambda x: mb.add(x=big(x, None, 1), y=big(x, 1, None)),
        "'add' .*: a value of shape",
    ),
    "matmul": (
        lambda x: mb.matmul(x=big(x, None, 1), y=big(x, 1, None)),
        "'matmul' .*: a value of shape",
    ),
    "random": (
        lambda x: mb.random_normal(shape=size(x, None, None), mean=0.0, stddev=1.0, seed=1),
        "'random_normal' .*: a value of shape",
    ),
    "gather": (
        lambda x: mb.gather(x=big(x, 1, None), indices=mb.fill(shape=size(x, None), value=0), axis=0),
        "'gather' .*: a value of shape",
    ),
    "conv": (
        lambda x: mb.sqrt(x=mb.conv(x=x, weight=WEIGHT, pad_type="custom", pad=[2**20] * 4)),
        "'conv' .*: a value of shape",
    ),
    "uneven conv": (
        lambda x: mb.sqrt(x=mb.conv(x=x, weight=WEIGHT, pad_type="custom", pad=[2**20, 1] * 2)),
        "'conv' .*: a value of shape",
    ),
    "conv_transpose": (
        lambda x: mb.sqrt(x=mb.conv_transpose(x=x, weight=WEIGHT.reshape(2, 1, 3, 3), strides=[2**20] * 2)),
        "'conv_transpose' .*: a value of shape",
    ),
    "max_pool": (
        lambda x: mb.sqrt(x=mb.max_pool(x=x, kernel_sizes=[3, 3], pad_type="custom", pad=[2**20] * 4)),
        "'max_pool' .*: a value of shape",
    ),
    "upsample": (
        lambda x: mb.sqrt(x=mb.upsample_bilinear(x=x, scale_factor_height=2.0**30, scale_factor_width=2.0**30)),
        "'upsample_bilinear' .*: a value of shape",
    ),
    "list": (
        lambda x: mb.list_gather(ls=mb.make_list(init_length=mb.mul(x=mb.squeeze(x=size(x, None)), y=2**10), elem_shape=(2,)), indices=[0]),
        "'make_list' .*: a list of 1073741824",
    ),
    "lstm": (layer, "'lstm' .*: more than 100000 iterations"),
}  # fmt: skip


def predict(package: Path, limits: Limits | None = None) -> Any:
    x = np.ones((1, 2, 4, 4), np.float32)
    model = load(package) if limits is None else load(package, limits=limits)
    return model.predict({"x": x})


def forget_sizes(description: Any) -> None:
    """Say nothing of how large outputs are, so that only computing them tells."""
    for output in description.output:
        output.type.multiArrayType.ClearField("shape")


@pytest.mark.parametrize(("build", "message"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_too_large_values_are_told(build: Any, message: str, tmp_path: Path):
    package = save(tmp_path / "m.mlpackage", [spec(1, 2, 4, 4)], build)
    edit(package, forget_sizes)
    check(package)

    start = time.process_time()
    with pytest.raises(UnsupportedError, match=message):
        predict(package)

    assert time.process_time() - start < 1


def test_endless_loops_end(tmp_path: Path):
    def around(x: Any) -> Any:
        # Each loop alone is short; the blocks of both count.
        return endless(x, lambda x: mb.add(x=once(x), y=1.0))

    def once(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda _, go: go,
            _body=lambda x, go: (mb.add(x=x, y=1.0), mb.logical_not(x=go)),
            loop_vars=(x, True),
        )[0]

    package = save(tmp_path / "m.mlpackage", [spec(1, 2, 4, 4)], around)

    with pytest.raises(UnsupportedError, match="more than 500 iterations") as raised:
        predict(package, Limits(iterations=500))
    assert "'while_loop'" in str(raised.value)
    assert "Limits(iterations=...)" in str(raised.value)


def test_values_that_grow_are_told_when_they_are_too_large(tmp_path: Path):
    def double(x: Any) -> Any:
        return mb.concat(values=[x, x], axis=0)

    package = save(
        tmp_path / "m.mlpackage",
        [spec(1, 2, 4, 4)],
        lambda x: endless(mb.reshape(x=x, shape=[-1]), double),
    )

    # The op is the same each time, its sizes are not.
    with pytest.raises(UnsupportedError, match=r"'concat' .* shape \[1024\] has more"):
        predict(package, Limits(elements=1000))


def test_values_that_are_too_large_together(tmp_path: Path):
    def build(x: Any) -> Any:
        parts = [mb.add(x=x, y=float(i)) for i in range(4)]
        return mb.sqrt(x=mb.concat(values=parts, axis=0))

    package = save(tmp_path / "m.mlpackage", [spec(1, 2, 4, 4)], build)

    # The input and the concatenation of four, which are let go after it.
    enough = 32 + 2 * 4 * 32
    predict(package, Limits(total=enough))
    message = f"'concat' .* {enough} elements are kept, more than {enough - 1}"
    with pytest.raises(UnsupportedError, match=message) as raised:
        predict(package, Limits(total=enough - 1))
    assert "Limits(total=...)" in str(raised.value)


def test_loops_let_go_of_their_values(tmp_path: Path):
    def build(x: Any) -> Any:
        def body(x: Any, i: Any) -> Any:
            return mb.add(x=mb.exp(x=mb.mul(x=x, y=0.0)), y=1.0), mb.sub(x=i, y=1.0)

        return mb.while_loop(
            _cond=lambda _, i: mb.greater(x=i, y=0.0),
            _body=body,
            loop_vars=(x, np.float32(100)),
        )[0]

    package = save(tmp_path / "m.mlpackage", [spec(1, 2, 4, 4)], build)

    predict(package, Limits(total=5 * 32))


def test_constants_that_decompress_to_too_much_are_told_at_load(tmp_path: Path):
    def build(x: Any) -> Any:
        scale = np.ones((64, 64), np.float32)
        weight = mb.constexpr_blockwise_shift_scale(
            data=np.ones((64, 64), np.int8), scale=scale
        )
        return mb.matmul(x=x, y=weight)

    package = save(tmp_path / "m.mlpackage", [spec(2, 64)], build)

    load(package, limits=Limits(elements=4096))
    with pytest.raises(
        UnsupportedError, match=r"'constexpr_block.* than 4095 elements"
    ):
        load(package, limits=Limits(elements=4095))


def edit(package: Path, change: Callable[[Any], Any]) -> None:
    """Change the package's protobuf."""
    file = package / "Data/com.apple.CoreML/model.mlmodel"
    model = ct.proto.Model_pb2.Model()
    model.ParseFromString(file.read_bytes())
    change(model.description)
    file.write_bytes(model.SerializeToString())


def described(features: str, *shape: int) -> Callable[[Any], Any]:
    """Give the first input, output or state another shape."""

    def change(description: Any) -> None:
        kind = getattr(description, features)[0].type
        is_state = features == "state"
        array = kind.stateType.arrayType if is_state else kind.multiArrayType
        array.shape[:] = shape

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (described("state", 2**20, 2**20), "'total' of shape .* has more than"),
        (described("state", 0, 2**40), "'total' of shape .* has more than"),
        (described("input", 2**20, 2**20), "'x' of shape .* has more than"),
        (described("input", 3, -8), r"'x' has a negative size: \[3, -8\]"),
        (described("state", -1, 8), r"'total' has a negative size: \[-1, 8\]"),
    ],
)
def test_sizes_that_are_only_described(change: Any, message: str, tmp_path: Path):
    package = structures(tmp_path / "m.mlpackage")
    edit(package, change)

    with pytest.raises(PadcError, match=message):
        load(package)


def test_described_kinds_that_the_program_does_not_have(tmp_path: Path):
    def swapped(description: Any) -> None:
        state, x = description.state[0], description.input[0]
        state.name, x.name = x.name, state.name

    package = structures(tmp_path / "m.mlpackage")
    edit(package, swapped)

    with pytest.raises(InvalidProgramError, match=r"'total', described .* is a state"):
        load(package)


def nothing(*shape: int) -> Any:
    return Dataless(shape, np.float32)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nothing(2**20, 1) + nothing(1, 2**20),
        lambda: nothing(2**20, 1) @ nothing(1, 2**20),
        lambda: np.broadcast_to(nothing(1), (2**40,)),
        lambda: np.broadcast_to(nothing(0, 1), (0, 2**40)),
        lambda: np.concatenate([nothing(2**20), nothing(2**20)]),
        lambda: np.stack([nothing(2**20), nothing(2**20)]),
        lambda: np.tile(nothing(2, 3), (2**10, 2**10)),
        lambda: np.repeat(nothing(2), 2**20, 0),
        lambda: np.take(nothing(2, 2**10), np.zeros(2**10, np.int64), 0),
        lambda: np.where(nothing(2**20, 1) > 0, nothing(1, 2), 0.0),
        lambda: kernels.pad(nothing(1), [(2**40, 0)], 0.0),
        lambda: kernels.pad(np.ones(1), [(2**40, 0)], 0.0),
        lambda: layout.counted(2**40),
        lambda: tensor_operation.one_hot(np.zeros(1, np.int32), 2**40),
    ],
)
def test_large_arrays_are_refused_before_they_are_made(make: Callable[[], Any]):
    with (
        pytest.raises(Obstacle, match="has more than 1000000 elements"),
        limited_by(Limits(elements=10**6)),
    ):
        make()


def test_the_least_integer_by_minus_one_does_not_end_the_process():
    least = np.full(64, -(2**31), np.int32)
    y = np.tile(np.array([-1, 7, -7, 2], np.int32), 16)

    quotient = elementwise.real_div(least, y)

    expected = np.trunc(least.astype(np.float64) / y)
    # 2^31 is no int32: it is the one that wraps around.
    np.testing.assert_array_equal(quotient[1:4], expected[1:4])
    assert quotient.dtype == np.int32
    assert quotient[0] == least[0]
