# pyright: basic, reportMissingTypeStubs=false
"""The evaluator op by op: packages made by coremltools' builder, against PyTorch."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coremltools.converters.mil import Builder
from coremltools.converters.mil.backend.mil.load import load as to_proto
from coremltools.converters.mil.mil import Function, Program, types
from coremltools.models.utils import save_spec

from padc.backends.coreml.evaluator import execution, load
from padc.backends.coreml.evaluator.ops import OPS
from padc.backends.coreml.evaluator.ops import conv as conv_ops
from padc.backends.coreml.evaluator.values.dataless import NoDataError
from padc.errors import InvalidProgramError, UnsupportedError

ct: Any = coremltools
mb: Any = Builder
Array = np.ndarray[Any, Any]

TARGETS = {
    15: ct.target.iOS15,
    16: ct.target.iOS16,
    17: ct.target.iOS17,
    18: ct.target.iOS18,
}
MIL_TYPES = {
    np.dtype(np.float16): types.fp16,
    np.dtype(np.float32): types.fp32,
    np.dtype(np.int32): types.int32,
}


def save(
    path: Path,
    build: Callable[..., Any],
    inputs: dict[str, Array],
    ios: int = 15,
    without: tuple[str, ...] = (),
) -> Path:
    """A package of `build(**inputs)`, op for op; `without` deletes optional inputs."""
    target = TARGETS[ios]
    with Function(
        {
            name: mb.placeholder(shape=array.shape, dtype=MIL_TYPES[array.dtype])
            for name, array in inputs.items()
        },
        opset_version=target,
    ) as function:
        outputs = build(**function.inputs)
        outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
        function.set_outputs(
            [mb.identity(x=y, name=f"y{i}") for i, y in enumerate(outputs)]
        )
    program = Program()
    program.add_function("main", function)
    with TemporaryDirectory() as weights:
        spec = to_proto(program, weights, specification_version=target)
        save_spec(spec, str(path), weights_dir=weights)
    if without:
        edit(path, lambda spec: drop_inputs(spec, without))
    return path


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the protobuf of a package."""
    file = path / "Data/com.apple.CoreML/model.mlmodel"
    spec = ct.proto.Model_pb2.Model()
    spec.ParseFromString(file.read_bytes())
    change(spec)
    file.write_bytes(spec.SerializeToString())


def operations(spec: Any) -> Any:
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return block.operations


def drop_inputs(spec: Any, names: tuple[str, ...]) -> None:
    for operation in operations(spec):
        for name in names:
            operation.inputs.pop(name, None)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return rng.uniform(low, high, shape).astype(np.float32)


X3, X4, X5 = numbers(2, 4, 9), numbers(2, 4, 7, 10), numbers(1, 2, 5, 6, 7)
POSITIVE = numbers(2, 3, 4, low=0.1, high=3)
UNIT = numbers(2, 3, 4, low=-0.9, high=0.9)
W3, W4, W5 = numbers(6, 4, 3), numbers(6, 2, 2, 3), numbers(3, 2, 2, 3, 1)
B6, B3 = numbers(6), numbers(3)
T4 = numbers(4, 3, 2, 3)
FAR = np.array([0.5, 1e30, -3e38, np.inf, -np.inf, np.nan, -0.1], np.float32)
FAR = np.resize(FAR, (2, 3, 5, 2))
INTS = np.array([[5, -7, 0], [2, 9, -3]], np.int32)
T = torch.from_numpy


def at(array: Array, rank: int) -> torch.Tensor:
    return T(array).reshape(-1, *[1] * (rank - 2))


def pads(x: torch.Tensor, amounts: list[int], mode: str = "constant") -> torch.Tensor:
    return F.pad(x, amounts, mode)


Case = tuple[str, int, dict[str, Array], Callable[..., Any], Callable[..., Any]]

