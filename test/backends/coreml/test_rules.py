# pyright: basic
"""The rules about single ops, each on ops that just break it and that just do not."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from padc.backends.coreml.checker.checked_op import Op, Shapes, Value
from padc.backends.coreml.checker.rules import RULES
from padc.backends.coreml.evaluator.values.types import (
    BOOL,
    FP16,
    FP32,
    INT32,
    StringType,
    TensorType,
)
from padc.ir import mil

PACKAGE: Any = SimpleNamespace(constant=lambda value: value)
SHAPES = Shapes(PACKAGE)
COMPUTED = Value("v", TensorType(INT32, (4,)))
UNKNOWN = Value("v", None)
DTYPES = {"f": FP32, "i": INT32, "b": BOOL}


def given(value: Any) -> list[Value]:
    """An input: a tuple is the shape of a computed tensor, the rest are constants."""
    match value:
        case Value():
            return [value]
        case tuple():
            return [Value("v", TensorType(FP32, value))]
        case str():
            constant: Any = value
            return [Value("", StringType(), True, constant)]
        case _:
            constant = np.asarray(value, None if np.size(value) else np.int32)
            kind = TensorType(DTYPES[constant.dtype.kind], constant.shape)
            return [Value("", kind, True, constant)]


def make(type: str, /, **inputs: Any) -> Op:
    out = Value("out", TensorType(FP32, inputs.pop("out", (1,))))
    return Op(type, {k: given(v) for k, v in inputs.items()}, [out], SHAPES)


def fp16(*shape: int) -> Value:
    return Value("v", TensorType(FP16, shape))


def messages(rule: str, op: Op, target: str) -> list[str]:
    checked = RULES[rule]
    assert checked.check is not None
    if checked.op_types and op.type not in checked.op_types:
        return []
    return list(checked.check(op, target))


X = (1, 4, 6, 7)
POOLS = ("avg_pool", "l2_pool", "max_pool")
GATHERS = ("gather", "gather_along_axis", "gather_nd")
SCATTERS = ("scatter", "scatter_along_axis", "scatter_nd")


def average(size: int | None, kernel: int, **inputs: Any) -> Op:
    shape = (1, 2, size)
    return make("avg_pool", x=shape, kernel_sizes=[kernel], ceil_mode=True, **inputs)


def overhang(elements: int, dim: int) -> str:
    return (
        f"its last window reaches {elements} beyond the padding of dimension {dim}; "
        "Core ML counts that in the average, PyTorch does not"
    )


BROKEN: list[tuple[str, Op, str]] = [
    ("opset", make("nothing"), "Core ML has no such op"),
    ("input-unknown", make("relu", x=X, z=X), "iOS17 has no input 'z' of this op"),
    ("input-missing", make("conv", x=X), "it has no input 'weight'"),
    ("input-constant", make("conv", x=X, weight=X, strides=COMPUTED, pad=[0, 0], z=X),
     "the input 'strides' is computed, 'v'"),
    ("input-type", make("relu", x=COMPUTED),
     "the input 'x' is int32; it may be fp16, fp32"),
    ("input-type", make("add", x=X, y=fp16(1)), "'y' is fp16 where 'x' is fp32"),
    ("rank", make("relu", out=(1,) * 6), "'out' has rank 6, above 5"),
    ("rank", make("add", y=np.ones((1,) * 6)), "'' has rank 6, above 5"),
    ("empty", make("relu", out=(1, 0)), "'out' has no elements: its shape is (1, 0)"),
    # Coordinates.
    ("resample-coordinates", make("resample", x=X, coordinates=(1, 3, 3, 3)),
     "coordinates have 3 numbers each, not 2"),
    ("resample-coordinates", make("resample", x=X, coordinates=(2, 3, 3, 2)),
     "'coordinates' are for 2 images, 'x' has 1"),
    # Pads.
    ("pad-axes", make("pad", x=(3, 4, 5), pad=[1, 1, 0, 0, 0, 0], mode="replicate"),
     "replicate pads dimension 0 by (1, 1), not one of the last two"),
    ("pad-reflect", make("pad", x=(2, 3), pad=[3, 0], mode="reflect"),
     "reflect pads dimension 1 of size 3 by (3, 0)"),
    ("pad-replicate", make("pad", x=(2, 3), pad=[0, 4], mode="replicate"),
     "replicate pads dimension 1 of size 3 by (0, 4)"),
    ("pad-length", make("pad", x=(2, 3), pad=[1] * 6),
     "pad has 6 amounts for 2 dimensions"),
    ("pad-length", make("pad", x=(2, 3), pad=[1] * 3),
     "pad has 3 amounts for 2 dimensions"),
    ("pad-dynamic", make("pad", x=(2, 3), pad=COMPUTED),
     "the amounts are computed, 'v', for rank 2"),
    *(
        ("pad-negative", make(type, pad=[-1, 1]),
         "pad is [-1, 1]; amounts may not be negative")
        for type in ("pad", "conv", "conv_quantized", "conv_transpose", *POOLS)
    ),
    # Convolutions and pools.
    *(
        ("pad-same", make(type, pad_type=word),
         f"pad_type is '{word}', on which the documentation contradicts itself")
        for type in ("conv", "conv_quantized", *POOLS)
        for word in ("same", "same_lower")
    ),
    ("dynamic-weight", make("conv", weight=X, dilations=[2, 1]),
     "the weight is computed, 'v', and dilated by [2, 1]"),
    *(
        ("ceil-mode", make(type, x=(1,) * 5, ceil_mode=True),
         "ceil_mode is for 1-D and 2-D pools only")
        for type in POOLS
    ),
    ("ceil-mode", make("max_pool", ceil_mode=True, pad_type="same"),
     "ceil_mode with pad_type 'same'"),
    ("ceil-mode", make("max_pool", ceil_mode=True, pad=[0, 1]),
     "ceil_mode with the padding [0, 1], which is uneven"),
    ("ceil-overhang",
     make("avg_pool", x=X, kernel_sizes=[2, 2], strides=[2, 2], ceil_mode=True),
     overhang(1, 3)),
    ("ceil-overhang", average(5, 2, strides=[2], pad=[1, 1], pad_type="valid"),
     overhang(1, 2)),
    ("ceil-overhang", average(4, 3, strides=[2], pad=[1, 1], pad_type="custom"),
     overhang(1, 2)),
    # Without padding, windows that begin beyond the input count.
    ("ceil-overhang", average(4, 1, strides=[4]), overhang(1, 2)),
    # Gathers.
    *(
        ("negative-index", make(type, indices=[1, -1]),
         "an index is -1, which is out of bounds since iOS17")
        for type in (*GATHERS, *SCATTERS)
    ),
    *(
        ("index-range", make(type, **{name: (9, 5)}, indices=[0, 5], axis=1),
         "an index is 5, but dimension 1 has size 5")
        for name, types in (("x", GATHERS[:2]), ("data", SCATTERS[:2]))
        for type in types
    ),
    ("index-range", make("gather", x=(3, 9), indices=[3]),
     "an index is 3, but dimension 0 has size 3"),
]  # fmt: skip


@pytest.mark.parametrize("rule, op, message", BROKEN)
def test_broken(rule: str, op: Op, message: str):
    assert messages(rule, op, "iOS17") == [message]


KEPT: list[tuple[str, Op]] = [
    *(("opset", make(type)) for type in ("relu", "cond")),
    # The forms of these ops are not declared.
    *((f"input-{rule}", make("cond", pred=COMPUTED))
      for rule in ("unknown", "missing", "constant", "type")),
    ("input-type", make("relu", x=UNKNOWN)),
    ("input-type", make("add", x=X, y=(1,))),
    ("input-type", make("avg_pool", x=X, kernel_sizes=[2, 2], ceil_mode=True)),
    ("rank", make("relu", out=(1,) * 5)),
    ("rank", make("constexpr_cast", out=(1,) * 6)),
    ("rank", Op("relu", {}, [UNKNOWN], SHAPES)),
    ("empty", make("relu", out=(1, 2))),
    ("empty", Op("relu", {}, [UNKNOWN], SHAPES)),
    # Coordinates.
    ("resample-coordinates", make("resample", x=X, coordinates=(1, 3, 3, None))),
    ("resample-coordinates", make("resample", x=X, coordinates=(None, 3, 3, 2))),
    ("resample-coordinates", make("resample", x=(None, 4, 6, 7), coordinates=(2, 3, 3, 2))),
    ("resample-coordinates", make("resample", x=X)),
    ("resample-coordinates", make("resample", coordinates=(1, 3, 3, 3))),
    ("resample-coordinates", make("resample", x=(1, 4, 6), coordinates=(1, 3, 3))),
    # Pads.
    ("pad-axes", make("pad", pad=[1, 1], mode="reflect")),
    ("pad-axes", make("pad", x=(3, 4, 5), pad=COMPUTED, mode="reflect")),
    ("pad-axes", make("pad", x=(3, 4, 5), pad=[1] * 6)),
    ("pad-axes", make("pad", x=(3, 4, 5), pad=[0, 0, 1, 1, 1, 1], mode="reflect")),
    ("pad-axes", make("pad", x=(3, 4), pad=[1] * 6, mode="reflect")),
    ("pad-reflect", make("pad", x=(2, 3), pad=[2, 2], mode="reflect")),
    ("pad-reflect", make("pad", x=(2, None), pad=[7, 7], mode="reflect")),
    ("pad-replicate", make("pad", x=(2, 3), pad=[3, 3], mode="replicate")),
    ("pad-replicate", make("pad", x=(2, None), pad=[7, 7], mode="replicate")),
    ("pad-length", make("pad", x=(2, 3), pad=[1] * 4)),
    ("pad-length", make("pad", x=(2, 3), pad=COMPUTED)),
    ("pad-length", make("pad", pad=[1] * 6)),
    ("pad-dynamic", make("pad", x=(2, 3), pad=[1, 1])),
    ("pad-dynamic", make("pad", x=(2,), pad=COMPUTED)),
    ("pad-dynamic", make("pad", pad=COMPUTED)),
    ("pad-negative", make("pad", pad=[0, 1])),
    ("pad-negative", make("conv")),
    # Convolutions and pools.
    ("pad-same", make("conv", pad_type="valid")),
    ("pad-same", make("conv")),
    ("dynamic-weight", make("conv", weight=X, dilations=[1, 1])),
    ("dynamic-weight", make("conv", weight=X)),
    ("dynamic-weight", make("conv", weight=[1.0], dilations=[2, 2])),
    ("ceil-mode", make("avg_pool", x=(1,) * 5, ceil_mode=False, pad=[0, 1])),
    ("ceil-mode", make("avg_pool", x=(1,) * 5, pad=[0, 1])),
    ("ceil-mode", make("avg_pool", x=X, ceil_mode=True, pad=[1, 1, 2, 2])),
    ("ceil-mode", make("avg_pool", ceil_mode=True)),
    ("ceil-overhang", average(5, 2, strides=[2], exclude_padding_from_average=True)),
    ("ceil-overhang", make("avg_pool", x=(1, 2, 5), kernel_sizes=[2], strides=[2])),
    ("ceil-overhang", average(5, 2)),
    ("ceil-overhang", average(None, 2, strides=[2])),
    ("ceil-overhang", average(5, 2, strides=[0])),
    ("ceil-overhang", average(5, 2, strides=[2], pad=[1, 1], pad_type="custom")),
    ("ceil-overhang", make("avg_pool", kernel_sizes=[2], strides=[2], ceil_mode=True)),
    ("ceil-overhang", make("avg_pool", x=X, kernel_sizes=COMPUTED, ceil_mode=True)),
    ("ceil-overhang",
     make("avg_pool", x=(1, 2, 5, 5), kernel_sizes=[2], strides=[2], ceil_mode=True)),
    # Gathers.
    ("negative-index", make("gather", indices=[0, 1])),
    ("negative-index", make("gather", indices=[])),
    ("negative-index", make("gather", indices=COMPUTED)),
    ("index-range", make("gather", x=(3, 9), indices=[0, 2])),
    ("index-range", make("gather", x=(3, 9), indices=[])),
    ("index-range", make("gather", x=(3, 9), indices=COMPUTED)),
    ("index-range", make("gather", x=(None, 9), indices=[10])),
    ("index-range", make("gather", x=(3, 9), indices=[10], axis=2)),
    ("index-range", make("gather", indices=[10])),
]  # fmt: skip


@pytest.mark.parametrize("rule, op", KEPT)
def test_kept(rule: str, op: Op):
    assert messages(rule, op, "iOS17") == []


def test_an_empty_list_is_no_input():
    op = Op("concat", {"values": [], "axis": given(0)}, [UNKNOWN], SHAPES)

    assert messages("input-missing", op, "iOS17") == ["it has no input 'values'"]


def test_since_when_there_are_ops():
    update, attention = make("write_state"), make("scaled_dot_product_attention")

    for op in (update, attention):
        assert messages("opset", op, "iOS17") == ["the op needs iOS18, not iOS17"]
        assert messages("opset", op, "iOS18") == []


@pytest.mark.parametrize(
    "type",
    "classify cond custom_layer while_loop list_gather list_length list_read "
    "list_scatter list_write make_list relu".split(),
)
def test_ops_of_the_first_opset(type: str):
    assert messages("opset", make(type), "iOS15") == []


def test_negative_indices_before_ios17():
    assert messages("negative-index", make("gather", indices=[-1]), "iOS16") == []


# --- options and ranks ----------------------------------------------------------------

# From the documentation of each op.
OPTIONS: dict[tuple[str, str], str] = {
    ("pad", "mode"): "constant reflect replicate",
    ("conv", "pad_type"): "valid custom same same_lower",
    ("conv_quantized", "pad_type"): "valid custom same same_lower",
    ("conv_transpose", "pad_type"): "valid custom same",
    ("avg_pool", "pad_type"): "valid custom same same_lower",
    ("l2_pool", "pad_type"): "valid custom same same_lower",
    ("max_pool", "pad_type"): "valid custom same same_lower",
    ("resample", "sampling_mode"): "bilinear nearest",
    ("resample", "padding_mode"): "constant border reflection symmetric",
    ("resample", "coordinates_mode"): (
        "unnormalized normalized_minus_one_to_one normalized_zero_to_one"
    ),
}
RANKS: dict[tuple[str, str], tuple[int, ...]] = {
    **{(op, "x"): (3, 4, 5) for op in (
        "conv", "conv_quantized", "conv_transpose", "avg_pool", "max_pool",
        "batch_norm", "crop", "l2_norm", "resize_bilinear", "upsample_bilinear",
        "resize_nearest_neighbor", "upsample_nearest_neighbor",
    )},
    **{(op, "x"): (3, 4) for op in ("instance_norm", "l2_pool", "local_response_norm")},
    **{(op, "x"): (4,) for op in (
        "affine", "depth_to_space", "pixel_shuffle", "resample", "space_to_depth",
    )},
    ("affine", "transform_matrix"): (2,),
    ("resample", "coordinates"): (4,),
}  # fmt: skip


@pytest.mark.parametrize("type, name", OPTIONS)
def test_options(type: str, name: str):
    words = OPTIONS[type, name].split()

    assert messages("option", make(type), "iOS17") == []
    for word in words:
        assert messages("option", make(type, **{name: word}), "iOS17") == []
    assert messages("option", make(type, **{name: "any"}), "iOS17") == [
        f"{name} is 'any'; it may be {', '.join(words)}"
    ]


def test_same_lower_since_ios16():
    same_lower = make("conv", pad_type="same_lower")

    needed = ["pad_type 'same_lower' needs iOS16"]
    assert messages("option", same_lower, "iOS15") == needed
    assert messages("option", same_lower, "iOS16") == []
    assert messages("option", make("conv", pad_type="same"), "iOS15") == []


@pytest.mark.parametrize("type, name", RANKS)
def test_ranks(type: str, name: str):
    allowed = RANKS[type, name]
    words = " to ".join(map(str, sorted({allowed[0], allowed[-1]})))

    assert messages("input-rank", make(type), "iOS17") == []
    for rank in range(1, mil.MAX_RANK + 2):
        found = messages("input-rank", make(type, **{name: (1,) * rank}), "iOS17")
        expected = f"'{name}' has rank {rank}; it may have rank {words}"
        assert found == ([] if rank in allowed else [expected])
