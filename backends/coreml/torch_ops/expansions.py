# pyright: basic
"""
Ops of a TorchScript graph that stand for several others.

`nn.MultiheadAttention` and `nn.TransformerEncoderLayer` call one op each in inference
without gradients, which neither coremltools nor PyTorch's decompositions have.
TorchScript's own op for `chunk` is one that coremltools converts only for known sizes.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import torch

from padc.backends.coreml.torch_ops.views import (
    Builder,
    argument,
    location_of,
    nodes_of,
)
from padc.errors import Problem, UnsupportedError

ON_KEYS = 1
"""The `mask_type` of a mask [batch, keys]; others broadcast as they are."""

Expansion = Callable[[Builder, Any], Sequence[Any]]
"""The results of a node by other nodes."""

NESTED = "_nested_tensor_from_"
HINT = (
    "call torch.backends.mha.set_fastpath_enabled(False) before torch.jit.trace, or "
    "convert the program of torch.export.export(model, inputs)"
)


def expand(graph: Any, kept: Container[str] = ()) -> None:
    """
    Replace such nodes in a TorchScript graph that nothing else holds.

    Args:
        graph: The graph, which is changed.
        kept: The kinds that stay, by their names in coremltools' registry.

    Raises:
        UnsupportedError: The graph has nested tensors.
    """
    for node in list(nodes_of(graph)):
        kind = node.kind().rpartition("::")[2].lower()
        if kind in kept:
            continue
        if kind.startswith(NESTED):
            message = f"{node.kind()} makes a nested tensor"
            raise UnsupportedError([Problem(message, location_of(node), HINT)])
        if (expansion := EXPANSIONS.get(node.kind())) is None:
            continue
        made = expansion(Builder(graph, node), node)
        for old, new in zip(node.outputs(), made, strict=True):
            new.setTypeAs(old)
            old.replaceAllUsesWith(new)
        node.destroy()


def expand_chunk(build: Builder, node: Any) -> Sequence[Any]:
    """coremltools has a list for `chunk`, as padc has."""
    chunks, dim = (build.constant(node.i(name)) for name in ("chunks", "dim"))
    parts = build("aten::chunk", node.input(), chunks, dim)
    parts.setType(torch._C.ListType(torch._C.TensorType.get()))
    count = node.outputsSize()
    unpack = build.graph.create("prim::ListUnpack", [parts], count)
    return list(build.add(unpack).outputs())


def expand_attention(build: Builder, node: Any) -> Sequence[Any]:
    query, key, value, size, heads, *weights = node.inputs()
    # PyTorch's modules call it for self-attention only.
    assert query.unique() == key.unique() == value.unique()
    mask, mask_type = weights[4], argument(node, 12)
    average = argument(node, 11)
    result, probabilities = attention(
        build, query, (size, heads), weights[:4], mask, mask_type
    )
    if average:
        over_heads = build.integers([1])
        rest = build.constant(False), build.constant(None)
        probabilities = build("aten::mean", probabilities, over_heads, *rest)
    return result, probabilities


def expand_encoder_layer(build: Builder, node: Any) -> Sequence[Any]:
    x, size, heads, *inputs = node.inputs()
    weights, (_, _, eps), inputs = inputs[:4], inputs[4:7], inputs[7:]
    first, second = inputs[:2], inputs[2:4]
    up, down, mask = inputs[4:6], inputs[6:8], inputs[8]
    gelu, norm_first, mask_type = (argument(node, index) for index in (7, 8, 19))

    def norm(x: Any, weight_and_bias: Sequence[Any]) -> Any:
        sizes = build.list_of([size], torch._C.IntType.get())
        return build(
            "aten::layer_norm", x, sizes, *weight_and_bias, eps, build.constant(False)
        )

    def attend(x: Any) -> Any:
        return attention(build, x, (size, heads), weights, mask, mask_type)[0]

    def feed(x: Any) -> Any:
        x = build("aten::linear", x, *up)
        if gelu:
            x = build("aten::gelu", x, build.constant("none"))
        else:
            x = build("aten::relu", x)
        return build("aten::linear", x, *down)

    def add(x: Any, y: Any) -> Any:
        return build("aten::add", x, y, build.constant(1))

    if norm_first:
        x = add(x, attend(norm(x, first)))
        return [add(x, feed(norm(x, second)))]
    x = norm(add(x, attend(x)), first)
    return [norm(add(x, feed(x)), second)]


def attention(
    build: Builder,
    x: Any,
    size_and_heads: tuple[Any, Any],
    weights: Sequence[Any],
    mask: Any,
    mask_type: int | None,
) -> tuple[Any, Any]:
    """The results of self-attention on [batch, length, size], and its probabilities."""
    size, heads = size_and_heads
    to_all, all_bias, to_result, bias = weights
    split = [build.constant(3), heads, build.constant(-1)]
    shape = build.list_of(split, torch._C.IntType.get())
    parts = build("aten::linear", x, to_all, all_bias)
    parts = build("aten::unflatten", parts, build.constant(-1), shape)
    query, key, value = (
        transposed(build, build("aten::select", parts, build.constant(2), part), 1, 2)
        for part in map(build.constant, range(3))
    )
    scale = (size.toIValue() / heads.toIValue()) ** -0.5
    query = build("aten::mul", query, build.constant(scale))
    scores = build("aten::matmul", query, transposed(build, key, -1, -2))
    if not mask.node().mustBeNone():
        scores = masked(build, scores, mask, mask_type)
    last, none = build.constant(-1), build.constant(None)
    probabilities = build("aten::softmax", scores, last, none)
    result = transposed(build, build("aten::matmul", probabilities, value), 1, 2)
    result = build("aten::flatten", result, build.constant(2), last)
    return build("aten::linear", result, to_result, bias), probabilities


def masked(build: Builder, scores: Any, mask: Any, mask_type: int | None) -> Any:
    """Scores that are -inf where a mask is not 0, as PyTorch's kernel takes it."""
    if mask_type == ON_KEYS:
        for _ in range(2):
            mask = build("aten::unsqueeze", mask, build.constant(1))
    hidden = build("aten::ne", mask, build.constant(0))
    return build("aten::masked_fill", scores, hidden, build.constant(float("-inf")))


def transposed(build: Builder, x: Any, first: int, second: int) -> Any:
    dims = build.constant(first), build.constant(second)
    return build("aten::transpose", x, *dims)


def expand_transpose(build: Builder, node: Any) -> Sequence[Any]:
    """coremltools has no names in capital letters."""
    return [transposed(build, node.input(), -2, -1)]


def expand_adjoint(build: Builder, node: Any) -> Sequence[Any]:
    return [build("aten::conj", transposed(build, node.input(), -2, -1))]


EXPANSIONS: Mapping[str, Expansion] = {
    "aten::mT": expand_transpose,
    **dict.fromkeys(("aten::mH", "aten::matrix_H", "aten::adjoint"), expand_adjoint),
    "aten::_native_multi_head_attention": expand_attention,
    "aten::_transformer_encoder_layer_fwd": expand_encoder_layer,
    "prim::ConstantChunk": expand_chunk,
}