CASES: list[Case] = [
    # Convolutions.
    ("conv1d", 15, {"x": X3}, lambda x: mb.conv(x=x, weight=W3, bias=B6, strides=[2], pad_type="custom", pad=[2, 1], dilations=[2]),
     lambda x: F.conv1d(pads(x, [2, 1]), T(W3), T(B6), 2, 0, 2)),
    ("conv2d", 15, {"x": X4}, lambda x: mb.conv(x=x, weight=W4, bias=B6, strides=[2, 1], pad_type="custom", pad=[1, 0, 2, 3], dilations=[1, 2], groups=2),
     lambda x: F.conv2d(pads(x, [2, 3, 1, 0]), T(W4), T(B6), (2, 1), 0, (1, 2), 2)),
    ("conv2d_symmetric", 15, {"x": X4}, lambda x: mb.conv(x=x, weight=W4, pad_type="custom", pad=[1, 1, 2, 2], groups=2),
     lambda x: F.conv2d(x, T(W4), None, 1, (1, 2), 1, 2)),
    ("conv3d", 15, {"x": X5}, lambda x: mb.conv(x=x, weight=W5, bias=B3, strides=[1, 2, 1], pad_type="custom", pad=[1, 0, 0, 2, 1, 1]),
     lambda x: F.conv3d(pads(x, [1, 1, 0, 2, 1, 0]), T(W5), T(B3), (1, 2, 1))),
    ("conv_same", 15, {"x": X4}, lambda x: mb.conv(x=x, weight=W4, strides=[2, 1], pad_type="same", groups=2),
     lambda x: F.conv2d(pads(x, [1, 1, 0, 1]), T(W4), None, (2, 1), 0, 1, 2)),
    ("conv_same_lower", 16, {"x": X4}, lambda x: mb.conv(x=x, weight=W4, pad_type="same_lower", groups=2),
     lambda x: F.conv2d(pads(x, [1, 1, 1, 0]), T(W4), None, 1, 0, 1, 2)),
    ("conv_valid_ios17", 17, {"x": X4}, lambda x: mb.conv(x=x, weight=W4, groups=2, pad_type="valid"),
     lambda x: F.conv2d(x, T(W4), None, groups=2)),
    ("conv_transpose", 15, {"x": X4}, lambda x: mb.conv_transpose(x=x, weight=T4, bias=B6, strides=[2, 3], pad_type="custom", pad=[1, 1, 0, 2], dilations=[2, 1], groups=2),
     lambda x: F.conv_transpose2d(x, T(T4), T(B6), (2, 3), 0, 0, 2, (2, 1))[..., 1:-1, :-2]),
    ("conv_transpose_same", 15, {"x": X4}, lambda x: mb.conv_transpose(x=x, weight=T4, strides=[1, 2], pad_type="same", groups=2),
     lambda x: F.conv_transpose2d(x, T(T4), None, (1, 2), groups=2)[..., :-1, :-1]),
    # Linear.
    ("linear", 15, {"x": X3}, lambda x: mb.linear(x=x, weight=W3[:, 0, :1].repeat(9, 1), bias=B6),
     lambda x: F.linear(x, T(W3[:, 0, :1].repeat(9, 1)), T(B6))),
    ("matmul", 15, {"x": X4}, lambda x: mb.matmul(x=x, y=X4[:1], transpose_x=True),
     lambda x: x.mT @ T(X4[:1])),
    ("matmul_transposed", 15, {"x": X4}, lambda x: mb.matmul(x=x, y=X4, transpose_y=True),
     lambda x: x @ T(X4).mT),
    ("einsum", 15, {"x": X4}, lambda x: mb.einsum(values=(x, numbers(2, 10, 1, 3)), equation="nchw,nwhu->nchu"),
     lambda x: torch.einsum("abcd,adce->abce", x, T(numbers(2, 10, 1, 3).repeat(7, 2)))),
    # Pads.
    ("pad_constant", 15, {"x": X4}, lambda x: mb.pad(x=x, pad=[1, 2, 0, 3, 2, 0], mode="constant", constant_val=0.5),
     lambda x: F.pad(x, [2, 0, 0, 3, 1, 2], value=0.5)),
    ("pad_reflect", 15, {"x": X4}, lambda x: mb.pad(x=x, pad=[6, 1, 0, 9], mode="reflect"),
     lambda x: F.pad(x, [0, 9, 6, 1], "reflect")),
    ("pad_replicate", 15, {"x": X5}, lambda x: mb.pad(x=x, pad=[0, 0, 6, 1, 0, 7], mode="replicate"),
     lambda x: F.pad(x, [0, 7, 6, 1, 0, 0], "replicate")),
    # Pools.
    ("max_pool", 15, {"x": X4}, lambda x: mb.max_pool(x=x, kernel_sizes=[3, 2], strides=[2, 3], pad_type="custom", pad=[1, 0, 0, 1]),
     lambda x: F.max_pool2d(F.pad(x, [0, 1, 1, 0], value=-torch.inf), (3, 2), (2, 3))),
    ("max_pool_ceil", 15, {"x": X4}, lambda x: mb.max_pool(x=x, kernel_sizes=[2, 3], strides=[3, 2], pad_type="custom", pad=[1, 1, 1, 1], ceil_mode=True),
     lambda x: F.max_pool2d(x, (2, 3), (3, 2), 1, ceil_mode=True)),
    ("max_pool1d", 15, {"x": X3}, lambda x: mb.max_pool(x=x, kernel_sizes=[3], strides=[2], pad_type="valid"),
     lambda x: F.max_pool1d(x, 3, 2)),
    ("max_pool3d_same", 15, {"x": X5}, lambda x: mb.max_pool(x=x, kernel_sizes=[2, 3, 2], strides=[1, 2, 3], pad_type="same"),
     lambda x: F.max_pool3d(F.pad(x, [0, 1, 0, 1, 0, 1], value=-torch.inf), (2, 3, 2), (1, 2, 3))[..., :5, :3, :3]),
    ("avg_pool", 15, {"x": X4}, lambda x: mb.avg_pool(x=x, kernel_sizes=[3, 2], strides=[2, 1], pad_type="custom", pad=[1, 1, 1, 0]),
     lambda x: F.avg_pool2d(pads(x, [1, 0, 1, 1]), (3, 2), (2, 1))),
    ("avg_pool_exclude", 15, {"x": X4}, lambda x: mb.avg_pool(x=x, kernel_sizes=[3, 2], strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1], exclude_padding_from_average=True),
     lambda x: F.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False)),
    ("avg_pool_ceil_counts_overhang", 15, {"x": np.ones((1, 1, 5), np.float32)}, lambda x: mb.avg_pool(x=x, kernel_sizes=[3], strides=[2], pad_type="custom", pad=[0, 0], ceil_mode=True),
     lambda x: torch.tensor([[[1.0, 1.0]]])),
    ("avg_pool_ceil_overhang", 15, {"x": np.ones((1, 1, 6), np.float32)}, lambda x: mb.avg_pool(x=x, kernel_sizes=[3], strides=[2], pad_type="valid", ceil_mode=True),
     lambda x: torch.tensor([[[1.0, 1.0, 2 / 3]]])),
    ("l2_pool", 15, {"x": X4}, lambda x: mb.l2_pool(x=x, kernel_sizes=[2, 3], strides=[1, 2], pad_type="valid"),
     lambda x: F.avg_pool2d(x * x, (2, 3), (1, 2)).mul(6).sqrt()),
    # Normalizations.
    ("batch_norm", 15, {"x": X5}, lambda x: mb.batch_norm(x=x, mean=B3[:2], variance=abs(B6[:2]), gamma=B6[2:4], beta=B6[4:], epsilon=1e-3),
     lambda x: F.batch_norm(x, T(B3[:2]), T(abs(B6[:2])), T(B6[2:4]), T(B6[4:]), eps=1e-3)),
    ("instance_norm", 15, {"x": X4}, lambda x: mb.instance_norm(x=x, gamma=B6[:4], beta=B6[2:], epsilon=1e-3),
     lambda x: F.instance_norm(x, None, None, T(B6[:4]), T(B6[2:]), eps=1e-3)),
    ("layer_norm", 15, {"x": X4}, lambda x: mb.layer_norm(x=x, axes=[2, -1], gamma=X4[0, 0], beta=X4[1, 1], epsilon=1e-3),
     lambda x: F.layer_norm(x, (7, 10), T(X4[0, 0]), T(X4[1, 1]), 1e-3)),
    ("layer_norm_inner", 15, {"x": X4}, lambda x: mb.layer_norm(x=x, axes=[1], epsilon=1e-3),
     lambda x: F.layer_norm(x.movedim(1, -1), (4,), eps=1e-3).movedim(-1, 1)),
    ("l2_norm", 15, {"x": X4}, lambda x: mb.l2_norm(x=x, epsilon=1e-2),
     lambda x: x / (x.square().sum((1, 2, 3), keepdim=True) + 1e-2).sqrt()),
    ("local_response_norm", 15, {"x": X4}, lambda x: mb.local_response_norm(x=x, size=3, alpha=0.5, beta=0.6, k=2.0),
     lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0)),
    ("local_response_norm_even", 17, {"x": X4}, lambda x: mb.local_response_norm(x=x, size=2, alpha=0.5, beta=0.6, k=2.0),
     lambda x: F.local_response_norm(x, 2, 0.5, 0.6, 2.0)),
    # Activations.
    ("clamped_relu", 15, {"x": X3}, lambda x: mb.clamped_relu(x=x, alpha=0.3, beta=1.1), lambda x: torch.where(x >= 0, x, 0.3 * x).clamp(max=1.1)),
    ("elu", 15, {"x": X3}, lambda x: mb.elu(x=x, alpha=1.3), lambda x: F.elu(x, 1.3)),
    ("gelu", 15, {"x": X3}, lambda x: mb.gelu(x=x), F.gelu),
    ("gelu_tanh", 15, {"x": X3}, lambda x: mb.gelu(x=x, mode="TANH_APPROXIMATION"), lambda x: F.gelu(x, approximate="tanh")),
    ("gelu_sigmoid", 15, {"x": X3}, lambda x: mb.gelu(x=x, mode="SIGMOID_APPROXIMATION"), lambda x: x * torch.sigmoid(1.702 * x)),
    ("leaky_relu", 17, {"x": X3}, lambda x: mb.leaky_relu(x=x, alpha=np.float16(0.25)), lambda x: F.leaky_relu(x, 0.25)),
    ("linear_activation", 15, {"x": X3}, lambda x: mb.linear_activation(x=x, alpha=2.5, beta=-1.0), lambda x: 2.5 * x - 1),
    ("prelu", 15, {"x": X4}, lambda x: mb.prelu(x=x, alpha=B6[:4]), lambda x: F.prelu(x, T(B6[:4]))),
    ("relu", 15, {"x": X3}, lambda x: mb.relu(x=x), lambda x: F.relu(x)),
    ("relu6", 15, {"x": X3 * 5}, lambda x: mb.relu6(x=x), lambda x: F.relu6(x)),
    ("scaled_tanh", 15, {"x": X3}, lambda x: mb.scaled_tanh(x=x, alpha=1.5, beta=0.7), lambda x: 1.5 * torch.tanh(0.7 * x)),
    ("sigmoid", 15, {"x": X3}, lambda x: mb.sigmoid(x=x), torch.sigmoid),
    ("sigmoid_hard", 15, {"x": X3}, lambda x: mb.sigmoid_hard(x=x, alpha=0.4, beta=0.3), lambda x: (0.4 * x + 0.3).clamp(0, 1)),
    ("silu", 15, {"x": X3}, lambda x: mb.silu(x=x), lambda x: F.silu(x)),
    ("softplus", 15, {"x": X3 * 50}, lambda x: mb.softplus(x=x), lambda x: F.softplus(x.double()).float()),
    ("softplus_parametric", 15, {"x": X4}, lambda x: mb.softplus_parametric(x=x, alpha=B6[:4], beta=B6[2:]), lambda x: at(B6[:4], 4) * torch.log(1 + torch.exp(at(B6[2:], 4) * x))),
    ("softmax", 15, {"x": X4}, lambda x: mb.softmax(x=x, axis=1), lambda x: torch.softmax(x, 1)),
    ("softsign", 15, {"x": X3}, lambda x: mb.softsign(x=x), lambda x: F.softsign(x)),
    ("thresholded_relu", 15, {"x": X3}, lambda x: mb.thresholded_relu(x=x, alpha=0.5), lambda x: x * (x >= 0.5)),
    # Elementwise.
    ("binary_float", 15, {"x": X4, "y": X4[:1, :1]}, lambda x, y: [mb.add(x=x, y=y), mb.sub(x=x, y=y), mb.mul(x=x, y=y), mb.real_div(x=x, y=y), mb.floor_div(x=x, y=y), mb.mod(x=x, y=y), mb.maximum(x=x, y=y), mb.minimum(x=x, y=y)],
     lambda x, y: [x + y, x - y, x * y, x / y, torch.floor(x / y), torch.remainder(x, y), torch.maximum(x, y), torch.minimum(x, y)]),
    ("binary_int", 15, {"x": INTS, "y": np.array([3, -2, 4], np.int32)}, lambda x, y: [mb.add(x=x, y=y), mb.floor_div(x=x, y=y), mb.mod(x=x, y=y), mb.maximum(x=x, y=y), mb.square(x=x), mb.abs(x=x), mb.sign(x=x), mb.mul(x=x, y=y)],
     lambda x, y: [x + y, torch.tensor([[1, 3, 0], [0, -5, -1]]), torch.tensor([[2, -1, 0], [2, -1, 1]]), torch.maximum(x, y), x * x, x.abs(), x.sign(), x * y]),
    ("compare", 15, {"x": INTS, "y": INTS[:1]}, lambda x, y: [mb.cast(x=c(x=x, y=y), dtype="int32") for c in (mb.equal, mb.not_equal, mb.less, mb.less_equal, mb.greater, mb.greater_equal)],
     lambda x, y: [c(x, y).int() for c in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)]),
    ("logical", 15, {"x": INTS, "y": INTS[::-1].copy()}, lambda x, y: [mb.cast(x=v, dtype="fp32") for a, b in [(mb.greater(x=x, y=0), mb.less(x=y, y=3))] for v in (mb.logical_and(x=a, y=b), mb.logical_or(x=a, y=b), mb.logical_xor(x=a, y=b), mb.logical_not(x=a))],
     lambda x, y: [v.float() for a, b in [(x > 0, y < 3)] for v in (a & b, a | b, a ^ b, ~a)]),
    ("unary", 15, {"x": UNIT}, lambda x: [getattr(mb, name)(x=x) for name in ("acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "sin", "sinh", "tan", "tanh", "abs", "sign", "square")],
     lambda x: [getattr(torch, name)(x) for name in ("acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor", "sin", "sinh", "tan", "tanh", "abs", "sign", "square")]),
    ("unary_positive", 15, {"x": POSITIVE}, lambda x: [mb.sqrt(x=x), mb.log(x=x), mb.rsqrt(x=x), mb.inverse(x=x, epsilon=0.25), mb.pow(x=x, y=2.5), mb.clip(x=x, alpha=0.5, beta=1.5), mb.threshold(x=x, alpha=1.0)],
     lambda x: [x.sqrt(), x.log(), x.rsqrt(), 1 / (x + 0.25), x**2.5, x.clamp(0.5, 1.5), x.clamp(min=1)]),
    ("round", 15, {"x": np.array([0.5, 1.5, -0.5, 2.4], np.float32)}, lambda x: mb.round(x=x), lambda x: torch.tensor([0.0, 2.0, -0.0, 2.0])),
    ("select", 15, {"x": X4, "y": X4[:, :1]}, lambda x, y: mb.select(cond=mb.greater(x=x, y=0.0), a=x, b=y), lambda x, y: torch.where(x > 0, x, y)),
    ("cast", 15, {"x": X3 * 20}, lambda x: [mb.cast(x=x, dtype="int32"), mb.cast(x=mb.cast(x=x, dtype="fp16"), dtype="fp32"), mb.cast(x=mb.cast(x=mb.floor(x=x), dtype="bool"), dtype="int32")],
     lambda x: [x.trunc().int(), x.half().float(), (x.floor() != 0).int()]),
    ("cast_small", 17, {"x": INTS}, lambda x: [mb.cast(x=mb.cast(x=x, dtype=d), dtype="int32") for d in ("int8", "int16")] + [mb.cast(x=mb.cast(x=mb.abs(x=x), dtype=d), dtype="int32") for d in ("uint8", "uint16")],
     lambda x: [x, x, x.abs(), x.abs()]),
    # Joining and splitting.
    ("concat", 15, {"x": X4, "y": X4[:, :1]}, lambda x, y: mb.concat(values=(x, y, y), axis=-3), lambda x, y: torch.cat([x, y, y], 1)),
    ("concat_interleave", 15, {"x": X4}, lambda x: mb.concat(values=(x, mb.square(x=x)), axis=1, interleave=True),
     lambda x: torch.stack([x, x * x], 2).reshape(2, 8, 7, 10)),
    ("split", 15, {"x": X4}, lambda x: [*mb.split(x=x, num_splits=2, axis=1), *mb.split(x=x, split_sizes=[3, 7], axis=-1)],
     lambda x: [*x.split(2, 1), *x.split([3, 7], -1)]),
    ("stack", 15, {"x": X3}, lambda x: mb.stack(values=(x, mb.square(x=x)), axis=1), lambda x: torch.stack([x, x * x], 1)),
    # Slices and shapes.
    ("slice_by_index", 15, {"x": X4}, lambda x: mb.slice_by_index(x=x, begin=[0, 1, -2, 9], end=[2, -1, 0, 2], stride=[1, 2, -2, -3], begin_mask=[False, False, False, True], end_mask=[True, False, True, False]),
     lambda x: T(x.numpy()[:, 1:-1:2, -2::-2, :2:-3].copy())),
    ("slice_squeeze", 15, {"x": X4}, lambda x: mb.slice_by_index(x=x, begin=[-1, 0, 2, 1], end=[0, 3, 0, 100], squeeze_mask=[True, False, True, False]),
     lambda x: x[-1, 0:3, 2, 1:100]),
    ("slice_by_size", 15, {"x": X4}, lambda x: mb.slice_by_size(x=x, begin=[1, 0, 3, 2], size=[1, 2, -1, 4]), lambda x: x[1:2, :2, 3:, 2:6]),
    ("slice_update", 18, {"x": X4}, lambda x: mb.slice_update(x=x, update=X4[:, :1, ::2], begin=[0, 3, 0, 0], end=[2, 4, 7, 10], stride=[1, 1, 2, 1]),
     lambda x: torch.cat([x[:, :3], torch.where(torch.arange(7)[:, None] % 2 == 0, T(X4[:, :1]), x[:, 3:])], 1)),
    ("reshape", 15, {"x": X4}, lambda x: mb.reshape(x=x, shape=[0, -1, 0, 5]), lambda x: x.reshape(2, 8, 7, 5)),
    ("reshape_ios17", 17, {"x": X3}, lambda x: mb.reshape(x=x, shape=[1, 0, -1, 0]), lambda x: x.reshape(1, 2, 4, 9)),
    ("transpose", 15, {"x": X4}, lambda x: mb.transpose(x=x, perm=[2, 0, -1, 1]), lambda x: x.permute(2, 0, 3, 1)),
    ("expand_dims", 15, {"x": X3}, lambda x: mb.expand_dims(x=x, axes=[1, -1]), lambda x: x[:, None, ..., None]),
    ("squeeze", 15, {"x": X4[:1, :, :1]}, lambda x: [mb.squeeze(x=x), mb.squeeze(x=x, axes=[2])], lambda x: [x.squeeze(), x.squeeze(2)]),
    ("flatten2d", 15, {"x": X4}, lambda x: [mb.flatten2d(x=x), mb.flatten2d(x=x, axis=-1)], lambda x: [x.flatten(1), x.flatten(0, 2)]),
    ("tile", 15, {"x": X3}, lambda x: mb.tile(x=x, reps=[1, 2, 3]), lambda x: x.repeat(1, 2, 3)),
    ("reverse", 15, {"x": X3}, lambda x: [mb.reverse(x=x), mb.reverse(x=x, axes=[-2])], lambda x: [x.flip(0, 1, 2), x.flip(1)]),
    ("reverse_sequence", 15, {"x": X3}, lambda x: mb.reverse_sequence(x=x, lengths=[3, 9], seq_axis=2, batch_axis=0),
     lambda x: torch.stack([torch.cat([x[0, :, :3].flip(1), x[0, :, 3:]], 1), x[1].flip(1)])),
    ("sliding_windows", 15, {"x": X3}, lambda x: mb.sliding_windows(x=x, axis=1, size=2, stride=1), lambda x: torch.stack([x[:, i : i + 2] for i in range(3)], 1)),
    ("blocks", 15, {"x": numbers(4, 4, 4, 6)}, lambda x: [mb.pixel_shuffle(x=x, upscale_factor=2), mb.space_to_depth(x=mb.depth_to_space(x=x, block_size=2), block_size=2), mb.space_to_batch(x=mb.batch_to_space(x=x, block_shape=[2, 2], crops=[[0, 0], [0, 0]]), block_shape=[2, 2], paddings=[[0, 0], [0, 0]])],
     lambda x: [F.pixel_shuffle(x, 2), x, x]),
    ("depth_to_space", 15, {"x": np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)}, lambda x: mb.depth_to_space(x=x, block_size=2),
     lambda x: torch.tensor([[[[0.0, 2], [4, 6]], [[1, 3], [5, 7]]]])),
    ("batch_to_space", 15, {"x": np.arange(6, dtype=np.float32).reshape(6, 1, 1, 1)}, lambda x: mb.batch_to_space(x=x, block_shape=[2, 3], crops=[[0, 0], [1, 0]]),
     lambda x: torch.tensor([[[[1.0, 2], [4, 5]]]])),
    ("space_to_batch", 15, {"x": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)}, lambda x: mb.space_to_batch(x=x, block_shape=[2, 2], paddings=[[0, 0], [1, 0]]),
     lambda x: torch.tensor([[0.0, 1], [0, 2], [0, 4], [3, 5]]).reshape(4, 1, 1, 2)),
    ("pixel_unshuffle", 16, {"x": numbers(1, 2, 4, 6)}, lambda x: mb.pixel_unshuffle(x=x, downscale_factor=np.uint32(2)), lambda x: F.pixel_unshuffle(x, 2)),
    ("reshape_like", 16, {"x": X4}, lambda x: mb.reshape_like(x=x, ref_tensors=(mb.transpose(x=x, perm=[1, 2, 3, 0]), x), begins=(0, 0), ends=(-1, 1), end_masks=(False, False)),
     lambda x: x.reshape(4, 7, 10, 2)),
    # Gathers and scatters.
    ("gather", 15, {"x": X4}, lambda x: mb.gather(x=x, indices=[[0, -1], [2, 1]], axis=1), lambda x: x[:, [[0, -1], [2, 1]]]),
    ("gather_batch", 16, {"x": X4}, lambda x: mb.gather(x=x, indices=[[0, 6, 1], [2, 3, 3]], axis=2, batch_dims=1),
     lambda x: torch.stack([x[0][:, [0, 6, 1]], x[1][:, [2, 3, 3]]])),
    ("gather_along_axis", 15, {"x": X3}, lambda x: mb.gather_along_axis(x=x, indices=np.full((2, 4, 2), -1, np.int32), axis=2), lambda x: x[..., [-1, -1]]),
    ("gather_nd", 15, {"x": X4}, lambda x: mb.gather_nd(x=x, indices=[[1, 2], [0, -1], [1, 0]]), lambda x: x[[1, 0, 1], [2, -1, 0]]),
    ("gather_nd_batch", 16, {"x": X4}, lambda x: mb.gather_nd(x=x, indices=[[[1], [2]], [[0], [3]]], batch_dims=1),
     lambda x: torch.stack([x[0, [1, 2]], x[1, [0, 3]]])),
    ("scatter", 15, {"x": X3}, lambda x: [mb.scatter(data=x, indices=[3, 1], updates=X3[:, :2], axis=1, mode=m) for m in ("update", "add", "sub", "mul", "div", "max", "min")],
     lambda x: [x.index_put((torch.tensor([[0], [1]]), torch.tensor([[3, 1]])), f(x[:, [3, 1]], x[:, :2])) for f in (lambda a, b: b, torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum)]),
    ("scatter_add_duplicates", 17, {"x": np.zeros((3, 2), np.float32)}, lambda x: mb.scatter(data=x, indices=[1, 1], updates=np.ones((2, 2), np.float32), axis=0, mode="add"),
     lambda x: torch.tensor([[0.0, 0], [2, 2], [0, 0]])),
    ("scatter_2d_indices", 17, {"x": np.zeros((3, 4), np.float32)}, lambda x: mb.scatter(data=x, indices=[[1, 3], [3, 0]], updates=X3[0, :3, :4].reshape(3, 2, 2), axis=1, mode="add"),
     lambda x: x.index_add(1, torch.tensor([1, 3, 3, 0]), T(X3)[0, :3, :4])),
    ("scatter_along_axis", 15, {"x": X3}, lambda x: mb.scatter_along_axis(data=x, indices=np.full((2, 4, 1), 5, np.int32), updates=X3[..., :1], axis=2, mode="update"),
     lambda x: torch.cat([x[..., :5], x[..., :1], x[..., 6:]], 2)),
    ("scatter_nd", 15, {"x": X4}, lambda x: mb.scatter_nd(data=x, indices=[[1, 2], [0, 3]], updates=X4[0, :2], mode="add"),
     lambda x: x.index_put((torch.tensor([1, 0]), torch.tensor([2, 3])), T(X4[0, :2]), accumulate=True)),
    # Reductions.
    ("reduce", 15, {"x": POSITIVE}, lambda x: [getattr(mb, f"reduce_{n}")(x=x, axes=[0, -1], keep_dims=k) for k in (False, True) for n in ("sum", "mean", "max", "min", "prod", "l1_norm", "l2_norm", "log_sum", "log_sum_exp", "sum_square")],
     lambda x: [f(x, (0, 2), k) for k in (False, True) for f in (torch.sum, torch.mean, torch.amax, torch.amin, lambda x, d, k: x.prod(2, keepdim=k).prod(0, keepdim=k), torch.sum, lambda x, d, k: torch.linalg.vector_norm(x, 2, d, k), lambda x, d, k: x.sum(d, k).log(), torch.logsumexp, lambda x, d, k: x.square().sum(d, k))]),
    ("reduce_all", 15, {"x": INTS}, lambda x: [mb.reduce_sum(x=x), mb.reduce_max(x=x), mb.reduce_argmax(x=x, axis=1), mb.reduce_argmin(x=x, axis=0, keep_dims=True)],
     lambda x: [torch.tensor(6), torch.tensor(9), torch.tensor([0, 1]), torch.tensor([[1, 0, 1]])]),
    # Others.
    ("sorts", 15, {"x": X3}, lambda x: [mb.argsort(x=x, axis=1), mb.argsort(x=x, ascending=True), *mb.topk(x=x, k=3), *mb.topk(x=x, k=2, axis=1, ascending=True)],
     lambda x: [x.argsort(1, True), x.argsort(), *x.topk(3), *x.topk(2, 1, False)]),
    ("topk_values_only", 17, {"x": X3}, lambda x: mb.topk(x=x, k=2, return_indices=False), lambda x: x.topk(2)[0]),
    ("cumsum", 15, {"x": X3}, lambda x: [mb.cumsum(x=x), mb.cumsum(x=x, axis=1, exclusive=True), mb.cumsum(x=x, axis=-1, reverse=True)],
     lambda x: [x.cumsum(0), x.cumsum(1) - x, x.flip(-1).cumsum(-1).flip(-1)]),
    ("band_part", 15, {"x": X4}, lambda x: [mb.band_part(x=x, lower=1, upper=2), mb.band_part(x=x, lower=-1, upper=0)], lambda x: [x.tril(2).triu(-1), x.tril()]),
    ("shapes", 15, {"x": X3}, lambda x: [mb.shape(x=x), mb.fill(shape=[2, 3], value=1.5), mb.range_1d(start=1, end=8, step=3), mb.one_hot(indices=[2, 0], one_hot_vector_size=3, axis=0, on_value=5.0, off_value=-1.0)],
     lambda x: [torch.tensor([2, 4, 9]), torch.full((2, 3), 1.5), torch.tensor([1, 4, 7]), torch.tensor([[-1.0, 5], [-1, -1], [5, -1]])]),
    ("fill_like", 16, {"x": X3}, lambda x: mb.fill_like(ref_tensor=x, value=2), lambda x: torch.full((2, 4, 9), 2)),
    ("non_zero", 15, {"x": INTS}, lambda x: mb.non_zero(x=x), torch.nonzero),
    # Resizing.
    ("upsample_nearest", 15, {"x": X4}, lambda x: mb.upsample_nearest_neighbor(x=x, scale_factor_height=2, scale_factor_width=3), lambda x: F.interpolate(x, scale_factor=(2, 3))),
    ("resize_nearest", 15, {"x": X4}, lambda x: mb.resize_nearest_neighbor(x=x, target_size_height=14, target_size_width=5), lambda x: F.interpolate(x, (14, 5), mode="nearest-exact")),
    ("upsample_bilinear", 15, {"x": X4}, lambda x: [mb.upsample_bilinear(x=x, scale_factor_height=2, scale_factor_width=3, align_corners=a) for a in (True, False)],
     lambda x: [F.interpolate(x, (14, 30), mode="bilinear", align_corners=a) for a in (True, False)]),
    ("resize_bilinear_grids", 15, {"x": np.array([[[0.0, 1.0]]], np.float32)}, lambda x: [mb.resize_bilinear(x=x, target_size_height=1, target_size_width=5, sampling_mode=m) for m in ("UNALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")],
     lambda x: [torch.tensor([[g]]) for g in ([0, 0.1, 0.5, 0.9, 1], [0, 0.25, 0.5, 0.75, 1], [0, 0.25, 0.5, 0.75, 1], [0, 0.4, 0.8, 1, 1], [0.1, 0.3, 0.5, 0.7, 0.9])]),
    ("resize_ios17", 17, {"x": X4}, lambda x: mb.resize(x=x, shape=[0, 12], resized_dims=np.uint32(2), sampling_mode="UNALIGN_CORNERS"),
     lambda x: F.interpolate(x, (7, 12), mode="bilinear")),
    ("crop", 15, {"x": X4}, lambda x: mb.crop(x=x, crop_height=[1, 2], crop_width=[0, 3]), lambda x: x[..., 1:-2, :-3]),
    *(
        (f"resample_{mode}_{padding}_{align}", 15, {"x": X4, "grid": numbers(2, 3, 5, 2)},
         lambda x, grid, mode=mode, padding=padding, align=align: mb.resample(x=x, coordinates=grid, sampling_mode=mode, padding_mode=padding[1], padding_value=0.0, coordinates_mode="normalized_minus_one_to_one", align_corners=align),
         lambda x, grid, mode=mode, padding=padding, align=align: F.grid_sample(x, grid, mode, padding[0], align))
        for mode in ("bilinear", "nearest")
        for padding, align in ((("zeros", "constant"), True), (("border", "border"), False), (("reflection", "reflection"), True), (("reflection", "symmetric"), False))
    ),
    *(
        (f"resample_far_{mode}_{padding}", 15, {"x": X4, "grid": FAR},
         lambda x, grid, mode=mode, padding=padding: mb.resample(x=x, coordinates=grid, sampling_mode=mode, padding_mode=padding, padding_value=0.0, coordinates_mode="normalized_minus_one_to_one", align_corners=False),
         lambda x, grid, mode=mode, padding=padding: F.grid_sample(x, grid, mode, {"constant": "zeros"}.get(padding, padding), False))
        for mode, padding in (("bilinear", "border"), ("nearest", "border"), ("nearest", "constant"))
    ),
    # Compressed constants.
    ("dequantize16", 16, {"x": X3}, lambda x: mb.add(x=x, y=mb.constexpr_affine_dequantize(quantized_data=np.arange(8, dtype=np.uint8).reshape(2, 4, 1), zero_point=np.array([3, 5], np.uint8), scale=np.array([0.5, 2], np.float32), axis=0)),
     lambda x: x + torch.tensor([[-1.5, -1, -0.5, 0], [-2, 0, 2, 4]])[..., None]),
    ("lut16", 16, {"x": X3}, lambda x: mb.add(x=x, y=mb.constexpr_lut_to_dense(indices=np.array([0b01101100, 0b11], np.uint8), lut=np.array([1, 2, 4, 8], np.float32), shape=np.array([5, 1, 1, 1], np.uint32))),
     lambda x: x + torch.tensor([1.0, 8, 4, 2, 8]).reshape(5, 1, 1, 1)),
    ("sparse16", 16, {"x": X3}, lambda x: mb.add(x=x, y=mb.constexpr_sparse_to_dense(nonzero_data=np.array([3, 4], np.float32), mask=np.array([0b1100], np.uint8), shape=np.array([5, 1, 1, 1], np.uint32))),
     lambda x: x + torch.tensor([0.0, 0, 3, 4, 0]).reshape(5, 1, 1, 1)),
    ("blockwise18", 18, {"x": X3}, lambda x: mb.add(x=x, y=mb.constexpr_blockwise_shift_scale(data=np.array([[[-8], [1], [2], [3]]]).astype(types.np_int4_dtype), scale=np.array([[[2.0], [4.0]]], np.float32), offset=np.array([[[1], [0]]]).astype(types.np_int4_dtype))),
     lambda x: x + torch.tensor([-18.0, 0, 8, 12])[None, :, None]),
    ("sparse18", 18, {"x": X3[:, :, :2]}, lambda x: mb.add(x=x, y=mb.constexpr_sparse_to_dense(nonzero_data=np.array([3, 4, 5], np.float32), mask=np.array([[[1, 0], [0, 1], [0, 0], [1, 0]]]).astype(types.np_uint1_dtype))),
     lambda x: x + torch.tensor([[3.0, 0], [0, 4], [0, 0], [5, 0]])),
    ("lut18", 18, {"x": X3[:, :, :1]}, lambda x: mb.add(x=x, y=mb.constexpr_lut_to_dense(indices=np.array([[[0], [1]]]).astype(types.np_uint1_dtype), lut=np.array([[[[[1, 2], [3, 4]]]]], np.float32), vector_axis=1)),
     lambda x: x + torch.tensor([1.0, 2, 3, 4])[None, :, None]),
    ("attention", 18, {"x": X4}, lambda x: mb.scaled_dot_product_attention(query=x, key=X4[..., ::-1, :].copy(), value=X4[..., :3].copy()),
     lambda x: F.scaled_dot_product_attention(x, T(X4[..., ::-1, :].copy()), T(X4[..., :3].copy()))),
    ("quantize", 17, {"x": X3}, lambda x: mb.dequantize(input=mb.quantize(input=x, zero_point=np.array([1, 2, 3, 4], np.int8), scale=np.array([0.5, 0.25, 0.01, 1], np.float32), axis=1, output_dtype="int8"), zero_point=np.array([1, 2, 3, 4], np.int8), scale=np.array([0.5, 0.25, 0.01, 1], np.float32), axis=1),
     lambda x: torch.fake_quantize_per_channel_affine(x, torch.tensor([0.5, 0.25, 0.01, 1]), torch.tensor([1, 2, 3, 4]).int(), 1, -128, 127)),
]  # fmt: skip


NEED_DATA = {
    "constexpr_lut_to_dense",
    "constexpr_lut_to_dense_ios18",
    "constexpr_sparse_to_dense",
    "constexpr_sparse_to_dense_ios18",
    "non_zero",
}
"""Kernels whose shapes depend on values, or which only compute constants."""


@pytest.fixture(autouse=True)
def shapes_without_data(monkeypatch: pytest.MonkeyPatch):
    """Run each kernel without data too: its results must have the same shapes."""

    def compare(kernel: Any, arguments: dict[str, Any]) -> None:
        stripped = {n: execution.stripped_of_data(it) for n, it in arguments.items()}
        try:
            shapes = kernel(**stripped)
        except NoDataError:
            assert kernel.__name__ in NEED_DATA
            return
        results = kernel(**arguments)
        results, shapes = (
            list(it) if isinstance(it, tuple) else [it] for it in (results, shapes)
        )
        for result, shape in zip(results, shapes, strict=True):
            if isinstance(result, np.ndarray | np.generic):
                assert shape.shape == result.shape, kernel.__name__
                assert shape.dtype == result.dtype, kernel.__name__

    monkeypatch.setattr(execution, "check_sizes", compare)


@pytest.mark.parametrize(
    ("ios", "inputs", "build", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_op_matches_torch(
    ios: int,
    inputs: dict[str, Array],
    build: Callable[..., Any],
    expected: Callable[..., Any],
    tmp_path: Path,
):
    path = save(tmp_path / "m.mlpackage", build, inputs, ios)

    actual = load(path).predict(inputs)

    wanted = expected(**{name: T(array) for name, array in inputs.items()})
    wanted = wanted if isinstance(wanted, list) else [wanted]
    assert len(actual) == len(wanted)
    for i, value in enumerate(wanted):
        assert actual[f"y{i}"].shape == tuple(value.shape)
        np.testing.assert_allclose(
            actual[f"y{i}"], value.numpy(), rtol=2e-5, atol=2e-6, err_msg=f"output {i}"
        )


def test_defaults_of_optional_inputs_are_the_documented_ones(tmp_path: Path):
    def build(x: Any) -> list[Any]:
        return [
            mb.conv(x=x, weight=numbers(3, 4, 2, 2), pad_type="valid"),
            mb.conv_transpose(x=x, weight=numbers(4, 3, 2, 2)),
            mb.avg_pool(x=x, kernel_sizes=[2, 3], pad_type="valid"),
            mb.batch_norm(x=x, mean=B6[:4], variance=abs(B6[2:])),
            mb.instance_norm(x=x),
            mb.layer_norm(x=x, axes=[0, 1, 2, 3]),
            mb.l2_norm(x=x),
            mb.local_response_norm(x=x, size=3),
            mb.softmax(x=x),
            mb.pad(x=x, pad=[1, 2]),
            mb.inverse(x=x),
            mb.upsample_bilinear(x=x, scale_factor_height=2),
            mb.cumsum(x=x),
            mb.gather(x=x, indices=[1]),
            mb.reduce_mean(x=x),
        ]

    optional = ("strides", "dilations", "groups", "epsilon", "alpha", "beta", "k")
    optional += ("axis", "axes", "mode", "constant_val", "align_corners", "keep_dims")
    optional += ("ceil_mode", "exclude_padding_from_average", "scale_factor_width")
    optional += ("exclusive", "reverse", "gamma", "bias")
    path = save(tmp_path / "m.mlpackage", build, {"x": X4}, without=optional)

    actual = load(path).predict({"x": X4})

    x = T(X4)
    wanted = [
        F.conv2d(x, T(numbers(3, 4, 2, 2))),
        F.conv_transpose2d(x, T(numbers(4, 3, 2, 2))),
        F.avg_pool2d(x, (2, 3), 1),
        F.batch_norm(x, T(B6[:4]), T(abs(B6[2:]))),
        F.instance_norm(x),
        F.layer_norm(x, x.shape),
        x / (x.square().sum((1, 2, 3), keepdim=True) + 1e-6).sqrt(),
        F.local_response_norm(x, 3),
        torch.softmax(x, -1),
        F.pad(x, [1, 2]),
        1 / (x + 1e-4),
        F.interpolate(x, (14, 10), mode="bilinear", align_corners=True),
        x.cumsum(0),
        x[[1]],
        x.mean(),
    ]
    for i, value in enumerate(wanted):
        np.testing.assert_allclose(
            actual[f"y{i}"], value, rtol=3e-5, atol=2e-6, err_msg=str(i)
        )


def test_fp16_is_rounded_at_each_op_unless_asked_not_to(tmp_path: Path):
    x = numbers(3, 5).astype(np.float16)
    path = save(
        tmp_path / "m.mlpackage",
        lambda x: mb.mul(x=mb.exp(x=x), y=np.float16(0.3)),
        {"x": x},
        ios=16,
    )

    rounded = load(path).predict({"x": x})["y0"]
    ideal = load(path, precision="float32").predict({"x": x})["y0"]

    third = np.float32(np.float16(0.3))
    exp = np.exp(x.astype(np.float32))
    assert rounded.dtype == ideal.dtype == np.float16
    step = exp.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(rounded, (step * third).astype(np.float16))
    np.testing.assert_array_equal(ideal, (exp * third).astype(np.float16))
    assert (rounded != ideal).any()


def test_default_epsilon_of_fp16_is_rounded_to_it(tmp_path: Path):
    x = np.zeros(1, np.float16)
    path = save(
        tmp_path / "m.mlpackage",
        lambda x: mb.log(x=x),
        {"x": x},
        ios=16,
        without=("epsilon",),
    )

    assert load(path).predict({"x": x})["y0"] == -np.inf


def test_every_unknown_op_is_listed_at_load(tmp_path: Path):
    def rename(spec: Any) -> None:
        for operation in operations(spec):
            if operation.type in ("relu", "exp"):
                operation.type += "_v2"

    path = save(
        tmp_path / "m.mlpackage",
        lambda x: mb.relu(x=mb.exp(x=mb.relu(x=x, name="a"), name="b"), name="c"),
        {"x": X3},
    )
    edit(path, rename)

    with pytest.raises(UnsupportedError) as raised:
        load(path)

    assert [problem.message for problem in raised.value.problems] == [
        "Core ML evaluator: no op 'relu_v2' (output 'a' and 1 more)",
        "Core ML evaluator: no op 'exp_v2' (output 'b')",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda op: op.inputs["mode"].arguments[0].CopyFrom(text("EXACTLY")),
            r"op 'gelu' \(output 'g'\): input 'mode': 'EXACTLY' is not one of 'EXACT'",
        ),
        (
            lambda op: op.inputs["odd"].arguments.add().CopyFrom(text("EXACT")),
            r"op 'gelu' \(output 'g'\): no input 'odd' is known",
        ),
        (
            lambda op: setattr(op.outputs[0].type.tensorType, "dataType", 13),
            r"a tensor of dtype BFLOAT16, in gelu \(output 'g'\)",
        ),
    ],
)
def test_unknown_value_input_and_dtype_are_refused_at_load(
    change: Callable[[Any], Any], message: str, tmp_path: Path
):
    path = save(tmp_path / "m.mlpackage", lambda x: mb.gelu(x=x, name="g"), {"x": X3})
    edit(path, lambda spec: [change(o) for o in operations(spec) if o.type == "gelu"])

    with pytest.raises(UnsupportedError, match=message):
        load(path)


def text(content: str) -> Any:
    """A binding to a constant string."""
    binding = ct.proto.MIL_pb2.Argument.Binding()
    binding.value.type.tensorType.dataType = 2
    binding.value.immediateValue.tensor.strings.values.append(content)
    return binding


def test_op_takes_only_the_dtypes_it_documents(tmp_path: Path):
    path = save(
        tmp_path / "m.mlpackage",
        lambda x: mb.abs(x=x, name="s"),
        {"x": INTS},
    )

    def rename(spec: Any) -> None:
        for operation in operations(spec):
            operation.type = operation.type.replace("abs", "exp")

    edit(path, rename)

    with pytest.raises(
        UnsupportedError, match=r"'exp' .* must be fp16 or fp32, not tensor"
    ):
        load(path)


@pytest.mark.parametrize(
    ("build", "inputs", "message"),
    [
        (
            lambda x, i: mb.gather(x=x, indices=i, name="g"),
            {"x": X3, "i": np.array([-1], np.int32)},
            r"op 'gather' \(output 'g'\): an index is not in \[0, 2\)",
        ),
        (
            lambda x: mb.pad(x=x, pad=[1, 0, 0, 0, 0, 0], mode="replicate"),
            {"x": X3},
            "replicate of dimension 0 of rank 3",
        ),
    ],
)
def test_values_that_do_not_fit_an_op_name_it(
    build: Callable[..., Any], inputs: dict[str, Array], message: str, tmp_path: Path
):
    path = save(tmp_path / "m.mlpackage", build, inputs, ios=17)

    with pytest.raises(InvalidProgramError, match=message):
        load(path).predict(inputs)


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@pytest.mark.parametrize(
    "x, weight, strides",
    [((1, 2, 5), (2, 2, 3, 3), None), ((1, 2, 5, 5), (2, 2, 3, 3), [1])],
)
def test_convolutions_of_mismatched_ranks(name: str, x: Any, weight: Any, strides: Any):
    convolve = getattr(conv_ops, name)

    with pytest.raises(ValueError, match="spatial dimensions, the weight 2, strides"):
        convolve(torch.ones(x), torch.ones(weight), strides=strides)


@pytest.mark.parametrize("shape", [[], [1], [1, 2, 5, 5], [1, 6, 5]])
def test_output_shapes_that_are_of_no_output(shape: list[int]):
    x, weight = torch.ones(1, 4, 4, 4), torch.ones(4, 3, 2, 2)

    with pytest.raises(ValueError, match="expected 4 sizes, 6 channels"):
        conv_ops.conv_transpose(x, weight, output_shape=shape, groups=2)


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@pytest.mark.parametrize("what", ["strides", "dilations"])
@pytest.mark.parametrize("number", [0, -1])
def test_convolutions_whose_windows_do_not_advance(name: str, what: str, number: int):
    convolve = getattr(conv_ops, name)

    with pytest.raises(ValueError, match=rf"{what} \[1, {number}\]; expected 1 or"):
        convolve(torch.ones(1, 2, 5, 5), torch.ones(2, 2, 3, 3), **{what: [1, number]})


@pytest.mark.parametrize(
    ("padding", "point", "is_known"),
    [
        ("border", 0.5, False),  # 0 or 1
        ("border", 1.5, True),  # a pixel by all rules
        ("border", np.nextafter(np.float32(0.5), np.float32(0)), True),
        ("constant", -0.5, False),  # 0, or outside
        ("border", -0.5, True),
        ("border", np.nan, True),
    ],
)
def test_the_nearest_of_two_equally_near_pixels_is_not_known(
    padding: str, point: float, is_known: bool, tmp_path: Path
):
    x = np.arange(1, 4, dtype=np.float32).reshape(1, 1, 1, 3)
    path = save(
        tmp_path / "m.mlpackage",
        lambda grid: mb.resample(x=x, coordinates=grid, sampling_mode="nearest", padding_mode=padding, padding_value=-1.0, coordinates_mode="unnormalized", align_corners=False),
        {"grid": np.zeros((1, 1, 1, 2), np.float32)},
    )  # fmt: skip
    grid = np.array([point, 0], np.float32).reshape(1, 1, 1, 2)

    if is_known:
        (found,) = load(path).predict({"grid": grid}).values()
        wanted = min(max(np.rint(np.nan_to_num(point)), 0), 2) + 1
        assert found.item() == wanted
    else:
        with pytest.raises(UnsupportedError, match="halfway between two pixels"):
            load(path).predict({"grid": grid})


def test_cast_out_of_range_is_refused(tmp_path: Path):
    path = save(
        tmp_path / "m.mlpackage", lambda x: mb.cast(x=x, dtype="int32"), {"x": X3}
    )

    with pytest.raises(UnsupportedError, match="a value outside of int32"):
        load(path).predict({"x": np.full_like(X3, np.nan)})


def test_ops_take_the_inputs_that_coremltools_documents():
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    for name, versions in OPS.items():
        if name == "write_state":
            continue  # Part of coreml_update_state, which is no op of a program.
        documented = SSAOpRegistry.core_ops[name]
        newest = max(documented, key=lambda target: target.value)
        inputs = documented[newest].input_spec.input_types

        assert set(versions[-1].parameters) - {"result", "blocks"} == {
            name for name in inputs if not name.startswith("_")
        }, name
